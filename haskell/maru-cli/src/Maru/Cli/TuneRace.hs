-- | What tuners share: a race of settings for one command, within a budget.
module Maru.Cli.TuneRace
  ( raceWithin,
    mostRounds,
    searchRounds,
    timed,
    counted,
    ranAndThenNot,
    notDone,
    withScratch,

    -- * Saying
    raceHeads,
    raceRows,
    raceLine,
    undecidedLine,
  )
where

import Control.Exception (bracket, try)
import Data.List.NonEmpty (nonEmpty)
import qualified Data.Map.Strict as Map
import Data.Maybe (isNothing)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Group (statusWithin)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Race
import Maru.Control.Ratio (mostPairs)
import Maru.Control.Statistics
import Maru.Native.Probe (scratchDescriptor)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.IO (closeFd)
import System.Posix.Process (getProcessID)
import System.Process

-- | Most rounds of a race that decides.
mostRounds :: Int
mostRounds = mostPairs

-- | Most rounds of a search; the last race decides.
searchRounds :: Int
searchRounds = 6

-- | So many rounds at most, until the race is decided or that time (of the monotonic clock, in
-- seconds) has come. A round that would pass it is not begun. One that is not done when the budget
-- is over is dropped: a setting that ran late in it is no worse than the others. Each measurement
-- is told how many seconds it has: what is left of the budget. A setting that takes four times as
-- long as the baseline ever did has lost. A setting without a time leaves the race.
raceWithin :: Ord c => TuneContext -> Int -> Double -> (Double -> c -> IO (Maybe Double)) -> Race c -> IO (Race c)
raceWithin context most latest measure = go 1
  where
    go number race = do
      begun <- getMonotonicTime
      results <- oneRound race Map.empty (entrants race)
      ended <- getMonotonicTime
      let next = maybe race (`record` race) results
          said = maybe "there was no time for all of it" (const (plural (length (entrants next)) "setting" ++ " left")) results
      tuneSay context ("round " ++ show (number :: Int) ++ ": " ++ said)
      if isNothing results || decided next || number >= most || ended + (ended - begun) > latest
        then pure next
        else go (number + 1) next
    deadline = tuneEnd context
    -- 'Nothing': the deadline came first.
    oneRound _ measured [] = pure (Just measured)
    oneRound race measured (c : cs) = do
      now <- getMonotonicTime
      found <- if now < deadline then measure (min (deadline - now) (patience race measured c)) c else pure Nothing
      ended <- getMonotonicTime
      if isNothing found && ended >= deadline
        then pure Nothing
        else oneRound race (maybe id (Map.insert c) found measured) cs
    patience race measured c
      | c == baseline || null known = 1 / 0
      | otherwise = max 1 (4 * maximum known)
      where
        baseline = raceBaseline race
        known = maybe id (:) (Map.lookup baseline measured) (Map.findWithDefault [] baseline (times race))

-- | Runs it without input, for so many seconds at most, and with what it prints thrown away. Its
-- seconds, 'Nothing' if it was not done by then. 'Left': one line, why it does not count. What it
-- leaves running in its process group is ended with it.
timed :: TuneContext -> Double -> String -> CreateProcess -> IO (Either String (Maybe Double))
timed context most name job =
  withFile "/dev/null" ReadWriteMode $ \none -> do
    begun <- getMonotonicTime
    outcome <- try (statusWithin (tuneReaper context) most job {std_in = UseHandle none, std_out = UseHandle none, std_err = UseHandle none})
    ended <- getMonotonicTime
    pure $ case outcome of
      Left e -> Left ("cannot execute '" ++ name ++ "': " ++ reason e)
      Right (Just ExitSuccess) -> Right (Just (ended - begun))
      Right (Just (ExitFailure status)) -> Left ("'" ++ name ++ "' ended with status " ++ show status ++ asShellsSay status)
      Right Nothing -> Right Nothing
  where
    asShellsSay status
      | status `elem` [126, 127] = " (as what cannot be executed does)"
      | otherwise = ""

-- | What a race measures, of its baseline and others with their names. A failure of the baseline ends
-- the tuner. Another setting that fails leaves the race, and that is said.
counted :: Eq c => TuneContext -> c -> (c -> String) -> (Double -> c -> IO (Either String (Maybe Double))) -> Double -> c -> IO (Maybe Double)
counted context baseline name measure most setting = measure most setting >>= either failed pure
  where
    failed why
      | setting == baseline = ranAndThenNot why
      | otherwise = Nothing <$ tuneSay context (name setting ++ " is tried no more: " ++ why)

-- | From why the program as it is failed after a first run that went well.
ranAndThenNot :: String -> IO a
ranAndThenNot why = problem badInput ("the program as it is ran, and then did not: " ++ why)

-- | Of a first run that took all of the budget.
notDone :: TuneContext -> String
notDone context = "'" ++ tuneCommand context ++ "' was not done within the budget of " ++ seconds (tuneBudget context) ++ ", and was ended; give a longer --budget"

-- | The path of a file that is nobody's but ours and a run's, and has no name to be left behind.
withScratch :: String -> (FilePath -> IO a) -> IO a
withScratch name act = bracket create closeFd $ \fd -> do
  self <- getProcessID
  act ("/proc/" ++ show self ++ "/fd/" ++ show fd)
  where
    create = scratchDescriptor name >>= either (problem unavailable . ("no memory for a run's report: " ++)) pure

-- | Of the rounds that were run and those that are needed.
undecidedLine :: Int -> Int -> String
undecidedLine count needed =
  "undecided: there was time for " ++ show count ++ " of at least " ++ show needed ++ " rounds; give a longer --budget"

-- | Of the columns of 'raceRows' behind the setting's.
raceHeads :: [(Align, String)]
raceHeads = [(R, "runs"), (R, "median"), (R, "least"), (R, "most")]

-- | A row for each setting that ran, by its name.
raceRows :: (c -> String) -> Race c -> [[String]]
raceRows name race = [row c (summarise sample) | (c, ts) <- Map.toList (times race), Just sample <- [nonEmpty ts]]
  where
    row c s = [name c, show (summaryCount s)] ++ map seconds [summaryMedian s, summaryLeast s, summaryMost s]

-- | The verdict in words. What is said of the baseline: what it is, and that it is or they are.
raceLine :: Ord c => (String, String) -> (c -> String) -> Race c -> String
raceLine (alone, is) name race = case verdict race of
  Gain c ratio -> "gain: " ++ faster ratio ++ " faster with " ++ name c
  Undecided count needed -> undecidedLine count needed
  NoGain Nothing | Map.size (times race) <= 1 -> "no gain: nothing but " ++ alone ++ " ran"
  NoGain (Just (c, ratio)) | ratio > 1 -> "no gain: the best, " ++ name c ++ ", is " ++ faster ratio ++ " faster in the median, which is within the noise"
  NoGain _ -> "no gain: " ++ alone ++ " " ++ is ++ " the fastest"
  where
    faster ratio = percent 1 (ratio - 1)
