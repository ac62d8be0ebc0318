{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE RankNTypes #-}

-- | What the in-process back ends share: the threads of one run and their end,
-- the feeder that walks the input, the lazily produced list, progress and report.
-- /Internal/: may change without a major version.
--
-- Who may hold whom: the threads hold the 'Run', the consumer's list holds the
-- 'Run' and, alone, the mark that 'produce' makes. When the list is garbage so is
-- the mark, and its finalizer ends the run.
--
-- What the consumer runs has no exception handler around anything that blocks, but for 'awaited'.
-- An asynchronous exception (a timeout, say) that meets the consumer inside the
-- list freezes the list where it stands, and the next demand goes on from there. A
-- handler that threw the exception on would store it in the list for ever.
module Maru.Internal.Run
  ( Run,
    newRun,
    stopRun,
    runReport,

    -- * Threads
    Restore,
    Fork,
    spawn,
    spawnWorkers,
    whileRegistered,
    isStopped,

    -- * Input
    spawnFeeder,
    whileGoing,
    endsAt,
    runWindow,

    -- * Chunks
    Guide,
    newGuide,
    guideChunk,
    timed,
    learned,
    itemsWithin,
    work,

    -- * Results
    arrived,
    produce,
    awaited,
    awaitWorkers,
  )
where

import Control.Concurrent (ThreadId, forkIO, forkIOWithUnmask, killThread, myThreadId)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception
import Control.Monad (unless, void, when)
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (isJust)
import GHC.Clock (getMonotonicTimeNSec)
import Maru.Internal.Attempt (textOf)
import Maru.Internal.Engine
import Maru.Internal.Feed (endSoon)
import Maru.Internal.Patience
import Maru.Internal.Plan
import Maru.Internal.Progress
import Maru.Internal.Unnested (atOnce)
import Maru.Options
import System.IO.Unsafe (unsafeInterleaveIO)
import System.Timeout (timeout)

-- | One run. Holds no input and no result.
data Run = Run
  { runBackend :: !Backend,
    runOptions :: !Options,
    runWorkers :: !Int,
    -- | How to end each thread that works for the run, by key; 'Nothing' once the
    -- run has been stopped.
    runThreads :: !(MVar (Maybe (IntMap (IO ())))),
    runKeys :: !(IORef Int),
    runStopped :: !(TVar Bool),
    -- | Threads that 'spawn' made and that have not ended.
    runAlive :: !(TVar Int),
    -- | Items that the consumer has taken, in steps of a quarter window.
    runConsumed :: !(TVar Int),
    -- | How far beyond @runConsumed@ the input may be walked. It only grows:
    -- 'produce' relies on that.
    runAhead :: !(TVar Int),
    runArrived :: !(IORef Int),
    runTotal :: !(IORef (Maybe Int)),
    runChunks :: !(IORef Int),
    runNotes :: !(IORef [String]),
    runStarted :: !(IORef Int),
    -- | Workers whose initialiser has not returned.
    runUnready :: !(IORef Int),
    -- | Of progress, where somebody is told.
    runTeller :: !(IORef (Maybe Teller)),
    -- | Filled when all workers are ready, or with what the first failure threw.
    runReady :: !(MVar (Maybe SomeException))
  }

newRun :: Backend -> Options -> Int -> IO Run
newRun b options n =
  Run b options n
    <$> newMVar (Just IntMap.empty)
    <*> newIORef 0
    <*> newTVarIO False
    <*> newTVarIO 0
    <*> newTVarIO 0
    <*> newTVarIO (lookAhead settings (aim settings nothingSeen))
    <*> newIORef 0
    <*> newIORef Nothing
    <*> newIORef 0
    <*> newIORef []
    <*> newIORef 0
    <*> newIORef 0
    <*> newIORef Nothing
    <*> newEmptyMVar
  where
    settings = settingsOf options n

-- | Ends all threads of the run and waits for them, but not for long: a thread in
-- a loop that does not allocate cannot be ended earlier than the loop. So it is
-- with a foreign call. The feeder is not waited for, see 'spawnFeeder'.
stopRun :: Run -> IO ()
stopRun run = do
  complete <- isComplete run
  -- Then all threads end by themselves, and progress is told to the end.
  when complete allEnded
  endRun run
  allEnded
  where
    allEnded = void (timeout 150000 (atomically (readTVar (runAlive run) >>= check . (== 0))))

-- | Every item has a result: what threads are left end by themselves.
isComplete :: Run -> IO Bool
isComplete run = do
  total <- readIORef (runTotal run)
  done <- readIORef (runArrived run)
  pure (Just done == total)

-- | 'stopRun' without the wait.
endRun :: Run -> IO ()
endRun run = do
  atomically (writeTVar (runStopped run) True)
  threads <- swapMVar (runThreads run) Nothing
  -- Each by a thread of its own: throwTo waits for its target.
  for_ threads (traverse_ forkIO)

isStopped :: Run -> IO Bool
isStopped = readTVarIO . runStopped

runReport :: Run -> IO Report
runReport run = do
  started <- readIORef (runStarted run)
  chunks <- readIORef (runChunks run)
  done <- readIORef (runArrived run)
  notes <- readIORef (runNotes run)
  pure
    (noReport (runBackend run))
      { reportWorkersStarted = started,
        reportChunks = chunks,
        reportTransports = [("in process", done)],
        reportNotes = reverse notes
      }

-- Threads -------------------------------------------------------------------

-- | Lets asynchronous exceptions in.
type Restore = forall x. IO x -> IO x

-- | 'forkIOWithUnmask' and its like.
type Fork = (Restore -> IO ()) -> IO ThreadId

-- | Starts a thread that ends with the run. Its body runs masked.
spawn :: Run -> Fork -> (Restore -> IO ()) -> IO ()
spawn run fork body = enlist run killThread $ \leave -> do
  alive (+ 1)
  fork (\restore -> body restore `finally` uninterruptibleMask_ (leave >> alive (subtract 1)))
  where
    alive = atOnce . modifyTVar' (runAlive run)

-- | Starts a thread, unless the run has been stopped. When that is stopped, the thread is
-- ended in this way. The thread does last what the starter is given.
enlist :: Run -> (ThreadId -> IO ()) -> (IO () -> IO ThreadId) -> IO ()
enlist run end start = mask_ $
  modifyMVar_ (runThreads run) $ \case
    Nothing -> pure Nothing
    Just others -> do
      key <- newKey run
      thread <- start (void (forget run key))
      Just <$> evaluate (IntMap.insert key (end thread) others)

newKey :: Run -> IO Int
newKey run = atomicModifyIORef' (runKeys run) (\n -> (n + 1, n))

-- | 'False': too late, the run has been stopped and ends the thread of that key.
forget :: Run -> Int -> IO Bool
forget run key = modifyMVar (runThreads run) $ \threads -> do
  threads' <- traverse (evaluate . IntMap.delete key) threads
  pure (threads', isJust threads')

-- | Starts so many workers. Each runs the initialiser, then its body; the body
-- gets the worker's number. Starts the progress callback too. Call it once.
spawnWorkers :: Run -> Int -> (Int -> Fork) -> (Int -> Restore -> IO ()) -> IO ()
spawnWorkers run count fork body = do
  writeIORef (runStarted run) count
  writeIORef (runUnready run) count
  when (count == 0) $ void (tryPutMVar (runReady run) Nothing)
  for_ [0 .. count - 1] $ \n ->
    spawn run (fork n) $ \restore -> do
      ready <- try (restore (initialise (runOptions run)))
      case ready of
        Left e -> void (tryPutMVar (runReady run) (Just e))
        Right () -> do
          left <- atomicModifyIORef' (runUnready run) (\k -> (k - 1, k - 1))
          when (left == 0) $ void (tryPutMVar (runReady run) Nothing)
          body n restore
  for_ (onProgress (runOptions run)) $ \callback -> do
    teller <- newTeller
    writeIORef (runTeller run) (Just teller)
    spawn run forkIOWithUnmask $ \restore -> do
      outcome <- restore (watch teller callback (look run))
      stopped <- isStopped run
      case outcome of
        Left e | not stopped -> do
          text <- textOf e
          -- The run's end is no fault of the callback.
          late <- isStopped run
          unless late $ atomicModifyIORef' (runNotes run) (\notes -> (progressNote text : notes, ()))
        _ -> pure ()
  where
    progressNote text = "the progress callback threw and is called no more: " <> text

look :: Run -> IO (Int, Maybe Int, Int)
look run = do
  total <- readIORef (runTotal run)
  done <- readIORef (runArrived run)
  started <- readIORef (runStarted run)
  pure (done, total, started)

-- | Thrown to a borrowed thread when the run is stopped.
data Ended = Ended deriving (Show)

instance Exception Ended where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Runs an action in a thread that is not the run's own (one that runs sparks)
-- and that 'stopRun' may interrupt, but only within the action: the thread goes on
-- to other work, perhaps of another run, so an @Ended@ under way is waited for.
whileRegistered :: Run -> (Restore -> IO ()) -> IO ()
whileRegistered run action = mask $ \restore -> do
  me <- myThreadId
  landed <- newEmptyMVar
  key <- newKey run
  let end = throwTo me Ended >> putMVar landed ()
  live <- modifyMVar (runThreads run) $ \threads -> do
    threads' <- traverse (evaluate . IntMap.insert key end) threads
    pure (threads', isJust threads)
  when live $ do
    action restore `catch` \Ended -> pure ()
    inTime <- uninterruptibleMask_ (forget run key)
    unless inTime $ awaitLanding landed
  where
    -- Blocking lets a pending Ended in; then the second look finds it landed.
    awaitLanding landed =
      readMVar landed `catch` \Ended -> awaitLanding landed

-- Input ---------------------------------------------------------------------

-- | Walks the spine of the input, never further ahead of the consumer than the
-- window, and hands over each item and then the end: how many there were, and what
-- the spine threw there.
--
-- A thread of its own does this, so that a spine that blocks or computes delays no
-- result of an earlier item. When the run is stopped it ends with the cell that it is
-- at, and hands that over no more: see 'endSoon'.
spawnFeeder :: Run -> (Int -> a -> IO ()) -> (Int -> Maybe SomeException -> IO ()) -> [a] -> IO ()
spawnFeeder run offer finish inputs = enlist run endSoon $ \leave ->
  forkIOWithUnmask (\restore -> feed run offer finish inputs restore `finally` uninterruptibleMask_ leave)

feed :: Run -> (Int -> a -> IO ()) -> (Int -> Maybe SomeException -> IO ()) -> [a] -> Restore -> IO ()
feed run offer finish inputs restore = go 0 inputs
  where
    go n xs = do
      whileGoing run $ do
        consumed <- readTVar (runConsumed run)
        ahead <- readTVar (runAhead run)
        check (n < consumed + ahead)
      unlessStopped (walk n xs)
    walk n xs = do
      seen <- try (restore (evaluate xs))
      unlessStopped $ case seen of
        Right (x : rest) -> offer n x >> go (n + 1) rest
        Right [] -> end n Nothing
        Left e -> end n (Just e)
    unlessStopped act = isStopped run >>= (`unless` act)
    end n e = do
      endsAt run n
      finish n e

-- | For the feeder, which nobody ends: does this, but waits no longer than the run goes on.
whileGoing :: Run -> STM () -> IO ()
whileGoing run act = patiently . atomically $ readTVar (runStopped run) >>= (`unless` act)

-- | How far the input may be walked ahead of the consumer, to begin with.
runWindow :: Run -> IO Int
runWindow = readTVarIO . runAhead

-- | The input holds so many items.
endsAt :: Run -> Int -> IO ()
endsAt run = atomicWriteIORef (runTotal run) . Just

-- Chunks --------------------------------------------------------------------

-- | Chooses chunk sizes for workers that claim.
data Guide = Guide
  { guideSettings :: !Settings,
    guideDispatchNs :: !Double,
    guideItemNs :: !(IORef (Maybe Double)),
    guideSize :: !(IORef Int)
  }

-- | For a run whose dispatch of a chunk costs so many nanoseconds.
newGuide :: Run -> Double -> IO Guide
newGuide run dispatchNs =
  Guide (settingsOf (runOptions run) (runWorkers run)) dispatchNs <$> newIORef Nothing <*> newIORef 0

-- | How many of the available items to claim now. One claim at a time.
guideChunk :: Run -> Guide -> Int -> IO Int
guideChunk run guide available = do
  itemNs <- readIORef (guideItemNs guide)
  size <- readIORef (guideSize guide)
  ended <- (/= Nothing) <$> readIORef (runTotal run)
  let seen =
        nothingSeen
          { seenItemNs = itemNs,
            seenDispatchNs = Just (guideDispatchNs guide),
            seenAvailable = available,
            seenEnded = ended,
            seenSize = size
          }
      (n, size') = nextChunk (guideSettings guide) seen
      ahead = lookAhead (guideSettings guide) size'
  writeIORef (guideSize guide) size'
  atomicModifyIORef' (runChunks run) (\k -> (k + 1, ()))
  before <- readTVarIO (runAhead run)
  when (ahead > before) $ atomically (modifyTVar' (runAhead run) (max ahead))
  pure n

-- | The loop of a worker: claims, evaluates, until a claim yields nothing.
work :: Run -> Guide -> IO [item] -> ([item] -> IO ()) -> IO ()
work run guide claimSome evaluateAll = loop
  where
    loop = do
      stopped <- isStopped run
      unless stopped $ do
        items <- claimSome
        unless (null items) $ timed guide (length items) (evaluateAll items) >> loop

-- | Runs the evaluation of a chunk of so many items and learns from its time.
timed :: Guide -> Int -> IO () -> IO ()
timed guide items action = do
  start <- getMonotonicTimeNSec
  action
  end <- getMonotonicTimeNSec
  learned guide items (fromIntegral (end - start))

-- | How many items take so many nanoseconds, by what was measured: at least 1.
itemsWithin :: Guide -> Double -> IO Int
itemsWithin guide ns = maybe 1 (\cost -> max 1 (round (min 4096 (ns / max 1 cost)))) <$> readIORef (guideItemNs guide)

-- | So many items took so many nanoseconds.
learned :: Guide -> Int -> Double -> IO ()
learned guide items ns =
  -- Two workers at once may lose one of the two measurements: harmless.
  modifyIORef' (guideItemNs guide) (`blend` ItemCost items ns)

-- Results -------------------------------------------------------------------

-- | Counts a result that the consumer may now take.
arrived :: Run -> IO ()
arrived run = atomicModifyIORef' (runArrived run) (\n -> (n + 1, ()))

-- | The lazily produced list: @next@ waits for an outcome and yields the state
-- after it; 'Nothing' is the end. @next@ must be interruptible at any point and
-- must not handle exceptions.
produce :: Run -> (s -> IO (Maybe (Outcome b, s))) -> s -> IO [Outcome b]
produce run next start = do
  taken <- newIORef (0 :: Int)
  -- Only the list holds this reference.
  void (mkWeakIORef taken (isComplete run >>= (`unless` endRun run)))
  let go s = unsafeInterleaveIO (next s >>= maybe end (uncurry (keep taken)))
      end = [] <$ (readIORef (runTeller run) >>= traverse_ lastCall)
      keep mark o s = take1 mark >> (o :) <$> go s
  go start
  where
    take1 taken = do
      n <- (+ 1) <$> readIORef taken
      writeIORef taken n
      told <- readTVarIO (runConsumed run)
      ahead <- readTVarIO (runAhead run)
      -- In steps, so that the feeder does not wake for every single item. At
      -- most a quarter window is untold, so the item waited for is always
      -- within the window.
      when (n - told >= max 1 (ahead `div` 4)) $ atOnce (writeTVar (runConsumed run) n)

-- | A wait of the consumer for threads of the run. An item may catch what it is told, and wait for
-- something else in vain: so often, that is some three seconds.
awaited :: IO a -> IO a
awaited = patientlyFor 10

-- | Waits until every worker's initialiser has returned; throws what the first
-- one that failed threw.
awaitWorkers :: Run -> IO ()
awaitWorkers run = awaited (readMVar (runReady run)) >>= traverse_ throwIO
