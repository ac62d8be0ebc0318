-- | The Fibonacci numbers of 1..20.
module Fibs.Plain (main) where

main :: IO ()
main = print (map fib [1 .. 20])

fib :: Int -> Int
fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
