{-# LANGUAGE OverloadedStrings #-}

-- | @map\/programs@: eight programs of other people's, by maru as it comes and by the sparks of the
-- package parallel with the flags that suit each best, on all cores.
module MapPrograms
  ( programsMapExperiment,

    -- * Its parts
    programsSides,
    programsTables,
    programsPlots,
    programsClaims,
  )
where

import Data.Aeson (object, (.=))
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
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
import Numeric (showFFloat)

programsMapExperiment :: Experiment
programsMapExperiment =
  Experiment
    { experimentName = "map/programs",
      experimentPurpose = "Eight programs of nofib and of a book, by maru and by tuned sparks, on all cores",
      experimentRun = run
    }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  rounds <- runRounds effort say (runSide reaper program) (programsSides effort cores) (programsClaims cores)
  let judged = map (judgeClaim rounds) (programsClaims cores rounds)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables = programsTables cores rounds ++ [("Claims", claimsTable judged)],
        figuresPlots = programsPlots cores rounds,
        figuresData = object ["cores" .= cores, "measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }

-- Sides ----------------------------------------------------------------------

-- | Name, then size and grain in full and for a first look. In full each takes some
-- second on one core of 2026.
programs :: [(String, (Int, Int), (Int, Int))]
programs =
  [ ("sumeuler", (8000, 100), (2000, 100)),
    ("blackscholes", (8000000, 10000), (400000, 10000)),
    ("nbody", (5000, 0), (1000, 0)),
    ("queens", (12, 0), (9, 0)),
    ("sudoku", (1000, 0), (100, 0)),
    ("matmult", (300, 0), (100, 0)),
    ("minimax", (4, 5), (4, 3)),
    ("kmeans", (100000, 10), (10000, 5))
  ]

names :: [String]
names = [name | (name, _, _) <- programs]

-- | maru chooses how many workers, as in a program whose owner says nothing: maps within maps share
-- the cores by that.
programsSides :: Effort -> Int -> [Side]
programsSides effort cores =
  [ Side (named name way) [["map", name, mapper, show size, "--grain", show grain, "--workers", "0"] ++ (if null flags then [] else "+RTS" : flags)]
    | (name, full, quick) <- programs,
      let (size, grain) = if effort == Quick then quick else full,
      way <- "map" : [way | way <- waysOf cores, way /= "pool" || oursOf name == "pool"],
      mapper : flags <- [words way]
  ]

named :: String -> String -> String
named program way = program ++ ", " ++ way

waysOf :: Int -> [String]
waysOf cores = ["auto", "shm", "pool", "auto -N" ++ show cores] ++ sparksOf cores

-- | What a program's owner would take: one that maps over the same again and again keeps its workers.
oursOf :: String -> String
oursOf name = if name == "kmeans" then "pool" else "auto"

-- | Rivals deserve their best flags.
sparksOf :: Int -> [String]
sparksOf cores = [unwords ("parallel" : ("-N" ++ show cores) : flags) | flags <- [[], ["-A16m"], ["-A64m", "-n4m"], ["-A64m", "-n4m", "-qg"]]]

-- Claims ---------------------------------------------------------------------

programsClaims :: Int -> Rounds -> [Claim]
programsClaims cores rounds =
  [ratio (own name ++ ": speed of " ++ way) (AtLeast 0.95) wallNs (named name way) (own name) | (name, way) <- best]
    ++ [ratio (own "kmeans" ++ ": speed of map") (AtLeast 1) wallNs "kmeans, map" (own "kmeans")]
    ++ [Claim "all eight, kmeans by a pool: geometric mean of the speed of tuned sparks" (concat [[named name way, own name] | (name, way) <- best]) means (AtLeast 1.1) | length best == length names]
  where
    best = [(name, way) | name <- names, Just way <- [bestSparks cores name rounds]]
    means (Rounds those) = mapMaybe (fmap (mean . map log) . sequence . speeds . snd) those
    speeds samples = [(/) <$> wall (named name way) samples <*> wall (own name) samples | (name, way) <- best]
    own name = named name (oursOf name)
    wall side samples = Map.lookup side samples >>= wallNs
    mean values = exp (sum values / fromIntegral (max 1 (length values)))

bestSparks :: Int -> String -> Rounds -> Maybe String
bestSparks cores name rounds = case sortOn snd (mapMaybe taken (sparksOf cores)) of
  (way, _) : _ -> Just way
  [] -> Nothing
  where
    taken way = (,) way . summaryMedian <$> summaryOf wallNs rounds (named name way)

-- Tables and plots -----------------------------------------------------------

-- | Against 'map' without any library.
speedup :: Rounds -> String -> String -> Maybe Double
speedup rounds name way = (\base own -> summaryMedian base / summaryMedian own) <$> took "map" <*> took way
  where
    took = summaryOf wallNs rounds . named name

programsTables :: Int -> Rounds -> [(String, Table)]
programsTables cores rounds =
  [ ( "Programs: times as fast as map, " ++ plural cores "core",
      Table
        ((L, "program") : (R, "map") : [(R, way) | way <- waysOf cores])
        [ name :
          maybe "-" (seconds . (* 1e-9) . summaryMedian) (summaryOf wallNs rounds (named name "map")) :
            [maybe "-" (\s -> showFFloat (Just 2) s "") (speedup rounds name way) | way <- waysOf cores]
          | name <- names
        ]
    )
  ]

programsPlots :: Int -> Rounds -> [Plot]
programsPlots cores rounds =
  [ Plot
      ("Programs, " ++ plural cores "core")
      (Axis "program" (Named names))
      (Axis "times map" Linear)
      [Series way [Point x s s s | (x, name) <- zip [1 ..] names, Just s <- [speedup rounds name way]] | way <- waysOf cores]
  ]
