-- | What starts a program as ranks, on this machine.
module Maru.Bench.Ranks
  ( launchersHere,
  )
where

import System.Directory (findExecutable)

-- | The MPIs that are here, and the words before a program for that many ranks. They begin with what
-- @env@ takes.
launchersHere :: Int -> IO [(String, [String])]
launchersHere ranks = do
  found <- traverse (findExecutable . fst) starts
  pure [start | ((_, start), Just _) <- zip starts found]
  where
    starts = [("mpirun.openmpi", ("Open MPI", asRoot ++ ["mpirun.openmpi"] ++ unbound ++ count)), ("mpirun.mpich", ("MPICH", "mpirun.mpich" : count))]
    asRoot = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
    -- It binds two of them to one core else.
    unbound = ["--oversubscribe", "--bind-to", "none"]
    count = ["-n", show ranks]
