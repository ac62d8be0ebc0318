{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/programs@: programs as a distribution ships them, with glibc's mutexes and
-- under @maru run --lock@, in turn.
module Maru.Cli.Bench.Lock.Programs
  ( programsExperiment,
  )
where

import Data.Aeson (object, (.=))
import Maru.Cli.Bench.Lock.Unmodified
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Ratio

programsExperiment :: Experiment
programsExperiment =
  Experiment
    { experimentName = "lock/programs",
      experimentPurpose = "RocksDB, memcached, SQLite, MariaDB, Redis, Python and a GHC program, unmodified: under the overlay against glibc's mutexes, answers checked",
      experimentRun = run
    }

locks :: [String]
locks = ["cna:deadline=25us", "fifo"]

run :: Effort -> (String -> IO ()) -> IO Figures
run effort say = do
  (measured, absent) <- measureThem effort say isMeasured sides claims
  let judged = concatMap measuredClaims measured
  pure
    Figures
      { figuresLine = claimsLine judged ++ notMeasured absent,
        figuresTables =
          [ ("Over glibc's mutexes, round by round", claimsTable judged),
            ("Operations a second, medians", rates measured)
          ],
        figuresPlots = [],
        figuresData = object ["programs" .= roundsOfJson measured, "not_measured" .= notMeasuredJson absent, "claims" .= map claimJson judged]
      }
  where
    -- Python's own tests sleep most of the time: make soak looks at their answers. The twin of MWRL
    -- has experiments of its own.
    isMeasured = (`notElem` ["python-tests", "mwrl"])
    sides = ("glibc", []) : [(lock, ["--lock", lock]) | lock <- locks]

claims :: String -> [Claim]
claims name = [ratio (name ++ ", " ++ lock ++ ": throughput") (AtLeast 0.95) (number ["per_second"]) lock "glibc" | lock <- locks]

rates :: [Measured] -> Table
rates measured =
  Table
    ((L, "program") : [(R, side) | side <- "glibc" : locks] ++ [(R, "queued by " ++ lock) | lock <- locks])
    [ measuredName m : [median' m ["per_second"] side | side <- "glibc" : locks] ++ [median' m ["overlay", "queued"] lock | lock <- locks]
      | m <- measured
    ]
