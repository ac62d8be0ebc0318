{-# LANGUAGE LambdaCase #-}

-- | What a peer does: it evaluates blocks of items by its own 'Shm' workers. /Internal/.
--
-- The peer itself decodes and encodes nothing: its workers do. It does so in its own process only
-- where no worker can be forked. Blocks of a call are evaluated one after the other. The next one
-- begins when fewer items are left, of all blocks, than there are workers. A block has workers of
-- its own, so at most two blocks are evaluated at a time.
module Maru.Cluster.Serve
  ( serve,
    Block (..),
  )
where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception
import Control.Monad (forever)
import Data.Binary (Binary (..))
import qualified Data.Binary as Binary
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Exts (Any)
import Maru.Backend.Process.Wire (packException, packExceptionText)
import Maru.Cluster.Frame
import Maru.Cluster.Remote
import Maru.Codec (Codec (..))
import Maru.Failure
import Maru.Internal.Engine
import Maru.Internal.Start (startOn)
import Maru.Options

-- | What a block took, for the coordinator's planner and report.
data Block = Block
  { blockItems :: !Int,
    blockNs :: !Double,
    blockStarted :: !Int,
    blockLost :: !Int,
    blockInCaller :: !Int,
    blockNotes :: ![String]
  }

instance Binary Block where
  put (Block n ns s l c notes) = put (n, ns, s, l, c, notes)
  get = (\(n, ns, s, l, c, notes) -> Block n ns s l c notes) <$> get

-- | @serve alike workers wire@: until the other side hangs up ('False') or says that the program is
-- over ('True'). Then nothing is left of any call. It beats every 5 s, whatever its items take.
serve :: Bool -> Int -> Wire -> IO Bool
serve alike own wire = do
  calls <- newIORef IntMap.empty
  beats <- forkIO (forever (threadDelay 5000000 >> sendFrame wire (Frame Beats 0 0 mempty)))
  -- Not waited for: the other side may not read.
  loop calls `finally` (forkIO (killThread beats) >> readIORef calls >>= traverse_ endCall)
  where
    loop calls =
      nextFrame wire >>= \case
        Nothing -> pure False
        Just (Frame Leaves _ _ _) -> pure True
        Just frame -> obey alike own wire calls frame >> loop calls

-- | A call, as a peer sees it.
data Service = Service
  { serviceBlocks :: !(TQueue [(Int, Bytes.ByteString)]),
    -- | What runs, by number; 'Nothing': the call has ended.
    serviceRuns :: !(MVar (Maybe (IntMap (IO ())))),
    serviceEnd :: !(IO ())
  }

endCall :: Service -> IO ()
endCall s = do
  runs <- swapMVar (serviceRuns s) Nothing
  serviceEnd s
  for_ runs sequence_

obey :: Bool -> Int -> Wire -> IORef (IntMap Service) -> Frame -> IO ()
obey alike own wire calls (Frame kind number _ body) = case kind of
  Begins -> do
    service <- begin alike own wire number (Binary.decode (Lazy.fromStrict body))
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

begin :: Bool -> Int -> Wire -> Int -> Call -> IO Service
begin alike own wire number call = do
  blocks <- newTQueueIO
  runs <- newMVar (Just IntMap.empty)
  found <- resolve (callKey call)
  let peer = Peer alike wire number n options runs
  worker <- forkIO $ case found of
    Nothing -> sendException peer Fails 0 (toException (Unavailable "a function" "it is not in this program's table of static pointers" "link the same program for every host"))
    Just function -> perform peer blocks (function :: Remote Any Any Any) (callEnvironment call)
  pure (Service blocks runs (killThread worker))
  where
    n = fromMaybe own (callWorkers call)
    options =
      defaultOptions
        { backend = Shm,
          workers = Workers n,
          chunking = callChunking call,
          policy = callPolicy call,
          memoryMiB = callMemory call
        }

-- | Of one call.
data Peer = Peer
  { peerAlike :: !Bool,
    peerWire :: !Wire,
    peerCall :: !Int,
    peerWorkers :: !Int,
    peerOptions :: !Options,
    peerRuns :: !(MVar (Maybe (IntMap (IO ()))))
  }

perform :: Peer -> TQueue [(Int, Bytes.ByteString)] -> Remote e a b -> Bytes.ByteString -> IO ()
perform peer blocks (Remote environments items results function) bytes = case decode environments bytes of
  Left why -> sendException peer Fails 0 (toException (ErrorCall ("maru: the environment cannot be decoded: " <> why)))
  -- Once a process, before its workers are forked. What it throws, each item does.
  Right environment -> do
    made <- try (evaluate (function environment))
    left <- newTVarIO IntMap.empty
    loop left (either (\e -> const (throw (e :: SomeException))) id made) 0
  where
    loop left f k = do
      block <- atomically $ do
        others <- readTVar left
        check (sum others < peerWorkers peer && IntMap.size others < 2)
        block <- readTQueue blocks
        block <$ writeTVar left (IntMap.insert k (length block) others)
      _ <- forkIO (evaluateBlock peer k left items results f block)
      loop left f (k + 1)

-- | As a worker has it, and as it crosses.
data Crossing b = Here b | Coded !Bytes.ByteString

-- | By workers of its own. Each result is sent as it comes. How many items are left, by block.
evaluateBlock :: Peer -> Int -> TVar (IntMap Int) -> Codec a -> Codec b -> (a -> b) -> [(Int, Bytes.ByteString)] -> IO ()
evaluateBlock peer k left items results f block = do
  start <- getMonotonicTimeNSec
  outcome <- try (bracket begun ended (traverse (\running -> for_ (outcomes running) one >> report running)))
  end <- getMonotonicTimeNSec
  case outcome of
    Right (Just r) ->
      send Done 0 . Lazy.toStrict . Binary.encode $
        Block (length block) (fromIntegral (end - start)) (reportWorkersStarted r) (reportWorkersLost r) (reportInCaller r) (reportNotes r)
    Right Nothing -> pure ()
    -- What ends the list ends the call.
    Left e -> sendException peer Fails 0 (renumber global e)
  atomically (modifyTVar' left (IntMap.delete k))
  where
    indices = IntMap.fromDistinctAscList (zip [0 ..] (map fst block))
    global i = IntMap.findWithDefault i i indices
    begun = do
      running <- startOn Auto (peerOptions peer) Unordered (Just crossing) (Here . f . decoded) (map snd block)
      modifyMVar (peerRuns peer) $ \case
        Nothing -> (Nothing, Nothing) <$ stop running
        Just others -> pure (Just (IntMap.insert k (stop running) others), Just running)
    ended = traverse_ $ \running -> do
      stop running
      modifyMVar_ (peerRuns peer) (pure . fmap (IntMap.delete k))
    one (Outcome i _ result) = do
      crossed <- either (pure . Left) (try . evaluate . Lazy.toStrict . encode crossing) result
      either (sendException peer Threw (global i) . renumber global) (send Result (global i)) crossed
      atomically (modifyTVar' left (IntMap.adjust (subtract 1) k))
    decoded = either (errorWithoutStackTrace . ("maru: an item cannot be decoded: " <>)) id . decode items
    crossing = Codec {encode = coded, decode = Right . Coded}
    coded (Here y) = encode results y
    coded (Coded bytes) = Lazy.fromStrict bytes
    send kind i = sendFrame (peerWire peer) . Frame kind (peerCall peer) i

-- | In its own type where code lies alike on the other side.
sendException :: Peer -> Kind -> Int -> SomeException -> IO ()
sendException peer kind i e = do
  bytes <- (if peerAlike peer then packException else packExceptionText) e
  sendFrame (peerWire peer) (Frame kind (peerCall peer) i bytes)
