{-# LANGUAGE OverloadedStrings #-}

-- | What the wait room measures of MPI programs that know nothing of it: more ranks
-- than CPUs. The method is in @bench\/boost\/README.md@.
module BoostMpi
  ( mpiExperiments,

    -- * Its jobs
    Mpi (..),
    mpiTitle,
    mpiPrograms,
    mpiJob,
    timesIdeal,
  )
where

import Control.Monad (filterM, when)
import Data.Aeson (object, (.=))
import Data.Maybe (isJust)
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
import System.FilePath (takeDirectory, (</>))
import System.Process (proc)

mpiExperiments :: [Experiment]
mpiExperiments =
  [ experiment "boost/mpi-ring" "MPI, 8 ranks: 200 µs of computing, then 4 KiB round the ring; times the ideal" "ring" 5,
    experiment "boost/mpi-reduce" "MPI, 8 ranks: 200 µs of computing, then MPI_Allreduce of one number; times the ideal" "allreduce" 10,
    experiment "boost/mpi-halo" "MPI, 8 ranks: 50 to 350 µs of computing, then 1 KiB to and from both neighbours, each fourth time MPI_Allreduce; held back when the waits were tuned; times the ideal" "halo" 5
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

-- | @mpiJob maru mpi ours ranks program kind@: 154 rounds with 200 µs of computing in each.
mpiJob :: FilePath -> Mpi -> Bool -> Int -> FilePath -> String -> [String]
mpiJob maru mpi ours ranks program kind = [word | ours, word <- [maru, "run", "--wait", "adaptive", "--"]] ++ launch ++ [program, kind, "200", "154"]
  where
    launch = case mpi of
      -- Without --bind-to none it would put all ranks on the CPUs of its choice.
      OpenMpi -> ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", show ranks]
      Mpich -> ["mpirun.mpich", "-n", show ranks]

experiment :: String -> String -> String -> Double -> Experiment
experiment name purpose kind bar =
  Experiment
    { experimentName = name,
      experimentPurpose = purpose,
      experimentRun = \reaper effort say -> do
        maru <- commandPath
        cpus <- getNumProcessors
        programs <- mpiPrograms
        when (null programs) $ problem unavailable "neither Open MPI nor MPICH is here with the program that is measured"
        let those = [(way, mpiJob maru (wayMpi way) (wayOurs way) 8 program kind) | way <- ways, Just program <- [lookup (wayMpi way) programs]]
            sides = [Side (wayName way) [words'] | (way, words') <- those]
            hogs side = if sideName side `elem` [wayName way | (way, _) <- those, wayHogs way] then cpus else 0
            measure side = withHogs reaper (hogs side) (runWords reaper (concat (sideProcesses side)))
            claims = filter (all (`elem` map sideName sides) . claimSides) (claimsFor bar)
        rounds <- runRounds effort say measure sides (const claims)
        pure (figuresOf sides rounds (map (judgeClaim rounds) claims))
    }

-- | Those that are here, each with the program that is measured.
mpiPrograms :: IO [(Mpi, FilePath)]
mpiPrograms = filterM present [minBound ..] >>= mapM (\m -> (,) m <$> helperPath ("mpi_loop-" ++ suffix m))

-- | Beside the daemon, which is always built.
present :: Mpi -> IO Bool
present mpi = do
  launcher <- findExecutable ("mpirun." ++ suffix mpi)
  folder <- takeDirectory <$> helperPath "maru-boost"
  built <- doesFileExist (folder </> ("mpi_loop-" ++ suffix mpi))
  pure (isJust launcher && built)

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
