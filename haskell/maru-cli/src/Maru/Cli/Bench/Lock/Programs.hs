{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/programs@: programs as a distribution ships them, with glibc's mutexes and
-- under @maru run --lock@, in turn. What each does and how its answers are checked is in
-- @bench\/lock\/programs.py@.
module Maru.Cli.Bench.Lock.Programs
  ( programsExperiment,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Either (partitionEithers)
import Data.Maybe (fromMaybe, isJust)
import Data.Text (Text)
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)
import System.Environment (getExecutablePath)

programsExperiment :: Experiment
programsExperiment =
  Experiment
    { experimentName = "lock/programs",
      experimentPurpose = "RocksDB, memcached, SQLite, MariaDB, Redis, Python and a GHC program, unmodified: under the overlay against glibc's mutexes, answers checked",
      experimentRun = run
    }

-- | What is laid over the mutexes; 'Nothing': nothing.
sides :: [(String, Maybe String)]
sides = ("glibc", Nothing) : [(lock, Just lock) | lock <- locks]

locks :: [String]
locks = ["cna:deadline=25us", "fifo"]

-- | One program's rounds and what they say.
data Measured = Measured
  { measuredName :: !String,
    measuredRounds :: !Rounds,
    measuredClaims :: ![Judged]
  }

run :: Effort -> (String -> IO ()) -> IO Figures
run effort say = do
  helper <- helperPath "maru-bench-unmodified"
  maru <- getExecutablePath
  listed <- runTool helper ["list"]
  let (absent, names) = partitionEithers (map present (filter isMeasured (fromMaybe [] (at ["programs"] listed))))
  measured <- mapM (measure effort say helper maru) names
  let judged = concatMap measuredClaims measured
  pure
    Figures
      { figuresLine = claimsLine judged ++ concat ["; not measured: " ++ name ++ " (install " ++ packages ++ ")" | (name, packages) <- absent],
        figuresTables =
          [ ("Over glibc's mutexes, round by round", claimsTable judged),
            ("Operations a second, medians", rates measured)
          ],
        figuresPlots = [],
        figuresData =
          object
            [ "programs" .= [object ["name" .= measuredName m, "rounds" .= roundsJson (measuredRounds m)] | m <- measured],
              "not_measured" .= [object ["name" .= name, "install" .= packages] | (name, packages) <- absent],
              "claims" .= map claimJson judged
            ]
      }
  where
    -- Python's own tests sleep most of the time: make soak looks at their answers.
    isMeasured program = at ["name"] program /= Just ("python-tests" :: String)
    present program =
      let name = fromMaybe "" (at ["name"] program)
       in maybe (Right name) (\packages -> Left (name, packages)) (at ["missing"] (program :: Value) :: Maybe String)

measure :: Effort -> (String -> IO ()) -> FilePath -> FilePath -> String -> IO Measured
measure effort say helper maru name = do
  rounds <- runRoundsFrom 9 effort (say . ((name ++ ": ") ++)) one [Side side [arguments lock] | (side, lock) <- sides] (const (claims name))
  pure (Measured name rounds (map (judgeClaim rounds) (claims name)))
  where
    one side = runTool helper (concat (sideProcesses side))
    arguments lock =
      [name, "--maru", maru, "--seconds", if effort == Quick then "1" else "2"]
        ++ concat [["--lock", l] | Just l <- [lock]]

claims :: String -> [Claim]
claims name =
  [ratio (name ++ ", " ++ lock ++ ": throughput") (AtLeast 0.95) (number ["per_second"]) lock "glibc" | lock <- locks]
    ++ [failures name]

-- | Wrong answers count, and so do those under glibc: then it is not the overlay. Each round
-- is given the number of all, so that no median hides one.
failures :: String -> Claim
failures name = Claim (name ++ ": runs that failed") (map fst sides) counted (AtMost 0)
  where
    counted rounds = [fromIntegral (length (filter failed (concatMap (samplesOf rounds . fst) sides))) | _ <- samplesOf rounds "glibc"]
    failed sample = isJust (at ["failure"] sample :: Maybe String)

rates :: [Measured] -> Table
rates measured =
  Table
    ((L, "program") : [(R, side) | (side, _) <- sides] ++ [(R, "queued by " ++ lock) | lock <- locks])
    [ measuredName m : [median' m ["per_second"] side | (side, _) <- sides] ++ [median' m ["overlay", "queued"] lock | lock <- locks]
      | m <- measured
    ]
  where
    median' :: Measured -> [Text] -> String -> String
    median' m path side = maybe "-" ((\v -> showFFloat (Just 0) v "") . summaryMedian) (summaryOf (number path) (measuredRounds m) side)
