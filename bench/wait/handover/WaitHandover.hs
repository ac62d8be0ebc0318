{-# LANGUAGE OverloadedStrings #-}

-- | @handover@: what a hand-over costs by each way to wait, by the length of the wait.
module WaitHandover
  ( handoverExperiment,
  )
where

import Data.Aeson (object, (.=))
import Data.List (intercalate)
import Maru.Bench.Experiment
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Cli.Room.Wait.Handover
import Maru.Control.Plot
import Maru.Control.Statistics
import Maru.Native.Probe (waitPolicies)

handoverExperiment :: Experiment
handoverExperiment =
  Experiment
    { experimentName = "handover",
      experimentPurpose = "time from the change of a word to the return of the wait for it, for each waiting policy and length of the wait (median, 5th and 95th percentile)",
      experimentRun = runHandover
    }

runHandover :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
runHandover _ effort say = do
  known <- waitPolicies
  measured <- concat <$> mapM (at (zip [0 ..] known)) pauses
  pure (figures known measured)
  where
    rounds = if effort == Quick then 100 else 2000
    pauses = [1000, 5000, 20000, 100000, 500000] :: [Int]
    at numbered pause = do
      say ("waits of " ++ nanoseconds (fromIntegral pause))
      zip (repeat pause) <$> handoversOf numbered pause rounds

figures :: [String] -> [(Int, (String, Summary))] -> Figures
figures names measured =
  Figures
    { figuresLine = case measured of
        [] -> "nothing could be measured"
        _ -> "hand-over after a wait of 1 µs: " ++ intercalate ", " [n ++ " " ++ nanoseconds (summaryMedian s) | (1000, (n, s)) <- measured],
      figuresTables = [("Hand-over by policy and length of the wait", Table heads rows)],
      figuresPlots = [Plot "Hand-over of a word" (Axis "length of the wait, µs" Logarithmic) (Axis "from change to return, µs" Logarithmic) series],
      figuresData =
        object
          [ "unit" .= ("ns" :: String),
            "rows"
              .= [ object
                     [ "policy" .= n,
                       "wait" .= pause,
                       "median" .= summaryMedian s,
                       "p05" .= summaryLeast s,
                       "p95" .= summaryMost s,
                       "rounds" .= summaryCount s
                     ]
                   | (pause, (n, s)) <- measured
                 ]
          ]
    }
  where
    heads = [(L, "policy"), (R, "wait"), (R, "median"), (R, "5 %"), (R, "95 %"), (R, "rounds")]
    rows =
      [ [n, nanoseconds (fromIntegral pause), nanoseconds (summaryMedian s), nanoseconds (summaryLeast s), nanoseconds (summaryMost s), show (summaryCount s)]
        | name <- names,
          (pause, (n, s)) <- measured,
          n == name
      ]
    series =
      [ Series name [Point (fromIntegral pause / 1000) (micro summaryMedian s) (micro summaryLeast s) (micro summaryMost s) | (pause, (n, s)) <- measured, n == name]
        | name <- names
      ]
    micro f s = f s / 1000
