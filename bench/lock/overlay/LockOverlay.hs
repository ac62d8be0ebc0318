{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/overlay@: an unmodified user of @pthread_mutex_lock@ with more threads than cores,
-- as it is and under the overlay, in turn; and what locks that only spin do there.
module LockOverlay
  ( overlayExperiment,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath, libraryPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics

overlayExperiment :: Experiment
overlayExperiment =
  Experiment
    { experimentName = "lock/overlay",
      experimentPurpose = "24 threads at one pthread_mutex: glibc's own beside the overlay's queues, throughput and longest waits; locks that only spin",
      experimentRun = run
    }

-- | Of what is laid over the mutex; 'Nothing': glibc's alone.
sides :: [(String, Maybe String)]
sides = ("glibc", Nothing) : [(name, Just name) | name <- ["fifo", "cna:deadline=25us"]]

spinning :: [String]
spinning = map (++ ":wait=spin") ["ttas", "ticket", "mcs", "clh", "qspin", "cna"]

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-lock"
  library <- libraryPath "libmaru-lock.so"
  say "locks that only spin"
  spun <- runTool reaper program (["-v", "2x1", "-s", if quick then "0.2" else "3"] ++ spinning)
  let measure side = runTool reaper "env" (concat (sideProcesses side))
      sideOf (name, lock) = Side name [environment library lock ++ [program, "-v", "2x1", "-s", if quick then "0.5" else "10", "pthread"]]
  rounds <- runRoundsFrom 9 effort say measure (map sideOf sides) (const claims)
  let judged = map (judgeClaim rounds) claims
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ("Over glibc's mutex, round by round", claimsTable judged),
            ("24 threads, one mutex: medians", Table heads [row name (\path -> summaryMedian <$> summaryOf (number path . first) rounds name) | (name, _) <- sides]),
            ("Locks that only spin, one run", Table heads [row (fromMaybe "" (at ["lock"] r)) (`number` r) | r <- runsOf spun])
          ],
        figuresPlots = [plot rounds],
        figuresData = object ["rounds" .= roundsJson rounds, "claims" .= map claimJson judged, "spinning" .= spun]
      }
  where
    quick = effort == Quick
    environment library lock = case lock of
      Nothing -> []
      Just name -> ["LD_PRELOAD=" ++ library, "MARU_LOCK=" ++ name, "MARU_TOPOLOGY=virtual:2x1"]
    heads = [(L, "lock"), (R, "million/s"), (R, "p99.9"), (R, "longest wait"), (R, "Jain")]
    row name value =
      [ name,
        maybe "-" (fixed 3 . (/ 1e6)) (value ["per_second"]),
        maybe "-" (seconds . (* 1e-9)) (value ["wait_ns", "p99_9"]),
        maybe "-" (seconds . (* 1e-9)) (value ["wait_ns", "max"]),
        maybe "-" (fixed 3) (value ["jain"])
      ]

-- | A point a run.
plot :: Rounds -> Plot
plot rounds =
  Plot
    "24 threads at one pthread_mutex, a point a run"
    (Axis "longest wait, ms" Logarithmic)
    (Axis "million operations a second" Linear)
    [Series name [Point (longest / 1e6) (rate / 1e6) (rate / 1e6) (rate / 1e6) | sample <- samplesOf rounds name, Just longest <- [number ["wait_ns", "max"] (first sample)], Just rate <- [number ["per_second"] (first sample)]] | (name, _) <- sides]

runsOf :: Sample -> [Value]
runsOf = fromMaybe [] . at ["runs"]

-- | A process that measures one lock has one run.
first :: Sample -> Value
first sample = case runsOf sample of
  one : _ -> one
  [] -> object []

claims :: [Claim]
claims =
  concat
    [ [ ratio (name ++ ": throughput") (AtLeast 0.9) (metric ["per_second"]) name "glibc",
        ratio (name ++ ": longest wait") (AtMost 1) (metric ["wait_ns", "max"]) name "glibc"
      ]
      | (name, Just _) <- sides
    ]
  where
    metric :: [Text] -> Sample -> Maybe Double
    metric path = number path . first
