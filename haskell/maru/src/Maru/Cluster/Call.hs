{-# LANGUAGE RankNTypes #-}

-- | One map on the peers: it hands out, collects, and hands out again what a lost one had.
-- /Internal/.
--
-- A thread of its own for each peer encodes and sends blocks, two at most ahead of what it has
-- answered. All that is known stands in one ledger ("Maru.Cluster.Ledger"). How a list is walked,
-- consumed and dropped is that of the back ends in one process ("Maru.Internal.Run").
module Maru.Cluster.Call
  ( startCall,
  )
where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception hiding (Handler)
import Control.Monad
import Data.Binary (decodeOrFail, encode)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.Maybe (isJust)
import GHC.StaticPtr (StaticPtr, deRefStaticPtr)
import Maru.Backend.Process.Wire (unpackException, unpackExceptionText)
import Maru.Cluster.Frame
import Maru.Cluster.Ledger
import Maru.Cluster.Peers
import Maru.Cluster.Remote
import Maru.Cluster.Serve (Block (..), shortNote)
import Maru.Codec (Codec)
import qualified Maru.Codec as Codec
import Maru.Failure
import Maru.Internal.Belt hiding (offer)
import qualified Maru.Internal.Belt as Belt
import Maru.Internal.Engine
import Maru.Internal.Evaluate (capture)
import Maru.Internal.Run
import Maru.Internal.Unnested (atOnce)
import Maru.Options

-- | What the threads of a call share.
data Office a b = Office
  { officeRun :: !Run,
    officeBelt :: !(Belt a b),
    officeGuide :: !Guide,
    officeCluster :: !Cluster,
    officePolicy :: !Policy,
    officeChunking :: !Chunking,
    officeLedger :: !(TVar (Ledger (Item a b))),
    -- | The call is over because of this, and the peer that said so.
    officeFatal :: !(TVar (Maybe SomeException)),
    officeTold :: !(IORef Told)
  }

-- | What blocks said, added up.
data Told = Told
  { toldStarted :: !Int,
    toldLost :: !Int,
    toldInCaller :: !Int,
    toldPeersLost :: !Int,
    toldNotes :: ![String]
  }

-- | Not interruptible: a run exists with the finalizer that ends it, or not at all.
startCall :: Cluster -> Backend -> Options -> Order -> StaticPtr (Remote e a b) -> e -> [a] -> IO (Running b)
startCall cluster which options order pointer environment inputs = do
  peers <- atOnce (alive cluster)
  when (null peers) (throwIO nobody)
  -- Evaluating the environment may throw, or take for ever.
  begins <- evaluate (Lazy.toStrict (encode (callOf options pointer environment)))
  mask_ $ do
    let total = sum (map peerWorkers peers)
        Remote _ items results _ = deRefStaticPtr pointer
    -- It does not travel.
    run <- newRun which options {initialise = pure ()} (max 1 total)
    guide <- newGuide run (blockTarget / fromIntegral (max 30 (8 * total)))
    (belt, first) <- newBelt order
    office <- Office run belt guide cluster (policy options) (chunking options) <$> newTVarIO noEntries <*> newTVarIO Nothing <*> newIORef (Told 0 0 0 0 [])
    call <- listenTo cluster (Handler (hearFrame office results) (loseItems office) (itemsOf office))
    -- Peers that were lost before that have told this call nothing.
    atOnce (nobodyLeft office)
    spawnFeeder run (Belt.offer belt) (const (finish belt)) inputs
    spawn run forkIOWithUnmask (\restore -> restore (offerAll office))
    failing <- forkIOWithUnmask (\unmask -> unmask (failRest office))
    spawnWorkers run (length peers) (\_ body -> forkIOWithUnmask body) $ \n restore ->
      -- One thread sends all, so a peer hears of a call's end last.
      for_ (take 1 (drop n peers)) $ \peer ->
        (sendTo peer (Frame Begins call 0 begins) >> supply office call items peer restore)
          `finally` sendTo peer (Frame Ends call 0 mempty)
    -- It ends with the run, however that ends.
    spawn run forkIOWithUnmask $ \restore ->
      restore (atomically (readTVar (officeLedger office) >>= check . isOver))
        `finally` (killThread failing >> stopListening cluster call)
    list <- produce run (follow run) first
    pure (Running list (stopRun run) (reported office))

-- | A block takes so long, by the cost of the items before.
blockTarget :: Double
blockTarget = 300000000

-- | And at least so long, where enough is left for all peers: a block is a message and a report.
blockLeast :: Double
blockLeast = 30000000

-- Handing out ----------------------------------------------------------------

-- | Moves items from the belt to the ledger.
offerAll :: Office a b -> IO ()
offerAll office = do
  items <- claim (officeBelt office) pure
  atomically . modifyTVar' (officeLedger office) $
    if null items then close else offer [(itemIndex i, i) | i <- items]
  unless (null items) (offerAll office)

-- | Keeps a peer supplied until all is done, or it is gone. A block of the planner's size; at first
-- an item for each of its workers.
supply :: Office a b -> Int -> Codec a -> Peer -> Restore -> IO ()
supply office call codec peer restore = go 0
  where
    go newest = do
      chance <- atomically (turn office peer newest)
      case chance of
        Over -> pure ()
        Free available -> do
          planned <- guideChunk (officeRun office) (officeGuide office) available
          least <- itemsWithin (officeGuide office) blockLeast
          peers <- length <$> atomically (alive (officeCluster office))
          let fair = (available + peers - 1) `div` max 1 peers
              n = maximum [planned, peerWorkers peer, if officeChunking office == Guided then min fair least else 1]
          entries <- atomically $ do
            there <- readTVar (peerThere peer)
            if there then stateTVar (officeLedger office) (take' (peerNumber peer) n) else pure []
          block entries >>= go
    -- How many were sent. One may be late, and what makes it may wait for a result of those before
    -- it: these are sent alone then.
    block entries = do
      sent <- newIORef 0
      coded <- newMVar []
      -- Masked: what is sent is not there any more, also where the timer is killed meanwhile.
      let send = modifyMVarMasked_ coded $ \items -> do
            unless (null items) (sendTo peer (Frame Items call 0 (Lazy.toStrict (encode (reverse items)))))
            [] <$ modifyIORef' sent (+ length items)
      bracket (forkIO (forever (threadDelay 20000 >> send))) killThread $ \_ ->
        for_ entries (one >=> \items -> modifyMVar_ coded (pure . (items <>)))
      send
      readIORef sent
    one entry = do
      bytes <- capture (officeRun office) restore (evaluate (Lazy.toStrict (Codec.encode codec (itemInput (entryItem entry)))))
      case bytes of
        Nothing -> pure []
        Just (Right b) -> pure [(entryIndex entry, b)]
        Just (Left e) -> [] <$ conclude office peer (entryIndex entry) (Left e)

data Turn
  = -- | So many items nobody has.
    Free !Int
  | Over

-- | Waits until that peer may have another block, its newest having been so large. It gets a second
-- one only where enough is left for peers that have none.
turn :: Office a b -> Peer -> Int -> STM Turn
turn office peer newest = do
  ledger <- readTVar (officeLedger office)
  there <- readTVar (peerThere peer)
  fatal <- readTVar (officeFatal office)
  peers <- alive (officeCluster office)
  let has = atPeer (peerNumber peer) ledger
      idle = length [() | p <- peers, atPeer (peerNumber p) ledger == 0]
      available = waiting ledger
      wanted = not (peerReserve peer) || all peerReserve peers
  if isOver ledger || not there || isJust fatal
    then pure Over
    else do
      check (wanted && available > 0 && (has == 0 || has <= newest && available > idle))
      pure (Free available)

-- Collecting -----------------------------------------------------------------

hearFrame :: Office a b -> Codec b -> Peer -> Frame -> IO ()
hearFrame office codec peer (Frame kind _ i bytes) = case kind of
  Result -> conclude office peer i (either (Left . toException . RemoteException i (peerNumber peer) "a decoding error") Right (Codec.decode codec bytes))
  Threw -> thrown >>= conclude office peer i . Left
  Fails -> do
    e <- thrown
    atomically (modifyTVar' (officeFatal office) (maybe (Just e) Just))
  -- Text takes many times its bytes once it is decoded.
  Done | Bytes.length bytes > reportBytes -> unlikely
  Done -> case decodeOrFail (Lazy.fromStrict bytes) of
    Right (_, _, block) | likely block -> tell office block
    Right _ -> unlikely
    Left (_, _, why) -> note office (peerName peer <> " sent a report that cannot be read: " <> why)
  _ -> pure ()
  where
    thrown
      | peerTrust peer == Alike = unpackException i (peerNumber peer) bytes
      | otherwise = pure (unpackExceptionText i (peerNumber peer) bytes)
    unlikely = note office (peerName peer <> " sent a report that cannot be true")
    -- What is no number would stay in the planner's mean.
    likely block = blockItems block >= 0 && blockNs block >= 0 && blockNs block < 1e18

-- | More than all notes of a report take, each as long as one is.
reportBytes :: Int
reportBytes = 256 * 1024

-- | What came of an item that this peer has; another copy is dropped. The result is looked at by the
-- consumer alone.
conclude :: Office a b -> Peer -> Int -> Either SomeException b -> IO ()
conclude office peer i result = mask_ $ do
  entry <- atomically (stateTVar (officeLedger office) (done (peerNumber peer) i))
  for_ entry $ \e -> settle (officeRun office) (officeBelt office) (peerNumber peer) (entryItem e) result

itemsOf :: Office a b -> Peer -> IO Int
itemsOf office peer = atPeer (peerNumber peer) <$> readTVarIO (officeLedger office)

-- | A peer that is gone: its items are for others.
loseItems :: Office a b -> Peer -> IO Int
loseItems office peer = mask_ $ do
  (had, hopeless, others) <- atomically $ do
    had <- atPeer (peerNumber peer) <$> readTVar (officeLedger office)
    hopeless <- stateTVar (officeLedger office) (lost most (peerNumber peer))
    others <- alive (officeCluster office)
    nobodyLeft office
    pure (had, hopeless, others)
  for_ hopeless $ \e ->
    settle (officeRun office) (officeBelt office) (peerNumber peer) (entryItem e) . Left . toException $
      WorkerLost (entryIndex e) (peerNumber peer) Vanished (entryLosses e)
  add office (\t -> t {toldPeersLost = toldPeersLost t + 1})
  note office (peerName peer <> " was lost")
  when (all peerReserve others) (note office "no other process is left: the rest is evaluated by workers of this one")
  pure had
  where
    most = case officePolicy office of
      Retry n -> max 3 n
      _ -> 3

-- | The call is over where no peer is left.
nobodyLeft :: Office a b -> STM ()
nobodyLeft office = do
  others <- alive (officeCluster office)
  when (null others) (modifyTVar' (officeFatal office) (maybe (Just (toException nobody)) Just))

nobody :: Unavailable
nobody = Unavailable "a peer" "all of them were lost" ""

-- | Waits for what ends the call. Then every item that has no result, or is still to come, gets
-- that.
failRest :: Office a b -> IO ()
failRest office = do
  e <- atomically (readTVar (officeFatal office) >>= maybe retry pure)
  forever . mask_ $ do
    entries <- atomically $ do
      entries <- stateTVar (officeLedger office) drain
      entries <$ check (not (null entries))
    for_ entries $ \entry -> settle (officeRun office) (officeBelt office) (-1) (entryItem entry) (Left e)

-- The report -----------------------------------------------------------------

tell :: Office a b -> Block -> IO ()
tell office block = do
  learned (officeGuide office) (blockItems block) (blockNs block)
  add office $ \t ->
    t
      { toldStarted = toldStarted t + blockStarted block,
        toldLost = toldLost t + blockLost block,
        toldInCaller = toldInCaller t + blockInCaller block
      }
  traverse_ (note office) (blockNotes block)

-- | Each line once, and only so many. Evaluated, or it would keep what it was cut from.
note :: Office a b -> String -> IO ()
note office said = length line `seq` add office kept
  where
    line = shortNote said
    kept t
      | line `elem` toldNotes t || length (toldNotes t) >= 40 = t
      | otherwise = t {toldNotes = line : toldNotes t}

add :: Office a b -> (Told -> Told) -> IO ()
add office f = atomicModifyIORef' (officeTold office) (\t -> (f t, ()))

reported :: Office a b -> IO Report
reported office = do
  r <- runReport (officeRun office)
  told <- readIORef (officeTold office)
  pure
    r
      { reportWorkersStarted = toldStarted told,
        reportWorkersLost = toldLost told + toldPeersLost told,
        reportInCaller = toldInCaller told,
        reportTransports = [("codec", sum (map snd (reportTransports r)))],
        reportNotes = reportNotes r <> reverse (toldNotes told)
      }
