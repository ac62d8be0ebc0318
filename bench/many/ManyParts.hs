{-# LANGUAGE OverloadedStrings #-}

-- | The parts of @many@: what is run at how many cores, what is shown, and the bars.
module ManyParts
  ( Part (..),
    parts,
  )
where

import BoostMpi (Mpi (..), mpiJob, mpiPrograms, mpiTitle, timesIdeal)
import Data.List (nub, sortOn)
import Data.Maybe (listToMaybe, mapMaybe)
import DsmJobs (Job (..), programs, timed)
import LockCrowd (crowdClaims, crowdPlot, crowdSides, crowdTables)
import MapCalls (callsClaims, callsSides, callsTables)
import MapHeap (heapClaims, heapPlots, heapSides, heapTables)
import MapPrograms (programsClaims, programsPlots, programsSides, programsTables)
import Maru.Bench.Experiment (Effort (..))
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (commandPath, helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics (Summary (..))

data Part = Part
  { partName :: !String,
    -- | Its share of the ten minutes.
    partSeconds :: !Int,
    -- | What is run, by name; 'Left': why this machine cannot.
    partReady :: Reaper -> IO (Either String [(String, IO Sample)]),
    partTables :: Rounds -> [(String, Table)],
    partPlots :: Rounds -> [Plot],
    partClaims :: Rounds -> [Claim]
  }

-- | Of a machine with so many CPUs.
parts :: Int -> [Part]
parts cores = [mapPart cores, heapPart cores, callsPart cores, programsPart cores, lockPart cores, runPart, dsmPart cores, mpiPart cores]

-- | 1, 2, 4 … and all.
counts :: Int -> [Int]
counts cores = nub (takeWhile (< cores) (iterate (* 2) 1) ++ [cores])

-- Map ------------------------------------------------------------------------

readyMap :: [Side] -> Reaper -> IO (Either String [(String, IO Sample)])
readyMap sides reaper = do
  program <- helperPath "maru-bench-map"
  pure (Right [(sideName side, runSide reaper program side) | side <- sides])

mapPart :: Int -> Part
mapPart cores =
  Part
    { partName = "map",
      partSeconds = 155,
      partReady = readyMap [Side (mapName load way) [mapArguments load way] | load <- mapLoads, way <- mapWays cores],
      partTables = \rounds ->
        [ ( "Map: times as fast as map",
            Table
              ((L, "way") : [(R, name) | (name, _) <- mapLoads])
              [wayName way : [maybe "-" (fixed 2) (mapSpeed rounds load way) | load <- mapLoads] | way <- mapWays cores]
          )
        ],
      partPlots = \rounds -> [curve "Map: forked workers" [(name, [(n, v) | n <- counts cores, Just v <- [mapSpeed rounds load (forked n)]]) | load@(name, _) <- mapLoads]],
      partClaims = \rounds ->
        [ ratio (name ++ ", " ++ wayName auto ++ ": speed of the best of ours, " ++ wayName best) (AtLeast 0.95) wallNs (mapName load best) (mapName load auto)
          | load@(name, _) <- mapLoads,
            given <- [[], capable cores],
            let auto = Way "auto" cores given,
            Just best <- [fastest rounds load [w | w@(Way mapper _ flags) <- mapWays cores, mapper `elem` ours, null flags || flags == given]]
        ]
          ++ [ paired ("grain: speed-up of " ++ wayName (forked cores) ++ " by the cores") (AtLeast 0.9) (\base own -> Just (base / own / fromIntegral cores)) wallNs wallNs (mapName load alone) (mapName load (forked cores))
               | load@("grain", _) <- mapLoads
             ]
    }
  where
    ours = ["shm", "sockets", "sparks", "stm"]

-- | A mapper of @maru-bench-map@, its workers, flags of the run-time system.
data Way = Way !String !Int ![String]
  deriving (Eq)

wayName :: Way -> String
wayName (Way mapper n flags) = unwords ((if mapper == "map" then mapper else mapper ++ " " ++ show n) : flags)

alone :: Way
alone = Way "map" 1 []

forked :: Int -> Way
forked n = Way "shm" n []

capable :: Int -> [String]
capable cores = ["-N" ++ show cores]

mapWays :: Int -> [Way]
mapWays cores =
  [alone]
    ++ map forked (counts cores)
    ++ [Way "sockets" cores [], Way "auto" cores [], Way "auto" cores (capable cores)]
    ++ [Way w cores (capable cores) | w <- ["sparks", "stm"]]
    ++ [Way w cores (capable cores ++ ["-A64m", "-n4m"]) | w <- ["sparks", "parallel", "async", "stm"]]

-- | Name, and what @maru-bench-map@ calls it: some seconds by one core.
mapLoads :: [(String, [String])]
mapLoads =
  [ ("build", ["192"]),
    ("similar", ["240"]),
    ("grain", ["30000", "--grain", "65000"]),
    ("ints", ["512"])
  ]

type Load = (String, [String])

mapName :: Load -> Way -> String
mapName (name, _) way = name ++ ", " ++ wayName way

mapArguments :: Load -> Way -> [String]
mapArguments (name, rest) (Way mapper n flags) =
  ["map", name, mapper] ++ rest ++ ["--workers", show n] ++ (if null flags then [] else "+RTS" : flags)

mapSpeed :: Rounds -> Load -> Way -> Maybe Double
mapSpeed rounds load way = (\base own -> summaryMedian base / summaryMedian own) <$> of' alone <*> of' way
  where
    of' w = summaryOf wallNs rounds (mapName load w)

fastest :: Rounds -> Load -> [Way] -> Maybe Way
fastest rounds load ways = fmap fst . listToMaybe . sortOn snd $ mapMaybe (\w -> (,) w . summaryMedian <$> summaryOf wallNs rounds (mapName load w)) ways

-- A large heap ---------------------------------------------------------------

heapPart :: Int -> Part
heapPart cores =
  Part
    { partName = "heap",
      partSeconds = 50,
      partReady = readyMap (heapSides 12 cores heaps),
      partTables = heapTables cores heaps,
      partPlots = heapPlots cores heaps,
      partClaims = const (heapClaims heaps)
    }
  where
    heaps = [0, 256, 1024]

-- Short calls ----------------------------------------------------------------

callsPart :: Int -> Part
callsPart cores =
  Part
    { partName = "calls",
      partSeconds = 15,
      partReady = readyMap (callsSides cores),
      partTables = callsTables,
      partPlots = const [],
      partClaims = const callsClaims
    }

-- Programs of others --------------------------------------------------------

programsPart :: Int -> Part
programsPart cores =
  Part
    { partName = "programs",
      partSeconds = 60,
      partReady = readyMap (programsSides Full cores),
      partTables = programsTables cores,
      partPlots = programsPlots cores,
      partClaims = programsClaims cores
    }

-- Locks ----------------------------------------------------------------------

lockPart :: Int -> Part
lockPart cores =
  Part
    { partName = "locks",
      partSeconds = 90,
      partReady = \reaper -> do
        program <- helperPath "maru-bench-lock"
        pure (Right [(sideName side, runWords reaper (concat (sideProcesses side))) | side <- crowdSides program "0.3" cores]),
      partTables = crowdTables cores,
      partPlots = \rounds -> [crowdPlot cores rounds],
      partClaims = const (crowdClaims cores)
    }

-- MPI ------------------------------------------------------------------------

mpiPart :: Int -> Part
mpiPart cores =
  Part
    { partName = "mpi",
      partSeconds = 90,
      partReady = \reaper -> do
        here <- mpiPrograms "mpi_loop"
        maru <- commandPath
        pure $
          if null here
            then Left "neither Open MPI nor MPICH is here"
            else Right [(mpiName mpi ours kind n, runWords reaper (mpiJob maru mpi ours n [program, kind, "200", "154"])) | (mpi, program) <- here, kind <- kinds, n <- ranks, ours <- [False, True]],
      partTables = \rounds ->
        [ ( "MPI, 200 µs of computing in each round: wall time by the ideal",
            Table
              ((L, "program") : (R, "ranks") : [(R, wayOf mpi ours) | (mpi, ours) <- ways])
              [[kind, show n] ++ [spreadOf timesIdeal rounds (mpiName mpi ours kind n) | (mpi, ours) <- ways] | kind <- kinds, n <- ranks]
          )
        ],
      partPlots = const [],
      partClaims = const $ concat [claimsAt kind n | kind <- kinds, n <- ranks]
    }
  where
    kinds = ["ring", "allreduce", "halo"]
    ranks = [max 2 (cores - 1), 2 * cores, 4 * cores]
    ways = [(mpi, ours) | mpi <- [Mpich, OpenMpi], ours <- [False, True]]
    wayOf mpi ours = mpiTitle mpi ++ (if ours then ", --wait adaptive" else "")
    mpiName mpi ours kind n = kind ++ ", " ++ show n ++ " ranks, " ++ wayOf mpi ours
    claimsAt kind n
      | n < cores = [times 1.02 (mpiName mpi True kind n) (mpiName mpi False kind n) | mpi <- [Mpich, OpenMpi]]
      | otherwise = [times 1.05 (mpiName OpenMpi True kind n) (mpiName OpenMpi False kind n), times 1.05 (mpiName Mpich True kind n) (mpiName OpenMpi False kind n)]
    times bar left right = ratio (left ++ " by " ++ right) (AtMost bar) timesIdeal left right

-- Shared memory --------------------------------------------------------------

dsmPart :: Int -> Part
dsmPart cores =
  Part
    { partName = "dsm",
      partSeconds = 90,
      partReady = \reaper -> do
        maru <- commandPath
        paths <- mapM (\p -> (,) p <$> helperPath ("dsm-" ++ p)) programs
        pure (Right [(dsmName p n, timed reaper Nothing (Job [maru, "launch", "-n", show n, "--memory", "2048", "--"] [] path (dsmSizes p))) | (p, path) <- paths, n <- counts cores]),
      partTables = \rounds ->
        [ ( "Shared memory over TCP, all nodes here: times as fast as one node",
            Table ([(L, "program"), (R, "one node")] ++ [(R, show n) | n <- drop 1 (counts cores)]) [p : maybe "-" (seconds . summaryMedian) (took rounds p 1) : [maybe "-" (fixed 2) (speed rounds p n) | n <- drop 1 (counts cores)] | p <- programs]
          )
        ],
      partPlots = \rounds -> [curve "Shared memory: nodes of one host" [(p, [(n, v) | n <- counts cores, Just v <- [speed rounds p n]]) | p <- programs]],
      partClaims = const []
    }
  where
    dsmName p n = p ++ ", " ++ plural n "node"
    took rounds p n = summaryOf (number ["seconds"]) rounds (dsmName p n)
    speed rounds p n = (\one own -> summaryMedian one / summaryMedian own) <$> took rounds p 1 <*> took rounds p n

-- | About a second on one node.
dsmSizes :: String -> [String]
dsmSizes program = case program of
  "tsp" -> ["-n", "18", "-c", "0"]
  "raytrace" -> ["-n", "768"]
  "ocean" -> ["-k", "9", "-s", "6"]
  "water" -> ["-n", "1500", "-s", "6"]
  "radix" -> ["-n", "16777216"]
  "fft" -> ["-k", "10"]
  "lu" -> ["-n", "1536", "-b", "32"]
  _ -> ["-n", "1000"]

-- maru run -------------------------------------------------------------------

runPart :: Part
runPart =
  Part
    { partName = "run",
      partSeconds = 15,
      partReady = \reaper -> do
        maru <- commandPath
        pure (Right [(name, runPlain reaper 100 (before maru ++ ["/bin/true"])) | (name, before) <- ways]),
      partTables = \rounds ->
        [ ( "Start and end of /bin/true, milliseconds",
            Table [(L, "way"), (R, "wall"), (R, "processor")] [[name, spreadOf (number ["wall_ms"]) rounds name, spreadOf (number ["cpu_ms"]) rounds name] | (name, _) <- ways]
          )
        ],
      partPlots = const [],
      partClaims =
        const
          [ paired "maru run: ms over plain exec" (AtMost 5) (\l r -> Just (l - r)) (number ["wall_ms"]) (number ["wall_ms"]) "maru run" "exec",
            ratio "maru run: processor time by plain exec's" (AtMost 1.5) (number ["cpu_ms"]) "maru run" "exec"
          ]
    }
  where
    ways =
      [ ("exec", const []),
        ("maru run", \maru -> [maru, "run", "--quiet", "--"]),
        ("maru run --lock", \maru -> [maru, "run", "--quiet", "--lock", "cna", "--"])
      ]

-- Plots ----------------------------------------------------------------------

curve :: String -> [(String, [(Int, Double)])] -> Plot
curve title series =
  Plot title (Axis "cores" Logarithmic) (Axis "times as fast" Linear) [Series name [Point (fromIntegral n) v v v | (n, v) <- points] | (name, points) <- series, not (null points)]
