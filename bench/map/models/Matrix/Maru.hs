-- | The product of two matrices, a row an item; prints the sum of its diagonal.
module Matrix.Maru (main) where

import Data.List (transpose)
import Maru

main :: IO ()
main = print ((sum . zipWith (flip (!!)) [0 ..]) (parMapWith defaultOptions {backend = Shm} row matrix))

matrix :: [[Int]]
matrix = [[(i * j) `mod` 7 | j <- [1 .. 40]] | i <- [1 .. 40]]

row :: [Int] -> [Int]
row xs = [sum (zipWith (*) xs ys) | ys <- transpose matrix]
