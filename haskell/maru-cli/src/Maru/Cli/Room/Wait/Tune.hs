{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | @maru tune wait@: how the processes of a command had best wait, by measurement
-- against the command as it is: first the policies, then the spin limit, then the
-- daemon's period. Each race holds the best so far and the command as it is. The winner of many
-- has had luck, too: what counts is a last race of these two alone, with new runs.
module Maru.Cli.Room.Wait.Tune
  ( waitTuner,

    -- * For tests
    Setting (..),
    Reached (..),
    reachedIn,
    settingsFor,
    spinsFor,
    periodsFor,
    waitVerdict,
  )
where

import Data.Aeson (Value (..), decode, object, (.=))
import qualified Data.Aeson.KeyMap as KeyMap
import qualified Data.ByteString.Lazy as Lazy
import Data.List (sortOn)
import Data.List.NonEmpty (nonEmpty)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, listToMaybe, mapMaybe)
import qualified Data.Text as Text
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Installed (commandItself)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.TuneRace
import Maru.Control.Race
import Maru.Control.Ratio (Estimate (..), estimate)
import Maru.Control.Statistics
import Numeric (showFFloat)
import System.Exit (ExitCode (..))
import System.Process

waitTuner :: Tuner
waitTuner =
  Tuner
    { tunerName = "wait",
      tunerPurpose = "How the processes of a command wait for each other (maru run --wait, --wait-poll)",
      tunerExample = "--budget 5m --name app -- mpirun -n 8 ./app",
      tunerParser = pure (),
      tunerPicture = const Nothing,
      tunerRun = const tuneWait
    }

-- | One way to run the command.
data Setting
  = -- | Without maru.
    AsItIs
  | -- | A policy; whether for programs that poll, too.
    Waiting !String !Bool
  | -- | The same with a daemon of that period beside it.
    Boosted !Setting !String
  deriving (Eq, Ord, Show)

-- | What there is in the command that a policy would change.
data Reached = Reached
  { -- | MPI's ranks waited, or maru's own parts may.
    reachedPolicies :: !Bool,
    -- | There were channels on the board, which a daemon sees.
    reachedChannels :: !Bool,
    -- | Somebody asked again and again.
    reachedPolls :: !Bool
  }
  deriving (Eq, Show)

-- | From the report of a run with both.
reachedIn :: Value -> Reached
reachedIn report = Reached (positive ["after", "wait", "waits"] || any (`elem` sections) ["wait", "map"]) ("wait" `elem` sections) (positive ["after", "wait", "poll", "spins"])
  where
    positive path = case field path report of
      Just (Number n) -> n > 0
      _ -> False
    sections = case field ["rooms"] report of
      Just (Array names) -> [Text.unpack n | String n <- foldr (:) [] names]
      _ -> []
    field [] value = Just value
    field (k : ks) (Object o) = KeyMap.lookup k o >>= field ks
    field _ _ = Nothing

-- | What is tried beside the command as it is. Spinning needs no trial: unlike the others it
-- can only take more from those who work. Without channels @coop@ is @spin-block@.
settingsFor :: Reached -> [Setting]
settingsFor reached =
  [Waiting policy polls | reachedPolicies reached || polls, policy <- ["adaptive", "yield", "block", "spin-block", "dcs"]]
    ++ [Waiting "sleep-poll" polls | reachedPolicies reached]
    ++ [Waiting "coop" polls | reachedChannels reached]
  where
    polls = reachedPolls reached

-- | How long to spin, beside the best so far.
spinsFor :: Reached -> [Setting]
spinsFor reached = [Waiting ("spin-block:spin=" ++ limit) (reachedPolls reached) | reachedPolicies reached, limit <- ["5us", "20us", "80us", "320us"]]

-- | How often a daemon looks, where it sees anything.
periodsFor :: Reached -> Setting -> [Setting]
periodsFor reached setting = [Boosted setting period | reachedChannels reached, period <- ["auto", "5ms", "1ms", "250us"]]

