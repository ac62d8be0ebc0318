{-# LANGUAGE OverloadedStrings #-}

-- | One side of a measurement: a fresh process that says what it measured as
-- one line of JSON. Two processes may be started together and begin at the same
-- instant.
module Maru.Cli.Bench.Side
  ( Side (..),
    helperAt,
    helperPath,
    runSide,
    runTool,

    -- * Reading samples
    Sample,
    at,
    number,
    wallNs,
  )
where

import Control.Exception (IOException, try)
import Control.Monad ((>=>))
import Data.Aeson (FromJSON, Result (..), Value (..), eitherDecode, fromJSON, object, (.=))
import Data.Aeson.Key (fromText)
import qualified Data.Aeson.KeyMap as KeyMap
import qualified Data.ByteString.Lazy.Char8 as Lazy
import Data.Text (Text)
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Guard (Guard)
import Maru.Cli.Run (libexecFile)
import System.Directory (doesFileExist)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Error (ioeGetErrorString)
import System.Process
import System.Timeout (timeout)

-- | What is run: a name for people, and the arguments of each process.
data Side = Side
  { sideName :: !String,
    sideProcesses :: ![[String]]
  }
  deriving (Eq, Show)

-- | As the process said it.
type Sample = Value

-- | A program that is installed beside the command; 'Left': where it is not.
helperAt :: String -> IO (Either FilePath FilePath)
helperAt name = do
  path <- libexecFile name
  there <- doesFileExist path
  pure (if there then Right path else Left path)

-- | The same; ends with status 69 if it is not there.
helperPath :: String -> IO FilePath
helperPath name = helperAt name >>= either missing pure
  where
    missing path = problem unavailable ("this needs " ++ path ++ "; install maru wholly or set MARU_LIBEXEC")

-- | Each process says @ready@; then all are told to begin. Of more than one, the
-- sample is their list.
runSide :: Guard -> FilePath -> Side -> IO Sample
runSide guard program side = do
  samples <- bounded (sideName side) (inGroups guard (map job (sideProcesses side)) (mapM piped >=> both))
  pure $ case samples of
    [one] -> one
    many -> object ["together" .= many]
  where
    job arguments = (proc program arguments) {std_in = CreatePipe, std_out = CreatePipe}
    piped (Just input, Just output, _, process) = pure (input, output, process)
    piped _ = broken "has no pipes"
    both running = do
      mapM_ isReady running
      mapM_ go running
      mapM collect running
    isReady (_, output, process) = do
      line <- try (hGetLine output)
      case line of
        Right "ready" -> pure ()
        Right other -> broken ("said '" ++ other ++ "'")
        Left e -> waitForProcess process >>= \code -> broken ("ended before it began: " ++ show code ++ ", " ++ ioeGetErrorString (e :: IOException))
    go (input, _, _) = hPutStrLn input "go" >> hClose input
    collect (_, output, process) = do
      text <- Lazy.hGetContents output
      code <- Lazy.length text `seq` waitForProcess process
      case (code, eitherDecode text) of
        (ExitSuccess, Right value) -> pure value
        (ExitSuccess, Left why) -> broken ("printed no JSON: " ++ why)
        (ExitFailure n, _) -> broken ("ended with status " ++ show n)
    broken why = problem internal ("measuring " ++ sideName side ++ ": " ++ program ++ " " ++ why)

-- | A program that measures both sides by itself.
runTool :: Guard -> FilePath -> [String] -> IO Sample
runTool guard program arguments = do
  (code, text, errors) <- bounded program . withFile "/dev/null" ReadMode $ \nothing ->
    outputOf guard (proc program arguments) {std_in = UseHandle nothing}
  case (code, eitherDecode (Lazy.pack text)) of
    (ExitSuccess, Right value) -> pure value
    (ExitSuccess, Left why) -> problem internal (program ++ " printed no JSON: " ++ why)
    (ExitFailure 77, _) -> problem unavailable (program ++ " " ++ unwords (lines errors))
    (ExitFailure n, _) -> problem internal (program ++ " ended with status " ++ show n ++ ": " ++ unwords (lines errors))

-- Ten minutes for one measurement: something hangs.
bounded :: String -> IO a -> IO a
bounded what act = timeout 600000000 act >>= maybe (problem internal ("measuring " ++ what ++ " took more than 10 minutes; it was ended")) pure

-- | The value at a path of keys.
at :: FromJSON a => [Text] -> Sample -> Maybe a
at = go
  where
    go [] v = case fromJSON v of
      Success x -> Just x
      Error _ -> Nothing
    go (k : ks) (Object o) = KeyMap.lookup (fromText k) o >>= go ks
    go _ _ = Nothing

number :: [Text] -> Sample -> Maybe Double
number = at

-- | Of one process: as it said. Of several: from the first start to the last
-- end.
wallNs :: Sample -> Maybe Double
wallNs sample = case at ["together"] sample of
  Just many -> do
    starts <- traverse (number ["meter", "start_ns"]) many
    ends <- traverse (number ["meter", "end_ns"]) many
    if null (many :: [Value]) then Nothing else Just (maximum ends - minimum starts)
  Nothing -> number ["meter", "wall_ns"] sample
