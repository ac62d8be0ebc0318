-- | Numbers and lists as the simulators' options take them, and how their tables
-- show numbers.
module Maru.Cli.Sim.Readers
  ( wholeFrom,
    numberFrom,
    listOf,
    numbered,
    fixed,
    percent,
  )
where

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
listOf one text = case break (== ',') text of
  (word, _ : more) -> (:) <$> one word <*> listOf one more
  (word, []) -> pure <$> one word

-- | An option with a default, which its help shows.
numbered :: String -> String -> (String -> Either String a) -> a -> String -> String -> Parser a
numbered name meta reader def shown what =
  option (eitherReader reader) (long name <> metavar meta <> value def <> help (what ++ " (default " ++ shown ++ ")"))

fixed :: Int -> Double -> String
fixed digits v
  | isNaN v || isInfinite v = "-"
  | otherwise = showFFloat (Just digits) v ""

-- | Of a share.
percent :: Int -> Double -> String
percent digits v = fixed digits (v * 100) ++ " %"
