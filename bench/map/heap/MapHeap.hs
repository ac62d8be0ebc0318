{-# LANGUAGE OverloadedStrings #-}

-- | @map\/heap@: what live data of the caller costs a map on forked workers, a worker
-- a core, beside the bare forks of the same process: page tables are copied, and
-- nothing else should be.
module MapHeap
  ( heapExperiment,
  )
where

import Data.Aeson (object, (.=))
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio

heapExperiment :: Experiment
heapExperiment =
  Experiment
    { experimentName = "map/heap",
      experimentPurpose = "A live heap of the caller: what it costs, beside bare forks of the same process",
      experimentRun = run
    }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  workers <- max 2 <$> getNumProcessors
  rounds <- runRounds effort say (runSide reaper program) (map (sideOf effort workers) heaps) (const claims)
  let judged = map (judgeClaim rounds) claims
      cell metric = spreadOf metric rounds
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ( "build on " ++ show workers ++ " workers, by live heap (ms)",
              Table
                [(R, "MiB live"), (R, "wall"), (R, "bare forks"), (R, "wall without"), (R, "caller collects"), (R, "its collections")]
                [ show heap : map (`cell` named heap) [fmap ms . wallNs, fmap ms . forksNs, fmap ms . beyondForks, fmap ms . number ["meter", "gc_ns"], number ["meter", "gcs"]]
                  | heap <- heaps
                ]
            ),
            ("Claims", claimsTable judged)
          ],
        figuresPlots =
          [ Plot
              "One fork of the caller"
              (Axis "live heap, MiB" Linear)
              (Axis "ms" Linear)
              [ Series
                  "fork"
                  [point (fromIntegral heap) s | heap <- heaps, Just s <- [summaryOf (fmap (ms . (/ fromIntegral workers)) . forksNs) rounds (named heap)]]
              ],
            Plot
              ("build on " ++ show workers ++ " workers")
              (Axis "live heap of the caller, MiB" Linear)
              (Axis "ms" Linear)
              [ Series name [point (fromIntegral heap) s | heap <- heaps, Just s <- [summaryOf (fmap ms . metric) rounds (named heap)]]
                | (name, metric) <- [("shm", wallNs), ("without bare forks", beyondForks), ("bare forks", forksNs)]
              ]
          ],
        figuresData = object ["measured" .= roundsJson rounds, "workers" .= workers, "claims" .= map claimJson judged]
      }
  where
    heaps = if effort == Quick then [0, 64] else [0, 64, 256, 1024]
    ms = (* 1e-6)
    claims =
      [ ratio ("build beside " ++ show heap ++ " MiB, without bare forks, times the one beside nothing") (AtMost 1.05) beyondForks (named heap) (named 0)
        | heap <- drop 1 heaps
      ]

-- | The bare forks are made before the map, by the same process.
sideOf :: Effort -> Int -> Int -> Side
sideOf effort workers heap =
  Side
    (named heap)
    [["map", "build", "shm", show size, "--workers", show workers, "--heap", show heap, "--forks", show workers]]
  where
    size = (if effort == Quick then 3 else 24) * workers

named :: Int -> String
named heap = "shm " ++ show heap ++ " MiB"

forksNs, beyondForks :: Sample -> Maybe Double
forksNs = number ["forks_ns"]
beyondForks sample = (-) <$> wallNs sample <*> forksNs sample
