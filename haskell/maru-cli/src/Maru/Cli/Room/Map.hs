{-# LANGUAGE OverloadedStrings #-}

-- | The map room: parallel map on processes.
module Maru.Cli.Room.Map
  ( mapRoom,
    chunkingFromName,
  )
where

import Data.Aeson (object, (.=))
import Data.List (intercalate)
import Maru.Cli.Output
import Maru.Cli.Readers
import Maru.Cli.Room
import Maru.Cli.Room.Map.Gc (gcTuner)
import Maru.Cli.Room.Map.Page (mapPage)
import Maru.Cli.Room.Map.StmSim (stmSimulator)
import Maru.Control.Plot
import Maru.Control.Sim.Map
import Maru.Native.Probe
import qualified Maru.Native.Region as Region
import Options.Applicative
import Text.Read (readMaybe)

mapRoom :: Room
mapRoom =
  (room "map" "one heap and one garbage collector for all cores")
    { roomTop = Just (pure mapPage),
      roomChecks = [Check "memfd and seals" memfd, Check "pidfd" pidfd, Check "zero-copy results" zeroCopy],
      roomSimulators = [mapSimulator, stmSimulator],
      roomTuners = [gcTuner]
    }

-- ---- doctor -------------------------------------------------------------

memfd :: IO Finding
memfd = either bad (const (Finding Good "shared memory without a name, sealed against resizing" "")) <$> probeMemfd
  where
    bad why = Finding Bad why "workers answer through memfd; a sandbox or an old kernel (before 3.17) refuses it"

pidfd :: IO Finding
pidfd = either bad (const (Finding Good "a worker's death is seen at once" "")) <$> probePidfd
  where
    bad why = Finding Doubtful why "deaths are looked for instead; pidfd_open needs Linux 5.3, a sandbox may forbid it"

zeroCopy :: IO Finding
zeroCopy = either slower (const (Finding Good "results cross by address, and a pool's workers stay (in programs built like this command)" "")) <$> Region.zeroCopy
  where
    slower why = Finding Doubtful why "results cross as copies, and a pool forks for each call; everything works"

-- ---- sim ----------------------------------------------------------------

mapSimulator :: Simulator
mapSimulator =
  Simulator
    { simName = "map",
      simPurpose = "A parallel map: workers, chunks and what dispatching them costs",
      simParser = pure . simulation <$> options
    }

data Options = Options
  { optionModel :: !Model,
    optionWorkers :: ![Int],
    optionChunkings :: ![Chunking]
  }

options :: Parser Options
options =
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
    build n ws chunks dist item start claim dispatch collect seed =
      Options
        { optionModel =
            d
              { modelItems = n,
                modelCosts = dist,
                modelItem = item,
                modelStart = start,
                modelClaim = claim,
                modelDispatch = dispatch,
                modelCollect = collect,
                modelSeed = seed
              },
          optionWorkers = ws,
          optionChunkings = chunks
        }
    count name meta def = numbered name meta (wholeFrom 0 10000000 "a number") def (show def)
    micro name def = numbered (name ++ "-us") "MICROSECONDS" microseconds def (fixed 1 (def * 1e6))

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

simulation :: Options -> Either String Figures
simulation o = case [(w, c, simulate (at w c)) | c <- optionChunkings o, w <- optionWorkers o] of
  [] -> Left "sim map needs at least one worker number and one chunk policy"
  runs@(firstRun : _) ->
    Right
      Figures
        { figuresLine = verdict (foldl better firstRun runs),
          figuresTables = [("Workers and chunks", outcomes runs), ("What each part of the model costs (" ++ show most ++ " workers)", ablation)],
          figuresPlots = [Plot "Simulated map" (Axis "workers" Logarithmic) (Axis "speed-up" Linear) (map (series runs) (optionChunkings o))],
          figuresData = object ["model" .= show (optionModel o), "rows" .= map rowJson runs]
        }
  where
    at w c = (optionModel o) {modelWorkers = w, modelChunking = c}
    most = maximum (optionWorkers o)
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
