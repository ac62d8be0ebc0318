-- | How a coordinator and its forked workers reach each other. /Internal/.
--
-- One coordinator ("Maru.Backend.Process") serves every fabric. What a fabric
-- promises:
--
--   * a chunk that was published is either unclaimed, or 'unfinished' of exactly
--     one worker, or finished: also when that worker is killed at any instruction;
--   * records of one link arrive in order, whole, or not at all;
--   * 'awaitNews' returns when anything happened since 'newsSeen', at the latest
--     at its deadline; an asynchronous exception ends it at once.
--
-- The coordinator calls everything but 'awaitNews' and 'ringNews' under its lock.
module Maru.Backend.Process.Fabric
  ( Fabric (..),
    Link (..),
    WorkerEnd (..),
    Chunk (..),
    Record (..),
    Reserved (..),
    Claimed (..),
    Work (..),
    itemCost,
    meanCost,
  )
where

import Data.Int (Int64)
import Data.Word (Word16, Word32)
import Foreign.C (CInt)
import Maru.Native.Channel (Chunk (..), Claimed (..))
import Maru.Native.Log (Record (..), Reserved (..))
import Maru.Native.Pen (Pen)

data Fabric = Fabric
  { -- | How it is less than what was asked for.
    fabricNotes :: ![String],
    -- | 'False': no room for another unfinished chunk now.
    publishChunk :: Chunk -> IO Bool,
    -- | Chunks that nobody has claimed.
    unclaimed :: IO Int,
    -- | No chunk will be published any more.
    closeFabric :: IO (),
    newsSeen :: IO Word32,
    ringNews :: IO (),
    -- | News seen before, deadline.
    awaitNews :: Word32 -> Int64 -> IO (),
    -- | What has been done so far.
    workDone :: IO Work,
    -- | Both ends of a link to the worker of that number, before it is forked.
    openLink :: Int -> IO Link,
    freeFabric :: IO ()
  }

-- | So many items took so many nanoseconds.
data Work = Work !Int64 !Int64

-- | Measured nanoseconds per item, of all until now.
itemCost :: Fabric -> IO (Maybe Double)
itemCost fabric = meanCost <$> workDone fabric

-- | Nanoseconds per item, where any was done.
meanCost :: Work -> Maybe Double
meanCost (Work items ns)
  | items <= 0 = Nothing
  | otherwise = Just (fromIntegral ns / fromIntegral items)

-- | To one worker. The coordinator's side.
data Link = Link
  { -- | How it is less than what was asked for.
    linkNotes :: ![String],
    -- | The next record; its chunk is valid until 'recordsRead'.
    nextRecordOf :: IO (Maybe Record),
    -- | What was read is no longer needed.
    recordsRead :: IO (),
    -- | Called once, when the worker is dead and its records are read: the chunks
    -- it had, which are free again, and the index it has begun last, if any.
    unfinished :: IO ([Chunk], Maybe Int),
    -- | The worker has said 'usedUp'.
    wasUsedUp :: IO Bool,
    closeLink :: IO (),
    -- | Descriptors that the worker needs.
    keptOpen :: ![CInt],
    -- | Called once, in the worker.
    workerEnd :: IO WorkerEnd
  }

-- | The worker's side.
data WorkerEnd = WorkerEnd
  { -- | Waits until the deadline.
    claimChunk :: Int64 -> IO Claimed,
    -- | So many items took so many nanoseconds, and their results are sent. Wakes the coordinator
    -- where little is left to claim.
    chunkDone :: Int -> Int64 -> IO (),
    -- | Begins that item. What it says outlives the worker.
    evaluating :: Int -> IO (),
    -- | Room for a record of so many bytes.
    reserveRecord :: Int -> IO Reserved,
    -- | Bytes, index, kind. The coordinator may hear of it only by 'wake'.
    commitRecord :: Int -> Int -> Word16 -> IO (),
    -- | Nothing more will be sent, for want of room.
    usedUp :: IO (),
    -- | There is news in what was sent.
    wake :: IO (),
    -- | That pen writes records as this end does.
    writtenWith :: Pen -> IO ()
  }
