-- | Forked processes that talk over sockets: the seed's SAMSoc.
--
-- The coordinator sends chunks down a socket per worker, at most two ahead, and
-- reads coded results from it. Workers are forked and connected here: nothing is
-- started by hand and nothing is registered in a table. One word a worker is shared,
-- which item it has begun: of what was sent to it and not begun no death is to blame.
module Maru.Backend.Sockets
  ( engine,
  )
where

import Control.Exception (onException)
import Control.Monad (unless, when)
import Data.Foldable (for_)
import Data.IORef
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Sequence (Seq (..), (|>))
import qualified Data.Sequence as Seq
import Data.Word (Word16, Word64)
import Foreign (Ptr, free, mallocBytes, nullPtr, peek, reallocBytes, with)
import Foreign.C (CInt)
import Foreign.StablePtr (freeStablePtr, newStablePtr)
import Maru.Backend.Process (Style (..), engineOn)
import Maru.Backend.Process.Fabric
import Maru.Internal.Engine
import Maru.Native.Channel (Counters (..), Crew, freeCrew, newCrew, nowNs, readCounters, setCurrent)
import Maru.Native.Pen (penOnSocket)
import Maru.Native.Process (exitNow)
import Maru.Native.Stream
import Maru.Options (Backend (Sockets))

-- | See 'Maru.Backend.Process.engineOn'.
engine :: Job a b -> IO (Running b)
engine = engineOn Style {styleBackend = Sockets, styleByAddress = False, styleFabric = sockets}

-- What the coordinator knows. Changed under the coordinator's lock.
data Office = Office
  { officeQueue :: !(IORef (Seq Chunk)),
    officeClosed :: !(IORef Bool),
    officeDesks :: !(IORef (IntMap Desk)),
    officeWork :: !(IORef Work),
    officeBell :: !Bell,
    -- | Of which the counters alone serve.
    officeCrew :: !Crew
  }

-- One worker, as the coordinator sees it.
data Desk = Desk
  { deskSocket :: !CInt,
    deskAssigned :: !(IORef (Seq Chunk)),
    deskGone :: !(IORef Bool),
    -- | Told that nothing more comes.
    deskDismissed :: !(IORef Bool)
  }

sockets :: Int -> IO Fabric
sockets workers = do
  crew <- newCrew workers 1
  bell <- newBell `onException` freeCrew crew
  office <- Office <$> newIORef Seq.empty <*> newIORef False <*> newIORef IntMap.empty <*> newIORef (Work 0 0) <*> pure bell <*> pure crew
  -- As in "Maru.Backend.Shm": the run's finalizer still needs the crew.
  root <- newStablePtr crew
  pure
    Fabric
      { fabricNotes = [],
        publishChunk = \chunk -> do
          modifyIORef' (officeQueue office) (|> chunk)
          True <$ assign office,
        unclaimed = Seq.length <$> readIORef (officeQueue office),
        closeFabric = writeIORef (officeClosed office) True >> assign office,
        newsSeen = 0 <$ silenceBell (officeBell office),
        ringNews = ringBell (officeBell office),
        awaitNews = \_ deadline -> awaitSockets office deadline,
        workDone = readIORef (officeWork office),
        openLink = linkTo office,
        freeFabric = closeBell (officeBell office) >> freeStablePtr root >> freeCrew crew
      }

awaitSockets :: Office -> Int64 -> IO ()
awaitSockets office deadline = do
  desks <- IntMap.elems <$> readIORef (officeDesks office)
  present <- filterGone desks
  now <- nowNs
  let ms = fromIntegral (max 0 ((deadline - now + 999999) `div` 1000000))
  rung <- bellDescriptor (officeBell office)
  waitReadable (rung <> map deskSocket present) ms
  where
    filterGone ds = concat <$> mapM (\d -> (\gone -> [d | not gone]) <$> readIORef (deskGone d)) ds

-- One chunk to work on and one to go on with.
most :: Int
most = 2

-- Gives queued chunks to workers with room; dismisses workers when all is done.
assign :: Office -> IO ()
assign office = do
  desks <- readIORef (officeDesks office)
  for_ [1 .. most] $ \depth -> for_ desks (give depth)
  queue <- readIORef (officeQueue office)
  closed <- readIORef (officeClosed office)
  when (closed && Seq.null queue) (for_ desks dismissIdle)
  where
    give depth desk = do
      queue <- readIORef (officeQueue office)
      assigned <- readIORef (deskAssigned desk)
      gone <- readIORef (deskGone desk)
      case queue of
        chunk@(Chunk first n) :<| rest
          | not gone,
            Seq.length assigned < depth -> do
            sent <- with (fromIntegral n :: Word64) $ \count -> sendRecord (deskSocket desk) first 0 count 8
            if sent
              then do
                writeIORef (officeQueue office) rest
                writeIORef (deskAssigned desk) (assigned |> chunk)
              else writeIORef (deskGone desk) True
        _ -> pure ()
    -- An empty chunk says that nothing more comes.
    dismissIdle desk = do
      told <- readIORef (deskDismissed desk)
      unless told $ do
        writeIORef (deskDismissed desk) True
        sent <- with (0 :: Word64) $ \count -> sendRecord (deskSocket desk) 0 0 count 8
        unless sent (writeIORef (deskGone desk) True)

