-- | The sum of Euler's totient of 1 to n, a chunk an item: much computing, a number
-- comes back.
module Maru.Bench.Program.Sumeuler (sumeuler) where

import Maru.Bench.Mapper (Mapper (..))

-- | Numbers, numbers a chunk.
sumeuler :: Int -> Int -> Mapper -> Int
sumeuler n chunk m = sum (mapDeep m total [1, 1 + chunk .. n])
  where
    total from = sum (map totient [from .. min n (from + chunk - 1)])

-- By counting, as slow as it is meant to be.
totient :: Int -> Int
totient k = length (filter (\i -> gcd k i == 1) [1 .. k])
