-- | Add 1 to each of 1..100, print the sum.
module Sum.Eval (main) where

import Control.Parallel.Strategies (parMap, rdeepseq)

main :: IO ()
main = print (sum (parMap rdeepseq (+ 1) [1 .. 100 :: Int]))
