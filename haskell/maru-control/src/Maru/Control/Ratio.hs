-- | Is one side so much faster than the other as somebody claims?
--
-- Two sides are measured in turn, so that what slows the machine slows both; a
-- round gives one ratio. The claim is about the median of the ratios, and the
-- answer is taken from its 95 % bootstrap interval (percentiles of the medians
-- of resamples), made as wide as the sign test's where that is wider: of seven
-- ratios the bootstrap's holds the median 87.5 times of 100.
--
--   * the whole interval on the right side of the bar: the claim holds;
--   * the whole interval on the wrong side: it fails;
--   * the interval holds the bar and is at most 6 % of it wide: the sides differ
--     by too little to matter, the claim holds;
--   * else more rounds are needed, up to 'mostPairs'; after these the claim is
--     undecided, and is said to be.
--
-- Deterministic: the same ratios give the same interval, on every machine.
module Maru.Control.Ratio
  ( -- * Estimating
    Estimate (..),
    estimate,

    -- * Judging
    Bar (..),
    Verdict (..),
    judge,
    verdictName,
    settled,
    fewestPairs,
    mostPairs,
  )
where

import Data.Array.Unboxed (UArray, bounds, listArray, (!))
import Data.List (sort, unfoldr)
import Data.List.NonEmpty (NonEmpty (..))
import qualified Data.List.NonEmpty as NonEmpty
import Maru.Control.Statistics (median, quantile)
import System.Random.SplitMix (SMGen, bitmaskWithRejection64', mkSMGen)

-- | The median of the ratios and where it may lie.
data Estimate = Estimate
  { estimateMedian :: !Double,
    -- | Ends of the 95 % interval.
    estimateLow :: !Double,
    estimateHigh :: !Double,
    -- | Ratios it was made from.
    estimatePairs :: !Int
  }
  deriving (Eq, Show)

-- | O(resamples · n log n).
estimate :: NonEmpty Double -> Estimate
estimate ratios =
  Estimate
    { estimateMedian = median ratios,
      estimateLow = min (quantile 0.025 medians) (ordered ! outer),
      estimateHigh = max (quantile 0.975 medians) (ordered ! (n - 1 - outer)),
      estimatePairs = n
    }
  where
    n = NonEmpty.length ratios
    ordered = listArray (0, n - 1) (sort (NonEmpty.toList ratios))
    medians = resampledMedian ordered <$> generators
    outer = signRank n

-- | The place, from 0, of the value at which the sign test's 95 % interval begins; it ends as far from the other end.
-- Whatever so many values are drawn from, their median lies in it. Of fewer than 'fewestPairs' it is all, and too narrow.
signRank :: Int -> Int
signRank n = max 0 (length (takeWhile (<= 0.025) (scanl1 (+) chances)) - 1)
  where
    -- That so many of them, from none on, lie below the median.
    chances = scanl (\p i -> p * fromIntegral (n - i) / fromIntegral (i + 1)) (0.5 ^ n) [0 .. n - 1] :: [Double]

resamples :: Int
resamples = 2000

generators :: NonEmpty SMGen
generators = mkSMGen 1 :| map (mkSMGen . fromIntegral) [2 .. resamples]

-- | Of as many draws with replacement as there are ratios. The ratios are in
-- order, so the draws are ordered by their places.
resampledMedian :: UArray Int Double -> SMGen -> Double
resampledMedian ordered gen = (at ((n - 1) `div` 2) + at (n `div` 2)) / 2
  where
    n = snd (bounds ordered) + 1
    places = listArray (0, n - 1) (sort (take n (unfoldr (Just . draw) gen))) :: UArray Int Int
    at k = ordered ! (places ! k)
    draw g = let (w, g') = bitmaskWithRejection64' (fromIntegral (n - 1)) g in (fromIntegral w, g')

-- | What is claimed of the ratio.
data Bar
  = AtLeast !Double
  | AtMost !Double
  deriving (Eq, Show)

data Verdict = Holds | Fails | Undecided
  deriving (Eq, Ord, Show, Enum, Bounded)

verdictName :: Verdict -> String
verdictName v = case v of
  Holds -> "holds"
  Fails -> "FAILS"
  Undecided -> "undecided"

-- | See above. Fewer than 'fewestPairs' decide nothing.
judge :: Bar -> Estimate -> Verdict
judge bar e
  | estimatePairs e < fewestPairs = Undecided
  | right = Holds
  | wrong = Fails
  | estimateHigh e - estimateLow e <= closeEnough * abs at = Holds
  | otherwise = Undecided
  where
    (at, right, wrong) = case bar of
      AtLeast b -> (b, estimateLow e >= b, estimateHigh e < b)
      AtMost b -> (b, estimateHigh e <= b, estimateLow e > b)

-- | No further pair is needed, or allowed.
settled :: Bar -> Estimate -> Bool
settled bar e = estimatePairs e >= mostPairs || judge bar e /= Undecided

-- | The range of fewer pairs does not hold the median with 95 % certainty.
fewestPairs :: Int
fewestPairs = 6

mostPairs :: Int
mostPairs = 40

-- | Width, as a share of the bar, of an interval that may hold the bar.
closeEnough :: Double
closeEnough = 0.06
