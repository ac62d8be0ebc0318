{-# LANGUAGE LambdaCase #-}

-- | The processes that evaluate items for this one: ranks, agents on hosts, and this process itself.
-- /Internal/.
module Maru.Cluster.Peers
  ( Cluster (..),
    Means (..),
    Peer (..),
    Trust (..),
    Handler (..),
    newCluster,
    addPeer,
    addOurselves,
    addServing,
    endsWith,
    watchPeers,
    alive,
    listenTo,
    stopListening,
    sendTo,
    dismissPeers,
    theCluster,
    knownCluster,
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception (SomeException, finally, try)
import Control.Monad
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Maru.Cluster.Frame
import Maru.Cluster.Serve (serve)
import Maru.Failure (exceptionText)
import Maru.Internal.Say (sayLine)
import Maru.Internal.Unnested (atOnce)
import Maru.Native.Stream (newStreamPair)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)
import System.Timeout (timeout)

-- | How the peers were started.
data Means = ByLauncher | ByHosts | ByMachines
  deriving (Eq, Show)

-- | The coordinator's side: its peers, and the calls that are under way.
data Cluster = Cluster
  { clusterMeans :: !Means,
    clusterPeers :: !(TVar (IntMap Peer)),
    -- | By call.
    clusterHandlers :: !(TVar (IntMap Handler)),
    clusterCalls :: !(IORef Int),
    -- | A process that was forked from it has no peers.
    clusterProcess :: !ProcessID,
    -- | The program is over: a peer that leaves now is not lost.
    clusterOver :: !(IORef Bool),
    -- | What ends the processes that were started here for peers. Each does it once.
    clusterEnds :: !(IORef [IO ()])
  }

-- | One that evaluates items.
data Peer = Peer
  { peerNumber :: !Int,
    peerName :: !String,
    peerWorkers :: !Int,
    peerWire :: !Wire,
    -- | It gets nothing while there are others.
    peerReserve :: !Bool,
    -- | 'False': it is lost, or has left.
    peerThere :: !(TVar Bool),
    -- | Once it is gone: ends what was started for it here.
    peerEnd :: !(IO ()),
    -- | Seconds since something was heard of it, as 'watchPeers' counts them.
    peerSilent :: !(IORef Int),
    -- | After so many it is given up; 'Nothing': never.
    peerPatience :: !(Maybe Int),
    peerTrust :: !Trust
  }

-- | What a peer's frames may do to this process.
data Trust
  = -- | An exception may be the heap's bytes: it runs this program, with its code at the same
    -- addresses.
    Alike
  | -- | An exception is text.
    Elsewhere
  | -- | The same; and a frame has so many bytes at most.
    Stranger !Int
  deriving (Eq, Show)

-- | Of a call. Both are called by a peer's own thread, and are brief.
data Handler = Handler
  { handleFrame :: Peer -> Frame -> IO (),
    -- | That peer will send no more. How many items it had.
    handleLoss :: Peer -> IO Int,
    -- | How many items it has.
    handleItems :: Peer -> IO Int
  }

-- | Without peers yet.
newCluster :: Means -> IO Cluster
newCluster means = Cluster means <$> newTVarIO IntMap.empty <*> newTVarIO IntMap.empty <*> newIORef 0 <*> getProcessID <*> newIORef False <*> newIORef []

-- | One that was greeted. Its frames are read from now on.
addPeer :: Cluster -> Int -> String -> Int -> Wire -> Maybe Int -> Trust -> IO () -> IO ()
addPeer cluster number name workers wire patience trust end =
  add cluster (\there silent -> Peer number name workers wire False there end silent patience trust)

-- | A process that was started for a peer ends with the program: that action, which is run once.
-- What runs it before. At once, where the program is over.
endsWith :: Cluster -> IO a -> IO (IO ())
endsWith cluster end = do
  left <- newMVar (void end)
  let once = modifyMVar_ left (\e -> pure () <$ e)
  atomicModifyIORef' (clusterEnds cluster) (\ends -> (once : ends, ()))
  -- It has looked at the ends before: nobody else would run this one.
  over <- readIORef (clusterOver cluster)
  once <$ when over once

add :: Cluster -> (TVar Bool -> IORef Int -> Peer) -> IO ()
add cluster made = do
  peer <- made <$> newTVarIO True <*> newIORef 0
  atomically (modifyTVar' (clusterPeers cluster) (IntMap.insert (peerNumber peer) peer))
  void (forkIO (hear cluster peer))

-- | This process, as one of its own peers, of that number: in reserve, or not.
addOurselves :: Cluster -> Int -> Bool -> Int -> IO ()
addOurselves cluster number reserve workers = addServing cluster number reserve workers (serve True workers)

-- | The same with what serves there.
addServing :: Cluster -> Int -> Bool -> Int -> (Wire -> IO Bool) -> IO ()
addServing cluster number reserve workers serving = do
  (ours, theirs) <- newStreamPair
  wire <- wireOn theirs
  void . forkIO $ do
    -- What its end was shows as the wire's.
    _ <- try (serving wire) :: IO (Either SomeException Bool)
    hangUp wire
  ours' <- wireOn ours
  add cluster (\there silent -> Peer number "this process" (if reserve then 0 else workers) ours' reserve there (pure ()) silent Nothing Alike)

hear :: Cluster -> Peer -> IO ()
hear cluster peer =
  next (peerWire peer) >>= \case
    Just frame@(Frame _ call _ _) -> do
      handlers <- readTVarIO (clusterHandlers cluster)
      handled <- try (for_ (IntMap.lookup call handlers) (\h -> handleFrame h peer frame))
      either (\e -> gone (": " <> exceptionText e)) (\() -> hear cluster peer) handled
    Nothing -> gone ""
  where
    next = nextHeard (writeIORef (peerSilent peer) 0) $ case peerTrust peer of
      Stranger most -> most
      _ -> largestFrame
    gone why = do
      -- Calls see that; and one that begins later does not ask it.
      handlers <- atomically $ do
        writeTVar (peerThere peer) False
        readTVar (clusterHandlers cluster)
      hangUp (peerWire peer)
      over <- readIORef (clusterOver cluster)
      items <- sum <$> traverse (`handleLoss` peer) (IntMap.elems handlers)
      unless over . sayLine $
        "maru: " <> peerName peer <> " was lost" <> why <> (if items == 0 then "" else "; its " <> show items <> " items are evaluated again")
      peerEnd peer

-- | Without an end: says which peers have items and are silent, after 20 s and each time twice as
-- many. A peer that lives beats every 5 s ("Maru.Cluster.Serve"). Its items stay with it: it may be
-- stopped for a while only. One that is given up is lost. Seconds in which this process itself is
-- stopped do not count.
watchPeers :: Cluster -> IO ()
watchPeers cluster = forever $ do
  threadDelay 1000000
  peers <- atomically (alive cluster)
  handlers <- readTVarIO (clusterHandlers cluster)
  for_ peers $ \peer -> do
    silent <- atomicModifyIORef' (peerSilent peer) (\s -> (s + 1, s + 1))
    when (silent `elem` take 20 (iterate (* 2) 20)) $ do
      items <- sum <$> traverse (`handleItems` peer) (IntMap.elems handlers)
      when (items > 0) . sayLine $
        "maru: " <> peerName peer <> " has been silent for " <> show silent <> " s; " <> show items <> " items wait for it"
    -- The thread that reads from it sees the end, and takes it for lost.
    when (Just silent == peerPatience peer) (hangUp (peerWire peer))

-- | Those that are there.
alive :: Cluster -> STM [Peer]
alive cluster = readTVar (clusterPeers cluster) >>= filterM (readTVar . peerThere) . IntMap.elems

-- | Frames of a new call go there; its number.
listenTo :: Cluster -> Handler -> IO Int
listenTo cluster handler = do
  call <- atomicModifyIORef' (clusterCalls cluster) (\n -> (n + 1, n))
  call <$ atOnce (modifyTVar' (clusterHandlers cluster) (IntMap.insert call handler))

-- | Frames of that call are dropped.
stopListening :: Cluster -> Int -> IO ()
stopListening cluster call = atomically (modifyTVar' (clusterHandlers cluster) (IntMap.delete call))

-- | As 'sendFrame'.
sendTo :: Peer -> Frame -> IO ()
sendTo = sendFrame . peerWire

-- | The program is over: all are told, and waited for, two seconds at most.
dismissPeers :: Cluster -> IO ()
dismissPeers cluster = do
  atomicWriteIORef (clusterOver cluster) True
  peers <- IntMap.elems <$> readTVarIO (clusterPeers cluster)
  -- One that is stopped takes nothing.
  for_ peers $ \p -> forkIO (sendTo p (Frame Leaves 0 0 mempty))
  void (timeout 2000000 (atomically (alive cluster >>= check . null)))
  traverse_ (hangUp . peerWire) peers
  -- At once: each may take a second.
  ended <- newEmptyMVar
  ends <- readIORef (clusterEnds cluster)
  for_ ends $ \end -> forkIO (end `finally` putMVar ended ())
  for_ ends (const (takeMVar ended))
  threadDelay 1000

-- | This process's.
knownCluster :: IO (Maybe Cluster)
knownCluster = do
  known <- readIORef theCluster
  me <- getProcessID
  pure (mfilter ((== me) . clusterProcess) known)

-- | Of this process, while 'Maru.Cluster.withCluster' runs. 'Nothing': there is none.
theCluster :: IORef (Maybe Cluster)
theCluster = unsafePerformIO (newIORef Nothing)
{-# NOINLINE theCluster #-}
