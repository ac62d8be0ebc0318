{-# LANGUAGE OverloadedStrings #-}

-- | @map\/seedlog@: the first design's one log for all workers beside one log
-- per worker, fast and after a killed writer.
module MapSeedlog
  ( seedlogExperiment,
  )
where

import Data.Aeson (Value)
import Data.List.NonEmpty (nonEmpty)
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Text (Text)
import Maru.Bench.Experiment
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Statistics

seedlogExperiment :: Experiment
seedlogExperiment =
  Experiment
    { experimentName = "map/seedlog",
      experimentPurpose = "One shared log (Last, Count) beside one log per worker: throughput, and what a killed writer leaves",
      experimentRun = run
    }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "seedlog"
  say "throughput, then writers killed at random moments"
  sample <- runTool reaper program (if effort == Quick then ["200000", "100"] else ["2000000", "1000"])
  let throughput = fromMaybe [] (at ["throughput"] sample) :: [Value]
      killed = fromMaybe [] (at ["killed_writers"] sample) :: [Value]
      rates field n = summarise <$> nonEmpty [r | v <- throughput, number ["producers"] v == Just n, Just r <- [number [field] v]]
      sumOf field = round (sum (mapMaybe (number [field]) killed)) :: Int
  pure
    Figures
      { figuresLine =
          "a writer killed at a random moment blocks the shared log's reader in " ++ show (sumOf "shared_blocked") ++ " of " ++ show (sumOf "trials")
            ++ " trials, the reader of one log per worker in "
            ++ show (sumOf "own_blocked"),
        figuresTables =
          [ ( "Million records of 64 bytes a second through one reader",
              Table
                [(R, "producers"), (R, "one shared log"), (R, "a log per worker")]
                [[show (round n :: Int), rate (rates "shared" n), rate (rates "own" n)] | n <- producers]
            ),
            ( "One of two writers killed: trials in which the reader cannot reach what the other one committed",
              Table
                [(L, "writers"), (R, "trials"), (R, "shared: blocked"), (R, "records out of reach"), (R, "per worker: blocked"), (R, "records out of reach")]
                [fromMaybe "" (at ["writers"] v) : map (whole v) ["trials", "shared_blocked", "shared_unreachable", "own_blocked", "own_unreachable"] | v <- killed]
            )
          ],
        figuresPlots =
          [ Plot
              "Records through one reader"
              (Axis "producers" Linear)
              (Axis "million a second" Linear)
              [Series name [point n (million s) | n <- producers, Just s <- [rates field n]] | (name, field) <- [("one shared log", "shared"), ("a log per worker", "own")]]
          ],
        figuresData = sample
      }
  where
    producers = [1, 2, 4]
    rate = maybe "-" (\s -> let m = million s in fixed 1 (summaryMedian m) ++ " (" ++ fixed 1 (summaryLeast m) ++ "…" ++ fixed 1 (summaryMost m) ++ ")")
    million s = Summary (summaryMedian s / 1e6) (summaryLeast s / 1e6) (summaryMost s / 1e6) (summaryCount s)
    whole :: Value -> Text -> String
    whole v field = maybe "-" (show . (round :: Double -> Int)) (number [field] v)
