{-# LANGUAGE OverloadedStrings #-}

-- | The page of @maru bench@: the method, then figure by figure what was published, measured here,
-- measured on 16 cores and simulated; the plots and tables of this run; one file that needs no other.
module Maru.Bench.Report
  ( Shown (..),
    shownOf,
    dataName,
    Kept (..),
    citedData,
    htmlReport,
    reportJson,
  )
where

import Data.Aeson (Value, object, toJSON, (.=))
import Data.List (intercalate, nub)
import Data.Maybe (isJust, isNothing)
import Maru.Bench.Evidence
import Maru.Bench.Evidence.All (seeds)
import Maru.Bench.Experiment (Experiment (..))
import Maru.Cli.Output
import Maru.Cli.Page
import Maru.Control.Plot (escape, svg)

-- | An experiment of this run as it is shown.
data Shown = Shown
  { shownName :: !String,
    shownPurpose :: !String,
    -- | What was found, or why it failed.
    shownLine :: !String,
    shownTables :: ![(String, Table)],
    -- | Drawn.
    shownPlots :: ![String],
    -- | Its exit status, where it failed.
    shownFailed :: !(Maybe Int)
  }

shownOf :: Experiment -> Figures -> Shown
shownOf x f = Shown (experimentName x) (experimentPurpose x) (figuresLine f) (figuresTables f) (map svg (figuresPlots f)) Nothing

-- | The name that an experiment's data have beside the page, without an ending; a room's experiments
-- have no folder of their own.
dataName :: String -> FilePath
dataName = map (\c -> if c == '/' then '-' else c)

-- | Where the data of runs that were kept are: beside the page in this folder, or in the sources only.
data Kept = Beside !FilePath | InSources
  deriving (Eq, Show)

-- | What the figures cite, below @bench\/results@.
citedData :: [FilePath]
citedData = nub (concatMap rawData (concatMap seedFigures seeds))

-- | Facts about the machine; where kept data are; are all figures to be shown, or those that were
-- measured only; experiments that the time did not allow; what was measured.
htmlReport :: [(String, String)] -> Kept -> Bool -> [String] -> [Shown] -> String
htmlReport facts kept whole left results =
  htmlPage (Heading "maru bench" found facts) $
    (if whole then method else [])
      ++ ["<h2>This run</h2>" | whole]
      ++ summary results
      ++ [element "p" ("Not measured in this run, for its time was over: " ++ intercalate ", " left ++ ". The figures have what was kept.") | not (null left)]
      ++ concatMap (seedHtml kept results) shownSeeds
      ++ ["<h2>Experiments that belong to no figure</h2>" | not (null others), not (null shownSeeds)]
      ++ concatMap (experimentHtml "h2") others
  where
    found = case results of
      [r] | not whole -> shownLine r
      _ -> plural (length results - length failed) "experiment" ++ " of this run " ++ (if length results - length failed == 1 then "was" else "were") ++ " measured" ++ (if null failed then "" else "; FAILED: " ++ intercalate ", " (map shownName failed)) ++ "."
    failed = filter (isJust . shownFailed) results
    names = map shownName results
    shownSeeds = [seed {seedFigures = these} | seed <- seeds, let these = filter concerned (seedFigures seed), not (null these)]
    concerned figure = whole || any (`elem` names) (figureExperiments figure)
    others = [r | r <- results, shownName r `notElem` concatMap figureExperiments (concatMap seedFigures shownSeeds)]

method :: [String]
method =
  section
    "Method"
    [ "A measurement is a fresh process. Sides are interleaved in rounds, and a ratio is taken within a round.",
      "A claim holds or fails by the 95 % bootstrap interval of the median of its pairs. Fewer than six pairs decide nothing: a run of five minutes is a first look.",
      "Published: what a seed's text says. Measured here: the dated run that was kept, on two virtual CPUs of a shared Xeon, unless it says otherwise; and this run, on the machine named above.",
      "Measured on 16 cores: 16 cores of one socket, a virtual machine. Simulated: by a model of maru sim, which is no measurement; its series are named so.",
      "Losses stay in the table. Where there is no value, a sentence says why, and the command gives it elsewhere."
    ]

summary :: [Shown] -> [String]
summary results =
  ["<div class=\"scroll\"><table><tr><th>experiment</th><th class=\"l\">result</th></tr>"]
    ++ ["<tr" ++ (if isJust (shownFailed r) then " class=\"failed\"" else "") ++ "><td><a href=\"#" ++ escape (shownName r) ++ "\">" ++ escape (shownName r) ++ "</a></td><td class=\"l\">" ++ escape (lineOf r) ++ "</td></tr>" | r <- results]
    ++ ["</table></div>"]

lineOf :: Shown -> String
lineOf r = maybe "" (const "FAILED: ") (shownFailed r) ++ shownLine r

-- | Each experiment's plots and tables stand with the first figure that they belong to.
seedHtml :: Kept -> [Shown] -> Seed -> [String]
seedHtml kept results seed =
  ("<h2>" ++ escape (show (seedNumber seed) ++ ". " ++ seedTitle seed) ++ "</h2>") :
  concat (zipWith figureHtml (scanl (\before f -> before ++ figureExperiments f) [] (seedFigures seed)) (seedFigures seed))
  where
    figureHtml before figure =
      ["<section class=\"figure\"><h3>" ++ escape (title figure) ++ "</h3><div class=\"four\">"]
        ++ concat [cell column (cellOf column figure) (if column == Here then thisRun figure else []) | column <- columns]
        ++ ["</div><p class=\"note\">Command: <code>" ++ escape (figureCommand figure) ++ "</code></p></section>"]
        ++ concat [experimentHtml "h4" r | r <- own figure, shownName r `notElem` before]
    title figure = if null (figureName figure) then figureTitle figure else figureName figure ++ ": " ++ figureTitle figure
    own figure = [r | r <- results, shownName r `elem` figureExperiments figure]
    thisRun figure = ["<p" ++ (if isNothing (shownFailed r) then "" else " class=\"failed\"") ++ "><b>This run</b>, <a href=\"#" ++ escape (shownName r) ++ "\">" ++ escape (shownName r) ++ "</a>: " ++ escape (lineOf r) ++ concat [" (" ++ ownData r ++ ")" | isNothing (shownFailed r)] ++ "</p>" | r <- own figure]
    cell column content more =
      ["<div><h4>" ++ columnName column ++ "</h4>"] ++ more ++ said content ++ ["</div>"]
    said (Without why) = ["<p class=\"without\">" ++ prose why ++ "</p>"]
    said (Value text paths) = ("<p>" ++ prose text ++ "</p>") : ["<p class=\"note\">Raw data" ++ (if kept == InSources then ", below bench/results" else "") ++ ": " ++ intercalate ", " (map keptData paths) ++ "</p>" | not (null paths)]
    keptData path = case kept of
      Beside folder -> link (folder ++ "/" ++ path) path
      InSources -> escape path

-- | Markdown's links and code, of which the table has no more: a link leads to what the page cannot
-- hold, so its words remain.
prose :: String -> String
prose text = case break (`elem` ("`[" :: String)) text of
  (before, '`' : rest) | (code, '`' : after) <- break (== '`') rest -> escape before ++ "<code>" ++ escape code ++ "</code>" ++ prose after
  (before, '[' : rest) | (words', ']' : '(' : more) <- break (== ']') rest, (_, ')' : after) <- break (== ')') more -> escape before ++ escape words' ++ prose after
  (before, c : rest) -> escape (before ++ [c]) ++ prose rest
  (before, "") -> escape before

