-- | Waits of a run that an item which is stuck for ever does not end. /Internal/: may change
-- without a major version.
--
-- The collector tells all threads that nobody can wake so at once: the one in the item, and those
-- that wait for its outcome. The item's thread goes on by that, with an exception for the element,
-- and then wakes the others. So these wait again.
module Maru.Internal.Patience
  ( patiently,
    patientlyFor,
  )
where

import Control.Concurrent (myThreadId)
import Control.Exception
import Data.Maybe (isJust)

-- | For threads of a run, which the run ends: waits again however often they are told. What waits
-- must do nothing before.
patiently :: IO a -> IO a
patiently wait = try wait >>= either again pure
  where
    again e
      | inVain e = patiently wait
      | otherwise = throwIO e

-- | For the consumer. It is told so often at most: in a process that was forked from here no thread of the
-- run goes on. Then, and when something else is thrown at the consumer, it is thrown on as at a
-- stranger: the list stays as it is, and the next demand waits again. The wait must take nothing: what
-- is thrown may come when it has ended, and then it is made again.
patientlyFor :: Int -> IO a -> IO a
patientlyFor most wait = go most
  where
    go left = do
      waiting <- myThreadId
      outcome <- try wait
      case outcome of
        Right x -> pure x
        Left e
          | inVain e && left > 0 -> go (left - 1)
          | otherwise -> do
            -- Another one may demand the list when a second exception came between.
            now <- myThreadId
            if now == waiting then throwTo now e >> go most else go most

inVain :: SomeException -> Bool
inVain e = isJust onMVar || isJust onSTM || isJust onThunk
  where
    -- As of one who waits for a spark.
    onThunk = (\NonTermination -> ()) <$> fromException e
    onMVar = (\BlockedIndefinitelyOnMVar -> ()) <$> fromException e
    onSTM = (\BlockedIndefinitelyOnSTM -> ()) <$> fromException e
