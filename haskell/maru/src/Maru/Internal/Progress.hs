-- | Tells a callback about progress, at most ten times a second.
-- /Internal/: may change without a major version.
module Maru.Internal.Progress
  ( Teller,
    newTeller,
    watch,
    lastCall,
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (SomeException, finally, try)
import Control.Monad (void)
import GHC.Clock (getMonotonicTime)
import Maru.Options (Progress (..))
import System.Timeout (timeout)

-- | Between the thread that tells and the one that consumes.
data Teller = Teller
  { tellerWake :: !(MVar ()),
    -- | Full once nothing more is told.
    tellerDone :: !(MVar ())
  }

newTeller :: IO Teller
newTeller = Teller <$> newEmptyMVar <*> newEmptyMVar

-- | @watch teller callback look@ calls back whenever the number of arrived results has
-- changed, at most every 100 ms, and a last time when all have arrived; then it
-- returns. Run it in a thread of its own that ends with the run: a slow callback
-- delays nothing but the next call.
--
-- @look@ yields the results arrived, the items in all (once known) and the
-- workers alive.
--
-- 'Left': the callback threw this, and will not be called again.
watch :: Teller -> (Progress -> IO ()) -> IO (Int, Maybe Int, Int) -> IO (Either SomeException ())
watch teller callback look = (getMonotonicTime >>= \start -> try (loop start 0)) `finally` tryPutMVar (tellerDone teller) ()
  where
    loop start told = do
      void (timeout 100000 (takeMVar (tellerWake teller)))
      now <- getMonotonicTime
      (done, total, alive) <- look
      let finished = Just done == total
      if done == told && not finished
        then loop start told
        else do
          callback (Progress done total alive (now - start))
          if finished then pure () else loop start done

-- | For the consumer, at the end of the list: the last call comes now, and is waited
-- for, but not for more than a second: the program may end next. Interruptible,
-- and without a handler of exceptions.
lastCall :: Teller -> IO ()
lastCall teller = do
  void (tryPutMVar (tellerWake teller) ())
  void (forkIO (threadDelay 1000000 >> void (tryPutMVar (tellerDone teller) ())))
  readMVar (tellerDone teller)
