{-# LANGUAGE OverloadedStrings #-}

-- | @maru sim boost@: jobs that wait for each other on nodes that they share.
module Maru.Cli.Room.Wait.Sim
  ( boostSimulator,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.List (intercalate, nub)
import Maru.Cli.Checks
import Maru.Cli.Output
import Maru.Cli.Readers
import Maru.Cli.Room (Simulation (..), Simulator (..))
import Maru.Control.Plot
import Maru.Control.Sim.Boost
import Maru.Control.Sim.Boost.Study
import Options.Applicative

boostSimulator :: Simulator
boostSimulator =
  Simulator
    { simName = "boost",
      simPurpose = "Jobs whose processes wait for each other on nodes that they share: every wait policy, the daemon, the published heuristic",
      simParser = (\o -> Simulation [] (isComparison (optionWhat o)) (pure (Right (act o)))) <$> options
    }

data Options = Options
  { optionModel :: !Model,
    optionNodes :: ![Int],
    optionSchemes :: ![(String, Scheme)],
    optionWhat :: !What
  }

data What = Comparison | Study | Corners

isComparison :: What -> Bool
isComparison what = case what of
  Comparison -> True
  _ -> False

options :: Parser Options
options =
  build
    <$> numbered "nodes" "N,..." (listOf (wholeFrom 1 4096 "a number of nodes")) [2] "2" "Nodes with a CPU each; several numbers: one run for each"
    <*> numbered "jobs" "J" (wholeFrom 1 64 "a number of jobs") (modelJobs d) "4" "Jobs, each with one process on every node"
    <*> numbered "policy" "NAME,..." (listOf scheme) schemes "all" ("How processes wait: " ++ intercalate ", " (map fst schemes) ++ "; NAME+auto: with the daemon beside it")
    <*> optional (option (eitherReader (numberFrom 100 1e6 "a period")) (long "period-us" <> metavar "US" <> help "Of pb and pb+lower, and the slots of gang (default 20000)"))
    <*> numbered "work-ms" "MS" (numberFrom 1 10000 "a time") (modelWork d / 1000) "60" "Computing of each process"
    <*> numbered "compute-us" "US" (numberFrom 1 1e6 "a time") (modelCompute d) "100" "Computing between two messages, +-10 %"
    <*> numbered "latency-us" "US" (numberFrom 0 1e6 "a time") (modelLatency d) "2" "Of a message"
    <*> optional (option (eitherReader (numberFrom 0.001 1000 "a ratio")) (long "ratio" <> metavar "R" <> help "Latency by computing, in place of --latency-us"))
    <*> numbered "pattern" "PATTERN" shape Ring "ring" "ring (both neighbours) or barrier (all)"
    <*> numbered "hogs" "N" (wholeFrom 0 16 "a number of hogs") 0 "0" "Threads on each node that only compute"
    <*> numbered "quantum" "fair|MS" quantum (modelScheduler d) "fair" "The kernel's own scheduler, or round robin with that quantum"
    <*> numbered "skew-us" "US" (numberFrom 0 1e6 "a time") (modelSkew d) "50" "By how much the nodes' clocks are off"
    <*> numbered "arrival-us" "US" (numberFrom 0 1000 "a time") 0 "0" "What a message costs the receiver's CPU"
    <*> switch (long "quiet" <> help "Nobody else takes CPU time of the nodes")
    <*> numbered "limit" "X" (numberFrom 1 1000 "a limit") (modelLimit d) "40" "A run ends after so many times the ideal"
    <*> numbered "seed" "N" (wholeFrom 0 maxBound "a number") (modelSeed d) "1" "Of the random numbers"
    <*> ( flag' Study (long "study" <> help "Beside measurements of two nodes and the published experiment, and up to 1024 nodes: what holds, what misses")
            <|> flag' Corners (long "cells" <> help "adaptive beside the best policy by latency, its share of computing, and jobs: the cells of maru bench boost/cells-* and those between them")
            <|> pure Comparison
        )
  where
    d = defaultModel
    build nodes jobs chosen every work compute latency ratio what hogs scheduler skew arrival quiet limit seed =
      Options
        d
          { modelJobs = jobs,
            modelWork = work * 1000,
            modelCompute = compute,
            modelLatency = maybe latency (* compute) ratio,
            modelPattern = what,
            modelHogs = hogs,
            modelScheduler = scheduler,
            modelSkew = skew,
            modelCosts = (if quiet then quietMachine else thisMachine) {costArrival = arrival},
            modelLimit = limit,
            modelSeed = seed
          }
        nodes
        [(name, maybe id withPeriod every s) | (name, s) <- chosen]

scheme :: String -> Either String (String, Scheme)
scheme name = maybe (Left ("unknown policy '" ++ name ++ "'; known: " ++ intercalate ", " (map fst schemes))) (Right . (,) name) (schemeNamed name)

shape :: String -> Either String Pattern
shape text = case text of
  "ring" -> Right Ring
  "barrier" -> Right Barrier
  _ -> Left ("ring or barrier is needed, not '" ++ text ++ "'")

quantum :: String -> Either String Scheduler
quantum "fair" = Right (Fair fair)
quantum text = RoundRobin . (* 1000) <$> numberFrom 1 10000 "fair or a quantum in ms" text

act :: Options -> Figures
act o = case optionWhat o of
  Comparison -> comparison o
  Study -> study
  Corners -> cornerFigures

-- ---- comparison --------------------------------------------------------

comparison :: Options -> Figures
comparison o =
  Figures
    { figuresLine = intercalate "; " [counted n ++ ": " ++ best n | n <- optionNodes o],
      figuresTables =
        [ ("Wall time by the ideal, and where the CPUs' time went", Table heads (map row rows)),
          ("The model without each of its parts, " ++ counted fewest, Table ((L, "model") : [(R, name) | (name, _) <- few]) (map part parts))
        ],
      figuresPlots = [Plot "Simulated jobs that wait" (Axis "nodes" Logarithmic) (Axis "times the ideal" Logarithmic) [Series name [at (fromIntegral n) (outcomeSlowdown x) | (n, name', x) <- rows, name' == name] | (name, _) <- optionSchemes o]],
      figuresData = object ["rows" .= map json rows]
    }
  where
    rows = [(n, name, simulate (optionModel o) {modelNodes = n, modelScheme = s}) | n <- optionNodes o, (name, s) <- optionSchemes o]
    at x y = Point x y y y
    counted n = plural n "node"
    -- A policy that ended at the limit is not known to be better than another.
    best n = case [(outcomeSlowdown x, name) | (n', name, x) <- rows, n' == n, outcomeDone x] of
      [] -> "none done at the limit"
      found -> let (time, name) = minimum found in "best " ++ name ++ ", " ++ fixed 2 time
    heads = [(R, "nodes"), (L, "policy"), (R, "times ideal"), (R, "computing"), (R, "awake in vain"), (R, "costs"), (R, "hogs"), (R, "idle")]
    row (n, name, x) = [show n, name, times x] ++ [percent 1 (f x / (fromIntegral n * outcomeWall x)) | f <- [outcomeComputed, outcomeBurnt, outcomeCosts, outcomeHogs, outcomeIdle]]
    json (n, name, x) =
      object
        [ "nodes" .= n,
          "policy" .= name,
          "times_ideal" .= outcomeSlowdown x,
          "done" .= outcomeDone x,
          "wall_us" .= outcomeWall x,
          "computed_us" .= outcomeComputed x,
          "awake_us" .= outcomeBurnt x,
          "costs_us" .= outcomeCosts x,
          "hogs_us" .= outcomeHogs x,
          "idle_us" .= outcomeIdle x
        ]
    -- On few nodes and with few policies: each part is a run of each.
    few = take 4 (optionSchemes o)
    fewest = minimum (2 : optionNodes o)
    parts = ablations (optionModel o) {modelNodes = fewest}
    part (name, m) = name : [times (simulate m {modelScheme = s}) | (_, s) <- few]

times :: Outcome -> String
times x = (if outcomeDone x then "" else ">= ") ++ fixed 2 (outcomeSlowdown x)

-- ---- study -------------------------------------------------------------

study :: Figures
study =
  Figures
    { figuresLine = checkLine checks,
      figuresTables =
        [ ("Two nodes beside measurements, times the ideal: model (measured)", Table ((L, "policy") : [(R, cellTitle c) | c <- situations]) (map cells names)),
          ("The published experiment, times the ideal", Table ((L, "policy") : [(R, "share " ++ show s) | s <- publishedShares]) [name : [capped (publishedModel s name) | s <- publishedShares] | name <- ["spin", "pb", "pb+lower", "block", "yield", "adaptive+auto"]]),
          ("Nodes, times the ideal (quiet nodes, ring)", Table ((L, "policy") : [(R, show n) | n <- nodeCounts]) [name : [times (simulate (scaleModel quietMachine Ring n name)) | n <- nodeCounts] | name <- ["spin", "block", "coop", "adaptive", "gang"]]),
          ("1024 nodes disturbed as this machine, times the ideal: what is no policy's doing", Table [(L, "pattern"), (R, "adaptive"), (R, "waiting for free"), (R, "floor: a job alone, all for free")] [disturbedShape d : map (fixed 2) [disturbedAdaptive d, disturbedFree d, disturbedFloor d] | d <- scaleDisturbed]),
          ("What the simulator is held to", checkTable checks)
        ],
      figuresPlots = [],
      figuresData = object ["checks" .= checksJson checks, "cells" .= map cellJson measured, "disturbed_1024" .= [object ["pattern" .= disturbedShape d, "adaptive" .= disturbedAdaptive d, "free" .= disturbedFree d, "floor" .= disturbedFloor d] | d <- scaleDisturbed]]
    }
  where
    checks = cellChecks ++ publishedChecks ++ scaleChecks
    names = nub (map cellScheme measured)
    situations = nub [(cellJobs c, cellCompute c, cellLatency c) | c <- measured]
    cellTitle (jobs, compute, latency) = show jobs ++ " x " ++ fixed 0 compute ++ (if latency > 0 then " + " ++ fixed 0 latency else "") ++ " us"
    cells name = name : [maybe "-" both (lookup column [((cellJobs c, cellCompute c, cellLatency c), c) | c <- measured, cellScheme c == name]) | column <- situations]
    -- The median may be of runs that ended at the limit.
    capped m = let x = slowdown m in (if x > modelLimit m - 1e-6 then ">= " else "") ++ fixed 2 x
    both c = fixed 2 (slowdown (cellModel c)) ++ " (" ++ fixed 2 (cellMeasured c) ++ ")"

cellJson :: Cell -> Value
cellJson c =
  object
    [ "policy" .= cellScheme c,
      "jobs" .= cellJobs c,
      "compute_us" .= cellCompute c,
      "latency_us" .= cellLatency c,
      "measured" .= cellMeasured c,
      "model" .= slowdown (cellModel c)
    ]

-- ---- cells -------------------------------------------------------------

cornerFigures :: Figures
cornerFigures =
  Figures
    { figuresLine =
        "simulated: adaptive is within " ++ fixed 2 bound ++ " of the best policy in " ++ show (length within) ++ " of " ++ show (length all') ++ " cells, "
          ++ show (length [() | (_, True) <- within])
          ++ " of the "
          ++ show (length [() | (_, True) <- all'])
          ++ " that maru bench measures; the most is "
          ++ fixed 2 (maximum (1 : map fst all')),
      figuresTables = [("adaptive / best policy of two nodes, times the ideal; all simulated", Table heads (map row rows))],
      figuresPlots = [],
      figuresData = object ["cells" .= map json rows]
    }
  where
    bound = 1.1
    rows = [(regretIn corner, benched) | (corner, benched) <- corners]
    ratio r = regretDefault r / regretLeast r
    all' = [(ratio r, benched) | (r, benched) <- rows]
    within = filter ((<= bound) . fst) all'
    heads = [(R, "latency, us"), (R, "share"), (R, "jobs"), (R, "adaptive"), (R, "best"), (L, "policy"), (R, "ratio"), (L, ""), (L, "measured by")]
    row (r, benched) =
      let c = regretCorner r
       in [fixed 0 (cornerLatency c), fixed 2 (cornerShare c), show (cornerJobs c), atLimit (regretDefault r), atLimit (regretLeast r), regretBest r, fixed 2 (ratio r), if ratio r <= bound then "" else "more than 1.10", if benched then "boost/cells-" ++ fixed 0 (cornerLatency c) else "-"]
    atLimit x = (if x >= 4 - 1e-6 then ">= " else "") ++ fixed 2 x
    json (r, benched) =
      object
        [ "latency_us" .= cornerLatency (regretCorner r),
          "share" .= cornerShare (regretCorner r),
          "jobs" .= cornerJobs (regretCorner r),
          "adaptive" .= regretDefault r,
          "best" .= regretLeast r,
          "policy" .= regretBest r,
          "ratio" .= ratio r,
          "simulated" .= True,
          "benched" .= benched
        ]
