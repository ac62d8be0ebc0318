{-# LANGUAGE OverloadedStrings #-}

-- | What the daemon takes of a core, beside a process that sleeps as often and does nothing.
module BoostDaemon
  ( daemonExperiment,
  )
where

import Data.Aeson (object, (.=))
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Control.Ratio

daemonExperiment :: Experiment
daemonExperiment =
  Experiment
    { experimentName = "boost/daemon",
      experimentPurpose = "maru boost at 1 ms beside 1024 channels, whose waits are long or keep beginning, and a process that only sleeps 1 ms: percent of a core",
      experimentRun = \reaper effort say -> do
        program <- helperPath "boost_cost"
        daemon <- helperPath "maru-boost"
        let measure side = runTool reaper program (daemon : concat (sideProcesses side))
        rounds <- runRounds effort say measure sides (const claims)
        pure (figures rounds (map (judgeClaim rounds) claims))
    }

sides :: [Side]
sides =
  [ Side (who ++ ", " ++ machine) [[channels, "1000", "4"] ++ waits ++ how]
    | (machine, how) <- [("busy CPUs", ["busy"]), ("idle CPUs", [])],
      (who, channels, waits) <- [(onlySleep, "0", []), (waited, "1024", []), (begun, "1024", ["young"])]
  ]
    ++ [Side nobody [["1024", "1000", "4", "idle"]]]

-- | Looked for messages at every period only where waits keep beginning.
onlySleep, waited, begun, nobody :: String
onlySleep = "only sleeps"
waited = "daemon, 1024 waiting"
begun = "daemon, 1024 waiting, one has just begun to"
nobody = "daemon, nobody waits"

ofACore :: Sample -> Maybe Double
ofACore = fmap (100 *) . number ["of_a_core"]

claims :: [Claim]
claims =
  [single (side ++ ", percent of a core") (AtMost 2) one side | side <- [waited ++ ", busy CPUs", waited ++ ", idle CPUs"]]
    ++ [single (nobody ++ ", percent of a core (0, rounded)") (AtMost 0.5) one nobody]
  where
    one = maybe [] pure . ofACore

figures :: Rounds -> [Judged] -> Figures
figures rounds judged =
  Figures
    { figuresLine = claimsLine judged,
      figuresTables =
        [ ("Percent of a core, median of the rounds (least…most)", Table [(L, "what"), (R, "percent")] [[sideName s, spreadOf ofACore rounds (sideName s)] | s <- sides]),
          ("Claims", claimsTable judged)
        ],
      figuresPlots = [],
      figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
    }
