-- | Durations counted in the classes of @maru\/histogram.h@: log-linear, 64 an octave, so that a
-- value read from them is at most 1\/128 off.
module Maru.Control.Histogram
  ( Histogram (..),
    classOf,
    firstOf,
    widthOf,
    middleOf,
    classes,
    fromClasses,
    addZeros,
    total,
    quantile,
    worstMean,
    octaves,
  )
where

import Data.Bits (countLeadingZeros, shiftL, shiftR, (.|.))
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Word (Word64)

-- | How many values each class has, and the largest value.
data Histogram = Histogram
  { histogramCounts :: !(IntMap Word64),
    histogramLongest :: !Word64
  }
  deriving (Eq, Show)

instance Semigroup Histogram where
  Histogram a x <> Histogram b y = Histogram (IntMap.unionWith (+) a b) (max x y)

instance Monoid Histogram where
  mempty = Histogram IntMap.empty 0

-- | How many classes there are.
classes :: Int
classes = 35 * 64

classOf :: Word64 -> Int
classOf value
  | value `shiftR` 40 /= 0 = classes - 1
  | otherwise = e * 64 + fromIntegral (value `shiftR` e)
  where
    e = 57 - countLeadingZeros (value .|. 64)

-- | The smallest value of a class.
firstOf :: Int -> Word64
firstOf at = fromIntegral (at - e * 64) `shiftL` e
  where
    e = exponentOf at

-- | How many values it has.
widthOf :: Int -> Word64
widthOf at = 1 `shiftL` exponentOf at

exponentOf :: Int -> Int
exponentOf at = max 0 (at `div` 64 - 1)

middleOf :: Int -> Double
middleOf at = fromIntegral (firstOf at) + (fromIntegral (widthOf at) - 1) / 2

-- | From counts by class; classes that there are not are left out.
fromClasses :: Word64 -> [(Int, Word64)] -> Histogram
fromClasses longest counts =
  Histogram (IntMap.fromListWith (+) [(at, n) | (at, n) <- counts, at >= 0, at < classes, n > 0]) longest

-- | So many more values of 0.
addZeros :: Word64 -> Histogram -> Histogram
addZeros 0 h = h
addZeros n (Histogram counts longest) = Histogram (IntMap.insertWith (+) 0 n counts) longest

total :: Histogram -> Word64
total = sum . histogramCounts

-- | The value that a share (0 to 1) is not above; 'Nothing' of none.
quantile :: Double -> Histogram -> Maybe Double
quantile part h = go 0 (IntMap.toAscList (histogramCounts h))
  where
    wanted = part * fromIntegral (total h)
    go :: Double -> [(Int, Word64)] -> Maybe Double
    go _ [] = Nothing
    go seen ((at, n) : rest)
      | now >= wanted || null rest = Just (atMost (middleOf at))
      | otherwise = go now rest
      where
        now = seen + fromIntegral n
    atMost = min (fromIntegral (histogramLongest h))

-- | The mean of the largest share (CVaR); 'Nothing' of none.
worstMean :: Double -> Histogram -> Maybe Double
worstMean part h
  | total h == 0 = Nothing
  | otherwise = Just (go wanted 0 (IntMap.toDescList (histogramCounts h)) / wanted)
  where
    wanted = part * fromIntegral (total h)
    go :: Double -> Double -> [(Int, Word64)] -> Double
    go _ acc [] = acc
    go left acc ((at, n) : rest)
      | left <= 0 = acc
      | otherwise = let taken = min left (fromIntegral n) in go (left - taken) (acc + taken * middleOf at) rest

-- | By quarter octave, for a picture: the smallest value of each that has any, and how many.
octaves :: Histogram -> [(Word64, Word64)]
octaves h = [(firstOf (q * 16), n) | (q, n) <- IntMap.toAscList (IntMap.mapKeysWith (+) (`div` 16) (histogramCounts h))]
