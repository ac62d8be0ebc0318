{-# LANGUAGE RankNTypes #-}

-- | What a back end is. /Internal/: may change without a major version.
--
-- An engine turns a 'Job' into a lazily produced list of 'Outcome's. The laws,
-- proved for every engine by one conformance suite:
--
--   * ordered: @map outcomeIndex (outcomes r) == [0 ..]@, one per input;
--     unordered: a permutation of it;
--   * an outcome's value equals @f x@ in normal form, or is the exception that
--     evaluating it threw;
--   * the spine of the input is walked at most a bounded distance ahead of the
--     consumer, and outcome @i@ needs no later input; where the spine itself
--     throws, so does the list of outcomes at that place;
--   * after 'stop', and some bounded time after the list became garbage, nothing
--     of the run is left: no thread, process, descriptor or mapping. Only a thread
--     that waits in a cell of the input stays until that is there.
module Maru.Internal.Engine
  ( Engine,
    Job (..),
    Arriving (..),
    Order (..),
    Running (..),
    Outcome (..),
    renumbered,
    Report (..),
    noReport,
    idleNs,
  )
where

import Control.Exception (SomeException)
import Data.Bifunctor (first)
import Data.Int (Int64)
import Maru.Codec (Codec)
import Maru.Failure (renumber)
import Maru.Options (Backend, Options (..))

type Engine = forall a b. Job a b -> IO (Running b)

data Order
  = -- | By index.
    Ordered
  | -- | As they come.
    Unordered
  deriving (Eq, Show)

data Job a b = Job
  { -- | Validated: workers and chunk size are in range.
    jobOptions :: !Options,
    -- | How many workers, already resolved from the options.
    jobWorkers :: !Int,
    jobOrder :: !Order,
    -- | How results cross; 'Nothing': as heap objects.
    jobCodec :: !(Maybe (Codec b)),
    jobFunction :: a -> b,
    jobInputs :: [a],
    -- | The same inputs, where they come from outside while the run goes on.
    jobArriving :: !(Maybe (Arriving a)),
    -- | The run begins at once, before anybody asks for a result. For as long as this says so the
    -- caller is at an item of its own and needs a core for it. Back ends of threads need not care.
    jobBeside :: !(Maybe (IO Bool))
  }

-- | Inputs that a worker finds by their number, those too that came after it was forked. It cannot
-- walk a list that another process extends.
data Arriving a = Arriving
  { -- | A cell for each input that is there; no end, or the end of the inputs. For the coordinator.
    arrivingSpine :: [()],
    -- | The inputs from that number on, in any process of the run. Only those that are there are
    -- evaluated; the list goes on beyond them.
    arrivingFrom :: Int -> [a]
  }

data Outcome b
  = Outcome
      { outcomeIndex :: !Int,
        -- | Which worker; -1 for the caller itself.
        outcomeWorker :: !Int,
        outcomeResult :: !(Either SomeException b)
      }
  | -- | The same. What it throws is maru's own word, not @f@'s: it names the item's index.
    Judged
      { outcomeIndex :: !Int,
        outcomeWorker :: !Int,
        outcomeResult :: !(Either SomeException b)
      }

-- | Another index, in what maru says of the item, too. What @f@ throws is @f@'s, of whatever type.
renumbered :: (Int -> Int) -> Outcome b -> Outcome b
renumbered number o = case o of
  Outcome i w result -> Outcome (number i) w result
  Judged i w result -> Judged (number i) w (first (renumber number) result)

data Running b = Running
  { -- | Produced lazily; consume it from one place.
    outcomes :: [Outcome b],
    -- | Ends every worker and frees what the run holds. Idempotent; after it,
    -- the rest of 'outcomes' must not be demanded.
    stop :: IO (),
    -- | What has happened so far.
    report :: IO Report
  }

-- | For introspection, progress and @maru doctor@.
data Report = Report
  { reportBackend :: !Backend,
    reportWorkersStarted :: !Int,
    reportWorkersLost :: !Int,
    reportChunks :: !Int,
    -- | Results by way of crossing, with its reason: @("zero-copy", 120)@.
    reportTransports :: ![(String, Int)],
    -- | Items that the caller evaluates after all: two workers could not, or none
    -- could be had.
    reportInCaller :: !Int,
    -- | Nanoseconds of a forked worker per item, of the chunks that are done.
    reportItemNs :: !(Maybe Double),
    -- | Every degraded mode, one line each.
    reportNotes :: ![String]
  }
  deriving (Eq, Show)

noReport :: Backend -> Report
noReport b = Report b 0 0 0 [] 0 Nothing []

-- | 'idleSeconds' in nanoseconds; of more than some 290 years, so many.
idleNs :: Options -> Int64
idleNs options = round (min 9e18 (idleSeconds options * 1e9))
