-- | @maru top@: the runs of this user that are alive, and what their rooms
-- count. Only a key of a room's page changes anything there: a knob.
module Maru.Cli.Top
  ( topCommand,
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Exception (AsyncException (UserInterrupt), SomeException, throwIO, try)
import Control.Monad (unless)
import qualified Data.ByteString.Lazy as Lazy
import Data.List (find)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (catMaybes, isJust, mapMaybe)
import Data.Time.Clock.POSIX (getPOSIXTime)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Host (readText)
import Maru.Cli.Mailbox
import Maru.Cli.Output
import Maru.Cli.Readers (processNumber)
import Maru.Cli.Room
import Maru.Cli.RunSection
import Maru.Cli.Top.Find
import Maru.Cli.Top.Pages
import Maru.Cli.Top.Screen
import Maru.Native.BoardView
import Maru.View.Columns (tidy)
import Maru.View.Top.Draw
import Maru.View.Top.Model
import Options.Applicative hiding (internal)
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.Signals (Handler (Default), Signal, installHandler, keyboardSignal, raiseSignal)

data Flags = Flags
  { flagPid :: !(Maybe Int),
    flagOnce :: !Bool,
    flagInterval :: !Double,
    flagJson :: !Bool,
    flagRecord :: !(Maybe FilePath)
  }

topCommand :: [Room] -> Mod CommandFields (IO ExitCode)
topCommand rooms =
  command "top" $
    info
      (top rooms <$> flags)
      ( progDesc "Show the runs that are alive and what their rooms count"
          <> footer "Examples: maru top   |   maru top --once --json 4711   |   Keys: q quits, ? shows all."
      )
  where
    flags =
      Flags
        <$> optional (argument (eitherReader (processNumber 1)) (metavar "PID" <> help "Only the run that this process owns or is, or any other program"))
        <*> switch (long "once" <> help "Show it once and end")
        <*> option positiveSeconds (long "interval" <> metavar "SECONDS" <> value 1 <> help "Between two looks (default 1)")
        <*> switch (long "json" <> help "Print one line of JSON for each look")
        <*> optional (strOption (long "record" <> metavar "FILE" <> help "Append one line of JSON for each look to FILE"))
    positiveSeconds = eitherReader $ \text -> case reads text of
      [(s, "")] | s >= 0.05 && s <= 3600 -> Right s
      _ -> Left ("an interval of 0.05 to 3600 seconds is needed, not '" ++ text ++ "'")

-- ---- looking ------------------------------------------------------------

top :: [Room] -> Flags -> IO ExitCode
top rooms flags = do
  pages <- sequence (mapMaybe openPage rooms)
  colour <- wantsColour stdout
  found <- findBoards (flagPid flags)
  case flagPid flags of
    Just pid | null found -> problem unavailable ("there is no process " ++ show pid ++ " that you may see; 'maru top' lists your runs")
    _ -> pure ()
  canDraw <- drawable
  if canDraw && not (flagOnce flags) && not (flagJson flags)
    then browse flags colour pages found >>= endedBy
    else printLooks flags colour pages found
  pure ExitSuccess

-- | Keys come from a terminal, and it can place what is written.
drawable :: IO Bool
drawable = do
  terminal <- (&&) <$> hIsTerminalDevice stdin <*> hIsTerminalDevice stdout
  name <- lookupEnv "TERM"
  pure (terminal && maybe False (`notElem` ["", "dumb"]) name)

-- | What the pages show of these boards now; a line of the record, if one is asked for.
lookOnce :: Flags -> [Page] -> [Board] -> IO ([Page], [(Board, [Shown])], Lazy.ByteString)
lookOnce flags before boards = do
  now <- getMonotonicTime
  stamp <- realToFrac <$> getPOSIXTime
  (pages, shown) <- lookAll now boards before
  let line = jsonLine (sampleJson stamp shown)
  mapM_ (appendLine line) (flagRecord flags)
  pure (pages, shown, line)
  where
    appendLine line file = do
      written <- try (Lazy.appendFile file line)
      case written of
        Right () -> pure ()
        Left e -> problem unavailable ("cannot write " ++ file ++ ": " ++ reason e)

-- | Another set of boards to look at; 'Nothing': the run that was asked for has ended.
lookAgain :: Flags -> IO (Maybe [Board])
lookAgain flags = do
  next <- findBoards (flagPid flags)
  pure (if null next && isJust (flagPid flags) then Nothing else Just next)

-- | Look after look as plain lines, or as JSON.
printLooks :: Flags -> Bool -> [Page] -> [Board] -> IO ()
printLooks flags colour before boards = do
  (pages, shown, line) <- lookOnce flags before boards
  if flagJson flags then Lazy.putStr line else mapM_ putStrLn (content' shown)
  hFlush stdout
  unless (flagOnce flags) $ do
    threadDelay (round (flagInterval flags * 1e6))
    lookAgain flags >>= maybe (pure ()) (printLooks flags colour pages)
  where
    content' shown
      | null shown = ["no run of yours is alive"]
      | otherwise = concatMap ((++ [""]) . drawBoard colour) shown

-- ---- on a terminal ------------------------------------------------------

-- | What the screen's loop waits for.
data Input
  = FromTerminal !Event
  | -- | At this time of the monotonic clock.
    Looked !Double ![Run]
  | -- | The run that was asked for has ended, or looking has failed.
    Over !(Either SomeException ())

-- | Why it ends: by itself, or as this signal asks.
browse :: Flags -> Bool -> [Page] -> [Board] -> IO (Maybe Signal)
browse flags colour pages boards = do
  inputs <- newMailbox
  wishes <- newMailbox
  withScreen colour (post inputs . FromTerminal) $ \screen -> do
    _ <- forkIO (try (watch flags wishes (post inputs) pages boards) >>= post inputs . Over)
    (width, height) <- sizeOf
    let model = resized width height (start (map nameOf pages) (concatMap keysOf pages))
    began <- getMonotonicTime
    draw screen True (view "" model)
    loop screen inputs wishes (flagInterval flags) began model

-- | Looks, and looks again when the interval is over or a room's key was pressed. Another thread
-- than the screen's: where a look takes long, keys are obeyed all the same.
watch :: Flags -> Mailbox (Char, Maybe RunKey) -> (Input -> IO ()) -> [Page] -> [Board] -> IO ()
watch flags wishes tell = go Map.empty
  where
    go before pages boards = do
      (after, shown, _) <- lookOnce flags pages boards
      usages <- usageOf boards
      now <- getMonotonicTime
      tell (Looked now (zipWith (runOf now before) usages shown))
      wish <- receiveWithin (flagInterval flags) wishes
      turned <- maybe (pure after) (obey after boards) wish
      lookAgain flags >>= maybe (pure ()) (go (spentAt now boards usages) turned)
    obey pages boards (key, run) = do
      mapM_ (\board -> turnKnobs board pages key) (find ((== run) . Just . identityOf) boards)
      pure (map (pressKey key) pages)

-- | When a run's usage was seen, and its seconds of CPU.
type Spent = Map RunKey (Double, Double)

spentAt :: Double -> [Board] -> [Maybe Usage] -> Spent
spentAt now boards usages = Map.fromList (catMaybes (zipWith (\b -> fmap (\u -> (identityOf b, (now, usageSeconds u)))) boards usages))

runOf :: Double -> Spent -> Maybe Usage -> (Board, [Shown]) -> Run
runOf now before used (board, shown) =
  Run
    { runKey = key,
      runNumber = maybe (boardOwner board) runPid section,
      runIs = maybe (if null (boardPath board) then "alien" else "own") (state . runState) section,
      runAge = usageAge <$> used,
      runCpu = used >>= cpuOf,
      runProcesses = maybe 0 usageProcesses used,
      runWords = maybe (maybe "?" (tidy . usageName) used ++ kind) commandLine section,
      runRooms = [(shownRoom s, shownBlocks s) | s <- shown, not (null (shownBlocks s))],
      runSaid = boardLines board
    }
  where
    key = identityOf board
    section = runSection board
    kind = if null (boardPath board) then "  (not started by maru)" else "  (uses maru itself)"
    -- The first time: since it began.
    cpuOf now' = case Map.lookup key before of
      Just (at, seconds') | now > at -> Just (max 0 (usageSeconds now' - seconds') / (now - at))
      _ | usageAge now' > 0 -> Just (usageSeconds now' / usageAge now')
      _ -> Nothing
    state s = case s of
      Starting -> "starting"
      Running -> "running"
      Stopped -> "stopped"
      Ended -> "ended"

-- | Draws after each event until one ends it.
loop :: Screen -> Mailbox Input -> Mailbox (Char, Maybe RunKey) -> Double -> Double -> Model -> IO (Maybe Signal)
loop screen inputs wishes interval = go
  where
    go seen model = do
      input <- receiveWithin 1 inputs
      case input of
        Nothing -> shown seen False model
        Just (Looked now runs) -> shown now False (looked runs model)
        Just (Over (Right ())) -> pure Nothing
        Just (Over (Left e)) -> throwIO e
        Just (FromTerminal event) -> heard seen model event
    heard seen model event = case event of
      Pressed key -> case pressed key model of
        (_, asks) | Quit `elem` asks -> pure Nothing
        (after, asks) -> do
          mapM_ (post wishes) [(c, run) | ForRoom c run <- asks]
          shown seen (Repaint `elem` asks) after
      Resize -> again seen model
      Pause -> paused screen >> again seen model
      Continued -> taken screen >> again seen model
      Told signal -> pure (Just signal)
      Gone -> pure Nothing
    again seen model = do
      (width, height) <- sizeOf
      shown seen True (resized width height model)
    shown seen everything model = do
      now <- getMonotonicTime
      load <- either (const "") (unwords . take 3 . words) <$> readText "/proc/loadavg"
      let late = now - seen > 2 * interval + 3
      draw screen everything (view (if late then "last look " ++ seconds (now - seen) ++ " ago" else "load " ++ load) model)
      go seen model

-- | Ends as the signal would have ended it, now that the terminal is restored.
endedBy :: Maybe Signal -> IO ()
endedBy ended = case ended of
  Nothing -> pure ()
  Just signal
    | signal == keyboardSignal -> throwIO UserInterrupt
    | otherwise -> installHandler signal Default Nothing >> raiseSignal signal
