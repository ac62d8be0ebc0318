-- | What @maru top@ shows and what keys do to it. Pure: the screen's size, the runs that were seen
-- and keys go in, a model comes out; "Maru.View.Top.Draw" draws it.
module Maru.View.Top.Model
  ( -- * Runs
    Run (..),
    RunKey,

    -- * The model
    Model (..),
    Mode (..),
    SortBy (..),
    start,
    resized,
    looked,
    pressed,
    Ask (..),

    -- * For the view
    shownRuns,
    selectedRun,
    tabs,
    Layout (..),
    layoutOf,
    content,
    Piece (..),
    helpLines,
  )
where

import Data.Char (isPrint, toLower)
import Data.List (elemIndex, find, findIndex, isInfixOf, sortBy)
import Data.Maybe (fromMaybe)
import Data.Ord (Down (..), comparing)
import Maru.View.Table (Block (..), Table, renderTable)
import Maru.View.Top.Keys

-- ---- runs ---------------------------------------------------------------

-- | The board's owner and its command.
type RunKey = (Int, Maybe Int)

data Run = Run
  { runKey :: !RunKey,
    runNumber :: !Int,
    -- | In a word.
    runIs :: !String,
    -- | Seconds since it began.
    runAge :: !(Maybe Double),
    -- | CPUs that its processes used between the last two looks.
    runCpu :: !(Maybe Double),
    runProcesses :: !Int,
    runWords :: !String,
    -- | Its rooms that have something to show, and that.
    runRooms :: ![(String, [Block])],
    runSaid :: ![String]
  }
  deriving (Eq, Show)

data SortBy = ByPid | ByState | ByTime | ByCpu | ByProcesses | ByCommand
  deriving (Eq, Show, Enum, Bounded)

-- ---- the model ----------------------------------------------------------

data Mode
  = -- | All runs, and the selected one's details below.
    Listing
  | -- | The selected run's details alone.
    Opened
  | -- | Text for the filter is being typed.
    Typing
  | Helping
  deriving (Eq, Show, Enum, Bounded)

data Model = Model
  { modelSize :: !(Int, Int),
    -- | All that were seen last.
    modelRuns :: ![Run],
    modelSelected :: !(Maybe RunKey),
    -- | The selected run's line among those shown, as long as there are any.
    modelAt :: !Int,
    -- | The first run in view.
    modelFirst :: !Int,
    modelSort :: !SortBy,
    modelReversed :: !Bool,
    modelFilter :: !String,
    modelMode :: !Mode,
    modelRooms :: ![String],
    -- | Keys of rooms, and what they do.
    modelKeys :: ![(Char, String)],
    modelTab :: !Int,
    -- | The first line in view of the details, or of the help.
    modelScroll :: !Int,
    -- | Columns that are out of view at the left.
    modelShift :: !Int
  }
  deriving (Eq, Show)

-- | What a key asks of the shell.
data Ask
  = Quit
  | -- | The screen may have been spoilt.
    Repaint
  | -- | A room's key, for this run.
    ForRoom !Char !(Maybe RunKey)
  deriving (Eq, Show)

-- | With the names of the rooms that have a page, and their keys.
start :: [String] -> [(Char, String)] -> Model
start names keys = Model (80, 24) [] Nothing 0 0 ByCpu False "" Listing names keys 0 0 0

-- | Columns and lines; at least one of each.
resized :: Int -> Int -> Model -> Model
resized width height m = settle m {modelSize = (max 1 width, max 1 height)}

-- | The selection stays on its run. Where that has gone it stays on its line.
looked :: [Run] -> Model -> Model
looked runs m = settle m {modelRuns = runs}

-- | Everything that must hold after each event. The selection is on a run that is shown and in
-- view, and nothing is scrolled beyond its end.
settle :: Model -> Model
settle m = m {modelSelected = runKey <$> selected, modelAt = at, modelFirst = first, modelScroll = within 0 most (modelScroll m)}
  where
    shown = shownRuns m
    at = fromMaybe (within 0 (length shown - 1) (modelAt m)) (findIndex ((== modelSelected m) . Just . runKey) shown)
    selected = case drop at shown of
      run : _ -> Just run
      [] -> Nothing
    room = layoutList (layoutOf m)
    first = within (max 0 (at - room + 1)) at (min (modelFirst m) (max 0 (length shown - room)))
    most = case modelMode m of
      Helping -> length (helpLines m) - layoutBody (layoutOf m)
      Opened -> length (content m {modelSelected = runKey <$> selected}) - layoutBody (layoutOf m)
      _ -> 0

within :: Int -> Int -> Int -> Int
within low high = max low . min high

