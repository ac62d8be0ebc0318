{-# LANGUAGE OverloadedStrings #-}

-- | @map\/backends@: each workload by every back end, beside the packages
-- parallel and async with the flags that suit them best, and beside the machine's own ceiling. That
-- is two copies of half the work in two processes at once.
module MapBackends
  ( backendsExperiment,
  )
where

import Data.Aeson (object, (.=))
import Data.List (sortOn)
import Data.Maybe (mapMaybe)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)

backendsExperiment :: Experiment
backendsExperiment =
  Experiment
    { experimentName = "map/backends",
      experimentPurpose = "Four workloads by every back end, parallel, async, and the machine's ceiling, two workers",
      experimentRun = run
    }

data Load = Load
  { loadName :: !String,
    loadSize :: !Int,
    -- | Is it one that the bars of processes are about?
    loadBarred :: !Bool
  }

loads :: Effort -> [Load]
loads Quick = [Load "fib" 31 False, Load "build" 12 True, Load "similar" 60 True, Load "ints" 32 False]
loads Full = [Load "fib" 36 False, Load "build" 96 True, Load "similar" 160 True, Load "ints" 256 False]

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  results <- zip (loads effort) <$> runRoundsOfEach effort say (runSide reaper program) [(loadName l, sidesOf effort l, claims l) | l <- loads effort]
  let judged = [(l, map (judgeClaim rounds) (claims l rounds)) | (l, rounds) <- results]
      everything = concatMap snd judged
  pure
    Figures
      { figuresLine = claimsLine everything,
        figuresTables =
          [(loadName l ++ ", size " ++ show (loadSize l), waysTable effort l rounds) | (l, rounds) <- results]
            ++ [("Claims", claimsTable everything)],
        figuresPlots =
          [ Plot
              "Speed-up, default flags"
              (Axis "workload" (Named (map (loadName . fst) results)))
              (Axis "times map" Linear)
              [ Series name [Point x s s s | (x, (_, rounds)) <- zip [1 ..] results, Just s <- [speedup rounds name]]
                | name <- ["ceiling", "shm", "sockets", "sparks -N2", "parallel -N2", "async -N2", "auto", "auto -N2"]
              ]
          ],
        figuresData = object ["workloads" .= [object ["workload" .= loadName l, "size" .= loadSize l, "measured" .= roundsJson rounds] | (l, rounds) <- results], "claims" .= map claimJson everything]
      }

-- Sides ----------------------------------------------------------------------

-- | A way to map, with flags of the run-time system; named without the workload.
sidesOf :: Effort -> Load -> [Side]
sidesOf effort l =
  [Side "ceiling" [arguments "map" ["--half", part] [] | part <- ["0", "1"]]]
    ++ [Side (named w []) [arguments w [] []] | w <- ["map", "sequential", "auto", "shm", "sockets"]]
    ++ [Side (named "map" flags) [arguments "map" [] flags] | flags <- [wide]]
    ++ [Side (named w flags) [arguments w [] flags] | w <- tunedWays, flags <- sweep effort]
    ++ [Side (named w ["-N2"]) [arguments w [] ["-N2"]] | w <- ["auto", "threads", "bound-threads", "stm"]]
  where
    arguments w more flags = ["map", loadName l, w, show (loadSize l)] ++ more ++ (if null flags then [] else "+RTS" : flags)

-- | In-process rivals, which deserve their best flags.
tunedWays :: [String]
tunedWays = ["sparks", "parallel", "async"]

sweep :: Effort -> [[String]]
sweep Quick = [["-N2"], "-N2" : wide]
sweep Full = [["-N2"], ["-N2", "-A16m"], "-N2" : wide, ["-N2", "-A256m", "-n4m"]]

wide :: [String]
wide = ["-A64m", "-n4m"]

named :: String -> [String] -> String
named w flags = unwords (w : flags)

-- Claims ---------------------------------------------------------------------

claims :: Load -> Rounds -> [Claim]
claims l rounds =
  (if loadBarred l then processes else [])
    ++ [ratio (what ("auto: speed of the best of ours with one capability, " ++ best)) (AtLeast 0.95) wallNs best "auto" | Just best <- [fastest rounds forked]]
    ++ [ratio (what ("auto -N2: speed of the best of ours, " ++ best)) (AtLeast 0.95) wallNs best "auto -N2" | Just best <- [fastest rounds (forked ++ capable)]]
  where
    what text = loadName l ++ ", " ++ text
    processes =
      [ ratio (what "shm: speed of the machine's ceiling") (AtLeast 0.95) wallNs "ceiling" "shm",
        ratio (what "shm: speed of sparks -N2") (AtLeast 0.97) wallNs "sparks -N2" "shm",
        ratio (what "shm: speed of parallel -N2") (AtLeast 0.97) wallNs "parallel -N2" "shm"
      ]
        ++ [ ratio (what ("shm: speed of the best tuned, " ++ best)) (AtLeast 0.97) wallNs best "shm"
             | Just best <- [fastest rounds tuned]
           ]
        ++ [single (what "shm: share of time the caller collects") (AtMost 0.01) collecting "shm"]
    tuned = [named w flags | w <- ["sparks", "parallel"], flags <- drop 1 (sweep Full)]
    forked = ["sequential", "shm", "sockets"]
    capable = [named w ["-N2"] | w <- ["sparks", "threads", "bound-threads", "stm"]]
    collecting s = [gc / wall | Just gc <- [number ["meter", "gc_ns"] s], Just wall <- [wallNs s], wall > 0]

fastest :: Rounds -> [String] -> Maybe String
fastest rounds names = case sortOn snd (mapMaybe (\n -> (,) n . summaryMedian <$> summaryOf wallNs rounds n) names) of
  (n, _) : _ -> Just n
  [] -> Nothing

-- | Against 'map' without any library.
speedup :: Rounds -> String -> Maybe Double
speedup rounds name = (\base own -> summaryMedian base / summaryMedian own) <$> summaryOf wallNs rounds "map" <*> summaryOf wallNs rounds name

-- Table ----------------------------------------------------------------------

waysTable :: Effort -> Load -> Rounds -> Table
waysTable effort l rounds =
  Table
    [(L, "way"), (R, "median"), (R, "range"), (R, "speed-up"), (R, "GC in caller"), (R, "CPU caller"), (R, "CPU workers"), (R, "peak MiB")]
    [ [ sideName side,
        cell wallNs,
        maybe "-" range (summaryOf wallNs rounds (sideName side)),
        maybe "-" (\s -> showFFloat (Just 2) s "") (speedup rounds (sideName side)),
        cell (number ["meter", "gc_ns"]),
        cell (number ["meter", "cpu_self_ns"]),
        cell (number ["meter", "cpu_children_ns"]),
        maybe "-" (\s -> show (round (summaryMedian s / 1024) :: Int)) (summaryOf peak rounds (sideName side))
      ]
      | side <- sidesOf effort l,
        let cell metric = maybe "-" (seconds . (* 1e-9) . summaryMedian) (summaryOf metric rounds (sideName side))
    ]
  where
    range s = seconds (1e-9 * summaryLeast s) ++ " … " ++ seconds (1e-9 * summaryMost s)
    peak s = max <$> number ["meter", "peak_kib"] s <*> number ["meter", "peak_child_kib"] s
