{-# LANGUAGE OverloadedStrings #-}

-- | @map\/calls@: what a call on a few trivial items costs, by fresh forks and by workers that stay.
module MapCalls
  ( callsExperiment,

    -- * Its parts
    callsSides,
    callsTables,
    callsClaims,
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
import Maru.Control.Ratio
import Maru.Control.Statistics

callsExperiment :: Experiment
callsExperiment =
  Experiment
    { experimentName = "map/calls",
      experimentPurpose = "A call on three trivial items, the first and each of many: fresh forks, a pool, sparks",
      experimentRun = run
    }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  rounds <- runRounds effort say (runSide reaper program) (callsSides cores) (const callsClaims)
  let judged = map (judgeClaim rounds) callsClaims
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables = callsTables rounds ++ [("Claims", claimsTable judged)],
        figuresPlots = [],
        figuresData = object ["cores" .= cores, "measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }

-- | What a cold call cannot go below: a fork that does nothing.
bareFork :: String
bareFork = "forkProcess alone"

-- | Name, flags of the run-time system, and how many calls in a row: forks take milliseconds.
ways :: Int -> [(String, [String], Int)]
ways cores = [("map", [], 1000), ("shm", [], 100), ("pool", [], 1000), ("auto", [], 1000), ("parallel", ["+RTS", "-N" ++ show cores], 1000)]

callsSides :: Int -> [Side]
callsSides cores =
  Side bareFork [["fork"]] :
    [ Side (named way n) [["map", "calls", way, show n, "--grain", "3", "--workers", show cores] ++ flags]
      | (way, flags, many) <- ways cores,
        n <- [1, many]
    ]

named :: String -> Int -> String
named way n = way ++ ", " ++ plural n "call"

callsTables :: Rounds -> [(String, Table)]
callsTables rounds =
  [ ( "A call on three trivial items: processor time of caller and workers, and time",
      Table
        [(L, "way"), (R, "CPU, the first"), (R, "CPU, each of many"), (R, "time, the first"), (R, "time, each of many")]
        ( [bareFork, cell (cpuNs 1) bareFork, "-", cell (wallOf 1) bareFork, "-"] :
            [ [way, cell (cpuNs 1) (named way 1), cell (cpuNs many) (named way many), cell (wallOf 1) (named way 1), cell (wallOf many) (named way many)]
              | (way, _, many) <- ways 0
            ]
        )
    )
  ]
  where
    cell metric name = maybe "-" (seconds . (* 1e-9) . summaryMedian) (summaryOf metric rounds name)

-- | For each of so many calls.
cpuNs, wallOf :: Int -> Sample -> Maybe Double
cpuNs n sample = (\own theirs -> (own + theirs) / fromIntegral n) <$> number ["meter", "cpu_self_ns"] sample <*> number ["meter", "cpu_children_ns"] sample
wallOf n = fmap (/ fromIntegral n) . wallNs

callsClaims :: [Claim]
callsClaims =
  [ paired "pool: µs of processor time of a warm call" (AtMost 100) (\all' first' -> Just ((all' - first') / 999 / 1e3)) (cpuNs 1) (cpuNs 1) (named "pool" 1000) (named "pool" 1),
    paired "shm: ms of processor time of a cold call, beyond map's" (AtMost 1) (\own plain -> Just ((own - plain) / 1e6)) (cpuNs 1) (cpuNs 1) (named "shm" 1) (named "map" 1)
  ]
