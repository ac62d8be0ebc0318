{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/mwrl@: every lock under a twin of FxMark's MWRL, throughput against
-- tail. The method is at the top of @bench\/lock\/mwrl.c@.
module Maru.Cli.Bench.Lock
  ( lockExperiments,
  )
where

import Data.Aeson (Value)
import Data.List (isPrefixOf)
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Text (Text)
import Maru.Cli.Bench.Lock.Overlay (overlayExperiment)
import Maru.Cli.Bench.Lock.Profile (profileExperiments)
import Maru.Cli.Bench.Lock.Programs (programsExperiments)
import Maru.Cli.Bench.Side
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Plot
import Numeric (showFFloat)

lockExperiments :: [Experiment]
lockExperiments =
  [ Experiment
      { experimentName = "lock/mwrl",
        experimentPurpose = "24 threads rename in one table: throughput, waits and fairness of every lock; the ranges of seed 5, deadlines",
        experimentRun = run
      },
    overlayExperiment
  ]
    ++ profileExperiments
    ++ programsExperiments

run :: Effort -> (String -> IO ()) -> IO Figures
run effort say = do
  program <- helperPath "maru-bench-lock"
  say "each lock in turn"
  sample <- runTool program ["-v", "2x1", "-s", if effort == Quick then "0.2" else "3"]
  let runs = fromMaybe [] (at ["runs"] sample) :: [Value]
  pure
    Figures
      { figuresLine = verdict runs (at ["virtual"] sample),
        figuresTables = [("24 threads, one table; waits from request to acquisition", table runs)],
        figuresPlots = [plot runs],
        figuresData = sample
      }

verdict :: [Value] -> Maybe Bool -> String
verdict runs virtual = show finished ++ " of " ++ show (length runs) ++ " locks came to an end" ++ sockets
  where
    finished = length (filter (fromMaybe False . at ["finished"]) runs)
    sockets = if virtual == Just True then "; the sockets are imagined: no figure here says what a hand-over between sockets costs" else ""

table :: [Value] -> Table
table runs =
  Table
    [(L, "lock"), (R, "million/s"), (R, "p50"), (R, "p99"), (R, "p99.9"), (R, "max"), (R, "worst 1 %"), (R, "Jain"), (R, "overtaken"), (R, "bypassed")]
    (map row runs)
  where
    row r =
      fromMaybe "" (at ["lock"] r) :
      maybe "-" (fixed 3 . (/ 1e6)) (number ["per_second"] r) :
      map (wait r) ["p50", "p99", "p99_9", "max", "cvar_1"]
        ++ [maybe "-" (fixed 3) (number ["jain"] r), whole r "longest_overtaken", whole r "longest_bypass"]
    wait r field = maybe "-" (seconds . (* 1e-9)) (number ["wait_ns", field] r)
    whole r field = maybe "-" (show . (round :: Double -> Integer)) (number [field] r)
    fixed digits v = showFFloat (Just digits) (v :: Double) ""

plot :: [Value] -> Plot
plot runs =
  Plot
    "Throughput against tail"
    (Axis "mean of the worst 1 % of waits, us" Logarithmic)
    (Axis "million operations a second" Linear)
    [ Series name (mapMaybe place (filter (among . nameOf) runs))
      | (name, among) <-
          [ ("cna, 0x10000 to 0x100", ("cna:range" `isPrefixOf`)),
            ("the same, shuffle 1/128", ("cna:shuffle_reduction" `isPrefixOf`)),
            ("cna, deadline 1 ms to 25 us", ("cna:deadline" `isPrefixOf`)),
            ("mcs", (== "mcs")),
            ("pthread", (== "pthread"))
          ]
    ]
  where
    nameOf r = fromMaybe "" (at ["lock"] r) :: String
    place r = do
      tail1 <- number ["wait_ns" :: Text, "cvar_1"] r
      rate <- number ["per_second"] r
      Just (Point (tail1 / 1e3) (rate / 1e6) (rate / 1e6) (rate / 1e6))
