{-# LANGUAGE DeriveGeneric #-}

-- | Everything that maru itself throws. What @f@ throws keeps its own type.
module Maru.Failure
  ( WorkerLost (..),
    Death (..),
    deathText,
    RemoteException (..),
    Untransferable (..),
    ItemFailed (..),
    renumber,
    Unavailable (..),
    BadOptions (..),
    exceptionText,
  )
where

import Control.Exception (Exception (..), SomeException (..))
import Data.Binary (Binary)
import GHC.Generics (Generic)

-- | How a worker ended.
data Death
  = -- | It left with this status: C code called @exit@. (Haskell's @exitWith@ is an
    -- exception like others, thrown at its element.)
    Exited !Int
  | -- | A signal killed it.
    Killed !Int
  | -- | It closed its channel but its status could not be had.
    Vanished
  deriving (Eq, Show, Generic)

instance Binary Death

-- | The worker that evaluated this item died, more often than the policy
-- retries.
data WorkerLost = WorkerLost
  { -- | Of the item, from 0.
    lostIndex :: !Int,
    -- | The last worker that had it, from 0.
    lostWorker :: !Int,
    lostDeath :: !Death,
    -- | Workers that died of it.
    lostTries :: !Int
  }
  deriving (Eq, Generic)

instance Binary WorkerLost

instance Show WorkerLost where
  showsPrec _ (WorkerLost i w d n) =
    showString "maru: item " . shows i . showString " lost: worker " . shows w
      . showString (' ' : deathText d)
      . showString (if n > 1 then " (try " <> show n <> ")" else "")

-- | What happened to a worker, as the end of a sentence.
deathText :: Death -> String
deathText death = case death of
  Exited 70 -> "could not go on (status 70: out of heap or descriptors between two items, a defect of maru, or f called exit(70))"
  Exited s
    | s == 71 || s == 72 -> "could not start (status " <> show s <> ": no thread or file descriptor left, see `ulimit -u` and `ulimit -n`, or no /proc)"
  Exited 251 -> "ran out of heap (its -M, or memoryMiB)"
  Exited s -> "left with exit status " <> show s <> "; f must not exit"
  Killed 9 -> "was killed by signal 9 (kill -9, or out of memory: see the kernel log)"
  Killed s -> "was killed by signal " <> show s
  Vanished -> "vanished"

instance Exception WorkerLost

-- | @f@ threw an exception whose value could not cross (it holds a function,
-- say); its text did.
data RemoteException = RemoteException
  { -- | Of the item, from 0.
    remoteIndex :: !Int,
    -- | From 0.
    remoteWorker :: !Int,
    -- | The exception's type, as text.
    remoteType :: String,
    -- | What 'displayException' said of it.
    remoteText :: String
  }
  deriving (Eq)

instance Show RemoteException where
  showsPrec _ (RemoteException i w ty text) =
    showString "maru: item " . shows i . showString " (worker " . shows w . showString ") threw "
      . showString ty
      . showString ": "
      . showString text

instance Exception RemoteException

-- | A result holds something that has no meaning in another process.
data Untransferable = Untransferable
  { -- | Of the item, from 0.
    untransferableIndex :: !Int,
    -- | What was found: \"a function\", \"an MVar\", ...
    untransferableWhat :: String
  }
  deriving (Eq)

instance Show Untransferable where
  showsPrec _ (Untransferable i what) =
    showString "maru: the result of item " . shows i . showString " holds " . showString what
      . showString ", which cannot leave its process; return plain data, or use parMapVia with a codec"

instance Exception Untransferable

-- | What happened to one item, for those who want to look instead of throw.
data ItemFailed = ItemFailed
  { -- | Of the item, from 0.
    failedIndex :: !Int,
    -- | -1: the caller itself.
    failedWorker :: !Int,
    -- | The exception of @f@ in its own type, or one of this module.
    failedCause :: !SomeException
  }
  deriving (Show)

-- | Changes the index that an exception of this module names: for a part of a
-- list that was evaluated on its own.
renumber :: (Int -> Int) -> SomeException -> SomeException
renumber number e
  | Just x <- fromException e = toException x {lostIndex = number (lostIndex x)}
  | Just x <- fromException e = toException x {remoteIndex = number (remoteIndex x)}
  | Just x <- fromException e = toException x {untransferableIndex = number (untransferableIndex x)}
  | otherwise = e

-- | Something that was asked for is not to be had here.
data Unavailable = Unavailable
  { unavailableWhat :: String,
    unavailableWhy :: String,
    -- | What to do instead; may be empty.
    unavailableRemedy :: String
  }
  deriving (Eq)

instance Show Unavailable where
  showsPrec _ (Unavailable what why remedy) =
    showString "maru: " . showString what . showString " is not available: " . showString why
      . (if null remedy then id else showString "; " . showString remedy)

instance Exception Unavailable

-- | Options that make no sense.
newtype BadOptions = BadOptions String
  deriving (Eq)

instance Show BadOptions where
  showsPrec _ (BadOptions why) = showString "maru: " . showString why

instance Exception BadOptions

-- | What an exception says of itself, without what GHC 9.10 adds: where it was
-- thrown.
exceptionText :: SomeException -> String
exceptionText (SomeException e) = displayException e
