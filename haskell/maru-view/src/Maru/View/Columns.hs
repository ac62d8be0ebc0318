-- | Columns that text takes on a terminal. Most characters take one, those of East Asia and
-- pictures two, marks that stand on the character before them none. Pure; linear in the text.
module Maru.View.Columns
  ( columnsIn,
    tidy,
    clip,
    skip,
  )
where

import Data.Char (GeneralCategory (..), generalCategory, ord)
import qualified Data.IntMap.Strict as IntMap
import Maru.View.Plain (plain)

-- | Of text that 'plain' has been over.
columnsIn :: String -> Int
columnsIn = sum . map columnsOf

columnsOf :: Char -> Int
columnsOf c
  | c < '\x300' = 1
  | isMark c = 0
  | maybe False ((ord c <=) . snd) (IntMap.lookupLE (ord c) wide) = 2
  | otherwise = 1

-- | Vowels and finals of Hangul stand in the cell of their first consonant.
isMark :: Char -> Bool
isMark c = c >= '\x300' && (generalCategory c `elem` [NonSpacingMark, EnclosingMark] || (c >= '\x1160' && c <= '\x11ff'))

-- | As 'plain'. At most three marks stay on a character, so that they reach no other line. None
-- stays where there is no character before it.
tidy :: String -> String
tidy = go (0 :: Int) . plain
  where
    go room text = case text of
      [] -> []
      c : more
        | not (isMark c) -> c : go 3 more
        | room > 0 -> c : go (room - 1) more
        | otherwise -> go 0 more

-- | The first columns of tidy text; where some are cut off the last says so (@…@). Never wider than
-- asked.
clip :: Int -> String -> String
clip width text
  | width <= 0 = ""
  | columnsIn (take (4 * width + 4) text) <= width, null (drop (4 * width + 4) text) = text
  | otherwise = upTo (width - 1) text ++ "…"

-- | As many whole characters as fit.
upTo :: Int -> String -> String
upTo room text = case text of
  c : more | columnsOf c <= room -> c : upTo (room - columnsOf c) more
  _ -> ""

-- | Tidy text from a column on. Half a character is a blank.
skip :: Int -> String -> String
skip n text = case text of
  c : more
    | n > 0 -> if columnsOf c > n then ' ' : dropMarks more else skip (n - columnsOf c) more
  _ -> if n <= 0 then text else ""
  where
    dropMarks = dropWhile isMark

-- | First and last character of each range of two columns (Unicode 14, East Asian Width W and F;
-- what is not assigned between two of them goes with them).
wide :: IntMap.IntMap Int
wide =
  IntMap.fromList
    [ (0x1100, 0x115f),
      (0x231a, 0x231b),
      (0x2329, 0x232a),
      (0x23e9, 0x23ec),
      (0x23f0, 0x23f0),
      (0x23f3, 0x23f3),
      (0x25fd, 0x25fe),
      (0x2614, 0x2615),
      (0x2648, 0x2653),
      (0x267f, 0x267f),
      (0x2693, 0x2693),
      (0x26a1, 0x26a1),
      (0x26aa, 0x26ab),
      (0x26bd, 0x26be),
      (0x26c4, 0x26c5),
      (0x26ce, 0x26ce),
      (0x26d4, 0x26d4),
      (0x26ea, 0x26ea),
      (0x26f2, 0x26f3),
      (0x26f5, 0x26f5),
      (0x26fa, 0x26fa),
      (0x26fd, 0x26fd),
      (0x2705, 0x2705),
      (0x270a, 0x270b),
      (0x2728, 0x2728),
      (0x274c, 0x274c),
      (0x274e, 0x274e),
      (0x2753, 0x2755),
      (0x2757, 0x2757),
      (0x2795, 0x2797),
      (0x27b0, 0x27b0),
      (0x27bf, 0x27bf),
      (0x2b1b, 0x2b1c),
      (0x2b50, 0x2b50),
      (0x2b55, 0x2b55),
      (0x2e80, 0x303e),
      (0x3041, 0x3247),
      (0x3250, 0x4dbf),
      (0x4e00, 0xa4c6),
      (0xa960, 0xa97c),
      (0xac00, 0xd7a3),
      (0xf900, 0xfaff),
      (0xfe10, 0xfe19),
      (0xfe30, 0xfe6b),
      (0xff01, 0xff60),
      (0xffe0, 0xffe6),
      (0x16fe0, 0x18d08),
      (0x1aff0, 0x1b2fb),
      (0x1f004, 0x1f004),
      (0x1f0cf, 0x1f0cf),
      (0x1f18e, 0x1f18e),
      (0x1f191, 0x1f19a),
      (0x1f200, 0x1f320),
      (0x1f32d, 0x1f335),
      (0x1f337, 0x1f37c),
      (0x1f37e, 0x1f393),
      (0x1f3a0, 0x1f3ca),
      (0x1f3cf, 0x1f3d3),
      (0x1f3e0, 0x1f3f0),
      (0x1f3f4, 0x1f3f4),
      (0x1f3f8, 0x1f43e),
      (0x1f440, 0x1f440),
      (0x1f442, 0x1f4fc),
      (0x1f4ff, 0x1f53d),
      (0x1f54b, 0x1f54e),
      (0x1f550, 0x1f567),
      (0x1f57a, 0x1f57a),
      (0x1f595, 0x1f596),
      (0x1f5a4, 0x1f5a4),
      (0x1f5fb, 0x1f64f),
      (0x1f680, 0x1f6c5),
      (0x1f6cc, 0x1f6cc),
      (0x1f6d0, 0x1f6d2),
      (0x1f6d5, 0x1f6df),
      (0x1f6eb, 0x1f6ec),
      (0x1f6f4, 0x1f6fc),
      (0x1f7e0, 0x1f7f0),
      (0x1f90c, 0x1f93a),
      (0x1f93c, 0x1f945),
      (0x1f947, 0x1f9ff),
      (0x1fa70, 0x1faf8),
      (0x20000, 0x3fffd)
    ]
