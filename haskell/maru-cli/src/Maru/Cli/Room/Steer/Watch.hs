-- | Which disks and interfaces each thread moves bytes to and from, as the kernel counts them.
-- Talks to @maru-watch@, which counts by BPF (its head says what).
--
-- It is started at the first look and ends by 'stopWatch', or with this process. Until then the
-- kernel does a little more for all that any program moves. Where it cannot count, or says nothing
-- for @patience@ (@startPatience@ at first), that is an answer like any other: 'Left', once and for
-- all, and what can be told from @\/proc@ is told.
module Maru.Cli.Room.Steer.Watch
  ( Watch,
    newWatch,
    snapshotOf,
    unwatched,
    counts,
    stopWatch,

    -- * For tests
    parseMoved,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Monad (join, void)
import qualified Data.IntMap.Strict as IntMap
import Data.List (isPrefixOf)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import Maru.Cli.Exit (orNothing)
import Maru.Cli.Installed (helperAt)
import Maru.Cli.Machine
import Maru.Control.Observe
import System.IO
import System.Posix.Signals (sigKILL, signalProcess)
import System.Process
import System.Timeout (timeout)
import Text.Read (readMaybe)

-- | One for a process. Looks wait for each other.
newtype Watch = Watch (MVar Link)

data Link
  = NotAsked
  | Counting !Helper
  | Without !String

data Helper = Helper
  { helperInput :: !Handle,
    helperOutput :: !Handle,
    helperErrors :: !Handle,
    helperProcess :: !ProcessHandle
  }

newWatch :: IO Watch
newWatch = Watch <$> newMVar NotAsked

-- | Of the helper, for an answer: microseconds; and until it counts, since the kernel checks its
-- programs before it takes them.
patience, startPatience :: Int
patience = 5000000
startPatience = 20000000

-- | 'readSnapshot', with what was counted until now. A machine that a folder
-- describes is not watched.
snapshotOf :: Watch -> Roots -> [Int] -> IO Snapshot
snapshotOf watch roots pids
  | rootMachine roots /= "/" = unwatched "a folder stands for the machine" roots pids
  | otherwise = do
    -- Before: what is counted later than a thread's own figures would have no bytes to go with.
    counted <- ask watch
    now <- readSnapshot roots pids
    case counted of
      Left why -> pure now {snapshotMoved = Left why}
      Right text -> do
        let moved = parseMoved text
        names <- Map.fromList <$> mapM (\device -> (,) device <$> deviceName roots device) (Map.keys (Map.unions (IntMap.elems moved)))
        pure now {snapshotMoved = Right (Map.mapKeysWith (+) id . named names <$> moved)}
  where
    named names perDevice = Map.fromListWith (+) [(name, bytes) | (device, bytes) <- Map.toList perDevice, Just (Just name) <- [Map.lookup device names]]

-- | 'readSnapshot', and why nothing was counted.
unwatched :: String -> Roots -> [Int] -> IO Snapshot
unwatched why roots pids = (\now -> now {snapshotMoved = Left why}) <$> readSnapshot roots pids

-- | 'Left': why the kernel does not count here.
counts :: Watch -> IO (Either String ())
counts watch = void <$> ask watch

-- | Lines of the helper: bytes by thread and device. An entry that is told twice counts
-- once.
parseMoved :: [String] -> IntMap.IntMap (Map CountedDevice Double)
parseMoved text = fmap total (IntMap.fromListWith (Map.unionWith max) (mapMaybe (entry . words) text))
  where
    entry [thread, kind, device, bytes, _] = do
      tid <- readMaybe thread
      which <- deviceOf kind device
      n <- readMaybe bytes
      pure (tid, Map.singleton (which, kind) n)
    entry _ = Nothing
    deviceOf kind device
      | kind `elem` ["sent", "received"] = CountedInterface <$> readMaybe device
      | kind `elem` ["read", "written", "dirtied"] = Just (CountedDisk device)
      | otherwise = Nothing
    total = Map.mapKeysWith (+) fst

-- | The kernel counts no more; asked again, that is the reason.
stopWatch :: Watch -> IO ()
stopWatch (Watch link) = modifyMVar_ link stopped
  where
    stopped (Counting helper) = Without "stopped" <$ end helper
    stopped NotAsked = pure (Without "stopped")
    stopped (Without why) = pure (Without why)

ask :: Watch -> IO (Either String [String])
ask (Watch link) = modifyMVar link $ \before -> do
  now <- case before of
    NotAsked -> begin
    _ -> pure before
  case now of
    Counting helper -> do
      answer <- timeout patience (orNothing (hPutStrLn (helperInput helper) "" >> hFlush (helperInput helper) >> untilDot (helperOutput helper)))
      case answer of
        Just (Just text) -> pure (now, Right text)
        Just Nothing -> gone helper "maru-watch has ended"
        Nothing -> gone helper "maru-watch does not answer"
    Without why -> pure (now, Left why)
    NotAsked -> pure (now, Left "")
  where
    gone helper why = (Without why, Left why) <$ end helper
    untilDot output = do
      line <- hGetLine output
      if line == "." then pure [] else (line :) <$> untilDot output

begin :: IO Link
begin = helperAt "maru-watch" >>= either (const (pure (Without "this maru was built without libbpf"))) start
  where
    start program = do
      started <- orNothing (createProcess (proc program []) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe, close_fds = True, delegate_ctlc = False})
      case started of
        Just (Just i, Just o, Just e, process) -> greeted (Helper i o e process)
        _ -> pure (Without "maru-watch cannot be started")
    greeted helper = do
      first <- timeout startPatience (orNothing (hGetLine (helperOutput helper)))
      case first of
        Just (Just line) | "ready" `isPrefixOf` line -> pure (Counting helper)
        _ -> do
          -- Its reason was written before its end was seen; of one that says nothing there is none.
          why <- join <$> timeout patience (maybe (pure Nothing) (const (orNothing (hGetLine (helperErrors helper)))) first)
          Without (maybe "maru-watch does not start" (drop (length "maru-watch: ")) why) <$ end helper

-- | It has nothing to save, and may not be able to hear anything softer. Waits for a second; what
-- sleeps in the kernel for longer is waited for by nobody.
end :: Helper -> IO ()
end helper = do
  getPid (helperProcess helper) >>= mapM_ (orNothing . signalProcess sigKILL)
  mapM_ (orNothing . hClose) [helperInput helper, helperOutput helper, helperErrors helper]
  ended <- newEmptyMVar
  void (forkIO (orNothing (waitForProcess (helperProcess helper)) >>= putMVar ended))
  void (timeout 1000000 (takeMVar ended))
