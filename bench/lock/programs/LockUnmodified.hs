{-# LANGUAGE OverloadedStrings #-}

-- | Programs as a distribution ships them, started and asked by @maru-bench-unmodified@: what each
-- does and how its answers are checked is in @bench\/lock\/programs.py@.
module LockUnmodified
  ( Comparison (..),
    Program (..),
    experimentOf,
    median',
  )
where

import Data.Aeson (object, (.=))
import Data.List (find)
import Data.Maybe (fromMaybe, isJust)
import Data.Text (Text)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Installed (commandPath, helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)

-- | Its name in @programs.py@, and what people call what it does there.
data Program = Program
  { programName :: !String,
    programTitle :: !String
  }

-- | A program with itself under several flags of @maru run@.
data Comparison = Comparison
  { -- | Of the experiments: the program's name comes behind it.
    comparisonName :: !String,
    -- | Behind the program's title.
    comparisonPurpose :: !String,
    -- | Names and flags; none: without @maru run@.
    comparisonSides :: ![(String, [String])],
    comparisonClaims :: String -> [Claim],
    comparisonTable :: String -> Rounds -> (String, Table),
    comparisonPlots :: String -> Rounds -> [Plot]
  }

-- | An experiment a program: each is done within minutes, and can be had alone.
experimentOf :: Comparison -> Program -> Experiment
experimentOf comparison (Program name title) =
  Experiment
    { experimentName = comparisonName comparison ++ "/" ++ name,
      experimentPurpose = title ++ comparisonPurpose comparison,
      experimentRun = run comparison name
    }

run :: Comparison -> String -> Reaper -> Effort -> (String -> IO ()) -> IO Figures
run comparison name reaper effort say = do
  helper <- helperPath "maru-bench-unmodified"
  maru <- commandPath
  listed <- runTool reaper helper ["list"]
  case find ((== Just name) . at ["name"]) (fromMaybe [] (at ["programs"] listed)) of
    Nothing -> problem internal (helper ++ " does not know " ++ name)
    Just program -> maybe (measured helper maru) (pure . absent) (at ["missing"] program)
  where
    absent packages =
      Figures
        { figuresLine = "not measured: install " ++ packages,
          figuresTables = [],
          figuresPlots = [],
          figuresData = object ["not_measured" .= object ["name" .= name, "install" .= (packages :: String)]]
        }
    measured helper maru = do
      let duration = if effort == Quick then "1" else "2"
          sides = [Side label [[name, "--maru", maru, "--seconds", duration] ++ flags] | (label, flags) <- comparisonSides comparison]
          claims = comparisonClaims comparison name ++ [failures name (map sideName sides)]
      rounds <- runRoundsFrom 9 effort say (runTool reaper helper . concat . sideProcesses) sides (const claims)
      let judged = map (judgeClaim rounds) claims
      pure
        Figures
          { figuresLine = claimsLine judged,
            figuresTables = [("Round by round", claimsTable judged), comparisonTable comparison name rounds],
            figuresPlots = comparisonPlots comparison name rounds,
            figuresData = object ["name" .= name, "rounds" .= roundsJson rounds, "claims" .= map claimJson judged]
          }

-- | Wrong answers count, and so do those of a program by itself: then it is not us. Each round
-- is given the number of all, so that no median hides one.
failures :: String -> [String] -> Claim
failures name sides = Claim (name ++ ": runs that failed") sides counted (AtMost 0)
  where
    counted rounds = [fromIntegral (length (filter failed (concatMap (samplesOf rounds) sides))) | _ <- samplesOf rounds (concat (take 1 sides))]
    failed sample = isJust (at ["failure"] sample :: Maybe String)

-- | Of a number in a side's samples, without decimals.
median' :: Rounds -> [Text] -> String -> String
median' rounds path side = maybe "-" ((\v -> showFFloat (Just 0) v "") . summaryMedian) (summaryOf (number path) rounds side)
