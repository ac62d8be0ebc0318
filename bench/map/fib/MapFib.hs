{-# LANGUAGE OverloadedStrings #-}

-- | @map\/fib@: the seed's last table, fib of 1 to 40, by every way to map: as 40 items, and each worker the
-- whole list.
module MapFib
  ( fibExperiment,

    -- * Its parts
    fibCeiling,
  )
where

import Control.Exception (try)
import Data.Aeson (object, (.=))
import Data.List (nub)
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Ranks
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Cluster.Machines (describeMachines, whyEmulated)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics
import Maru.Failure (Unavailable)

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
  peers <- farWays last' cores
  let ways = nearWays last' cores ++ peers
  (rounds, cut) <- runRoundsFor (if effort == Quick then 20 else 900) say (runSide reaper "env") (sides program ways cores)
  unlessMeasured [rounds] cut
  let judged = [judgeClaim rounds (claim last')]
  pure
    Figures
      { figuresLine = "as " ++ show last' ++ " items at most " ++ fixed 2 (fibCeiling last') ++ " times as fast as one core; " ++ claimsLine judged,
        figuresTables =
          [ ( "fib of 1 to " ++ show last' ++ " with " ++ plural cores "worker" ++ ", times as fast as one core (as items at most " ++ fixed 2 (fibCeiling last') ++ ", whole lists at most " ++ show cores ++ ")",
              Table
                [(L, "way"), (R, "as items"), (R, "each worker the whole list")]
                [[wayName way, times rounds way "items" 1, times rounds way "lists" cores] | way <- ways]
            ),
            ( "Published: with 10 workers on 64 cores, times as fast as one; the text does not say which of the two it is",
              Table [(L, "way"), (R, "times")] [["a virtual machine each (IVC)", "9.687"], ["forkOS", "4.56"]]
            ),
            ("Claims", claimsTable judged)
          ],
        figuresPlots =
          [ Plot
              "Each worker the whole list"
              (Axis "way" (Named (map wayName ways)))
              (Axis "times as fast as one core" Linear)
              [Series "" [Point x v v v | (x, way) <- zip [1 ..] ways, Just v <- [speedUp rounds way "lists" cores]]]
          ],
        figuresData = object ["cores" .= cores, "last" .= last', "ceiling" .= fibCeiling last', "measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }
  where
    last' = if effort == Quick then 30 else 40
    times rounds way what k = maybe "-" (fixed 2) (speedUp rounds way what k)

data Way = Way
  { wayName :: !String,
    -- | It computes fib of 1 to that.
    wayLast :: !Int,
    -- | Words before the program; then its command, the back end, and what it takes besides.
    wayStart :: ![String],
    wayCommand :: !String,
    wayBackend :: !String,
    wayFlags :: ![String]
  }

nearWays :: Int -> Int -> [Way]
nearWays n cores = [way [] w | w <- ["shm", "sockets"]] ++ [way ["+RTS", "-N" ++ show cores] w | w <- ["sparks", "threads", "bound-threads", "stm", "parallel"]]
  where
    way flags w = Way w n [] "map" w (["--workers", show cores] ++ flags)

-- | Ranks and micro-VMs, a worker each; what can be started here. Emulated VMs compute a shorter
-- list: they are many times slower, and compared with one core on the same list.
farWays :: Int -> Int -> IO [Way]
farWays n cores = do
  launchers <- launchersHere cores
  machines <- try describeMachines
  emulated <- whyEmulated
  let (most, remark) = maybe (n, "") (const (min 30 n, ", emulated")) emulated
      ranks = [Way ("mpi, " ++ name) n start "far" "mpi" [] | (name, start) <- launchers]
      vms = Way ("vm" ++ remark ++ (if most < n then ", fib of 1 to " ++ show most else "")) most ["MARU_VMS=" ++ show cores, "MARU_WORKERS=1"] "far" "vm" []
  pure (ranks ++ [vms | Right _ <- [machines :: Either Unavailable String]])

one :: Way -> String -> String
one way what = wayName way ++ ", " ++ what

-- | By one core: the list once.
baseline :: Int -> String
baseline n = "map, fib of 1 to " ++ show n

sides :: FilePath -> [Way] -> Int -> [Side]
sides program ways cores =
  [Side (baseline n) [[program, "map", "fib", "map", show n]] | n <- nub (map wayLast ways)]
    ++ concat [[Side (one way "items") [by way "fib" [show (wayLast way)]], Side (one way "lists") [by way "fibs" [show cores, "--grain", show (wayLast way)]]] | way <- ways]
  where
    by way work size = wayStart way ++ [program, wayCommand way, work, wayBackend way] ++ size ++ ["--chunk", "1"] ++ wayFlags way

-- | So many times the work of the baseline.
speedUp :: Rounds -> Way -> String -> Int -> Maybe Double
speedUp rounds way what k = (\own base -> fromIntegral k * summaryMedian base / summaryMedian own) <$> summaryOf wallNs rounds (one way what) <*> summaryOf wallNs rounds (baseline (wayLast way))

-- | The seed's virtual machines had 0.9687 of their number.
claim :: Int -> Claim
claim n = paired "shm, each worker the whole list: share of the workers' number (the seed's virtual machines: 0.969)" (AtLeast 0.95) (\own base -> if own > 0 then Just (base / own) else Nothing) wallNs wallNs "shm, lists" (baseline n)
