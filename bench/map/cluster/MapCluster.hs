{-# LANGUAGE OverloadedStrings #-}

-- | @map\/cluster@: what ranks on one machine cost, against forked workers of one process.
module MapCluster
  ( clusterExperiment,
  )
where

import Data.Aeson (object, (.=))
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Ranks
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics

clusterExperiment :: Experiment
clusterExperiment =
  Experiment
    { experimentName = "map/cluster",
      experimentPurpose = "All pairs of the checker by four ranks of mpirun, against forked workers of one process",
      experimentRun = run
    }

-- | Programs: a class, whose comparison is over before a cluster's start would be; and all that a
-- course of fifty hands in for eight assignments, some seconds of a core.
class', course :: Int
class' = 120
course = 400

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  here <- launchersHere 4
  if null here then problem unavailable "neither Open MPI nor MPICH is here" else pure ()
  let sizes = if effort == Quick then [class'] else [class', course]
      sidesOf size =
        Side (shm size) [[program, "map", "similar", "shm", show size, "--workers", show cores]] :
        Side (travels size) [[program, "far", "similar", "shm", show size]] :
          [Side (byRanks size name) [start ++ [program, "far", "similar", "mpi", show size]] | (name, start) <- here]
      claimsOf size = [ratio (byRanks size name ++ ": wall time over that of shm's") (AtMost 1.15) wallNs (byRanks size name) (shm size) | (name, _) <- here]
  rounds <- runRoundsOfEach effort say (runSide reaper "env") [(plural size "program", sidesOf size, const (claimsOf size)) | size <- sizes]
  let judged = concat [map (judgeClaim measured) (claimsOf size) | (size, measured) <- zip sizes rounds]
      cell measured name = maybe "-" (seconds . (* 1e-9) . summaryMedian) (summaryOf wallNs measured name)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ("All pairs of " ++ plural size "program", Table [(L, "by"), (R, "time")] [[sideName side, cell measured (sideName side)] | side <- sidesOf size])
            | (size, measured) <- zip sizes rounds
          ]
            ++ [("Claims", claimsTable judged)],
        figuresPlots = [],
        figuresData = object ["cores" .= cores, "measured" .= map roundsJson rounds, "claims" .= map claimJson judged]
      }

shm, travels :: Int -> String
shm size = "shm, " ++ show size
travels size = "shm, the function travels, " ++ show size

byRanks :: Int -> String -> String
byRanks size name = "four ranks, " ++ name ++ ", " ++ show size
