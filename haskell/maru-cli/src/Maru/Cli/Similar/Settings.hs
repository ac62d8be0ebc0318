{-# LANGUAGE OverloadedStrings #-}

-- | What @maru similar@ is asked for.
module Maru.Cli.Similar.Settings
  ( Settings (..),
    settings,
    mapOptions,
    Stop (..),
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as BC
import Data.List (intercalate)
import Data.Maybe (fromMaybe)
import Maru.Cli.Exit (usage)
import Maru.Cli.Readers (named, wholeFrom)
import Maru.Options (Backend, Workers (..), allBackends, backendName)
import qualified Maru.Options as Maru
import Maru.Similar (Config (..), Language (..), Mode (..), Rank (..), defaultConfig, modeName, rankName)
import Options.Applicative
import System.Environment (lookupEnv)
import Text.Read (readMaybe)

data Settings = Settings
  { language :: !Language,
    bases :: ![FilePath],
    archives :: ![FilePath],
    excluded :: ![FilePath],
    studentsFile :: !(Maybe FilePath),
    backendFlag :: !(Maybe Backend),
    workersFlag :: !(Maybe Int),
    threshold :: !Double,
    failAbove :: !(Maybe Double),
    top :: !Int,
    minMatch :: !Int,
    mode :: !Mode,
    rankFlag :: !(Maybe Rank),
    mostPairs :: !(Maybe Int),
    csvFile :: !(Maybe FilePath),
    jsonFile :: !(Maybe FilePath),
    htmlFile :: !(Maybe FilePath),
    verdictsFile :: !(Maybe FilePath),
    namesHidden :: !Bool,
    paths :: ![FilePath]
  }

settings :: Parser Settings
settings =
  Settings
    <$> option (eitherReader parseLanguage) (long "lang" <> metavar "LANG" <> value LanguageAuto <> help "auto (by file name) or java")
    <*> many (strOption (long "base" <> metavar "PATH" <> action "file" <> help "Template code that everybody was given; not counted. May be repeated"))
    <*> many (strOption (long "archive" <> metavar "PATH" <> action "file" <> help "Old submissions: compared with the new ones, not with each other. May be repeated"))
    <*> many (strOption (long "exclude" <> metavar "GLOB" <> help "Leave out files and folders of such a name, or with a slash such a path. May be repeated"))
    <*> optional (strOption (long "students" <> metavar "FILE" <> action "file" <> help "CSV that says whose a submission is (columns submission, student, role); two of one student are not compared"))
    <*> optional (option (eitherReader parseBackend) (long "backend" <> metavar "B" <> help ("Where pairs are compared: " <> backendNames)))
    <*> optional (option (eitherReader parseWorkers) (long "workers" <> metavar "N" <> help "How many workers (default: one per core)"))
    <*> option (eitherReader (parseShare "the threshold")) (long "threshold" <> metavar "X" <> value 0 <> help "Report pairs of at least this similarity, 0 to 1 (default 0: all)")
    <*> optional (option (eitherReader (parseShare "--fail-above")) (long "fail-above" <> metavar "X" <> help "End with status 1 if a pair has this similarity or more, 0 to 1"))
    <*> option (eitherReader (wholeFrom 0 1000000000 "a number")) (long "top" <> metavar "N" <> value 20 <> help "Rows of the table (default 20)")
    <*> option (eitherReader (wholeFrom 1 1000000000 "a number")) (long "min-match" <> metavar "N" <> value 9 <> help "Tokens of the shortest match that counts (default 9)")
    <*> option (eitherReader parseMode) (long "mode" <> metavar "MODE" <> value Score <> help "score (default): three views, rare code weighs more; seed: every pair tiled")
    <*> optional (option (eitherReader parseRank) (long "rank" <> metavar "KIND" <> help "What pairs are ranked by: both (default), whole or embedded copies"))
    <*> optional (option (eitherReader (wholeFrom 1 1000000000 "a number")) (long "pairs" <> metavar "N" <> help ("Report the N most similar pairs at most (default " <> show (configPairs defaultConfig) <> ")")))
    <*> optional (strOption (long "csv" <> metavar "FILE" <> action "file" <> help "Write all reported pairs as CSV; - is standard output"))
    <*> optional (strOption (long "json" <> metavar "FILE" <> action "file" <> help "Write everything as JSON; - is standard output"))
    <*> optional (strOption (long "html" <> metavar "FILE" <> action "file" <> help "Write a report to look at: ranking, clusters, pairs side by side; - is standard output"))
    <*> optional (strOption (long "verdicts" <> metavar "FILE" <> action "file" <> help "Put these verdicts, saved from a report, into the new one"))
    <*> switch (long "anonymous" <> help "No names in any output, no comments in the report: for sharing it")
    <*> some (strArgument (metavar "PATH..." <> action "file" <> help "A folder or archive of submissions, or one submission's file"))

parseLanguage :: String -> Either String Language
parseLanguage = fmap snd . named "language" fst [("auto", LanguageAuto), ("java", Java)]

parseMode :: String -> Either String Mode
parseMode = fmap snd . named "mode" fst [(modeName m, m) | m <- [minBound ..]]

parseRank :: String -> Either String Rank
parseRank = fmap snd . named "rank" fst [(rankName r, r) | r <- [minBound ..]]

parseBackend :: String -> Either String Backend
parseBackend = named "back end" backendName allBackends

backendNames :: String
backendNames = intercalate ", " (map backendName allBackends)

parseWorkers :: String -> Either String Int
parseWorkers s = case readMaybe s of
  Just n | n >= 1 && n <= mostWorkers -> Right (fromInteger n)
  _ -> Left ("the number of workers must be from 1 to " <> show mostWorkers <> ", not '" <> s <> "'")

mostWorkers :: Integer
mostWorkers = 65535

parseShare :: String -> String -> Either String Double
parseShare what s = case readMaybe (if take 1 s == "." then '0' : s else s) of
  Just x | x >= 0 && x <= 1 -> Right x
  _ -> Left (what <> " must be a number from 0 to 1, not '" <> s <> "'")

-- | An end with one line on standard error.
data Stop = Stop !Int !ByteString

-- | Flags win over the environment.
mapOptions :: Settings -> IO (Either Stop Maru.Options)
mapOptions s = do
  b <- fromEnvironment "MARU_BACKEND" parseBackend (backendFlag s)
  w <- fromEnvironment "MARU_WORKERS" parseWorkers (workersFlag s)
  pure (withChoices <$> b <*> w)
  where
    withChoices b w =
      Maru.defaultOptions
        { Maru.backend = fromMaybe Maru.Auto b,
          Maru.workers = maybe WorkersAuto Workers w
        }

fromEnvironment :: String -> (String -> Either String a) -> Maybe a -> IO (Either Stop (Maybe a))
fromEnvironment variable parse given = case given of
  Just _ -> pure (Right given)
  Nothing -> do
    set <- lookupEnv variable
    pure $ case set of
      Just text | not (null text) -> either (Left . Stop usage . told) (Right . Just) (parse text)
      _ -> Right Nothing
  where
    told why = BC.pack (variable <> ": " <> why)
