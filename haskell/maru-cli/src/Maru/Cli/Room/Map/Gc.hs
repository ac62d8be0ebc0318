{-# LANGUAGE OverloadedStrings #-}

-- | @maru tune gc@: flags of GHC's run-time system for a Haskell program, by measurement. They travel
-- in @GHCRTS@, so the command line stays as it is and a program that is not GHC's simply shows no
-- gain. First a search with few runs of many settings ("Maru.Control.Halving"), then a race of the
-- best one with the program as it is, which alone decides.
module Maru.Cli.Room.Map.Gc
  ( gcTuner,
  )
where

import Control.Monad (when)
import Data.Aeson (Value, object, (.=))
import qualified Data.ByteString.Char8 as Chars
import Data.Either (fromRight)
import Data.IORef
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Data.List (intercalate, sortOn)
import Data.List.NonEmpty (nonEmpty)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, mapMaybe)
import GHC.Clock (getMonotonicTime)
import GHC.Conc (getNumProcessors)
import Maru.Cli.Exit
import Maru.Cli.Host (readText)
import Maru.Cli.Machine (readMachine)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.TuneRace
import Maru.Control.Halving (Heat (..), Search, close, heats, leader, proposal, search, underway)
import qualified Maru.Control.Halving as Halving
import Maru.Control.Observe (machineCpus)
import Maru.Control.Plot
import Maru.Control.Race
import Maru.Control.Ratio (Estimate (..), estimate)
import Maru.Control.Statistics
import Maru.Control.Tune.Gc
import Options.Applicative hiding (internal)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.Process
import Text.Read (readMaybe)

data Flags = Flags
  { flagObjective :: !Objective,
    flagMaru :: !Bool,
    flagOnly :: ![String],
    flagSvg :: !(Maybe FilePath)
  }

gcTuner :: Tuner
gcTuner =
  Tuner
    { tunerName = "gc",
      tunerPurpose = "The collector's flags of a Haskell program (+RTS -A, -N, -qg and their kin), linked with -rtsopts",
      tunerExample = "--budget 1m --name sort -- ./sort big.txt",
      tunerParser = flags,
      tunerPicture = flagSvg,
      tunerRun = tuneGc
    }
  where
    flags =
      Flags
        <$> option (oneOf "an objective" [(objectiveName o, o) | o <- objectives]) (long "objective" <> metavar "WHAT" <> value LeastTime <> help "Of what there shall be less: time (default), cpu (processor time), pause (the longest), memory (the peak), both (time and memory)")
        <*> switch (long "maru" <> help "The program maps with maru: search its back end and its workers, too")
        <*> option (eitherReader (mapM known . splitOn)) (long "only" <> metavar "AXIS,..." <> value [] <> help ("Search only these: " ++ intercalate ", " axisNames))
        <*> optional (strOption (long "svg" <> metavar "FILE" <> help "Draw what was measured"))
    known name
      | name `elem` axisNames = Right name
      | otherwise = Left ("unknown axis '" ++ name ++ "'; known: " ++ intercalate ", " axisNames)
    splitOn text = case break (== ',') text of
      (word, _ : rest) -> word : splitOn rest
      (word, []) -> [word]
    oneOf what table = eitherReader (\text -> maybe (Left ("unknown: '" ++ text ++ "'; " ++ what ++ " is one of " ++ intercalate ", " (map fst table))) Right (lookup text table))

