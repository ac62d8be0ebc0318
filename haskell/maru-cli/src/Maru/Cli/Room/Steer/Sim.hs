{-# LANGUAGE OverloadedStrings #-}

-- | @maru sim io@: the steering controller on a machine that you describe.
module Maru.Cli.Room.Steer.Sim
  ( ioSimulator,
  )
where

import Data.Aeson (Value, object, (.=))
import qualified Data.IntSet as IntSet
import Data.List (intercalate)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, listToMaybe)
import Maru.Cli.Checks
import Maru.Cli.Output
import Maru.Cli.Readers
import Maru.Cli.Room (Simulation (..), Simulator (..))
import Maru.Cli.Room.Steer.Record
import Maru.Control.CpuList (showCpuList)
import Maru.Control.Plot
import Maru.Control.Sim.Check
import Maru.Control.Sim.Io
import Maru.Control.Sim.Verdict
import Maru.Control.Steer
import Options.Applicative

ioSimulator :: Simulator
ioSimulator =
  Simulator
    { simName = "io",
      simPurpose = "Cores for input and output: the controller and its policies against a model of a machine",
      simParser = (\o -> Simulation [] (not (optionVerdict o || optionStudy o)) (begin o)) <$> options
    }

-- | A record is one load, in place of the others.
begin :: Options -> IO (Either String Figures)
begin o = act . with <$> traverse readLooks (optionRecord o)
  where
    with looks = o {optionLoads = maybe (optionLoads o) (pure . replayed (optionPlant o)) looks}

data Options = Options
  { optionSockets :: !Int,
    optionPlant :: !Plant,
    optionPolicies :: ![Policy],
    optionLoads :: ![Load],
    optionRecord :: !(Maybe FilePath),
    optionPeriods :: !Int,
    optionSeed :: !Int,
    optionTimeline :: !Bool,
    optionStudy :: !Bool,
    optionVerdict :: !Bool,
    optionRuns :: !Int
  }

options :: Parser Options
options =
  build
    <$> numbered "sockets" "S" (wholeFrom 1 64 "a number of sockets") 2 "2" "Sockets of the machine; the devices are at the first"
    <*> numbered "cores" "N" (wholeFrom 1 1024 "a number of cores") 24 "24" "Cores in all"
    <*> numbered "policy" "POLICY,..." (listOf (named "policy" policyName allPolicies)) allPolicies "all" ("Policies: " ++ intercalate ", " (map policyName allPolicies))
    <*> numbered "load" "LOAD,..." (listOf (named "load" loadName loads)) loads "all" ("Loads: " ++ intercalate ", " (map loadName loads))
    <*> optional (strOption (long "record" <> metavar "FILE" <> help "In their place: what maru top --record FILE saw, again and again"))
    <*> numbered "periods" "N" (wholeFrom 1 100000 "a number of periods") 300 "300" "Periods of 0.1 s"
    <*> numbered "hand-over-us" "US" (numberFrom 0 1e6 "a time") (plantHandOver (seedPlant (machine 1 1))) "0.4" "What handing a call to another core costs its caller"
    <*> numbered "pollution" "SHARE" (numberFrom 0 10 "a share") (plantPollution (seedPlant (machine 1 1))) "0.15" "By how much calls, and interrupts, slow the computing that shares their core"
    <*> numbered "seed" "N" (wholeFrom 0 maxBound "a number") 1 "1" "Of the scatter"
    <*> switch (long "timeline" <> help "Every change: when, what, why")
    <*> switch (long "study" <> help "The seed's order of policies on 2 and 4 sockets, and a machine on which delegation loses")
    <*> switch (long "verdict" <> help "What the controller's verdicts are worth, seen through noise: wrong keeps, gains found, losses undone, and how soon")
    <*> numbered "runs" "N" (wholeFrom 1 100000 "a number of runs") 40 "40" "With --verdict: runs of each cell"
  where
    build sockets cores policies ls record periods handOver pollution =
      Options sockets (seedPlant (machine sockets cores)) {plantHandOver = handOver, plantPollution = pollution} policies ls record periods

