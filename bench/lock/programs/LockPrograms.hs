{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/programs\/...@: programs as a distribution ships them, with glibc's mutexes and
-- under @maru run --lock@, in turn.
module LockPrograms
  ( programsExperiments,
  )
where

import LockUnmodified
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Output
import Maru.Control.Ratio

-- | Python's own tests are not among them: they sleep most of the time. make soak looks at their
-- answers.
programsExperiments :: [Experiment]
programsExperiments =
  map
    (experimentOf comparison)
    [ Program "rocksdb" "RocksDB's db_bench",
      Program "memcached" "memcached",
      Program "sqlite" "SQLite under a driver of ours",
      Program "mariadb" "MariaDB under sysbench",
      Program "redis" "Redis",
      Program "python" "Python's threads",
      Program "ghc" "A program of GHC's threaded runtime"
    ]

comparison :: Comparison
comparison =
  Comparison
    { comparisonName = "lock/programs",
      comparisonPurpose = ", unmodified: under the overlay against glibc's mutexes, answers checked",
      comparisonSides = ("glibc", []) : [(lock, ["--lock", lock]) | lock <- locks],
      comparisonClaims = \name -> [ratio (name ++ ", " ++ lock ++ ": throughput") (AtLeast 0.95) (number ["per_second"]) lock "glibc" | lock <- locks],
      comparisonTable = \_ rounds -> ("Operations a second, medians", rates rounds),
      comparisonPlots = \_ _ -> []
    }

locks :: [String]
locks = ["cna:deadline=25us", "fifo"]

rates :: Rounds -> Table
rates rounds =
  Table
    [(L, "lock"), (R, "operations a second"), (R, "queued")]
    [[side, median' rounds ["per_second"] side, median' rounds ["overlay", "queued"] side] | side <- "glibc" : locks]
