{-# LANGUAGE TupleSections #-}

-- | The runs of this user: their boards, and what their processes use.
module Maru.Cli.Top.Find
  ( findBoards,
    identityOf,
    Usage (..),
    usageOf,
  )
where

import Control.Monad (filterM)
import qualified Data.ByteString.Char8 as Bytes
import Data.Either (rights)
import Data.Function (on)
import qualified Data.IntMap.Strict as IntMap
import Data.List (nubBy)
import Data.Maybe (catMaybes, mapMaybe)
import Maru.Cli.Exit (orNothing)
import Maru.Cli.Host (boardsOf)
import Maru.Cli.Machine (treeOf)
import Maru.Cli.RunSection
import Maru.Control.Observe (Stat (..), parseStat, ticksASecond)
import Maru.Native.BoardView
import System.Directory (listDirectory)
import System.Environment (lookupEnv)
import System.FilePath ((</>))
import System.Posix.Files (fileOwner, getFileStatus)
import System.Posix.User (getEffectiveUserID)
import Text.Read (readMaybe)

-- | The boards of this user's processes, each once, those of @MARU_BOARD@ first. For a
-- process that is asked for and has none: an empty one.
findBoards :: Maybe Int -> IO [Board]
findBoards pid = do
  own <- lookupEnv "MARU_BOARD"
  -- Descriptors of other users and of processes that have just ended do not
  -- open; they are not ours to show.
  held <- heldBoards
  boards <- rights <$> mapM readBoard (maybe id (:) own held)
  case (filter wanted (nubBy ((==) `on` identityOf) boards), pid) of
    ([], Just process) -> alive process
    (found, _) -> pure found
  where
    -- Any process can be observed, whatever started it.
    alive process = maybe [] (const [Board "" process [] []]) <$> orNothing (getFileStatus ("/proc" </> show process))
    wanted board = maybe True (`elem` (boardOwner board : map runPid (catMaybes [runSection board]))) pid

-- | Its owner and its command.
identityOf :: Board -> (Int, Maybe Int)
identityOf board = (boardOwner board, runPid <$> runSection board)

-- | @\/proc\/PID\/fd\/N@ of every board that a process of this user holds, one
-- path for each board.
heldBoards :: IO [FilePath]
heldBoards = do
  user <- getEffectiveUserID
  pids <- filter (all (`elem` ['0' .. '9'])) <$> orNone (listDirectory "/proc")
  ours <- filterM (ownedBy user) pids
  paths <- concat <$> mapM boardsOf ours
  -- A file of any file system can have a board's name.
  memfds <- mapM (\path -> fmap (,path) <$> memfdAt path) paths
  pure (map snd (nubBy ((==) `on` fst) (catMaybes memfds)))
  where
    ownedBy user pid = maybe False ((== user) . fileOwner) <$> orNothing (getFileStatus ("/proc" </> pid))
    orNone list = concat <$> orNothing list

-- | Of a board's processes together.
data Usage = Usage
  { usageProcesses :: !Int,
    -- | Of CPU, since they began; that of children that have ended too.
    usageSeconds :: !Double,
    -- | Since the first of them began.
    usageAge :: !Double,
    -- | The first one's name, as the kernel has it.
    usageName :: !String
  }
  deriving (Eq, Show)

-- | Of each board's owner and the processes below; 'Nothing' where it has gone.
usageOf :: [Board] -> IO [Maybe Usage]
usageOf boards = do
  pids <- mapMaybe number <$> (concat <$> orNothing (listDirectory "/proc"))
  stats <- IntMap.fromList . catMaybes <$> mapM statOf pids
  up <- maybe 0 (seconds . Bytes.unpack) <$> orNothing (Bytes.readFile "/proc/uptime")
  let below = treeOf (IntMap.map statParent stats) []
  pure (map (usage up . mapMaybe (`IntMap.lookup` stats) . below . boardOwner) boards)
  where
    number name = if all (`elem` ['0' .. '9']) name then readMaybe name else Nothing
    seconds text = case reads text of
      (n, _) : _ -> n :: Double
      [] -> 0
    statOf pid = fmap (pid,) . (>>= parseStat . Bytes.unpack) <$> orNothing (Bytes.readFile ("/proc" </> show pid </> "stat"))
    usage _ [] = Nothing
    usage up stats@(eldest : _) =
      Just
        Usage
          { usageProcesses = length stats,
            usageSeconds = sum (map spent stats),
            usageAge = max 0 (up - fromIntegral (statStart eldest) / ticksASecond),
            usageName = statName eldest
          }
    spent stat = (statUser stat + statSystem stat + statEnded stat) / ticksASecond
