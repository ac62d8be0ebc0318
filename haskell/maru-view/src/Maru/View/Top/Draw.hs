-- | The screen of @maru top@: exactly as many lines as it has, none wider. Pure; text that others
-- wrote is made harmless here once more.
module Maru.View.Top.Draw
  ( Look (..),
    Span (..),
    view,
  )
where

import Data.List (intercalate)
import Data.Maybe (fromMaybe)
import Maru.View.Columns
import Maru.View.Table (plural)
import Maru.View.Top.Model
import Numeric (showFFloat)

data Look
  = Normal
  | -- | What one reads first.
    Strong
  | -- | The heads of columns.
    Head
  | -- | The head of the column that is sorted by.
    SortedHead
  | -- | A room that has nothing to show.
    FaintHead
  | -- | The selected run, room or key.
    Chosen
  | -- | Less important.
    Faint
  | Lively
  | Warning
  deriving (Eq, Show, Enum, Bounded)

-- | Text in one look; tidy.
data Span = Span !Look !String
  deriving (Eq, Show)

-- | What stands at the right of the title, and the model.
view :: String -> Model -> [[Span]]
view corner m = map (within width) (take height (concat parts ++ repeat []))
  where
    (width, height) = modelSize m
    layout = layoutOf m
    parts =
      [ take (layoutTitle layout) [title corner m],
        take (layoutHeads layout) [heads m],
        exactly (layoutList layout) (list m),
        take (layoutTabs layout) [tabLine m],
        exactly (layoutBody layout) (body (layoutBody layout) m),
        take (layoutKeys layout) [keyLine m]
      ]
    exactly n lines' = take n (lines' ++ repeat [])

-- | Cut off at the right with a sign that it was.
within :: Int -> [Span] -> [Span]
within width line
  | total <= width = tidied
  | otherwise = go width tidied
  where
    tidied = [Span look (tidy text) | Span look text <- line]
    total = sum [columnsIn text | Span _ text <- tidied]
    go room spans = case spans of
      [] -> []
      Span look text : more
        | room <= 0 -> []
        | columnsIn text < room -> Span look text : go (room - columnsIn text) more
        | otherwise -> [Span look (clip room (text ++ "  "))]

-- | To the whole width, with blanks of this look.
padded :: Look -> Int -> [Span] -> [Span]
padded look width line = line ++ [Span look (replicate (width - used) ' ') | used < width]
  where
    used = sum [columnsIn (tidy text) | Span _ text <- line]

-- ---- title --------------------------------------------------------------