-- The kind of the record that ends a chunk; above all kinds of results.
chunkEnds :: Word16
chunkEnds = 1000

linkTo :: Office -> Int -> IO Link
linkTo office worker = do
  (ours, theirs) <- newStreamPair
  desk <- Desk ours <$> newIORef Seq.empty <*> newIORef False <*> newIORef False
  reader <- newReader ours
  open <- newIORef True
  setCurrent (officeCrew office) worker (-1)
  let next = do
        got <- readRecord reader
        case got of
          Left () -> Nothing <$ writeIORef (deskGone desk) True
          Right Nothing -> pure Nothing
          Right (Just r)
            | recordKind r == fromIntegral chunkEnds -> do
              ns <- peek (recordChunk r)
              finishChunk (fromIntegral (ns :: Word64))
              next
            | otherwise -> pure (Just r)
      finishChunk ns = do
        assigned <- readIORef (deskAssigned desk)
        case assigned of
          Chunk _ n :<| rest -> do
            modifyIORef' (officeWork office) (\(Work i t) -> Work (i + fromIntegral n) (t + ns))
            writeIORef (deskAssigned desk) rest
            assign office
          Empty -> pure ()
  modifyIORef' (officeDesks office) (IntMap.insert worker desk)
  pure
    Link
      { linkNotes = [],
        nextRecordOf = do
          -- Our copy of the worker's end would hide its death.
          stillOpen <- readIORef open
          when stillOpen (closeStream theirs >> writeIORef open False)
          assign office
          next,
        recordsRead = pure (),
        unfinished = do
          assigned <- readIORef (deskAssigned desk)
          modifyIORef' (officeDesks office) (IntMap.delete worker)
          begun <- fromIntegral . countedCurrent <$> readCounters (officeCrew office) worker
          pure (foldr (:) [] assigned, if begun < 0 then Nothing else Just (begun :: Int)),
        -- Sending waits for room.
        wasUsedUp = pure False,
        closeLink = do
          -- Whose fork was refused gets nothing more: its numbers may be another's soon.
          modifyIORef' (officeDesks office) (IntMap.delete worker)
          freeReader reader
          closeStream ours
          stillOpen <- readIORef open
          when stillOpen (closeStream theirs),
        keptOpen = [theirs],
        workerEnd = workerOn (setCurrent (officeCrew office) worker) theirs
      }

workerOn :: (Int -> IO ()) -> CInt -> IO WorkerEnd
workerOn begin socket = do
  buffer <- newIORef (nullPtr :: Ptr Word64)
  size <- newIORef 0
  pure
    WorkerEnd
      { claimChunk = \deadline -> do
          now <- nowNs
          got <- receiveChunk socket (fromIntegral (max 0 ((deadline - now) `div` 1000000)))
          pure $ case got of
            ReceivedChunk (Chunk _ 0) -> Closed
            ReceivedChunk chunk -> Claimed chunk
            NothingYet -> NotYet
            OtherEndGone -> Closed,
        chunkDone = \_ ns -> with (fromIntegral ns :: Word64) $ \p -> deliver sendRecord 0 chunkEnds p 8,
        evaluating = begin,
        reserveRecord = \bytes -> do
          old <- readIORef size
          when (bytes > old) $ do
            p <- readIORef buffer
            grown <- if p == nullPtr then mallocBytes bytes else reallocBytes p bytes
            writeIORef buffer grown
            writeIORef size bytes
          Reserved <$> readIORef buffer,
        commitRecord = \bytes index kind -> do
          p <- readIORef buffer
          -- One huge result must not stay for ever.
          if bytes <= 16777216
            then deliver sendRecord index kind p bytes
            else do
              deliver sendRecordAway index kind p bytes
              free p >> writeIORef buffer nullPtr >> writeIORef size 0,
        usedUp = pure (),
        wake = pure (),
        writtenWith = (`penOnSocket` socket)
      }
  where
    deliver send index kind p bytes = do
      sent <- send socket index kind p bytes
      unless sent (exitNow 0) -- the coordinator is gone
