{-# LANGUAGE OverloadedStrings #-}

-- | Experiments with @boost_jobs@: ways to wait by what is varied, as times the ideal.
module BoostCell
  ( Cell (..),
    named,
    setting,
    timesIdeal,
    against,
    experiment,
  )
where

import Data.Aeson (object, (.=))
import Data.List (nub)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)

-- | One way in one situation: what is varied, and its value on the x axis.
data Cell = Cell
  { cellWay :: !String,
    cellAt :: !Double,
    cellArguments :: ![String]
  }

cellName :: Cell -> String
cellName c = named (cellWay c) (cellAt c)

named :: String -> Double -> String
named way x = way ++ " at " ++ showFFloat Nothing x ""

timesIdeal :: Sample -> Maybe Double
timesIdeal = number ["times_ideal"]

experiment :: String -> String -> [Cell] -> [Claim] -> Experiment
experiment name purpose cells claims =
  Experiment
    { experimentName = name,
      experimentPurpose = purpose,
      experimentRun = \reaper effort say -> do
        program <- helperPath "boost_jobs"
        daemon <- helperPath "maru-boost"
        let sides = [Side (cellName c) [cellArguments c] | c <- cells]
            measure side = runTool reaper program (daemon : concat (sideProcesses side))
        rounds <- runRounds effort say measure sides (const claims)
        pure (figuresOf cells rounds (map (judgeClaim rounds) claims))
    }

figuresOf :: [Cell] -> Rounds -> [Judged] -> Figures
figuresOf cells rounds judged =
  Figures
    { figuresLine = claimsLine judged,
      figuresTables =
        [ ("Wall time by the ideal, median of the rounds (least…most)", Table ((L, "way") : [(R, showFFloat Nothing x "") | x <- xs]) (map row ways)),
          ("Claims", claimsTable judged)
        ],
      figuresPlots = [Plot "Wall time by the ideal" (Axis "as in the table" Linear) (Axis "times the ideal" Logarithmic) (map line ways)],
      figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
    }
  where
    ways = nub (map cellWay cells)
    xs = nub (map cellAt cells)
    found way x = summaryOf timesIdeal rounds (named way x)
    row way = way : [spreadOf timesIdeal rounds (named way x) | x <- xs]
    line way = Series way [Point x (summaryMedian s) (summaryLeast s) (summaryMost s) | x <- xs, Just s <- [found way x]]

setting :: String -> Double -> String
setting name value = name ++ "=" ++ show (round value :: Int)

-- Ratios are of one round, so that both saw the same machine.
against :: Bar -> String -> String -> Double -> Claim
against bar left right x = ratio (left ++ " / " ++ right ++ " at " ++ showFFloat Nothing x "") bar timesIdeal (named left x) (named right x)
