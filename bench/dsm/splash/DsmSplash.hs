{-# LANGUAGE OverloadedStrings #-}

-- | Six programs of SPLASH-3, each compiled from the same unchanged source with its own threads and
-- as nodes. What does shared memory cost a program that is alone? What is left of its speed-up?
--
-- The sources are not maru's. @MARU_SPLASH@ names the folder that holds them.
module DsmSplash
  ( splashExperiment,
  )
where

import Control.Exception (bracket)
import Control.Monad (forM_)
import Data.Aeson (object, (.=))
import Data.List (nub)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import GHC.Conc (getNumProcessors)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Installed (commandPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics (Summary (summaryMedian))
import System.Directory (getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath (takeDirectory, (</>))
import System.Posix.Temp (mkdtemp)
import System.Process

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
splash reaper effort say = do
  sources <- lookupEnv "MARU_SPLASH"
  case sources of
    Just folder -> inFolder $ \work -> compiled reaper say (folder </> "codes") work >> measured reaper effort say work
    Nothing -> pure Figures {figuresLine = "not measured: " ++ why, figuresTables = [], figuresPlots = [], figuresData = object ["not_measured" .= why]}
  where
    why = "MARU_SPLASH names no folder with the sources of SPLASH-3 (github.com/SakalisC/Splash-3)"
    inFolder = bracket (getTemporaryDirectory >>= mkdtemp . (</> "maru-splash-")) removeDirectoryRecursive

data Way = Threads | Nodes
  deriving (Eq)

folderOf :: FilePath -> Way -> FilePath
folderOf work way = work </> if way == Threads then "threads" else "nodes"

-- | A copy of the sources for each way.
compiled :: Reaper -> (String -> IO ()) -> FilePath -> FilePath -> IO ()
compiled reaper say codes work = do
  cc <- (</> "maru-cc") . takeDirectory <$> commandPath
  macros <- concat . lines <$> printed reaper cc ["macros"]
  forM_ [(Threads, []), (Nodes, ["CC=" ++ cc, "MACROS=" ++ macros])] $ \(way, settings) -> do
    _ <- printed reaper "cp" ["-r", codes, folderOf work way]
    forM_ programs $ \program -> do
      say ("compiling " ++ programName program ++ if way == Threads then " for threads" else " for nodes")
      printed reaper "make" (["-s", "-C", folderOf work way </> programFolder program] ++ settings)
    forM_ [1 .. mostNodes] $ \p -> writeFile (folderOf work way </> "apps/water-nsquared" </> ("input-" ++ show p)) (waterInput p)

printed :: Reaper -> FilePath -> [String] -> IO String
printed reaper program arguments = do
  (code, said, errors) <- outputOf reaper (proc program arguments) {std_in = CreatePipe}
  case code of
    ExitSuccess -> pure said
    ExitFailure n -> problem unavailable (unwords (program : arguments) ++ " ended with status " ++ show n ++ ": " ++ unwords (lines errors))

mostNodes :: Int
mostNodes = 8

measured :: Reaper -> Effort -> (String -> IO ()) -> FilePath -> IO Figures
measured reaper effort say work = do
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
    commandOf maru q way p = ["sh", "-c", unwords ("cd" : quoted (folderOf work way </> programFolder q) : "&& exec" : [w | way == Nodes, w <- [quoted maru, "launch -n", show p, "--"]] ++ [programCommand q p, ">/dev/null"])]
    quoted path = "'" ++ path ++ "'"

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
