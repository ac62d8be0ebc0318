-- | Add 1 to each of 1..100, print the sum.
module Sum.Plain (main) where

main :: IO ()
main = print (sum (map (+ 1) [1 .. 100 :: Int]))
