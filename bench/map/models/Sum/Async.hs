-- | Add 1 to each of 1..100, print the sum.
module Sum.Async (main) where

import Control.Concurrent.Async (mapConcurrently)
import Control.DeepSeq (force)
import Control.Exception (evaluate)

main :: IO ()
main = mapConcurrently (evaluate . force . (+ 1)) [1 .. 100 :: Int] >>= print . sum
