-- Add 1 to each of 1..100 in parallel, print the sum.
import Maru

main :: IO ()
main = print (sum (parMapWith defaultOptions {backend = Shm} (+ 1) [1 .. 100 :: Int]))
