-- | Which disks and interfaces each thread moves bytes to and from, as the kernel
-- counts them: talks to @maru-watch@, which counts by BPF (its head says what).
--
-- It is started at the first look and ends with this process. Where it cannot count,
-- or says nothing for 'patience', that is an answer like any other: 'Left', once and
-- for all, and what can be told from @\/proc@ is told.
module Maru.Cli.Steer.Watch
  ( Watch,
    newWatch,
    snapshotOf,
    counts,

    -- * For tests
    parseMoved,
  )
where

import Control.Concurrent.MVar
import Control.Monad (void)
import qualified Data.IntMap.Strict as IntMap
import Data.List (isPrefixOf)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import Maru.Cli.Bench.Side (helperAt)
import Maru.Cli.Exit (orNothing)
import Maru.Cli.Steer.Read
import Maru.Control.Observe
import System.IO
import System.Process
import System.Timeout (timeout)
import Text.Read (readMaybe)

-- | One for a process. Looks wait for each other.
newtype Watch = Watch (MVar Link)

data Link
  = NotAsked
  | Counting !Handle !Handle
  | Without !String

newWatch :: IO Watch
newWatch = Watch <$> newMVar NotAsked

-- | Of the helper, for an answer: microseconds.
patience :: Int
patience = 5000000

-- | 'readSnapshot', with what was counted until now. A machine that a folder
-- describes is not watched.
snapshotOf :: Watch -> Roots -> [Int] -> IO Snapshot
snapshotOf watch roots pids
  | rootMachine roots /= "/" = unwatched "a folder stands for the machine" <$> readSnapshot roots pids
  | otherwise = do
    -- Before: what is counted later than a thread's own figures would have no bytes to go with.
    counted <- ask watch
    now <- readSnapshot roots pids
    case counted of
      Left why -> pure (unwatched why now)
      Right text -> do
        let moved = parseMoved text
        names <- Map.fromList <$> mapM (\device -> (,) device <$> deviceName roots device) (Map.keys (Map.unions (IntMap.elems moved)))
        pure now {snapshotMoved = Right (Map.mapKeysWith (+) id . named names <$> moved)}
  where
    unwatched why now = now {snapshotMoved = Left why}
    named names perDevice = Map.fromListWith (+) [(name, bytes) | (device, bytes) <- Map.toList perDevice, Just (Just name) <- [Map.lookup device names]]

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

ask :: Watch -> IO (Either String [String])
ask (Watch link) = modifyMVar link $ \before -> do
  now <- case before of
    NotAsked -> begin
    _ -> pure before
  case now of
    Counting input output -> do
      answer <- timeout patience (orNothing (hPutStrLn input "" >> hFlush input >> untilDot output))
      pure $ case answer of
        Just (Just text) -> (now, Right text)
        Just Nothing -> gone "maru-watch has ended"
        Nothing -> gone "maru-watch does not answer"
    Without why -> pure (now, Left why)
    NotAsked -> pure (now, Left "")
  where
    gone why = (Without why, Left why)
    untilDot output = do
      line <- hGetLine output
      if line == "." then pure [] else (line :) <$> untilDot output

begin :: IO Link
begin = helperAt "maru-watch" >>= either (const (pure (Without "this maru was built without libbpf"))) start
  where
    start program = do
      (input, output, errors, process) <- createProcess (proc program []) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe, close_fds = True, delegate_ctlc = False}
      case (input, output, errors) of
        (Just i, Just o, Just e) -> do
          first <- timeout patience (orNothing (hGetLine o))
          case first of
            Just (Just line) | "ready" `isPrefixOf` line -> pure (Counting i o)
            _ -> do
              terminateProcess process
              why <- orNothing (hGetLine e)
              void (waitForProcess process)
              pure (Without (maybe "maru-watch does not start" (drop (length "maru-watch: ")) why))
        _ -> pure (Without "no pipes for maru-watch")