title :: String -> Model -> [Span]
title corner m
  | columnsIn left + columnsIn (tidy corner) + 2 <= width = spread
  | otherwise = words'
  where
    width = fst (modelSize m)
    words' =
      [Span Strong "maru top", Span Normal ("  " ++ counted ++ " ")]
        ++ [Span Chosen (" /" ++ modelFilter m ++ " ") | not (null (modelFilter m)), modelMode m /= Typing]
        ++ [Span Normal (" sorted by " ++ sortName m ++ arrow m)]
    left = concat [tidy text | Span _ text <- words']
    spread = words' ++ [Span Normal (replicate (width - columnsIn left - columnsIn (tidy corner)) ' '), Span Faint corner]
    counted
      | null (modelFilter m) = plural (length (modelRuns m)) "run"
      | otherwise = show (length (shownRuns m)) ++ " of " ++ plural (length (modelRuns m)) "run"

sortName :: Model -> String
sortName m = fromMaybe "" (lookup (modelSort m) [(by', name) | Column by' name _ _ _ <- columnsOfRuns])

arrow :: Model -> String
arrow m = if falls then "▼" else "▲"
  where
    falls = (modelSort m `elem` [ByTime, ByCpu, ByProcesses]) /= modelReversed m

-- ---- list ---------------------------------------------------------------

-- | What it sorts by, head, width, whether at the right, text.
data Column = Column !SortBy !String !Int !Bool !(Run -> Span)

columnsOfRuns :: [Column]
columnsOfRuns =
  [ Column ByPid "PID" 8 True (Span Normal . show . runNumber),
    Column ByState "STATE" 8 False state,
    Column ByTime "TIME" 9 True (Span Normal . maybe "-" clock . runAge),
    Column ByCpu "CPU%" 7 True (Span Normal . maybe "-" cpu . runCpu),
    Column ByProcesses "PROCS" 6 True (Span Normal . show . runProcesses),
    Column ByCommand "COMMAND" 0 False (Span Normal . runWords)
  ]
  where
    state run = Span (if runIs run == "running" then Lively else Faint) (runIs run)
    cpu used = showFFloat (Just (if used >= 10 then 0 else 1)) (100 * used) ""

clock :: Double -> String
clock age
  | s < 60 = "0:" ++ two s
  | s < 3600 = show (s `div` 60) ++ ":" ++ two (s `mod` 60)
  | s < 86400 = show (s `div` 3600) ++ "h" ++ two (s `mod` 3600 `div` 60)
  | otherwise = show (s `div` 86400) ++ "d" ++ two (s `mod` 86400 `div` 3600) ++ "h"
  where
    s = max 0 (floor age) :: Int
    two n = (if n < 10 then "0" else "") ++ show n

-- | Those that leave the command some room; the sorted one goes last but two.
fitting :: Model -> [Column]
fitting m = go [ByProcesses, ByTime, ByState, ByCpu, ByPid] columnsOfRuns
  where
    width = fst (modelSize m)
    go (victim : more) kept
      | sum [w + 1 | Column _ _ w _ _ <- kept] + 14 > width = go more [c | c@(Column by' _ _ _ _) <- kept, by' /= victim]
    go _ kept = kept

-- | A line of the list; the command takes what is left, moved to the left by what is asked.
row :: Model -> Span -> (Column -> Span) -> [Span]
row m mark@(Span around _) cell
  | fst (modelSize m) == 1 = [mark]
  | otherwise = padded around (fst (modelSize m)) (mark : concatMap one (fitting m))
  where
    one column@(Column _ _ width right _)
      | width == 0 = [Span look (skip (modelShift m) (tidy text))]
      | right = [Span around (replicate (width - columnsIn short) ' '), Span look short, Span around " "]
      | otherwise = [Span look short, Span around (replicate (width - columnsIn short + 1) ' ')]
      where
        Span look text = cell column
        short = clip width (tidy text)

heads :: Model -> [Span]
heads m = row m {modelShift = 0} (Span Head " ") head'
  where
    head' (Column by' name _ _ _)
      | by' == modelSort m = Span SortedHead (name ++ arrow m)
      | otherwise = Span Head name

list :: Model -> [[Span]]
list m = case modelMode m of
  Opened -> [maybe [Span Faint "the run has ended"] chosen (selectedRun m)]
  _
    | null (shownRuns m) -> [[Span Faint (if null (modelRuns m) then "no run of yours is alive; start one: maru run -- COMMAND" else "no run has this text; Esc shows all")]]
    | otherwise -> map line (drop (modelFirst m) (shownRuns m))
  where
    line run = if Just (runKey run) == modelSelected m then chosen run else row m (Span Normal " ") (\(Column _ _ _ _ text) -> text run)
    chosen run = row m (Span Chosen ">") (\(Column _ _ _ _ text) -> let Span _ t = text run in Span Chosen t)

-- ---- details ------------------------------------------------------------

-- | The chosen one is in view: where there is no room for all, those before it go.
tabLine :: Model -> [Span]
tabLine m = padded Head width (concat (zipWith tab [1 :: Int ..] (tabs m)))
  where
    width = fst (modelSize m)
    needed = sum [length name + 4 | name <- tabs m]
    tab n name
      | n == modelTab m + 1 = [Span Chosen (" " ++ show n ++ " " ++ name ++ " ")]
      | needed > width && n < modelTab m + 1 = []
      | isThere name = [Span Head (" " ++ show n ++ " " ++ name ++ " ")]
      | otherwise = [Span FaintHead (" " ++ show n ++ " " ++ name ++ " ")]
    isThere name = case selectedRun m of
      Nothing -> False
      Just run -> name == "all" || name == "log" && not (null (runSaid run)) || name `elem` map fst (runRooms run)

body :: Int -> Model -> [[Span]]
body room m
  | modelMode m == Helping = map piece (drop (modelScroll m) (helpLines m))
  | room > 0 && hidden > 0 = take (room - 1) shown ++ [[Span Faint ("… " ++ plural (hidden + 1) "more line" ++ rest)]]
  | otherwise = shown
  where
    shown = map (piece . moved) (drop (modelScroll m) (content m))
    hidden = length (content m) - modelScroll m - room
    rest = if modelMode m == Opened then "" else "; Enter shows all"
    moved (Piece look text) = Piece look (skip (modelShift m) (tidy text))
    piece (Piece True text) = [Span Strong text]
    piece (Piece False text)
      | take 2 (dropWhile (== ' ') text) == "! " = [Span Warning text]
      | otherwise = [Span Normal text]

-- ---- keys ---------------------------------------------------------------

-- | As many as there is room for.
keyLine :: Model -> [Span]
keyLine m = case modelMode m of
  Typing -> [Span Chosen "/", Span Strong (modelFilter m), Span Chosen " ", Span Faint "  Enter keeps it, Esc shows all"]
  Helping -> items [("Esc", "back"), ("↑↓", "scroll")]
  Opened -> items (always ++ [("Esc", "all runs"), ("↑↓", "scroll"), ("Tab", "room"), ("←→", "sideways")] ++ ofRooms)
  Listing -> items (always ++ [("↑↓", "select"), ("/", "filter"), ("s", "sort"), ("Tab", "room"), ("Enter", "details")] ++ ofRooms)
  where
    always = [("q", "quit"), ("?", "help")]
    ofRooms = [([key], what) | (key, what) <- modelKeys m]
    items = intercalate [Span Normal "  "] . go (fst (modelSize m))
    go room list' = case list' of
      (key, what) : more
        | used <- columnsIn key + 1 + columnsIn what, used <= room -> [Span Chosen key, Span Normal (" " ++ what)] : go (room - used - 2) more
      _ -> []
