{-# LANGUAGE OverloadedStrings #-}

-- | What the wait room measures of programs that know nothing of it and wait at sockets. These are
-- pairs that ask again and again, over socket pairs and over TCP between network namespaces, and
-- jobs with a control group each. The method is in @bench\/boost\/README.md@.
module BoostPolls
  ( pollsExperiments,
  )
where

import Data.Aeson (object, (.=))
import Data.List (nub)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Installed (commandPath, helperPath)
import Maru.Cli.Output
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)

pollsExperiments :: [Experiment]
pollsExperiments =
  [ experiment "boost/polls" "Pairs of processes that ask their sockets again and again: as they are, and under --wait-poll; times the ideal" pollSituations,
    experiment "boost/tcp" "The same over TCP between two network namespaces; times the ideal" tcpSituations,
    experiment "boost/containers" "A control group for each of 4 pairs, beside all in one; times the ideal" groupSituations
  ]

-- | What is the same for all ways, and what is claimed of it.
data Situation = Situation
  { situationName :: !String,
    situationArguments :: ![String],
    -- | Least ratio of @poll@ as it is by @poll@ under maru, and most of the latter by @block@.
    situationBars :: ![Claim]
  }

-- | How the processes ask, and whether maru is there.
data Way = Way !String !Bool

wayName :: Way -> String
wayName (Way ask ours) = ask ++ (if ours then ", --wait-poll" else "")

ways :: [Way]
ways = [Way "poll" False, Way "poll" True, Way "yield" False, Way "yield" True, Way "block" False]

sideOf :: String -> Way -> String
sideOf name way = name ++ ": " ++ wayName way

faster, notSlower :: Double -> String -> Claim
faster bar s = against (AtLeast bar) s (Way "poll" False) (Way "poll" True)
notSlower bar s = against (AtMost bar) s (Way "poll" True) (Way "poll" False)

besideBlocking :: Double -> String -> Claim
besideBlocking bar s = against (AtMost bar) s (Way "poll" True) (Way "block" False)

against :: Bar -> String -> Way -> Way -> Claim
against bar s left right = ratio (s ++ ": " ++ wayName left ++ " / " ++ wayName right) bar timesIdeal (sideOf s left) (sideOf s right)

timesIdeal :: Sample -> Maybe Double
timesIdeal = number ["times_ideal"]

situation :: String -> [String] -> [String -> Claim] -> Situation
situation name arguments claims = Situation name arguments (map ($ name) claims)

pollSituations, tcpSituations, groupSituations :: [Situation]
pollSituations =
  [ situation "a CPU each" ["pairs=1", "compute=20", "rounds=4000"] [notSlower 1.05],
    situation "2 pairs" ["pairs=2", "rounds=300"] [faster 1.5],
    situation "4 pairs" ["pairs=4", "rounds=150"] [faster 2, besideBlocking 1.35],
    situation "2 pairs, a hog a CPU" ["pairs=2", "hogs=1", "rounds=100"] [faster 2, besideBlocking 1.25]
  ]
tcpSituations = [situation ("4 pairs, " ++ us ++ " µs") ["pairs=4", "link=tcp", "compute=" ++ us, "rounds=" ++ rounds] [faster bar, besideBlocking 1.35] | (us, rounds, bar) <- [("100", "250", 2), ("400", "100", 1.5), ("2000", "30", 1)]]
groupSituations =
  [ situation "one group" ["pairs=4", "rounds=150"] [faster 2],
    situation "a group a pair" ["pairs=4", "cgroups=1", "rounds=150"] [faster 2, besideBlocking 1.35],
    situation "a group a pair, a hog a CPU" ["pairs=3", "cgroups=1", "hogs=1", "rounds=100"] [faster 1.5, besideBlocking 1.35]
  ]

experiment :: String -> String -> [Situation] -> Experiment
experiment name purpose situations =
  Experiment
    { experimentName = name,
      experimentPurpose = purpose,
      experimentRun = \reaper effort say -> do
        program <- helperPath "poll_loop"
        maru <- commandPath
        let sides = [Side (sideOf (situationName s) way) [commandOf maru program way (situationArguments s)] | s <- situations, way <- ways]
            claims = concatMap situationBars situations
            measure side = case concat (sideProcesses side) of
              command : arguments -> runTool reaper command arguments
              [] -> problem internal "a side without a command"
        rounds <- runRounds effort say measure sides (const claims)
        pure (figuresOf situations rounds (map (judgeClaim rounds) claims))
    }

commandOf :: FilePath -> FilePath -> Way -> [String] -> [String]
commandOf maru program (Way ask ours) arguments =
  [word | ours, word <- [maru, "run", "--wait", "adaptive", "--wait-poll", "--"]] ++ [program, "ask=" ++ ask] ++ arguments

figuresOf :: [Situation] -> Rounds -> [Judged] -> Figures
figuresOf situations rounds judged =
  Figures
    { figuresLine = claimsLine judged,
      figuresTables =
        [ ("Wall time by the ideal, median of the rounds (least…most)", Table ((L, "way") : [(R, n) | n <- names]) [wayName way : [spreadOf timesIdeal rounds (sideOf n way) | n <- names] | way <- ways]),
          ("CPU seconds of the pairs", Table ((L, "way") : [(R, n) | n <- names]) [wayName way : [maybe "-" (two . summaryMedian) (summaryOf (number ["cpu_s"]) rounds (sideOf n way)) | n <- names] | way <- ways]),
          ("Claims", claimsTable judged)
        ],
      figuresPlots = [],
      figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
    }
  where
    names = nub (map situationName situations)
    two v = showFFloat (Just 2) (v :: Double) ""
