{-# LANGUAGE ForeignFunctionInterface #-}
{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | What maru does to GHC's run-time system, in one place.
module Maru.Native.Rts
  ( -- * Workers
    forkWorker,
    haveWorkers,
    prepareChild,
    hearSignals,
    neuterFinalizers,
    lockHandles,

    -- * Memory
    setAllocArea,
    allocArea,
    areaBound,
    areaIsOurs,
    lendArea,
    returnArea,
    collectorLook,
    limitHeap,
    collapseHeap,

    -- * Time and order
    shortSlices,
    fence,

    -- * What this program allows
    forkHazard,

    -- * Exceptions
    ShippedException (..),
    splitException,
    joinException,
  )
where

import Control.Exception (SomeException, bracket, throwIO)
import Control.Monad (void)
import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C (CBool (..), CInt (..), CString, Errno (..), errnoToIOError, peekCString, throwErrnoIfMinus1)
import Foreign.Marshal (alloca, allocaArray)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.StablePtr (StablePtr, freeStablePtr, newStablePtr)
import Foreign.Storable (peek, peekElemOff)
import GHC.Exts (Any, Int (I#), MVar#, Ptr (Ptr), RealWorld, addr2Int#, addrToAny#, anyToAddr#, int2Addr#)
import GHC.IO (IO (IO))
import GHC.IO.Handle.Types (Handle (..), Handle__)
import GHC.MVar (MVar (..))
import Maru.Failure (Unavailable (..))
import Maru.Internal.Area (Look (..))
import Maru.Native.Ghc (exceptionOf, partsOf)
import System.IO (stderr, stdout)
import System.Posix.Types (CPid (..), ProcessID)

foreign import ccall unsafe "maru_rts_hazard"
  c_hazard :: IO CString

foreign import ccall unsafe "maru_rts_one_of_many"
  c_oneOfMany :: IO ()

foreign import ccall unsafe "maru_rts_neuter_weaks" c_neuterWeaks :: IO Int64

foreign import ccall unsafe "maru_rts_lock_handles"
  c_lockHandles :: MVar# RealWorld Handle__ -> MVar# RealWorld Handle__ -> IO ()

foreign import ccall safe "maru_rts_fork"
  c_fork :: StablePtr (IO ()) -> Ptr snapshot -> CInt -> Ptr CInt -> IO CPid

foreign import ccall unsafe "maru_rts_set_alloc_area"
  c_setAllocArea :: Int64 -> IO ()

foreign import ccall unsafe "maru_rts_alloc_area"
  c_allocArea :: IO Int64

foreign import ccall unsafe "maru_rts_area_bound"
  c_areaBound :: IO Int64

foreign import ccall unsafe "maru_rts_area_is_ours"
  c_areaIsOurs :: IO CBool

foreign import ccall unsafe "maru_rts_collector"
  c_collector :: Ptr Int64 -> IO ()

foreign import ccall safe "maru_rts_collapse_heap"
  c_collapseHeap :: IO Int64

foreign import ccall unsafe "maru_rts_is_static"
  c_isStatic :: Ptr () -> IO CBool

-- | Forks a process that does this, in which nothing is left of what the threads
-- of this one were doing, tied to this one's life by that end of a lifeline (negative: by
-- none); its number and the other end. What it has inherited is in the snapshot there
-- ("Maru.Native.Process"; null: nobody asks). The action must not return. Throws @IOException@.
forkWorker :: Ptr snapshot -> CInt -> IO () -> IO (ProcessID, CInt)
forkWorker inherited reading act = bracket (newStablePtr act) freeStablePtr $ \entry -> alloca $ \line -> do
  c_look
  (,) <$> throwErrnoIfMinus1 "forkProcess" (c_fork entry inherited reading line) <*> peek line

foreign import ccall unsafe "maru_rts_look"
  c_look :: IO ()

-- | So many more workers (fewer, where it is negative) live from now on. While this
-- process has any, it collects with one thread: the cores are theirs.
haveWorkers :: Int -> IO ()
haveWorkers = c_workers . fromIntegral

foreign import ccall unsafe "maru_rts_workers"
  c_workers :: Int64 -> IO ()

-- | First thing in a forked worker: it collects with one thread, and not by
-- itself when idle (that would copy the whole inherited heap), and runs no
-- finalizers of what is the parent's (they would flush its buffers and close its
-- resources twice); see 'neuterFinalizers'.
prepareChild :: IO ()
prepareChild = c_oneOfMany >> void neuterFinalizers

-- | Signals that waited since the fork come now. In the thread that began the
-- worker, after 'Maru.Native.Process.workerSignals'.
foreign import ccall unsafe "maru_rts_hear"
  hearSignals :: IO ()

-- | Takes their finalizers from all weak pointers of this process; how many
-- weak pointers there were.
neuterFinalizers :: IO Int
neuterFinalizers = max 0 . fromIntegral <$> c_neuterWeaks

-- | Locks for ever all inherited Handles but 'stdout' and 'stderr': what they have read
-- ahead is the parent's. After 'neuterFinalizers', by which they are known.
lockHandles :: IO ()
lockHandles = case (variable stdout, variable stderr) of
  (MVar out, MVar err) -> c_lockHandles out err
  where
    variable (FileHandle _ m) = m
    variable (DuplexHandle _ _ m) = m

-- | Bytes of the allocation area of each capability, from the next collection
-- on. Only where 'areaIsOurs'.
setAllocArea :: Int -> IO ()
setAllocArea = c_setAllocArea . fromIntegral

-- | See 'setAllocArea'.
allocArea :: IO Int
allocArea = fromIntegral <$> c_allocArea

-- | Most bytes of it that the bound of this process's heap (-M) leaves room for.
areaBound :: IO Int
areaBound = fromIntegral <$> c_areaBound

-- | A map evaluates an item here, in the caller. Until 'returnArea', and some collections more, its
-- allocation area may become larger where these are dear and the user chose none
-- (@cbits/rts/area.c@). No effect in a worker.
foreign import ccall unsafe "maru_rts_area_lend"
  lendArea :: IO ()

-- | The rest is evaluated elsewhere, or there is none.
foreign import ccall unsafe "maru_rts_area_return"
  returnArea :: IO ()

foreign import ccall unsafe "maru_rts_limit_heap"
  c_limitHeap :: Int64 -> IO ()

-- | Most bytes of this process's heap; above it the run-time system ends the
-- process with status 251.
limitHeap :: Int -> IO ()
limitHeap = c_limitHeap . fromIntegral

-- | Why forked workers are unsafe in this program, if they are. With
-- @--nonmoving-gc@ they may hang (GHC 9.0, observed), however results cross.
forkHazard :: IO (Maybe String)
forkHazard = do
  why <- c_hazard
  if why == nullPtr then pure Nothing else Just <$> peekCString why

-- | Collapses the heap into huge pages, so that a fork has fewer page tables to
-- copy; how many bytes were collapsed. Copy-on-write then works on 2 MiB at a
-- time: for heaps that are mostly read. Throws 'Unavailable' where the kernel
-- does not offer it (Linux before 6.1).
collapseHeap :: IO Int
collapseHeap = do
  code <- c_collapseHeap
  if code >= 0
    then pure (fromIntegral code)
    else throwIO (Unavailable "the heap in huge pages" (reason code) "leave hugePages off")
  where
    reason code = show (errnoToIOError "madvise" (Errno (fromIntegral (negate code))) Nothing Nothing)

-- | In a worker: the allocation area was left to the run-time system at the program's start.
areaIsOurs :: IO Bool
areaIsOurs = (/= 0) <$> c_areaIsOurs

-- | What this process and its collector have done. Without @+RTS -T@ the run-time system counts from
-- the first call on.
collectorLook :: IO Look
collectorLook = allocaArray 3 $ \at -> do
  c_collector at
  Look <$> peekElemOff at 0 <*> peekElemOff at 1 <*> peekElemOff at 2 <*> allocArea

-- | For so many microseconds from now a thread that computes on this capability lets others run
-- every half a millisecond, not every 20. No effect on one that does not allocate, or is in an
-- unsafe foreign call.
shortSlices :: Int -> IO ()
shortSlices micros = c_slices (1000 * fromIntegral micros)

foreign import ccall unsafe "maru_rts_slices"
  c_slices :: Int64 -> IO ()

-- | What this thread reads from now on it reads after others could see what it has written. (An
-- 'Data.IORef.atomicWriteIORef' is that, too, and costs more.)
foreign import ccall unsafe "maru_rts_fence"
  fence :: IO ()

-- | An exception taken apart for the journey.
data ShippedException
  = -- | The address of its @Exception@ dictionary, which is the same in parent
    -- and worker, and its payload, to be sent like a result.
    Typed !Word64 Any
  | -- | The dictionary was built at run time: only the text can cross.
    TextOnly

-- | In the worker. The parent must hold on to the function and inputs that led
-- here until it has called 'joinException': they keep the dictionary's code
-- from its collector.
splitException :: SomeException -> IO ShippedException
splitException e = case partsOf e of
  (dictionary, payload) -> do
    address <- IO $ \s -> case anyToAddr# dictionary s of (# s1, a #) -> (# s1, I# (addr2Int# a) #)
    static <- c_isStatic (toPtr address)
    pure (if static /= 0 then Typed (fromIntegral address) payload else TextOnly)
  where
    toPtr (I# a) = Ptr (int2Addr# a)

-- | In the parent: dictionary's address and payload.
joinException :: Word64 -> Any -> IO SomeException
joinException address payload = case fromIntegral address of
  I# a -> case addrToAny# (int2Addr# a) of
    (# dictionary #) -> pure (exceptionOf dictionary payload)
