-- | The Fibonacci numbers of 1..20.
module Fibs.Async (main) where

import Control.Concurrent.Async (mapConcurrently)
import Control.DeepSeq (force)
import Control.Exception (evaluate)

main :: IO ()
main = mapConcurrently (evaluate . force . fib) [1 .. 20] >>= print

fib :: Int -> Int
fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
