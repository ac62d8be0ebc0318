{-# LANGUAGE OverloadedStrings #-}

-- | @maru sim map@: a map on cores, or on hosts, that you describe.
module Maru.Cli.Room.Map.Sim
  ( mapSimulator,
  )
where

import Data.Aeson (object, (.=))
import Data.List (intercalate)
import Maru.Cli.Checks
import Maru.Cli.Output
import Maru.Cli.Readers
import Maru.Cli.Room
import Maru.Cli.Room.Map.CollectorSim (collectorFigures)
import Maru.Control.Plot
import Maru.Control.Sim.Map
import Maru.Control.Sim.Map.Hosts
import Maru.Control.Sim.Map.Scale
import Options.Applicative
import Text.Read (readMaybe)

mapSimulator :: Simulator
mapSimulator =
  Simulator
    { simName = "map",
      simPurpose = "A parallel map: workers, chunks and what dispatching them costs",
      simParser = pictured . begin <$> options
    }

-- | What is simulated. Each has options of its own: one that another does not know is refused with it.
data Action
  = -- | One machine, by numbers of workers and policies.
    Workers !Model ![Int] ![Chunking]
  | -- | So many hosts, and items for each core.
    OnHosts !Hosts ![Int] !Int
  | -- | What a law that was fitted to few cores says of more.
    Study
  | -- | One heap and its collector.
    Collecting

options :: Parser Action
options =
  onWorkers
    <|> flag' Study (long "study" <> help "Laws fitted to few cores, held to more; the seed's points at 72 cores")
    <|> flag' Collecting (long "collector" <> help "Threads of one heap, its collector, and the seed's study of its flags")
    <|> onHosts

onWorkers :: Parser Action
onWorkers =
  build
    <$> count "items" "N" (modelItems d) "Items of the list"
    <*> option (eitherReader (listOf (wholeFrom 1 65535 "a number of workers"))) (long "workers" <> metavar "N,..." <> value [1, 2, 4, 8, 16, 32, 64] <> help "Workers (default 1,2,4,...,64)")
    <*> option (eitherReader (listOf chunkingFromName)) (long "chunks" <> metavar "POLICY,..." <> value [Static, Fixed 1, Guided] <> help "static, guided, fixed:N (default static,fixed:1,guided)")
    <*> numbered "costs" "DIST" (named "distribution" costsName allCosts) (modelCosts d) (costsName (modelCosts d)) ("How items differ: " ++ intercalate ", " (map costsName allCosts))
    <*> micro "item" (modelItem d) "Mean cost of an item"
    <*> micro "start" (modelStart d) "Cost of starting a worker"
    <*> micro "claim" (modelClaim d) "Cost of a claim, during which nobody else can claim"
    <*> micro "dispatch" (modelDispatch d) "A worker's own cost for a chunk"
    <*> micro "collect" (modelCollect d) "The caller's cost for a result"
    <*> count "seed" "N" (modelSeed d) "Of the items' costs"
  where
    d = defaultModel
    build n workers chunkings dist item start claim dispatch collect seed =
      Workers
        d
          { modelItems = n,
            modelCosts = dist,
            modelItem = item,
            modelStart = start,
            modelClaim = claim,
            modelDispatch = dispatch,
            modelCollect = collect,
            modelSeed = seed
          }
        workers
        chunkings
    count name meta def = numbered name meta (wholeFrom 0 10000000 "a number") def (show def)
    micro name def = numbered (name ++ "-us") "MICROSECONDS" microseconds def (fixed 1 (def * 1e6))

-- | @--hosts@ and what matters to it alone.
onHosts :: Parser Action
onHosts =
  build
    <$> option (eitherReader (listOf (wholeFrom 1 65536 "a number of hosts"))) (long "hosts" <> metavar "N,..." <> help "Many hosts and one coordinator, by who hands out; items are of one cost")
    <*> numbered "cores" "N" (wholeFrom 1 4096 "a number of cores") (hostsCores h) (show (hostsCores h)) "With --hosts: cores of each"
    <*> numbered "each" "N" (wholeFrom 1 100000 "a number of items") 10 "10" "With --hosts: items for each core"
    <*> numbered "item-ms" "MS" (numberFrom 0.001 1e6 "a time") (hostsItem h * 1e3) (fixed 0 (hostsItem h * 1e3)) "With --hosts: an item's cost on one core"
    <*> numbered "block-ms" "MS" (numberFrom 0.1 1e6 "a time") (hostsBlock h * 1e3) (fixed 0 (hostsBlock h * 1e3)) "With --hosts: what a block is worth of a host"
    <*> numbered "result-us" "US" (numberFrom 0 1e6 "a time") (hostsResult h * 1e6) (fixed 1 (hostsResult h * 1e6)) "With --hosts: what an item and its result cost the coordinator"
    <*> numbered "item-bytes" "N" (numberFrom 0 1e12 "a number of bytes") (hostsBytes h) (fixed 0 (hostsBytes h)) "With --hosts: of an item and its result"
    <*> numbered "environment-kib" "KIB" (numberFrom 0 1e9 "a size") (hostsEnvironment h / 1024) (fixed 0 (hostsEnvironment h / 1024)) "With --hosts: what the function needs besides items"
    <*> numbered "gbit" "G" (numberFrom 0.001 1e5 "a rate") (hostsRate h * 8 / 1e9) (fixed 0 (hostsRate h * 8 / 1e9)) "With --hosts: of the coordinator's link"
    <*> numbered "latency-us" "US" (numberFrom 0 1e7 "a time") (hostsLatency h * 1e6) (fixed 0 (hostsLatency h * 1e6)) "With --hosts: one way"
  where
    h = defaultHosts
    build counts cores each item block result bytes environment rate latency =
      OnHosts
        h
          { hostsCores = cores,
            hostsItem = item / 1e3,
            hostsBlock = block / 1e3,
            hostsResult = result / 1e6,
            hostsBytes = bytes,
            hostsEnvironment = environment * 1024,
            hostsRate = rate * 1e9 / 8,
            hostsLatency = latency / 1e6
          }
        counts
        each

microseconds :: String -> Either String Double
microseconds text = case readMaybe text of
  Just t | t >= 0 && t <= 1e12 -> Right (t / 1e6)
  _ -> Left ("a time in microseconds is needed, not '" ++ text ++ "'")

-- | Inverse of 'chunkingName'.
chunkingFromName :: String -> Either String Chunking
chunkingFromName text = case break (== ':') text of
  ("static", "") -> Right Static
  ("guided", "") -> Right Guided
  ("fixed", ':' : n) | Just size <- readMaybe n, size >= 1 -> Right (Fixed size)
  _ -> Left ("unknown chunk policy '" ++ text ++ "'; known: static, guided, fixed:N")

begin :: Action -> Either String Figures
begin what = case what of
  Workers model workers chunkings -> simulation model workers chunkings
  OnHosts h counts each -> Right (hosts h counts each)
  Study -> Right study
  Collecting -> Right collectorFigures

-- | What was fitted, beside what it was held to.
study :: Figures
study =
  Figures
    { figuresLine = checkLine scaleChecks,
      figuresTables =
        [ ("The law of each workload, from 1 to 8 cores", Table [(L, "workload"), (R, "alone"), (R, "disturbed by a core"), (R, "simulated on 16"), (R, "on 72")] (map fit measuredCurves)),
          ("What was measured or published, and what the law has", checkTable scaleChecks)
        ],
      figuresPlots = [Plot "Simulated: laws through the seed's points at 72 cores" (Axis "cores" Linear) (Axis "speed-up" Linear) [Series name [Point (fromIntegral n) s s s | n <- [1 .. 72 :: Int], let s = speedupOn law n] | (name, law) <- seedLaws]],
      figuresData = object ["checks" .= checksJson scaleChecks]
    }
  where
    fit c = [curveName c, seconds (lawWork law / 1e3), percent 1 (lawShared law), fixed 1 (speedupOn law 16), fixed 1 (speedupOn law 72)]
      where
        law = fitted (filter ((<= 8) . timingCores) (curveTimings c))

hosts :: Hosts -> [Int] -> Int -> Figures
hosts h counts each =
  Figures
    { figuresLine =
        "one master: " ++ fixed 0 (speedup' largest) ++ " times one core, by " ++ show (hostsCount largest * hostsCores h) ++ " cores; results alone allow "
          ++ fixed 0 (greatestSpeedup h),
      figuresTables =
        [ ("Hosts, simulated", Table [(L, "hands out"), (R, "hosts"), (R, "cores"), (R, "makespan"), (R, "speed-up"), (R, "efficiency"), (R, "coordinator busy"), (R, "blocks")] (map row runs)),
          ("What each part of the model costs (" ++ show most ++ " hosts, one master)", Table [(L, "model"), (R, "makespan"), (R, "speed-up")] [[name, seconds (spreadMakespan s), fixed 0 (hostsSpeedup m s)] | (name, m) <- hostsAblations largest, let s = spread m])
        ],
      figuresPlots = [Plot "Simulated map on hosts" (Axis "hosts" Logarithmic) (Axis "speed-up" Logarithmic) [Series (organisationName o) [Point (fromIntegral (hostsCount m)) v v v | (m, s) <- runs, hostsOrganisation m == o, let v = hostsSpeedup m s] | o <- allOrganisations]],
      figuresData = object ["model" .= show h, "rows" .= map json runs]
    }
  where
    runs = [(m, spread m) | o <- allOrganisations, n <- counts, let m = at o n]
    at o n = h {hostsCount = n, hostsItems = each * hostsCores h * n, hostsOrganisation = o}
    most = maximum counts
    largest = at Master most
    speedup' m = hostsSpeedup m (spread m)
    row (m, s) =
      [ organisationName (hostsOrganisation m),
        show (hostsCount m),
        show cores,
        seconds (spreadMakespan s),
        fixed 1 (hostsSpeedup m s),
        percent 0 (hostsSpeedup m s / fromIntegral cores),
        percent 0 (spreadBusy s),
        show (spreadBlocks s)
      ]
      where
        cores = hostsCount m * hostsCores m
    json (m, s) =
      object
        [ "hands_out" .= organisationName (hostsOrganisation m),
          "hosts" .= hostsCount m,
          "cores" .= (hostsCount m * hostsCores m),
          "simulated_makespan_s" .= spreadMakespan s,
          "simulated_speedup" .= hostsSpeedup m s,
          "simulated_coordinator_busy" .= spreadBusy s,
          "blocks" .= spreadBlocks s
        ]

simulation :: Model -> [Int] -> [Chunking] -> Either String Figures
simulation model workers chunkings = case [(w, c, simulate (at w c)) | c <- chunkings, w <- workers] of
  [] -> Left "sim map needs at least one worker number and one chunk policy"
  runs@(firstRun : _) ->
    Right
      Figures
        { figuresLine = verdict (foldl better firstRun runs),
          figuresTables = [("Workers and chunks", outcomes runs), ("What each part of the model costs (" ++ show most ++ " workers)", ablation)],
          figuresPlots = [Plot "Simulated map" (Axis "workers" Logarithmic) (Axis "speed-up" Linear) (map (series runs) chunkings)],
          figuresData = object ["model" .= show model, "rows" .= map rowJson runs]
        }
  where
    at w c = model {modelWorkers = w, modelChunking = c}
    most = maximum workers
    better a@(_, _, x) b@(_, _, y) = if speedup y > speedup x then b else a
    verdict (w, c, x) =
      "best: " ++ fixed 2 (speedup x) ++ " times one worker's work, with " ++ show w ++ " workers and " ++ chunkingName c ++ " chunks"
    outcomes runs =
      Table
        [(L, "chunks"), (R, "workers"), (R, "makespan"), (R, "speed-up"), (R, "efficiency"), (R, "claims"), (R, "tail")]
        [ [chunkingName c, show w, seconds (outcomeMakespan x), fixed 2 (speedup x), percent 0 (efficiency (at w c) x), show (outcomeChunks x), seconds (outcomeTail x)]
          | (w, c, x) <- runs
        ]
    ablation =
      Table
        [(L, "model"), (R, "makespan"), (R, "speed-up")]
        [[name, seconds (outcomeMakespan x), fixed 2 (speedup x)] | (name, m) <- ablations (at most Guided), let x = simulate m]
    series runs c = Series (chunkingName c) [Point (fromIntegral w) s s s | (w, c', x) <- runs, c' == c, let s = speedup x]
    rowJson (w, c, x) =
      object
        [ "chunks" .= chunkingName c,
          "workers" .= w,
          "makespan_s" .= outcomeMakespan x,
          "work_s" .= outcomeWork x,
          "speedup" .= speedup x,
          "claims" .= outcomeChunks x,
          "tail_s" .= outcomeTail x
        ]
