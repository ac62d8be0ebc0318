{-# LANGUAGE OverloadedStrings #-}

-- | @lock\/crowd@: queue locks beside the same locks that only spin, and beside glibc's, by numbers
-- of threads below and above that of the cores.
module LockCrowd
  ( crowdExperiment,

    -- * Its parts
    crowdSides,
    crowdTables,
    crowdPlot,
    crowdClaims,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Maybe (fromMaybe)
import qualified Data.Set as Set
import Data.Text (Text)
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

crowdExperiment :: Experiment
crowdExperiment =
  Experiment
    { experimentName = "lock/crowd",
      experimentPurpose = "Queue locks whose waiters sleep, with fewer and more threads than cores: beside the same that only spin, and glibc's; the default lock",
      experimentRun = run
    }

-- | Numbers of threads on so many cores.
crowds :: Int -> [Int]
crowds cores = Set.toAscList (Set.fromList [2, max 2 (cores `div` 2), max 2 cores, cores + max 1 (cores `div` 2), 4 * cores])

queues :: [String]
queues = ["mcs", "clh", "ticket", "qspin", "cna:deadline=25us"]

spinning :: String -> String
spinning lock = lock ++ (if ':' `elem` lock then "," else ":") ++ "wait=spin"

-- | Those that let a running thread take a free word in front of a queue.
passing :: [String]
passing = ["default", "shfl", "malthusian"]

-- | What is measured with so many threads.
locksOf :: Int -> Int -> [String]
locksOf cores threads = ["pthread"] ++ passing ++ queues ++ ["c-bo-mcs", "hmcs"] ++ (if threads <= cores then map spinning queues else [])

cells :: Int -> [(Int, String)]
cells cores = [(threads, lock) | threads <- crowds cores, lock <- locksOf cores threads]

named :: Int -> String -> String
named threads lock = lock ++ ", " ++ show threads ++ " threads"

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-lock"
  cores <- getNumProcessors
  let sides = crowdSides program (if effort == Quick then "0.2" else "1") cores
      claims = crowdClaims cores
  rounds <- runRounds effort say (runWords reaper . concat . sideProcesses) sides (const claims)
  let judged = map (judgeClaim rounds) claims
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables = ("Over what it is held to, round by round", claimsTable judged) : crowdTables cores rounds,
        figuresPlots = [crowdPlot cores rounds],
        figuresData = object ["cores" .= cores, "rounds" .= roundsJson rounds, "claims" .= map claimJson judged]
      }

-- | By the program, each for so many seconds, on so many cores.
crowdSides :: FilePath -> String -> Int -> [Side]
crowdSides program time cores = [Side (named threads lock) [[program, "-t", show threads, "-s", time, lock]] | (threads, lock) <- cells cores]

crowdTables :: Int -> Rounds -> [(String, Table)]
crowdTables cores rounds = [(show cores ++ " cores, one table, nothing in between: medians", Table heads [row threads lock | (threads, lock) <- cells cores])]
  where
    heads = [(R, "threads"), (L, "lock"), (R, "million/s"), (R, "p99.9"), (R, "longest wait"), (R, "Jain")]
    row threads lock =
      [ show threads,
        lock,
        maybe "-" (fixed 3 . (/ 1e6)) (value ["per_second"]),
        maybe "-" (seconds . (* 1e-9)) (value ["wait_ns", "p99_9"]),
        maybe "-" (seconds . (* 1e-9)) (value ["wait_ns", "max"]),
        maybe "-" (fixed 3) (value ["jain"])
      ]
      where
        value path = summaryMedian <$> summaryOf (figure path) rounds (named threads lock)

crowdClaims :: Int -> [Claim]
crowdClaims cores =
  [over "default" (AtLeast 0.95) threads "pthread" | threads <- crowds cores]
    ++ [over lock (AtLeast 0.9) threads (spinning lock) | threads <- crowds cores, threads <= cores, lock <- queues]
    ++ [over lock (AtLeast 0.3) threads "pthread" | threads <- crowds cores, threads > cores, lock <- queues ++ ["c-bo-mcs", "hmcs"]]
  where
    over lock bar threads peer = ratio (named threads lock ++ ", over " ++ peer) bar (figure ["per_second"]) (named threads lock) (named threads peer)

-- | Of the one lock that a process measures.
figure :: [Text] -> Sample -> Maybe Double
figure path sample = case fromMaybe [] (at ["runs"] sample) :: [Value] of
  one : _ -> number path one
  [] -> Nothing

crowdPlot :: Int -> Rounds -> Plot
crowdPlot cores rounds =
  Plot
    "A saturated lock"
    (Axis "threads" Logarithmic)
    (Axis "million operations a second" Linear)
    [Series lock [Point (fromIntegral threads) v v v | threads <- crowds cores, Just s <- [summaryOf (figure ["per_second"]) rounds (named threads lock)], let v = summaryMedian s / 1e6] | lock <- "pthread" : passing ++ queues]
