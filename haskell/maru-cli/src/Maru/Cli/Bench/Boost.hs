{-# LANGUAGE OverloadedStrings #-}

-- | What the wait room measures of whole jobs: pairs of processes on two nodes
-- that are two CPUs. The method is in @bench\/boost\/README.md@.
module Maru.Cli.Bench.Boost
  ( boostExperiments,
  )
where

import Data.Aeson (object, (.=))
import Data.List (nub)
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)

boostExperiments :: [Experiment]
boostExperiments =
  [ experiment "boost/seed" "The published regime: 4 jobs, a quantum of 100 ms, messages of 1 ms, by their share of the time; times the ideal" seedCells seedClaims,
    experiment "boost/cells" "This kernel's own scheduler: policies by jobs and computing between two messages; times the ideal" pairCells pairClaims,
    experiment "boost/silent" "Channels whose sender wakes nobody, beside sleeping with wake-ups, by computing between two messages; times the ideal" silentCells silentClaims,
    experiment "boost/hogs" "A CPU hog beside 3 jobs on each CPU, by computing between two messages; times the ideal (a fair share gives 1.33)" hogCells hogClaims,
    experiment "boost/dedicated" "One job, a CPU for each of its processes: what waiting costs where nobody contends; times the ideal" dedicatedCells dedicatedClaims
  ]

-- | One way in one situation: what is varied, and its value on the x axis.
data Cell = Cell
  { cellWay :: !String,
    cellAt :: !Double,
    cellArguments :: ![String]
  }

cellName :: Cell -> String
cellName c = named (cellWay c) (cellAt c)

named :: String -> Double -> String
named way x = way ++ " at " ++ showFFloat Nothing x ""

timesIdeal :: Sample -> Maybe Double
timesIdeal = number ["times_ideal"]

experiment :: String -> String -> [Cell] -> [Claim] -> Experiment
experiment name purpose cells claims =
  Experiment
    { experimentName = name,
      experimentPurpose = purpose,
      experimentRun = \effort say -> do
        program <- helperPath "boost_jobs"
        daemon <- helperPath "maru-boost"
        let sides = [Side (cellName c) [cellArguments c] | c <- cells]
            measure side = runTool program (daemon : concat (sideProcesses side))
        rounds <- runRounds effort say measure sides (const claims)
        pure (figuresOf cells rounds (map (judgeClaim rounds) claims))
    }

figuresOf :: [Cell] -> Rounds -> [Judged] -> Figures
figuresOf cells rounds judged =
  Figures
    { figuresLine = claimsLine judged,
      figuresTables =
        [ ("Wall time by the ideal, median of the rounds (least…most)", Table ((L, "way") : [(R, showFFloat Nothing x "") | x <- xs]) (map row ways)),
          ("Claims", claimsTable judged)
        ],
      figuresPlots = [Plot "Wall time by the ideal" (Axis "as in the table" Linear) (Axis "times the ideal" Logarithmic) (map line ways)],
      figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
    }
  where
    ways = nub (map cellWay cells)
    xs = nub (map cellAt cells)
    found way x = summaryOf timesIdeal rounds (named way x)
    row way = way : [maybe "-" shown (found way x) | x <- xs]
    shown s = two (summaryMedian s) ++ " (" ++ two (summaryLeast s) ++ "…" ++ two (summaryMost s) ++ ")"
    two v = showFFloat (Just 2) (v :: Double) ""
    line way = Series way [Point x (summaryMedian s) (summaryLeast s) (summaryMost s) | x <- xs, Just s <- [found way x]]

setting :: String -> Double -> String
setting name value = name ++ "=" ++ show (round value :: Int)

-- Ratios are of one round, so that both saw the same machine.
against :: Bar -> String -> String -> Double -> Claim
against bar left right x = ratio (left ++ " / " ++ right ++ " at " ++ showFFloat Nothing x "") bar timesIdeal (named left x) (named right x)

-- Seed -------------------------------------------------------------------------

-- | The share is latency by computing; the latency stays 1 ms.
shares :: [Double]
shares = [0.1, 0.3, 0.5, 0.7]

seedCells :: [Cell]
seedCells =
  [ Cell way share (["latency=1000", "quantum=rr", "limit=8", setting "compute" (1000 / share)] ++ how)
    | share <- shares,
      (way, how) <-
        [ ("LOCAL", ["wait=spin"]),
          ("PB 20 ms", ["wait=spin", "daemon=pb", "period=20000"]),
          ("PB 20 ms + lowering", ["wait=spin-lower", "daemon=pb+lower", "period=20000"]),
          ("block", ["wait=block"]),
          ("yield", ["wait=yield"]),
          ("adaptive", ["wait=adaptive", "daemon=auto"])
        ]
  ]

seedClaims :: [Claim]
seedClaims =
  [against (AtMost 0.50) "PB 20 ms + lowering" "LOCAL" share | share <- shares]
    ++ [against (AtMost 0.91) "PB 20 ms + lowering" "PB 20 ms" share | share <- shares]

-- This kernel ------------------------------------------------------------------

-- | Jobs, and computing between two messages in µs.
pairs :: [(Int, Int)]
pairs = [(j, c) | j <- [1, 4, 8], c <- [100, 1000]]

pairCells :: [Cell]
pairCells =
  [ Cell (way ++ ", " ++ show jobs ++ " jobs") (fromIntegral c) (["quantum=fair", "limit=8", setting "jobs" (fromIntegral jobs), setting "compute" (fromIntegral c), "work=100"] ++ how)
    | (jobs, c) <- pairs,
      (way, how) <- [(w, ["wait=" ++ w]) | w <- ["spin", "yield", "block", "spin-block", "lower-yield", "coop", "dcs", "adaptive"]]
  ]

pairClaims :: [Claim]
pairClaims =
  [against (AtMost 1.00) (way "adaptive" j) (way "block" j) (fromIntegral c) | (j, c) <- pairs]
    ++ [against (AtMost 0.45) (way "adaptive" j) (way "spin" j) (fromIntegral c) | (j, c) <- pairs, j >= 4]
  where
    way name j = name ++ ", " ++ show j ++ " jobs"

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
          ("lower-yield, silent, daemon", ["wait=lower-yield", "silent=1", "daemon=auto"])
        ]
  ]

hogClaims :: [Claim]
hogClaims =
  [ against (AtMost 0.5) "adaptive, silent, daemon" "yield" 200,
    against (AtMost 1.1) "adaptive, silent, daemon" "block" 200,
    against (AtMost 1.15) "adaptive" "block" 200,
    Claim "share of the hogs beside adaptive, silent, daemon" [named "adaptive, silent, daemon" 200] shares' (AtLeast 0.2)
  ]
  where
    shares' rounds = [s | sample <- samplesOf rounds (named "adaptive, silent, daemon" 200), Just s <- [number ["hog_share"] sample]]

-- Dedicated --------------------------------------------------------------------

dedicatedCells :: [Cell]
dedicatedCells =
  [ Cell way grain ["quantum=fair", "limit=8", "jobs=1", "work=200", setting "compute" grain, "wait=" ++ way]
    | grain <- [200, 20],
      way <- ["spin", "yield", "block", "spin-block", "coop", "adaptive"]
  ]

dedicatedClaims :: [Claim]
dedicatedClaims = [against (AtMost 1.05) "adaptive" "spin" 200, against (AtMost 1.12) "adaptive" "spin" 20]
