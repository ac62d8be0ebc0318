-- | The level of a program's rate, and the alarm that it has fallen. That is a cumulative sum (Page
-- 1954) of how many standard deviations each period is below what is usual.
--
-- It is the veto, not the verdict: quick at large drops, blind to small ones. A
-- drop by half is seen in three or four periods at any noise up to a fifth. Under Gaussian noise a
-- false alarm comes once in some 100 000 periods (by Siegmund's approximation).
--
-- Pure. O(1).
module Maru.Control.Steer.Level
  ( Level,
    noLevel,
    briefly,
    long,
    learn,
    known,
    Drop,
    noDrop,
    watch,
    alarmed,
    clearlyAbove,
  )
where

-- | Mean and scatter of the logarithm of the rate, exponentially weighted.
data Level = Level
  { levelCount :: !Int,
    levelMean :: !Double,
    levelSquares :: !Double
  }
  deriving (Eq, Show)

noLevel :: Level
noLevel = Level 0 0 0

-- | Periods seen, until they are as many as the scatter is known from.
known :: Level -> Int
known = levelCount

-- | Periods that a mean remembers: one to compare neighbours by, which follows a load that drifts;
-- and one that notices what comes slowly. The scatter is a matter of as long.
briefly, long :: Int
briefly = 8
long = 32

-- | A few periods that are assumed to scatter by a twentieth keep the first estimates sane.
scatter :: Level -> Double
scatter level = sqrt ((4 * 0.05 * 0.05 + levelSquares level) / fromIntegral (4 + levelCount level))

-- | One period's rate, for a mean of so many periods. Once the level is known, what lies far from
-- it moves it no further than three standard deviations do.
learn :: Int -> Double -> Level -> Level
learn memory rate level
  | levelCount level == 0 = Level 1 x 0
  | otherwise = Level count (levelMean level + off / fromIntegral (min memory count)) (levelSquares level * kept + off * off * (1 - 1 / n))
  where
    x = log (max 1e-9 rate)
    bound = 3 * scatter level
    off = (if levelCount level < 4 then id else max (-bound) . min bound) (x - levelMean level)
    count = min long (levelCount level + 1)
    n = fromIntegral count
    kept = if levelCount level < long then 1 else 1 - 1 / n

-- | The sum.
newtype Drop = Drop Double
  deriving (Eq, Show)

noDrop :: Drop
noDrop = Drop 0

-- | One period's rate, held to a level of some periods. A standard deviation is taken to be no less
-- than that.
watch :: Double -> Level -> Double -> Drop -> Drop
watch least level rate (Drop s)
  | levelCount level < 4 = Drop s
  | otherwise = Drop (max 0 (s + min 3 below - 1))
  where
    below = (levelMean level - log (max 1e-9 rate)) / max least (scatter level)

alarmed :: Drop -> Bool
alarmed (Drop s) = s >= 5

-- | The first lies above the second by more than chance explains.
clearlyAbove :: Level -> Level -> Bool
clearlyAbove a b = levelMean a - levelMean b > 3 * sqrt (err a + err b)
  where
    err level = scatter level * scatter level / fromIntegral (max 1 (min briefly (levelCount level)))
