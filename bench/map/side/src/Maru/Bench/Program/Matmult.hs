-- | The product of two matrices as lists of lists, ten rows an item: a large input that all
-- share, and large results.
module Maru.Bench.Program.Matmult (matrix, matmult) where

import Data.List (foldl', transpose)
import Maru.Bench.Mapper (Mapper (..))

matrix :: Int -> [[Int]]
matrix n = [[(i * 31 + j * 17) `mod` 101 | j <- [1 .. n]] | i <- [1 .. n]]

-- | Of the product the sum of all elements, each by its place.
matmult :: [[Int]] -> Mapper -> Int
matmult a m = foldl' (\h x -> (h * 3 + x) `mod` 1000000007) 0 (concat (concat (mapDeep m (map times) (tens a))))
  where
    times row = [foldl' (+) 0 (zipWith (*) row column) | column <- columns]
    columns = transpose a
    tens [] = []
    tens rows = let (now, later) = splitAt 10 rows in now : tens later
