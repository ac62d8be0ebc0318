{-# LANGUAGE OverloadedStrings #-}

-- | Programs as a distribution ships them, started and asked by @maru-bench-unmodified@: what each
-- does and how its answers are checked is in @bench\/lock\/programs.py@.
module Maru.Cli.Bench.Lock.Unmodified
  ( Measured (..),
    measureThem,
    notMeasured,
    notMeasuredJson,
    roundsOfJson,
    median',
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Either (partitionEithers)
import Data.Maybe (fromMaybe, isJust)
import Data.Text (Text)
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Room
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)
import System.Environment (getExecutablePath)

-- | One program's rounds and what they say.
data Measured = Measured
  { measuredName :: !String,
    measuredRounds :: !Rounds,
    measuredClaims :: ![Judged]
  }

-- | @measureThem effort say wanted sides claims@: those that are wanted and there, each in rounds of all
-- sides (a name, and the flags under which the program runs); and the others, with what to install.
measureThem :: Effort -> (String -> IO ()) -> (String -> Bool) -> [(String, [String])] -> (String -> [Claim]) -> IO ([Measured], [(String, String)])
measureThem effort say wanted sides claims = do
  helper <- helperPath "maru-bench-unmodified"
  maru <- getExecutablePath
  listed <- runTool helper ["list"]
  let (absent, names) = partitionEithers (map present (filter (maybe False wanted . at ["name"]) (fromMaybe [] (at ["programs"] listed))))
      seconds = if effort == Quick then "1" else "2"
      side name (label, flags) = Side label [[name, "--maru", maru, "--seconds", seconds] ++ flags]
      judgedBy name = claims name ++ [failures name (map fst sides)]
      measure name = do
        rounds <- runRoundsFrom 9 effort (say . ((name ++ ": ") ++)) (runTool helper . concat . sideProcesses) (map (side name) sides) (const (judgedBy name))
        pure (Measured name rounds (map (judgeClaim rounds) (judgedBy name)))
  measured <- mapM measure names
  pure (measured, absent)
  where
    present program =
      let name = fromMaybe "" (at ["name"] program)
       in maybe (Right name) (\packages -> Left (name, packages)) (at ["missing"] (program :: Value) :: Maybe String)

-- | Wrong answers count, and so do those of a program by itself: then it is not us. Each round
-- is given the number of all, so that no median hides one.
failures :: String -> [String] -> Claim
failures name sides = Claim (name ++ ": runs that failed") sides counted (AtMost 0)
  where
    counted rounds = [fromIntegral (length (filter failed (concatMap (samplesOf rounds) sides))) | _ <- samplesOf rounds (concat (take 1 sides))]
    failed sample = isJust (at ["failure"] sample :: Maybe String)

-- | For the end of the line.
notMeasured :: [(String, String)] -> String
notMeasured absent = concat ["; not measured: " ++ name ++ " (install " ++ packages ++ ")" | (name, packages) <- absent]

notMeasuredJson :: [(String, String)] -> [Value]
notMeasuredJson absent = [object ["name" .= name, "install" .= packages] | (name, packages) <- absent]

roundsOfJson :: [Measured] -> [Value]
roundsOfJson measured = [object ["name" .= measuredName m, "rounds" .= roundsJson (measuredRounds m)] | m <- measured]

-- | Of a number in a side's samples, without decimals.
median' :: Measured -> [Text] -> String -> String
median' m path side = maybe "-" ((\v -> showFFloat (Just 0) v "") . summaryMedian) (summaryOf (number path) (measuredRounds m) side)
