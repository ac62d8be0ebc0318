{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/profile@: what the profile of mutexes costs unmodified programs.
module Maru.Cli.Bench.Lock.Profile
  ( profileExperiment,
  )
where

import Data.Aeson (object, (.=))
import Maru.Cli.Bench.Lock.Unmodified
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Plot
import Maru.Control.Ratio

profileExperiment :: Experiment
profileExperiment =
  Experiment
    { experimentName = "lock/profile",
      experimentPurpose = "What the profile of mutexes costs: RocksDB's db_bench, memcached and the twin of MWRL, with it and without, in turn",
      experimentRun = run
    }

run :: Effort -> (String -> IO ()) -> IO Figures
run effort say = do
  (measured, absent) <- measureThem effort say (`elem` ["rocksdb", "memcached", "mwrl"]) sides claims
  let judged = concatMap measuredClaims measured
  pure
    Figures
      { figuresLine = claimsLine judged ++ notMeasured absent,
        figuresTables =
          [ ("With the profile over without, round by round", claimsTable judged),
            ("Operations a second, medians", Table ((L, "program") : [(R, side) | (side, _) <- sides]) [measuredName m : [median' m ["per_second"] side | (side, _) <- sides] | m <- measured])
          ],
        figuresPlots = [plot measured],
        figuresData = object ["programs" .= roundsOfJson measured, "not_measured" .= notMeasuredJson absent, "claims" .= map claimJson judged]
      }

plain, profiled :: String
plain = "without"
profiled = "profiled"

sides :: [(String, [String])]
sides = [(plain, ["--lock", "pass"]), (profiled, ["--lock", "pass", "--lock-profile"])]

claims :: String -> [Claim]
claims name = [ratio (name ++ ": throughput with the profile") (AtLeast 0.97) (number ["per_second"]) profiled plain]

-- | A point a round.
plot :: [Measured] -> Plot
plot measured =
  Plot
    "Throughput with the profile of mutexes over without, a point a round"
    (Axis "round" Linear)
    (Axis "ratio" Linear)
    [ Series (measuredName m) [Point i r r r | (i, a, b) <- zip3 [1 ..] (samplesOf rounds plain) (samplesOf rounds profiled), Just p <- [number ["per_second"] a], p > 0, Just q <- [number ["per_second"] b], let r = q / p]
      | m <- measured,
        let rounds = measuredRounds m
    ]
