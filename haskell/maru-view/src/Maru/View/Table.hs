-- | Tables, and figures in words, as they stand in text, on a screen and on a page.
module Maru.View.Table
  ( -- * Tables
    Table (..),
    Align (..),
    renderTable,
    Block (..),

    -- * Words
    seconds,
    plural,
    fixed,
    percent,
    shareOf,
  )
where

import Data.List (dropWhileEnd, transpose)
import Maru.View.Columns
import Numeric (showFFloat)

data Table = Table
  { tableHeads :: ![(Align, String)],
    tableRows :: ![[String]]
  }
  deriving (Eq, Show)

data Align = L | R
  deriving (Eq, Show)

-- | Lines without trailing blanks; columns two blanks apart.
renderTable :: Table -> [String]
renderTable (Table heads rows) = map line (map snd heads : rows)
  where
    line = dropWhileEnd (== ' ') . concat . zipWith3 cell (map fst heads) widths
    widths = map (maximum . (0 :) . map columnsIn) (transpose (map snd heads : rows))
    cell align width text = case align of
      L -> text ++ blanks ++ "  "
      R -> blanks ++ text ++ "  "
      where
        blanks = replicate (width - columnsIn text) ' '

-- | What a page of @maru top@ is made of.
data Block = Line !String | Tabular !Table
  deriving (Eq, Show)

-- | A duration with three digits and a unit.
seconds :: Double -> String
seconds s
  | s == 0 = "0 s"
  | s >= 100 = showFFloat (Just 0) s " s"
  | s >= 1 = showFFloat (Just 2) s " s"
  | s >= 1e-3 = showFFloat (Just (if s >= 0.1 then 0 else 2)) (s * 1e3) " ms"
  | s >= 1e-6 = showFFloat (Just (if s >= 1e-4 then 0 else 2)) (s * 1e6) " µs"
  | otherwise = showFFloat (Just 0) (s * 1e9) " ns"

-- | @1 rank@, @2 ranks@, @3 processes@, @4 mutexes@.
plural :: Int -> String -> String
plural 1 noun = "1 " ++ noun
plural n noun = show n ++ " " ++ noun ++ (if last' noun `elem` "sx" then "es" else "s")
  where
    last' = foldl (\_ c -> c) ' '

-- | With so many digits; what is no number is a dash.
fixed :: Int -> Double -> String
fixed digits v
  | isNaN v || isInfinite v = "-"
  | otherwise = showFFloat (Just digits) v ""

-- | Of a share.
percent :: Int -> Double -> String
percent digits v = fixed digits (v * 100) ++ " %"

-- | A part of a whole; of nothing it is 0 %.
shareOf :: Double -> Double -> String
shareOf part whole = percent 0 (if whole > 0 then part / whole else 0)
