-- | The fork of a worker. /Internal/.
module Maru.Backend.Process.Birth
  ( bear,
  )
where

import Control.Exception (onException)
import Control.Monad (join)
import Data.Foldable (for_)
import Data.IORef (newIORef, readIORef, writeIORef)
import Maru.Backend.Process.Fabric (Link (..))
import Maru.Internal.Cores (sharedDescriptor)
import Maru.Native.Process
import Maru.Native.Rts (forkWorker)

-- | A process at the other end of that link that does this, given what it has inherited; with
-- how it is less than it should be. The action must not return. Where it is refused the link
-- is closed.
bear :: Link -> (Snapshot -> IO ()) -> IO (Process, [String])
bear link act = do
  line <- newLifeline `onException` closeLink link
  snapshot <- takeSnapshot `onException` (closePidfd line >> closeLink link)
  cores <- sharedDescriptor
  for_ (line : cores <> keptOpen link) (spare snapshot)
  -- The run-time system keeps what it was given for as long as the child lives;
  -- what only f leads to must become garbage there, or no wait for it ever ends.
  body <- newIORef (act snapshot)
  (pid, tied) <-
    forkWorker line (join (readIORef body <* writeIORef body (pure ())))
      `onException` (closePidfd line >> closeLink link >> freeSnapshot snapshot)
  freeSnapshot snapshot
  pidfd <- openPidfd pid
  pure (Process pid pidfd tied, [loose | tied < 0])
  where
    loose = "a worker is not tied to this process's life, for want of a descriptor: killed while that worker is stopped, this process leaves it behind"
