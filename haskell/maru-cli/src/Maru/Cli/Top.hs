{-# LANGUAGE OverloadedStrings #-}

-- | @maru top@: the runs of this user that are alive, and what their rooms
-- count. Reads only; a run does not notice.
module Maru.Cli.Top
  ( topCommand,

    -- * For tests
    Page,
    openPage,
    pressKey,
    drawBoard,
    sampleJson,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (IOException, bracket, try)
import Control.Monad (filterM, forM, unless)
import Data.Aeson (Value, object, (.=))
import qualified Data.Aeson.Key as Key
import qualified Data.ByteString.Lazy as Lazy
import Data.Either (rights)
import Data.Function (on)
import Data.List (intercalate, isPrefixOf, nubBy)
import Data.Maybe (catMaybes, isJust, mapMaybe)
import Data.Time.Clock.POSIX (getPOSIXTime)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Output
import Maru.Cli.ProcessCalls (readProcessCalls)
import Maru.Cli.Room
import Maru.Cli.RunSection
import Maru.Native.BoardView
import Options.Applicative hiding (internal)
import System.Directory (listDirectory)
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO
import System.Posix.Files (deviceID, fileID, fileOwner, getFileStatus, readSymbolicLink)
import System.Posix.IO (stdInput)
import System.Posix.Terminal
import System.Posix.User (getEffectiveUserID)

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
          <> footer "Examples: maru top   |   maru top --once --json 4711   |   Keys: q quits, others as shown."
      )
  where
    flags =
      Flags
        <$> optional (argument positive (metavar "PID" <> help "Only the run that this process owns or is"))
        <*> switch (long "once" <> help "Show it once and end")
        <*> option positiveSeconds (long "interval" <> metavar "SECONDS" <> value 1 <> help "Between two looks (default 1)")
        <*> switch (long "json" <> help "Print one line of JSON for each look")
        <*> optional (strOption (long "record" <> metavar "FILE" <> help "Append one line of JSON for each look to FILE"))
    positive = eitherReader $ \text -> case reads text of
      [(n, "")] | n > 0 -> Right n
      _ -> Left ("a process number is needed, not '" ++ text ++ "'")
    positiveSeconds = eitherReader $ \text -> case reads text of
      [(s, "")] | s >= 0.05 && s <= 3600 -> Right s
      _ -> Left ("an interval of 0.05 to 3600 seconds is needed, not '" ++ text ++ "'")

-- ---- finding ------------------------------------------------------------

-- | The boards of this user's processes, each once, those of @MARU_BOARD@ first.
findBoards :: Maybe Int -> IO [Board]
findBoards pid = do
  own <- lookupEnv "MARU_BOARD"
  -- Descriptors of other users and of processes that have just ended do not
  -- open; they are not ours to show.
  held <- heldBoards
  boards <- rights <$> mapM readBoard (maybe id (:) own held)
  mapM withProcesses (filter wanted (nubBy ((==) `on` identity) boards))
  where
    withProcesses board = (\processes -> board {boardProcesses = processes}) <$> readProcessCalls (boardOwner board)
    identity board = (boardOwner board, runPid <$> runSection board)
    wanted board = maybe True (`elem` (boardOwner board : map runPid (catMaybes [runSection board]))) pid

-- | @\/proc\/PID\/fd\/N@ of every board that a process of this user holds, one
-- path for each board.
heldBoards :: IO [FilePath]
heldBoards = do
  user <- getEffectiveUserID
  pids <- filter (all (`elem` ['0' .. '9'])) <$> orNone (listDirectory "/proc")
  ours <- filterM (ownedBy user) pids
  paths <- concat <$> mapM descriptors ours
  identified <- forM paths $ \path -> fmap (\s -> ((deviceID s, fileID s), path)) <$> try' (getFileStatus path)
  pure (map snd (nubBy ((==) `on` fst) (catMaybes identified)))
  where
    ownedBy user pid = maybe False ((== user) . fileOwner) <$> try' (getFileStatus ("/proc" </> pid))
    descriptors pid = do
      let folder = "/proc" </> pid </> "fd"
      numbers <- orNone (listDirectory folder)
      filterM isBoard (map (folder </>) numbers)
    isBoard path = maybe False ("/memfd:maru-board" `isPrefixOf`) <$> try' (readSymbolicLink path)
    orNone list = concat <$> try' list

try' :: IO a -> IO (Maybe a)
try' reading = either ignore Just <$> try reading
  where
    ignore :: IOException -> Maybe a
    ignore _ = Nothing

-- ---- pages --------------------------------------------------------------

-- | A room's page with its present state.
data Page = Page !String !TopPage

openPage :: Room -> Maybe Page
openPage r = Page (roomName r) <$> roomTop r

-- | Keys go to every page that knows them.
pressKey :: Char -> Page -> Page
pressKey key (Page name (TopPage keys state onKey draw json))
  | key `elem` map fst keys = Page name (TopPage keys (onKey key state) onKey draw json)
  | otherwise = Page name (TopPage keys state onKey draw json)

drawPage :: Maybe (Double, Board) -> Board -> Page -> [String]
drawPage before board (Page _ (TopPage _ state _ draw _)) = concatMap block (draw state before board)
  where
    block (Line text) = ["  " ++ text]
    block (Tabular table) = map ("  " ++) (renderTable table)

keysOf :: Page -> [(Char, String)]
keysOf (Page _ (TopPage keys _ _ _ _)) = keys

pageValue :: Board -> Page -> Maybe (String, Value)
pageValue board (Page name (TopPage _ _ _ _ json)) = (,) name <$> json board

-- | One run: its command, its rooms, the last lines of its log.
drawBoard :: Bool -> [Page] -> Maybe (Double, Board) -> Board -> [String]
drawBoard colour pages before board =
  paint colour Bold headline : concatMap (drawPage before board) pages ++ map ("  ! " ++) (lastOf 5 (boardLines board))
  where
    headline = case runSection board of
      Just run -> show (runPid run) ++ "  " ++ show (runState run) ++ "  " ++ commandLine run
      Nothing -> show (boardOwner board) ++ "  a program that uses maru itself"
    lastOf n list = drop (length list - n) list

sampleJson :: Double -> [Page] -> [Board] -> Value
sampleJson now pages boards =
  object ["schema" .= ("maru-top/1" :: String), "time" .= now, "runs" .= map one boards]
  where
    one board =
      object
        [ "board" .= boardPath board,
          "owner" .= boardOwner board,
          "run" .= fmap runJson (runSection board),
          "sections" .= [object ["name" .= sectionName s, "version" .= sectionVersion s] | s <- boardSections board],
          "rooms" .= object [Key.fromString name .= v | (name, v) <- mapMaybe (pageValue board) pages],
          "log" .= boardLines board
        ]

-- ---- the loop -----------------------------------------------------------

top :: [Room] -> Flags -> IO ExitCode
top rooms flags = do
  let pages = mapMaybe openPage rooms
  terminal <- (&&) <$> hIsTerminalDevice stdin <*> hIsTerminalDevice stdout
  colour <- wantsColour stdout
  first <- findBoards (flagPid flags)
  case flagPid flags of
    Just pid | null first -> problem unavailable ("process " ++ show pid ++ " has no maru run that you may see; 'maru top' lists all")
    _ -> pure ()
  let view = View flags colour (terminal && not (flagOnce flags) && not (flagJson flags))
  if viewInteractive view then interactively (watch view pages [] first) else watch view pages [] first
  pure ExitSuccess

data View = View
  { viewFlags :: !Flags,
    viewColour :: !Bool,
    -- | Redraws the screen and obeys keys.
    viewInteractive :: !Bool
  }

watch :: View -> [Page] -> [(Double, Board)] -> [Board] -> IO ()
watch view pages before boards = do
  now <- getMonotonicTime
  stamp <- realToFrac <$> getPOSIXTime
  mapM_ (appendLine (jsonLine (sampleJson stamp pages boards))) (flagRecord flags)
  if flagJson flags
    then Lazy.putStr (jsonLine (sampleJson stamp pages boards))
    else display view pages (concatMap (section now) boards)
  hFlush stdout
  unless (flagOnce flags) $ do
    keys <- waitForKeys view
    unless ('q' `elem` keys) $ do
      next <- findBoards (flagPid flags)
      -- The run that was asked for has ended.
      unless (null next && isJust (flagPid flags)) $
        watch view (map (\p -> foldl (flip pressKey) p keys) pages) [(now, b) | b <- boards] next
  where
    flags = viewFlags view
    section now board = drawBoard (viewColour view) pages (earlier now board) board ++ [""]
    earlier now board =
      case [(now - at, b) | (at, b) <- before, boardPath b == boardPath board, boardOwner b == boardOwner board] of
        found : _ -> Just found
        [] -> Nothing
    appendLine line file = do
      written <- try (Lazy.appendFile file line)
      case written of
        Right () -> pure ()
        Left e -> problem unavailable ("cannot write " ++ file ++ ": " ++ reason e)

display :: View -> [Page] -> [String] -> IO ()
display view pages content = putStr (start ++ concatMap (++ newline) shown)
  where
    shown = if null content then ["no run of yours is alive"] else content
    -- Home, each line cleared behind its end, then the rest of the screen.
    (start, newline) = if viewInteractive view then ("\ESC[H" ++ help' ++ "\ESC[J", "\ESC[K\n") else ("", "\n")
    help' = intercalate "  " ["[" ++ [k] ++ "] " ++ what | (k, what) <- ('q', "quit") : concatMap keysOf pages] ++ "\ESC[K\n"

-- | Keys that were pressed until the interval was over or one came.
waitForKeys :: View -> IO String
waitForKeys view
  | viewInteractive view = do
    pressed <- hWaitForInput stdin (round (flagInterval (viewFlags view) * 1000))
    if pressed then drain else pure ""
  | otherwise = "" <$ pause
  where
    pause = threadDelay (round (flagInterval (viewFlags view) * 1e6))
    drain = do
      more <- hReady stdin
      if more then (:) <$> getChar <*> drain else pure ""

-- | The alternate screen and keys without return; both restored at the end,
-- however it comes.
interactively :: IO () -> IO ()
interactively watching = bracket enter leave (const watching)
  where
    enter = do
      before <- getTerminalAttributes stdInput
      -- First: the runtime remembers the attributes that it finds here and
      -- restores them at the very end.
      hSetBuffering stdin NoBuffering
      setTerminalAttributes stdInput (foldl withoutMode before [ProcessInput, EnableEcho]) Immediately
      putStr "\ESC[?1049h\ESC[?25l"
      pure before
    leave before = do
      putStr "\ESC[?25h\ESC[?1049l"
      hFlush stdout
      setTerminalAttributes stdInput before Immediately
