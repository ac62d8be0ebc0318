-- | The coordinator of forked workers, over any fabric. /Internal/.
--
-- The coordinator is whoever consumes the outcomes: each demand that is not
-- satisfied yet reads the workers' logs, looks for deaths, hands out chunks and
-- then sleeps on one doorbell. A second thread, the tender, does the same every
-- 20 ms while the consumer is busy elsewhere, and ends the workers when nobody
-- has asked for long.
--
-- What is known and decided is pure: "Maru.Backend.Process.State" and
-- "Maru.Backend.Process.Roster". The hands are "Maru.Backend.Process.Deliver",
-- "Maru.Backend.Process.Bury" and "Maru.Backend.Process.Hire"; what they share
-- is "Maru.Backend.Process.Run".
module Maru.Backend.Process
  ( Style (..),
    engineOn,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Foldable (foldl', for_, traverse_)
import Data.IORef
import Data.Int (Int64)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, isNothing)
import Maru.Backend.Process.Bury
import Maru.Backend.Process.Deliver
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.Hire
import Maru.Backend.Process.Roster (lone)
import Maru.Backend.Process.Run
import Maru.Backend.Process.State
import Maru.Backend.Process.Wire (OnlyCaller (..))
import Maru.Internal.Attempt (textOf)
import Maru.Internal.Engine
import Maru.Internal.Feed
import Maru.Internal.Progress
import Maru.Native.Channel (nowNs)
import Maru.Native.Pen (sealHere)
import Maru.Native.Process
import Maru.Native.Rts (shortSlices)
import Maru.Options
import System.IO.Unsafe (unsafeInterleaveIO)
import System.Mem (performMajorGC)
import System.Mem.Weak (Weak, deRefWeak)

-- | See 'Maru.Internal.Engine.Engine'. Throws @Unavailable@ where forked workers cannot be had.
--
-- Not interruptible: a run exists with the finalizer that ends it, or not at all.
engineOn :: Style -> Job a b -> IO (Running b)
engineOn style job = uninterruptibleMask_ $ do
  run <- newRun style job
  -- Only the list of outcomes holds the key: when it is garbage, so is the run.
  key <- newIORef run
  held <- mkWeakIORef key (endRun run)
  let early = isJust (jobBeside job)
  when early (change run awake)
  _ <- forkIOWithUnmask (\unmask -> unmask (when early (beginSoon held) >> tend held firstQuiet))
  for_ (onProgress (jobOptions job)) $ \callback -> do
    teller <- newTeller
    thread <- forkIOWithUnmask (\unmask -> unmask (tellProgress held teller (runHere run) (runFeed run) callback))
    writeIORef (runTeller run) (Just (thread, teller))
  list <- unsafeInterleaveIO (consume run key)
  pure Running {outcomes = list, stop = endRun run, report = reportOf run}

-- | The run, for as long as the consumer holds its list.
type Held a b = Weak (IORef (Run a b))

-- The consumer ---------------------------------------------------------------

consume :: Run a b -> IORef (Run a b) -> IO [Outcome b]
consume run key = do
  _ <- readIORef key
  -- Before the lock: in a forked process a thread that it lacks may hold it.
  ours <- isOurs run
  unless ours (sealHere "it demands a result of a map that the caller started" >> throwIO OnlyCaller)
  now <- nowNs
  writeIORef (runAsked run) now
  (news, demand, next) <- locked run $ do
    change run awake
    -- In this order: a cell that is not seen below rings after this look at the bell.
    news <- unlessEnded run 0 $ newsSeen (runFabric run) <* atomicWriteIORef (runListens run) True <* advance run now
    seen <- known (runFeed run)
    demand <- decide run (demanded (runJob run) seen)
    (,,) news demand . maybe (now + slice) (min (now + slice)) . lone (runJob run) now <$> look run
  case demand of
    Deliver batches -> do
      rest <- unsafeInterleaveIO (consume run key)
      pure (foldr (++) rest batches)
    Finished -> do
      readIORef (runTeller run) >>= traverse_ (lastCall . snd)
      -- At once: what the consumer maps next has them.
      locked run (leaveCores run)
      [] <$ forkIO (endRun run)
    FailedWith e -> forkIO (endRun run) >> throwIO e
    Wait -> do
      -- Without the threaded run-time system the call below stops every
      -- Haskell thread: let them run first, and keep it short.
      yield
      awaitNews (runFabric run) news next
      -- Waiting is interruptible, in a masked caller too.
      allowInterrupt
      consume run key
  where
    -- Workers wake it for results at times only, and the tender may have read some.
    slice = if rtsSupportsBoundThreads then 20000000 else 2000000

-- One round ------------------------------------------------------------------

-- | What goes wrong in it ends the map, not the thread that happened to look.
advance :: Run a b -> Int64 -> IO ()
advance run now = try (oneRound run now) >>= either (change run . failed) pure

oneRound :: Run a b -> Int64 -> IO ()
oneRound run now = do
  readLogs run
  looked <- readIORef (runLooked run)
  when (now - looked > 20000000) $ do
    writeIORef (runLooked run) now
    buryDead run
  handOutMore run
  hire run now
  tellBoard run

-- The tender -----------------------------------------------------------------

-- | Looks after the run while the consumer is busy elsewhere; ends with it, or ends
-- it when all is delivered: the consumer may never look at the end of its list.
--
-- It must not hold the run, which holds @f@: a consumer that is stuck in an item,
-- by what @f@ leads to, would never be found so.
tend :: Held a b -> Int64 -> IO ()
tend held quiet = do
  threadDelay 20000
  next <- deRefWeak held >>= maybe (pure Nothing) (tendOnce quiet)
  for_ next $ \quiet' -> do
    -- The consumer may be stuck in an item that no worker could evaluate. Only a
    -- collection shows that, and the run-time system makes none by itself while
    -- this thread looks around.
    when (quiet' > quiet) performMajorGC
    tend held quiet'

-- | In rounds, beside a consumer that computes, until the first workers are born. In the first ones the
-- input is walked, a turn between threads each; the others come every millisecond.
beginSoon :: Held a b -> IO ()
beginSoon held = go (20 :: Int)
  where
    go left = unless (left == 0) $ do
      shortSlices 3000
      begun <- deRefWeak held >>= maybe (pure True) beginOnce
      unless begun $ do
        if left > 16 then yield else threadDelay 1000
        go (left - 1)

-- | 'True': it is begun, or over. Not inlined: see @tend@.
beginOnce :: IORef (Run a b) -> IO Bool
beginOnce key = do
  next <- tendOnce firstQuiet key
  run <- readIORef key
  started <- countStarted . stCounts <$> look run
  pure (isNothing next || started > 0)
{-# NOINLINE beginOnce #-}

-- | 'Nothing': the run is over. A longer time: the consumer has not asked for so
-- long. Items were evaluated in the caller, or it still is at one of its own. The time
-- is doubled each time, for the item may just take long. Not inlined: see @tend@.
tendOnce :: Int64 -> IORef (Run a b) -> IO (Maybe Int64)
tendOnce quiet key = do
  run <- readIORef key
  now <- nowNs
  idle <- (now -) <$> readIORef (runAsked run)
  over <- locked run $ do
    over <- stEnded <$> look run
    unless over $ if idle > idleNs (jobOptions (runJob run)) then fallAsleep run else advance run now
    pure over
  complete <- completed run
  inCaller <- countInCaller . stCounts <$> look run
  busy <- fromMaybe (pure False) (jobBeside (runJob run))
  when (complete && not over) (endRun run)
  pure $
    if over || complete
      then Nothing
      else Just (if idle < firstQuiet then firstQuiet else if idle > quiet && (busy || inCaller > 0) then 2 * quiet else quiet)
{-# NOINLINE tendOnce #-}

firstQuiet :: Int64
firstQuiet = 300000000

completed :: Run a b -> IO Bool
completed run = do
  s <- look run
  seen <- known (runFeed run)
  pure (isComplete seen s)

fallAsleep :: Run a b -> IO ()
fallAsleep run = do
  callersCore run False
  try (decide run asleep >>= traverse_ (dismiss run)) >>= either (change run . failed) pure

-- | Tells about progress until the run ends. It does not hold the run, see @tend@.
tellProgress :: Held a b -> Teller -> IORef (Int, Int) -> Feed -> (Progress -> IO ()) -> IO ()
tellProgress held teller counts feed callback = do
  told <- watch teller callback $ do
    (here, alive) <- readIORef counts
    seen <- known feed
    pure (here, knownCount seen <$ knownEnd seen, alive)
  for_ (either Just (const Nothing) told) $ \e ->
    -- What 'endRun' throws is no fault of the callback.
    unless (fromException e == Just ThreadKilled) $
      deRefWeak held >>= traverse_ (readIORef >=> complain e)
  where
    -- Rendered outside of the lock: it is the callback's own code.
    complain e run = do
      text <- textOf e
      locked run (note run ("the progress callback threw: " <> text))

-- The end --------------------------------------------------------------------

-- | Idempotent; may be called from any thread, a finalizer too. In a process that
-- was forked meanwhile it does nothing: the workers are its parent's.
endRun :: Run a b -> IO ()
endRun run = do
  ours <- isOurs run
  when ours $ do
    first <- locked run (unlessEnded run False (True <$ release run))
    complete <- completed run
    when first $ do
      stopFeed (runFeed run)
      -- Not waited for: a callback may be in what cannot be interrupted. The teller of a
      -- complete run ends by itself, with its last call.
      unless complete (readIORef (runTeller run) >>= traverse_ (forkIO . killThread . fst))

release :: Run a b -> IO ()
release run = do
  dismissAll run
  leaveCores run
  -- The last words, for the board too.
  change run (\s -> foldl' (flip noted) s (notes s))
  tellBoard run
  change run ended
  freeFabric (runFabric run)
  closePidfd (runSelfPidfd run)

reportOf :: Run a b -> IO Report
reportOf run = do
  s <- look run
  itemNs <- locked run (unlessEnded run Nothing (itemCost (runFabric run)))
  let counts = stCounts s
  pure
    Report
      { reportBackend = styleBackend (runStyle run),
        reportWorkersStarted = countStarted counts,
        reportWorkersLost = countLost counts,
        reportChunks = countChunks counts,
        reportTransports = Map.toList (countCrossed counts),
        reportInCaller = countInCaller counts,
        reportItemNs = itemNs,
        reportNotes = notes s
      }
