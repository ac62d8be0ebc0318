-- | Reads what workers have written: from their logs into the coordinator's state.
-- /Internal/. Under the run's lock.
module Maru.Backend.Process.Deliver
  ( readLogs,
    readLog,
  )
where

import Control.Exception
import Control.Monad
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_)
import Data.IORef
import qualified Data.IntMap.Strict as IntMap
import Foreign (castPtr, peekElemOff)
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.Roster
import Maru.Backend.Process.Run
import Maru.Backend.Process.State
import Maru.Backend.Process.Wire
import Maru.Codec (Codec (..))
import Maru.Failure
import Maru.Internal.Engine
import Maru.Native.Channel (nowNs)
import Maru.Native.Log (observeWord)
import Maru.Native.Region (regionGet, regionRoom, unpack)

-- | Of all workers.
readLogs :: Run a b -> IO ()
readLogs run = do
  workers <- readIORef (runWorkers run)
  for_ (IntMap.toList workers) (uncurry (readLog run))

-- | All that this worker has written and that was not read.
readLog :: Run a b -> Int -> Worker -> IO ()
readLog run slot w = do
  resumed <- takeFilled run slot w
  when resumed (loop False)
  where
    loop some = do
      next <- nextRecordOf (workerLink w)
      case next of
        Nothing -> when some (recordsRead (workerLink w))
        Just r
          | kindOf (recordKind r) == Just Addresses -> do
            writeIORef (workerFilling w) (Just (Filling (recordChunk r) (recordIndex r) 0))
            complete <- takeFilled run slot w
            when complete (loop True)
          | otherwise -> accept run slot r >> loop True

-- | Takes what has been filled in since; 'True': the record, if any, is done.
takeFilled :: Run a b -> Int -> Worker -> IO Bool
takeFilled run slot w = do
  filling <- readIORef (workerFilling w)
  case filling of
    Nothing -> pure True
    Just (Filling record index taken) -> do
      (n, full) <- isFull <$> observeWord record
      when (n > taken) $ do
        values <- outcomesIn n []
        bytes <- newBytes w
        change run (arrived "zero-copy" bytes (index + taken) (n - taken) values)
      writeIORef (workerFilling w) (if full then Nothing else Just (Filling record index n))
      pure full
      where
        -- From the last to the first, whole: no cell of it is to be evaluated again.
        outcomesIn k later
          | k == taken = pure later
          | otherwise = do
            value <- peekElemOff record k >>= regionGet
            outcomesIn (k - 1) (Outcome (index + k - 1) slot (Right value) : later)

-- | By how much its pages have filled since the last look: that is what was taken, or is about to be.
newBytes :: Worker -> IO Int
newBytes w = case workerRegion w of
  Nothing -> pure 0
  Just region -> do
    room <- regionRoom region
    before <- readIORef (workerRoom w)
    writeIORef (workerRoom w) room
    pure (before - room)

accept :: Run a b -> Int -> Record -> IO ()
accept run slot r = case kindOf (recordKind r) of
  Just Compacted -> do
    value <- unpack (castPtr (recordChunk r)) (recordLength r)
    one "compact copy" (Judged i slot (maybe (Left damaged) Right value))
  -- Decoded by the consumer, outside of the lock.
  Just Coded -> copied >>= one "codec" . Judged i slot . decoded
  Just Threw -> copied >>= unpackThrown i slot >>= one "exception" . either (Judged i slot . Left) (Outcome i slot . Left)
  Just Sealed -> do
    why <- unpackText <$> copied
    change run (sealed job slot i why)
  Just Refused -> do
    what <- unpackText <$> copied
    change run (landed i 1 [Judged i slot (Left (toException (Untransferable i what)))])
  Just Retired -> do
    why <- unpackText <$> copied
    change run (leaves slot . noted ("a worker was replaced: " <> why))
  Just Ready -> nowNs >>= change run . reached slot Initialising
  Just Initialised -> nowNs >>= change run . reached slot Working
  Just Leaving -> change run (leaves slot) >> leaveCore run slot
  Just Unstarted -> do
    why <- unpackText <$> copied
    change run (unstarted slot why)
  Just InitialiserThrew -> do
    e <- copied >>= unpackException i slot
    change run (leaves slot . failed e)
  _ -> throwIO (ErrorCall ("maru: a worker's channel holds a record of unknown kind " <> show (recordKind r)))
  where
    job = runJob run
    i = recordIndex r
    one way outcome = change run (arrived way (recordLength r) i 1 [outcome])
    -- The log's pages are given back; what is kept must be copied.
    copied = Unsafe.unsafePackCStringLen (castPtr (recordChunk r), recordLength r) >>= evaluate . Strict.copy
    damaged = toException (RemoteException i slot "a result" "could not be relocated")
    decoded bytes = case jobCodec job of
      Nothing -> Left damaged
      Just codec -> either (Left . toException . RemoteException i slot "a decoding error") Right (decode codec bytes)
