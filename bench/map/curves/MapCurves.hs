{-# LANGUAGE OverloadedStrings #-}

-- | @map\/curves@: the seed's speed-up curves. All pairs of 81 and of 108 Java programs by every back
-- end from one to all cores; times beside speed-ups, of the whole program and without its collector;
-- and what the simulator of the map says, up to the seed's 72 cores.
module MapCurves
  ( curvesExperiment,
  )
where

import Data.Aeson (object, (.=))
import Data.List (nub)
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import qualified Maru.Control.Sim.Map as Sim
import Maru.Control.Statistics

curvesExperiment :: Experiment
curvesExperiment =
  Experiment
    { experimentName = "map/curves",
      experimentPurpose = "The seed's curves: all pairs of 81 and 108 Java programs by every back end from one to all cores, whole time and without the collector; simulated up to 72",
      experimentRun = run
    }

-- | As many programs as the seed compares in figs 1 to 3 and 11, and in figs 14 and 15.
sizes :: [Int]
sizes = [81, 108]

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  rounds <- runRounds effort say (runSide reaper program) (curvesSides cores) (const (claims cores))
  let judged = map (judgeClaim rounds) (claims cores)
  pure
    Figures
      { figuresLine = line cores rounds ++ "; " ++ claimsLine judged,
        figuresTables = curvesTables cores rounds ++ [("Claims", claimsTable judged)],
        figuresPlots = concatMap (plots cores rounds) sizes,
        figuresData =
          object
            [ "cores" .= cores,
              "measured" .= roundsJson rounds,
              "simulated" .= [object ["series" .= simulatedName, "programs" .= size, "workers" .= n, "speedup" .= s] | size <- sizes, n <- many cores, Just s <- [simulatedOf rounds size n]],
              "claims" .= map claimJson judged
            ]
      }

-- | A way, its flags with so many cores, and the seed's name for its like.
data Way = Way
  { wayName :: !String,
    wayFlags :: !(Int -> [String]),
    wayLike :: !String
  }

ways :: [Way]
ways =
  [ Way "shm" (const []) "SAMShm",
    Way "sockets" (const []) "SAMSoc",
    Way "parallel" capable "Eval monad",
    Way "sparks" capable "",
    Way "stm" capable "SAMSTM",
    Way "threads" capable "forkIO",
    Way "bound-threads" capable "forkOS"
  ]
  where
    capable n = ["+RTS", "-N" ++ show n]

-- | Powers of two, and all cores.
counts :: Int -> [Int]
counts cores = takeWhile (< cores) (iterate (* 2) 1) ++ [cores]

-- | Also those of the seed's machines.
many :: Int -> [Int]
many cores = nub (counts cores ++ filter (> cores) [2, 4, 8, 16, 32, 72])

curvesSides :: Int -> [Side]
curvesSides cores =
  concat
    [ Side (named size "map" 1) [["map", "similar", "map", show size]] :
        [Side (named size (wayName way) n) [["map", "similar", wayName way, show size, "--workers", show n] ++ wayFlags way n] | way <- ways, n <- counts cores]
      | size <- sizes
    ]

named :: Int -> String -> Int -> String
named size way n = show size ++ " programs, " ++ way ++ " x" ++ show n

-- | The seed's two measures, in seconds: all that the program takes, reading and lexing included; and
-- that without its collector. Of forked workers the collectors run inside their items.
total, mutator :: Sample -> Maybe Double
total sample = (/ 1e9) <$> number ["total_ns"] sample
mutator sample = (\t gc -> (t - gc) / 1e9) <$> number ["total_ns"] sample <*> number ["total_gc_ns"] sample

-- | Against the program that maps without a library.
speedUp :: (Sample -> Maybe Double) -> Rounds -> Int -> String -> Int -> Maybe Double
speedUp metric rounds size way n = (/) <$> middle "map" 1 <*> middle way n
  where
    middle w k = summaryMedian <$> summaryOf metric rounds (named size w k)

curvesTables :: Int -> Rounds -> [(String, Table)]
curvesTables cores rounds =
  concat
    [ [ (programs size ++ ", milliseconds of the whole program, by cores (map alone: " ++ maybe "-" ms (summaryOf total rounds (named size "map" 1)) ++ ")", table (\way n -> maybe "-" ms (summaryOf total rounds (named size way n)))),
        (programs size ++ ", times as fast as map: Total (MUT, without the collector of the caller)", table (\way n -> shown (speedUp total rounds size way n) ++ " (" ++ shown (speedUp mutator rounds size way n) ++ ")"))
      ]
      | size <- sizes
    ]
    ++ [ ( simulatedName ++ ", times as fast as map, by workers: work and number of rows as measured, no collector, no memory in the model",
           Table
             ((L, "programs") : [(R, show n) | n <- many cores])
             [show size : [shown (simulatedOf rounds size n) | n <- many cores] | size <- sizes]
         ),
         ( "Published, times as fast as one core",
           Table
             [(L, "figure"), (R, "Eval"), (R, "SAMSTM"), (R, "SAMSoc"), (R, "SAMShm")]
             [["11: 32 cores", "7.63", "6.84", "5.99", "-"], ["15: 72 cores, 108 programs", "5", "5", "13", "20"]]
         ),
         ( "Published, not run again (Cloud Haskell)",
           Table [(L, "figure"), (L, "what the text says")] [["2", "on one core about twice the time of the Eval monad; the gap closes as cores are added"], ["3", "scales better than the Eval monad"]]
         )
       ]
  where
    programs size = show size ++ " programs"
    ms = fixed 0 . (1e3 *) . summaryMedian
    shown = maybe "-" (fixed 2)
    table cell =
      Table
        ([(L, "back end"), (L, "the seed's like")] ++ [(R, show n) | n <- counts cores])
        [[wayName way, wayLike way] ++ [cell (wayName way) n | n <- counts cores] | way <- ways]

plots :: Int -> Rounds -> Int -> [Plot]
plots cores rounds size =
  [ Plot
      (show size ++ " Java programs, whole time")
      (Axis "cores" Linear)
      (Axis "time, ms" Linear)
      [Series (wayName way) [point (fromIntegral n) (scaled s) | n <- counts cores, Just s <- [summaryOf total rounds (named size (wayName way) n)]] | way <- ways],
    Plot
      (show size ++ " Java programs, speed-up (Total)")
      (Axis "cores" Linear)
      (Axis "times as fast as map" Linear)
      ( [Series (wayName way) [Point (fromIntegral n) v v v | n <- counts cores, Just v <- [speedUp total rounds size (wayName way) n]] | way <- ways]
          ++ [Series simulatedName [Point (fromIntegral n) v v v | n <- counts cores, Just v <- [simulatedOf rounds size n]]]
      )
  ]
  where
    scaled s = s {summaryMedian = 1e3 * summaryMedian s, summaryLeast = 1e3 * summaryLeast s, summaryMost = 1e3 * summaryMost s}

simulatedName :: String
simulatedName = "shm, simulated"

simulatedOf :: Rounds -> Int -> Int -> Maybe Double
simulatedOf rounds size n = simulatedSpeedUp size n . (/ 1e9) . summaryMedian <$> summaryOf wallNs rounds (named size "map" 1)

-- | By the map's simulator, with its own costs of starting, claiming and collecting: the pairs of so
-- many programs, by so many workers, of a map that takes so many seconds.
simulatedSpeedUp :: Int -> Int -> Double -> Double
simulatedSpeedUp size n work = Sim.speedup (Sim.simulate model)
  where
    model = Sim.defaultModel {Sim.modelItems = rows, Sim.modelWorkers = n, Sim.modelItem = work / fromIntegral rows, Sim.modelCosts = Sim.Falling}
    rows = max 1 (size - 1)

line :: Int -> Rounds -> String
line cores rounds =
  "108 programs with " ++ plural cores "core" ++ ", times as fast as map (Total): "
    ++ foldr1 (\a b -> a ++ ", " ++ b) [wayName way ++ " " ++ maybe "-" (fixed 2) (speedUp total rounds 108 (wayName way) cores) | way <- ways]

-- | The seed's order on 72 cores: processes before what shares a heap. On few cores it has them level.
claims :: Int -> [Claim]
claims cores = [ratio ("108 programs, all cores: speed of shm beside " ++ wayName way) (AtLeast 0.95) total (named 108 (wayName way) cores) (named 108 "shm" cores) | way <- drop 1 ways]
