-- | The seeds' figures, and ours beside them: one table, from which the page of @maru bench@ and
-- @docs\/experiments.md@ are made. A row has a value in each column, or one sentence that says why it
-- cannot have one here; its command gives the value elsewhere.
module Maru.Bench.Evidence
  ( Seed (..),
    Figure (..),
    Cell (..),
    Column (..),
    columnName,
    columns,
    cellOf,
    rawData,
    markdown,
  )
where

import Data.Char (isSpace)
import Data.List (dropWhileEnd)

data Seed = Seed
  { -- | The number that it has in @docs\/experiments.md@.
    seedNumber :: !Int,
    seedTitle :: !String,
    seedFigures :: ![Figure]
  }

-- | One figure or table, or one row of ours that the seed has no counterpart of.
data Figure = Figure
  { -- | As the seed numbers it.
    figureName :: !String,
    -- | What is measured.
    figureTitle :: !String,
    figurePublished :: !Cell,
    -- | On the two virtual CPUs of the machine where maru is developed.
    figureHere :: !Cell,
    figureSixteen :: !Cell,
    figureSimulated :: !Cell,
    -- | Experiments of @maru bench@ whose line of this run belongs here.
    figureExperiments :: ![String],
    -- | What prints it, on any machine.
    figureCommand :: !String
  }

data Cell
  = -- | What was found, in words; and below @bench\/results@ the raw data, if they were kept.
    Value !String ![FilePath]
  | -- | Why there is none: one sentence.
    Without !String

data Column = Published | Here | Sixteen | Simulated
  deriving (Eq, Show, Enum, Bounded)

columns :: [Column]
columns = [minBound .. maxBound]

columnName :: Column -> String
columnName column = case column of
  Published -> "Published"
  Here -> "Measured here"
  Sixteen -> "Measured on 16 cores"
  Simulated -> "Simulated"

cellOf :: Column -> Figure -> Cell
cellOf column = case column of
  Published -> figurePublished
  Here -> figureHere
  Sixteen -> figureSixteen
  Simulated -> figureSimulated

-- | All that the figure cites, below @bench\/results@.
rawData :: Figure -> [FilePath]
rawData figure = concat [paths | column <- columns, Value _ paths <- [cellOf column figure]]

-- | A seed's part of @docs\/experiments.md@: a heading and a list for each figure, lines of 100
-- columns at most (a word, such as a link, may be longer).
markdown :: Seed -> [String]
markdown = concatMap one . seedFigures
  where
    one figure =
      ["### " ++ named figure, ""]
        ++ concat [item (columnName column) (said (cellOf column figure)) | column <- columns]
        ++ item "Command" ("`" ++ figureCommand figure ++ "`")
        ++ [""]
    named figure = if null (figureName figure) then figureTitle figure else figureName figure ++ ": " ++ figureTitle figure
    item name text = wrapped ("- **" ++ name ++ ":** " ++ text)
    said (Without why) = why
    said (Value text paths) = text ++ linked paths
    linked [] = ""
    linked [path] = " ([raw data](" ++ below path ++ "))"
    linked paths = " (raw data: " ++ foldr1 (\a b -> a ++ ", " ++ b) ["[" ++ show n ++ "](" ++ below path ++ ")" | (n, path) <- zip [1 :: Int ..] paths] ++ ")"
    below path = "../bench/results/" ++ path

-- | A list's item; lines after the first are indented. Blanks between backquotes break no line.
wrapped :: String -> [String]
wrapped = go "" . whole
  where
    go line [] = [line | not (null line)]
    go "" (w : ws) = go w ws
    go line (w : ws)
      | length line + 1 + length w <= 100 = go (line ++ " " ++ w) ws
      | otherwise = line : go ("  " ++ w) ws
    whole text = case break isSpace (dropWhile isSpace (dropWhileEnd isSpace text)) of
      ("", _) -> []
      (word, rest)
        | odd (length (filter (== '`') word)) -> let (code, after) = break (== '`') rest in joined (word ++ code) after
        | otherwise -> word : whole rest
    joined before after = case whole (drop 1 after) of
      next : more | not (startsBlank (drop 1 after)) -> (before ++ "`" ++ next) : more
      more -> (before ++ take 1 after) : more
    startsBlank = all isSpace . take 1
