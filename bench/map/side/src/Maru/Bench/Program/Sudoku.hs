-- | Sudokus solved, one an item: items of very different cost, a line of digits comes back.
module Maru.Bench.Program.Sudoku (puzzles, sudoku) where

import Data.Bits (complement, popCount, shiftL, testBit, (.&.))
import Data.Char (digitToInt, intToDigit, ord)
import qualified Data.IntMap.Strict as IntMap
import Data.List (foldl', minimumBy)
import Data.Maybe (listToMaybe, mapMaybe)
import Data.Ord (comparing)
import Maru (itemSeeds)
import Maru.Bench.Mapper (Mapper (..))

-- | So many puzzles, 81 characters each, @.@ for what is to be found; not each has one solution only.
puzzles :: Int -> [String]
puzzles n = [zipWith (hide seed) [0 ..] (grid (fromIntegral (seed `mod` 9))) | seed <- take n (itemSeeds 17)]
  where
    grid turn = [intToDigit ((3 * (r `mod` 3) + r `div` 3 + c + turn) `mod` 9 + 1) | r <- [0 .. 8], c <- [0 .. 8]]
    hide seed i digit = if (seed `div` 7 + i * i * 2654435761 + (seed `div` 1000) * i) `mod` 100 < 30 then digit else '.'

-- | Of all solutions a checksum.
sudoku :: [String] -> Mapper -> Int
sudoku all' m = foldl' (\h s -> (h * 31 + check s) `mod` 1000000007) 7 (mapDeep m solved all')
  where
    check = foldl' (\h c -> (h * 131 + ord c) `mod` 1000000007) 1

-- Cells that are open, each with a set of the digits that it may have; digits that are placed.
type Open = IntMap.IntMap Int

solved :: String -> String
solved puzzle = case foldl' give (Just (IntMap.fromList [(i, 1022) | i <- [0 .. 80]], IntMap.empty)) known >>= search of
  Just found -> map intToDigit (IntMap.elems found)
  Nothing -> "none"
  where
    known = [(i, digitToInt c) | (i, c) <- zip [0 ..] puzzle, c /= '.']
    give state (i, d) = state >>= place i d

search :: (Open, Open) -> Maybe Open
search (open, placed)
  | IntMap.null open = Just placed
  | otherwise = listToMaybe (mapMaybe (\d -> place i d (open, placed) >>= search) [d | d <- [1 .. 9], testBit set d])
  where
    (i, set) = minimumBy (comparing (popCount . snd)) (IntMap.toList open)

-- | Nothing where a cell would be left without a digit.
place :: Int -> Int -> (Open, Open) -> Maybe (Open, Open)
place i d (open, placed)
  | maybe True (\set -> not (testBit set d)) (IntMap.lookup i open) = Nothing
  | 0 `elem` rest = Nothing
  | otherwise = Just (rest, IntMap.insert i d placed)
  where
    rest = IntMap.mapWithKey (\j set -> if sees j then set .&. complement (1 `shiftL` d) else set) (IntMap.delete i open)
    sees j = row i == row j || column i == column j || box i == box j
    row = (`div` 9)
    column = (`mod` 9)
    box k = 3 * (row k `div` 3) + column k `div` 3
