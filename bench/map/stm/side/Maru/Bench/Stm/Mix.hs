-- | Keys that are near each other become numbers that are not.
module Maru.Bench.Stm.Mix (mixed) where

import Data.Bits (shiftR, xor)

-- | A bijection of 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
mixed :: Int -> Int
mixed key = fromIntegral (z3 `xor` (z3 `shiftR` 31))
  where
    z1 = fromIntegral key + 0x9e3779b97f4a7c15 :: Word
    z2 = (z1 `xor` (z1 `shiftR` 30)) * 0xbf58476d1ce4e5b9
    z3 = (z2 `xor` (z2 `shiftR` 27)) * 0x94d049bb133111eb
