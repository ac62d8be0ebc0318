-- | Add 1 to each of 1..100, print the sum.
module Sum.Maru (main) where

import Maru

main :: IO ()
main = print (sum (parMapWith defaultOptions {backend = Shm} (+ 1) [1 .. 100 :: Int]))