-- | What this run has written of it, beside the page.
ownData :: Shown -> String
ownData r = link (dataName (shownName r) ++ ".json") "raw data"

link :: String -> String -> String
link target text = "<a href=\"" ++ escape target ++ "\">" ++ escape text ++ "</a>"

experimentHtml :: String -> Shown -> [String]
experimentHtml level r =
  ["<" ++ level ++ " id=\"" ++ escape (shownName r) ++ "\">" ++ escape (shownName r) ++ "</" ++ level ++ ">", element "p" (shownPurpose r)]
    ++ [if isJust (shownFailed r) then "<p class=\"failed\">" ++ escape (lineOf r) ++ "</p>" else "<p class=\"note\">" ++ ownData r ++ "</p>"]
    ++ ["<div class=\"cards\">" | not (null (shownPlots r))]
    ++ ["<div class=\"card\">" ++ plot ++ "</div>" | plot <- shownPlots r]
    ++ ["</div>" | not (null (shownPlots r))]
    ++ concat [element "h3" title : htmlTable table | (title, table) <- shownTables r]

-- | The same figures for programs. The keys of a figure's columns say what is simulated.
reportJson :: Value -> String -> [Shown] -> Value
reportJson machine started results =
  object
    [ "schema" .= ("maru-report/1" :: String),
      "started" .= started,
      "machine" .= machine,
      "experiments" .= [object (["experiment" .= shownName r, "line" .= shownLine r, "failed" .= isJust (shownFailed r)] ++ ["raw_data" .= (dataName (shownName r) ++ ".json") | isNothing (shownFailed r)]) | r <- results],
      "figures"
        .= [ object
               [ "seed" .= seedNumber seed,
                 "figure" .= figureName figure,
                 "title" .= figureTitle figure,
                 "published" .= cell (figurePublished figure),
                 "measured_here" .= cell (figureHere figure),
                 "measured_in_this_run" .= [object ["experiment" .= shownName r, "line" .= shownLine r] | r <- results, shownName r `elem` figureExperiments figure, isNothing (shownFailed r)],
                 "measured_on_16_cores" .= cell (figureSixteen figure),
                 "simulated" .= cell (figureSimulated figure),
                 "command" .= figureCommand figure
               ]
             | seed <- seeds,
               figure <- seedFigures seed
           ]
    ]
  where
    cell (Value text paths) = object ["value" .= text, "raw_data" .= toJSON paths]
    cell (Without why) = object ["without" .= why]
