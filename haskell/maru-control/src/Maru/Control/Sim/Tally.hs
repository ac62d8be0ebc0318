-- | How durations are distributed, to within 0.8 %: counts in 64 cells an
-- octave. Values are nanoseconds, at least 0.
module Maru.Control.Sim.Tally
  ( -- * Counting
    Counter,
    newCounter,
    count,

    -- * The result
    Tally,
    freeze,
    tally,
    total,
    most,
    mean,
    quantile,
    worstMean,
  )
where

import Control.Monad.ST (ST, runST)
import Data.Bits (countLeadingZeros, shiftL, shiftR, (.&.), (.|.))
import Data.Primitive.PrimArray

data Counter s = Counter !(MutablePrimArray s Int) !(MutablePrimArray s Double)

data Tally = Tally
  { tallyCells :: !(PrimArray Int),
    -- | How many values.
    total :: !Int,
    -- | The greatest, exact; 0 when there is none.
    most :: !Double
  }
  deriving (Eq, Show)

newCounter :: ST s (Counter s)
newCounter = do
  cells <- newPrimArray cellCount
  setPrimArray cells 0 cellCount 0
  greatest <- newPrimArray 1
  writePrimArray greatest 0 0
  pure (Counter cells greatest)

count :: Counter s -> Double -> ST s ()
count (Counter cells greatest) value = do
  let cell = cellOf value
  before <- readPrimArray cells cell
  writePrimArray cells cell (before + 1)
  known <- readPrimArray greatest 0
  if value > known then writePrimArray greatest 0 value else pure ()
{-# INLINE count #-}

-- | The counter may be used no more.
freeze :: Counter s -> ST s Tally
freeze (Counter cells greatest) = do
  frozen <- unsafeFreezePrimArray cells
  Tally frozen (foldlPrimArray' (+) 0 frozen) <$> readPrimArray greatest 0

tally :: [Double] -> Tally
tally values = runST $ do
  counter <- newCounter
  mapM_ (count counter) values
  freeze counter

-- | Below 64 a cell a nanosecond, then 64 an octave, up to 2^53 ns.
cellOf :: Double -> Int
cellOf value
  | n < 64 = n
  | otherwise = (octave - 5) `shiftL` 6 .|. ((n `shiftR` (octave - 6)) .&. 63)
  where
    n = max 0 (min 9007199254740991 (truncate value)) :: Int
    octave = 63 - countLeadingZeros n
{-# INLINE cellOf #-}

cellCount :: Int
cellCount = 48 * 64

-- | The middle of a cell.
valueOf :: Int -> Double
valueOf cell
  | cell < 64 = fromIntegral cell + 0.5
  | otherwise = fromIntegral ((64 .|. (cell .&. 63)) `shiftL` shift) + fromIntegral ((1 :: Int) `shiftL` shift) / 2
  where
    shift = cell `shiftR` 6 - 1

-- | From the greatest value to the least: values and counts, the empty cells left out.
descending :: Tally -> [(Double, Int)]
descending t =
  [ (min (most t) (valueOf cell), n)
    | cell <- [cellCount - 1, cellCount - 2 .. 0],
      let n = indexPrimArray (tallyCells t) cell,
      n > 0
  ]

-- | 0 when there are no values, as for the other figures.
mean :: Tally -> Double
mean = worstMean 1

-- | The value that this share (0 to 1) of the values does not exceed.
quantile :: Double -> Tally -> Double
quantile share t = from (fromIntegral (total t) * (1 - share)) (descending t)
  where
    from _ [] = 0
    from _ [(value, _)] = value
    from above ((value, n) : rest)
      | fromIntegral n > above = value
      | otherwise = from (above - fromIntegral n) rest

-- | Mean of that share of the values which is the greatest: conditional value
-- at risk.
worstMean :: Double -> Tally -> Double
worstMean share t = gather wanted 0 (descending t)
  where
    wanted = share * fromIntegral (total t)
    gather left sum' ((value, n) : rest)
      | fromIntegral n < left = gather (left - fromIntegral n) (sum' + value * fromIntegral n) rest
      | wanted > 0 = (sum' + value * left) / wanted
    gather left sum' _ = if wanted > left then sum' / (wanted - left) else 0 :: Double
