-- | Ends workers, and notices that they have ended. /Internal/. Under the run's
-- lock.
module Maru.Backend.Process.Bury
  ( buryDead,
    dismiss,
    dismissAll,
  )
where

import Control.Exception
import Data.Foldable (for_, traverse_)
import Data.IORef
import qualified Data.IntMap.Strict as IntMap
import Maru.Backend.Process.Deliver
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.Roster
import Maru.Backend.Process.Run
import Maru.Backend.Process.State (failed, noted)
import Maru.Backend.Process.Worker (logClosers, startFailures)
import Maru.Failure
import Maru.Native.Channel (nowNs)
import Maru.Native.Process
import Maru.Native.Region (regionRelease)
import Maru.Native.Rts (haveWorkers)

-- | Those that have ended by themselves, and those that do not get through their
-- start.
buryDead :: Run a b -> IO ()
buryDead run = do
  workers <- readIORef (runWorkers run)
  for_ (IntMap.toList workers) $ \(slot, w) -> reap (workerProcess w) >>= traverse_ (bury run slot w)
  now <- nowNs
  overdue <- decide run (late now)
  for_ overdue (dismiss run)

-- | The worker is gone and reaped. What it wrote is read, what it had is orphaned.
-- Where that cannot be read the map fails: nothing is kept of the worker, and its last
-- item is not to blame.
bury :: Run a b -> Int -> Worker -> Death -> IO ()
bury run slot w death = do
  heard <- try $ do
    readLog run slot w
    (,) <$> unfinished (workerLink w) <*> wasUsedUp (workerLink w)
  ((claimed, current), full) <- either (\e -> (([], Nothing), False) <$ change run (leaves slot . failed e . noted (exceptionText (e :: SomeException)))) pure heard
  -- First of all, so that nothing is freed twice should something throw below.
  modifyIORef' (runWorkers run) (IntMap.delete slot)
  haveWorkers (-1)
  leaveCore run slot
  closeLink (workerLink w)
  forget (workerProcess w)
  now <- nowNs
  change run . died (runJob run) now slot $
    Exit
      { exitDeath = death,
        exitClaims = [(first, first + n) | Chunk first n <- claimed],
        exitCurrent = current,
        exitUnstarted = lookup death startFailures,
        exitFull = full && death `elem` logClosers
      }
  -- Last: it may be refused.
  traverse_ regionRelease (workerRegion w)

-- | Ends one worker and takes over what it had.
dismiss :: Run a b -> Int -> IO ()
dismiss run slot = do
  worker <- IntMap.lookup slot <$> readIORef (runWorkers run)
  for_ worker $ \w -> do
    change run (leaves slot)
    ended <- endNow (workerProcess w)
    bury run slot w ended

-- | Ends all of them. What goes wrong with one stands in the report.
dismissAll :: Run a b -> IO ()
dismissAll run = do
  workers <- readIORef (runWorkers run)
  for_ workers (killNow . workerProcess)
  awaitEnds (map workerProcess (IntMap.elems workers))
  for_ (IntMap.keys workers) $ \slot ->
    try (dismiss run slot) >>= either (\e -> note run (exceptionText (e :: SomeException))) pure
