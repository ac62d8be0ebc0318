-- | The logs of @maru/channel.h@ for Haskell: records in shared memory that one
-- process writes and another reads. /Internal/.
--
-- Everything here is as thread-safe and as crash-safe as the C contract says;
-- errors that the contract names become values, all others 'Unavailable'.
module Maru.Native.Log
  ( Log (..),
    CLog,
    newLog,
    freeLog,
    Reserved (..),
    reserve,
    commit,
    Record (..),
    nextRecord,
    peekRecord,
    releaseRecords,
    removePages,
    closeLog,
    isClosed,
    publishWord,
    observeWord,

    -- * What the system refuses
    refused,
    described,
  )
where

import Control.Exception (throwIO)
import Control.Monad (void)
import Data.Word (Word16, Word32, Word64)
import Foreign (Ptr, alloca, allocaBytes, peek, peekByteOff)
import Foreign.C (CInt (..), CSize (..), Errno (..), eNOSPC, ePIPE, errnoToIOError)
import GHC.IO.Exception (IOException (..))
import Maru.Failure (Unavailable (..))

data CLog

newtype Log = Log (Ptr CLog)

foreign import ccall unsafe "maru_log_create" c_logCreate :: Ptr (Ptr CLog) -> Word64 -> IO CInt

foreign import ccall unsafe "maru_log_destroy" c_logDestroy :: Ptr CLog -> IO ()

foreign import ccall unsafe "maru_log_reserve"
  c_logReserve :: Ptr CLog -> Word64 -> Ptr (Ptr Word64) -> IO CInt

foreign import ccall unsafe "maru_log_commit"
  c_logCommit :: Ptr CLog -> Word64 -> Word64 -> Word32 -> IO ()

foreign import ccall unsafe "maru_log_next" c_logNext :: Ptr CLog -> Ptr () -> IO CInt

foreign import ccall unsafe "maru_log_release" c_logRelease :: Ptr CLog -> IO ()

-- | A log with that many bytes of address space, and how many it has. Where fewer are left (@ulimit -v@)
-- it takes a 16th of the half, quarter, eighth … that the system would grant: other workers and threads need
-- some, too. At least 256 KiB. A record that does not fit is refused by itself.
newLog :: Word64 -> IO (Log, Word64)
newLog wanted = create wanted >>= either (smallerLog (wanted `div` 2)) pure

smallerLog :: Word64 -> CInt -> IO (Log, Word64)
smallerLog size refusal
  | size < least = refused "a channel in shared memory" refusal
  | otherwise = create size >>= either (smallerLog (size `div` 2)) modest
  where
    least = 256 * 1024
    modest (made, _)
      | size < 16 * least = pure (made, size)
      | otherwise = freeLog made >> create (size `div` 16) >>= either (smallerLog (size `div` 32)) pure

create :: Word64 -> IO (Either CInt (Log, Word64))
create size = alloca $ \out -> do
  r <- c_logCreate out size
  if r == 0 then (\l -> Right (Log l, size)) <$> peek out else pure (Left r)

freeLog :: Log -> IO ()
freeLog (Log l) = c_logDestroy l

-- | Room for a record, or not enough of it left.
data Reserved = Reserved !(Ptr Word64) | LogFull

-- | Room for so many bytes; replaces an earlier reservation.
reserve :: Log -> Int -> IO Reserved
reserve (Log l) bytes = alloca $ \out -> do
  r <- c_logReserve l (fromIntegral bytes) out
  if r == 0
    then Reserved <$> peek out
    else
      if Errno (negate r) == eNOSPC
        then pure LogFull
        else refused "a record in shared memory" r

-- | @commit log bytes index kind@ publishes the reserved record.
commit :: Log -> Int -> Int -> Word16 -> IO ()
commit (Log l) bytes index kind =
  c_logCommit l (fromIntegral bytes) (fromIntegral index) (fromIntegral kind)

data Record = Record
  { recordChunk :: !(Ptr Word64),
    recordLength :: !Int,
    recordIndex :: !Int,
    recordKind :: !Word32
  }

-- | The next record, if there is one.
nextRecord :: Log -> IO (Maybe Record)
nextRecord (Log l) = allocaBytes 32 $ \r -> do
  got <- c_logNext l r
  case got of
    1 -> Just <$> peekRecord r
    0 -> pure Nothing
    _
      | Errno (negate got) == ePIPE -> pure Nothing -- closed and all read
      | otherwise -> refused "a record in shared memory" got

-- | A @struct maru_record@.
peekRecord :: Ptr () -> IO Record
peekRecord r = do
  chunk <- peekByteOff r 0
  len <- peekByteOff r 8 :: IO Word64
  index <- peekByteOff r 16 :: IO Word64
  kind <- peekByteOff r 24
  pure (Record chunk (fromIntegral len) (fromIntegral index) kind)

foreign import ccall unsafe "maru_log_close" c_logClose :: Ptr CLog -> IO ()

foreign import ccall unsafe "maru_log_closed" c_logClosed :: Ptr CLog -> IO CInt

-- | The producer will commit no more records.
closeLog :: Log -> IO ()
closeLog (Log l) = c_logClose l

isClosed :: Log -> IO Bool
isClosed (Log l) = (/= 0) <$> c_logClosed l

-- | Gives the pages of consumed records back to the system.
releaseRecords :: Log -> IO ()
releaseRecords (Log l) = c_logRelease l

foreign import ccall unsafe "madvise"
  c_madvise :: Ptr a -> CSize -> CInt -> IO CInt

-- | Gives shared pages back to the system: from a page's beginning on, so many bytes. They are zero
-- then. A refusal costs memory alone.
removePages :: Ptr a -> Int -> IO ()
removePages p bytes = void (c_madvise p (fromIntegral bytes) madvRemove)
  where
    madvRemove = 9

foreign import ccall unsafe "maru_publish" c_publishWord :: Ptr Word64 -> Word64 -> IO ()

foreign import ccall unsafe "maru_observe" c_observeWord :: Ptr Word64 -> IO Word64

-- | Stores a word of a record that has been sent; what was written before is
-- visible to whoever observes it.
publishWord :: Ptr Word64 -> Word64 -> IO ()
publishWord = c_publishWord

observeWord :: Ptr Word64 -> IO Word64
observeWord = c_observeWord

-- | Throws: what, and why by this negative errno.
refused :: String -> CInt -> IO a
refused what r =
  throwIO
    Unavailable
      { unavailableWhat = what,
        unavailableWhy = described r,
        unavailableRemedy = "look at `ulimit -v`, the memory limit of the container, and `maru doctor`; or use the Threads back end"
      }

described :: CInt -> String
described r = ioe_description (errnoToIOError "" (Errno (negate r)) Nothing Nothing)
