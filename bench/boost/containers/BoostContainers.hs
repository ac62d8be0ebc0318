{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | What the wait room measures of jobs in control groups of their own, as containers
-- are: a priority counts only inside of a group. The method is in
-- @bench\/boost\/README.md@.
module BoostContainers
  ( containerExperiment,
  )
where

import Data.Aeson (object, (.=))
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Control.Ratio

containerExperiment :: Experiment
containerExperiment =
  Experiment
    { experimentName = "boost/groups",
      experimentPurpose = "A control group for each job, with and without a hog a CPU: policies on maru's channels; times the ideal",
      experimentRun = \reaper effort say -> do
        program <- helperPath "boost_jobs"
        daemon <- helperPath "maru-boost"
        let measure side = runTool reaper program (daemon : concat (sideProcesses side))
        rounds <- runRounds effort say measure sides (const claims)
        let judged = map (judgeClaim rounds) claims
        pure
          Figures
            { figuresLine = claimsLine judged,
              figuresTables =
                [ ("Wall time by the ideal, median of the rounds (least…most)", Table ((L, "policy") : map (R,) crowds) [way : [spreadOf timesIdeal rounds (named way crowd) | crowd <- crowds] | (way, _) <- ways]),
                  ("Claims", claimsTable judged)
                ],
              figuresPlots = [],
              figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
            }
    }

ways :: [(String, [String])]
ways =
  [(policy, ["wait=" ++ policy]) | policy <- ["spin", "yield", "block", "coop", "lower-yield", "adaptive"]]
    ++ [("adaptive, daemon", ["wait=adaptive", "daemon=auto"])]

crowds :: [String]
crowds = ["4 jobs", "3 jobs, a hog a CPU"]

named :: String -> String -> String
named way crowd = way ++ ", " ++ crowd

sides :: [Side]
sides = [Side (named way crowd) [["quantum=fair", "cgroups=1", "limit=8", "work=100", "compute=200"] ++ jobs ++ how] | (crowd, jobs) <- zip crowds [["jobs=4"], ["jobs=3", "hogs=1"]], (way, how) <- ways]

timesIdeal :: Sample -> Maybe Double
timesIdeal = number ["times_ideal"]

-- | The research note's bar for containers; beside hogs that of the room without privilege.
claims :: [Claim]
claims =
  [ against (AtMost 1.1) "adaptive" "block" "4 jobs",
    against (AtMost 0.45) "adaptive" "spin" "4 jobs",
    against (AtMost 1.15) "adaptive" "block" "3 jobs, a hog a CPU"
  ]
  where
    against bar left right crowd = ratio (left ++ " / " ++ right ++ ", " ++ crowd) bar timesIdeal (named left crowd) (named right crowd)
