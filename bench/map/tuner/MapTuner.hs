{-# LANGUAGE OverloadedStrings #-}

-- | @map\/tuner@: what @maru tune gc@ finds beside the best of an exhaustive grid, and with how many runs.
module MapTuner
  ( tunerExperiment,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.List (intercalate, sortOn)
import Data.Maybe (fromMaybe, mapMaybe)
import GHC.Conc (getNumProcessors)
import GcRun
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Halving (Axis (..))
import Maru.Control.Ratio
import Maru.Control.Statistics
import Maru.Control.Tune.Gc (Objective (..), Scope (..), axes, cost, objectiveName)

tunerExperiment :: Experiment
tunerExperiment =
  Experiment
    { experimentName = "map/tuner",
      experimentPurpose = "maru tune gc beside an exhaustive grid of -A, -n, -N and -F: how near to its best, with how many of its runs",
      experimentRun = run
    }

-- | Names, and what the measured process is told: some half a second, because the grid has hundreds of runs,
-- and a run of 50 ms ends at a tick of 10 ms, a fifth of it.
programs :: [(String, [String])]
programs =
  [ ("build", ["map", "build", "parallel", "24"]),
    ("kmeans", ["map", "kmeans", "parallel", "160000", "--grain", "4"]),
    ("similar", ["map", "similar", "parallel", "60"])
  ]

-- | Of what there shall be less. The grid's runs count both.
sought :: [Objective]
sought = [LeastTime, LeastWork]

metricOf :: Objective -> Sample -> Maybe Double
metricOf objective = if objective == LeastWork then number ["meter", "cpu_ns"] else wallNs

-- | The axes that the grid has.
gridAxes :: [String]
gridAxes = ["capabilities", "allocation", "chunks", "old"]

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  cores <- getNumProcessors
  found <- concat <$> mapM (oneProgram reaper effort say program cores) programs
  let judged = [judgeClaim (outcomeRounds o) claim | o <- found, claim <- outcomeClaims o]
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ( "The best of the grid, what the tuner found, the program as it is: milliseconds, medians; runs of each search",
              Table
                [(L, "program"), (L, "of"), (L, "best of the grid"), (R, "ms"), (L, "tuner"), (R, "ms"), (R, "as it is, ms"), (R, "runs of the grid"), (R, "of the tuner")]
                [ [outcomeName o, objectiveName (outcomeObjective o), outcomeBest o, ms o "grid", outcomeTuned o, ms o "tuner", ms o "as it is", show (outcomeGridRuns o), show (outcomeTunerRuns o)]
                  | o <- found
                ]
            ),
            ("Claims", claimsTable judged)
          ],
        figuresPlots = [],
        figuresData = object ["cores" .= cores, "programs" .= map outcomeJson found, "claims" .= map claimJson judged]
      }
  where
    ms o side = maybe "-" (fixed 0 . (/ 1e6) . summaryMedian) (summaryOf (metricOf (outcomeObjective o)) (outcomeRounds o) side)

data Outcome = Outcome
  { outcomeName :: !String,
    outcomeObjective :: !Objective,
    outcomeBest :: !String,
    outcomeTuned :: !String,
    outcomeGridRuns :: !Int,
    outcomeTunerRuns :: !Int,
    outcomeGrid :: ![(String, [Double])],
    outcomeSaid :: !Value,
    outcomeRounds :: !Rounds
  }

outcomeJson :: Outcome -> Value
outcomeJson o =
  object
    [ "program" .= outcomeName o,
      "objective" .= objectiveName (outcomeObjective o),
      "best" .= outcomeBest o,
      "tuned" .= outcomeTuned o,
      "grid" .= [object ["flags" .= flags, "ns" .= ns] | (flags, ns) <- outcomeGrid o],
      "tuner" .= outcomeSaid o,
      "measured" .= roundsJson (outcomeRounds o)
    ]

outcomeClaims :: Outcome -> [Claim]
outcomeClaims o =
  [ nearness (outcomeName o) (outcomeObjective o),
    -- Counted, not measured: all pairs are the same.
    Claim (outcomeName o ++ ", " ++ objectiveName (outcomeObjective o) ++ ": runs of the tuner by those of the grid") [] (const (replicate fewestPairs (fromIntegral (outcomeTunerRuns o) / fromIntegral (outcomeGridRuns o)))) (AtMost 0.25)
  ]

nearness :: String -> Objective -> Claim
nearness name objective = ratio (name ++ ", " ++ objectiveName objective ++ ": with what the tuner found by that with the best of the grid") (AtMost 1.03) (metricOf objective) "tuner" "grid"

-- | Every setting of the grid; then for each objective the tuner, and new interleaved rounds of what they found.
oneProgram :: Reaper -> Effort -> (String -> IO ()) -> FilePath -> Int -> (String, [String]) -> IO [Outcome]
oneProgram reaper effort say program cores (name, arguments) = do
  gridded <- runRoundsBetween (gridRounds, gridRounds) effort (say . ((name ++ ", grid: ") ++)) measure [Side flags [words flags] | flags <- grid cores] (const [])
  mapM (oneObjective gridded) sought
  where
    gridRounds = 3
    oneObjective gridded objective = do
      let metric = metricOf objective
          title = name ++ ", " ++ objectiveName objective
          ranked = sortOn snd [(flags, summaryMedian s) | flags <- grid cores, Just s <- [summaryOf metric gridded flags]]
          best = maybe "" fst (safeHead ranked)
      say (title ++ ": the tuner")
      said <- tuned objective
      let settings = fromMaybe "" (at ["data", "won"] said)
          runs = maybe 0 round (number ["data", "runs"] said) :: Int
      rounds <- runRounds effort (say . ((title ++ ": ") ++)) measure [Side side [words flags] | (side, flags) <- [("grid", best), ("tuner", settings), ("as it is", "")]] (const [nearness name objective])
      pure (Outcome name objective best settings (length (grid cores) * gridRounds) runs [(flags, mapMaybe metric (samplesOf gridded flags)) | flags <- grid cores] said rounds)
    safeHead xs = case xs of
      x : _ -> Just x
      [] -> Nothing
    measure side = do
      (wall, statistics) <- gcRun reaper name job (concat (sideProcesses side))
      pure (object ["meter" .= object ["wall_ns" .= wall, "cpu_ns" .= fmap (* 1e9) (cost LeastWork 0 statistics)]])
    job = mapJob (program : arguments)
    tuned objective = gcTuned reaper ["--budget", "1h", "--objective", objectiveName objective, "--only", commas gridAxes] job []
    commas = intercalate ","

-- | Flags of every setting.
grid :: Int -> [String]
grid cores = [unwords (filter (not . null) flags) | flags <- mapM values gridAxes]
  where
    values name = concat [axisValues axis | axis <- axes (Scope cores 1 (1 / 0) False []), axisName axis == name]
