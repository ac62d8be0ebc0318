{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/profile@: what the profile of mutexes costs unmodified programs.
module Maru.Cli.Bench.Lock.Profile
  ( profileExperiment,
  )
where

import Control.Monad (filterM)
import Data.Aeson (object, (.=))
import Data.List (intercalate)
import Data.Maybe (isJust)
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)
import System.Directory (findExecutable)
import System.Environment (getExecutablePath)

profileExperiment :: Experiment
profileExperiment =
  Experiment
    { experimentName = "lock/profile",
      experimentPurpose = "What the profile of mutexes costs: RocksDB's db_bench, memcached and the twin of MWRL, with it and without, in turn",
      experimentRun = run
    }

-- | A workload, and the programs that it needs.
workloads :: [(String, [String])]
workloads = [("db_bench", ["db_bench"]), ("memcached", ["memcached", "memcaslap"]), ("mwrl", [])]

run :: Effort -> (String -> IO ()) -> IO Figures
run effort say = do
  program <- helperPath "maru-bench-programs"
  maru <- getExecutablePath
  there <- filterM (fmap and . mapM (fmap isJust . findExecutable) . snd) workloads
  let names = map fst there
      absent = [name | (name, _) <- workloads, name `notElem` names]
      length' = if effort == Quick then "1" else "5"
      sideOf (name, suffix, flags) = Side (name ++ suffix) [[name, length', maru, "run"] ++ flags ++ ["--"]]
      sides = [sideOf (name, suffix, flags) | name <- names, (suffix, flags) <- [("", ["--lock", "pass"]), (", profiled", ["--lock", "pass", "--lock-profile"])]]
      claims = [ratio (name ++ ": throughput with the profile") (AtLeast 0.97) (number ["per_second"]) (name ++ ", profiled") name | name <- names]
  mapM_ (\name -> say (name ++ " is left out: install rocksdb-tools, memcached and libmemcached-tools")) absent
  rounds <- runRounds effort say (runTool program . concat . sideProcesses) sides (const claims)
  let judged = map (judgeClaim rounds) claims
  pure
    Figures
      { figuresLine = claimsLine judged ++ (if null absent then "" else "; not installed here: " ++ intercalate ", " absent),
        figuresTables =
          [ ("With the profile over without, round by round", claimsTable judged),
            ("Operations a second: medians", Table [(L, "program"), (R, "thousand/s")] [[sideName s, maybe "-" (\v -> showFFloat (Just 1) (summaryMedian v / 1e3) "") (summaryOf (number ["per_second"]) rounds (sideName s))] | s <- sides])
          ],
        figuresPlots = [plot rounds names],
        figuresData = object ["rounds" .= roundsJson rounds, "claims" .= map claimJson judged, "absent" .= absent]
      }

-- | A point a round.
plot :: Rounds -> [String] -> Plot
plot rounds names =
  Plot
    "Throughput with the profile of mutexes over without, a point a round"
    (Axis "round" Linear)
    (Axis "ratio" Linear)
    [ Series name [Point i r r r | (i, plain, profiled) <- zip3 [1 ..] (samplesOf rounds name) (samplesOf rounds (name ++ ", profiled")), Just p <- [number ["per_second"] plain], p > 0, Just q <- [number ["per_second"] profiled], let r = q / p]
      | name <- names
    ]
