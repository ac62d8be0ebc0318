{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE InterruptibleFFI #-}

-- | Forked workers as the kernel sees them (@native/base/process.h@).
-- /Internal/.
module Maru.Native.Process
  ( Process (..),
    Snapshot (..),
    CSnapshot,
    newSnapshot,
    freeSnapshot,
    sealSnapshot,
    openPidfd,
    closePidfd,
    dieWith,
    newLifeline,
    forget,
    workerSignals,
    exitNow,
    reap,
    awaitEnds,
    endNow,
    killNow,
    residentBytes,
    memoryLeft,
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Exception (onException)
import Control.Monad (unless, void, when)
import Data.Foldable (for_)
import Data.Maybe (isNothing)
import Data.Word (Word64, Word8)
import Foreign (Ptr, allocaBytes, peekByteOff, withArrayLen)
import Foreign.C (CInt (..), CSize (..), throwErrnoIfNull, throwErrnoIf_)
import Maru.Failure (Death (..))
import System.Posix.Types (CPid (..), ProcessID)

-- | A child of this process, its pidfd, and our end of its lifeline; these are
-- negative where the system has none.
data Process = Process !ProcessID !CInt !CInt

data CSnapshot

-- | The descriptors that a child has inherited.
newtype Snapshot = Snapshot (Ptr CSnapshot)

foreign import ccall unsafe "maru_fd_snapshot_new" c_new :: IO (Ptr CSnapshot)

foreign import ccall unsafe "maru_fd_snapshot_free" c_free :: Ptr CSnapshot -> IO ()

foreign import ccall unsafe "maru_fd_snapshot_seal" c_seal :: Ptr CSnapshot -> IO CInt

foreign import ccall unsafe "maru_pidfd_open" c_pidfd :: CPid -> IO CInt

foreign import ccall unsafe "close" c_close :: CInt -> IO CInt

foreign import ccall unsafe "maru_kill" c_kill :: CPid -> CInt -> IO CInt

foreign import ccall unsafe "maru_watch_parent" c_dieWith :: CPid -> CInt -> IO CInt

foreign import ccall unsafe "maru_worker_signals" workerSignals :: IO ()

foreign import ccall unsafe "maru_exit_now" c_exit :: CInt -> IO ()

foreign import ccall unsafe "maru_reap" c_reap :: CPid -> Ptr Word8 -> IO CInt

foreign import ccall safe "maru_reap_wait"
  c_reapWait :: CPid -> CInt -> CInt -> Ptr Word8 -> IO CInt

-- | For a child that keeps these. It looks at what there is itself, as its first thing.
newSnapshot :: [CInt] -> IO Snapshot
newSnapshot spared = do
  s <- throwErrnoIfNull "a worker's descriptors" c_new
  for_ spared (throwErrnoIf_ (< 0) "a worker's descriptors" . c_spare s) `onException` c_free s
  pure (Snapshot s)

foreign import ccall unsafe "maru_fd_snapshot_spare" c_spare :: Ptr CSnapshot -> CInt -> IO CInt

freeSnapshot :: Snapshot -> IO ()
freeSnapshot (Snapshot s) = c_free s

-- | In the child: reads of inherited descriptors fail from now on. 'False':
-- they could not be sealed, so the worker must not run.
sealSnapshot :: Snapshot -> IO Bool
sealSnapshot (Snapshot s) = (>= 0) <$> c_seal s

openPidfd :: ProcessID -> IO CInt
openPidfd = c_pidfd

closePidfd :: CInt -> IO ()
closePidfd fd
  | fd < 0 = pure ()
  | otherwise = void (c_close fd)

-- | This process ends when that one does.
dieWith :: ProcessID -> CInt -> IO Bool
dieWith parent pidfd = (== 0) <$> c_dieWith parent pidfd

-- | By which the kernel ends a worker, a stopped one too, when the coordinator dies: the
-- end that the worker must keep, made before the fork, which makes the other end.
-- Negative where there was no descriptor for it.
foreign import ccall unsafe "maru_lifeline_open" newLifeline :: IO CInt

-- | Once it has ended.
forget :: Process -> IO ()
forget (Process _ pidfd line) = closePidfd pidfd >> closePidfd line

-- | Ends this process at once: no finalizer, no flush.
exitNow :: Int -> IO ()
exitNow = c_exit . fromIntegral

-- | How it ended, if it has.
reap :: Process -> IO (Maybe Death)
reap (Process pid _ _) = allocaBytes 8 $ \d -> c_reap pid d >>= death d

-- | Waits so many milliseconds for it to end (negative: until it does).
reapWait :: Process -> Int -> IO (Maybe Death)
reapWait (Process pid fd _) ms =
  allocaBytes 8 $ \d -> c_reapWait pid fd (fromIntegral ms) d >>= death d

-- | Waits until all of these, which were killed, have ended, so that 'endNow' then costs
-- nothing; 5 s at most. Reaps none.
awaitEnds :: [Process] -> IO ()
awaitEnds processes = unless (null processes) $
  withArrayLen [fd | Process _ fd _ <- processes] $ \n fds ->
    void (c_endsWait fds (fromIntegral n) (fromIntegral endsMs))

-- | Kills it, and says how it has ended. Killed, it runs no instruction of ours any more; but
-- the kernel may hold it for long (a disk that does not answer). After 5 s it has 'Vanished',
-- and is reaped when it ends: no zombie stays.
endNow :: Process -> IO Death
endNow process = do
  killNow process
  reapWait process endsMs >>= maybe (Vanished <$ forkIO later) pure
  where
    later = do
      threadDelay 100000
      ended <- reap process
      when (isNothing ended) later

-- Milliseconds that a killed process gets to end.
endsMs :: Int
endsMs = 5000

foreign import ccall safe "maru_ends_wait"
  c_endsWait :: Ptr CInt -> CSize -> CInt -> IO CInt

death :: Ptr Word8 -> CInt -> IO (Maybe Death)
death _ 0 = pure Nothing
death d r
  | r < 0 = pure (Just Vanished)
  | otherwise = do
    signalled <- peekByteOff d 0 :: IO CInt
    code <- fromIntegral <$> (peekByteOff d 4 :: IO CInt)
    pure (Just (if signalled /= 0 then Killed code else Exited code))

foreign import ccall unsafe "maru_resident_bytes" c_resident :: IO Word64

-- | Memory of this process that is in RAM; 0 when unknown.
residentBytes :: IO Int
residentBytes = fromIntegral <$> c_resident

foreign import ccall safe "maru_memory_left" c_memoryLeft :: IO Word64

-- | Bytes that the machine could give without swapping, at most its control group's limit.
memoryLeft :: IO Int
memoryLeft = fromIntegral . min (fromIntegral (maxBound :: Int)) <$> c_memoryLeft

-- | SIGKILL. Harmless when it has ended already.
killNow :: Process -> IO ()
killNow (Process pid fd _) = void (c_kill pid fd)
