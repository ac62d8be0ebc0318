-- | The fork of a worker. /Internal/.
module Maru.Backend.Process.Birth
  ( bear,
  )
where

import Control.Exception (onException)
import Control.Monad (join)
import Data.IORef (newIORef, readIORef, writeIORef)
import Foreign.C (CInt)
import Maru.Internal.Cores (sharedDescriptor)
import Maru.Native.Process
import Maru.Native.Rts (forkWorker)

-- | A process that does this, given what it has inherited, with these descriptors; and how it
-- is less than it should be. The action must not return. Throws what refuses it.
bear :: [CInt] -> (Snapshot -> IO ()) -> IO (Process, [String])
bear descriptors act = do
  line <- newLifeline
  cores <- sharedDescriptor
  snapshot@(Snapshot inherited) <- newSnapshot (line : cores <> descriptors) `onException` closePidfd line
  -- The run-time system keeps what it was given for as long as the child lives;
  -- what only f leads to must become garbage there, or no wait for it ever ends.
  body <- newIORef (act snapshot)
  (pid, tied) <-
    forkWorker inherited line (join (readIORef body <* writeIORef body (pure ())))
      `onException` (closePidfd line >> freeSnapshot snapshot)
  freeSnapshot snapshot
  pidfd <- openPidfd pid
  pure (Process pid pidfd tied, [loose | tied < 0])
  where
    loose = "a worker is not tied to this process's life, for want of a descriptor: killed while that worker is stopped, this process leaves it behind"
