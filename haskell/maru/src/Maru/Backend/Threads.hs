{-# LANGUAGE MagicHash #-}
{-# LANGUAGE RankNTypes #-}

-- | Workers that are threads of the caller's own process and share its heap:
-- lightweight ones, or one operating-system thread each.
--
-- A worker claims the next indices from a counter that all share, as many as the
-- planner says, and puts each result into a place of its own. Workers scale as far
-- as the one garbage collector lets them.
module Maru.Backend.Threads
  ( engine,
    boundEngine,
  )
where

import Control.Concurrent (forkOSWithUnmask, forkOnWithUnmask, rtsSupportsBoundThreads)
import Control.Exception (IOException, catch, mask_, throwIO, uninterruptibleMask_)
import GHC.Exts (maskAsyncExceptions#)
import GHC.IO (IO (..), unIO)
import Maru.Failure (Unavailable (..))
import Maru.Internal.Belt
import Maru.Internal.Engine
import Maru.Internal.Evaluate
import Maru.Internal.Run
import Maru.Options (Backend (..))

-- | Lightweight threads, dealt out to the capabilities.
engine :: Engine
engine = workersWith Threads forkOnWithUnmask

-- | Operating-system threads. Throws 'Unavailable' in a program that was linked
-- without @-threaded@.
boundEngine :: Engine
boundEngine job
  | rtsSupportsBoundThreads = workersWith BoundThreads (\_ body -> forkBound body) job
  | otherwise =
    throwIO
      Unavailable
        { unavailableWhat = "the back end bound-threads",
          unavailableWhy = "this program was linked without -threaded",
          unavailableRemedy = "link it with ghc-options: -threaded, or choose another back end"
        }

-- | Not interruptible: @forkOS@ waits for its thread, and what is thrown at the consumer meanwhile would stay
-- in the list. The thread begins masked, as others do.
forkBound :: Fork
forkBound body = uninterruptibleMask_ (forkOSWithUnmask begin `catch` refused)
  where
    refused :: IOException -> IO a
    refused _ =
      throwIO
        Unavailable
          { unavailableWhat = "another thread of the operating system",
            unavailableWhy = "the system refuses it",
            unavailableRemedy = "look at `ulimit -u` and memory limits, or use the Threads back end"
          }
    begin :: Restore -> IO ()
    begin restore = IO (maskAsyncExceptions# (unIO (body restore)))

workersWith :: Backend -> (Int -> Fork) -> Engine
workersWith which fork (Job options n order codec f inputs _ _) = mask_ $ do
  run <- newRun which options n
  (belt, first) <- newBelt order
  guide <- newGuide run claimNs
  spawnFeeder run (offer belt) (\_ -> finish belt) inputs
  spawnWorkers run n fork $ \worker restore ->
    work run guide (claim belt (guideChunk run guide)) $
      evaluateChunk run belt (evaluateItem codec f) worker restore
  list <- produce run (follow run) first
  pure (Running list (stopRun run) (runReport run))

-- | Nanoseconds that a claim costs.
claimNs :: Double
claimNs = 1000
