{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE OverloadedStrings #-}

-- | The rooms' pages of @maru top@: what each has to show of each run, as text and as data.
module Maru.Cli.Top.Pages
  ( Page,
    Shown (..),
    openPage,
    nameOf,
    keysOf,
    pressKey,
    turnKnobs,
    lookAll,
    drawBoard,
    sampleJson,
  )
where

import Data.Aeson (Value, object, (.=))
import qualified Data.Aeson.Key as Key
import Data.Bifunctor (first)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.RunSection
import Maru.Cli.Section (unreadSections)
import Maru.Native.BoardView

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

nameOf :: Page -> String
nameOf (Page name _ _ _) = name

keysOf :: Page -> [(Char, String)]
keysOf (Page _ acts _ _) = actKeys acts

-- | What a key does to a run. One that has just ended cannot be told, and need not.
turnKnobs :: Board -> [Page] -> Char -> IO ()
turnKnobs board pages key =
  sequence_ [actTurn acts key board | Page _ acts _ _ <- pages, key `elem` map fst (actKeys acts)]

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
  paint colour Bold headline : concatMap block (concatMap shownBlocks shown) ++ map ("  ! " ++) (unreadSections board ++ lastOf 5 (boardLines board))
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
          "unread" .= unreadSections board,
          "log" .= boardLines board
        ]
