{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE RankNTypes #-}

-- | Forked processes that talk over shared memory: the seed's SAMShm.
--
-- Results are written to one append-only log per worker (no lock and no shared
-- cache line between workers), chunks are claimed on one crew.
module Maru.Backend.Shm
  ( engine,
    sharedMemory,
  )
where

import Control.Monad (when)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import Data.Word (Word64)
import Foreign.StablePtr (freeStablePtr, newStablePtr)
import Maru.Backend.Process (Style (..), engineOn)
import Maru.Backend.Process.Fabric
import Maru.Internal.Engine
import Maru.Native.Channel
import Maru.Native.Log
import Maru.Native.Pen (penOnLog)
import Maru.Options (Backend (Shm))

-- | See 'Maru.Backend.Process.engineOn'.
engine :: Job a b -> IO (Running b)
engine = engineOn Style {styleBackend = Shm, styleByAddress = True, styleFabric = sharedMemory}

-- | A crew and logs for so many workers.
sharedMemory :: Int -> IO Fabric
sharedMemory workers = do
  crew <- newCrew workers slots
  unseated <- seat crew
  policy <- newWaitPolicy
  gate <- newIORef (Gate 0 True)
  -- A run that nobody holds any more is ended by a finalizer, which still needs the crew. Both
  -- become garbage at once: until the end this holds the crew.
  root <- newStablePtr crew
  let through :: forall b. b -> IO b -> IO b
      through = pass gate (freeCrew crew)
  pure
    Fabric
      { fabricNotes = [unseatedNote why | Just why <- [unseated]],
        publishChunk = through True . publish crew,
        unclaimed = through 0 (backlog crew),
        closeFabric = through () (closeCrew crew),
        newsSeen = through 0 (bell crew),
        ringNews = through () (ring crew),
        awaitNews = \seen deadline -> through () (await crew seen policy deadline),
        workDone = through (Work 0 0) (workBy crew workers),
        openLink = linkTo crew through,
        freeFabric = freeStablePtr root >> shut gate (freeCrew crew)
      }

-- | How many of this process's threads are at the crew, and whether more may come.
data Gate = Gate !Int !Bool

-- | Does it at the crew; nothing where that is freed. The consumer may still wait there when the
-- run ends, and the feeder may ring: the last of them to leave unmaps the pages. A collection
-- does not as long as the run's report is kept, and each fork of a worker copies what is mapped.
--
-- No handler: an exception from outside leaves the consumer's list as it was, for the next to demand
-- it and go on here. A handler would make the exception the list's own. What never goes on is at
-- the crew until both are garbage.
pass :: IORef Gate -> IO () -> a -> IO a -> IO a
pass gate free nothing act = do
  inside <- atomicModifyIORef' gate enter
  if inside then act <* leave else pure nothing
  where
    enter (Gate n open) = (Gate (if open then n + 1 else n) open, open)
    leave = do
      alone <- atomicModifyIORef' gate (\(Gate n open) -> (Gate (n - 1) open, n == 1 && not open))
      when alone free

-- | No thread comes from now on. Once.
shut :: IORef Gate -> IO () -> IO ()
shut gate free = do
  empty <- atomicModifyIORef' gate (\(Gate n _) -> (Gate n False, n == 0))
  when empty free

unseatedNote :: String -> String
unseatedNote why = "the waits of a map are not on the run's board (" <> why <> "): maru boost and maru top do not see them, coop and gang run as spin-block there"

-- Most chunks between the oldest unfinished one and the newest: one that takes
-- for ever must not stop the others soon.
slots :: Int
slots = 16384

workBy :: Crew -> Int -> IO Work
workBy crew workers = go 0 0 0
  where
    -- In each round: without lists.
    go :: Int -> Word64 -> Word64 -> IO Work
    go w !items !busy
      | w == workers = pure (Work (fromIntegral items) (fromIntegral busy))
      | otherwise = do
        c <- readCounters crew w
        go (w + 1) (items + countedItems c) (busy + countedBusyNs c)

-- | The coordinator's questions to the crew go @through@; a worker's own process never frees it.
linkTo :: Crew -> (forall b. b -> IO b -> IO b) -> Int -> IO Link
linkTo crew through worker = do
  (channel, granted) <- newLog channelBytes
  setCurrent crew worker (-1)
  pure
    Link
      { linkNotes = ["a worker's channel has room for " <> show (granted `div` 1024) <> " KiB only (see `ulimit -v`): results that cross by copy are refused where they are larger" | granted < 16 * 1024 * 1024],
        nextRecordOf = nextRecord channel,
        recordsRead = releaseRecords channel,
        unfinished = through ([], Nothing) $ do
          claimed <- claimOf crew worker
          current <- fromIntegral . countedCurrent <$> readCounters crew worker
          forfeit crew worker
          pure (maybe [] pure claimed, if current < 0 then Nothing else Just current),
        wasUsedUp = isClosed channel,
        closeLink = freeLog channel,
        keptOpen = [],
        workerEnd = do
          policy <- newWaitPolicy
          pure
            WorkerEnd
              { claimChunk = claim crew worker policy,
                chunkDone = \n ns -> do
                  countItems crew worker (fromIntegral n) (fromIntegral ns)
                  done crew worker,
                evaluating = setCurrent crew worker,
                reserveRecord = reserve channel,
                commitRecord = commit channel,
                usedUp = closeLog channel,
                wake = ring crew,
                writtenWith = \pen -> penOnLog pen channel crew
              }
      }

-- | Address space of a log; its pages are used once and given back.
channelBytes :: Num n => n
channelBytes = 64 * 1024 * 1024 * 1024
