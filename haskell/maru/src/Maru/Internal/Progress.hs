-- | Tells a callback about progress, at most ten times a second.
-- /Internal/: may change without a major version.
module Maru.Internal.Progress
  ( watch,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (SomeException, try)
import GHC.Clock (getMonotonicTime)
import Maru.Options (Progress (..))

-- | @watch callback look@ calls back whenever the number of arrived results has
-- changed, at most every 100 ms, and a last time when all have arrived; then it
-- returns. Run it in a thread of its own that ends with the run: a slow callback
-- delays nothing but the next call.
--
-- @look@ yields the results arrived, the items in all (once known) and the
-- workers alive.
--
-- 'Left': the callback threw this, and will not be called again.
watch :: (Progress -> IO ()) -> IO (Int, Maybe Int, Int) -> IO (Either SomeException ())
watch callback look = getMonotonicTime >>= \start -> try (loop start 0)
  where
    loop start told = do
      threadDelay 100000
      now <- getMonotonicTime
      (done, total, alive) <- look
      let finished = Just done == total
      if done == told && not finished
        then loop start told
        else do
          callback (Progress done total alive (now - start))
          if finished then pure () else loop start done
