-- | One reference to an immutable set. Readers look at it as it is and never begin anew; an update
-- replaces it, so that all updates meet there.
module Maru.Bench.Stm.Snapshot (newSnapshot) where

import Data.IORef
import qualified Data.IntSet as IntSet
import Maru.Bench.Stm.Set
import Maru.Bench.Stm.Tally

newSnapshot :: IO Set
newSnapshot = do
  reference <- newIORef IntSet.empty
  let update change tally key = do
        counting tally
        bump tally Writes
        bump tally TopWrites
        atomicModifyIORef' reference (change key)
      inserted key old = (IntSet.insert key old, not (IntSet.member key old))
      deleted key old = (IntSet.delete key old, IntSet.member key old)
      member tally key = counting tally >> IntSet.member key <$> readIORef reference
  pure (Set (update inserted) (update deleted) member (IntSet.toList <$> readIORef reference))
  where
    counting tally = mapM_ (bump tally) [Attempts, Reads, Commits]
