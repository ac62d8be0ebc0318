-- | How large a worker's allocation area should be: a pure function from what its collector has
-- taken to a size. /Internal/: may change without a major version.
--
-- The rules, each a property of the test suite:
--
--   * It grows, fourfold or more, while the collector takes more than a twentieth of the process's
--     time.
--   * A step that did not spare @worthwhile@ of the time is taken back: what the items keep is copied
--     however rarely, and a larger area loses more to caches and page tables. It is tried again
--     where the collector takes twice as much.
--   * Where collections are rare and dear it grows at once: a worker that allocates so little loses nothing by it.
--   * Elsewhere, up to the first look that finds a collection nothing is judged: that one copies what the caller
--     left, on fresh pages. But ten that took a quarter of the time say enough.
--   * Beyond @cachedArea@ it goes only where most of the time goes there.
--
-- Of processor time, not of the clock's: on a busy machine a collection that had to wait for a core
-- would seem to take that long.
module Maru.Internal.Area
  ( Look (..),
    Area,
    newArea,
    stepArea,
  )
where

import Data.Int (Int64)
import Data.Maybe (isNothing)

-- | What a process and its collector had done up to now.
data Look = Look
  { lookCpuNs :: !Int64,
    lookCollectorNs :: !Int64,
    lookCollections :: !Int64,
    -- | Bytes of the area.
    lookArea :: !Int
  }
  deriving (Eq, Show)

-- | What is known of a worker's area.
data Area = Area
  { areaSince :: !Look,
    -- | What comes next counts. The first collection does not, nor does that which changes the size.
    areaCounts :: !Bool,
    -- | The size before the last step, and the collector's share of the time there.
    areaBefore :: !(Maybe (Int, Double)),
    -- | It grows where the share is larger.
    areaBar :: !Double
  }
  deriving (Eq, Show)

-- | At a worker's birth.
newArea :: Look -> Area
newArea birth = Area birth False Nothing 0.05

-- | @stepArea most now area@: a new size, if there is to be one, of at most so many bytes.
stepArea :: Int -> Look -> Area -> (Maybe Int, Area)
stepArea most now area
  | collections == 0 = (Nothing, area)
  | rare, isNothing (areaBefore area), share > areaBar area, min wanted cachedArea > size = (Just (min wanted cachedArea), changing)
  | not (areaCounts area || collections >= 10 && share > dear) = (Nothing, area {areaSince = now, areaCounts = True})
  | collections < 3 || cpu < patience = (Nothing, area)
  | Just (smaller, before) <- areaBefore area,
    before - share < worthwhile =
    (Just smaller, changing {areaBefore = Nothing, areaBar = max (areaBar area) (2 * share)})
  | share > areaBar area, wanted > size = (Just wanted, changing {areaBefore = Just (size, share)})
  | otherwise = (Nothing, area {areaSince = now, areaBefore = Nothing})
  where
    since = areaSince area
    size = lookArea now
    collections = lookCollections now - lookCollections since
    cpu = lookCpuNs now - lookCpuNs since
    share = fromIntegral (lookCollectorNs now - lookCollectorNs since) / fromIntegral cpu :: Double
    wanted = min (if share > 0.5 then most else min most cachedArea) (size * (if share > dear then 16 else 4))
    rare = collections < 3 && cpu >= patience
    dear = 0.25
    changing = area {areaSince = now, areaCounts = False}
    -- To grow by mistake costs little; to stay small by mistake costs as long as the worker lives.
    patience = maybe 5000000 (const 20000000) (areaBefore area)

-- | Bytes. A larger area spares collections and loses more to caches and page
-- tables: of 1 to 64 MiB, 16 is the fastest for all of our workloads or within 3 %
-- of it (measured; bench/map).
cachedArea :: Int
cachedArea = 16 * 1024 * 1024

-- | The share of the time that a step must spare.
worthwhile :: Double
worthwhile = 0.03
