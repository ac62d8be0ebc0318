{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | Whether a thread of this process is at an item of a map. A map that begins in it then is
-- inside that map, and leaves it the cores. /Internal/.
--
-- The items that count are those beside which the rest of their list may begin
-- ("Maru.Backend.Auto.Ahead"), the outermost one of each time. What other threads are at
-- meanwhile counts as outside. An item that throws says nothing more: it counts until the rest
-- should have begun, or for as long as this process holds cores for what has.
module Maru.Internal.Within
  ( Mark,
    enter,
    leave,
    settled,
    Within (..),
    whereNow,
  )
where

import Control.Concurrent (myThreadId)
import Data.IORef
import Data.Word (Word64)
import Foreign.C (CInt (..))
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Conc (ThreadId (..))
import GHC.Exts (ThreadId#)
import Maru.Internal.Cores (holdsCores)
import System.IO.Unsafe (unsafePerformIO)

-- | An item: the thread at it, and how far it is. Not the thread itself: that would keep one that waits
-- for ever.
data Mark = Mark !CInt !(IORef Stage)

data Stage
  = -- | Until then the rest of the list may begin.
    Begun !Word64
  | -- | It has, and holds its cores by then.
    Beside !Word64
  | Over

outermost :: IORef (Maybe Mark)
outermost = unsafePerformIO (newIORef Nothing)
{-# NOINLINE outermost #-}

-- | The calling thread begins an item. Within so many nanoseconds the rest of the list may begin beside
-- it. 'Nothing': another item is the outermost one.
enter :: Word64 -> IO (Maybe Mark)
enter ns = do
  before <- readIORef outermost >>= maybe (pure Outside) (\(Mark _ stage) -> standing stage)
  case before of
    Outside -> do
      mark <- Mark <$> thisThread <*> (inTime Begun ns >>= newIORef)
      Just mark <$ atomicWriteIORef outermost (Just mark)
    _ -> pure Nothing

-- | The item is done.
leave :: Mark -> IO ()
leave (Mark _ stage) = atomicWriteIORef stage Over

-- | The rest has begun, and has its cores within so many nanoseconds; or it has not.
settled :: Maybe Word64 -> Mark -> IO ()
settled beside (Mark _ stage) = do
  next <- maybe (pure Over) (inTime Beside) beside
  atomicModifyIORef' stage $ \before -> case before of
    Begun _ -> (next, ())
    _ -> (before, ())

inTime :: (Word64 -> Stage) -> Word64 -> IO Stage
inTime at ns = at . (+ ns) <$> getMonotonicTimeNSec

data Within
  = Outside
  | -- | In an item beside which the rest of its list may begin soon.
    Early
  | -- | In an item beside which others are at work. This process holds their cores, and the caller's.
    Inside

-- | Where the calling thread is.
whereNow :: IO Within
whereNow = readIORef outermost >>= maybe (pure Outside) asked
  where
    asked (Mark thread stage) = do
      this <- thisThread
      if this == thread then standing stage else pure Outside

standing :: IORef Stage -> IO Within
standing stage = do
  now <- getMonotonicTimeNSec
  is <- readIORef stage
  case is of
    Begun end -> pure (if now < end then Early else Outside)
    Beside end
      | now < end -> pure Early
      | otherwise -> (\held -> if held then Inside else Outside) <$> holdsCores
    Over -> pure Outside

thisThread :: IO CInt
thisThread = myThreadId >>= \(ThreadId thread) -> c_number thread

foreign import ccall unsafe "rts_getThreadId" c_number :: ThreadId# -> IO CInt
