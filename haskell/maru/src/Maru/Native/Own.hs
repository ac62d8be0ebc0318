-- | A variable that each process has for itself: after a fork, fresh. The threads that held it in the
-- parent are not there to give it back. /Internal/.
module Maru.Native.Own
  ( Own,
    newOwn,
    ownOf,
  )
where

import Control.Concurrent.MVar (MVar, newMVar)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

newtype Own a = Own (IORef (ProcessID, MVar a))

newOwn :: a -> IO (Own a)
newOwn start = do
  me <- getProcessID
  var <- newMVar start
  Own <$> newIORef (me, var)

-- | This process's; it begins with that.
ownOf :: Own a -> a -> IO (MVar a)
ownOf (Own known) start = do
  me <- getProcessID
  (owner, var) <- readIORef known
  if owner == me
    then pure var
    else do
      fresh <- newMVar start
      -- Two threads may come at once.
      atomicModifyIORef' known (\now -> if fst now == me then (now, snd now) else ((me, fresh), fresh))
