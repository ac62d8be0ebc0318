-- | A map by threads of one heap, with GHC's collector: it stops all, and copies what is young.
--
-- = The model
--
-- * The mutator alone takes what "Maru.Control.Sim.Map" says of its items, plus the share that does
--   not get faster with cores.
-- * Each capability has an allocation area. A collection begins when one has used its own up; the
--   others have used a share of theirs by then. So collections a second are the rate of allocation
--   by the bytes that are used of all areas.
-- * All capabilities stop for it, at a cost for each. What survives is copied by all collecting
--   threads: a share of the area, up to what the program keeps. A thread that has nothing to copy
--   looks at all others for work: each pair of threads costs something.
-- * An area beyond the core's cache slows the mutator down, by the same share for each doubling.
-- * A core stalls now and then. The others go on until the next collection, which waits for it.
--
-- Not in the model: the old generation's own collections, areas that fill unevenly (@-n@, @-qb@),
-- memory nodes, more threads than cores.
--
-- The same seed gives the same runs on every machine. A run is O(collections + stalls).
module Maru.Control.Sim.Map.Collector
  ( -- * The model
    Collector (..),
    Young (..),
    young,
    collections,
    pause,
    quietTime,
    runTime,
    collectorAblations,

    -- * Calibration
    Observed (..),
    Observations (..),
    calibrated,
    buildObserved,
    measuredCollector,
    Blame (..),
    blameName,
    seedCollector,

    -- * The seed's study
    Study (..),
    study,
    lessSwing,
    studyCores,
    tunedOn,
    sharedAxes,
    collectorChecks,
  )
where

import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Maru.Control.Halving (Axis (..), leader, proposal, record, search)
import Maru.Control.Sim.Check
import Maru.Control.Sim.Map hiding (speedup)
import Maru.Control.Swing
import Maru.Control.Tune.Gc (Scope (..), Settings, axes, sizeOf)
import System.Random.SplitMix (SMGen, mkSMGen, nextDouble)
import Text.Read (readMaybe)

-- | Times in seconds, sizes in bytes.
data Collector = Collector
  { -- | Of the mutator on one core, with an area that its cache holds.
    collectorWork :: !Double,
    collectorItems :: !Int,
    collectorCosts :: !Costs,
    -- | Share of the work that does not get faster with cores: one of them does it alone, or they disturb each other.
    collectorSerial :: !Double,
    -- | In all.
    collectorAllocated :: !Double,
    -- | A capability's area as it is.
    collectorArea :: !Double,
    -- | Share of the other capabilities' areas that is used when a collection begins.
    collectorFill :: !Double,
    -- | Of a collection that copies nothing.
    collectorFixed :: !Double,
    -- | To copy what survives of a byte of an area.
    collectorKeep :: !Double,
    -- | The size of an area of which nothing more survives.
    collectorLive :: !Double,
    -- | To stop and to start one capability more.
    collectorStop :: !Double,
    -- | For each thread that looks at another one for work.
    collectorMeet :: !Double,
    -- | A core's own.
    collectorCache :: !Double,
    -- | Share by which the mutator is slower with each doubling beyond the cache.
    collectorSpill :: !Double,
    -- | Stalls of a core in a second, and their mean length.
    collectorStalls :: !Double,
    collectorStall :: !Double
  }
  deriving (Eq, Show)

-- | What flags make of the young generation.
data Young = Young
  { youngArea :: !Double,
    -- | Threads that collect.
    youngThreads :: !Int
  }
  deriving (Eq, Show)

-- | On so many cores. What the model does not know is as it is.
young :: Collector -> Int -> Settings -> Young
young c cores settings = Young (max area (fromMaybe 0 hint / fromIntegral cores)) threads
  where
    value axis = Map.lookup axis settings
    area = fromMaybe (collectorArea c) (value "allocation" >>= sizeOf "-A")
    hint = value "hint" >>= sizeOf "-H"
    threads = case value "parallel" of
      Just "-qg" -> 1
      Just ('-' : 'q' : 'n' : n) -> maybe cores (max 1 . min cores) (readMaybe n)
      _ -> cores

-- | Areas' worth of what is used when a collection begins.
usedAreas :: Collector -> Int -> Double
usedAreas c cores = 1 + fromIntegral (cores - 1) * collectorFill c

collections :: Collector -> Int -> Young -> Int
collections c cores y = floor (collectorAllocated c / (youngArea y * usedAreas c cores))

