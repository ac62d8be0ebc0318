-- | What "Maru.Control.Advise" is told, and how samples of it read.
module Maru.Control.Advise.Seen
  ( -- * What was seen
    Seen (..),
    Task (..),
    Spot (..),
    Mpi (..),
    Neighbour (..),
    Group (..),

    -- * Reading samples
    spotOf,
    mpiOf,
    parseSchedstat,
    parseSwitches,
    parseQuota,
  )
where

import Data.Char (isSpace)
import Data.IntSet (IntSet)
import Data.List (dropWhileEnd, isInfixOf, isPrefixOf)
import Data.Maybe (listToMaybe)
import Text.Read (readMaybe)

-- | Of one window of time.
data Seen = Seen
  { -- | Seconds.
    seenFor :: !Double,
    seenOnline :: !IntSet,
    seenTasks :: ![Task],
    -- | Processes outside of the job that used a CPU.
    seenNeighbours :: ![Neighbour],
    -- | The job's control group and those above it.
    seenGroups :: ![Group],
    -- | MPI's ranks by process.
    seenRanks :: ![(Int, Mpi)],
    -- | The command, for what to type; empty: unknown.
    seenCommand :: ![String],
    -- | It runs under maru already.
    seenUnderMaru :: !Bool
  }
  deriving (Eq, Show)

-- | A thread of the job. Seconds and counts of the window.
data Task = Task
  { taskId :: !Int,
    taskProcess :: !Int,
    taskName :: !String,
    taskUser :: !Double,
    taskSystem :: !Double,
    -- | Ready to run, and others ran.
    taskDelayed :: !Double,
    -- | It slept, and was woken.
    taskVoluntary :: !Int,
    taskInvoluntary :: !Int,
    -- | Empty: not known.
    taskAllowed :: !IntSet,
    taskNice :: !Int,
    -- | Bytes through read and write.
    taskMoved :: !Double,
    -- | Where it was when it did not run, a sample each.
    taskSpots :: ![Spot]
  }
  deriving (Eq, Show)

-- | Where a thread stands in the kernel.
data Spot
  = -- | Giving way.
    InYield
  | -- | In a call (or at its end), but ready.
    InCall
  | -- | Pushed aside while it computed.
    InProgram
  | -- | Asleep there.
    Asleep !String
  deriving (Eq, Show)

data Mpi = OpenMpi | Mpich
  deriving (Eq, Show, Enum, Bounded)

data Neighbour = Neighbour
  { neighbourPid :: !Int,
    neighbourName :: !String,
    -- | CPU seconds of the window.
    neighbourCpu :: !Double,
    -- | Where it was seen.
    neighbourSeen :: !IntSet,
    neighbourNice :: !Int,
    -- | In another control group than the job.
    neighbourApart :: !Bool
  }
  deriving (Eq, Show)

data Group = Group
  { groupPath :: !FilePath,
    -- | CPUs that it may use at most.
    groupQuota :: !(Maybe Double),
    -- | Seconds of the window in which its threads were stopped for that, summed over CPUs.
    groupThrottled :: !Double,
    -- | Of 100, as version 2 counts (version 1: shares \/ 10.24).
    groupWeight :: !(Maybe Double)
  }
  deriving (Eq, Show)

-- ---- reading ------------------------------------------------------------

-- | From a @\/proc\/TID\/stack@, its top first, and whether the thread slept.
spotOf :: Bool -> String -> Maybe Spot
spotOf asleep text = case map function (lines text) of
  [] -> Nothing
  stack@(top : _)
    | any ("sched_yield" `isInfixOf`) stack -> Just InYield
    | asleep -> Just (Asleep top)
    | any ("do_syscall" `isPrefixOf`) stack || any ("el0_svc" `isPrefixOf`) stack -> Just InCall
    | otherwise -> Just InProgram
  where
    function line = takeWhile (`notElem` "+/") (dropWhile isSpace (drop 1 (dropWhile (/= ']') line)))

-- | From the names of the libraries that a process has mapped.
mpiOf :: [String] -> Maybe Mpi
mpiOf names
  | any (\n -> any (`isPrefixOf` n) ["libmpich.so", "libmpi.so.12"]) names = Just Mpich
  | any ("libmpi.so." `isPrefixOf`) names = Just OpenMpi
  | otherwise = Nothing

-- | Seconds on a CPU and ready without one.
parseSchedstat :: String -> Maybe (Double, Double)
parseSchedstat text = case mapM readMaybe (words text) of
  Just (running : delayed : _) -> Just (running / 1e9, delayed / 1e9)
  _ -> Nothing

-- | Of a @status@: voluntary and involuntary switches.
parseSwitches :: String -> Maybe (Int, Int)
parseSwitches text = (,) <$> field "voluntary_ctxt_switches:" <*> field "nonvoluntary_ctxt_switches:"
  where
    field name = listToMaybe [n | [key, value] <- map words (lines text), key == name, Just n <- [readMaybe value]]

-- | A @cpu.max@: CPUs.
parseQuota :: String -> Maybe Double
parseQuota text = case words (dropWhileEnd isSpace text) of
  [quota, period] | Just q <- readMaybe quota, Just p <- readMaybe period, p > 0, q > 0 -> Just (q / p :: Double)
  _ -> Nothing
