{-# LANGUAGE OverloadedStrings #-}

-- | What the wait room measures of whole jobs: pairs of processes on two nodes
-- that are two CPUs. The method is in @bench\/boost\/README.md@.
module BoostJobs
  ( jobsExperiments,
  )
where

import BoostCell
import BoostRegret
import Data.Maybe (maybeToList)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Control.Ratio

jobsExperiments :: [Experiment]
jobsExperiments =
  regretExperiments
    ++ [ experiment "boost/seed" "The published regime: 4 jobs, a quantum of 100 ms, messages of 1 ms, by their share of the time; times the ideal" seedCells seedClaims,
         experiment "boost/mixes" "The same of jobs that differ: of 4 so many with messages for 0.5 of their time, the others for 0.1; times the ideal" mixCells mixClaims,
         experiment "boost/silent" "Channels whose sender wakes nobody, beside sleeping with wake-ups, by computing between two messages; times the ideal" silentCells silentClaims,
         experiment "boost/hogs" "A CPU hog beside 3 jobs on each CPU, by computing between two messages; times the ideal (a fair share gives 1.33)" hogCells hogClaims,
         experiment "boost/dedicated" "One job, a CPU for each of its processes: what waiting costs where nobody contends; times the ideal" dedicatedCells dedicatedClaims,
         experiment "boost/killed" "The daemon and its rescuer are killed after 100 ms, beside a hog and 3 jobs on each CPU, by computing between two messages; times the ideal" killedCells killedClaims
       ]

-- Seed -------------------------------------------------------------------------

-- | The share is latency by computing; the latency stays 1 ms.
shares :: [Double]
shares = [0.1, 0.3, 0.5, 0.7]

published :: [String]
published = ["latency=1000", "quantum=rr", "limit=8"]

seedWays :: [(String, [String])]
seedWays =
  [ ("LOCAL", ["wait=spin"]),
    ("PB 20 ms", ["wait=spin", "daemon=pb", "period=20000"]),
    ("PB 20 ms + lowering", ["wait=spin-lower", "daemon=pb+lower", "period=20000"]),
    ("block", ["wait=block"]),
    ("yield", ["wait=yield"]),
    ("adaptive", ["wait=adaptive", "daemon=auto"])
  ]

seedCells :: [Cell]
seedCells = [Cell way share (published ++ [setting "compute" (1000 / share)] ++ how) | share <- shares, (way, how) <- seedWays]

seedClaims :: [Claim]
seedClaims =
  [against (AtMost 0.50) "PB 20 ms + lowering" "LOCAL" share | share <- shares]
    ++ [against (AtMost 0.91) "PB 20 ms + lowering" "PB 20 ms" share | share <- shares]

-- Mixes ------------------------------------------------------------------------

-- | How many of the jobs have messages for half of their time.
mixes :: [Double]
mixes = [1, 2, 3]

mixCells :: [Cell]
mixCells = [Cell way high (published ++ ["compute=10000", "other=2000", setting "others" high] ++ how) | high <- mixes, (way, how) <- seedWays]

-- | Published: boost with lowering is the best of the three.
mixClaims :: [Claim]
mixClaims = [against (AtMost 1) "PB 20 ms + lowering" rival high | rival <- ["LOCAL", "PB 20 ms"], high <- mixes]

-- Without wake-ups -------------------------------------------------------------

grains :: [Double]
grains = [1000, 300, 100, 30, 10]

silentCells :: [Cell]
silentCells =
  [ Cell way grain (["quantum=fair", "limit=8", "work=50", setting "compute" grain] ++ how)
    | grain <- grains,
      (way, how) <-
        [ ("block, with wake-ups", ["wait=block"]),
          ("spin-block, with wake-ups", ["wait=spin-block"]),
          ("adaptive, silent", ["wait=adaptive", "silent=1"]),
          ("yield, silent", ["wait=yield", "silent=1"]),
          ("sleep-poll, silent", ["wait=sleep-poll", "silent=1"])
        ]
  ]

silentClaims :: [Claim]
silentClaims = [against (AtMost (if grain <= 10 then 0.6 else 1.05)) "adaptive, silent" "block, with wake-ups" grain | grain <- grains]

-- Hogs -------------------------------------------------------------------------

hogCells :: [Cell]
hogCells =
  [ Cell way grain (["quantum=fair", "limit=8", "jobs=3", "hogs=1", "work=100", setting "compute" grain] ++ how)
    | grain <- [200],
      (way, how) <-
        [ ("spin", ["wait=spin"]),
          ("yield", ["wait=yield"]),
          ("block", ["wait=block"]),
          ("adaptive", ["wait=adaptive"]),
          ("adaptive, daemon", ["wait=adaptive", "daemon=auto"]),
          ("adaptive, silent, daemon", ["wait=adaptive", "silent=1", "daemon=auto"]),
          ("adaptive, daemon, gently", ["wait=adaptive", "daemon=auto", "boost=gently"]),
          ("adaptive, silent, daemon, gently", ["wait=adaptive", "silent=1", "daemon=auto", "boost=gently"]),
          ("lower-yield, silent, daemon", ["wait=lower-yield", "silent=1", "daemon=auto"])
        ]
  ]

hogClaims :: [Claim]
hogClaims =
  [ against (AtMost 0.5) "adaptive, silent, daemon" "yield" 200,
    against (AtMost 1.1) "adaptive, silent, daemon" "block" 200,
    against (AtMost 1.15) "adaptive" "block" 200,
    shareBeside "adaptive, silent, daemon"
  ]
    ++ concat [[against (AtMost 0.5) way "yield" 200, against (AtMost 1.1) way "block" 200, shareBeside way] | way <- ["adaptive, daemon, gently", "adaptive, silent, daemon, gently"]]
  where
    shareBeside way = single ("share of the hogs beside " ++ way) (AtLeast 0.2) (maybeToList . number ["hog_share"]) (named way 200)

-- Killed ------------------------------------------------------------------------

killedCells :: [Cell]
killedCells =
  [ Cell (way ++ fate) 200 (["quantum=fair", "limit=8", "jobs=3", "hogs=1", "work=200", "compute=200", "wait=adaptive", "daemon=auto"] ++ how ++ end)
    | (way, how) <- [("adaptive", []), ("adaptive, silent", ["silent=1"])],
      (fate, end) <- [("", []), (killed, ["kill=100"])]
  ]

killed :: String
killed = ", daemon killed"

killedClaims :: [Claim]
killedClaims = concatMap claims ["adaptive", "adaptive, silent"]
  where
    claims way =
      [ against (AtMost 1.3) (way ++ killed) way 200,
        single (way ++ ": ms until nobody is raised any more") (AtMost 100) back (named (way ++ killed) 200)
      ]
    back sample = [ms | Just ms <- [number ["back_ms"] sample], ms >= 0]

-- Dedicated --------------------------------------------------------------------

dedicatedCells :: [Cell]
dedicatedCells =
  [ Cell way grain ["quantum=fair", "limit=8", "jobs=1", "work=200", setting "compute" grain, "wait=" ++ way]
    | grain <- [200, 20],
      way <- ["spin", "yield", "block", "spin-block", "coop", "adaptive"]
  ]

dedicatedClaims :: [Claim]
dedicatedClaims = [against (AtMost 1.05) "adaptive" "spin" 200, against (AtMost 1.12) "adaptive" "spin" 20]