-- | Those that the filter passes, in order.
shownRuns :: Model -> [Run]
shownRuns m = sortBy (turn order <> comparing runKey) (filter passes (modelRuns m))
  where
    turn = if modelReversed m then flip else id
    order = case modelSort m of
      ByPid -> comparing runNumber
      ByState -> comparing runIs
      ByTime -> comparing (Down . runAge)
      ByCpu -> comparing (Down . runCpu)
      ByProcesses -> comparing (Down . runProcesses)
      ByCommand -> comparing (map toLower . runWords)
    passes run = all (\word -> any (holds word) (fields run)) (words (modelFilter m))
    holds word field = map toLower word `isInfixOf` map toLower field
    fields run = show (runNumber run) : runIs run : runWords run : map fst (runRooms run)

selectedRun :: Model -> Maybe Run
selectedRun m = find ((== modelSelected m) . Just . runKey) (modelRuns m)

-- ---- what there is room for ---------------------------------------------

-- | Lines of each part; together as many as the screen has.
data Layout = Layout
  { layoutTitle :: !Int,
    layoutHeads :: !Int,
    layoutList :: !Int,
    layoutTabs :: !Int,
    -- | Details or help.
    layoutBody :: !Int,
    layoutKeys :: !Int
  }
  deriving (Eq, Show)

-- | The selected run's line is the last thing to go; before it the keys, the heads, the title, the
-- details.
layoutOf :: Model -> Layout
layoutOf m = case modelMode m of
  Helping -> Layout title 0 0 0 (height - title - keys) keys
  Opened -> Layout 0 0 1 tabs' (height - 1 - tabs' - keys) keys
  _
    | height < 9 -> Layout title heads (height - title - heads - keys) 0 0 keys
    | otherwise -> Layout 1 1 list 1 (height - 4 - list) 1
  where
    height = snd (modelSize m)
    keys = fromEnum (height >= 2)
    heads = fromEnum (height >= 3)
    title = fromEnum (height >= 4)
    tabs' = fromEnum (height >= 4)
    list = within 1 (max 3 ((height - 4) * 2 `div` 5)) (length (shownRuns m))

-- ---- details ------------------------------------------------------------

-- | A line of details: its look and its text.
data Piece = Piece !Bool !String
  deriving (Eq, Show)

-- | Everything of the selected run, one room of it, or what it said.
tabs :: Model -> [String]
tabs m = "all" : modelRooms m ++ ["log"]

-- | All lines of the tab, in full; 'True': a head.
content :: Model -> [Piece]
content m = case selectedRun m of
  Nothing -> []
  Just run -> case drop (modelTab m) (tabs m) of
    "all" : _ -> concat [Piece True name : concatMap (map indented . block) blocks | (name, blocks) <- runRooms run] ++ said run
    ["log"] -> if null (runSaid run) then [Piece False "It has said nothing."] else said run
    name : _ -> maybe [Piece False ("The room " ++ name ++ " has nothing to show of this run.")] (concatMap block) (lookup name (runRooms run))
    [] -> []
  where
    block (Line text) = [Piece False text]
    block (Tabular table) = titled table
    titled :: Table -> [Piece]
    titled = zipWith Piece (True : repeat False) . renderTable
    indented (Piece look text) = Piece look ("  " ++ text)
    said run = map (Piece False . ("! " ++)) (runSaid run)

helpLines :: Model -> [Piece]
helpLines m =
  Piece True "Runs" :
  map
    line
    [ ("↑ ↓  j k", "select a run; PgUp PgDn Home End too"),
      ("← →", "see what is cut off at the right"),
      ("Enter", "this run's details on the whole screen; Esc: back"),
      ("Tab, 1-9", "another room of the run (Shift-Tab: back)"),
      ("/", "show only runs with this text; Esc: all again"),
      ("s  S", "sort by the next column, by the one before"),
      ("P T N", "sort by CPU, by time, by process number"),
      ("r", "the other way round"),
      ("Ctrl-L", "draw the screen again"),
      ("Ctrl-Z", "back to the shell; fg: here again"),
      ("q, Ctrl-C", "quit"),
      ("?  h  F1", "this help; Esc: back")
    ]
    ++ [Piece True "Knobs and views of rooms, for the selected run" | not (null (modelKeys m))]
    ++ map (\(key, what) -> line ([key], what)) (modelKeys m)
    ++ map (Piece False) ["", "CPU%: of one core, all processes of the run together.", "It changes nothing but the knobs, and those only by their keys."]
  where
    line (keys, what) = Piece False ("  " ++ take 10 (keys ++ repeat ' ') ++ "  " ++ what)

-- ---- keys ---------------------------------------------------------------

