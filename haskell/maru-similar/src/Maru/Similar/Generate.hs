{-# LANGUAGE OverloadedStrings #-}

-- | Disguised copies of some programs, named and labelled. Pure.
module Maru.Similar.Generate
  ( Disguise (..),
    Copy (..),
    copies,
    labels,
    operatorsNamed,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as BC
import Data.List (intersperse)
import Data.Word (Word64)
import Maru.Similar.Mutate

-- | What is done to a copy.
data Disguise
  = -- | All that the strength does, from the first to the last, in turn.
    Strengths !Int !Int
  | -- | Just these, in their usual order.
    Operators ![Operator]

data Copy = Copy
  { copyName :: !FilePath,
    copySource :: !FilePath,
    copySeed :: !Word64,
    -- | The least strength that has all its operators.
    copyStrength :: !Int,
    copyOperators :: ![Operator],
    copyBytes :: ByteString
  }

-- | So many copies of programs, given with name and base name, in turn: of all at one strength, then
-- of all at the next. The seed decides all.
copies :: Disguise -> Int -> Int -> [(FilePath, FilePath, ByteString)] -> [Copy]
copies disguise seed count sources = zipWith copy [1 .. count] (cycle sources)
  where
    copy n (name, base, text) = Copy (base ++ "-s" ++ show strength ++ "-" ++ padded n ++ ".java") name own strength ops (mutate own ops text)
      where
        own = fromIntegral seed * 1000003 + fromIntegral n
        (strength, ops) = case disguise of
          Strengths from to -> let s = from + ((n - 1) `div` length sources) `mod` (to - from + 1) in (s, operatorsOf s)
          Operators some -> (minimum (6 : [s | s <- [1 .. 6], all (`elem` operatorsOf s) some]), some)

padded :: Int -> String
padded n = replicate (4 - length digits) '0' <> digits
  where
    digits = show n

-- | As CSV with a head.
labels :: [Copy] -> Builder.Builder
labels found = "file,source,seed,strength,operators\n" <> foldMap label found

label :: Copy -> Builder.Builder
label c =
  mconcat (intersperse "," [field (copyName c), field (copySource c), Builder.word64Dec (copySeed c), Builder.intDec (copyStrength c), operators]) <> "\n"
  where
    operators = mconcat (intersperse "+" (map (Builder.byteString . operatorName) (copyOperators c)))
    field text
      | any (`elem` (",\"\n\r" :: String)) text = "\"" <> foldMap doubled text <> "\""
      | otherwise = Builder.stringUtf8 text
    doubled c' = if c' == '"' then "\"\"" else Builder.charUtf8 c'

-- | As in the labels: names with a plus between them.
operatorsNamed :: String -> Either String [Operator]
operatorsNamed text = (\named -> [op | op <- allOperators, op `elem` named]) <$> mapM one (BC.split '+' (BC.pack text))
  where
    one name = case [op | op <- allOperators, operatorName op == name] of
      op : _ -> Right op
      [] -> Left ("'" ++ BC.unpack name ++ "' is none of " ++ BC.unpack (BC.intercalate ", " (map operatorName allOperators)))
