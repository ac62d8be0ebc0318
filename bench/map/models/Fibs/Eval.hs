-- | The Fibonacci numbers of 1..20.
module Fibs.Eval (main) where

import Control.Parallel.Strategies (parMap, rdeepseq)

main :: IO ()
main = print (parMap rdeepseq fib [1 .. 20])

fib :: Int -> Int
fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
