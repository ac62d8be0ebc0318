-- | What 'Maru.Backend.Auto' knows of the ways to map, as a function from what was
-- measured to a decision. /Internal/.
--
-- Times are nanoseconds. 'prices' were fitted on 2 and on 1 to 16 cores of two
-- machines by @maru-bench-map fit@, from the tables that bench\/results keeps; a test
-- of bench holds them to these: a model of factors, not of per cents.
module Maru.Backend.Auto.Model
  ( Means (..),
    Sample (..),
    typical,
    believable,
    longNs,
    Decision (..),
    decide,
    Prices (..),
    prices,
    expected,
    expectedBy,
    cellsWorth,
  )
where

import Data.Int (Int64)
import Data.List (sort)

-- | What there is beside the caller's thread: forked workers and capabilities,
-- its own included. Fewer than two: none.
data Means = Means
  { meansWorkers :: !Int,
    meansCapabilities :: !Int,
    -- | Bytes of a capability's allocation area.
    meansArea :: !Double
  }

-- | What the measured items showed.
data Sample = Sample
  { -- | Evaluating the latest three, the newest first.
    sampleWork :: ![Double],
    -- | Walking a result once more: what carrying it costs grows with it.
    sampleWalk :: !Double,
    -- | Bytes that evaluating the latest one allocated.
    sampleBytes :: !Double,
    -- | Bytes of a result that a walk does not look at: ByteStrings, arrays of numbers.
    sampleFlat :: !Double
  }
  deriving (Eq, Show)

-- | The median: one item in which the collector ran says nothing. Of two
-- measurements the lower one; of costs that grow smoothly the latest.
typical :: Sample -> Double
typical sample = case sampleWork sample of
  latest : _ | rising sample -> latest
  work -> case drop ((length work - 1) `div` 2) (sort work) of
    ns : _ -> max 1 ns
    [] -> 1

-- | Whether costs grow smoothly.
rising :: Sample -> Bool
rising sample = case sampleWork sample of
  [a, b, c] -> grown a b && grown b c
  _ -> False
  where
    grown now before = now > 1.2 * before && now < 3 * before

-- | A first item may have been dear because it was the first; one that took
-- 10 ms pays for the mistake.
believable :: Sample -> Bool
believable sample = case sampleWork sample of
  [] -> False
  [ns] -> ns > dearNs
  _ -> True

dearNs :: Double
dearNs = 10000000

-- | @longNs means forkNs@: when workers may be begun ahead, while an item is still evaluated. That is half
-- of what makes it believable, so that two of three such items get there. It is not before the item
-- took as long as the workers will take to start.
longNs :: Means -> Int64 -> Double
longNs means forkNs = max (dearNs / 2) (starting means forkNs)

data Decision = InCaller | OnCapabilities | OnWorkers
  deriving (Eq, Show)

-- | @decide means forkNs sample ahead@: where to evaluate @ahead@ items that
-- are known to follow. What workers do best, or nearly, were there enough of it,
-- waits for them: what goes to capabilities stays there.
decide :: Means -> Int64 -> Sample -> Int -> Decision
decide means forkNs sample ahead
  | not (believable sample) = InCaller
  | workersBest = if gain > 2 * starting means forkNs then OnWorkers else InCaller
  | meansCapabilities means > 1 && capable = OnCapabilities
  | otherwise = InCaller
  where
    each = expected means sample
    alone = typical sample
    workersBest = meansWorkers means > 1 && doubt * each OnWorkers < alone && each OnWorkers <= tie * each OnCapabilities
    gain = (alone - each OnWorkers) * fromIntegral ahead - starting means forkNs
    capable = alone > sparkWorthNs && alone * fromIntegral ahead > sparksWorthNs && doubt * each OnCapabilities < alone

starting :: Means -> Int64 -> Double
starting means forkNs = fromIntegral forkNs * fromIntegral (meansWorkers means)

-- | As much better than the caller alone a way must seem: the model's own error where results
-- are dear to carry. And so much worse than capabilities workers may seem: they do not stop each
-- other for what the program does beside the map.
doubt, tie :: Double
doubt = 1.2
tie = 1.25

-- | What an item takes in each way where there are many: time of the whole by their
-- number, after the start.
expected :: Means -> Sample -> Decision -> Double
expected = expectedBy prices

-- | By other prices.
expectedBy :: Prices -> Means -> Sample -> Decision -> Double
expectedBy p means sample way = case way of
  InCaller -> alone
  -- All work at once, and the caller takes each result.
  OnWorkers -> max (among meansWorkers (alone + outcomeNs + priceCarry p * walk + copyNs * flat)) (outcomeNs / 2 + priceTake p * walk + freeNs * flat)
  -- All stop for each collection, which copies what all are building: with as many
  -- areas there are fewer of them, and each takes that much longer.
  OnCapabilities ->
    max
      (among meansCapabilities alone + priceSpark p + sampleBytes sample / meansArea means * (priceStop p + priceSurvivor p * walk))
      (priceRead p * walk)
  where
    alone = typical sample
    walk = sampleWalk sample
    flat = sampleFlat sample
    among of' ns = let n = fromIntegral (max 1 (of' means)) in ns / n * (1 + priceCrowd p * (n - 1))

-- | Of what is beside the items themselves. What grows with a result is counted in walks
-- through one.
data Prices = Prices
  { -- | A worker builds a copy of its result on fresh pages.
    priceCarry :: !Double,
    -- | The caller maps these pages and reads them from another core's cache.
    priceTake :: !Double,
    -- | The caller reads from there what a capability has built.
    priceRead :: !Double,
    -- | An item on a capability beside itself, in nanoseconds.
    priceSpark :: !Double,
    -- | A collection for each area's worth of garbage: stopping everybody, in nanoseconds,
    -- and copying what lives of the results, in walks.
    priceStop :: !Double,
    priceSurvivor :: !Double,
    -- | How much longer all take for each core that works beside them: caches, memory, and
    -- an end for which some wait.
    priceCrowd :: !Double
  }
  deriving (Eq, Show)

prices :: Prices
prices = Prices {priceCarry = 5.65, priceTake = 0.996, priceRead = 1.82, priceSpark = 6070, priceStop = 34600, priceSurvivor = 7.32, priceCrowd = 0.0149}

-- | An item, and all items ahead, for which capabilities cost next to nothing.
sparkWorthNs, sparksWorthNs :: Double
sparkWorthNs = 20000
sparksWorthNs = 2000000

-- | What any result costs worker and caller together: half of it in either, at
-- 100 000 items of 1 us (measured).
outcomeNs :: Double
outcomeNs = 1200

-- | What a byte costs that no walk looks at: a worker copies it to a fresh page, and the caller gives that
-- page back (300 results of 1 MB, measured on two virtual CPUs).
copyNs, freeNs :: Double
copyNs = 1.2
freeNs = 0.13

-- | How many items are worth eight starts of all workers, within reason.
cellsWorth :: Means -> Int64 -> Sample -> Int
cellsWorth means forkNs sample =
  max 1 (ceiling (min 20000 (8 * starting means forkNs / typical sample)))
