-- | What tuners share: a race of settings for one command, within a budget.
module Maru.Cli.TuneRace
  ( raceWithin,
    timed,
    withScratch,
    undecidedLine,
    percentFaster,
  )
where

import Control.Exception (bracket, try)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Guard (runGuarded)
import Maru.Cli.Output (seconds)
import Maru.Cli.Room
import Maru.Control.Race
import Maru.Native.Probe (scratchDescriptor)
import Numeric (showFFloat)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.IO (closeFd)
import System.Posix.Process (getProcessID)
import System.Process

-- | Most rounds; a race that is this close will not be decided by more.
mostRounds :: Int
mostRounds = 15

-- | Rounds until the race is decided, the time (seconds, of the monotonic clock) is over or the
-- most were run. A round that would pass the deadline is not begun. A setting without a time
-- leaves the race.
raceWithin :: Ord c => TuneContext -> Double -> (c -> IO (Maybe Double)) -> Race c -> IO (Race c)
raceWithin context deadline measure = go 1
  where
    go number race = do
      begun <- getMonotonicTime
      results <- mapM (\c -> (,) c <$> measure c) (entrants race)
      ended <- getMonotonicTime
      let next = record (Map.fromList (mapMaybe sequence results)) race
      tuneSay context ("round " ++ show (number :: Int) ++ ": " ++ show (length (entrants next)) ++ " settings left")
      if decided next || number >= mostRounds || ended + (ended - begun) > deadline
        then pure next
        else go (number + 1) next

-- | Runs it without input, for so many seconds at most, and with what it prints thrown away; its
-- seconds. 'Left': one line, why it does not count. What it leaves running in its process group is
-- ended with it.
timed :: TuneContext -> Maybe Double -> String -> CreateProcess -> IO (Either String Double)
timed context most name job =
  withFile "/dev/null" ReadWriteMode $ \none -> do
    begun <- getMonotonicTime
    outcome <- try (runGuarded (tuneGuard context) most job {std_in = UseHandle none, std_out = UseHandle none, std_err = UseHandle none})
    ended <- getMonotonicTime
    pure $ case outcome of
      Left e -> Left ("cannot execute '" ++ name ++ "': " ++ reason e)
      Right (Just ExitSuccess) -> Right (ended - begun)
      Right (Just (ExitFailure status)) -> Left ("'" ++ name ++ "' ended with status " ++ show status ++ asShellsSay status)
      Right Nothing -> Left ("'" ++ name ++ "' was not done after " ++ maybe "" seconds most)
  where
    asShellsSay status
      | status `elem` [126, 127] = " (as what cannot be executed does)"
      | otherwise = ""

-- | The path of a file that is nobody's but ours and a run's, and has no name to be left behind.
withScratch :: String -> (FilePath -> IO a) -> IO a
withScratch name act = bracket create closeFd $ \fd -> do
  self <- getProcessID
  act ("/proc/" ++ show self ++ "/fd/" ++ show fd)
  where
    create = scratchDescriptor name >>= either (problem unavailable . ("no memory for a run's report: " ++)) pure

undecidedLine :: Int -> String
undecidedLine count =
  "undecided: there was time for " ++ show count ++ " of at least " ++ show fewestRounds ++ " rounds; give a longer --budget"

percentFaster :: Double -> String
percentFaster ratio = showFFloat (Just 1) ((ratio - 1) * 100) " %"
