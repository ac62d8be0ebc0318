-- | Transactions of a run that its consumer makes. /Internal/: may change without a major version.
--
-- A list may be looked at inside a transaction of the program. GHC refuses to begin another one there,
-- and what it throws would stay in the list.
module Maru.Internal.Unnested
  ( atOnce,
    unnested,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception

-- | A transaction that does not wait.
atOnce :: STM a -> IO a
atOnce = uninterruptibleMask_ . unnested

-- | 'atomically', by another thread where this one is in a transaction. What interrupts this thread
-- does not undo what that one does: so a transaction that waits must change nothing.
unnested :: STM a -> IO a
unnested act = try (atomically act) >>= either (\NestedAtomically -> byAnother) pure
  where
    byAnother = do
      done <- newEmptyMVar
      _ <- forkIO (atomically act >>= putMVar done)
      readMVar done
