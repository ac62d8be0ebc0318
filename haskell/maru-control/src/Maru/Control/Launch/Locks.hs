-- | What the locks of a job cost, and which node waited for which, from what its nodes tell
-- (native/dsm/heat.h). Pure.
module Maru.Control.Launch.Locks
  ( Lock (..),
    Behind (..),
    locks,
    lockVerdict,
  )
where

import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Ord (Down (..))
import Maru.Control.Launch.Heat (Told (..))
import Text.Printf (printf)

-- | Over all nodes. Seconds are from request to grant.
data Lock = Lock
  { lockName :: !String,
    lockTaken :: !Integer,
    -- | Of these, without a message.
    lockKept :: !Integer,
    lockWaited :: !Double,
    lockLongest :: !Double,
    -- | The longest in all first.
    lockBehind :: ![Behind]
  }
  deriving (Eq, Show)

-- | A node came right after another in the lock's queue: it waited for that one's turn, and for
-- those before.
data Behind = Behind
  { behindNode :: !Int,
    behindHolder :: !Int,
    behindTimes :: !Integer,
    behindWaited :: !Double,
    behindLongest :: !Double
  }
  deriving (Eq, Show)

-- | The one that was waited for longest first.
locks :: [Told] -> [Lock]
locks lines' = sortOn (Down . lockWaited) (map lock (Map.toList byName))
  where
    byName = Map.fromListWith (++) [(name, [(t, k, w, l)]) | ToldLock _ name t k w l <- lines']
    behind = Map.fromListWith (++) [(name, [Behind node holder t (1e-9 * w) (1e-9 * l)]) | ToldBehind node name holder t w l <- lines']
    lock (name, nodes) =
      Lock
        { lockName = name,
          lockTaken = sum [t | (t, _, _, _) <- nodes],
          lockKept = sum [k | (_, k, _, _) <- nodes],
          lockWaited = 1e-9 * sum [w | (_, _, w, _) <- nodes],
          lockLongest = 1e-9 * maximum (0 : [l | (_, _, _, l) <- nodes]),
          lockBehind = sortOn (Down . behindWaited) (Map.findWithDefault [] name behind)
        }

-- | A line about the one that was waited for longest; nothing if no node met another at a lock.
lockVerdict :: [Lock] -> Maybe String
lockVerdict all' = case [(lock, first) | lock <- all', first : _ <- [lockBehind lock]] of
  [] -> Nothing
  (lock, first) : _ ->
    Just $
      printf
        "lock %s: taken %d times, waited for %.3f s; most by node %d behind node %d: %d times, %.3f s"
        (lockName lock)
        (lockTaken lock)
        (lockWaited lock)
        (behindNode first)
        (behindHolder first)
        (behindTimes first)
        (behindWaited first)
