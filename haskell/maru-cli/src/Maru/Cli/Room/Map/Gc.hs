{-# LANGUAGE OverloadedStrings #-}

-- | @maru tune gc@: the allocation area of a Haskell program (@-A@, @-n@), by
-- measurement. The flags travel in @GHCRTS@, so the command line stays as it is
-- and a program that is not GHC's simply shows no gain.
module Maru.Cli.Room.Map.Gc
  ( gcTuner,
    candidates,
    parseStatistics,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.List (intercalate)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Maru.Cli.Exit
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.TuneRace
import Maru.Control.Race
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.Process
import Text.Read (readMaybe)

gcTuner :: Tuner
gcTuner =
  Tuner
    { tunerName = "gc",
      tunerPurpose = "The allocation area of a Haskell program (+RTS -A, -n), linked with -rtsopts",
      tunerExample = "--budget 1m --name sort -- ./sort big.txt",
      tunerParser = pure (),
      tunerRun = const tuneGc
    }

-- | Runtime flags that are tried; none is the baseline.
candidates :: [String]
candidates =
  ["-A4m", "-A16m", "-A64m", "-A256m"] ++ ["-A" ++ size ++ " -n4m" | size <- ["16m", "64m", "256m"]]

baseline :: String
baseline = ""

tuneGc :: TuneContext -> IO Tuned
tuneGc context = do
  before <- lookup "GHCRTS" <$> getEnvironment
  let given = fromMaybe "" before
  first <- runOnce context given (tuneBudget context) baseline
  statistics <- either (problem badInput) (maybe (problem badInput (notDone context)) (pure . runStatistics)) first
  race <- raceWithin context mostRounds (tuneEnd context) (\most -> fmap (either (const Nothing) (fmap runWall)) . runOnce context given most) (start baseline candidates)
  pure (judged given statistics race)

data Run = Run
  { runWall :: !Double,
    runStatistics :: !(Map.Map String Double)
  }

-- | For so many seconds at most; 'Nothing': it was not done. 'Left': one line, why this run does
-- not count.
runOnce :: TuneContext -> String -> Double -> String -> IO (Either String (Maybe Run))
runOnce context given most flags = withScratch "maru-gc" $ \file -> do
  environment <- filter ((/= "GHCRTS") . fst) <$> getEnvironment
  let rts = unwords (filter (not . null) [given, flags, "-t" ++ file, "--machine-readable"])
      job = (proc (tuneCommand context) (tuneArguments context)) {env = Just (("GHCRTS", rts) : environment)}
  outcome <- timed context most (tuneCommand context) job
  statistics <- readFile file >>= \text -> length text `seq` pure (parseStatistics text)
  pure $ case outcome of
    Left why -> Left (why ++ "; if it runs well by itself: link it with -rtsopts")
    Right Nothing -> Right Nothing
    Right (Just wall)
      | Map.null statistics -> Left ("'" ++ tuneCommand context ++ "' did not accept GHCRTS: it is not a GHC program, or linked without -rtsopts")
      | otherwise -> Right (Just (Run wall statistics))

-- | What the runtime writes for @-tFILE --machine-readable@: the command line,
-- then a Haskell list of pairs of strings. Empty if it is something else.
parseStatistics :: String -> Map.Map String Double
parseStatistics text = case readMaybe (unlines (drop 1 (lines text))) of
  Just pairs -> Map.mapMaybe readMaybe (Map.fromList (pairs :: [(String, String)]))
  Nothing -> Map.empty

judged :: String -> Map.Map String Double -> Race String -> Tuned
judged given statistics race =
  Tuned
    { tunedEnvironment = case verdict race of
        Gain flags _ -> Just [("GHCRTS", unwords (filter (not . null) [given, flags]))]
        _ -> Nothing,
      tunedLine = raceLine ("the present settings", "are") id race ++ collecting,
      tunedStatus = ExitSuccess,
      tunedTable = Table ((L, "flags") : raceHeads) (raceRows (\flags -> if null flags then "(as it is)" else flags) race),
      tunedData = evidence
    }
  where
    collected = (/) <$> Map.lookup "GC_wall_seconds" statistics <*> Map.lookup "total_wall_seconds" statistics
    collecting = maybe "" (\s -> "; before: " ++ percent 0 s ++ " of the time in the collector") collected
    evidence :: Value
    evidence =
      object
        [ "baseline_statistics" .= statistics,
          "rows" .= [object ["flags" .= flags, "seconds" .= ts] | (flags, ts) <- Map.toList (times race)],
          "tried" .= intercalate ", " candidates
        ]
