-- | The solutions of the n queens' problem, counted; each of the first three columns is a
-- map within the map of the column before.
module Maru.Bench.Program.Queens (queens) where

import Maru.Bench.Mapper (Mapper (..))

-- | The board's side.
queens :: Int -> Mapper -> Int
queens n m = go (3 :: Int) []
  where
    go depth placed
      | length placed == n = 1
      | depth > 0 = sum (mapDeep m (go (depth - 1)) (further placed))
      | otherwise = sum (map (go 0) (further placed))
    further placed = [q : placed | q <- [1 .. n], safe q placed]

safe :: Int -> [Int] -> Bool
safe q placed = and [q /= p && abs (q - p) /= d | (d, p) <- zip [1 ..] placed]
