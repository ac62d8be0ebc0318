-- | Sets of CPUs as the kernel writes them: lists (@0-3,8@) and masks
-- (@ffffffff,00000001@).
module Maru.Control.CpuList
  ( parseCpuList,
    showCpuList,
    parseCpuMask,
    showCpuMask,
  )
where

import Data.Bits (setBit, shiftL, shiftR, testBit, (.&.), (.|.))
import Data.Char (digitToInt, isDigit, isHexDigit, isSpace)
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (dropWhileEnd, intercalate, unfoldr)
import Numeric (showHex)

-- | As many CPUs as any kernel has.
limit :: Int
limit = 8192

trim :: String -> String
trim = dropWhileEnd isSpace . dropWhile isSpace

-- | 'Nothing' if it is no list or names a CPU beyond 8191. The empty text is the
-- empty set.
parseCpuList :: String -> Maybe IntSet
parseCpuList text = case trim text of
  "" -> Just IntSet.empty
  list -> IntSet.unions <$> traverse range (splitOn ',' list)
  where
    range part = case span isDigit part of
      (first, "") -> number first >>= \n -> Just (IntSet.singleton n)
      (first, '-' : final) -> do
        a <- number first
        b <- number final
        if a <= b then Just (IntSet.fromDistinctAscList [a .. b]) else Nothing
      _ -> Nothing
    number digits
      | not (null digits), length digits <= 4, all isDigit digits, n < limit = Just n
      | otherwise = Nothing
      where
        n = foldl (\sum' digit -> sum' * 10 + digitToInt digit) 0 digits

showCpuList :: IntSet -> String
showCpuList set = intercalate "," (map range (foldr grow [] (IntSet.toAscList set)))
  where
    range (a, b) = if a == b then show a else show a ++ "-" ++ show b
    grow cpu ((a, b) : more) | cpu + 1 == a = (cpu, b) : more
    grow cpu more = (cpu, cpu) : more

-- | Words of 32 bits in hexadecimal, the highest first.
parseCpuMask :: String -> Maybe IntSet
parseCpuMask text = case splitOn ',' (trim text) of
  parts
    | length parts * 32 <= limit, all word parts -> Just (IntSet.fromDistinctAscList (bits (foldl join 0 parts)))
  _ -> Nothing
  where
    word part = not (null part) && length part <= 8 && all isHexDigit part
    join high part = high `shiftL` 32 .|. foldl (\sum' digit -> sum' * 16 + toInteger (digitToInt digit)) 0 part
    bits :: Integer -> [Int]
    bits mask = [cpu | (cpu, True) <- zip [0 ..] (unfoldr (\rest -> if rest == 0 then Nothing else Just (testBit rest 0, rest `shiftR` 1)) mask)]

showCpuMask :: IntSet -> String
showCpuMask set = case words32 (IntSet.foldl' setBit (0 :: Integer) set) of
  [] -> "0"
  first : more -> intercalate "," (showHex first "" : map padded more)
  where
    words32 = reverse . unfoldr (\rest -> if rest == 0 then Nothing else Just (rest .&. 0xffffffff, rest `shiftR` 32))
    padded n = let digits = showHex n "" in replicate (8 - length digits) '0' ++ digits

splitOn :: Char -> String -> [String]
splitOn separator text = case break (== separator) text of
  (part, _ : rest) -> part : splitOn separator rest
  (part, []) -> [part]
