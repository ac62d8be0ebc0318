-- | The Fibonacci numbers of 1..20.
module Fibs.Maru (main) where

import Maru

main :: IO ()
main = print (parMapWith defaultOptions {backend = Shm} fib [1 .. 20])

fib :: Int -> Int
fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
