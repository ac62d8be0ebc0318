{-# LANGUAGE OverloadedStrings #-}

-- | One side of a measurement: a fresh process that says what it measured as
-- one line of JSON. Two processes may be started together and begin at the same
-- instant.
module Maru.Bench.Side
  ( Side (..),
    runSide,
    runTool,
    runWords,
    runPlain,

    -- * Reading samples
    Sample,
    module Maru.Cli.JsonPath,
    wallNs,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (replicateM_, (>=>))
import Data.Aeson (Value (..), eitherDecode, object, (.=))
import qualified Data.ByteString.Lazy.Char8 as Lazy
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.JsonPath
import Maru.Cli.Reaper (Reaper)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Error (ioeGetErrorString)
import System.Posix.Process (ProcessTimes (..), getProcessTimes)
import System.Posix.Unistd (SysVar (..), getSysVar)
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

-- | Each process says @ready@; then all are told to begin. Of more than one, the
-- sample is their list.
runSide :: Reaper -> FilePath -> Side -> IO Sample
runSide reaper program side = do
  samples <- bounded (sideName side) (inGroups reaper (map job (sideProcesses side)) (mapM piped >=> both))
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
runTool :: Reaper -> FilePath -> [String] -> IO Sample
runTool reaper program arguments = do
  (code, text, errors) <- bounded program . withFile "/dev/null" ReadMode $ \nothing ->
    outputOf reaper (proc program arguments) {std_in = UseHandle nothing}
  case (code, eitherDecode (Lazy.pack text)) of
    (ExitSuccess, Right value) -> pure value
    (ExitSuccess, Left why) -> problem internal (program ++ " printed no JSON: " ++ why)
    (ExitFailure 77, _) -> problem unavailable (program ++ " " ++ unwords (lines errors))
    (ExitFailure n, _) -> problem internal (program ++ " ended with status " ++ show n ++ ": " ++ unwords (lines errors))

-- | The same of a command line.
runWords :: Reaper -> [String] -> IO Sample
runWords reaper command = case command of
  program : arguments -> runTool reaper program arguments
  [] -> problem internal "a side without a command"

-- | A program that measures nothing, so many times: the mean of its time and of its processor time. The kernel
-- tells what ended processes took in steps of 10 ms.
runPlain :: Reaper -> Int -> [String] -> IO Sample
runPlain reaper times command = bounded (unwords command) $ do
  begin <- (,) <$> getMonotonicTime <*> endedSeconds
  replicateM_ times once
  end <- (,) <$> getMonotonicTime <*> endedSeconds
  let each of' = 1e3 * (of' end - of' begin) / fromIntegral times
  pure (object ["wall_ms" .= each fst, "cpu_ms" .= each snd])
  where
    once = do
      (code, _, errors) <- outputOf reaper (case command of program : rest -> proc program rest; [] -> proc "" [])
      case code of
        ExitSuccess -> pure ()
        ExitFailure n -> problem internal (unwords command ++ " ended with status " ++ show n ++ ": " ++ unwords (lines errors))

-- | Processor time of all processes that this one has started and seen end.
endedSeconds :: IO Double
endedSeconds = do
  spent <- getProcessTimes
  perSecond <- getSysVar ClockTick
  pure (realToFrac (childUserTime spent + childSystemTime spent) / fromIntegral perSecond)

-- Ten minutes for one measurement: something hangs.
bounded :: String -> IO a -> IO a
bounded what act = timeout 600000000 act >>= maybe (problem internal ("measuring " ++ what ++ " took more than 10 minutes; it was ended")) pure

-- | Of one process: as it said. Of several: from the first start to the last
-- end.
wallNs :: Sample -> Maybe Double
wallNs sample = case at ["together"] sample of
  Just many -> do
    starts <- traverse (number ["meter", "start_ns"]) many
    ends <- traverse (number ["meter", "end_ns"]) many
    if null (many :: [Value]) then Nothing else Just (maximum ends - minimum starts)
  Nothing -> number ["meter", "wall_ns"] sample
