{-# LANGUAGE LambdaCase #-}

-- | What a peer does: it evaluates blocks of items by its own 'Shm' workers. /Internal/.
--
-- The workers of a call are forked when its first block comes, and stay until it ends. Items of
-- later blocks reach them through shared pages ("Maru.Cluster.Shelf"). The peer itself decodes and
-- encodes nothing: its workers do. It does so in its own process only where no worker can be
-- forked, or where two of them could not evaluate an item.
module Maru.Cluster.Serve
  ( serve,
    serveWith,
    Block (..),
    shortNote,
  )
where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception
import Control.Monad (forever, void, when)
import Data.Binary (Binary (..))
import qualified Data.Binary as Binary
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Exts (Any)
import Maru.Backend.Process.Wire (packException, packExceptionText)
import Maru.Cluster.Frame
import Maru.Cluster.Remote
import Maru.Cluster.Shelf
import Maru.Codec (Codec (..))
import Maru.Failure
import Maru.Internal.Engine
import Maru.Internal.Start (startArriving)
import Maru.Options
import System.IO.Unsafe (unsafeInterleaveIO)

-- | What a block took, for the coordinator's planner and report.
data Block = Block
  { blockItems :: !Int,
    blockNs :: !Double,
    blockStarted :: !Int,
    blockLost :: !Int,
    blockInCaller :: !Int,
    blockNotes :: ![String]
  }

-- | A note as it is kept. A process that we do not trust may send one of any length.
shortNote :: String -> String
shortNote = take 1000

instance Binary Block where
  put (Block n ns s l c notes) = put (n, ns, s, l, c, notes)
  get = (\(n, ns, s, l, c, notes) -> Block n ns s l c notes) <$> get

-- | @serve alike workers wire@: 'serveWith' a shelf that few calls fill. Address space costs nothing
-- until items lie there.
serve :: Bool -> Int -> Wire -> IO Bool
serve = serveWith (64 * 1024 * 1024 * 1024)

-- | @serveWith shelf alike workers wire@: until the other side hangs up ('False') or says that the
-- program is over ('True'). Then nothing is left of any call. It beats every 5 s, whatever its items
-- take. The shelf is address space for items of a call, in bytes; its memory is what they take.
serveWith :: Int -> Bool -> Int -> Wire -> IO Bool
serveWith shelf alike own wire = do
  calls <- newIORef IntMap.empty
  beats <- forkIO (forever (threadDelay 5000000 >> sendFrame wire (Frame Beats 0 0 mempty)))
  -- Not waited for: the other side may not read.
  loop calls `finally` (forkIO (killThread beats) >> readIORef calls >>= traverse_ endCall)
  where
    loop calls =
      nextFrame wire >>= \case
        Nothing -> pure False
        Just (Frame Leaves _ _ _) -> pure True
        Just frame -> obey shelf alike own wire calls frame >> loop calls

-- | Of a call: each with its index.
type Items = [(Int, Bytes.ByteString)]

-- | A call, as a peer sees it.
data Service = Service
  { serviceBlocks :: !(TQueue Items),
    -- | What ends its run; 'Nothing': the call has ended.
    serviceRun :: !(MVar (Maybe (IO ()))),
    serviceEnd :: !(IO ())
  }

endCall :: Service -> IO ()
endCall s = do
  run <- swapMVar (serviceRun s) Nothing
  sequence_ run
  -- Not waited for: it may be sending, and the other side not read.
  void (forkIO (serviceEnd s))

obey :: Int -> Bool -> Int -> Wire -> IORef (IntMap Service) -> Frame -> IO ()
obey shelf alike own wire calls (Frame kind number _ body) = case kind of
  Begins -> do
    service <- begin shelf alike own wire number (Binary.decode (Lazy.fromStrict body))
    modifyIORef' calls (IntMap.insert number service)
  Items -> do
    known <- readIORef calls
    for_ (IntMap.lookup number known) $ \s ->
      atomically (writeTQueue (serviceBlocks s) (Binary.decode (Lazy.fromStrict body)))
  Ends -> do
    known <- readIORef calls
    -- Not waited for: other calls go on.
    for_ (IntMap.lookup number known) (forkIO . endCall)
    writeIORef calls (IntMap.delete number known)
  _ -> pure ()

begin :: Int -> Bool -> Int -> Wire -> Int -> Call -> IO Service
begin shelf alike own wire number call = do
  blocks <- newTQueueIO
  run <- newMVar (Just (pure ()))
  found <- resolve (callKey call)
  let peer = Peer alike shelf wire number options run
  worker <- forkIO $ case found of
    Nothing -> sendException peer Fails 0 (toException (Unavailable "a function" "it is not in this program's table of static pointers" "link the same program for every host"))
    Just function -> perform peer blocks (function :: Remote Any Any Any) (callEnvironment call)
  pure (Service blocks run (killThread worker))
  where
    options =
      defaultOptions
        { backend = Shm,
          workers = Workers (fromMaybe own (callWorkers call)),
          chunking = callChunking call,
          policy = callPolicy call,
          memoryMiB = callMemory call
        }

-- | Of one call.
data Peer = Peer
  { peerAlike :: !Bool,
    peerShelf :: !Int,
    peerWire :: !Wire,
    peerCall :: !Int,
    peerOptions :: !Options,
    peerRun :: !(MVar (Maybe (IO ())))
  }

perform :: Peer -> TQueue Items -> Remote e a b -> Bytes.ByteString -> IO ()
perform peer blocks (Remote environments items results function) bytes =
  try (evaluate (decode environments bytes)) >>= \case
    -- A codec of the program's may throw.
    Left e -> sendException peer Fails 0 e
    Right (Left why) -> sendException peer Fails 0 (toException (ErrorCall ("maru: the environment cannot be decoded: " <> why)))
    -- Once a process, before its workers are forked. What it throws, each item does.
    Right (Right environment) -> do
      made <- try (evaluate (function environment))
      let f = either (\e -> const (throw (e :: SomeException))) id made
          runs block = runFor peer blocks (codedWith items results f) block >>= traverse_ runs
      -- Nothing is begun for a call of which no items come.
      atomically (readTQueue blocks) >>= runs

-- | As a worker has it, and as it crosses.
data Crossing b = Here b | Coded !Bytes.ByteString

-- | From an item's bytes; and the codec of what that gives.
data Work b = Work (Bytes.ByteString -> Crossing b) (Codec (Crossing b))

codedWith :: Codec a -> Codec b -> (a -> b) -> Work b
codedWith items results f = Work (Here . f . decoded) Codec {encode = coded, decode = Right . Coded}
  where
    decoded = either (errorWithoutStackTrace . ("maru: an item cannot be decoded: " <>)) id . decode items
    coded (Here y) = encode results y
    coded (Coded bytes) = Lazy.fromStrict bytes

-- | What is under way of a run.
data Desk = Desk
  { deskShelf :: !Shelf,
    -- | By number on the shelf: its index in the call, and its block.
    deskItems :: !(IORef (IntMap (Int, Batch))),
    -- | How many were put on the shelf, and whether more may come.
    deskThere :: !(TVar (Int, Bool)),
    -- | When a block was done last.
    deskDone :: !(IORef Word64),
    deskTold :: !(IORef Report)
  }

-- | How many items; how many of them have no result; when it came, in nanoseconds.
data Batch = Batch !Int !(IORef Int) !Word64

-- | One run of the local map, from that block on, until the call ends or the shelf is full. What
-- found no room then, when all else is done.
runFor :: Peer -> TQueue Items -> Work b -> Items -> IO (Maybe Items)
runFor peer blocks work block = ending id . bracket (newShelf (peerShelf peer)) freeShelf $ \shelf -> do
  desk <- Desk shelf <$> newIORef IntMap.empty <*> newTVarIO (0, True) <*> newIORef 0 <*> newIORef (noReport Shm)
  bracket (beginRun peer work desk) (traverse_ (endRun peer desk)) $
    maybe (pure Nothing) $ \begun -> do
      left <- newEmptyMVar
      bracket (forkIO (intake desk left)) killThread $ \_ -> do
        items <- takeMVar (begunList begun)
        ended <- try (traverse_ (handOver peer work desk (begunReport begun)) items)
        known <- readIORef (deskItems desk)
        ending (renumber (indexIn known)) (either (throwIO :: SomeException -> IO ()) pure ended >> takeMVar left >>= either throwIO pure)
  where
    intake desk left = try (takeIn peer blocks desk block) >>= \rest -> closeDesk desk >> putMVar left (rest :: Either SomeException (Maybe Items))
    -- What ends the list ends the call. It may have ended before.
    ending indexed act =
      act `catch` \e -> do
        current <- readMVar (peerRun peer)
        Nothing <$ for_ current (\_ -> sendException peer Fails 0 (indexed e))

-- | An item's index in the call, by its number on the shelf.
indexIn :: IntMap (Int, Batch) -> Int -> Int
indexIn known n = maybe n fst (IntMap.lookup n known)

-- | A 'Running' whose list is taken out, to be consumed: what holds its beginning holds all of it.
data Begun b = Begun
  { begunList :: !(MVar [Outcome (Crossing b)]),
    begunStop :: !(IO ()),
    begunReport :: !(IO Report)
  }

-- | 'Nothing': the call has ended.
beginRun :: Peer -> Work b -> Desk -> IO (Maybe (Begun b))
beginRun peer (Work f codec) desk = do
  spine <- arrivals 0
  Running list stop' report' <- startArriving (peerOptions peer) Unordered (Just codec) (f . look (deskShelf desk)) (Arriving spine enumFrom)
  modifyMVar (peerRun peer) $ \case
    Nothing -> (Nothing, Nothing) <$ stop'
    Just _ -> (\l -> (Just stop', Just (Begun l stop' report'))) <$> newMVar list
  where
    arrivals known = unsafeInterleaveIO $ do
      there <- atomically $ do
        (there, more) <- readTVar (deskThere desk)
        there <$ check (there > known || not more)
      if there > known then (replicate (there - known) () <>) <$> arrivals there else pure []

endRun :: Peer -> Desk -> Begun b -> IO ()
endRun peer desk begun = do
  begunStop begun
  closeDesk desk
  modifyMVar_ (peerRun peer) (pure . (pure () <$))

-- | No more items come to it.
closeDesk :: Desk -> IO ()
closeDesk desk = atomically (modifyTVar' (deskThere desk) (False <$))

-- | Puts items on the shelf, for the workers that are there, until it is full: the rest.
takeIn :: Peer -> TQueue Items -> Desk -> Items -> IO (Maybe Items)
takeIn peer blocks desk = go
  where
    go block = do
      now <- getMonotonicTimeNSec
      (first, _) <- readTVarIO (deskThere desk)
      n <- fitting block
      let (placed, rest) = splitAt n block
      left <- newIORef n
      atomicModifyIORef' (deskItems desk) (\known -> (IntMap.union known (IntMap.fromDistinctAscList (zip [first ..] [(i, Batch n left now) | (i, _) <- placed])), ()))
      atomically (writeTVar (deskThere desk) (first + n, True))
      case rest of
        [] -> atomically (readTQueue blocks) >>= go
        ((i, _) : others) | first + n == 0 -> sendException peer Threw i (toException (Unavailable ("item " <> show i) "it is larger than the shared memory that can be had" "look at `ulimit -v`")) >> go others
        _ -> pure (Just rest)
    fitting block = length <$> whileM (shelve (deskShelf desk) . snd) block
    whileM _ [] = pure []
    whileM holds (x : xs) = do
      yes <- holds x
      if yes then (x :) <$> whileM holds xs else pure []

-- | Sends what came of an item. Of a block's last item it sends what the block took before: the
-- call may be over with that result.
handOver :: Peer -> Work b -> Desk -> IO Report -> Outcome (Crossing b) -> IO ()
handOver peer (Work _ codec) desk look' outcome = do
  known <- readIORef (deskItems desk)
  let n = outcomeIndex outcome
      told = renumbered (indexIn known) outcome
  crossed <- either (pure . Left) (try . evaluate . Lazy.toStrict . encode codec) (outcomeResult told)
  takeOff (deskShelf desk) n
  atomicModifyIORef' (deskItems desk) (\now -> (IntMap.delete n now, ()))
  for_ (IntMap.lookup n known) $ \(_, Batch count left came) -> do
    modifyIORef' left (subtract 1)
    none <- (== 0) <$> readIORef left
    when none (look' >>= blockDone desk count came >>= send Done 0 . Lazy.toStrict . Binary.encode)
  either (sendException peer Threw (outcomeIndex told)) (send Result (outcomeIndex told)) crossed
  where
    send kind i = sendFrame (peerWire peer) . Frame kind (peerCall peer) i

-- | So many items that came then are done. Its time is that after the block before.
blockDone :: Desk -> Int -> Word64 -> Report -> IO Block
blockDone desk count came now = do
  before <- readIORef (deskTold desk)
  writeIORef (deskTold desk) now
  since <- max came <$> readIORef (deskDone desk)
  end <- getMonotonicTimeNSec
  writeIORef (deskDone desk) end
  let more count' = count' now - count' before
  pure (Block count (fromIntegral (end - since)) (more reportWorkersStarted) (more reportWorkersLost) (more reportInCaller) (map shortNote (filter (`notElem` reportNotes before) (reportNotes now))))

-- | In its own type where code lies alike on the other side.
sendException :: Peer -> Kind -> Int -> SomeException -> IO ()
sendException peer kind i e = do
  bytes <- (if peerAlike peer then packException else packExceptionText) e
  sendFrame (peerWire peer) (Frame kind (peerCall peer) i bytes)
