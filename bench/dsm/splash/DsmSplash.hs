{-# LANGUAGE OverloadedStrings #-}

-- | Six programs of SPLASH-3, each compiled from the same unchanged source with its own threads and
-- as nodes. What does shared memory cost a program that is alone? What is left of its speed-up?
module DsmSplash
  ( splashExperiment,
  )
where

import Data.Aeson (object, (.=))
import Data.List (nub)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (commandPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics (Summary (summaryMedian))
import SplashSources
import System.FilePath ((</>))

-- | A program: its folder, and its command on so many threads or nodes, which takes seconds on one. Our
-- bars: how many times a thread's time one node takes at most, and what share of the threads' speed-up
-- nodes have at least.
data Program = Program
  { programName :: !String,
    programFolder :: !FilePath,
    programCommand :: Int -> String,
    programAlone :: !Double,
    programShare :: !Double
  }

programs :: [Program]
programs =
  [ Program "lu" "kernels/lu/contiguous_blocks" (\p -> "./LU -n2048 -p" ++ show p) 1.1 0.8,
    Program "fft" "kernels/fft" (\p -> "./FFT -m24 -p" ++ show p) 1.1 0.6,
    Program "radix" "kernels/radix" (\p -> "./RADIX -n33554432 -p" ++ show p) 1.1 0.6,
    Program "water" "apps/water-nsquared" (\p -> "./WATER-NSQUARED <input-" ++ show p) 1.1 0.8,
    Program "ocean" "apps/ocean/contiguous_partitions" (\p -> "./OCEAN -n1026 -p" ++ show p) 1.3 0.8,
    Program "raytrace" "apps/raytrace" (\p -> "./RAYTRACE -m64 -a64 -p" ++ show p ++ " inputs/teapot.env") 1.3 0.6
  ]

-- | Of 1728 molecules, as the third seed has them, in so many steps by so many processes.
waterInput :: Int -> String
waterInput p = unlines ["1.5e-16 1728 12 6", "-1 3000 3 0", show p ++ " 6.212752"]

splashExperiment :: Experiment
splashExperiment = Experiment "dsm/splash" "Six programs of SPLASH-3 (MARU_SPLASH names its folder): one node beside one thread, nodes beside threads on all cores, up to eight" splash

splash :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
splash reaper effort say =
  withSources reaper say [Threads, Nodes] (map programFolder programs) inputs (measured reaper effort say)
  where
    inputs = [("apps/water-nsquared" </> ("input-" ++ show p), waterInput p) | p <- [1 .. mostNodes]]

mostNodes :: Int
mostNodes = 8

measured :: Reaper -> Effort -> (String -> IO ()) -> (Way -> FilePath) -> IO Figures
measured reaper effort say copy = do
  maru <- commandPath
  cores <- getNumProcessors
  let most = last (takeWhile (<= min cores mostNodes) (iterate (* 2) 1))
      sidesOf q = [Side (sideOf q way p) [commandOf maru q way p] | way <- [Threads, Nodes], p <- nub [1, most]]
      claims = claimsOf most
  rounds <- runRoundsOfEachWithin limitSeconds effort say (runPlain reaper 1 . concat . sideProcesses) [(programName q, sidesOf q, const (claims q)) | q <- programs]
  let judged = concat [map (judgeClaim found) (claims q) | (q, found) <- zip programs rounds]
      row metric q found = programName q : [maybe "-" (fixed 2 . (/ 1000) . summaryMedian) (summaryOf (number [metric]) found (sideOf q way p)) | p <- nub [1, most], way <- [Threads, Nodes]]
      table metric = Table ((L, "program") : [(R, counted p way) | p <- nub [1, most], way <- [Threads, Nodes]]) (zipWith (row metric) programs rounds)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables = [("Seconds, start and end of the job included, median", table "wall_ms"), ("Seconds of processor time, median", table "cpu_ms"), ("Claims", claimsTable judged)],
        figuresPlots = [],
        figuresData = object ["measured" .= map roundsJson rounds, "claims" .= map claimJson judged, "nodes" .= most]
      }
  where
    commandOf maru q way p = commandIn (copy way </> programFolder q) (unwords ([w | way == Nodes, w <- [maru, "launch -n", show p, "--"]] ++ [programCommand q p]))

-- | Of one program; no further round begins later.
limitSeconds :: Int
limitSeconds = 240

counted :: Int -> Way -> String
counted p way = plural p (if way == Threads then "thread" else "node")

sideOf :: Program -> Way -> Int -> String
sideOf q way p = programName q ++ ", " ++ counted p way

claimsOf :: Int -> Program -> [Claim]
claimsOf most q =
  [ratio (programName q ++ ": one node by one thread, " ++ name) (AtMost (programAlone q)) (number [metric]) (sideOf q Nodes 1) (sideOf q Threads 1) | (name, metric) <- [("time", "wall_ms"), ("processor time", "cpu_ms")]]
    ++ [share | most > 1]
  where
    share =
      Claim
        { claimText = programName q ++ ": speed-up of " ++ counted most Nodes ++ " by that of as many threads",
          claimSides = [sideOf q way p | way <- [Threads, Nodes], p <- [1, most]],
          claimValues = \(Rounds rounds) -> mapMaybe (ofRound . snd) rounds,
          claimBar = AtLeast (programShare q)
        }
    ofRound samples = (/) <$> speedUp Nodes samples <*> speedUp Threads samples
    speedUp way samples = (/) <$> took samples way 1 <*> took samples way most
    took samples way p = Map.lookup (sideOf q way p) samples >>= number ["wall_ms"]
