-- | One item at a time, when its outcome is demanded, and nothing ahead: the model
-- that every other back end equals.
--
-- The consumer walks the input itself. A thread beside it evaluates the item: what
-- @f@ throws has to be told from an exception thrown /to/ the consumer, a timeout
-- say, and only a thread that nobody else knows of can tell them apart. The price
-- is a hand-over per item, some microseconds.
module Maru.Backend.Sequential
  ( engine,
  )
where

import Control.Concurrent (forkIOWithUnmask)
import Control.Concurrent.MVar
import Control.Exception (mask_)
import Control.Monad (when)
import Maru.Internal.Engine
import Maru.Internal.Evaluate
import Maru.Internal.Patience (patiently)
import Maru.Internal.Run
import Maru.Options (Backend (..))

-- | All outcomes are the caller's: worker -1.
engine :: Engine
engine (Job options _ _ codec f inputs _ _) = mask_ $ do
  run <- newRun Sequential options 1
  request <- newEmptyMVar
  answer <- newEmptyMVar
  spawnWorkers run 1 (\_ body -> forkIOWithUnmask body) $ \_ restore ->
    let serve = patiently (takeMVar request) >>= maybe (pure ()) answerTo
        answerTo x =
          capture run restore (evaluateItem codec f x)
            >>= maybe (pure ()) (\result -> putMVar answer result >> serve)
     in serve
  let next (_, []) = Nothing <$ putMVar request Nothing
      next (n, x : rest) = do
        when (n == 0) $ awaitWorkers run
        putMVar request (Just x)
        _ <- awaited (readMVar answer)
        result <- takeMVar answer
        arrived run
        pure (Just (Outcome n (-1) result, (n + 1, rest)))
      counted s@(n, xs) = do
        when (null xs) $ endsAt run n
        next s
  list <- produce run counted (0, inputs)
  pure (Running list (stopRun run) (runReport run))
