-- | The product of two matrices, a row an item; prints the sum of its diagonal.
module Matrix.Async (main) where

import Control.Concurrent.Async (mapConcurrently)
import Control.DeepSeq (force)
import Control.Exception (evaluate)
import Data.List (transpose)

main :: IO ()
main = mapConcurrently (evaluate . force . row) matrix >>= print . sum . zipWith (flip (!!)) [0 ..]

matrix :: [[Int]]
matrix = [[(i * j) `mod` 7 | j <- [1 .. 40]] | i <- [1 .. 40]]

row :: [Int] -> [Int]
row xs = [sum (zipWith (*) xs ys) | ys <- transpose matrix]