pause :: Collector -> Int -> Young -> Double
pause c cores y =
  collectorFixed c
    + collectorStop c * fromIntegral (cores - 1)
    + collectorMeet c * threads * (threads - 1)
    + usedAreas c cores * collectorKeep c * min (youngArea y) (collectorLive c) / threads
  where
    threads = fromIntegral (youngThreads y)

-- | How much slower an area makes the mutator.
spilled :: Collector -> Double -> Double
spilled c area = 1 + collectorSpill c * max 0 (logBase 2 (area / collectorCache c))

mutator :: Collector -> Int -> Young -> Double
mutator c cores y = (collectorSerial c * collectorWork c + (1 - collectorSerial c) * makespan) * spilled c (youngArea y)
  where
    makespan = outcomeMakespan (simulate defaultModel {modelItems = items, modelWorkers = cores, modelItem = collectorWork c / fromIntegral items, modelCosts = collectorCosts c, modelChunking = Fixed 1, modelStart = 0})
    items = max 1 (collectorItems c)

-- | Without stalls.
quietTime :: Collector -> Int -> Young -> Double
quietTime c cores y = mutator c cores y + fromIntegral (collections c cores y) * pause c cores y

runTime :: Collector -> Int -> Young -> SMGen -> Double
runTime c cores y = phases (collections c cores y + 1) 0
  where
    count = collections c cores y + 1
    phase = mutator c cores y / fromIntegral count
    stop = pause c cores y
    phases :: Int -> Double -> SMGen -> Double
    phases left t g
      | left <= 0 = t
      | otherwise = t' `seq` phases (left - 1) t' g''
      where
        (stalls, g') = stallsIn c (fromIntegral cores * phase) g
        (delays, g'')
          | left == 1 = ([], g')
          | otherwise = stallsIn c (fromIntegral (youngThreads y) * stop) g'
        t' = t + phase + sum (map within stalls) / fromIntegral cores + maximum (0 : map beyond stalls) + (if left == 1 then 0 else stop + sum (map snd delays))
    -- Each core has its part of the phases' time, one after another.
    begun (at, _) = at - phase * fromIntegral (floor (at / phase) :: Int)
    within s = min (snd s) (phase - begun s)
    beyond s = max 0 (begun s + snd s - phase)

-- | When and how long, in so many seconds of cores.
stallsIn :: Collector -> Double -> SMGen -> ([(Double, Double)], SMGen)
stallsIn c span'
  | collectorStalls c <= 0 = (,) []
  | otherwise = go 0
  where
    go at g
      | next >= span' = ([], g')
      | otherwise = let (more, end) = go next g'' in ((next, u * collectorStall c) : more, end)
      where
        (gap, g') = exponential g
        (u, g'') = exponential g'
        next = at + gap / collectorStalls c
    exponential g = let (u, g') = nextDouble g in (negate (log (1 - u)), g')

-- | Of so many runs, at least one, that this number names.
meanTime :: Collector -> Int -> Int -> Int -> Young -> Double
meanTime c seed runs cores y = mean (one 1 :| map one [2 .. runs])
  where
    one i = runTime c cores y (mkSMGen (fromIntegral ((seed * 1000 + cores) * 1000 + i)))

-- | The model without each of its parts. The whole model comes first.
collectorAblations :: Collector -> [(String, Collector)]
collectorAblations c =
  [ ("whole model", c),
    ("nothing allocated", c {collectorAllocated = 0}),
    ("collecting threads never meet", c {collectorMeet = 0}),
    ("stopping is free", c {collectorStop = 0}),
    ("nothing survives", c {collectorKeep = 0}),
    ("the cache holds every area", c {collectorSpill = 0}),
    ("no work of one core alone", c {collectorSerial = 0}),
    ("no core stalls", c {collectorStalls = 0})
  ]

-- ---- calibration -------------------------------------------------------

-- | A run as the run-time system tells it.
data Observed = Observed
  { observedMutator :: !Double,
    observedCollecting :: !Double,
    observedCollections :: !Double,
    observedAllocated :: !Double
  }
  deriving (Eq, Show)

-- | One core as it is, with @-A256k@ and with @-A64m@; two cores as they are and with @-qg@, where there are two.
data Observations = Observations
  { onOne :: !Observed,
    onOneSmall :: !Observed,
    onOneLarge :: !Observed,
    onTwo :: !(Maybe (Observed, Observed))
  }
  deriving (Eq, Show)

-- | All costs but stalls. What is not observed stays; no cost becomes negative.
calibrated :: Collector -> Observations -> Collector
calibrated base seen = maybe alone (paired alone) (onTwo seen)
  where
    (small, large) = (262144, 67108864)
    area = collectorArea base
    each o = if observedCollections o > 0 then observedCollecting o / observedCollections o else 0
    keep = max 0 ((each (onOne seen) - each (onOneSmall seen)) / (area - small))
    fixed = max 0 (each (onOneSmall seen) - keep * small)
    doublings size = max 0 (logBase 2 (size / collectorCache base))
    slower = observedMutator (onOneLarge seen) / observedMutator (onOne seen)
    -- (1 + s * large) / (1 + s * area) = slower
    spill = max 0 ((slower - 1) / max 1 (doublings large - slower * doublings area))
    alone =
      base
        { collectorWork = observedMutator (onOne seen) / (1 + spill * doublings area),
          collectorAllocated = observedAllocated (onOne seen),
          collectorFixed = fixed,
          collectorKeep = keep,
          collectorLive = if keep > 0 then max 0 ((each (onOneLarge seen) - fixed) / keep) else 0,
          collectorSpill = spill
        }
    paired c (two, oneCollects) = c' {collectorStop = stop, collectorMeet = meet}
      where
        share = max 0 . min 1
        c' =
          c
            { collectorSerial = share (2 * observedMutator oneCollects / observedMutator (onOne seen) - 1),
              collectorFill = share (observedAllocated two / (max 1 (observedCollections two) * area) - 1),
              collectorStop = 0,
              collectorMeet = 0
            }
        stop = max 0 (each oneCollects - pause c' 2 (Young area 1))
        meet = max 0 ((each two - stop - pause c' 2 (Young area 2)) / 2)

-- | The workload @build@ of @maru bench map\/swing@ on two virtual CPUs
-- (bench\/results\/map\/swing\/2026-11-28-2cpu.json; a test compares).
buildObserved :: Observations
buildObserved =
  Observations
    { onOne = Observed 0.7717335000000001 0.7335735 1198 1250224512,
      onOneSmall = Observed 0.7408335 1.0774725 4789 1250224512,
      onOneLarge = Observed 0.8440730000000001 0.085646 20 1249076528,
      onTwo = Just (Observed 0.31099 0.379912 753.5 1251132920, Observed 0.399775 0.621253 853 1251050196)
    }

-- | 48 equal items and the area of GHC 9.0 on a core with 512 KiB of cache. How often and how long a core
-- stalls is assumed, as in "Maru.Control.Sim.Lock".
measuredCollector :: Collector
measuredCollector = calibrated base buildObserved
  where
    base =
      Collector
        { collectorWork = 0,
          collectorItems = 48,
          collectorCosts = Constant,
          collectorSerial = 0,
          collectorAllocated = 0,
          collectorArea = 1048576,
          collectorFill = 1,
          collectorFixed = 0,
          collectorKeep = 0,
          collectorLive = 0,
          collectorStop = 0,
          collectorMeet = 0,
          collectorCache = 524288,
          collectorSpill = 0,
          collectorStalls = 1,
          collectorStall = 1e-3
        }

-- | Where the seed's loss on 32 cores comes from, which its text leaves open: all of it from collecting
-- threads that meet, or all of it from work that one core does alone.
data Blame = ByCollector | ByProgram
  deriving (Eq, Show, Enum, Bounded)

blameName :: Blame -> String
blameName ByCollector = "seed, the collector to blame"
blameName ByProgram = "seed, the program to blame"

-- | The rows of 81 programs, allocated and collected like these, with the one cost that gives the seed's
-- 7.63 on 32 cores.
seedCollector :: Blame -> Collector -> Collector
seedCollector blame c = between 0 1 (60 :: Int)
  where
    ideal = c {collectorItems = 80, collectorCosts = Falling, collectorSerial = 0, collectorFill = 1, collectorStop = 0, collectorMeet = 0}
    with x = case blame of
      -- In the unit of the program's own time.
      ByCollector -> ideal {collectorMeet = x * collectorWork c}
      ByProgram -> ideal {collectorSerial = x}
    between low high left
      | left == 0 = with low
      | speedUp (with middle) 32 > 7.63 = between middle high (left - 1)
      | otherwise = between low middle (left - 1)
      where
        middle = (low + high) / 2
    speedUp m n = quietTime m 1 (young m 1 Map.empty) / quietTime m n (young m n Map.empty)

-- ---- the study ---------------------------------------------------------

data Study = Study
  { -- | What a search found, by numbers of cores.
    studyFound :: !(Map Int Settings),
    -- | Speed-ups from one core on, of the first of 'studies' studies.
    studyCurves :: ![(Tuning, [Double])],
    -- | Means of the swings of all of them.
    studySwings :: ![(Tuning, Double)]
  }

-- | The seed's.
studyCores :: Int
studyCores = 32

studies :: Int
studies = 10

-- | Axes that the model knows, and a measurement is searched by: the seed's two, and who collects.
sharedAxes :: [String]
sharedAxes = ["allocation", "parallel", "hint"]

-- | What the tuner's own search finds where it measures the model, a run each time.
tunedOn :: Collector -> Int -> Settings
tunedOn c cores = Map.filter (not . null) (go studies (search known))
  where
    known = [axis {axisValues = filter (/= "-qb") (axisValues axis)} | axis <- axes (Scope cores 1 (1 / 0) False sharedAxes)]
    -- No draw of a study's.
    go number s
      | null (proposal s) = leader s
      | otherwise = go (number + 1) (record (Map.fromList [(settings, meanTime c (number + 1) 1 cores (young c cores settings)) | settings <- proposal s]) s)

study :: Collector -> Study
study c =
  Study
    { studyFound = found,
      studyCurves = concat (take 1 curves),
      studySwings = [(tuning, average [swing speeds | all' <- curves, Just speeds <- [lookup tuning all']]) | tuning <- [minBound ..]]
    }
  where
    average values = sum values / fromIntegral studies
    found = Map.fromList [(n, tunedOn c n) | n <- seedTraining]
    curves = [curvesOf seed (time seed Nothing 1) | seed <- [1 .. studies]]
    curvesOf seed one = (AsItIs, plain) : [(tuning, zipWith (speedUp tuning) [1 ..] plain) | tuning <- [AtTraining ..]]
      where
        plain = [one / time seed Nothing n | n <- [1 .. studyCores]]
        speedUp tuning n before = maybe before (\flags -> one / time seed (Just flags) n) (flagsFor found tuning n)
    time seed flags n = meanTime c seed seedRuns n (young c n (fromMaybe Map.empty flags))

-- | The seed's machine, held to what the seed says; and the measured one, held to one round on 16 cores of
-- another machine (bench\/results\/many\/2026-11-23-16cpu.json).
collectorChecks :: Collector -> [Check]
collectorChecks base = concatMap ofBlame [minBound ..] ++ [onSixteen AsItIs 3.7, onSixteen Everywhere 13.9]
  where
    onSixteen tuning measured = Check ("measured: speed-up on 16 cores of another machine, " ++ tuningName tuning) Predicted (Between (0.85 * measured) (1.15 * measured)) (fromMaybe 0 (lookup tuning (studyCurves (study base)) >>= lookup 16 . zip [1 :: Int ..])) (show measured)
    ofBlame blame =
      [ check "speed-up on 32 cores" Calibrated (Between (0.95 * 7.63) (1.05 * 7.63)) (at 32) "7.63",
        check "best on so many cores" Predicted (Between 10 20) (fromIntegral best) "a bottleneck from about 10 on",
        check "speed-up on 72 cores of another machine" Predicted (Between (0.85 * 5) (1.15 * 5)) (at 72) "5"
      ]
        ++ [check ("swing less, " ++ tuningName tuning) Predicted (Between 0.24 0.44) (fromMaybe 0 (lessSwing found tuning)) "0.34" | tuning <- [AtTraining, Everywhere]]
      where
        check name = Check (blameName blame ++ ": " ++ name)
        c = seedCollector blame base
        at n = time 1 / time n
        time n = meanTime c 1 seedRuns n (young c n Map.empty)
        found = study c
        best = snd (maximum (zip (fromMaybe [] (lookup AsItIs (studyCurves found))) [1 :: Int ..]))

-- | The share by which a tuning makes the swing less.
lessSwing :: Study -> Tuning -> Maybe Double
lessSwing found tuning = do
  before <- lookup AsItIs (studySwings found)
  lookup tuning (studySwings found) >>= lessBy before
