-- | What threads recorded of the mutexes they took: the section @lockprof@ of a board
-- (@maru\/lockprof.h@), as values.
module Maru.Control.LockProfile.Types
  ( LockProfile (..),
    Process (..),
    Mutex (..),
    Fairness (..),
    Scale (..),
    Window (..),
    Pace (..),
    Slot (..),
    Row (..),
    Times (..),

    -- * Places in programs
    Place (..),
    placeText,
  )
where

import Data.IntMap.Strict (IntMap)
import Data.Maybe (isJust)
import Data.Word (Word32, Word64)
import Maru.Control.Histogram (Histogram)
import Numeric (showHex)
import System.FilePath (takeFileName)

-- | What there was no room for is said by the numbers at the end.
data LockProfile = LockProfile
  { profileProcesses :: !(IntMap Process),
    -- | Paths, by the numbers in places, 1 upwards.
    profileModules :: !(IntMap FilePath),
    profileMutexes :: !(IntMap Mutex),
    profileFairness :: !(IntMap Fairness),
    profilePaces :: ![Pace],
    profileSlots :: ![Slot],
    -- | Acquisitions of threads that had no slot.
    profileLost :: !Word64,
    profileLostProcesses :: !Word64,
    -- | What was asked for over what there is, of each pool that ran out.
    profileFull :: ![(String, Word32)],
    -- | Functions were to be looked past, and no process has one of them.
    profileNoneSkipped :: !Bool
  }
  deriving (Eq, Show)

data Process = Process
  { processPid :: !Int,
    processName :: !String,
    processSockets :: !Int,
    -- | Its times are read from the CPU.
    processCpuClock :: !Bool,
    -- | Nanoseconds for lock and unlock of a free mutex: without and with the profile; 0: unknown.
    processCost :: !(Double, Double)
  }
  deriving (Eq, Show)

data Mutex = Mutex
  { mutexProcess :: !Int,
    mutexAddress :: !Word64,
    -- | Module and offset.
    mutexPlace :: !(Int, Word64),
    mutexKind :: !Int
  }
  deriving (Eq, Show)

data Fairness = Fairness
  { fairnessMutex :: !Int,
    fairnessScales :: ![Scale],
    -- | Windows of 100 ms: the first, and how many a point has. Of each point acquisitions, windows
    -- with two threads or more, the sum of Jain's index over these.
    fairnessFirst :: !Word64,
    fairnessStep :: !Word64,
    fairnessSeries :: ![(Word32, Word32, Double)]
  }
  deriving (Eq, Show)

data Scale = Scale
  { scaleWindows :: !Word64,
    -- | Sum of the index.
    scaleJain :: !Double,
    scaleLeast :: !Double,
    scaleLate :: !Word64,
    -- | Not closed yet.
    scaleOpen :: ![Window]
  }
  deriving (Eq, Show)

data Window = Window
  { windowNumber :: !Word64,
    windowThreads :: !Word64,
    windowSum :: !Word64,
    windowSquares :: !Word64
  }
  deriving (Eq, Show)

-- | Of each scale the number of the window and the acquisitions that are not handed in.
data Pace = Pace {paceMutex :: !Int, paceOpen :: ![(Word64, Word64)]}
  deriving (Eq, Show)

data Slot = Slot
  { slotProcess :: !Int,
    slotUnmatched :: !Word64,
    slotRows :: ![Row]
  }
  deriving (Eq, Show)

data Row = Row
  { -- | 'Nothing': others, all that found no row.
    rowOf :: !(Maybe (Word64, (Int, Word64))),
    rowMutex :: !(Maybe Int),
    rowAcquisitions, rowContended, rowReacquired, rowReentered, rowRefused, rowTimedOut :: !Word64,
    rowNear, rowFar, rowBypass :: !Word64,
    rowWait, rowHold :: !Times
  }
  deriving (Eq, Show)

-- | Durations in nanoseconds.
data Times = Times
  { timesHistogram :: !Histogram,
    timesSum :: !Word64,
    -- | So many of the histogram's have no class.
    timesLost :: !Word64,
    -- | How many were timed, that the histogram and the sum are scaled from.
    timesSamples :: !Word64
  }
  deriving (Eq, Show)

instance Semigroup Times where
  Times h s l n <> Times h' s' l' n' = Times (h <> h') (s + s') (l + l') (n + n')

instance Monoid Times where
  mempty = Times mempty 0 0 0

-- | A place in a program.
data Place = Place
  { -- | 'Nothing': in no file (made at run time, or unknown).
    placeFile :: !(Maybe FilePath),
    placeOffset :: !Word64,
    -- | The function or object, demangled if @addr2line@ did it.
    placeSymbol :: !(Maybe String),
    -- | @file.c:12@.
    placeLine :: !(Maybe String)
  }
  deriving (Eq, Ord, Show)

-- | The best name that there is.
placeText :: Place -> String
placeText p = case (placeSymbol p, placeLine p) of
  (Just symbol, Just line) -> symbol ++ " (" ++ line ++ ")"
  (Just symbol, Nothing) -> symbol ++ " (" ++ file ++ ")"
  (Nothing, Just line) -> line
  (Nothing, Nothing) -> file
  where
    file = maybe "" takeFileName (placeFile p) ++ (if isJust (placeFile p) then "+0x" else "0x") ++ showHex (placeOffset p) ""
