{-# LANGUAGE OverloadedStrings #-}

-- | @map\/cluster@: what ranks on one machine cost, against forked workers of one process.
module MapCluster
  ( clusterExperiment,
  )
where

import Data.Aeson (object, (.=))
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics
import System.Directory (findExecutable)

clusterExperiment :: Experiment
clusterExperiment =
  Experiment
    { experimentName = "map/cluster",
      experimentPurpose = "All pairs of the checker by four ranks of mpirun, against forked workers of one process",
      experimentRun = run
    }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  found <- traverse findExecutable ["mpirun.openmpi", "mpirun.mpich"]
  let here = [(name, start) | ((name, start), Just _) <- zip launchers found]
      size = 120 :: Int
      plain = Side shm [["map", "similar", "shm", show size, "--workers", show cores]]
      travelling = Side travels [["far", show size, "shm"]]
      ranks = [Side (byRanks name) [start ++ [program, "far", show size, "mpi"]] | (name, start) <- here]
      measure side
        | sideName side `elem` map sideName ranks = runSide reaper "env" side
        | otherwise = runSide reaper program side
      claims = [ratio (byRanks name ++ ": wall time over that of shm's") (AtMost 1.15) wallNs (byRanks name) shm | (name, _) <- here]
  if null here then problem unavailable "neither Open MPI nor MPICH is here" else pure ()
  rounds <- runRounds effort say measure ([plain, travelling] ++ ranks) (const claims)
  let judged = map (judgeClaim rounds) claims
      cell name = maybe "-" (seconds . (* 1e-9) . summaryMedian) (summaryOf wallNs rounds name)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ("All pairs of " ++ show size ++ " programs", Table [(L, "by"), (R, "time")] [[name, cell name] | name <- [shm, travels] ++ map sideName ranks]),
            ("Claims", claimsTable judged)
          ],
        figuresPlots = [],
        figuresData = object ["cores" .= cores, "measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }

shm, travels :: String
shm = "shm"
travels = "shm, the function travels"

byRanks :: String -> String
byRanks name = "four ranks, " ++ name

-- | What starts four ranks. Open MPI binds two of them to one core else.
launchers :: [(String, [String])]
launchers =
  [ ("Open MPI", root ++ ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "4"]),
    ("MPICH", root ++ ["mpirun.mpich", "-n", "4"])
  ]
  where
    root = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
