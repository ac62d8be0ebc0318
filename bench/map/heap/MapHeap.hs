{-# LANGUAGE OverloadedStrings #-}

-- | @map\/heap@: what live data of the caller costs a map on forked workers, a worker
-- a core, beside the bare forks of the same process: page tables are copied, and
-- nothing else should be.
module MapHeap
  ( heapExperiment,

    -- * Its parts
    heapSides,
    heapTables,
    heapPlots,
    heapClaims,
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
  let (heaps, items) = if effort == Quick then ([0, 64], 3) else ([0, 64, 256, 1024], 24)
  rounds <- runRounds effort say (runSide reaper program) (heapSides items workers heaps) (const (heapClaims heaps))
  let judged = map (judgeClaim rounds) (heapClaims heaps)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables = heapTables workers heaps rounds ++ [("Claims", claimsTable judged)],
        figuresPlots = heapPlots workers heaps rounds,
        figuresData = object ["measured" .= roundsJson rounds, "workers" .= workers, "claims" .= map claimJson judged]
      }

-- | So many items a worker, so many workers, beside so many MiB each. The bare forks are made before
-- the map, by the same process.
heapSides :: Int -> Int -> [Int] -> [Side]
heapSides items workers heaps =
  [ Side (named heap) [["map", "build", "shm", show (items * workers), "--workers", show workers, "--heap", show heap, "--forks", show workers]]
    | heap <- heaps
  ]

heapTables :: Int -> [Int] -> Rounds -> [(String, Table)]
heapTables workers heaps rounds =
  [ ( "build on " ++ show workers ++ " workers, by live heap (ms)",
      Table
        [(R, "MiB live"), (R, "wall"), (R, "bare forks"), (R, "wall without"), (R, "caller collects"), (R, "its collections")]
        [ show heap : [spreadOf metric rounds (named heap) | metric <- [fmap ms . wallNs, fmap ms . forksNs, fmap ms . beyondForks, fmap ms . number ["meter", "gc_ns"], number ["meter", "gcs"]]]
          | heap <- heaps
        ]
    )
  ]

heapPlots :: Int -> [Int] -> Rounds -> [Plot]
heapPlots workers heaps rounds =
  [ Plot
      "One fork of the caller"
      (Axis "live heap, MiB" Linear)
      (Axis "ms" Linear)
      [Series "fork" (points (fmap (ms . (/ fromIntegral workers)) . forksNs))],
    Plot
      ("build on " ++ show workers ++ " workers")
      (Axis "live heap of the caller, MiB" Linear)
      (Axis "ms" Linear)
      [Series name (points (fmap ms . metric)) | (name, metric) <- [("shm", wallNs), ("without bare forks", beyondForks), ("bare forks", forksNs)]]
  ]
  where
    points metric = [point (fromIntegral heap) s | heap <- heaps, Just s <- [summaryOf metric rounds (named heap)]]

-- | Each but the first, against the first.
heapClaims :: [Int] -> [Claim]
heapClaims heaps =
  [ ratio ("build beside " ++ show heap ++ " MiB, without bare forks, times the one beside " ++ show least) (AtMost 1.05) beyondForks (named heap) (named least)
    | least : more <- [heaps],
      heap <- more
  ]

named :: Int -> String
named heap = "shm " ++ show heap ++ " MiB"

ms :: Double -> Double
ms = (* 1e-6)

forksNs, beyondForks :: Sample -> Maybe Double
forksNs = number ["forks_ns"]
beyondForks sample = (-) <$> wallNs sample <*> forksNs sample
