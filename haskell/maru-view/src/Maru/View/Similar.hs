{-# LANGUAGE OverloadedStrings #-}

-- | The report of a comparison of submissions: one page that ranks pairs, draws clusters, shows
-- pairs side by side and keeps verdicts. Nothing is fetched; the page forbids it to itself.
--
-- All text of others (names, paths, programs, notes) is data: in JSON in which no tag can begin,
-- and put on the page as text only.
module Maru.View.Similar
  ( -- * What is shown
    Comparison (..),
    Shown (..),
    ShownPair (..),
    Programs (..),
    Verdict (..),
    readVerdicts,

    -- * As a page
    comparisonPage,
    programsJson,
    Packed (..),
  )
where

import Data.Aeson (FromJSON (..), ToJSON (..), Value (..), eitherDecode, encode, object, withObject, (.!=), (.:), (.:?), (.=))
import Data.Aeson.Key (fromString)
import Data.Aeson.Types (parseEither)
import Data.ByteString.Builder
import qualified Data.ByteString.Builder.Prim as P
import qualified Data.ByteString.Lazy as BL
import Data.Text (Text)
import qualified Data.Text as T
import Maru.View.Page
import Maru.View.Similar.Script (similarScript)
import Maru.View.Similar.Style (similarStyle)
import Maru.View.Table (Align (..), Table (..))

-- | A submission.
data Shown = Shown
  { shownName :: !Text,
    shownStudents :: ![Text],
    -- | @new@ or @archive@.
    shownRole :: !Text,
    shownTokens :: !Int
  }

-- | A pair: submissions by position.
data ShownPair = ShownPair
  { shownLeft :: !Int,
    shownRight :: !Int,
    shownSimilarity :: !Double,
    -- | For whole copies, for embedded ones.
    shownWhole :: !Double,
    shownEmbedded :: !Double,
    -- | Tokens in common, where they were counted.
    shownMatched :: !(Maybe Int),
    -- | 'False': there may be more.
    shownComplete :: !Bool,
    -- | How many innocent pairs are expected at this similarity or above.
    shownInnocent :: !(Maybe Double),
    -- | What else is to be said of it.
    shownNotes :: ![Text]
  }

-- | Everything but the programs.
data Comparison = Comparison
  { comparisonFound :: !String,
    -- | Facts ('Maru.Cli.Host.pageFacts') and figures.
    comparisonFacts :: ![(String, String)],
    comparisonFigures :: ![(String, String)],
    -- | What the page begins with; the reader moves it.
    comparisonThreshold :: !Double,
    comparisonSubmissions :: ![Shown],
    -- | The most similar first.
    comparisonPairs :: ![ShownPair],
    -- | How many pairs there are, listed or not.
    comparisonReported :: !Int,
    -- | How many of them, in equal steps of similarity from 0 to 1.
    comparisonHistogram :: ![Int],
    -- | Path and reason.
    comparisonLeftOut :: ![(Text, Text)],
    -- | What a tile's reason is called, by its number.
    comparisonReasons :: ![Text],
    comparisonVerdicts :: ![Verdict]
  }

-- | The programs of some submissions and the tiles of some pairs, both by position.
data Programs = Programs
  { -- | Name and text of each file.
    programFiles :: ![(Int, [(Text, Text)])],
    -- | File, first byte (of UTF-8) and bytes on the left, the same on the right, tokens, reason,
    -- whether it stands in another order than those around it (1), whether hardly any other has it (1).
    programTiles :: ![(Int, [[Int]])]
  }

programsJson :: Programs -> BL.ByteString
programsJson p = encode (object ["files" .= byNumber (programFiles p), "tiles" .= byNumber (programTiles p)])
  where
    byNumber entries = object [fromString (show n) .= value | (n, value) <- entries]

-- | 'programsJson' as it is, or gzip of it in base64.
data Packed = Plain !BL.ByteString | Gzipped !BL.ByteString

-- | What a reader has said of a pair, as the page saves it.
data Verdict = Verdict
  { verdictLeft :: !Text,
    verdictRight :: !Text,
    -- | @copy@, @unsure@ or @innocent@; empty where there is only a note.
    verdictWord :: !Text,
    verdictNote :: !Text
  }
  deriving (Eq, Show)

instance ToJSON Verdict where
  toJSON (Verdict l r v n) = object ["left" .= l, "right" .= r, "verdict" .= v, "note" .= n]

instance FromJSON Verdict where
  parseJSON = withObject "a verdict" $ \o -> do
    word <- o .: "verdict"
    if word `elem` ["copy", "unsure", "innocent", "" :: Text]
      then Verdict <$> o .: "left" <*> o .: "right" <*> pure word <*> o .:? "note" .!= ""
      else fail "the verdict is none of copy, unsure, innocent"

-- | A file of verdicts, schema @maru-similar-verdicts/1@; the failure says what it is not. Total.
readVerdicts :: BL.ByteString -> Either String [Verdict]
readVerdicts bytes = eitherDecode bytes >>= parseEither file
  where
    file = withObject "a file of verdicts" $ \o -> do
      schema <- o .: "schema"
      if schema == ("maru-similar-verdicts/1" :: Text) then o .: "verdicts" else fail "its schema is not maru-similar-verdicts/1"

-- | UTF-8. Made while it is written.
comparisonPage :: Comparison -> Packed -> Builder
comparisonPage c packed = stringUtf8 before <> foldMap (\l -> stringUtf8 l <> "\n") body <> blocks <> stringUtf8 after
  where
    (before, after) = pageAround ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"] (Heading "maru similar" (comparisonFound c) [])
    blocks =
      block "application/json" "data" (escaped (encode (comparisonJson c)))
        <> ( case packed of
               Plain json -> block "application/json" "code" (escaped json)
               Gzipped text -> block "text/plain" "packed" (lazyByteString text)
           )
        <> "<script>"
        <> stringUtf8 similarScript
        <> "</script>\n"
    block kind name content = "<script type=\"" <> kind <> "\" id=\"" <> name <> "\">" <> content <> "</script>\n"
    body =
      ["<style>" ++ similarStyle ++ "</style>"]
        ++ tiles (comparisonFigures c)
        ++ application
        ++ ["<noscript><p class=\"found\">Without JavaScript the page shows the ranking only.</p>"]
        ++ htmlTable (ranking c)
        ++ ["</noscript>"]
        ++ ["<div id=\"fold\" class=\"names\">"]
        ++ section "Left out" [T.unpack path ++ ": " ++ T.unpack why | (path, why) <- comparisonLeftOut c]
        ++ ["<dl class=\"line\">" ++ concat [element "dt" name ++ element "dd" said | (name, said) <- comparisonFacts c] ++ "</dl></div>"]

-- | Without a script: the first pairs.
ranking :: Comparison -> Table
ranking c = Table [(R, "similarity"), (L, "one"), (L, "other"), (R, "tokens in common")] (map row (take 200 (comparisonPairs c)))
  where
    names = map (T.unpack . shownName) (comparisonSubmissions c)
    name i = concat (take 1 (drop i names))
    row p = [show (floor (shownSimilarity p * 100 + 1e-9) :: Int) ++ " %", name (shownLeft p), name (shownRight p), maybe "" show (shownMatched p)]

-- | What the script fills.
application :: [String]
application =
  [ "<div id=\"app\" hidden>",
    "<div class=\"bar noprint\" role=\"toolbar\"><span class=\"grow\"><input type=\"search\" id=\"filter\" placeholder=\"Filter by name, student, verdict (/)\" aria-label=\"Filter\"></span>",
    "<span id=\"count\" class=\"note\"></span>",
    "<label>Threshold <input type=\"range\" id=\"threshold\" min=\"0\" max=\"1\" step=\"0.01\"><span id=\"thresholdText\"></span></label>",
    "<label><input type=\"checkbox\" id=\"names\"> Hide names</label>",
    "<button id=\"save\" title=\"Save verdicts (s)\">Save verdicts</button><button id=\"load\" title=\"Load verdicts\" aria-label=\"Load verdicts\">Load</button><input type=\"file\" id=\"file\" accept=\".json,application/json\" hidden>",
    "<button id=\"print\">Print</button><button id=\"help\" title=\"Keys (?)\">?</button></div>",
    "<p id=\"said\" class=\"said\" role=\"status\"></p>",
    "<div id=\"overview\" class=\"overview\"><div class=\"card\"><h2>How similar pairs are (logarithmic)</h2><div id=\"histogram\"></div></div><div class=\"card\"><h2>Clusters</h2><div id=\"graph\"></div></div></div>",
    "<div id=\"list\"><h2>Ranking</h2><div id=\"ranking\" class=\"scroll\"></div></div>",
    "<div id=\"pair\" hidden></div>",
    "<dialog id=\"keys\"><h2>Keys</h2><dl class=\"keys\">" ++ concat [keyed k what | (k, what) <- keys] ++ "</dl><form method=\"dialog\"><button>Close</button></form></dialog>",
    "</div>"
  ]
  where
    keyed k what = "<dt><kbd>" ++ k ++ "</kbd></dt>" ++ element "dd" what
    keys =
      [ ("j k", "Next, previous pair in the ranking; next, previous match in a pair"),
        ("Enter", "Open the pair"),
        ("J K", "Next, previous pair while one is open"),
        ("1 2 3", "Verdict: copy, unsure, innocent; again: none"),
        ("Esc", "Back to the ranking"),
        ("/", "Filter"),
        ("h", "Hide or show names"),
        ("s", "Save verdicts"),
        ("?", "These keys")
      ]

comparisonJson :: Comparison -> Value
comparisonJson c =
  object
    [ "schema" .= ("maru-similar-report/1" :: Text),
      "threshold" .= comparisonThreshold c,
      "submissions" .= [object ["name" .= shownName s, "students" .= shownStudents s, "role" .= shownRole s, "tokens" .= shownTokens s] | s <- comparisonSubmissions c],
      "pairs"
        .= [ object
               [ "left" .= shownLeft p,
                 "right" .= shownRight p,
                 "similarity" .= figure (shownSimilarity p),
                 "whole" .= figure (shownWhole p),
                 "embedded" .= figure (shownEmbedded p),
                 "innocent" .= fmap figure (shownInnocent p),
                 "matched" .= shownMatched p,
                 "complete" .= shownComplete p,
                 "notes" .= shownNotes p
               ]
             | p <- comparisonPairs c
           ],
      "reported" .= comparisonReported c,
      "histogram" .= comparisonHistogram c,
      "reasons" .= comparisonReasons c,
      "verdicts" .= comparisonVerdicts c
    ]

-- | To a billionth. All digits of a number take longer than all else of its row.
figure :: Double -> Value
figure x = Number (fromIntegral (round (x * 1000000000) :: Int) * 1e-9)

-- | JSON in which no tag begins: within its strings, where alone it can stand, @<@ is @\\u003c@.
escaped :: BL.ByteString -> Builder
escaped = P.primMapLazyByteStringBounded (P.condB (== 60) (P.liftFixedToBounded less) (P.liftFixedToBounded P.word8))
  where
    less = const ('\\', ('u', ('0', ('0', ('3', 'c'))))) P.>$< (P.char7 P.>*< P.char7 P.>*< P.char7 P.>*< P.char7 P.>*< P.char7 P.>*< P.char7)
