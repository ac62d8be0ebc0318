-- | What a seed says, number by number (SplitMix64).
module Draw
  ( Draws,
    drawing,
    below,
    between,
    oneOf,
    chance,
  )
where

import Data.Bits (shiftR, xor)
import Data.IORef
import Data.Word (Word64)

-- | May be shared by threads; then each gets some of the numbers.
newtype Draws = Draws (IORef Word64)

drawing :: Word64 -> IO Draws
drawing seed = Draws <$> newIORef (seed * 0x2545f4914f6cdd1d)

draw :: Draws -> IO Word64
draw (Draws state) = mixed <$> atomicModifyIORef' state (\s -> (s + step, s + step))
  where
    step = 0x9e3779b97f4a7c15
    mixed z0 =
      let z1 = (z0 `xor` (z0 `shiftR` 30)) * 0xbf58476d1ce4e5b9
          z2 = (z1 `xor` (z1 `shiftR` 27)) * 0x94d049bb133111eb
       in z2 `xor` (z2 `shiftR` 31)

-- | From 0 to one less; of 1 or more.
below :: Draws -> Int -> IO Int
below ds n = (\x -> fromIntegral (x `mod` fromIntegral (max 1 n))) <$> draw ds

-- | Both included.
between :: Draws -> Int -> Int -> IO Int
between ds low high = (low +) <$> below ds (high - low + 1)

-- | The first, or one of the others.
oneOf :: Draws -> a -> [a] -> IO a
oneOf ds x xs = foldr (\y rest k -> if k == 0 then y else rest (k - 1)) (const x) (x : xs) <$> below ds (1 + length xs)

-- | True in so many of a hundred.
chance :: Draws -> Int -> IO Bool
chance ds percent = (< percent) <$> below ds 100
