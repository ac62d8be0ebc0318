-- | Which engine serves a back end. /Internal/: may change without a major version.
module Maru.Internal.Dispatch
  ( engineOf,
  )
where

import qualified Maru.Backend.Sequential as Sequential
import qualified Maru.Backend.Shm as Shm
import qualified Maru.Backend.Sockets as Sockets
import qualified Maru.Backend.Sparks as Sparks
import qualified Maru.Backend.Stm as Stm
import qualified Maru.Backend.Threads as Threads
import Maru.Internal.Engine
import Maru.Options (Backend (..))

-- | 'Nothing': not a back end of its own ('Auto' chooses another one), or one that does not
-- take any function ('Mpi', 'Vm').
engineOf :: Backend -> Maybe (Job a b -> IO (Running b))
engineOf which = case which of
  Sequential -> Just Sequential.engine
  Sparks -> Just Sparks.engine
  Threads -> Just Threads.engine
  BoundThreads -> Just Threads.boundEngine
  Stm -> Just Stm.engine
  Shm -> Just Shm.engine
  Sockets -> Just Sockets.engine
  Auto -> Nothing
  Mpi -> Nothing
  Vm -> Nothing
