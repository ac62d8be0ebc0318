{-# LANGUAGE RankNTypes #-}

-- | GHC's sparks: the Eval monad's @parBuffer@, chunked.
--
-- Chunks are offered to the idle capabilities as sparks, about two per worker
-- ahead. One thread evaluates them in order as well: it does the work that no
-- capability took, so the run goes on with a single capability too. Sparks have no
-- workers of their own: an outcome's worker is the capability that evaluated it,
-- and @+RTS -N@ says how many there are.
module Maru.Backend.Sparks
  ( engine,
  )
where

import Control.Concurrent (forkIOWithUnmask, myThreadId, threadCapability)
import Control.Concurrent.Chan
import Control.Concurrent.STM
import Control.Exception (evaluate, mask_)
import Control.Parallel (par)
import Maru.Internal.Belt
import Maru.Internal.Engine
import Maru.Internal.Evaluate
import Maru.Internal.Patience (patiently)
import Maru.Internal.Plan (chunksAhead)
import Maru.Internal.Run
import Maru.Options (Backend (..))
import System.IO.Unsafe (unsafeInterleaveIO)

engine :: Engine
engine (Job options n order codec f inputs _ _) = mask_ $ do
  run <- newRun Sparks options n
  (belt, first) <- newBelt order
  guide <- newGuide run sparkNs
  unstarted <- newTVarIO (0 :: Int)
  chunks <- newChan
  spawnFeeder run (offer belt) (\_ -> finish belt) inputs
  -- One initialiser for all: there is one heap, and nobody knows which
  -- capabilities will take part.
  spawnWorkers run 1 (\_ body -> forkIOWithUnmask body) $ \_ _ ->
    let spark = do
          patiently . atomically $ readTVar unstarted >>= check . (< chunksAhead * n)
          items <- claim belt (guideChunk run guide)
          if null items
            then writeChan chunks Nothing
            else do
              atomically $ modifyTVar' unstarted (+ 1)
              chunk <- unsafeInterleaveIO $ do
                atomically $ modifyTVar' unstarted (subtract 1)
                timed guide (length items) $ evaluateSpark run belt (evaluateItem codec f) items
              chunk `par` writeChan chunks (Just chunk)
              spark
     in spark
  spawn run forkIOWithUnmask $ \restore ->
    let force = patiently (readChan chunks) >>= maybe (pure ()) (\chunk -> patiently (restore (evaluate chunk)) >> force)
     in force
  list <- produce run (follow run) first
  pure (Running list (stopRun run) (runReport run))

-- | In whatever thread runs the spark.
evaluateSpark :: Run -> Belt a b -> (a -> IO b) -> [Item a b] -> IO ()
evaluateSpark run belt evaluateOne items = whileRegistered run $ \restore -> do
  (capability, _) <- threadCapability =<< myThreadId
  evaluateChunk run belt evaluateOne capability restore items

-- | Nanoseconds that it costs to make, find and start a spark.
sparkNs :: Double
sparkNs = 2000
