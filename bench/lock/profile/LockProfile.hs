{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/profile\/...@: what the profile of mutexes costs unmodified programs.
module LockProfile
  ( profileExperiments,
  )
where

import LockUnmodified
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Output
import Maru.Control.Plot
import Maru.Control.Ratio

profileExperiments :: [Experiment]
profileExperiments =
  map
    (experimentOf comparison)
    [ Program "rocksdb" "RocksDB's db_bench",
      Program "memcached" "memcached",
      Program "mwrl" "The twin of MWRL on 4 threads"
    ]

comparison :: Comparison
comparison =
  Comparison
    { comparisonName = "lock/profile",
      comparisonPurpose = ": what the profile of mutexes costs, with it and without, in turn",
      comparisonSides = [(plain, ["--lock", "pass"]), (profiled, ["--lock", "pass", "--lock-profile"])],
      comparisonClaims = \name -> [ratio (name ++ ": throughput with the profile") (AtLeast 0.97) (number ["per_second"]) profiled plain],
      comparisonTable = \_ rounds -> ("Operations a second, medians", Table [(L, "side"), (R, "operations a second")] [[side, median' rounds ["per_second"] side] | side <- [plain, profiled]]),
      comparisonPlots = \name rounds -> [plot name rounds]
    }

plain, profiled :: String
plain = "without"
profiled = "profiled"

-- | A point a round.
plot :: String -> Rounds -> Plot
plot name rounds =
  Plot
    "Throughput with the profile of mutexes over without, a point a round"
    (Axis "round" Linear)
    (Axis "ratio" Linear)
    [Series name [Point i r r r | (i, a, b) <- zip3 [1 ..] (samplesOf rounds plain) (samplesOf rounds profiled), Just p <- [number ["per_second"] a], p > 0, Just q <- [number ["per_second"] b], let r = q / p]]
