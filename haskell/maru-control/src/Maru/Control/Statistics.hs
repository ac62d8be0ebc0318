-- | The few figures that maru publishes about repeated measurements: medians
-- and ranges, never means of timings.
module Maru.Control.Statistics
  ( Summary (..),
    summarise,
    quantile,
    median,
  )
where

import Data.List (sort)
import Data.List.NonEmpty (NonEmpty)
import qualified Data.List.NonEmpty as NonEmpty

-- | A sample in four numbers, in the sample's own unit.
data Summary = Summary
  { summaryMedian :: !Double,
    summaryLeast :: !Double,
    summaryMost :: !Double,
    summaryCount :: !Int
  }
  deriving (Eq, Show)

-- | O(n log n).
summarise :: NonEmpty Double -> Summary
summarise sample =
  Summary
    { summaryMedian = median sample,
      summaryLeast = minimum sample,
      summaryMost = maximum sample,
      summaryCount = NonEmpty.length sample
    }

median :: NonEmpty Double -> Double
median = quantile 0.5

-- | The value below which that share (0 to 1) of the sample lies, linear
-- between neighbours. O(n log n).
quantile :: Double -> NonEmpty Double -> Double
quantile share sample = low + (position - fromIntegral below) * (high - low)
  where
    ordered = sort (NonEmpty.toList sample)
    position = max 0 (min 1 share) * fromIntegral (NonEmpty.length sample - 1)
    below = floor position :: Int
    (low, high) = case drop below ordered of
      a : b : _ -> (a, b)
      [a] -> (a, a)
      [] -> (NonEmpty.head sample, NonEmpty.head sample)
