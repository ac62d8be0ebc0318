{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE OverloadedStrings #-}

-- | @maru top@: the runs of this user that are alive, and what their rooms
-- count. Only a key of a room's page changes anything there: a knob.
module Maru.Cli.Top
  ( topCommand,

    -- * For tests
    Page,
    Shown,
    openPage,
    pressKey,
    lookAll,
    drawBoard,
    sampleJson,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket, try)
import Control.Monad (filterM, forM, unless)
import Data.Aeson (Value, object, (.=))
import qualified Data.Aeson.Key as Key
import Data.Bifunctor (first)
import qualified Data.ByteString.Lazy as Lazy
import Data.Either (rights)
import Data.Function (on)
import Data.List (intercalate, nubBy)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (catMaybes, isJust, mapMaybe)
import Data.Time.Clock.POSIX (getPOSIXTime)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Host (boardsOf)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.RunSection
import Maru.Native.BoardView
import Options.Applicative hiding (internal)
import System.Directory (listDirectory)
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO
import System.Posix.Files (deviceID, fileID, fileOwner, getFileStatus)
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
        <$> optional (argument positive (metavar "PID" <> help "Only the run that this process owns or is, or any other program"))
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

-- | The boards of this user's processes, each once, those of @MARU_BOARD@ first. For a
-- process that is asked for and has none: an empty one.
findBoards :: Maybe Int -> IO [Board]
findBoards pid = do
  own <- lookupEnv "MARU_BOARD"
  -- Descriptors of other users and of processes that have just ended do not
  -- open; they are not ours to show.
  held <- heldBoards
  boards <- rights <$> mapM readBoard (maybe id (:) own held)
  case (filter wanted (nubBy ((==) `on` identity) boards), pid) of
    ([], Just process) -> alive process
    (found, _) -> pure found
  where
    -- Any process can be observed, whoever started it.
    alive process = maybe [] (const [Board "" process [] []]) <$> orNothing (getFileStatus ("/proc" </> show process))
    identity board = (boardOwner board, runPid <$> runSection board)
    wanted board = maybe True (`elem` (boardOwner board : map runPid (catMaybes [runSection board]))) pid

-- | @\/proc\/PID\/fd\/N@ of every board that a process of this user holds, one
-- path for each board.
heldBoards :: IO [FilePath]
heldBoards = do
  user <- getEffectiveUserID
  pids <- filter (all (`elem` ['0' .. '9'])) <$> orNone (listDirectory "/proc")
  ours <- filterM (ownedBy user) pids
  paths <- concat <$> mapM boardsOf ours
  identified <- forM paths $ \path -> fmap (\s -> ((deviceID s, fileID s), path)) <$> orNothing (getFileStatus path)
  pure (map snd (nubBy ((==) `on` fst) (catMaybes identified)))
  where
    ownedBy user pid = maybe False ((== user) . fileOwner) <$> orNothing (getFileStatus ("/proc" </> pid))
    orNone list = concat <$> orNothing list

-- ---- pages --------------------------------------------------------------

-- | A room's page with its present state and what it saw of each board last, and
-- when.
data Page = forall state seen. Page !String !(Acts state seen) !state !(Map BoardKey (Double, seen))

data Acts state seen = Acts
  { actKeys :: ![(Char, String)],
    actKey :: !(Char -> state -> state),
    actTurn :: !(Char -> Board -> IO ()),
    actSee :: !(Board -> IO seen),
    actDraw :: !(state -> Maybe (Double, seen) -> seen -> [Block]),
    actJson :: !(Maybe (Double, seen) -> seen -> Maybe Value)
  }

type BoardKey = (FilePath, Int)

keyOf :: Board -> BoardKey
keyOf board = (boardPath board, boardOwner board)

-- | What a room has to show of a board.
data Shown = Shown
  { shownRoom :: !String,
    shownBlocks :: ![Block],
    shownValue :: !(Maybe Value)
  }

openPage :: Room -> Maybe (IO Page)
openPage r = fmap (fmap open) (roomTop r)
  where
    open (TopPage keys state onKey turn see draw json) = Page (roomName r) (Acts keys onKey turn see draw json) state Map.empty

-- | Keys go to every page that knows them.
pressKey :: Char -> Page -> Page
pressKey key (Page name acts state seen)
  | key `elem` map fst (actKeys acts) = Page name acts (actKey acts key state) seen
  | otherwise = Page name acts state seen

keysOf :: Page -> [(Char, String)]
keysOf (Page _ acts _ _) = actKeys acts

-- | What a key does to the runs that are shown. A run that has just ended cannot be told, and
-- need not.
turnKnobs :: [Board] -> [Page] -> Char -> IO ()
turnKnobs boards pages key =
  sequence_ [actTurn acts key board | Page _ acts _ _ <- pages, key `elem` map fst (actKeys acts), board <- boards]

-- | Looks at all boards at a time in seconds; what each page shows of each board.
lookAll :: Double -> [Board] -> [Page] -> IO ([Page], [(Board, [Shown])])
lookAll now boards pages = do
  (after, shown') <- unzip <$> mapM look pages
  pure (after, zip boards (foldr (zipWith (:)) (map (const []) boards) shown'))
  where
    look (Page name acts state before) = do
      seen <- mapM (actSee acts) boards
      let shown board s = Shown name (actDraw acts state earlier s) (actJson acts earlier s)
            where
              earlier = first (now -) <$> Map.lookup (keyOf board) before
      pure (Page name acts state (Map.fromList (zip (map keyOf boards) [(now, s) | s <- seen])), zipWith shown boards seen)

-- | One run: its command, its rooms, the last lines of its log.
drawBoard :: Bool -> (Board, [Shown]) -> [String]
drawBoard colour (board, shown) =
  paint colour Bold headline : concatMap block (concatMap shownBlocks shown) ++ map ("  ! " ++) (lastOf 5 (boardLines board))
  where
    block (Line text) = ["  " ++ text]
    block (Tabular table) = map ("  " ++) (renderTable table)
    headline = case runSection board of
      Just run -> show (runPid run) ++ "  " ++ show (runState run) ++ "  " ++ commandLine run
      Nothing -> show (boardOwner board) ++ (if null (boardPath board) then "  not started by maru" else "  a program that uses maru itself")
    lastOf n list = drop (length list - n) list

sampleJson :: Double -> [(Board, [Shown])] -> Value
sampleJson now boards =
  object ["schema" .= ("maru-top/1" :: String), "time" .= now, "runs" .= map one boards]
  where
    one (board, shown) =
      object
        [ "board" .= boardPath board,
          "owner" .= boardOwner board,
          "run" .= fmap runJson (runSection board),
          "sections" .= [object ["name" .= sectionName s, "version" .= sectionVersion s] | s <- boardSections board],
          "rooms" .= object [Key.fromString (shownRoom s) .= v | s <- shown, Just v <- [shownValue s]],
          "log" .= boardLines board
        ]

-- ---- the loop -----------------------------------------------------------

top :: [Room] -> Flags -> IO ExitCode
top rooms flags = do
  pages <- sequence (mapMaybe openPage rooms)
  terminal <- (&&) <$> hIsTerminalDevice stdin <*> hIsTerminalDevice stdout
  colour <- wantsColour stdout
  found <- findBoards (flagPid flags)
  case flagPid flags of
    Just pid | null found -> problem unavailable ("there is no process " ++ show pid ++ " that you may see; 'maru top' lists your runs")
    _ -> pure ()
  let view = View flags colour (terminal && not (flagOnce flags) && not (flagJson flags))
  if viewInteractive view then interactively (watch view pages found) else watch view pages found
  pure ExitSuccess

data View = View
  { viewFlags :: !Flags,
    viewColour :: !Bool,
    -- | Redraws the screen and obeys keys.
    viewInteractive :: !Bool
  }

watch :: View -> [Page] -> [Board] -> IO ()
watch view before boards = do
  now <- getMonotonicTime
  stamp <- realToFrac <$> getPOSIXTime
  (pages, shown) <- lookAll now boards before
  mapM_ (appendLine (jsonLine (sampleJson stamp shown))) (flagRecord flags)
  if flagJson flags
    then Lazy.putStr (jsonLine (sampleJson stamp shown))
    else display view pages (concatMap ((++ [""]) . drawBoard (viewColour view)) shown)
  hFlush stdout
  unless (flagOnce flags) $ do
    keys <- waitForKeys view
    unless ('q' `elem` keys) $ do
      mapM_ (turnKnobs boards pages) keys
      next <- findBoards (flagPid flags)
      -- The run that was asked for has ended.
      unless (null next && isJust (flagPid flags)) $
        watch view (map (\p -> foldl (flip pressKey) p keys) pages) next
  where
    flags = viewFlags view
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
