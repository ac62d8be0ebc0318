{-# LANGUAGE OverloadedStrings #-}

-- | @maru similar@: which submissions of a collection are copies of each other?
--
-- Exit status: 0 done (also with a single submission: nothing to compare), 64 usage. 65 a path that
-- cannot be used or nothing usable in it; 69 an output that cannot be written.
module Maru.Cli.Similar
  ( similarCommand,
  )
where

import Control.Exception (Exception, evaluate, throwIO, try)
import Control.Monad (forM_, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder, hPutBuilder, stringUtf8)
import qualified Data.ByteString.Char8 as BC
import Data.List (intercalate)
import Data.Maybe (fromMaybe)
import qualified Data.Vector as V
import qualified GHC.Foreign as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Maru (parMapWith)
import Maru.Cli.Exit (badInput, unavailable, usage)
import Maru.Cli.Host (pageFacts)
import Maru.Cli.Output (wantsColour)
import Maru.Cli.Progress (withProgress)
import Maru.Cli.Readers (named, wholeFrom)
import Maru.Cli.Similar.Page (similarPage)
import Maru.Cli.WholeFile (replaceFile)
import Maru.Options (Backend, Workers (..), allBackends, backendName)
import qualified Maru.Options as Maru
import Maru.Similar
import Maru.Similar.Normalise (View (Structure))
import Maru.Similar.Output
import Maru.Similar.Pairs (pairComplete, pairList)
import Options.Applicative
import System.Environment (getArgs, lookupEnv)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Error (ioeGetErrorString, isResourceVanishedError)
import System.Posix.ByteString (RawFilePath)
import Text.Read (readMaybe)

-- | The subcommand, for the command's 'hsubparser'.
similarCommand :: Mod CommandFields (IO ExitCode)
similarCommand =
  command "similar" $
    info
      (similar <$> settings)
      (progDesc "Find the submissions of a collection that are copies of each other")

data Settings = Settings
  { language :: !Language,
    bases :: ![FilePath],
    backendFlag :: !(Maybe Backend),
    workersFlag :: !(Maybe Int),
    threshold :: !Double,
    top :: !Int,
    minMatch :: !Int,
    csvFile :: !(Maybe FilePath),
    jsonFile :: !(Maybe FilePath),
    htmlFile :: !(Maybe FilePath),
    paths :: ![FilePath]
  }

settings :: Parser Settings
settings =
  Settings
    <$> option (eitherReader parseLanguage) (long "lang" <> metavar "LANG" <> value LanguageAuto <> help "auto (by file name) or java")
    <*> many (strOption (long "base" <> metavar "DIR" <> help "Template code that everybody was given; not counted. May be repeated"))
    <*> optional (option (eitherReader parseBackend) (long "backend" <> metavar "B" <> help ("Where pairs are compared: " <> backendNames)))
    <*> optional (option (eitherReader parseWorkers) (long "workers" <> metavar "N" <> help "How many workers (default: one per core)"))
    <*> option (eitherReader parseShare) (long "threshold" <> metavar "X" <> value 0 <> help "Report pairs of at least this similarity, 0 to 1 (default 0: all)")
    <*> option (eitherReader (wholeFrom 0 1000000000 "a number")) (long "top" <> metavar "N" <> value 20 <> help "Rows of the table (default 20)")
    <*> option (eitherReader (wholeFrom 1 1000000000 "a number")) (long "min-match" <> metavar "N" <> value 9 <> help "Tokens of the shortest match that counts (default 9)")
    <*> optional (strOption (long "csv" <> metavar "FILE" <> help "Write all reported pairs as CSV; - is standard output"))
    <*> optional (strOption (long "json" <> metavar "FILE" <> help "Write everything as JSON; - is standard output"))
    <*> optional (strOption (long "html" <> metavar "FILE" <> help "Write the most similar pairs as a page for people; - is standard output"))
    <*> some (strArgument (metavar "PATH..." <> help "A folder of submissions (its files and folders), or one submission's file"))

parseLanguage :: String -> Either String Language
parseLanguage = fmap snd . named "language" fst [("auto", LanguageAuto), ("java", Java)]

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

parseShare :: String -> Either String Double
parseShare s = case readMaybe (if take 1 s == "." then '0' : s else s) of
  Just x | x >= 0 && x <= 1 -> Right x
  _ -> Left ("the threshold must be a number from 0 to 1, not '" <> s <> "'")

-- | An end with one line on standard error.
data Stop = Stop !Int !ByteString

similar :: Settings -> IO ExitCode
similar s = do
  mapped <- mapOptions s
  case mapped of
    Left failure -> failWith failure
    Right options
      | length (filter (== Just "-") [csvFile s, jsonFile s, htmlFile s]) > 1 ->
        failWith (Stop usage "only one of --csv, --json and --html can go to standard output")
      | otherwise -> do
        rawBases <- mapM rawPath (bases s)
        rawPaths <- mapM rawPath (paths s)
        corpus <- readCorpus (language s) rawBases rawPaths
        case corpus of
          Left (BadPath path why) -> failWith (Stop badInput (printableName path <> ": " <> why))
          Right c -> compareCorpus s options rawPaths c

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

-- | The bytes that the user typed, in any locale.
rawPath :: FilePath -> IO RawFilePath
rawPath path = do
  encoding <- getFileSystemEncoding
  Foreign.withCString encoding path B.packCString

compareCorpus :: Settings -> Maru.Options -> [RawFilePath] -> Corpus -> IO ExitCode
compareCorpus s options given corpus = do
  let config = Config Structure (minMatch s) (threshold s)
      prepared = prepare (parMapWith options) config corpus
      submissions = preparedSubmissions prepared
      rows = comparePrepared (parMapWith options) config prepared
  warnLeftOut (preparedLeftOut prepared)
  if V.null submissions
    then failWith (Stop badInput (nothingUsable given (preparedLeftOut prepared)))
    else do
      showProgress (V.length submissions - 1) rows
      let report = assemble config prepared rows
      warnAbout report
      written <- try (writeAll s report)
      case written of
        Right () -> pure ExitSuccess
        Left (NotWritten what why) -> failWith (Stop unavailable (what <> ": cannot be written: " <> why))

nothingUsable :: [RawFilePath] -> [LeftOut] -> ByteString
nothingUsable given missed =
  BC.intercalate ", " (map printableName given) <> ": no Java submission found" <> because
  where
    because = case missed of
      [] -> "; a submission is a .java file, or a folder that holds some"
      _ -> " (" <> filesOrFolders missed <> " left out, see above)"

-- Progress --------------------------------------------------------------------

-- | Wait for the rows, one after the other; on a terminal, say how far it is. Row n stands for
-- @expected + 1 - n@ pairs.
showProgress :: Int -> [Row] -> IO ()
showProgress expected rows = withProgress "comparing" $ \tell ->
  forM_ (zip [1 ..] rows) $ \(n, row) -> evaluate row >> tell (done n)
  where
    done :: Int -> Double
    done n = fromIntegral (n * (2 * expected + 1 - n)) / fromIntegral (max 1 (expected * (expected + 1)))

-- Warnings --------------------------------------------------------------------

complain :: ByteString -> IO ()
complain why = B.hPut stderr ("maru similar: " <> why <> "\n")

failWith :: Stop -> IO ExitCode
failWith (Stop status why) = ExitFailure status <$ complain why

warnLeftOut :: [LeftOut] -> IO ()
warnLeftOut missed = unless (null missed) $ do
  complain ("warning: " <> filesOrFolders missed <> " left out:")
  forM_ (take shown missed) $ \(LeftOut path why) ->
    B.hPut stderr ("  " <> printableName path <> ": " <> why <> "\n")
  when (length missed > shown) $
    B.hPut stderr ("  and " <> BC.pack (show (length missed - shown)) <> " more; --json names them all\n")
  where
    shown = 5

warnAbout :: Report -> IO ()
warnAbout report = do
  warn [submissionName s | s <- submissions, submissionErrors s > 0] "hold text that is not Java; compared all the same"
  warn [submissionName s | s <- submissions, submissionNotJava s > 0] "hold a file without the shape of Java (prose, another language?); compared all the same"
  warn [submissionName s | s <- submissions, submissionUnclosed s > 0] "hold a comment or text block that does not end; what follows it is compared as code"
  warn [submissionName s | s <- submissions, submissionControls s > 0] "hold NUL or other control bytes; compared all the same"
  warn [submissionName s | s <- submissions, submissionTokens s < least] ("have fewer than " <> BC.pack (show least) <> " tokens of their own: only equals are found")
  unless (null incomplete) $
    complain ("warning: " <> counted (length incomplete) "pair" <> " repeat themselves too much to be compared wholly; their similarity is at least the one shown")
  where
    submissions = V.toList (reportSubmissions report)
    least = configMinMatch (reportConfig report)
    incomplete = filter (not . pairComplete) (pairList (reportPairs report))
    warn names what =
      unless (null names) $
        complain ("warning: " <> counted (length names) "submission" <> " " <> what <> ": " <> BC.intercalate ", " (map printableName (take 5 names)) <> (if length names > 5 then ", ..." else ""))

filesOrFolders :: [LeftOut] -> ByteString
filesOrFolders missed = case length missed of
  1 -> "1 file or folder"
  n -> BC.pack (show n) <> " files or folders"

counted :: Int -> ByteString -> ByteString
counted n thing = BC.pack (show n) <> " " <> thing <> (if n == 1 then "" else "s")

-- Outputs ---------------------------------------------------------------------

-- | What could not be written, and why.
data NotWritten = NotWritten !ByteString !ByteString
  deriving (Show)

instance Exception NotWritten

-- | The table goes to standard output unless something else does.
writeAll :: Settings -> Report -> IO ()
writeAll s report = do
  forM_ (csvFile s) (writeTo (csv report))
  forM_ (jsonFile s) (writeTo (json report))
  forM_ (htmlFile s) $ \file -> do
    arguments <- getArgs
    facts <- pageFacts ("maru" : arguments)
    writeTo (stringUtf8 (similarPage facts (max 200 (top s)) report)) file
  unless (Just "-" `elem` [csvFile s, jsonFile s, htmlFile s]) $ do
    colour <- wantsColour stdout
    writeTo (table (TableStyle colour) (top s) report) "-"

writeTo :: Builder -> FilePath -> IO ()
writeTo content file = do
  result <- try $ case file of
    "-" -> hSetBinaryMode stdout True >> hPutBuilder stdout content >> hFlush stdout
    _ -> replaceFile file (`hPutBuilder` content)
  case result of
    Right () -> pure ()
    Left e
      -- Nobody reads the pipe any more: the shell of all subcommands ends for that.
      | isResourceVanishedError e -> throwIO e
      | otherwise -> do
        name <- if file == "-" then pure "standard output" else printableName <$> rawPath file
        throwIO (NotWritten name (BC.pack (ioeGetErrorString e)))
