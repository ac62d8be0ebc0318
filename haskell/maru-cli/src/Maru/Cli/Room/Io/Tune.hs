{-# LANGUAGE OverloadedStrings #-}

-- | @maru tune io@: the ways in which maru can treat a program's input and output, tried on the
-- program itself.
module Maru.Cli.Room.Io.Tune
  ( ioTuner,

    -- * For tests
    settingsFor,
    ioTuned,
  )
where

import Control.Monad (when)
import Data.Aeson (object, (.=))
import Data.Either (isRight)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isNothing)
import GHC.Conc (getNumProcessors)
import Maru.Cli.Exit
import Maru.Cli.Installed (commandItself, libraryAt)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.TuneRace
import Maru.Control.Race
import System.Exit (ExitCode (..))
import System.Process

ioTuner :: Tuner
ioTuner =
  Tuner
    { tunerName = "io",
      tunerPurpose = "Cores for input and output (from four CPUs up), reading ahead, delegation: --io and --io-delegate of maru run",
      tunerExample = "--budget 2m --name scan -- ./scan archive.dat",
      tunerParser = pure (),
      tunerPicture = const Nothing,
      tunerRun = const tuneIo
    }

-- | Flags of @maru run@; the empty ones are the program alone.
baseline :: String
baseline = ""

-- | Only counts: what passing through costs, and never a gain.
control :: String
control = "--io-delegate=never"

-- | Of that many CPUs, and where there is @libmaru-io.so@.
settingsFor :: Int -> Bool -> [String]
settingsFor cpus library =
  [flag | library, flag <- [control, "--io-delegate=hint", "--io-delegate=always"]]
    ++ ["--io=" ++ policy | cpus >= 4, policy <- ["auto", "single-socket", "per-socket", "cross-socket"]]

tuneIo :: TuneContext -> IO Tuned
tuneIo context = do
  maru <- commandItself
  library <- isRight <$> libraryAt "libmaru-io.so"
  cpus <- getNumProcessors
  -- One run that must go well; its files are in memory then, for all alike.
  first <- runOnce maru (tuneBudget context) baseline >>= either (problem badInput) pure
  when (isNothing first) $ problem badInput (notDone context)
  let race most latest = raceWithin context most latest (counted context baseline id (runOnce maru)) . start baseline
  search <- race searchRounds (tuneEnd context - 0.35 * tuneBudget context) (settingsFor cpus library)
  ioTuned search <$> case verdict search of
    -- The winner of many has had luck, too: new runs say what it is worth.
    Gain flags _ | flags /= control -> do
      tuneSay context ("comparing " ++ flags ++ " with the program alone")
      Just <$> race mostRounds (tuneEnd context) [flags]
    _ -> pure Nothing
  where
    runOnce maru most flags = timed context most (tuneCommand context) (job maru flags)
    job maru flags
      | null flags = proc (tuneCommand context) (tuneArguments context)
      | otherwise = proc maru (["run"] ++ words flags ++ ["--", tuneCommand context] ++ tuneArguments context)

-- | What the search says, and the last race, of its winner alone, where there was one.
ioTuned :: Race String -> Maybe (Race String) -> Tuned
ioTuned search final =
  Tuned
    { tunedEnvironment = case verdict deciding of
        Gain flags _ | flags /= control -> Just [("MARU_RUN_FLAGS", flags)]
        _ -> Nothing,
      tunedLine = case verdict deciding of
        Gain flags _ | flags == control -> "no gain: the fastest, " ++ control ++ ", changes nothing; that is noise"
        _ -> raceLine ("the program alone", "is") id deciding,
      tunedAdvice = [],
      tunedPicture = Nothing,
      tunedStatus = ExitSuccess,
      tunedTable = Table ((L, "race") : (L, "setting") : raceHeads) [what : row | (what, race) <- races, row <- raceRows (\flags -> if null flags then "(the program alone)" else flags) race],
      tunedData = object ["rows" .= [object ["race" .= what, "flags" .= flags, "seconds" .= ts] | (what, race) <- races, (flags, ts) <- Map.toList (times race)]]
    }
  where
    deciding = fromMaybe search final
    races = ("search" :: String, search) : [("last", race) | Just race <- [final]]
