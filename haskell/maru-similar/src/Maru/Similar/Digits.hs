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
import Data.ByteString.Builder
import qualified Data.ByteString.Builder.Prim as P
import qualified Data.ByteString.Builder.Prim.Internal as P (fixedPrim, runF)
import Data.Word (Word8)
import Foreign.Ptr (plusPtr)
import Foreign.Storable (poke)

-- | With two digits.
hundredths :: Double -> Builder
hundredths x = (if n < 0 then char7 '-' else mempty) <> intDec (abs n `quot` 100) <> char7 '.' <> P.primFixed digits (fromIntegral (abs n `rem` 100))
  where
    n = round (x * 100) :: Int
    digits = (\k -> (48 + k `quot` 10, 48 + k `rem` 10)) P.>$< (P.word8 P.>*< P.word8)

-- | Of a number that is not negative; to a millionth below 10.
number :: Double -> Builder
number x
  | millionths x < 10000000 = share x
  | x < 10 = "10.000000"
  | otherwise = intDec (round x)

-- | A number in [0, 10) with six digits.
share :: Double -> Builder
share = P.primFixed (millionths P.>$< decimals)

-- | Such ones with commas between.
shares :: Double -> Double -> Double -> Builder
shares a b c = P.primFixed (P.fixedPrim 26 three) ()
  where
    three () at = do
      put a at
      poke (at `plusPtr` 8) comma
      put b (at `plusPtr` 9)
      poke (at `plusPtr` 17) comma
      put c (at `plusPtr` 18)
    put x = P.runF decimals (millionths x)
    comma = 44 :: Word8

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
