{-# LANGUAGE OverloadedStrings #-}

-- | Figures as digits: a table has half a million rows of eight such.
module Maru.Similar.Digits
  ( share,
    shares,
    number,
    hundredths,
    printedScore,
  )
where

import Data.Bits (unsafeShiftR)
import qualified Data.ByteString.Builder.Prim as P
import qualified Data.ByteString.Builder.Prim.Internal as P (fixedPrim, runF)
import Data.Word (Word8)
import Foreign.Ptr (plusPtr)
import Foreign.Storable (poke)

-- | With two digits.
hundredths :: P.BoundedPrim Double
hundredths = cents P.>$< P.condB (< 0) ((\n -> ('-', negate n)) P.>$< (P.liftFixedToBounded P.char7 P.>*< positive)) positive
  where
    cents x = round (x * 100) :: Int
    positive = (`quotRem` 100) P.>$< (P.intDec P.>*< P.liftFixedToBounded ((\k -> ('.', (fromIntegral (48 + k `quot` 10), fromIntegral (48 + k `rem` 10)))) P.>$< (P.char7 P.>*< P.word8 P.>*< P.word8)))
{-# INLINE hundredths #-}

-- | Of a number that is not negative; to a millionth below 10.
number :: P.BoundedPrim Double
number = P.condB ((< 10000000) . millionths) (P.liftFixedToBounded share) (P.condB (< 10) ten (round P.>$< P.intDec))
  where
    ten = const ('1', 0) P.>$< P.liftFixedToBounded (P.char7 P.>*< decimals)
{-# INLINE number #-}

-- | A number in [0, 10) with six digits.
share :: P.FixedPrim Double
share = millionths P.>$< decimals
{-# INLINE share #-}

-- | Such ones with commas between.
shares :: P.FixedPrim (Double, Double, Double)
shares = P.fixedPrim 26 three
  where
    three (a, b, c) at = do
      put a at
      poke (at `plusPtr` 8) comma
      put b (at `plusPtr` 9)
      poke (at `plusPtr` 17) comma
      put c (at `plusPtr` 18)
    put x = P.runF decimals (millionths x)
    comma = 44 :: Word8
{-# INLINE shares #-}

-- | As it is printed.
printedScore :: Double -> Double
printedScore x = fromIntegral (millionths x) / 1000000

millionths :: Double -> Int
millionths x = round (x * 1000000)

-- | A number below 10 000 000 as a digit, a point and six digits. A table has 500 000 rows of eight
-- such: a product and a shift for each division, exact for what is below 1 000 000.
decimals :: P.FixedPrim Int
decimals = P.fixedPrim 8 $ \n at -> do
  let whole = n `quot` 1000000
      thousands = (fraction * 4294968) `unsafeShiftR` 32
      fraction = n - 1000000 * whole
  digit whole at
  poke (at `plusPtr` 1) (46 :: Word8)
  threeDigits thousands (at `plusPtr` 2)
  threeDigits (fraction - 1000 * thousands) (at `plusPtr` 5)
  where
    threeDigits k at = do
      let hundreds = (k * 41) `unsafeShiftR` 12
          tens = (rest * 205) `unsafeShiftR` 11
          rest = k - 100 * hundreds
      digit hundreds at
      digit tens (at `plusPtr` 1)
      digit (rest - 10 * tens) (at `plusPtr` 2)
    digit k at = poke at (fromIntegral (48 + k) :: Word8)
