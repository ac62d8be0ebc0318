{-# LANGUAGE OverloadedStrings #-}

-- | What @maru similar@ is asked for.
module Maru.Cli.Similar.Settings
  ( Settings (..),
    settings,
    reading,
    mapOptions,
    configOf,
    languagesAsked,
    languagesAtHand,
    withoutGrammars,
    collectionAsked,
    rawPath,
    smallFile,

    -- * Ends and warnings
    stop,
    badPath,
    orStopped,
    complain,
    say,
  )
where

import Control.Exception (Exception, handle, throwIO, try)
import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.List (intercalate)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import qualified Data.Set as Set
import qualified GHC.Foreign as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Maru.Cli.Exit (badInput, orNothing, reason, unavailable, usage)
import Maru.Cli.Installed (libraryAt)
import Maru.Cli.Readers (named, wholeFrom)
import Maru.Cli.WholeFile (readAtMost)
import Maru.Options (Backend, Workers (..), allBackends, backendName)
import qualified Maru.Options as Maru
import Maru.Similar
import Maru.Similar.Archive (CannotWrite (..))
import Maru.Similar.Grammar (Grammars, openGrammars, wholeFamilies)
import Maru.Similar.Language (languageTitle, languages, withDialects)
import Maru.Similar.Output (printableName)
import Maru.Similar.Told (Line (..))
import Maru.Similar.Views (recipe)
import Options.Applicative
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.IO (stderr)
import Text.Read (readMaybe)

data Settings = Settings
  { language :: !(Maybe Language),
    bases :: ![FilePath],
    archives :: ![FilePath],
    indexFolder :: !(Maybe FilePath),
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
    <$> languageOption
    <*> baseOption
    <*> many (strOption (long "archive" <> metavar "PATH" <> action "file" <> help "Old submissions: compared with the new ones, not with each other. May be repeated"))
    <*> optional (strOption (long "index" <> metavar "DIR" <> action "directory" <> help "As --archive: the submissions of an index (maru similar index)"))
    <*> excludeOption
    <*> studentsOption
    <*> backendOption
    <*> workersOption
    <*> option (eitherReader (parseShare "the threshold")) (long "threshold" <> metavar "X" <> value 0 <> help "Report pairs of at least this similarity, 0 to 1 (default 0: all)")
    <*> optional (option (eitherReader (parseShare "--fail-above")) (long "fail-above" <> metavar "X" <> help "End with status 1 if a pair has this similarity or more, 0 to 1"))
    <*> option (eitherReader (wholeFrom 0 1000000000 "a number")) (long "top" <> metavar "N" <> value 20 <> help "Rows of the table (default 20)")
    <*> minMatchOption
    <*> option (eitherReader parseMode) (long "mode" <> metavar "MODE" <> value Score <> help "score (default): three views, rare code weighs more; seed: every pair tiled")
    <*> optional (option (eitherReader parseRank) (long "rank" <> metavar "KIND" <> help "What pairs are ranked by: both (default), whole or embedded copies"))
    <*> optional (option (eitherReader (wholeFrom 1 1000000000 "a number")) (long "pairs" <> metavar "N" <> help ("Report the N most similar pairs at most (default " <> show (configPairs defaultConfig) <> ")")))
    <*> optional (strOption (long "csv" <> metavar "FILE" <> action "file" <> help "Write all reported pairs as CSV; - is standard output"))
    <*> optional (strOption (long "json" <> metavar "FILE" <> action "file" <> help "Write everything as JSON; - is standard output"))
    <*> optional (strOption (long "html" <> metavar "FILE" <> action "file" <> help "Write a report to look at: ranking, clusters, pairs side by side; - is standard output"))
    <*> optional (strOption (long "verdicts" <> metavar "FILE" <> action "file" <> help "Put these verdicts, saved from a report, into the new one"))
    <*> switch (long "anonymous" <> help "No names in any output, no comments in the report: for sharing it")
    <*> given

-- | Of 'settings', what says how submissions are read and how they are prepared.
reading :: Parser Settings
reading =
  (\l b e t backend' w m -> Settings l b [] Nothing e t backend' w 0 Nothing 0 m Score Nothing Nothing Nothing Nothing Nothing Nothing False)
    <$> languageOption
    <*> baseOption
    <*> excludeOption
    <*> studentsOption
    <*> backendOption
    <*> workersOption
    <*> minMatchOption
    <*> given

languageOption :: Parser (Maybe Language)
languageOption = option (eitherReader parseLanguage) (long "lang" <> long "language" <> metavar "LANG" <> value Nothing <> help ("auto (default: by file name) or one of " <> intercalate ", " (map fst languages) <> " (any text)"))

baseOption :: Parser [FilePath]
baseOption = many (strOption (long "base" <> metavar "PATH" <> action "file" <> help "Template code that everybody was given; not counted. May be repeated"))

excludeOption :: Parser [FilePath]
excludeOption = many (strOption (long "exclude" <> metavar "GLOB" <> help "Leave out files and folders of such a name, or with a slash such a path. May be repeated"))

studentsOption :: Parser (Maybe FilePath)
studentsOption = optional (strOption (long "students" <> metavar "FILE" <> action "file" <> help "CSV that says whose a submission is (columns submission, student, role); two of one student are not compared"))

backendOption :: Parser (Maybe Backend)
backendOption = optional (option (eitherReader parseBackend) (long "backend" <> metavar "B" <> help ("Where pairs are compared: " <> backendNames)))

workersOption :: Parser (Maybe Int)
workersOption = optional (option (eitherReader parseWorkers) (long "workers" <> metavar "N" <> help "How many workers (default: one per core)"))

minMatchOption :: Parser Int
minMatchOption = option (eitherReader (wholeFrom 1 1000000000 "a number")) (long "min-match" <> metavar "N" <> value 9 <> help "Tokens of the shortest match that counts (default 9)")

given :: Parser [FilePath]
given = some (strArgument (metavar "PATH..." <> action "file" <> help "A folder or archive of submissions, or one submission's file"))

parseLanguage :: String -> Either String (Maybe Language)
parseLanguage = fmap snd . named "language" fst (("auto", Nothing) : [(called, Just l) | (called, l) <- languages])

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
  deriving (Show)

instance Exception Stop

stop :: Int -> ByteString -> IO a
stop status why = throwIO (Stop status why)

badPath :: BadPath -> IO a
badPath (BadPath path why) = stop badInput (printableName path <> ": " <> why)

-- | With its status, where it was stopped.
orStopped :: IO ExitCode -> IO ExitCode
orStopped act = handle (\(Stop status why) -> ExitFailure status <$ complain why) (handle badPath (handle cannotWrite act))
  where
    cannotWrite (CannotWrite path why) = stop unavailable (printableName path <> ": " <> why)

complain :: ByteString -> IO ()
complain why = onErrors ("maru similar: " <> why <> "\n")

-- | What has been found counts, also where nobody can read this.
onErrors :: ByteString -> IO ()
onErrors = void . orNothing . B.hPut stderr

say :: Line -> IO ()
say line = case line of
  Warning what -> complain ("warning: " <> what)
  More what -> onErrors ("  " <> what <> "\n")

-- | Flags win over the environment.
mapOptions :: Settings -> IO Maru.Options
mapOptions s = do
  b <- fromEnvironment "MARU_BACKEND" parseBackend (backendFlag s)
  w <- fromEnvironment "MARU_WORKERS" parseWorkers (workersFlag s)
  pure Maru.defaultOptions {Maru.backend = fromMaybe Maru.Auto b, Maru.workers = maybe WorkersAuto Workers w}

fromEnvironment :: String -> (String -> Either String a) -> Maybe a -> IO (Maybe a)
fromEnvironment variable parse asked = case asked of
  Just _ -> pure asked
  Nothing -> lookupEnv variable >>= maybe (pure Nothing) set
  where
    set text
      | null text = pure Nothing
      | otherwise = either (stop usage . BC.pack . ((variable <> ": ") <>)) (pure . Just) (parse text)

-- | With the grammars of these languages, or why there is none of some. An index has always views.
configOf :: Settings -> [Language] -> IO (Config, Map Language String)
configOf s of'
  | mode s == Seed = pure (config, mempty)
  | otherwise = (\(found, absent) -> (config {configGrammars = found}, absent)) . wholeFamilies <$> openGrammars (fmap (either id id) . libraryAt) of'
  where
    config =
      defaultConfig
        { configMode = mode s,
          configMinMatch = minMatch s,
          configThreshold = threshold s,
          configRank = fromMaybe (configRank defaultConfig) (rankFlag s),
          configPairs = fromMaybe (configPairs defaultConfig) (mostPairs s),
          configLanguage = language s
        }

-- | Those that are asked for. An index says by its grammars which views it has, whatever comes.
languagesAsked :: Settings -> [Language]
languagesAsked s = maybe (map snd languages) withDialects (language s)

-- | Those of the submissions that were read.
languagesAtHand :: Corpus -> Set.Set Language
languagesAtHand corpus = Set.fromList (concatMap (map sourceLanguage . entrySources) (corpusEntries corpus))

-- | A degraded mode of the languages that a corpus has.
withoutGrammars :: Map Language String -> Corpus -> IO ()
withoutGrammars absent corpus = mapM_ without (Map.toList (Map.restrictKeys absent (languagesAtHand corpus)))
  where
    without (l, why) = rawPath why >>= \text -> say (Warning ("no grammar of " <> languageTitle l <> ", so structure is the lexer's: " <> text <> "; maru doctor says more"))

collectionAsked :: Grammars -> Settings -> IO Collection
collectionAsked grammars s = do
  wanted <- collectionOf <$> mapM rawPath (paths s)
  rawBases <- mapM rawPath (bases s)
  rawArchives <- mapM rawPath (archives s)
  rawIndex <- mapM rawPath (indexFolder s)
  patterns <- mapM rawPath (excluded s)
  list <- maybe (pure noStudents) studentsIn (studentsFile s)
  pure wanted {collectionLanguage = language s, collectionBases = rawBases, collectionArchives = rawArchives, collectionIndex = (,) (recipe grammars) <$> rawIndex, collectionExcludes = patterns, collectionStudents = list}

studentsIn :: FilePath -> IO Students
studentsIn file = do
  (name, bytes) <- smallFile "this is no list of students" file
  -- The reason may quote the file.
  either (\why -> stop badInput (name <> ": " <> printableName (B.take 200 why))) pure (parseStudents bytes)

-- | A file's name, as it is printed, and what it holds. One that is too large is not what it should
-- be; so is a device without end.
smallFile :: ByteString -> FilePath -> IO (ByteString, ByteString)
smallFile isNone file = do
  name <- printableName <$> rawPath file
  content <- try (readAtMost (64 * 1024 * 1024) file)
  case content of
    Left e -> stop badInput (name <> ": cannot be read: " <> BC.pack (reason e))
    Right Nothing -> stop badInput (name <> ": larger than 64 MiB: " <> isNone)
    Right (Just bytes) -> pure (name, bytes)

-- | The bytes that the user typed, in any locale.
rawPath :: FilePath -> IO ByteString
rawPath path = do
  encoding <- getFileSystemEncoding
  Foreign.withCString encoding path B.packCString
