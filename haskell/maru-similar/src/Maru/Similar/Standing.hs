-- | How much a similarity says in its collection.
--
-- Some tasks leave so little choice that independent works are alike. So a pair is
-- measured against the other pairs of its two submissions, and against all pairs.
-- Both come from a sample: the similarity of up to 'sampleSize' submissions, evenly
-- spaced, with each submission. In a collection of that size it is all pairs. Where there is an
-- archive, the sample is of new submissions, and what is usual is what these have with all.
module Maru.Similar.Standing
  ( Standing,
    standing,
    sampleOf,
    sampleSize,
    zScore,
    innocentAbove,
    quantile,
  )
where

import qualified Data.IntMap.Strict as IntMap
import Data.List (foldl')
import qualified Data.Vector.Algorithms.Intro as Intro
import qualified Data.Vector.Unboxed as VU

data Standing = Standing
  { -- | Of each submission's pairs; negative where too few are known.
    medians :: !(VU.Vector Float),
    -- | Median distances from it, scaled to a standard deviation.
    spreads :: !(VU.Vector Float),
    -- | All sampled similarities, ascending.
    everything :: !(VU.Vector Float)
  }

sampleSize :: Int
sampleSize = 128

-- | Which of so many new submissions are in the sample; ascending.
sampleOf :: Int -> [Int]
sampleOf n
  | n <= sampleSize = [0 .. n - 1]
  | otherwise = [i * n `div` sampleSize | i <- [0 .. sampleSize - 1]]

-- | Submissions below this number say nothing about each other's usual similarity.
fewest :: Int
fewest = 10

-- | From the sampled submissions with their similarities to each, and which pairs there are. What is
-- usual for a sampled submission is its own row's; for another its similarities to the sampled.
-- 'Nothing' for a small collection. O(sample size · n · log).
standing :: (Int -> Int -> Bool) -> [(Int, VU.Vector Float)] -> Maybe Standing
standing meet rows
  | n < fewest || VU.length every < fewest = Nothing
  | otherwise = Just (Standing (VU.fromListN n (map fst each)) (VU.fromListN n (map snd each)) every)
  where
    n = foldl' (\_ (_, row) -> VU.length row) 0 rows
    own = [(i, VU.ifilter (\j _ -> j /= i && meet i j) row) | (i, row) <- rows]
    every = sorted (VU.concat (map snd own))
    sampled = IntMap.fromList own
    few = length rows < fewest
    each = map usual [0 .. n - 1]
    usual j = case IntMap.lookup j sampled of
      Just row -> enough row
      Nothing
        | few -> unknown
        | otherwise -> enough (VU.fromList [row VU.! j | (i, row) <- rows, meet i j])
    enough values = if VU.length values + 1 < fewest then unknown else typical values
    unknown = (-1, 1)

typical :: VU.Vector Float -> (Float, Float)
typical values = (middle, max leastSpread (1.4826 * median (VU.map (abs . subtract middle) values)))
  where
    middle = median values

-- | Where all pairs are alike, a difference of a hundredth is none.
leastSpread :: Float
leastSpread = 0.02

median :: VU.Vector Float -> Float
median values = quantileOf 0.5 (sorted values)

sorted :: VU.Vector Float -> VU.Vector Float
sorted = VU.modify (Intro.sortBy (\a b -> compare (a :: Float) b))

-- | Of an ascending vector; 0 of an empty one.
quantileOf :: Double -> VU.Vector Float -> Float
quantileOf q values
  | VU.null values = 0
  | otherwise = values VU.! min (VU.length values - 1) (max 0 (floor (q * fromIntegral (VU.length values))))

-- | The similarity that this share of all pairs is below.
quantile :: Standing -> Double -> Float
quantile s q = quantileOf q (everything s)

-- | By how many spreads a similarity is above the usual one of the two submissions;
-- the smaller of both. Where it is known of one only, by that.
zScore :: Standing -> Int -> Int -> Double -> Maybe Double
zScore s i j x = case filter ((>= 0) . (medians s VU.!)) [i, j] of
  [] -> Nothing
  known -> Just (minimum (map of' known))
  where
    of' k = (x - realToFrac (medians s VU.! k)) / realToFrac (spreads s VU.! k)

-- | How many of so many pairs are expected at that similarity or above if all were
-- independent work. Up to the ninth tenth, counted. Above it, where the copies are,
-- the tail falls off as it does from the median to there: exponentially. A collection
-- in which more than a tenth of the pairs are copies gives too high a number.
innocentAbove :: Standing -> Int -> Double -> Double
innocentAbove s pairs x
  | x <= ninth = fromIntegral pairs * fromIntegral (above (realToFrac x)) / fromIntegral (max 1 (VU.length (everything s)))
  | otherwise = fromIntegral pairs * 0.1 * exp (negate (x - ninth) * log 5 / max 0.01 (ninth - middle))
  where
    ninth = realToFrac (quantile s 0.9)
    middle = realToFrac (quantile s 0.5)
    above y = VU.length (everything s) - firstNotBelow y (everything s)

-- | The first position of an ascending vector whose value is not below.
firstNotBelow :: Float -> VU.Vector Float -> Int
firstNotBelow y values = go 0 (VU.length values)
  where
    go lo hi
      | lo >= hi = lo
      | values VU.! mid < y = go (mid + 1) hi
      | otherwise = go lo mid
      where
        mid = (lo + hi) `div` 2
