module Main where

import qualified Data.Map as M

{- HLINT ignore -}

data Shape = Circle Double | Square {side :: Double} deriving (Show)

class Area a where
  area :: a -> Double

instance Area Shape where
  area (Circle r) = pi * r * r

total :: [Int] -> Int
total xs = go 0 xs
  where
    go acc [] = acc
    go acc (y : ys)
      | y > 0 && True = go (acc + y) ys
      | otherwise =
        if y == 3
          then 1
          else case y of
            1 -> 2
            _ -> M.size M.empty

limit = 3

main :: IO ()
main = do
  x <- getLine
  let z = [a * 2 | a <- [1 .. 3], a /= 2]
  mapM_ (\w -> print w) z
  putStrLn $ x ++ "!"