tuneWait :: TuneContext -> IO Tuned
tuneWait context = do
  first <- runReported context >>= either (problem badInput) pure
  (took, report) <- maybe (problem badInput (notDone context)) pure first
  let reached = reachedIn report
      until' part = tuneEnd context - (1 - part) * tuneBudget context
      -- Behind the policies: only what there is time for.
      search part what known rivals
        | null rivals = pure known
        | otherwise = do
          now <- getMonotonicTime
          let field = maybe id (:) (best known) rivals
              needed = took * fromIntegral (fewestRounds * (1 + length field))
          if null known || now + needed < until' part
            then tuneSay context ("searching " ++ what) >> (: known) . (,) what <$> race searchRounds (until' part) (start AsItIs field)
            else known <$ tuneSay context ("there is no time to search " ++ what)
  tuneSay context (found reached)
  policies <- search 0.45 "the policy" [] (settingsFor reached)
  spins <- search 0.65 "the spin limit" policies (if null (best policies) then [] else spinsFor reached)
  periods <- search 0.8 "the daemon's period" spins (maybe [] (periodsFor reached) (best spins))
  final <- case best periods of
    Nothing -> pure (start AsItIs [])
    Just winner -> do
      tuneSay context ("comparing " ++ named winner ++ " with the command as it is")
      race mostRounds (tuneEnd context) (start AsItIs [winner])
  pure (judged reached (reverse periods) final)
  where
    race most latest = raceWithin context most latest (counted context AsItIs named (runOnce context))

-- | The fastest rival of the last race, if any ran to its end there; else of the one before.
best :: [(String, Race Setting)] -> Maybe Setting
best races = listToMaybe (mapMaybe winner races)
  where
    winner (_, race) = fst <$> listToMaybe (sortOn snd [(s, median sample) | (s, ts) <- Map.toList (times race), s /= AsItIs, Just sample <- [nonEmpty ts]])

nothingWaits :: Reached -> Bool
nothingWaits reached = not (reachedPolicies reached || reachedPolls reached)

found :: Reached -> String
found reached@(Reached policies _ polls)
  | nothingWaits reached = "nothing in the command waits in a way that maru can change"
  | otherwise = "there are " ++ concat (["MPI ranks or parts of maru that wait" | policies] ++ [" and " | policies && polls] ++ ["loops that poll" | polls])

-- ---- running ------------------------------------------------------------

-- | Its seconds; 'Nothing': it was not done in so many. 'Left': why it does not count.
runOnce :: TuneContext -> Double -> Setting -> IO (Either String (Maybe Double))
runOnce context most setting = do
  maru <- commandItself
  runFor context most (commandUnder maru setting [] (tuneCommand context : tuneArguments context))

runReported :: TuneContext -> IO (Either String (Maybe (Double, Value)))
runReported context = withScratch "maru-wait" $ \file -> do
  maru <- commandItself
  ran <- runFor context (tuneBudget context) (commandUnder maru (Waiting "adaptive" True) ["--report", file] (tuneCommand context : tuneArguments context))
  report <- decode <$> Lazy.readFile file
  pure (fmap (,fromMaybe Null report) <$> ran)

commandUnder :: FilePath -> Setting -> [String] -> [String] -> [String]
commandUnder _ AsItIs _ command = command
commandUnder maru (Boosted setting period) more command = commandUnder maru setting (["--wait-boost", period] ++ more) command
commandUnder maru (Waiting policy polls) more command =
  [maru, "run", "--wait", policy] ++ ["--wait-poll" | polls] ++ more ++ ["--"] ++ command

runFor :: TuneContext -> Double -> [String] -> IO (Either String (Maybe Double))
runFor _ _ [] = pure (Left "no command")
runFor context most words'@(program : arguments) = timed context most (unwords words') (proc program arguments)

-- ---- judging ------------------------------------------------------------

judged :: Reached -> [(String, Race Setting)] -> Race Setting -> Tuned
judged reached searches race =
  Tuned
    { tunedEnvironment = case verdict race of
        Gain setting _ | setting /= AsItIs -> Just [("MARU_RUN_FLAGS", named setting)]
        _ -> Nothing,
      tunedLine = waitVerdict reached race,
      tunedAdvice = [],
      tunedPicture = Nothing,
      tunedStatus = ExitSuccess,
      tunedTable = if nothingWaits reached then Table [] [] else Table ((L, "race") : (L, "setting") : raceHeads) [what : row | (what, r) <- named', row <- raceRows named r],
      tunedData =
        object
          [ "polls" .= reachedPolls reached,
            "policies" .= reachedPolicies reached,
            "rows" .= [object ["race" .= what, "setting" .= named s, "seconds" .= ts] | (what, r) <- named', (s, ts) <- Map.toList (times r)],
            "ratio" .= fmap (\(_, e) -> object ["median" .= estimateMedian e, "low" .= estimateLow e, "high" .= estimateHigh e, "pairs" .= estimatePairs e]) (leading race)
          ]
    }
  where
    named' = searches ++ [("last", race)]

named :: Setting -> String
named AsItIs = "(as it is)"
named (Boosted setting period) = named setting ++ " --wait-boost " ++ period
named (Waiting policy polls) = "--wait " ++ policy ++ (if polls then " --wait-poll" else "")

-- | The best rival, and the ratios of the rounds: as it is by the rival.
leading :: Race Setting -> Maybe (Setting, Estimate)
leading race = case verdict race of
  Gain setting _ -> against setting
  NoGain (Just (setting, _)) -> against setting
  _ -> Nothing
  where
    against setting = (,) setting . estimate <$> ratiosTo race setting

waitVerdict :: Reached -> Race Setting -> String
waitVerdict reached _ | nothingWaits reached = "no gain: nothing waits (no MPI rank, no part of maru, no loop that polls was seen)"
waitVerdict _ race = case (verdict race, leading race) of
  (Gain _ _, Just (s, e)) -> "gain: " ++ times' e ++ " as fast with " ++ named s
  (Undecided count needed, _) -> undecidedLine count needed
  (_, Just (s, e))
    | estimateMedian e > 1 -> "no gain: the best, " ++ named s ++ ", is " ++ times' e ++ " as fast, which is within the noise"
    | otherwise -> "no gain: as it is it is the fastest"
  _
    | AsItIs `Map.notMember` times race -> "undecided: there was no time to compare anything with the command as it is; give a longer --budget"
    | Map.size (times race) > 1 -> "no gain: as it is it is the fastest"
    | otherwise -> "no gain: nothing but the command as it is ran to its end"
  where
    times' e = two (estimateMedian e) ++ " times (" ++ two (estimateLow e) ++ " to " ++ two (estimateHigh e) ++ ")"
    two x = showFFloat (Just 2) x ""
