{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE InterruptibleFFI #-}

-- | @maru/channel.h@ for Haskell: crews in shared memory, and how their members wait; its logs are
-- in "Maru.Native.Log". /Internal/.
--
-- Everything here is as thread-safe and as crash-safe as the C contract says;
-- errors that the contract names become values, all others 'Unavailable'.
module Maru.Native.Channel
  ( -- * Waiting
    WaitPolicy,
    newWaitPolicy,
    nowNs,

    -- * Crew
    Crew (..),
    CCrew,
    Chunk (..),
    newCrew,
    freeCrew,
    seat,
    publish,
    closeCrew,
    backlog,
    claimOf,
    forfeit,
    bell,
    ring,
    await,
    Claimed (..),
    claim,
    done,

    -- * Counters
    Counters (..),
    readCounters,
    countItems,
    setCurrent,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (throwIO, try)
import Control.Monad (void, when)
import Data.Either (fromRight)
import Data.Foldable (fold)
import Data.IORef
import Data.Int (Int64)
import Data.List (intercalate)
import Data.Word (Word32, Word64)
import Foreign (ForeignPtr, Ptr, alloca, allocaBytes, finalizeForeignPtr, mallocForeignPtrBytes, peek, peekByteOff, poke, pokeByteOff, withForeignPtr)
import Foreign.C (CInt (..), CString, Errno (..), e2BIG, eAGAIN, eINTR, eNOSPC, eTIMEDOUT, withCString)
import Foreign.Concurrent (newForeignPtr)
import Maru.Failure (BadOptions (..), Unavailable (..))
import Maru.Native.Hall
import Maru.Native.Log (described, refused)
import Maru.Wait (Policy (..), policyName)
import System.Environment (lookupEnv)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix.Process (getProcessID)

data CPolicy

-- | How one thread waits; learns, so each waiting thread has its own.
newtype WaitPolicy = WaitPolicy (ForeignPtr CPolicy)

foreign import ccall unsafe "maru_wait_policy_init"
  c_policyInit :: Ptr CPolicy -> CInt -> IO CInt

foreign import ccall unsafe "maru_wait_parse"
  c_parse :: CString -> Ptr Int64 -> IO CInt

foreign import ccall unsafe "maru_now_ns"
  nowNs :: IO Int64

-- | The policy that @MARU_WAIT@ names, with its spin limit, else the adaptive one. Throws
-- 'BadOptions' for what is none.
newWaitPolicy :: IO WaitPolicy
newWaitPolicy = do
  policy <- mallocForeignPtrBytes 40 -- policy.c asserts the size
  asked <- lookupEnv "MARU_WAIT"
  (kind, spin) <- maybe (pure (0, -1)) parsed asked
  r <- if kind < 0 then pure kind else withForeignPtr policy (`c_policyInit` kind)
  -- The field spin_ns; policy.c asserts where it is.
  when (r == 0 && spin >= 0) . withForeignPtr policy $ \p -> pokeByteOff p 4 (fromIntegral spin :: Word32)
  if r == 0 then pure (WaitPolicy policy) else throwIO (BadOptions (unknown asked))
  where
    parsed text = withCString text $ \t -> alloca $ \spin -> (,) <$> c_parse t spin <*> peek spin
    unknown asked = "MARU_WAIT is " <> show (fold asked) <> ", which is no way to wait; known: " <> intercalate ", " (map policyName [minBound .. maxBound]) <> "; with a spin limit, NAME:spin=40us, all but spin, block, gang and dcs"

-- Crew -----------------------------------------------------------------------

data CCrew

-- | Unmapped by 'freeCrew', or when it is garbage. Not at the end of the program, which may come
-- while threads still wait on it: finalizers in C are run then, those in Haskell are not.
newtype Crew = Crew (ForeignPtr CCrew)

data Chunk = Chunk {chunkFirst :: !Int, chunkCount :: !Int}
  deriving (Eq, Show)

foreign import ccall unsafe "maru_crew_create"
  c_crewCreate :: Ptr (Ptr CCrew) -> Word32 -> Word32 -> IO CInt

foreign import ccall unsafe "maru_crew_destroy" c_crewDestroy :: Ptr CCrew -> IO ()

foreign import ccall unsafe "maru_crew_publish"
  c_crewPublish :: Ptr CCrew -> Word64 -> Word32 -> IO CInt

foreign import ccall unsafe "maru_crew_close" c_crewClose :: Ptr CCrew -> IO ()

foreign import ccall unsafe "maru_crew_backlog" c_crewBacklog :: Ptr CCrew -> IO Word32

foreign import ccall unsafe "maru_crew_claim_of"
  c_crewClaimOf :: Ptr CCrew -> Word32 -> Ptr () -> IO CInt

foreign import ccall unsafe "maru_crew_forfeit" c_crewForfeit :: Ptr CCrew -> Word32 -> IO ()

foreign import ccall unsafe "maru_crew_bell" c_crewBell :: Ptr CCrew -> IO Word32

foreign import ccall unsafe "maru_crew_ring" c_crewRing :: Ptr CCrew -> IO ()

foreign import ccall interruptible "maru_crew_await"
  c_crewAwait :: Ptr CCrew -> Word32 -> Ptr CPolicy -> Int64 -> IO CInt

foreign import ccall interruptible "maru_crew_claim"
  c_crewClaim :: Ptr CCrew -> Word32 -> Ptr () -> Ptr CPolicy -> Int64 -> IO CInt

foreign import ccall unsafe "maru_crew_claim"
  c_crewTryClaim :: Ptr CCrew -> Word32 -> Ptr () -> Ptr CPolicy -> Int64 -> IO CInt

foreign import ccall unsafe "maru_crew_done" c_crewDone :: Ptr CCrew -> Word32 -> IO ()

foreign import ccall unsafe "maru_crew_counters"
  c_crewCounters :: Ptr CCrew -> Word32 -> IO (Ptr Word64)

-- | @newCrew workers slots@.
newCrew :: Int -> Int -> IO Crew
newCrew workers slots = alloca $ \out -> do
  r <- c_crewCreate out (fromIntegral workers) (fromIntegral slots)
  if r == 0 then peek out >>= \c -> Crew <$> newForeignPtr c (c_crewDestroy c) else refused "a crew in shared memory" r

foreign import ccall unsafe "maru_crew_seat"
  c_crewSeat :: Ptr CCrew -> Ptr CBoard -> Word32 -> IO CInt

-- | Before the fork: its waits become channels of the run's board, if there is one.
-- 'Just': why they did not.
seat :: Crew -> IO (Maybe String)
seat crew = maybe (pure Nothing) on' hall
  where
    on' (Hall board) = do
      self <- getProcessID
      let once = on crew $ \c -> withForeignPtr board $ \b -> c_crewSeat c b (fromIntegral self)
          -- A collection ends maps that nobody holds any more, and their crews with them; by
          -- threads that run when they come to it.
          collecting [] r = pure r
          collecting (pause : more) r
            | full r = performMajorGC >> threadDelay pause >> once >>= collecting more
            | otherwise = pure r
      first <- once
      others <- readIORef hasSeated
      r <- if full first && others then writeIORef hasSeated False >> collecting pauses first else pure first
      when (r == 0) (writeIORef hasSeated True)
      pure (if r == 0 then Nothing else Just (whyNot r))
    -- Microseconds, a quarter of a second in all.
    pauses = take 8 (iterate (* 2) 1000)
    full r = Errno (negate r) == eNOSPC
    whyNot r
      | full r = "all channels of the board are taken"
      | Errno (negate r) == e2BIG = "there are too many workers"
      | otherwise = described r

-- A crew of ours has had seats since the last collection on a full board. So a map that nobody
-- holds any more, and that no collection has ended, may have them still.
hasSeated :: IORef Bool
hasSeated = unsafePerformIO (newIORef False)
{-# NOINLINE hasSeated #-}

-- Opened at the first use. Without a run's board, one of our own for the policies that
-- are nothing without channels.
hall :: Maybe Hall
hall = unsafePerformIO $ do
  ofRun <- hallOfRun
  asked <- lookupEnv "MARU_WAIT"
  case ofRun of
    Nothing | fmap (takeWhile (/= ':')) asked `elem` map (Just . policyName) [Coop, Gang] -> fromRight Nothing <$> attempt (Just <$> newHall)
    _ -> pure ofRun
  where
    attempt :: IO a -> IO (Either Unavailable a)
    attempt = try
{-# NOINLINE hall #-}

on :: Crew -> (Ptr CCrew -> IO a) -> IO a
on (Crew crew) = withForeignPtr crew

-- | 'False': all slots hold unfinished chunks.
publish :: Crew -> Chunk -> IO Bool
publish crew (Chunk first count) = do
  r <- on crew $ \c -> c_crewPublish c (fromIntegral first) (fromIntegral count)
  case r of
    0 -> pure True
    _ | Errno (negate r) == eAGAIN -> pure False
    _ -> refused "a slot for a chunk" r

-- | Unmaps it. No thread is at it, or comes to it.
freeCrew :: Crew -> IO ()
freeCrew (Crew crew) = finalizeForeignPtr crew

closeCrew :: Crew -> IO ()
closeCrew crew = on crew c_crewClose

backlog :: Crew -> IO Int
backlog crew = fromIntegral <$> on crew c_crewBacklog

-- | The unfinished chunk of a dead worker.
claimOf :: Crew -> Int -> IO (Maybe Chunk)
claimOf crew w = on crew $ \c -> allocaBytes 24 $ \out -> do
  r <- c_crewClaimOf c (fromIntegral w) out
  if r == 1 then Just <$> peekChunk out else pure Nothing

forfeit :: Crew -> Int -> IO ()
forfeit crew w = on crew (`c_crewForfeit` fromIntegral w)

bell :: Crew -> IO Word32
bell crew = on crew c_crewBell

ring :: Crew -> IO ()
ring crew = on crew c_crewRing

-- | Sleeps until the bell is no longer @seen@, the deadline, or a signal. An
-- asynchronous exception ends it at once (interruptible call).
await :: Crew -> Word32 -> WaitPolicy -> Int64 -> IO ()
await crew seen (WaitPolicy policy) deadline =
  on crew $ \c -> withForeignPtr policy $ \p -> void (c_crewAwait c seen p deadline)

data Claimed = Claimed !Chunk | Closed | NotYet

-- | @claim crew worker policy deadline@: tries without leaving Haskell first,
-- since a call that may sleep gives the capability up and takes it back.
claim :: Crew -> Int -> WaitPolicy -> Int64 -> IO Claimed
claim crew w (WaitPolicy policy) deadline = on crew $ \c -> withForeignPtr policy $ \p -> allocaBytes 24 $ \out -> do
  quick <- c_crewTryClaim c (fromIntegral w) out p 0
  r <- if quick < 0 then c_crewClaim c (fromIntegral w) out p deadline else pure quick
  case r of
    1 -> Claimed <$> peekChunk out
    0 -> pure Closed
    _
      | Errno (negate r) `elem` [eTIMEDOUT, eINTR] -> pure NotYet
      | otherwise -> refused "a claim on a chunk" r

done :: Crew -> Int -> IO ()
done crew w = on crew (`c_crewDone` fromIntegral w)

peekChunk :: Ptr () -> IO Chunk
peekChunk out = do
  first <- peekByteOff out 8 :: IO Word64
  count <- peekByteOff out 16 :: IO Word32
  pure (Chunk (fromIntegral first) (fromIntegral count))

-- Counters -------------------------------------------------------------------

-- | One worker's counters; single writer, so plain stores do.
data Counters = Counters
  { countedItems :: !Word64,
    countedBusyNs :: !Word64,
    countedGcNs :: !Word64,
    countedCurrent :: !Word64
  }

withCounters :: Crew -> Int -> (Ptr Word64 -> IO a) -> IO a
withCounters crew w use = on crew $ \c -> c_crewCounters c (fromIntegral w) >>= use

readCounters :: Crew -> Int -> IO Counters
readCounters crew w = withCounters crew w $ \p ->
  Counters <$> peek p <*> peekByteOff p 8 <*> peekByteOff p 16 <*> peekByteOff p 24

-- | So many items took so many nanoseconds.
countItems :: Crew -> Int -> Word64 -> Word64 -> IO ()
countItems crew w n ns = withCounters crew w $ \p -> do
  peek p >>= poke p . (+ n)
  (peekByteOff p 8 :: IO Word64) >>= pokeByteOff p 8 . (+ ns)

setCurrent :: Crew -> Int -> Int -> IO ()
setCurrent crew w i = withCounters crew w $ \p -> pokeByteOff p 24 (fromIntegral i :: Word64)
