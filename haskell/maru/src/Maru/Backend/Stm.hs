{-# LANGUAGE RankNTypes #-}

-- | Workers that are lightweight threads and talk over two bounded STM channels,
-- one for tasks and one for results: the seed's SAMSTM.
module Maru.Backend.Stm
  ( engine,
  )
where

import Control.Concurrent (MVar, forkOnWithUnmask, newMVar, withMVar)
import Control.Concurrent.STM
import Control.Exception (SomeException, mask_, throwIO)
import Control.Monad (void, when)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Maru.Internal.Engine
import Maru.Internal.Evaluate
import Maru.Internal.Patience (patiently)
import Maru.Internal.Run
import Maru.Internal.Unnested
import Maru.Options (Backend (..))

-- | What the threads of a run share.
data Channels a b = Channels
  { tasks :: !(TBQueue (Int, a)),
    -- | Held while a worker claims, so that a chunk's indices are consecutive.
    turn :: !(MVar ()),
    -- | Set with the first task.
    begun :: !(TVar Bool),
    results :: !(TBQueue (Outcome b)),
    -- | How many items there are and what the spine threw, once known.
    theEnd :: !(TVar (Maybe (Int, Maybe SomeException)))
  }

engine :: Engine
engine (Job options n order codec f inputs _ _) = mask_ $ do
  run <- newRun Stm options n
  guide <- newGuide run claimNs
  -- All that may be ahead fits, so the window is what bounds the run.
  capacity <- fromIntegral <$> runWindow run
  channels <- Channels <$> newTBQueueIO capacity <*> newMVar () <*> newTVarIO False <*> newTBQueueIO capacity <*> newTVarIO Nothing
  spawnFeeder
    run
    (\i x -> whileGoing run (when (i == 0) (writeTVar (begun channels) True) >> writeTBQueue (tasks channels) (i, x)))
    (\count e -> atomically (writeTVar (theEnd channels) (Just (count, e))))
    inputs
  spawnWorkers run n forkOnWithUnmask $ \worker restore ->
    work run guide (claimTasks run guide channels) $
      evaluateTasks run channels (evaluateItem codec f) worker restore
  list <- produce run (collect run channels order) (0, IntMap.empty)
  pure (Running list (stopRun run) (runReport run))

-- | Waits for a task, then claims as many of those available as the planner says;
-- none at the end.
claimTasks :: Run -> Guide -> Channels a b -> IO [(Int, a)]
claimTasks run guide channels = patiently . withMVar (turn channels) $ \() -> do
  first <- atomically $ (Just <$> readTBQueue (tasks channels)) `orElse` ended
  case first of
    Nothing -> pure []
    Just task -> do
      others <- atomically $ lengthTBQueue (tasks channels)
      n <- guideChunk run guide (1 + fromIntegral others)
      (task :) <$> atomically (upTo (n - 1))
  where
    ended = readTVar (theEnd channels) >>= maybe retry (const (pure Nothing))
    upTo n
      | n <= 0 = pure []
      | otherwise = tryReadTBQueue (tasks channels) >>= maybe (pure []) (\t -> (t :) <$> upTo (n - 1))

-- | Each result is sent when it is there.
evaluateTasks :: Run -> Channels a b -> (a -> IO b) -> Int -> Restore -> [(Int, a)] -> IO ()
evaluateTasks run channels evaluateOne worker restore = go
  where
    go [] = pure ()
    go ((i, x) : rest) =
      capture run restore (evaluateOne x) >>= maybe (pure ()) (\result -> send (Outcome i worker result) >> go rest)
    send outcome = do
      arrived run
      atomically $ writeTBQueue (results channels) outcome

-- | For the consumer: the next outcome. The state: how many it has had, and those
-- that came before their turn.
collect ::
  Run ->
  Channels a b ->
  Order ->
  (Int, IntMap (Outcome b)) ->
  IO (Maybe (Outcome b, (Int, IntMap (Outcome b))))
collect run channels order = go
  where
    go (had, early) = case IntMap.updateLookupWithKey (\_ _ -> Nothing) had early of
      (Just outcome, others) -> pure (Just (outcome, (had + 1, others)))
      (Nothing, _) -> do
        let received = had + IntMap.size early
        when (received == 0) begin
        awaited . unnested $ void (peekTBQueue (results channels)) `orElse` void (endAfter received)
        came <- atOnce $ (Right <$> readTBQueue (results channels)) `orElse` endAfter received
        case came of
          Left e -> Nothing <$ mapM_ throwIO e
          Right outcome
            | order == Unordered || outcomeIndex outcome == had ->
              pure (Just (outcome, (had + 1, early)))
            | otherwise -> go (had, IntMap.insert (outcomeIndex outcome) outcome early)
    -- Workers that failed to start send no result: ask before waiting for one,
    -- but only if there is any item.
    begin = do
      some <- awaited . unnested $ (readTVar (begun channels) >>= check >> pure True) `orElse` (False <$ endAfter 0)
      when some $ awaitWorkers run
    endAfter received = do
      end <- readTVar (theEnd channels)
      case end of
        Just (count, e) | count == received -> pure (Left e)
        _ -> retry

-- | Nanoseconds that a claim costs.
claimNs :: Double
claimNs = 1000
