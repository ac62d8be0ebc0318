{-# LANGUAGE OverloadedStrings #-}

-- | What the wait room measures of MPI programs that know nothing of it: more ranks
-- than CPUs, and small messages where nobody waits for a CPU. The method is in @bench\/boost\/README.md@.
module BoostMpi
  ( mpiExperiments,

    -- * Its jobs
    Mpi (..),
    mpiTitle,
    mpiPrograms,
    mpiJob,
    frontOfAll,
    timesIdeal,
  )
where

import Control.Monad (filterM, when)
import Data.Aeson (object, (.=))
import Data.Maybe (isJust)
import Data.String (fromString)
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Installed (commandPath, helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import System.Directory (doesFileExist, findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath (takeDirectory, (</>))
import System.Process (proc, readProcessWithExitCode)

mpiExperiments :: [Experiment]
mpiExperiments =
  [ experiment "boost/mpi-ring" "MPI, 8 ranks: 200 µs of computing, then 4 KiB round the ring; times the ideal" "ring" 5,
    experiment "boost/mpi-reduce" "MPI, 8 ranks: 200 µs of computing, then MPI_Allreduce of one number; times the ideal" "allreduce" 10,
    experiment "boost/mpi-halo" "MPI, 8 ranks: 50 to 350 µs of computing, then 1 KiB to and from both neighbours, each fourth time MPI_Allreduce; held back when the waits were tuned; times the ideal" "halo" 5,
    small "boost/mpi-small" "MPI, 2 ranks and nobody else: operations on 8 bytes; microseconds" "8",
    small "boost/mpi-small-4k" "MPI, 2 ranks and nobody else: operations on 4 KiB; microseconds" "4096"
  ]

data Mpi = OpenMpi | Mpich
  deriving (Eq, Show, Enum, Bounded)

data Way = Way
  { wayMpi :: !Mpi,
    wayOurs :: !Bool,
    wayHogs :: !Bool
  }
  deriving (Eq)

-- | Its program is named by what its launcher is called in Debian.
suffix :: Mpi -> String
suffix OpenMpi = "openmpi"
suffix Mpich = "mpich"

mpiTitle :: Mpi -> String
mpiTitle OpenMpi = "Open MPI"
mpiTitle Mpich = "MPICH"

wayName :: Way -> String
wayName (Way mpi ours hogs) = kind ++ (if hogs then ", a hog a CPU" else "")
  where
    kind = case (mpi, ours) of
      (OpenMpi, False) -> mpiTitle mpi ++ ", oversubscribe mode"
      (Mpich, False) -> mpiTitle mpi
      (_, True) -> mpiTitle mpi ++ ", --wait adaptive"

ways :: [Way]
ways = [Way mpi ours hogs | (mpi, hogs) <- [(Mpich, False), (OpenMpi, False), (OpenMpi, True)], ours <- [False, True]]

-- | @mpiJob maru mpi ours ranks words@: a program and its arguments on so many ranks of this machine.
mpiJob :: FilePath -> Mpi -> Bool -> Int -> [String] -> [String]
mpiJob maru mpi ours ranks words' = [word | ours, word <- [maru, "run", "--wait", "adaptive", "--"]] ++ launch ++ [show ranks] ++ words'
  where
    launch = case mpi of
      -- Without --bind-to none it would put all ranks on the CPUs of its choice. As root, which
      -- measures a machine that is its own, it would refuse without being told.
      OpenMpi -> ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n"]
      Mpich -> ["mpirun.mpich", "-n"]

experiment :: String -> String -> String -> Double -> Experiment
experiment name purpose kind bar =
  Experiment
    { experimentName = name,
      experimentPurpose = purpose,
      experimentRun = \reaper effort say -> do
        maru <- commandPath
        cpus <- getNumProcessors
        programs <- builtOf "mpi_loop"
        let those = [(way, mpiJob maru (wayMpi way) (wayOurs way) 8 [program, kind, "200", "154"]) | way <- ways, Just program <- [lookup (wayMpi way) programs]]
            sides = [Side (wayName way) [words'] | (way, words') <- those]
            hogs side = if sideName side `elem` [wayName way | (way, _) <- those, wayHogs way] then cpus else 0
            measure side = withHogs reaper (hogs side) (runWords reaper (concat (sideProcesses side)))
            claims = filter (all (`elem` map sideName sides) . claimSides) (claimsFor bar)
        rounds <- runRounds effort say measure sides (const claims)
        pure (figuresOf sides rounds (map (judgeClaim rounds) claims))
    }

-- | The program of each MPI that is here.
mpiPrograms :: String -> IO [(Mpi, FilePath)]
mpiPrograms program = filterM (present program) [minBound ..] >>= mapM (\m -> (,) m <$> helperPath (program ++ "-" ++ suffix m))

-- | Beside the daemon, which is always built.
present :: String -> Mpi -> IO Bool
present program mpi = do
  launcher <- findExecutable ("mpirun." ++ suffix mpi)
  folder <- takeDirectory <$> helperPath "maru-boost"
  built <- doesFileExist (folder </> (program ++ "-" ++ suffix mpi))
  pure (isJust launcher && built)

-- | The program of each MPI that is here; one at least.
builtOf :: String -> IO [(Mpi, FilePath)]
builtOf program = do
  here <- mpiPrograms program
  when (null here) $ problem unavailable "neither Open MPI nor MPICH is here with the program that is measured"
  pure here

-- | That many processes that only compute, meanwhile; they end by themselves if nobody can end
-- them.
withHogs :: Reaper -> Int -> IO a -> IO a
withHogs reaper count act = inGroups reaper (replicate count hog) (const act)
  where
    hog = proc "timeout" ["60", "sh", "-c", "while :; do :; done"]

claimsFor :: Double -> [Claim]
claimsFor bar =
  [ against (AtLeast bar) (Way Mpich False False) (Way Mpich True False),
    against (AtMost 1.05) (Way OpenMpi True False) (Way OpenMpi False False),
    against (AtLeast 2) (Way OpenMpi False True) (Way OpenMpi True True)
  ]
  where
    against b left right = ratio (wayName left ++ " / " ++ wayName right) b timesIdeal (wayName left) (wayName right)

-- | Without maru and with it, two ranks on CPUs that are theirs.
small :: String -> String -> String -> Experiment
small name purpose bytes =
  Experiment
    { experimentName = name,
      experimentPurpose = purpose,
      experimentRun = \reaper effort say -> do
        maru <- commandPath
        programs <- builtOf "mpi_small"
        front <- frontOfAll
        let those = [(way, mpiJob maru mpi ours 2 (front ++ [program, bytes, "1000"])) | (mpi, program) <- programs, ours <- [False, True], let way = Way mpi ours False]
            sides = [Side (smallName way) [words'] | (way, words') <- those]
            measure side = runWords reaper (concat (sideProcesses side))
            claims = [smallClaim mpi operation | (mpi, _) <- programs, operation <- operations]
        rounds <- runRounds effort say measure sides (const claims)
        pure (smallFigures sides rounds (map (judgeClaim rounds) claims))
    }

-- | What keeps other programs of a shared machine off the ranks' CPUs, where we may: the real-time
-- class. A run lasts for a fraction of the second after which the kernel takes the CPU back.
frontOfAll :: IO [String]
frontOfAll = do
  cpus <- getNumProcessors
  found <- findExecutable "chrt"
  permitted <- maybe (pure False) (\chrt -> succeeds <$> readProcessWithExitCode chrt (first ++ ["true"]) "") found
  pure [word | cpus >= 2, permitted, word <- "chrt" : first]
  where
    first = ["--fifo", "1"]
    succeeds (status, _, _) = status == ExitSuccess

smallName :: Way -> String
smallName way = mpiTitle (wayMpi way) ++ (if wayOurs way then ", --wait adaptive" else "")

-- | As the program names them.
operations :: [String]
operations = ["barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall", "pingpong", "sendrecv"]

smallClaim :: Mpi -> String -> Claim
smallClaim mpi operation = ratio (operation ++ ": " ++ ours ++ " / " ++ alone) (AtMost 1.05) (microseconds operation) ours alone
  where
    ours = smallName (Way mpi True False)
    alone = smallName (Way mpi False False)

microseconds :: String -> Sample -> Maybe Double
microseconds operation = number [fromString operation]

smallFigures :: [Side] -> Rounds -> [Judged] -> Figures
smallFigures sides rounds judged =
  Figures
    { figuresLine = claimsLine judged,
      figuresTables =
        [ ("Microseconds an operation, median of the rounds (least…most)", Table ((L, "operation") : [(R, sideName s) | s <- sides]) [operation : [spreadOf (microseconds operation) rounds (sideName s) | s <- sides] | operation <- operations]),
          ("Claims", claimsTable judged)
        ],
      figuresPlots = [],
      figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
    }

timesIdeal :: Sample -> Maybe Double
timesIdeal = number ["times_ideal"]

figuresOf :: [Side] -> Rounds -> [Judged] -> Figures
figuresOf sides rounds judged =
  Figures
    { figuresLine = claimsLine judged,
      figuresTables =
        [ ("Wall time by the ideal, median of the rounds (least…most)", Table [(L, "way"), (R, "times the ideal")] [[sideName s, spreadOf timesIdeal rounds (sideName s)] | s <- sides]),
          ("Claims", claimsTable judged)
        ],
      figuresPlots = [],
      figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
    }
