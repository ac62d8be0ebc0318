-- | Counts the primes below a million, with a progress bar where standard error
-- is a terminal.
module Main (main) where

import Maru

main :: IO ()
main = print (sum (parMapWith options primesIn [0, 10000 .. 990000]))
  where
    options = defaultOptions {backend = Shm, onProgress = Just (progressBar "primes")}

primesIn :: Int -> Int
primesIn from = length (filter prime [from .. from + 9999])

prime :: Int -> Bool
prime n = n > 1 && all (\d -> n `mod` d /= 0) (takeWhile (\d -> d * d <= n) (2 : [3, 5 ..]))
