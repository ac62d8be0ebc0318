{-# LANGUAGE OverloadedStrings #-}

-- | @maru attach@: what @maru run --io@ does, for a program that runs already.
module Maru.Cli.Room.Steer.Attach
  ( attachCommand,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, readMVar)
import Control.Exception (finally)
import Control.Monad (unless, when)
import Data.Aeson (Value, eitherDecodeStrict, withObject, (.:))
import Data.Aeson.Types (parseEither)
import qualified Data.ByteString.Char8 as Chars
import qualified Data.IntMap.Strict as IntMap
import Data.List (intercalate)
import Maru.Cli.Exit
import Maru.Cli.Host (readText)
import Maru.Cli.Installed (commandItself, helperPath)
import Maru.Cli.Machine
import Maru.Cli.Output
import Maru.Cli.Readers (processNumber)
import Maru.Cli.Room.Steer.Control
import Maru.Control.Memory
import Options.Applicative hiding (internal)
import System.Exit (ExitCode (..))
import System.IO (Handle, hClose)
import System.Posix.Signals (Handler (Catch), installHandler, sigHUP, sigINT, sigTERM)
import System.Process
import System.Timeout (timeout)

data Flags = Flags
  { flagPid :: !Int,
    flagPolicy :: !Choice,
    flagFor :: !(Maybe Double),
    flagCpusets :: !Bool,
    flagMove :: !(Maybe String),
    flagJson :: !JsonTo
  }

attachCommand :: Mod CommandFields (IO ExitCode)
attachCommand =
  command "attach" $
    info
      (attach <$> flags)
      ( progDesc "Place and observe a program that runs already, and put everything back at the end"
          <> footer "Examples: maru attach 4711   |   maru attach --io per-socket --for 60 4711   |   Ends with the program, after --for, or by Ctrl-C. Status: 0, 64 usage, 69 no such process."
      )
  where
    flags =
      Flags
        <$> argument (eitherReader (processNumber 2)) (metavar "PID" <> help "The program, with all processes below it")
        <*> option (eitherReader choiceOf) (long "io" <> metavar "POLICY" <> value' <> help (intercalate ", " choiceNames ++ " (default auto)") <> completeWith choiceNames)
        <*> optional (option (eitherReader positive) (long "for" <> metavar "SECONDS" <> help "End by itself"))
        <*> switch (long "io-cpusets" <> help "Place threads by cgroups of our own, where they may be made")
        <*> optional (strOption (long "move-memory" <> metavar "DEVICE" <> help "First move the memory that it has to the node of this disk or interface; it is not moved back"))
        <*> jsonTo
    value' = either (const mempty) value (choiceOf "auto")
    positive text = case reads text of
      [(s, "")] | s >= 0.1 && s <= 1e6 -> Right s
      _ -> Left ("'" ++ text ++ "' is not 0.1 to 1000000")

attach :: Flags -> IO ExitCode
attach flags = do
  roots <- ownRoots
  -- Threads have folders in /proc, too, but are not listed there.
  there <- (&&) <$> isAlive roots (flagPid flags) <*> (IntMap.member (flagPid flags) <$> parents roots)
  unless there $ problem unavailable ("there is no process " ++ show (flagPid flags))
  memory <- readText ("/proc/" ++ show (flagPid flags) ++ "/maps")
  when (memory == Right "") $ problem unavailable ("process " ++ show (flagPid flags) ++ " is the kernel's own, or has ended: it has no threads that could be placed")
  keeper <- helperPath "maru-steer"
  command' <- commandItself
  root <- describedRoot
  mapM_ (moveMemory keeper roots (flagPid flags)) (flagMove flags)
  case keeperWords keeper command' (flagPid flags) (flagPolicy flags) (if flagCpusets flags then ByCpusets else ByAffinity) root of
    program : arguments -> withCreateProcess (proc program arguments) {std_in = CreatePipe, std_out = CreatePipe} (during flags)
    [] -> problem internal "no keeper"

-- | Where it cannot be, that is said, and the program is steered all the same.
moveMemory :: FilePath -> Roots -> Int -> String -> IO ()
moveMemory steer roots pid device = do
  machine <- readMachine (rootMachine roots)
  nodes <- readMemoryNodes (rootMachine roots)
  case memoryFor machine nodes Nothing (Near device) of
    Left why -> warn ("steer: no memory is moved: " ++ why)
    Right (Prefer node) -> do
      (status, said, errors) <- readProcessWithExitCode steer ["move", "--tree", show pid, "--node", show node] ""
      warn $ case (status, words said) of
        (ExitSuccess, [processes, stayed]) -> "steer: moved the memory of " ++ processes ++ " processes to node " ++ show node ++ "; " ++ stayed ++ " pages stayed where they were"
        _ -> "steer: no memory is moved: " ++ unwords (lines errors)
    Right _ -> problem internal "a device is at several nodes"

-- | The keeper's standard input is its life.
during :: Flags -> Maybe Handle -> Maybe Handle -> Maybe Handle -> ProcessHandle -> IO ExitCode
during flags (Just life) (Just said) _ keeper = do
  mapM_ (\signal -> installHandler signal (Catch (hClose life)) Nothing) [sigINT, sigTERM, sigHUP]
  report <- newEmptyMVar
  _ <- forkIO (Chars.hGetContents said >>= putMVar report)
  let bounded = maybe (fmap Just) (\s -> timeout (round (s * 1e6))) (flagFor flags)
  _ <- bounded (readMVar report) `finally` hClose life
  content <- readMVar report
  kept <- waitForProcess keeper
  case Chars.lines content of
    [line] -> do
      (text, whole) <- either (problem internal . ("the controller's report is broken: " ++)) pure (told line)
      if flagJson flags == Just "-" then pure () else warn ("steer: " ++ text)
      mapM_ (`writeJson` whole) (flagJson flags)
      pure ExitSuccess
    _ | kept == ExitSuccess -> problem internal "the controller ended without a report; everything is put back, but for what a line above says"
    _ | ExitFailure n <- kept, n > 0 -> problem internal "the keeper failed, as a line above says; no thread was placed"
    _ -> problem internal "the keeper was killed, and no report came; what is not put back the next 'maru run --io' puts back, or 'maru-steer repair'"
during _ _ _ _ _ = problem internal "no pipe to the keeper"

told :: Chars.ByteString -> Either String (String, Value)
told line = do
  whole <- eitherDecodeStrict line
  text <- parseEither (withObject "report" (.: "line")) whole
  pure (text, whole)
