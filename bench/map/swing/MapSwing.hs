{-# LANGUAGE OverloadedStrings #-}

-- | @map\/swing@: the seed's study of the collector. The speed-up curve of the checker before and after
-- its flags were tuned at some numbers of cores, how much it swings, and what a model of the collector
-- says of cores that the machine lacks.
module MapSwing
  ( swingExperiment,

    -- * Its parts
    swingSides,
    observations,
  )
where

import Control.Exception (bracket)
import Control.Monad ((>=>))
import Data.Aeson (Value, object, (.=))
import Data.Char (toLower)
import qualified Data.IntSet as IntSet
import Data.List (intercalate, nub, stripPrefix)
import Data.List.NonEmpty (nonEmpty)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, listToMaybe, mapMaybe)
import GHC.Conc (getNumProcessors)
import GcRun
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Host (readText)
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Cli.Room.Map.CollectorSim
import Maru.Control.Observe.Parse (parseAllowed)
import Maru.Control.Plot
import Maru.Control.Sim.Map (Costs (..))
import Maru.Control.Sim.Map.Collector
import Maru.Control.Statistics
import Maru.Control.Swing
import Maru.Control.Tune.Gc (sizeOf)
import System.Directory (getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (lookupEnv)
import System.FilePath ((</>))
import System.Posix.Temp (mkdtemp)
import Text.Read (readMaybe)

swingExperiment :: Experiment
swingExperiment =
  Experiment
    { experimentName = "map/swing",
      experimentPurpose = "The seed's study of the collector: swing of the checker's speed-up curve before and after maru tune gc; simulated up to 32 cores",
      experimentRun = run
    }

-- | What is measured: a name, its items for the model, and its process.
data Program = Program
  { programName :: !String,
    programItems :: !Int,
    programCosts :: !Costs,
    programJob :: ![String]
  }

-- | The seed's program; and one whose collector has something to do, which the checker's no longer has.
programs :: Effort -> FilePath -> FilePath -> [Program]
programs effort helper folder =
  [ Program "similar" (compared effort - 1) Falling (mapJob ["env", "MARU_BENCH_CORPUS=" ++ folder, helper, "map", "similar", "parallel", show (compared effort)]),
    Program "build" builds Constant (mapJob [helper, "map", "build", "parallel", show builds])
  ]
  where
    builds = if effort == Quick then 12 else 48

-- | Java programs; in full as many as the seed's.
compared :: Effort -> Int
compared effort = if effort == Quick then 27 else 81

-- | What was found of one program.
data Outcome = Outcome
  { outcomeProgram :: !Program,
    -- | Flags that won, by numbers of cores that were searched.
    outcomeFound :: !(Map Int [String]),
    outcomeSaid :: !(Map Int Value),
    outcomeRounds :: !Rounds
  }

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  helper <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  base <- ofMachine
  outcomes <- withCorpus (\folder -> runTool reaper helper ["corpus", show (compared effort), folder]) (mapM (oneProgram reaper effort say cores) . programs effort helper)
  pure (figures cores base outcomes)

-- | In a folder of Java programs: the user's, or one that the first argument fills and that goes at the end.
withCorpus :: (FilePath -> IO filled) -> (FilePath -> IO a) -> IO a
withCorpus fill act = lookupEnv "MARU_BENCH_CORPUS" >>= maybe own act
  where
    own = bracket (getTemporaryDirectory >>= mkdtemp . (</> "maru-swing-")) removeDirectoryRecursive (\folder -> fill folder >> act folder)

-- | The search at some numbers of cores; then all that a curve needs, in interleaved rounds.
oneProgram :: Reaper -> Effort -> (String -> IO ()) -> Int -> Program -> IO Outcome
oneProgram reaper effort say cores program = do
  said <- Map.fromList <$> mapM tuned (trainingOn cores)
  let found = Map.map (maybe [] words . at ["data", "won"]) said
  Outcome program found said <$> runRoundsBetween (seedRuns, seedRuns) effort (say . ((name ++ ": ") ++)) measure (swingSides cores found) (const [])
  where
    name = programName program
    tuned n = do
      say (name ++ ": the tuner, " ++ plural n "core")
      job <- pinned n
      (,) n <$> gcTuned reaper ["--budget", if effort == Quick then "5s" else "20m", "--only", intercalate "," sharedAxes] job [capabilities n]
    measure side = do
      job <- pinned (coresOf side)
      (_, statistics) <- gcRun reaper (name ++ ", " ++ sideName side) job (concat (sideProcesses side))
      pure (object ["rts" .= Map.filterWithKey (\key _ -> key `elem` kept) statistics])
    -- A capability whose thread is in foreign code runs another: one alone would have all cores.
    pinned n = do
      allowed <- either (const Nothing) parseAllowed <$> readText "/proc/self/status"
      pure (maybe [] (\cpus -> ["taskset", "-c", intercalate "," (map show (take n (IntSet.toAscList cpus)))]) allowed ++ programJob program)
    kept = ["total_wall_seconds", "mut_wall_seconds", "GC_wall_seconds", "mut_cpu_seconds", "GC_cpu_seconds", "num_GCs", "allocated_bytes", "copied_bytes"]

-- | Every number of cores with every tuning's flags, once each; and what the model is calibrated by.
swingSides :: Int -> Map Int [String] -> [Side]
swingSides cores found =
  [ Side (named n flags) [capabilities n : flags]
    | (n, flags) <- nub ([(n, flagsOf found tuning n) | tuning <- [minBound ..], n <- [1 .. cores]] ++ [(1, small), (1, large)] ++ [(2, one) | cores > 1])
  ]

-- | Of @-N4@, four.
coresOf :: Side -> Int
coresOf side = fromMaybe 1 (listToMaybe (mapMaybe (stripPrefix "-N" >=> readMaybe) (concat (sideProcesses side))))

small, large, one :: [String]
small = ["-A256k"]
large = ["-A64m"]
one = ["-qg"]

capabilities :: Int -> String
capabilities n = "-N" ++ show n

flagsOf :: Map Int [String] -> Tuning -> Int -> [String]
flagsOf found tuning = fromMaybe [] . flagsFor found tuning

named :: Int -> [String] -> String
named n flags = unwords (plural n "core" : flags)

-- | The seed's two measures: all that the program takes, and that without its collector.
total, mutator :: Sample -> Maybe Double
total = number ["rts", "total_wall_seconds"]
mutator = number ["rts", "mut_wall_seconds"]

meanOf :: (Sample -> Maybe Double) -> Outcome -> Tuning -> Int -> Maybe Double
meanOf metric o tuning n = mean <$> nonEmpty (mapMaybe metric (samplesOf (outcomeRounds o) (named n (flagsOf (outcomeFound o) tuning n))))

-- | Of all cores up to so many, over one as it is.
speedUps :: (Sample -> Maybe Double) -> Int -> Outcome -> Tuning -> [(Int, Double)]
speedUps metric cores o tuning = [(n, alone / taken) | Just alone <- [meanOf metric o AsItIs 1], n <- [1 .. cores], Just taken <- [meanOf metric o tuning n]]

-- ---- the model ---------------------------------------------------------

-- | One core by its processor time, which other work on the machine changes little. Two cores by the
-- shortest of their runs; where the machine has more to do than they, by processor time as well, as if both
-- had run all the time. 'Nothing' where a side has not run.
observations :: Int -> Rounds -> Maybe Observations
observations cores rounds = do
  plain <- cpu 1 1 []
  Observations plain <$> cpu 1 1 small <*> cpu 1 1 large <*> pure ((,) <$> pair 2 [] <*> pair 1 one)
  where
    -- Our own runs are a load of all cores.
    pair collecting = if all (<= fromIntegral cores + 0.5) (loadsOf rounds) then wall else cpu 2 collecting
    wall = observed summaryLeast "mut_wall_seconds" "GC_wall_seconds" 2 1 1
    cpu n = observed summaryMedian "mut_cpu_seconds" "GC_cpu_seconds" (round n) n
    observed pick m c n computing collecting flags = Observed . (/ computing) <$> value pick m <*> ((/ collecting) <$> value pick c) <*> value summaryMedian "num_GCs" <*> value summaryMedian "allocated_bytes"
      where
        value choose key = choose <$> summaryOf (number ["rts", key]) rounds (named n flags)

-- | The load before each round.
loadsOf :: Rounds -> [Double]
loadsOf (Rounds rounds) = mapMaybe readMaybe (concat [take 1 (words said) | (said, _) <- rounds])

observedJson :: Observations -> Value
observedJson seen = object (["one_core" .= of' onOne, "one_core_small" .= of' onOneSmall, "one_core_large" .= of' onOneLarge] ++ concat [["two_cores" .= run' two, "two_cores_one_collects" .= run' alone] | Just (two, alone) <- [onTwo seen]])
  where
    of' which = run' (which seen)
    run' o = object ["mutator_s" .= observedMutator o, "collecting_s" .= observedCollecting o, "collections" .= observedCollections o, "allocated_bytes" .= observedAllocated o]

-- | The recorded model with this machine's cache.
ofMachine :: IO Collector
ofMachine = do
  cache <- readText "/sys/devices/system/cpu/cpu0/cache/index2/size"
  let bytes = either (const Nothing) (sizeOf "" . map toLower . concat . words) cache
  pure measuredCollector {collectorCache = fromMaybe (collectorCache measuredCollector) bytes}

-- | With the area that collections on one core show, as a power of two: it differs between versions of GHC.
modelOf :: Int -> Collector -> Outcome -> Maybe Collector
modelOf cores base o = do
  seen <- observations cores (outcomeRounds o)
  let each = observedAllocated (onOne seen) / max 1 (observedCollections (onOne seen))
      area = if observedCollections (onOne seen) < 20 then collectorArea base else 2 ** fromIntegral (round (logBase 2 each) :: Int)
  pure (calibrated base {collectorItems = programItems (outcomeProgram o), collectorCosts = programCosts (outcomeProgram o), collectorArea = area} seen)

-- ---- showing -----------------------------------------------------------

figures :: Int -> Collector -> [Outcome] -> Figures
figures cores base outcomes =
  Figures
    { figuresLine = intercalate "; " ([programName (outcomeProgram o) ++ ", 1 to " ++ plural cores "core" ++ ": swing " ++ swingCell cores o AsItIs ++ ", tuned " ++ swingCell cores o AtTraining | o <- outcomes] ++ ["published 34 % less; cores beyond are simulated; " ++ loadLine outcomes]),
      figuresTables =
        [ ("Measured: milliseconds, and times as fast as one core as it is; " ++ means, measuredTable cores outcomes),
          ("Measured: swing from 1 to " ++ plural cores "core" ++ ", and by what share it is less; published 34 % less", Table ((L, "program") : [(R, tuningName tuning) | tuning <- tunings]) [programName (outcomeProgram o) : map (swingCell cores o) tunings | o <- outcomes])
        ]
          ++ simulatedTables studied
          ++ [("Calibrated by what was measured on one core and on two", calibratedTable models)],
      figuresPlots = map (plotOf cores) outcomes ++ simulatedPlots studied,
      figuresData =
        object
          [ "cores" .= cores,
            "runs" .= runs,
            "programs" .= map (outcomeJson cores) outcomes,
            "simulated" .= simulatedJson studied,
            "calibrated" .= [object ["program" .= name, "observed" .= fmap observedJson (observations cores (outcomeRounds o)), "model" .= show c] | (o, (name, c)) <- zip outcomes models]
          ]
    }
  where
    tunings = [minBound ..]
    runs = maximum (0 : [length (samplesOf (outcomeRounds o) (named 1 [])) | o <- outcomes])
    means = "means of " ++ plural runs "run" ++ (if runs < seedRuns then ", where the seed has " ++ show seedRuns else "")
    models = [(programName (outcomeProgram o), c) | o <- outcomes, Just c <- [modelOf cores base o]]
    studied = [(name, study c) | (name, c) <- models ++ concat [seedMachines c | ("build", c) <- models]]

-- | Two cores at a load of twenty have no second core.
loadLine :: [Outcome] -> String
loadLine outcomes = case concatMap (loadsOf . outcomeRounds) outcomes of
  [] -> "load unknown"
  loads -> "load " ++ fixed 1 (minimum loads) ++ " to " ++ fixed 1 (maximum loads)

swingCell :: Int -> Outcome -> Tuning -> String
swingCell cores o tuning = fixed 2 (of' tuning) ++ (if tuning == AsItIs then "" else less (lessBy (of' AsItIs) (of' tuning)))
  where
    of' = swing . map snd . speedUps total cores o

measuredTable :: Int -> [Outcome] -> Table
measuredTable cores outcomes =
  Table
    ([(L, "program"), (L, "tuning"), (L, "flags that were found")] ++ [(R, show n) | n <- [1 .. cores]])
    [ [programName (outcomeProgram o), tuningName tuning, if tuning == AsItIs then "" else found o] ++ [maybe "-" (fixed 0 . (1e3 *)) (meanOf total o tuning n) ++ " (" ++ maybe "-" (fixed 2) (lookup n (speedUps total cores o tuning)) ++ ")" | n <- [1 .. cores]]
      | o <- outcomes,
        tuning <- [minBound ..]
    ]
  where
    found o = intercalate "; " [show n ++ ": " ++ (if null flags then "no gain" else unwords flags) | (n, flags) <- Map.toList (outcomeFound o)]

calibratedTable :: [(String, Collector)] -> Table
calibratedTable models =
  Table
    ((L, "number") : [(R, name) | (name, _) <- models])
    [ label : [fixed digits (scale * value c) | (_, c) <- models]
      | (label, digits, scale, value) <-
          [ ("collections on one core", 0, 1, fromIntegral . alone collections),
            ("their share of its time, %", 1, 100, \c -> 1 - quiet c {collectorAllocated = 0} / quiet c),
            ("work of the mutator, ms", 0, 1e3, collectorWork),
            ("share of it on one core alone, %", 1, 100, collectorSerial),
            ("allocated, MB", 1, 1e-6, collectorAllocated),
            ("allocation area, KiB", 0, 1 / 1024, collectorArea),
            ("share of the others' areas in use, %", 0, 100, collectorFill),
            ("a collection, us", 1, 1e6, collectorFixed),
            ("copying what survives of an area's MiB, us", 1, 1e6 * 1048576, collectorKeep),
            ("nothing more survives beyond an area of, MiB", 1, 1 / 1048576, collectorLive),
            ("stopping a capability more, us", 1, 1e6, collectorStop),
            ("a thread that looks at another for work, us", 1, 1e6, collectorMeet),
            ("slower with each doubling beyond the cache, %", 1, 100, collectorSpill)
          ]
    ]
  where
    alone f c = f c 1 (young c 1 Map.empty)
    quiet = alone quietTime

plotOf :: Int -> Outcome -> Plot
plotOf cores o =
  Plot
    (programName (outcomeProgram o) ++ ", measured")
    (Axis "cores" Linear)
    (Axis "times as fast as one core" Linear)
    [Series (tuningName tuning) [Point (fromIntegral n) v v v | (n, v) <- speedUps total cores o tuning] | tuning <- [minBound ..]]

outcomeJson :: Int -> Outcome -> Value
outcomeJson cores o =
  object
    [ "program" .= programName (outcomeProgram o),
      "found" .= Map.map unwords (outcomeFound o),
      "tuner" .= outcomeSaid o,
      "curves"
        .= [ object ["series" .= tuningName tuning, "simulated" .= False, "cores" .= map fst points, "total" .= map snd points, "mut" .= map snd (speedUps mutator cores o tuning), "swing" .= swing (map snd points), "less" .= lessBy (swing plain) (swing (map snd points))]
             | tuning <- [minBound ..],
               let points = speedUps total cores o tuning
           ],
      "measured" .= roundsJson (outcomeRounds o)
    ]
  where
    plain = map snd (speedUps total cores o AsItIs)
