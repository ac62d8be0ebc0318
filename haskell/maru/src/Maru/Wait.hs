{-# LANGUAGE InterruptibleFFI #-}

-- | Waiting for a message from another process (@maru\/wait.h@).
--
-- A 'Channel' is a counter in memory that this process shares with the processes
-- that it forks. One side steps it, the other one waits until it has been stepped.
-- How it waits is a 'Policy'. What waits is an operating system's thread: waiters are
-- for bound threads (@main@, 'Control.Concurrent.runInBoundThread').
--
-- > hall <- newHall
-- > channel <- newChannel hall
-- > child <- forkProcess (ring channel)
-- > waiter <- attach Adaptive channel
-- > awaitAfter waiter 0 (seconds 1)   -- Just 1
--
-- The channels of a hall are seen by @maru boost@ when the program was started by
-- @maru run@.
module Maru.Wait
  ( -- * Policies
    Policy (..),
    policyName,
    policyNamed,

    -- * Channels
    Hall,
    newHall,
    Channel,
    newChannel,
    ring,
    rung,

    -- * Waiting
    Waiter,
    attach,
    release,
    runsAs,
    awaitAfter,
    seconds,
  )
where

import Control.Concurrent (MVar, ThreadId, isCurrentThreadBound, modifyMVar, myThreadId, newMVar, withMVar)
import Control.Exception (throwIO)
import Control.Monad (unless, void, when)
import Data.Bits (shiftL)
import Data.Int (Int64)
import Data.Word (Word32)
import Foreign (ForeignPtr, Ptr, alloca, finalizeForeignPtr, mallocForeignPtrBytes, nullPtr, peek, withForeignPtr)
import Foreign.C (CInt (..), CString, Errno (..), eINTR, eTIMEDOUT, peekCString)
import qualified Foreign.Concurrent as Concurrent
import Maru.Failure (Unavailable (..))
import Maru.Native.Hall
import Maru.Wait.Policy
import System.Posix.Process (getProcessID)

-- Channels ---------------------------------------------------------------------

data CChannel

data CPolicy

-- | With how many waiters were attached to it in this process.
data Channel = Channel !(Ptr CChannel) !(MVar Int)

foreign import ccall unsafe "maru_channel_register"
  c_register :: Ptr CBoard -> Word32 -> Word32 -> Ptr (Ptr CChannel) -> IO CInt

foreign import ccall unsafe "maru_notify" c_notify :: Ptr CChannel -> IO ()

foreign import ccall unsafe "maru_channel_count" c_count :: Ptr CChannel -> IO Word32

-- | Before the fork: the child inherits it. A hall has 1024; 'Unavailable' when all
-- are taken.
newChannel :: Hall -> IO Channel
newChannel (Hall board) = withForeignPtr board $ \b -> alloca $ \out -> do
  c_register b 0 0 out >>= orRefused "a channel on the board"
  Channel <$> peek out <*> newMVar 0

-- | Steps the counter. What this process wrote before into shared memory is
-- visible to whoever sees the step. Any thread of any process may.
ring :: Channel -> IO ()
ring (Channel c _) = c_notify c

-- | How often it has been rung, modulo 2³¹.
rung :: Channel -> IO Word32
rung (Channel c _) = c_count c

-- Waiting ----------------------------------------------------------------------

-- | The one that waits for a channel: the thread that attached it, and no other. A
-- channel has one waiter; one that attaches later takes its place.
data Waiter = Waiter !ThreadId !Channel !(ForeignPtr CPolicy)

foreign import ccall safe "maru_wait_policy_init" c_policyInit :: Ptr CPolicy -> CInt -> IO CInt

foreign import ccall safe "maru_channel_attach" c_attach :: Ptr CChannel -> Ptr CPolicy -> IO CInt

foreign import ccall unsafe "maru_wait_runs_as" c_runsAs :: Ptr CPolicy -> Ptr CString -> IO CInt

foreign import ccall interruptible "maru_wait_while"
  c_waitWhile :: Ptr CChannel -> Word32 -> Word32 -> Ptr CPolicy -> Int64 -> IO CInt

foreign import ccall unsafe "maru_now_ns" c_now :: IO Int64

-- | This thread is the channel's waiter from now on, until 'release', or until the
-- waiter is garbage. The first on a board measures a hand-over (1 to 12 ms). Throws
-- 'Unavailable' in a thread that is not bound: it changes its operating system's thread,
-- and the channel would name the wrong one.
attach :: Policy -> Channel -> IO Waiter
attach policy channel@(Channel c attached) = do
  requireBound
  modifyMVar attached $ \before -> do
    process <- getProcessID
    p <- mallocForeignPtrBytes 40 -- policy.c asserts the size
    withForeignPtr p $ \q -> do
      c_policyInit q (fromIntegral (fromEnum policy)) >>= orRefused "a wait policy"
      c_attach c q >>= orRefused "waiting on a channel"
      Concurrent.addForeignPtrFinalizer p (end process (before + 1) q)
    me <- myThreadId
    pure (before + 1, Waiter me channel p)
  where
    -- Neither what a child has inherited nor a line that has a later waiter.
    end process number q = do
      here <- getProcessID
      withMVar attached $ \last' ->
        when (here == process && last' == number) (void (c_attach nullPtr q))

-- | The channel has no waiter any more. Waiting with this one goes on to work, as for a
-- word that nobody else sees ('runsAs').
release :: Waiter -> IO ()
release (Waiter _ _ policy) = finalizeForeignPtr policy

-- | What really runs, and why it is not what was asked for (empty if it is).
runsAs :: Waiter -> IO (Policy, String)
runsAs (Waiter _ _ policy) = withForeignPtr policy $ \p -> alloca $ \why -> do
  kind <- c_runsAs p why
  text <- peek why >>= peekCString
  pure (toEnum (fromIntegral kind), text)

-- | @awaitAfter waiter seen time@ waits until the channel has been rung other than
-- @seen@ times, and says how often; 'Nothing' when the time is over first. An
-- asynchronous exception ends the wait where the policy sleeps; else within 50 ms. Throws
-- 'Unavailable' in a thread that did not attach it.
awaitAfter :: Waiter -> Word32 -> Int64 -> IO (Maybe Word32)
awaitAfter (Waiter owner channel@(Channel c _) policy) seen time = do
  me <- myThreadId
  unless (me == owner) . throwIO $
    Unavailable "waiting on a channel" "another thread attached this waiter" "attach in the thread that waits"
  now <- c_now
  loop (if time > maxBound - now then maxBound else now + time)
  where
    loop deadline = do
      now <- c_now
      status <- withForeignPtr policy $ \p ->
        c_waitWhile c (seen `shiftL` 1) (maxBound - 1) p (min deadline (now + slice))
      again deadline status
    again deadline status
      | status == 0 = Just <$> rung channel
      | Errno (negate status) `notElem` [eTIMEDOUT, eINTR] = Nothing <$ orRefused "waiting on a channel" status
      | otherwise = c_now >>= \now -> if now >= deadline then pure Nothing else loop deadline
    slice = 50000000

requireBound :: IO ()
requireBound = do
  bound <- isCurrentThreadBound
  unless bound . throwIO $
    Unavailable "waiting on a channel" "this thread is not bound to one of the operating system's" "use runInBoundThread or forkOS"

-- | As nanoseconds.
seconds :: Double -> Int64
seconds s = round (s * 1e9)
