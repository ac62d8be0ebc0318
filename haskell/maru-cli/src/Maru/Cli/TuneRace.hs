-- | What tuners share: a race of settings for one command, within a budget.
module Maru.Cli.TuneRace
  ( raceWithin,
    timed,
    withoutWords,
    undecidedLine,
    percentFaster,
  )
where

import Control.Exception (try)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Room
import Maru.Control.Race
import Numeric (showFFloat)
import System.Exit (ExitCode (..))
import System.IO
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

-- | Runs it without input, and with what it prints thrown away; its seconds. 'Left': one line, why
-- it does not count.
timed :: CreateProcess -> String -> IO (Either String Double)
timed job name = do
  begun <- getMonotonicTime
  outcome <- try (withoutWords job (\quiet -> withCreateProcess quiet (\_ _ _ child -> waitForProcess child)))
  ended <- getMonotonicTime
  pure $ case outcome of
    Left e -> Left ("cannot execute '" ++ name ++ "': " ++ reason e)
    Right (ExitFailure status) -> Left ("'" ++ name ++ "' ended with status " ++ show status)
    Right ExitSuccess -> Right (ended - begun)

withoutWords :: CreateProcess -> (CreateProcess -> IO a) -> IO a
withoutWords job action =
  withFile "/dev/null" ReadWriteMode $ \none ->
    action job {std_in = UseHandle none, std_out = UseHandle none, std_err = UseHandle none}

undecidedLine :: Int -> String
undecidedLine count =
  "undecided: there was time for " ++ show count ++ " of at least " ++ show fewestRounds ++ " rounds; give a longer --budget"

percentFaster :: Double -> String
percentFaster ratio = showFFloat (Just 1) ((ratio - 1) * 100) " %"
