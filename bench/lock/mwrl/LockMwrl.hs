{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/mwrl@: every lock under a twin of FxMark's MWRL, throughput against
-- tail. The method is at the top of @mwrl.c@.
module LockMwrl
  ( mwrlExperiment,

    -- * For tests
    againstTail,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.List (isPrefixOf)
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Text (Text)
import Maru.Bench.Experiment
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot

mwrlExperiment :: Experiment
mwrlExperiment =
  Experiment
    { experimentName = "lock/mwrl",
      experimentPurpose = "24 threads, and processes, rename in one table: throughput, waits and fairness of every lock, saturated and under less load; the ranges of seed 5, deadlines",
      experimentRun = run
    }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-lock"
  let measure more = runTool reaper program (["-v", "2x1", "-s", if effort == Quick then "0.2" else "3"] ++ more)
  say "each lock in turn, saturated"
  threads <- measure []
  say "the locks between processes"
  processes <- measure ["-p"]
  say "less load"
  loads <- mapM (\us -> (,) us <$> measure (["-w", us] ++ underLoad)) pauses
  pure
    Figures
      { figuresLine = verdict (concatMap runsOf (threads : processes : map snd loads)) (at ["virtual"] threads),
        figuresTables =
          [ ("24 threads, one table, nothing in between: saturated; waits from request to acquisition", table (runsOf threads)),
            ("24 processes instead", table (runsOf processes)),
            ("24 threads that compute between two renames; waited: requests that waited for more than 1 us", loadTable (("0", threads) : loads))
          ],
        figuresPlots = [againstTail "Throughput against tail" (runsOf threads), againstTail "Throughput against tail, processes" (runsOf processes)],
        figuresData = object ["saturated" .= threads, "processes" .= processes, "loads" .= map snd loads]
      }

-- | Microseconds of computing between two renames, the least first; none is the saturated lock.
pauses :: [String]
pauses = ["2", "20", "200"]

underLoad :: [String]
underLoad = ["pthread", "mcs", "cna:handoff_range=0x10000", "cna:deadline=25us"]

runsOf :: Sample -> [Value]
runsOf = fromMaybe [] . at ["runs"]

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
      rate r :
      map (wait r) ["p50", "p99", "p99_9", "max", "cvar_1"]
        ++ [maybe "-" (fixed 3) (number ["jain"] r), whole r "longest_overtaken", whole r "longest_bypass"]
    whole r field = maybe "-" (show . (round :: Double -> Integer)) (number [field] r)

-- | A block of rows for each load.
loadTable :: [(String, Sample)] -> Table
loadTable loads =
  Table
    [(R, "pause, us"), (L, "lock"), (R, "waited"), (R, "million/s"), (R, "p99.9"), (R, "max"), (R, "worst 1 %")]
    [pause : row r | (pause, sample) <- loads, r <- runsOf sample, fromMaybe "" (at ["lock"] r) `elem` underLoad]
  where
    row r = [fromMaybe "" (at ["lock"] r), maybe "-" ((++ " %") . fixed 0 . (* 100)) (number ["waited"] r), rate r] ++ map (wait r) ["p99_9", "max", "cvar_1"]

rate :: Value -> String
rate = maybe "-" (fixed 3 . (/ 1e6)) . number ["per_second"]

wait :: Value -> Text -> String
wait r field = maybe "-" (seconds . (* 1e-9)) (number ["wait_ns", field] r)

-- | Throughput against tail, a series for each knob that was measured.
againstTail :: String -> [Value] -> Plot
againstTail title runs =
  Plot
    title
    (Axis "mean of the worst 1 % of waits, us" Logarithmic)
    (Axis "million operations a second" Linear)
    [ Series name points
      | (name, among) <-
          [ ("cna, 0x10000 to 0x100", ("cna:handoff_range" `isPrefixOf`)),
            ("the same, shuffle 1/128", ("cna:shuffle_reduction" `isPrefixOf`)),
            ("cna, deadline 1 ms to 25 us", ("cna:deadline" `isPrefixOf`)),
            ("mcs", (== "mcs")),
            ("pthread", (== "pthread"))
          ],
        let points = mapMaybe place (filter (among . nameOf) runs),
        not (null points)
    ]
  where
    nameOf r = fromMaybe "" (at ["lock"] r) :: String
    place r = do
      worst <- number ["wait_ns", "cvar_1"] r
      perSecond <- number ["per_second"] r
      Just (Point (worst / 1e3) (perSecond / 1e6) (perSecond / 1e6) (perSecond / 1e6))
