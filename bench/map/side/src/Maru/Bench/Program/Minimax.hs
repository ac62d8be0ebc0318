-- | Noughts and crosses on a large board, both players at their best to some depth. Few items a map,
-- and the first two moves are maps within maps.
module Maru.Bench.Program.Minimax (minimax) where

import Data.List (foldl', transpose)
import Maru.Bench.Mapper (Mapper (..))

data Cell = Empty | Nought | Cross
  deriving (Eq)

-- | The board's side, moves looked ahead; what the game is worth, and how many positions were seen.
minimax :: Int -> Int -> Mapper -> Int
minimax side moves m = case play m 2 moves Cross (replicate side (replicate side Empty)) of
  (worth, seen) -> worth * 1000000007 + seen

play :: Mapper -> Int -> Int -> Cell -> [[Cell]] -> (Int, Int)
play m wide moves who board
  | moves == 0 || decided value || null next = (value, 1)
  | wide > 0 = best (mapDeep m reply next)
  | otherwise = best (map reply next)
  where
    value = worthOf board
    next = moved who board
    reply = play m (wide - 1) (moves - 1) (other who)
    best answers = (choose (map fst answers), foldl' (\n (_, k) -> n + k) 1 answers)
    choose = if who == Cross then maximum else minimum

other :: Cell -> Cell
other Cross = Nought
other _ = Cross

moved :: Cell -> [[Cell]] -> [[[Cell]]]
moved who board =
  [ take r board ++ [take c row ++ [who] ++ drop (c + 1) row] ++ drop (r + 1) board
    | (r, row) <- zip [0 ..] board,
      (c, Empty) <- zip [0 ..] row
  ]

decided :: Int -> Bool
decided value = abs value >= 1000

-- | A full line decides; else, how many lines are still open to each.
worthOf :: [[Cell]] -> Int
worthOf board = sum (map line (board ++ transpose board ++ [diagonal board, diagonal (map reverse board)]))
  where
    diagonal rows = [cell | (i, row) <- zip [0 ..] rows, cell <- take 1 (drop i row)]
    line cells
      | all (== Cross) cells = 1000
      | all (== Nought) cells = -1000
      | otherwise = (if Nought `elem` cells then 0 else 1) - (if Cross `elem` cells then 0 else 1)
