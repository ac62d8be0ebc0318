{-# LANGUAGE InterruptibleFFI #-}

-- | Records over a connected socket (@native/channel/stream.h@). /Internal/.
module Maru.Native.Stream
  ( newStreamPair,
    closeStream,
    sendRecord,
    sendRecordAway,
    receiveChunk,
    Received (..),
    Reader,
    newReader,
    freeReader,
    readRecord,
    waitReadable,

    -- * A bell for the waiting side
    Bell,
    newBell,
    ringBell,
    silenceBell,
    bellDescriptor,
    closeBell,
  )
where

import Control.Concurrent.MVar (MVar, newMVar, putMVar, readMVar, takeMVar)
import Control.Exception (throwIO, uninterruptibleMask_)
import Control.Monad (void)
import Data.Word (Word16, Word32, Word64)
import Foreign (Ptr, alloca, allocaArray, allocaBytes, castPtr, peek, peekElemOff, withArrayLen)
import Foreign.C (CInt (..), CUInt (..), Errno (..), ePIPE, errnoToIOError, getErrno)
import GHC.IO.Exception (IOException (..))
import Maru.Failure (Unavailable (..))
import Maru.Native.Channel (Chunk (..))
import Maru.Native.Log (Record (..), peekRecord)

foreign import ccall unsafe "maru_stream_pair" c_pair :: Ptr CInt -> IO CInt

foreign import ccall unsafe "close" c_close :: CInt -> IO CInt

foreign import ccall safe "maru_stream_send"
  c_send :: CInt -> Word64 -> Word32 -> Ptr a -> Word64 -> IO CInt

foreign import ccall safe "maru_stream_send_away"
  c_sendAway :: CInt -> Word64 -> Word32 -> Ptr a -> Word64 -> IO CInt

foreign import ccall interruptible "maru_stream_receive"
  c_receive :: CInt -> Ptr Word64 -> Ptr Word32 -> Ptr a -> Word64 -> CInt -> IO CInt

data CReader

newtype Reader = Reader (Ptr CReader)

foreign import ccall unsafe "maru_stream_reader_new" c_readerNew :: CInt -> IO (Ptr CReader)

foreign import ccall unsafe "maru_stream_reader_free" c_readerFree :: Ptr CReader -> IO ()

foreign import ccall unsafe "maru_stream_reader_next"
  c_readerNext :: Ptr CReader -> Ptr () -> IO CInt

foreign import ccall interruptible "maru_stream_wait"
  c_wait :: Ptr CInt -> CUInt -> CInt -> IO CInt

foreign import ccall unsafe "eventfd" c_eventfd :: CUInt -> CInt -> IO CInt

foreign import ccall unsafe "eventfd_write" c_eventfdWrite :: CInt -> Word64 -> IO CInt

foreign import ccall unsafe "eventfd_read" c_eventfdRead :: CInt -> Ptr Word64 -> IO CInt

-- | The coordinator's end and the worker's.
newStreamPair :: IO (CInt, CInt)
newStreamPair = allocaArray 2 $ \ends -> do
  r <- c_pair ends
  if r == 0 then (,) <$> peekElemOff ends 0 <*> peekElemOff ends 1 else refused "a socket pair" r

closeStream :: CInt -> IO ()
closeStream fd = void (c_close fd)

-- | Waits for room. 'False': the other end is gone.
sendRecord :: CInt -> Int -> Word16 -> Ptr a -> Int -> IO Bool
sendRecord fd index kind from n =
  (== 0) <$> c_send fd (fromIntegral index) (fromIntegral kind) from (fromIntegral n)

-- | The same of memory of @malloc@ that is not read again: its pages go as they are sent.
sendRecordAway :: CInt -> Int -> Word16 -> Ptr a -> Int -> IO Bool
sendRecordAway fd index kind from n =
  (== 0) <$> c_sendAway fd (fromIntegral index) (fromIntegral kind) from (fromIntegral n)

data Received = ReceivedChunk !Chunk | NothingYet | OtherEndGone

-- | A chunk of work, or nothing within so many milliseconds.
receiveChunk :: CInt -> Int -> IO Received
receiveChunk fd ms = alloca $ \index -> alloca $ \kind -> alloca $ \count -> do
  r <- c_receive fd index kind (count :: Ptr Word64) 8 (fromIntegral ms)
  case r of
    1 -> do
      first <- peek index
      n <- peek count
      pure (ReceivedChunk (Chunk (fromIntegral first) (fromIntegral n)))
    0 -> pure NothingYet
    _ -> pure OtherEndGone

newReader :: CInt -> IO Reader
newReader fd = Reader <$> c_readerNew fd

freeReader :: Reader -> IO ()
freeReader (Reader r) = c_readerFree r

-- | Right 'Nothing': no whole record yet. 'Left': the other end is gone and all
-- was read.
readRecord :: Reader -> IO (Either () (Maybe Record))
readRecord (Reader r) = allocaBytes 32 $ \out -> do
  got <- c_readerNext r out
  case got of
    1 -> Right . Just <$> peekRecord (castPtr out)
    0 -> pure (Right Nothing)
    _
      | Errno (negate got) == ePIPE -> pure (Left ())
      | otherwise -> refused "a record from a worker" got

-- | Until one of them can be read, at most so many milliseconds.
waitReadable :: [CInt] -> Int -> IO ()
waitReadable fds ms = withArrayLen fds $ \n p -> void (c_wait p (fromIntegral n) (fromIntegral ms))

-- | Closed once; ringing it later does nothing.
newtype Bell = Bell (MVar (Maybe CInt))

newBell :: IO Bell
newBell = do
  fd <- c_eventfd 0 0o2004000 -- EFD_CLOEXEC, EFD_NONBLOCK
  if fd >= 0
    then Bell <$> newMVar (Just fd)
    else getErrno >>= \(Errno e) -> refused "an event descriptor" (negate e)

ringBell :: Bell -> IO ()
ringBell bell = whileOpen bell (void . (`c_eventfdWrite` 1))

silenceBell :: Bell -> IO ()
silenceBell bell = whileOpen bell (\fd -> alloca (void . c_eventfdRead fd))

-- | For 'waitReadable'; empty when it is closed.
bellDescriptor :: Bell -> IO [CInt]
bellDescriptor (Bell open) = maybe [] pure <$> readMVar open

closeBell :: Bell -> IO ()
closeBell (Bell open) = uninterruptibleMask_ $ do
  was <- takeMVar open
  mapM_ closeStream was
  putMVar open Nothing

-- The number must not be closed, and given to another file, meanwhile.
whileOpen :: Bell -> (CInt -> IO ()) -> IO ()
whileOpen (Bell open) act = uninterruptibleMask_ $ do
  fd <- takeMVar open
  mapM_ act fd
  putMVar open fd

refused :: String -> CInt -> IO a
refused what r =
  throwIO
    Unavailable
      { unavailableWhat = what,
        unavailableWhy = ioe_description (errnoToIOError "" (Errno (negate r)) Nothing Nothing),
        unavailableRemedy = "look at `ulimit -n` and `maru doctor`; or use the Shm back end"
      }