tuneGc :: Flags -> TuneContext -> IO Tuned
tuneGc flags context = do
  scope <- Scope <$> getNumProcessors <*> (IntSet.size . IntSet.fromList . IntMap.elems . machineCpus <$> readMachine "/") <*> roomForAreas <*> pure (flagMaru flags) <*> pure (flagOnly flags)
  when (null (proposal (search (axes scope)))) $
    problem unavailable ("there is nothing to search here for --only " ++ intercalate "," (flagOnly flags) ++ ": this machine has one value of it")
  given <- fromMaybe "" . lookup "GHCRTS" <$> getEnvironment
  seen <- newIORef Map.empty
  failures <- newIORef Map.empty
  let start' = search (axes scope)
      before = leader start'
      objective = flagObjective flags
      measured most settings = do
        ran <- runOnce context given most settings
        case ran of
          Left why -> Nothing <$ (modifyIORef' failures (Map.insert settings why) >> tuneSay context (shown settings ++ ": " ++ why))
          Right Nothing -> pure Nothing
          Right (Just r) -> cost objective (runWall r) (runStatistics r) <$ modifyIORef' seen (Map.insert settings (runStatistics r))
  first <- runOnce context given (tuneBudget context) before >>= either (problem badInput . (++ "; if it runs well by itself: link it with -rtsopts")) pure
  baseline <- maybe (problem badInput (notDone context)) pure first
  found <- searchWithin context (tuneEnd context - 0.35 * tuneBudget context) (runWall baseline) measured start'
  let closed = close found
  race <- decide context objective (runWall baseline) measured before (leader closed)
  failed <- readIORef failures
  mapM_ ranAndThenNot (Map.lookup before failed)
  statistics <- readIORef seen
  pure (judged objective given (runStatistics baseline) statistics failed (null (proposal found)) closed race) {tunedPicture = Just (surface objective closed)}

-- | Bytes: a quarter of the memory that is free.
roomForAreas :: IO Double
roomForAreas = do
  known <- mapM (fmap (fromRight "") . readText) ["/proc/meminfo", "/sys/fs/cgroup/memory.max"]
  let free = [1024 * n | line <- lines (concat (take 1 known)), ["MemAvailable:", text, "kB"] <- [words line], Just n <- [readMaybe text]]
      limit = mapMaybe readMaybe (drop 1 known)
  pure (minimum (1 / 0 : free ++ limit) / 4)

data Run = Run
  { runWall :: !Double,
    runStatistics :: !Statistics
  }

-- | For so many seconds at most; 'Nothing': it was not done. 'Left': one line, why this run does
-- not count.
runOnce :: TuneContext -> String -> Double -> Settings -> IO (Either String (Maybe Run))
runOnce context given most settings = withScratch "maru-gc" $ \file -> do
  environment <- filter ((`notElem` ("GHCRTS" : map fst own)) . fst) <$> getEnvironment
  let rts = unwords ([given | not (null given)] ++ rtsFlags settings ++ ["-t" ++ file, "--machine-readable"])
      job = (proc (tuneCommand context) (tuneArguments context)) {env = Just (("GHCRTS", rts) : own ++ environment)}
  outcome <- timed context most (tuneCommand context) job
  -- The command line in it may be any bytes.
  statistics <- parseStatistics . Chars.unpack <$> Chars.readFile file
  pure $ case outcome of
    Left why -> Left why
    Right Nothing -> Right Nothing
    Right (Just wall)
      | Map.null statistics -> Left ("'" ++ tuneCommand context ++ "' did not accept GHCRTS: it is not a GHC program, or linked without -rtsopts")
      | otherwise -> Right (Just (Run wall statistics))
  where
    own = variables settings

-- | The search until that time, or until it is over. A round that the time cuts off is dropped; a
-- setting that takes a second and four times as long as the program as it is has lost.
searchWithin :: TuneContext -> Double -> Double -> (Double -> Settings -> IO (Maybe Double)) -> Search String String -> IO (Search String String)
searchWithin context latest usual measured = go (1 :: Int) usual
  where
    -- A run is expected to take as long as those of the round before.
    go number each s
      | null field = pure s
      | otherwise = do
        begun <- getMonotonicTime
        if begun + each * fromIntegral (length field) > latest
          then s <$ tuneSay context "there is no time to search more"
          else do
            results <- oneRound [] field
            ended <- getMonotonicTime
            let next = maybe s (\found -> Halving.record (Map.fromList found) s) results
            tuneSay context ("search, round " ++ show number ++ ": " ++ maybe "" (++ ", ") (underway s) ++ plural (length field) "setting" ++ "; best so far: " ++ shown (leader next))
            if null results then pure s else go (number + 1) ((ended - begun) / fromIntegral (length field)) next
      where
        field = proposal s
    oneRound found [] = pure (Just (reverse found))
    oneRound found (c : cs) = do
      now <- getMonotonicTime
      v <- if now < latest then measured (min (latest - now) (max 1 (4 * usual))) c else pure Nothing
      ended <- getMonotonicTime
      if null v && ended >= latest then pure Nothing else oneRound (maybe id ((:) . (,) c) v found) cs

-- | The last race, of two. It is patient by the clock, whatever is counted.
decide :: TuneContext -> Objective -> Double -> (Double -> Settings -> IO (Maybe Double)) -> Settings -> Settings -> IO (Race Settings)
decide context objective usual measured before winner
  | winner == before = pure (start before [])
  | otherwise = do
    tuneSay context ("comparing " ++ shown winner ++ " with the program as it is")
    raceWithin context lastRounds (tuneEnd context) timely (start before [winner])
  where
    -- Twice what an interval needs: the search has most of the runs.
    lastRounds = 12
    timely most settings
      | objective == LeastTime = measured most settings
      | otherwise = do
        now <- getMonotonicTime
        measured (min (tuneEnd context - now) (max 1 (4 * usual))) settings

-- Judging --------------------------------------------------------------------------

-- | From what the program did as it is, with each setting last, those that failed and why, and whether the
-- search came to its end.
judged :: Objective -> String -> Statistics -> Map.Map Settings Statistics -> Map.Map Settings String -> Bool -> Search String String -> Race Settings -> Tuned
judged objective given statistics seen failed whole found race =
  Tuned
    { tunedEnvironment = environmentOf <$> won,
      tunedLine = verdictLine objective failed whole found race,
      tunedAdvice = [what | let { what = changes statistics (won >>= (`Map.lookup` seen)) }, not (null what)] ++ advice objective statistics won,
      tunedPicture = Nothing,
      tunedStatus = ExitSuccess,
      tunedTable = Table [(L, "search"), (L, "setting"), (R, "runs"), (R, "median"), (R, "least"), (R, "most")] (concatMap rows (heats found) ++ [row "last race" c ts | (c, ts) <- Map.toList (times race)] ++ [["failed", shown c, "-", "-", "-", "-"] | c <- Map.keys failed]),
      tunedData = evidence
    }
  where
    won = case verdict race of
      Gain s _ -> Just s
      _ -> Nothing
    environmentOf s = [("GHCRTS", unwords flags') | let { flags' = [given | not (null given)] ++ rtsFlags s }, not (null flags')] ++ variables s
    rows heat = [row (heatAxis heat) c ts | (c, ts) <- Map.toList (heatFound heat)]
    row what c ts = [what, shown c, show (length ts)] ++ maybe ["-", "-", "-"] (\s -> map (amount objective) [summaryMedian s, summaryLeast s, summaryMost s]) (summarise <$> nonEmpty ts)
    evidence :: Value
    evidence =
      object
        [ "objective" .= objectiveName objective,
          "won" .= fmap (unwords . rtsFlags) won,
          "environment" .= fmap (Map.fromList . environmentOf) won,
          "baseline_statistics" .= statistics,
          "statistics" .= (won >>= (`Map.lookup` seen)),
          "rows" .= ([measurement (heatAxis heat) c ts | heat <- heats found, (c, ts) <- Map.toList (heatFound heat)] ++ [measurement "last race" c ts | (c, ts) <- Map.toList (times race)]),
          "failed" .= [object ["setting" .= shown c, "why" .= why] | (c, why) <- Map.toList failed],
          "runs" .= (1 + sum [length ts | heat <- heats found, ts <- Map.elems (heatFound heat)] + sum (map length (Map.elems (times race)))),
          "searched_to_its_end" .= whole,
          "ratio" .= fmap (\(_, e) -> object ["median" .= estimateMedian e, "low" .= estimateLow e, "high" .= estimateHigh e, "pairs" .= estimatePairs e]) (against race)
        ]
    measurement what c ts = object ["search" .= (what :: String), "setting" .= shown c, "flags" .= unwords (rtsFlags c), "environment" .= Map.fromList (variables c), "values" .= ts]

amount :: Objective -> Double -> String
amount objective v = case objective of
  LeastTime -> seconds v
  LeastWork -> seconds v
  LeastPause -> seconds v
  LeastMemory -> show (ceiling (v / 1048576) :: Int) ++ " MiB"
  LeastBoth -> fixed 1 (v / 1048576) ++ " MiB s"

-- | The best rival of the last race, and the ratios of the rounds: as it is by the rival.
against :: Race Settings -> Maybe (Settings, Estimate)
against race = case verdict race of
  Gain s _ -> of' s
  NoGain (Just (s, _)) -> of' s
  _ -> Nothing
  where
    of' s = (,) s . estimate <$> ratiosTo race s

verdictLine :: Objective -> Map.Map Settings String -> Bool -> Search String String -> Race Settings -> String
verdictLine objective failed whole found race = case (verdict race, against race) of
  _ | null (heats found) -> "undecided: there was no time to compare anything with the program as it is; give a longer --budget"
  _ | winner == raceBaseline race -> "no gain: nothing that was tried is better than the present settings" ++ unfinished
  _ | Just why <- Map.lookup winner failed -> "no gain: the best, " ++ shown winner ++ ", failed: " ++ why
  (Gain s _, Just (_, e)) -> "gain: " ++ less e ++ " with " ++ shown s ++ unfinished
  (Undecided count needed, _) -> undecidedLine count needed
  (_, Just (s, e))
    | estimateMedian e > 1 -> "no gain: the best, " ++ shown s ++ ", needs " ++ less e ++ ", which is within the noise"
  _ -> "no gain: the best of the search, " ++ shown winner ++ ", was not better in the last race" ++ unfinished
  where
    winner = leader found
    unfinished = if whole then "" else "; there was no time to search everything: a longer --budget may find more"
    less e = two (estimateMedian e) ++ " times less " ++ what ++ " (" ++ two (estimateLow e) ++ " to " ++ two (estimateHigh e) ++ ")"
    two = fixed 2
    what = case objective of
      LeastTime -> "time"
      LeastWork -> "processor time"
      LeastPause -> "of the longest pause"
      LeastMemory -> "memory"
      LeastBoth -> "of time and memory"

-- | What was found by the size of the allocation area, a line for each number of cores; or, where that was not
-- searched, each setting by itself.
surface :: Objective -> Search String String -> Plot
surface objective found
  | any (null . drop 1 . seriesPoints) byArea || null byArea = Plot title (Axis "setting" (Named (map (shown . fst) all'))) y [Series "" [point x s | (x, (_, s)) <- zip [1 ..] all']]
  | otherwise = Plot title (Axis "allocation area of a core, MiB" Logarithmic) y byArea
  where
    title = "Less is better: " ++ objectiveName objective
    y = Axis unit Linear
    unit = case objective of
      LeastMemory -> "peak memory, bytes"
      LeastBoth -> "time and memory, bytes s"
      _ -> "seconds"
    all' = [(c, s) | heat <- heats found, (c, ts) <- Map.toList (heatFound heat), Just s <- [summarise <$> nonEmpty ts]]
    areas = [(c, s) | heat <- heats found, heatAxis heat == "allocation", (c, ts) <- Map.toList (heatFound heat), Just s <- [summarise <$> nonEmpty ts]]
    cores c = case Map.findWithDefault "" "capabilities" c of
      "" -> "as it is"
      given -> maybe given (`plural` "core") (readMaybe (drop 2 given))
    byArea = [Series name (sortOn pointX (mapMaybe (\(c, s) -> (`point` s) <$> (Map.lookup "allocation" c >>= fmap (/ 1048576) . sizeOf "-A")) mine)) | (name, mine) <- Map.toList (Map.fromListWith (flip (++)) [(cores c, [(c, s)]) | (c, s) <- areas])]