-- | The model after a key, and what the key asks for.
pressed :: Key -> Model -> (Model, [Ask])
pressed key m = case key of
  Control 'l' -> (m, [Repaint])
  Function 10 -> (m, [Quit])
  _ -> case modelMode m of
    Typing -> (settle (typed key m), [])
    Helping -> (settle (helped key m), [])
    _ -> browsed key m

typed :: Key -> Model -> Model
typed key m = case key of
  Letter c | isPrint c -> m {modelFilter = take 200 (modelFilter m ++ [c])}
  Erase -> m {modelFilter = take (length (modelFilter m) - 1) (modelFilter m)}
  Control 'u' -> m {modelFilter = ""}
  Enter -> m {modelMode = Listing}
  Escape -> m {modelMode = Listing, modelFilter = ""}
  ArrowUp -> by (-1) m
  ArrowDown -> by 1 m
  _ -> m

helped :: Key -> Model -> Model
helped key m = case key of
  _ | Just scrolled <- scroll key m -> scrolled
  Letter c | c `notElem` "qQ?h" -> m
  Letter _ -> closed
  Escape -> closed
  Enter -> closed
  Function 1 -> closed
  _ -> m
  where
    closed = m {modelMode = Listing, modelScroll = 0}

browsed :: Key -> Model -> (Model, [Ask])
browsed key m = case key of
  Letter 'q' -> (m, [Quit])
  Letter c | c `elem` map fst (modelKeys m) -> (m, [ForRoom c (modelSelected m)])
  _ -> (settle (fromMaybe (changed key m) (moved key m)), [])

-- | Where a key moves to: another run, or other lines of the one that is open.
moved :: Key -> Model -> Maybe Model
moved key m = case key of
  ArrowLeft -> Just m {modelShift = max 0 (modelShift m - 8)}
  ArrowRight -> Just m {modelShift = min 1000 (modelShift m + 8)}
  _ | modelMode m == Opened -> scroll key m
  _ -> fmap (`by` m) (distance (layoutList (layoutOf m)) key)

-- | Lines that a key goes, up or down.
distance :: Int -> Key -> Maybe Int
distance page key = case key of
  ArrowUp -> Just (-1)
  Letter 'k' -> Just (-1)
  ArrowDown -> Just 1
  Letter 'j' -> Just 1
  PageUp -> Just (negate (max 1 page))
  PageDown -> Just (max 1 page)
  Home -> Just (-far)
  Letter 'g' -> Just (-far)
  End -> Just far
  Letter 'G' -> Just far
  _ -> Nothing
  where
    far = 1000000

by :: Int -> Model -> Model
by lines' m = case drop at shown of
  run : _ -> m {modelSelected = Just (runKey run), modelAt = at, modelScroll = 0}
  [] -> m
  where
    shown = shownRuns m
    at = within 0 (length shown - 1) (modelAt m + lines')

-- | @settle@ keeps it within its end.
scroll :: Key -> Model -> Maybe Model
scroll key m = fmap (\lines' -> m {modelScroll = max 0 (modelScroll m + lines')}) (distance (layoutBody (layoutOf m)) key)

changed :: Key -> Model -> Model
changed key m = case key of
  Enter -> if modelMode m == Opened then listing else m {modelMode = Opened, modelScroll = 0}
  Escape
    | modelMode m == Opened -> listing
    | otherwise -> m {modelFilter = "", modelShift = 0}
  Tab -> toTab (modelTab m + 1)
  BackTab -> toTab (modelTab m - 1)
  Letter c
    | Just tab <- elemIndex c ['1' .. '9'] -> if tab < length (tabs m) then toTab tab else m
    | c `elem` "?h" -> helping
    | c == '/' -> filtering
    | c == 's' -> sorted (next 1)
    | c == 'S' -> sorted (next (-1))
    | c == 'r' -> m {modelReversed = not (modelReversed m)}
    | Just column <- lookup c [('P', ByCpu), ('T', ByTime), ('N', ByPid)] -> sorted column
  Function 1 -> helping
  Function 3 -> filtering
  Function 4 -> filtering
  Function 6 -> sorted (next 1)
  _ -> m
  where
    listing = m {modelMode = Listing, modelScroll = 0}
    helping = m {modelMode = Helping, modelScroll = 0}
    filtering = m {modelMode = Typing, modelScroll = 0}
    toTab tab = m {modelTab = tab `mod` length (tabs m), modelScroll = 0, modelShift = 0}
    sorted column = m {modelSort = column, modelReversed = False}
    next step = toEnum ((fromEnum (modelSort m) + step) `mod` (fromEnum (maxBound :: SortBy) + 1))
