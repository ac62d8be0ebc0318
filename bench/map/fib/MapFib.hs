{-# LANGUAGE OverloadedStrings #-}

-- | @map\/fib@: the seed's last table, fib of 1 to 40, by every way to map: as 40 items, and each worker the
-- whole list.
module MapFib
  ( fibExperiment,

    -- * Its parts
    fibCeiling,
  )
where

import Data.Aeson (object, (.=))
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics

fibExperiment :: Experiment
fibExperiment =
  Experiment
    { experimentName = "map/fib",
      experimentPurpose = "fib of 1 to 40 by every way to map: as 40 items, and each worker the whole list",
      experimentRun = run
    }

-- | How many times as fast so many items can be at most: all by the last one.
fibCeiling :: Int -> Double
fibCeiling n = fromIntegral (sum calls) / fromIntegral (maximum (1 : calls))
  where
    -- Of fib i, with those that they make.
    calls = take n (drop 1 counts) :: [Integer]
    counts = 1 : 1 : zipWith (\a b -> a + b + 1) counts (drop 1 counts)

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  (rounds, cut) <- runRoundsFor (if effort == Quick then 20 else 900) say (runSide reaper program) (sides last' cores)
  unlessMeasured [rounds] cut
  let judged = [judgeClaim rounds claim]
  pure
    Figures
      { figuresLine = "as " ++ show last' ++ " items at most " ++ fixed 2 (fibCeiling last') ++ " times as fast as one core; " ++ claimsLine judged,
        figuresTables =
          [ ( "fib of 1 to " ++ show last' ++ " with " ++ plural cores "worker" ++ ", times as fast as one core (as items at most " ++ fixed 2 (fibCeiling last') ++ ", whole lists at most " ++ show cores ++ ")",
              Table
                [(L, "way"), (R, "as " ++ show last' ++ " items"), (R, "each worker the whole list")]
                [[way, times rounds (one way "items") 1, times rounds (one way "lists") cores] | (way, _) <- ways cores]
            ),
            ( "Published: with 10 workers on 64 cores, times as fast as one; the text does not say which of the two it is",
              Table [(L, "way"), (R, "times")] [["a virtual machine each (IVC)", "9.687"], ["forkOS", "4.56"]]
            ),
            ("Claims", claimsTable judged)
          ],
        figuresPlots =
          [ Plot
              "Each worker the whole list"
              (Axis "way" (Named (map fst (ways cores))))
              (Axis "times as fast as one core" Linear)
              [Series "" [Point x v v v | (x, (way, _)) <- zip [1 ..] (ways cores), Just v <- [speedUp rounds (one way "lists") cores]]]
          ],
        figuresData = object ["cores" .= cores, "last" .= last', "ceiling" .= fibCeiling last', "measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }
  where
    last' = if effort == Quick then 30 else 40
    times rounds side k = maybe "-" (fixed 2) (speedUp rounds side k)

-- | Name, and flags of the run-time system.
ways :: Int -> [(String, [String])]
ways cores = [("shm", []), ("sockets", []), ("sparks", wide), ("threads", wide), ("bound-threads", wide), ("stm", wide), ("parallel", wide)]
  where
    wide = ["+RTS", "-N" ++ show cores]

one :: String -> String -> String
one way what = way ++ ", " ++ what

-- | By one core: the list once.
baseline :: String
baseline = "map"

sides :: Int -> Int -> [Side]
sides last' cores =
  Side baseline [["map", "fib", "map", show last']] :
  concat
    [ [ Side (one way "items") [["map", "fib", way, show last', "--chunk", "1", "--workers", show cores] ++ flags],
        Side (one way "lists") [["map", "fibs", way, show cores, "--grain", show last', "--chunk", "1", "--workers", show cores] ++ flags]
      ]
      | (way, flags) <- ways cores
    ]

-- | So many times the work of the baseline.
speedUp :: Rounds -> String -> Int -> Maybe Double
speedUp rounds side k = (\own base -> fromIntegral k * summaryMedian base / summaryMedian own) <$> summaryOf wallNs rounds side <*> summaryOf wallNs rounds baseline

-- | The seed's virtual machines had 0.9687 of their number.
claim :: Claim
claim = paired "shm, each worker the whole list: share of the workers' number (the seed's virtual machines: 0.969)" (AtLeast 0.95) (\own base -> if own > 0 then Just (base / own) else Nothing) wallNs wallNs (one "shm" "lists") baseline
