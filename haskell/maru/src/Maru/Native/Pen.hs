{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | How a worker notices that an item cannot be finished in it, and says so
-- (@native/channel/pen.h@, @native/base/waits.h@, @cbits/rts/stuck.c@, @cbits/rts/weaks.c@).
-- /Internal/.
--
-- An item is /sealed/ when it can go on only in the caller, or nowhere:
--
--   1. a thread demands what a thread of the caller was computing when the worker was
--      forked, in a foreign call or while it waited (slept, say);
--   2. all of the worker's threads are blocked on each other, on variables that
--      nobody here will fill or on themselves, and nothing else can wake one: no
--      timer, no wait of the I/O manager, no foreign call;
--   3. a thread uses an inherited 'System.IO.Handle', or reads or writes an inherited
--      descriptor, or waits until it can (standard output and error excepted);
--   4. it demands a result of a map that the caller started.
--
-- Sealing writes one record and ends the process. So does an initialiser that cannot be
-- finished (1, 2 and 4), then or later, by a thread that it has left behind. What 1 and
-- 4 meet between items seals the next. Nothing is thrown into the item, no collection is
-- run for it, and it never sees an answer from a sealed descriptor: these stand for a
-- socket on which reading and writing wait for ever. Where the kernel does not show what
-- threads wait for, 'noteOwn' and 'raiseWall' fail.
--
-- Not noticed: calls on an inherited descriptor that do not wait (@fstat@,
-- @lseek@, @mmap@, @ioctl@, a poll without or with a short limit of time) see a socket; requests
-- through io_uring; a deadlock that a foreign call is part of; while a timer runs
-- ('System.Timeout.timeout'), a wait for a variable that only the caller fills. On a
-- run-time system without threads 2 goes by Haskell's threads alone.
module Maru.Native.Pen
  ( Pen,
    newPen,
    penOnLog,
    penOnSocket,
    penDown,
    penUp,
    penFilling,
    sealHere,
    endHere,
    noteOwn,
    buildWall,
    watchOver,
    initialised,
    raiseWall,
  )
where

import Control.Concurrent (ThreadId, forkIO, myThreadId, rtsSupportsBoundThreads, threadDelay)
import Control.Monad (void, when)
import Data.Char (isAscii)
import Data.Int (Int64)
import Data.Word (Word16, Word32, Word64)
import Foreign (Ptr)
import Foreign.C (CBool (..), CInt (..), CString, CUInt (..), throwErrnoIfNull, withCString)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.StablePtr (newStablePtr)
import GHC.Conc (ThreadId (..))
import GHC.Exts (ThreadId#)
import Maru.Native.Channel (CCrew, Crew (..))
import Maru.Native.Log (CLog, Log (..))
import Maru.Native.Process (CSnapshot, Snapshot (..))

data CPen

-- | Which thread of this worker may write its next record.
newtype Pen = Pen (Ptr CPen)

foreign import ccall unsafe "maru_pen_new" c_new :: CInt -> Word32 -> Word32 -> IO (Ptr CPen)

foreign import ccall unsafe "maru_pen_on_log" c_onLog :: Ptr CPen -> Ptr CLog -> Ptr CCrew -> IO ()

foreign import ccall unsafe "maru_pen_on_socket" c_onSocket :: Ptr CPen -> CInt -> IO ()

foreign import ccall unsafe "maru_pen_down" c_down :: Ptr CPen -> Int64 -> Word32 -> IO ()

foreign import ccall unsafe "maru_pen_up" c_up :: Ptr CPen -> IO ()

foreign import ccall unsafe "maru_pen_filling" c_filling :: Ptr CPen -> Ptr Word64 -> IO ()

foreign import ccall unsafe "maru_pen_item" c_item :: Ptr CPen -> IO Int64

foreign import ccall unsafe "maru_pen_seal" c_seal :: Ptr CPen -> Int64 -> CString -> IO ()

foreign import ccall unsafe "maru_pen_seal_here" c_sealHere :: CString -> IO ()

foreign import ccall unsafe "maru_pen_end_here" c_endHere :: CString -> CInt -> IO ()

foreign import ccall unsafe "maru_pen_note_own" c_noteOwn :: Ptr CPen -> IO CInt

foreign import ccall unsafe "maru_pen_build_wall" c_buildWall :: Ptr CPen -> IO CInt

foreign import ccall unsafe "maru_pen_guard" c_guard :: Ptr CPen -> Ptr CSnapshot -> IO CInt

-- Safe: a thread that comes back from a foreign call would wait for our capability, and
-- seem to wait for ever.
foreign import ccall safe "maru_pen_rests" c_rests :: Ptr CPen -> IO CBool

foreign import ccall unsafe "maru_rts_stuck" c_stuck :: ThreadId# -> ThreadId# -> IO CInt

foreign import ccall unsafe "maru_rts_initialised" c_initialised :: ThreadId# -> ThreadId# -> IO ()

foreign import ccall safe "usleep" c_sleep :: CUInt -> IO CInt

-- | With the exit status of a worker whose log is full, and the kinds of records that say
-- that a worker leaves, and that its initialiser cannot be finished in it.
newPen :: Int -> Word16 -> Word16 -> IO Pen
newPen noRoom leaving unstarted = Pen <$> throwErrnoIfNull "a worker's pen" (c_new (fromIntegral noRoom) (fromIntegral leaving) (fromIntegral unstarted))

-- | It writes there from now on. The crew stays mapped.
penOnLog :: Pen -> Log -> Crew -> IO ()
penOnLog (Pen p) (Log l) (Crew crew) = do
  _ <- newStablePtr crew
  c_onLog p l (unsafeForeignPtrToPtr crew)

penOnSocket :: Pen -> CInt -> IO ()
penOnSocket (Pen p) = c_onSocket p

-- | From here to 'penUp' the worker evaluates this item and writes nothing. A
-- record of that kind says that it cannot.
penDown :: Pen -> Word16 -> Int -> IO ()
penDown (Pen p) kind item = c_down p (fromIntegral item) (fromIntegral kind)

-- | Does not return where the item was sealed meanwhile.
penUp :: Pen -> IO ()
penUp (Pen p) = c_up p

-- | The record that is being filled, by its first word, or none (@nullPtr@).
penFilling :: Pen -> Ptr Word64 -> IO ()
penFilling (Pen p) = c_filling p

-- | Seals the item that this process evaluates now, if it is a worker; else
-- returns.
sealHere :: String -> IO ()
sealHere why = withCString why c_sealHere

-- | Ends this worker, which cannot go on, and says so: no item is to blame. An item that it
-- is at is sealed. The status is for where nothing can be said.
endHere :: String -> Int -> IO ()
endHere why status = withCString (map ascii why) (`c_endHere` fromIntegral status)
  where
    -- The pen counts bytes, and who reads it characters.
    ascii c = if isAscii c then c else '?'

-- | What is open now is this worker's own; what is opened later, by an initialiser say,
-- may be answered by somebody else. 'False': neither that nor what threads wait for can
-- be seen here.
noteOwn :: Pen -> IO Bool
noteOwn (Pen p) = (>= 0) <$> c_noteOwn p

-- | For 'raiseWall', while the system alone may refuse it. 'False': it does.
buildWall :: Pen -> IO Bool
buildWall (Pen p) = (>= 0) <$> c_buildWall p

-- | From now on what this thread evaluates is watched. After 'noteOwn'.
watchOver :: Pen -> IO ()
watchOver pen = do
  evaluating <- myThreadId
  -- A thread that is held is never found to be unreachable: the run-time system
  -- throws nothing into it.
  _ <- newStablePtr evaluating
  void (forkIO (look pen evaluating (-1) GoesOn))

-- | This thread has run the initialiser: what it has left behind are the threads that
-- are younger than this one, and there are now.
initialised :: IO ()
initialised = do
  ThreadId evaluating <- myThreadId
  ThreadId next <- forkIO (pure ())
  c_initialised evaluating next

-- | From now on what is read from inherited descriptors never comes. After 'buildWall'. 'False': a thread that waits
-- for it cannot be seen here.
raiseWall :: Pen -> Snapshot -> IO Bool
raiseWall (Pen p) (Snapshot s) = (== 0) <$> c_guard p s

data Verdict = GoesOn | AllBlocked | NeedsHandle
  deriving (Eq)

-- | Every 100 ms, until the process ends. What was seen before: the item, and the
-- verdict on its thread.
look :: Pen -> ThreadId -> Int64 -> Verdict -> IO ()
look pen@(Pen p) evaluating@(ThreadId t) before verdictBefore = do
  nap
  ThreadId self <- myThreadId
  item <- c_item p
  verdict <- if item < 0 then pure GoesOn else verdictOf <$> c_stuck t self
  case verdict of
    NeedsHandle -> seal item "it uses a Handle that the caller opened"
    AllBlocked -> do
      resting <- if rtsSupportsBoundThreads then (/= 0) <$> c_rests p else pure (item == before && verdict == verdictBefore)
      when resting (seal item "all threads that it has are blocked, for ever or until the caller does something")
    GoesOn -> pure ()
  look pen evaluating item verdict
  where
    seal item why = withCString why (c_seal p item)
    verdictOf n = case n of
      1 -> AllBlocked
      2 -> NeedsHandle
      _ -> GoesOn

-- | Not by a timer of the I/O manager where another way exists: a timer that is set
-- is a reason for a worker's threads to wait.
nap :: IO ()
nap
  | rtsSupportsBoundThreads = void (c_sleep micros)
  | otherwise = threadDelay (fromIntegral micros)
  where
    micros :: CUInt
    micros = 100000
