-- | Reading a descriptor ahead (@maru\/stream.h@): a thread reads while the program computes.
--
-- > withStream fd $ \stream ->
-- >   let loop total = withNext stream (pure . ByteString.length) >>= maybe (pure total) (loop . (total +))
-- >    in loop 0
--
-- It pays where computing and reading take about as long and a core is free. The descriptor stays
-- the caller's and must stay open; its offset belongs to the stream until that is closed. One thread
-- at a time may use a stream; a forked child must not use its parent's. Waiting for data of a pipe or
-- socket cannot be interrupted by an asynchronous exception; it is raised when they come.
module Maru.Stream
  ( Stream,
    withStream,
    withStreamOf,
    withNext,
    next,
  )
where

import Control.Exception (bracket, evaluate)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Unsafe as ByteString
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign (Ptr, alloca, castPtr, nullPtr, peek, poke)
import Foreign.C (CInt (..), CSize (..), CUInt (..), Errno (..), errnoToIOError)
import System.Posix.Types (CSsize (..), Fd (..))

data Native

-- | Of 'withStream', and valid in its action only.
newtype Stream = Stream (Ptr Native)

-- | Blocks of 64 KiB, 16 of them.
withStream :: Fd -> (Stream -> IO a) -> IO a
withStream = withStreamOf 0 0

-- | @withStreamOf blockBytes blocks fd@: 1 to 2^30 bytes a block, 2 to 65536 blocks; 0 stands for
-- what 'withStream' takes. That much memory is taken. The stream is closed at the end of the
-- action, wherever it is. 'IOError': what the descriptor is not, or the system has not.
withStreamOf :: Int -> Int -> Fd -> (Stream -> IO a) -> IO a
withStreamOf bytes blocks fd = bracket open (\(Stream native) -> streamClose native)
  where
    open = alloca $ \place -> do
      poke place nullPtr
      -- What does not fit is nothing that the C side would take.
      when (bytes < 0 || blocks < 0 || blocks > 65536) (failed "maru_stream_open" 22)
      status <- streamOpen place fd (fromIntegral bytes) (fromIntegral blocks)
      when (status < 0) (failed "maru_stream_open" (negate status))
      Stream <$> peek place

-- | The action on the next bytes, at least one; 'Nothing': the end, and so from then on. The bytes
-- are the stream's own, not a copy: they must not be used once the action has ended. 'IOError':
-- what reading said there, after all that came before it; and so from then on.
withNext :: Stream -> (ByteString -> IO a) -> IO (Maybe a)
withNext (Stream native) action = alloca $ \place -> do
  got <- streamNext native place
  case compare got 0 of
    LT -> failed "maru_stream_next" (fromIntegral (negate got))
    EQ -> pure Nothing
    GT -> do
      bytes <- peek place
      part <- ByteString.unsafePackCStringLen (castPtr bytes, fromIntegral got)
      Just <$> action part

-- | The next bytes, copied: to be kept. Empty at the end.
next :: Stream -> IO ByteString
next stream = fromMaybe ByteString.empty <$> withNext stream (evaluate . ByteString.copy)

failed :: String -> CInt -> IO a
failed what code = ioError (errnoToIOError what (Errno code) Nothing Nothing)

foreign import ccall safe "maru_stream_open" streamOpen :: Ptr (Ptr Native) -> Fd -> CSize -> CUInt -> IO CInt

foreign import ccall safe "maru_stream_next" streamNext :: Ptr Native -> Ptr (Ptr Word8) -> IO CSsize

foreign import ccall safe "maru_stream_close" streamClose :: Ptr Native -> IO ()
