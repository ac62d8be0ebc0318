-- | Numbers, names and lists as options take them.
module Maru.Cli.Readers
  ( wholeFrom,
    numberFrom,
    listOf,
    numbered,
    splitOn,
    named,
    processNumber,
    duration,
  )
where

import Data.Int (Int32)
import Data.List (find, intercalate)
import Numeric (showFFloat)
import Options.Applicative
import Text.Read (readMaybe)

-- | A whole number in a range, of such a thing.
wholeFrom :: Int -> Int -> String -> String -> Either String Int
wholeFrom least greatest what text = case readMaybe text of
  Just n | n >= toInteger least, n <= toInteger greatest -> Right (fromInteger n)
  _ -> Left (what ++ " from " ++ show least ++ " to " ++ show greatest ++ " is needed, not '" ++ text ++ "'")

-- | A number in a range.
numberFrom :: Double -> Double -> String -> String -> Either String Double
numberFrom least greatest what text = case readMaybe text of
  Just n | n >= least, n <= greatest -> Right n
  _ -> Left (what ++ " from " ++ plain least ++ " to " ++ plain greatest ++ " is needed, not '" ++ text ++ "'")

plain :: Double -> String
plain n = if n == fromIntegral whole then show whole else showFFloat Nothing n ""
  where
    whole = round n :: Integer

-- | Words separated by commas.
listOf :: (String -> Either String a) -> String -> Either String [a]
listOf one = traverse one . splitOn ','

-- | At least one part.
splitOn :: Char -> String -> [String]
splitOn mark text = case break (== mark) text of
  (word, _ : more) -> word : splitOn mark more
  (word, []) -> [word]

-- | One of such things, by its name.
named :: String -> (a -> String) -> [a] -> String -> Either String a
named what nameOf known text =
  maybe (Left ("unknown " ++ what ++ " '" ++ text ++ "'; known: " ++ intercalate ", " (map nameOf known))) Right (find ((== text) . nameOf) known)

-- | Of a process from so many upwards. The kernel's are of 32 bits.
processNumber :: Int -> String -> Either String Int
processNumber least text = case readMaybe text of
  Just n | n >= toInteger least, n <= toInteger (maxBound :: Int32) -> Right (fromInteger n)
  Just 1 -> Left "process 1 is the machine's or the container's first, with everything below it; a program's own number is needed"
  _ -> Left ("a process number is needed, not '" ++ text ++ "'")

-- | A number above 0 and a unit, of those with what each stands for.
duration :: [(String, Double)] -> String -> Maybe Double
duration units text = case span (`elem` "0123456789.") text of
  (digits, unit) | Just number <- readMaybe digits, Just factor <- lookup unit units, number * factor > 0 -> Just (number * factor)
  _ -> Nothing

-- | An option with a default, which its help shows.
numbered :: String -> String -> (String -> Either String a) -> a -> String -> String -> Parser a
numbered name meta reader def shown what =
  option (eitherReader reader) (long name <> metavar meta <> value def <> help (what ++ " (default " ++ shown ++ ")"))