act :: Options -> Either String Figures
act o
  | length (nodes topology) < optionSockets o = Left "sim io needs at least one core a socket"
  | optionVerdict o = Right (verdicts o)
  | optionStudy o = Right (study (optionSeed o))
  | otherwise = Right (comparison o)
  where
    topology = plantTopology (optionPlant o)

-- | A load under a policy; 'Nothing': without a controller.
data Row = Row !Load !(Maybe Policy) ![Period]

comparison :: Options -> Figures
comparison o =
  Figures
    { figuresLine = intercalate "; " [loadName l ++ ": " ++ best l | l <- optionLoads o],
      figuresTables = ("Policies", Table heads (map row rows)) : [("Changes", Table [(L, "load"), (L, "policy"), (R, "period"), (L, "item"), (L, "cores"), (L, "why")] (concatMap changes rows)) | optionTimeline o],
      figuresPlots = [Plot ("Rate under " ++ loadName l) (Axis "period of 0.1 s" Linear) (Axis "operations a second" Linear) [Series (name p) [Point (fromIntegral t) (periodRate x) (periodRate x) (periodRate x) | (t, x) <- zip [0 :: Int ..] xs] | Row l' p xs <- rows, loadName l' == loadName l] | l <- take 1 (optionLoads o)],
      figuresData = object ["rows" .= map json rows]
    }
  where
    rows = [Row l p (run (optionPlant o) (defaultConfig <$> p) l (optionSeed o) (optionPeriods o)) | l <- optionLoads o, p <- Nothing : map Just (optionPolicies o)]
    heads = [(L, "load"), (L, "policy"), (R, "op/s"), (R, "over off"), (R, "changes"), (R, "undone"), (L, "cores in the end")]
    name = maybe "off" policyName
    rate (Row _ _ xs) = summaryRate (summarise xs)
    off l = sum [rate r | r@(Row l' Nothing _) <- rows, loadName l' == loadName l]
    over r@(Row l _ _) = rate r / max 1e-9 (off l)
    row r@(Row l p xs) = [loadName l, name p, fixed 0 (rate r), fixed 3 (over r), show (summaryChanges s), show (summaryUndone s), setsText (summarySets s)]
      where
        s = summarise xs
    best l = case [(over r, name p) | r@(Row l' p _) <- rows, loadName l' == loadName l] of
      [] -> "-"
      r : rs -> let (gain, which) = foldl (\a b -> if fst b > fst a then b else a) r rs in which ++ " " ++ fixed 3 gain
    changes (Row l p xs) =
      [ [loadName l, name p, show t, itemName (actionItem a), cpusText (actionCpus a), reasonName (actionReason a)]
        | (t, x) <- zip [0 :: Int ..] xs,
          a <- periodActions x
      ]
    json r@(Row l p xs) =
      object
        [ "load" .= loadName l,
          "policy" .= name p,
          "ops_per_s" .= rate r,
          "over_off" .= over r,
          "changes" .= summaryChanges (summarise xs),
          "undone" .= summaryUndone (summarise xs),
          "sets" .= setsJson (summarySets (summarise xs)),
          "rates" .= map periodRate xs
        ]

setsText :: Sets -> String
setsText sets = if Map.null sets then "-" else intercalate ", " [itemName item ++ " " ++ cpusText set | (item, set) <- Map.toList sets]

cpusText :: IntSet.IntSet -> String
cpusText set = if IntSet.null set then "none" else showCpuList set

setsJson :: Sets -> Value
setsJson sets = object ["items" .= [object ["item" .= itemName item, "cpus" .= IntSet.toAscList set] | (item, set) <- Map.toList sets]]

-- ---- verdicts ----------------------------------------------------------

-- | Of the first policy that is named.
verdicts :: Options -> Figures
verdicts o =
  Figures
    { figuresLine = show (length (filter missed rows)) ++ " of " ++ show (length rows) ++ " cells miss 95 of 100 (5 of 100 where it must not come)",
      figuresTables = [("Verdicts, " ++ show (optionRuns o) ++ " runs a cell, periods of " ++ fixed 1 periodSeconds ++ " s", Table [(L, "what"), (R, "noise %"), (L, "kind"), (R, "in time %"), (R, "ever %"), (R, "median s"), (R, "95th s"), (R, "placed %")] (map row rows))],
      figuresPlots = [],
      figuresData = object ["rows" .= map json rows]
    }
  where
    config = defaultConfig (fromMaybe Auto (listToMaybe (optionPolicies o)))
    rows = [(q, level, noise, answer config q noise level (optionSeed o) (optionRuns o)) | q <- questions, level <- [0.02, 0.05, 0.2], noise <- allNoises]
    portion n a = 100 * fromIntegral n / fromIntegral (answerRuns a) :: Double
    missed (q, level, _, a) = maybe (portion (answerCame a) a > 5) (const (portion (answerTimely a) a < 95)) (questionWithin q level)
    row (q, level, noise, a) =
      [ questionName q,
        fixed 0 (100 * level),
        noiseName noise,
        maybe "-" (const (fixed 0 (portion (answerTimely a) a))) (questionWithin q level),
        fixed 1 (portion (answerCame a) a),
        if answerCame a > 0 then fixed 1 (answerMedian a) else "-",
        if answerCame a > 0 then fixed 1 (answerMost a) else "-",
        fixed 1 (100 * answerPlaced a)
      ]
    json r@(q, level, noise, a) =
      object
        [ "what" .= questionName q,
          "noise" .= level,
          "kind" .= noiseName noise,
          "runs" .= answerRuns a,
          "came" .= answerCame a,
          "timely" .= (answerTimely a <$ questionWithin q level),
          "median_s" .= answerMedian a,
          "p95_s" .= answerMost a,
          "placed" .= answerPlaced a,
          "misses" .= missed r
        ]

-- ---- study -------------------------------------------------------------

-- | 2000 periods a run: retries of what was undone are rare only in the long run.
study :: Int -> Figures
study seed =
  Figures
    { figuresLine = checkLine checks,
      figuresTables = [("What the seed says and what the model has", checkTable checks)],
      figuresPlots = [],
      figuresData = object ["checks" .= checksJson checks]
    }
  where
    checks =
      concat
        [ [ check ("map-reduce, " ++ where' ++ ": cross-socket over the better of the others") (AtLeast 1) (gain plant mapReduce CrossSocket / max (gain plant mapReduce SingleSocket) (gain plant mapReduce PerSocket)) "best",
            check ("web server, " ++ where' ++ ": per-socket over the better of the others") (AtLeast 1) (gain plant httpd PerSocket / max (gain plant httpd SingleSocket) (gain plant httpd CrossSocket)) "best"
          ]
          | (sockets, cores) <- [(2, 24), (4, 48)],
            let plant = seedPlant (machine sockets cores)
                where' = show sockets ++ " sockets"
        ]
        ++ [ check "one socket where delegation loses: auto over off" (AtLeast 0.97) (gain (losingPlant (machine 1 8)) httpd Auto) "",
             check "two sockets where delegation loses: auto over off" (AtLeast 0.97) (gain (losingPlant (machine 2 24)) mapReduce Auto) ""
           ]
    check name bound figure published = Check name (if null published then Predicted else Assumed) bound figure published
    gain plant task p = rate plant task (Just (defaultConfig p)) / rate plant task Nothing
    rate plant task config = summaryRate (summarise (run plant config (Load "" "" (\t _ -> ([task], IntSet.fromList (concatMap (nodeCpus t) (nodes t))))) seed 2000))
