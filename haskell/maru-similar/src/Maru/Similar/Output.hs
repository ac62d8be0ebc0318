{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | Reports as CSV, JSON and a table for people.
module Maru.Similar.Output
  ( csv,
    json,
    jsonWith,
    table,
    TableStyle (..),
    printableName,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder
import Data.ByteString.Builder.Internal (BufferRange, BuildSignal, BuildStep, builder, runBuilderWith)
import qualified Data.ByteString.Builder.Prim as P
import Data.Char (GeneralCategory (..), generalCategory)
import Data.List (intersperse)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isNothing)
import qualified Data.Set as Set
import Data.Text (Text)
import qualified Data.Text as T
import qualified Data.Text.Encoding as T
import qualified Data.Text.Encoding.Error as T
import qualified Data.Vector as V
import Maru.Similar
import Maru.Similar.Digits
import Maru.Similar.Evidence (Shown (..))
import Maru.Similar.Grammar (grammarName)
import Maru.Similar.Language (hasGrammar, languageName)
import Maru.Similar.Match (Kind (..), PairScore (..), Span (..), Tile (..), ViewScore (..), reasonName)
import Maru.Similar.Normalise (View (..))

-- | RFC 4180 with line feeds, a header, one row per reported pair, the most similar
-- first. Names are the bytes of the file system. The columns depend on the mode
-- (docs\/similar.md); what is not known is empty.
csv :: Report -> Builder
csv report = heads <> char7 '\n' <> streamed (pairCount pairs) ((<> char7 '\n') . row . detail report . pairAt pairs)
  where
    pairs = reportPairs report
    (heads, row) = columns (configMode (reportConfig report))

-- | The head, and what stands below it for a pair. The figures are one piece: rows are what takes the
-- time, and each piece of a builder has its own check for room.
columns :: Mode -> (Builder, Detail -> Builder)
columns mode = case mode of
  Seed -> ("left,right,similarity,avg,max,matched,left_tokens,right_tokens", row (known P.emptyB 0 P.intDec) (pairMatched . detailPair))
  Score -> ("left,right,similarity,avg,max,structure,lexical,names,z,innocent,too_short,left_tokens,right_tokens", row weighed (weighedOf . detailScore))
  where
    row :: P.BoundedPrim a -> (Detail -> a) -> Detail -> Builder
    row prim between d = csvField (leftName d) <> char7 ',' <> csvField (rightName d) <> P.primBounded (after (P.liftFixedToBounded shares) P.>*< after prim P.>*< after P.intDec P.>*< after P.intDec) (ranked (detailScore d), (between d, (leftTokens d, rightTokens d)))
    {-# INLINE row #-}
    ranked s = (pairScoreSimilarity s, pairScoreWhole s, pairScoreEmbedded s)
    weighedOf s = (viewed s, (pairScoreZ s, (pairScoreInnocentAbove s, if pairScoreTooShort s then '1' else '0')))
    weighed = known (const (',', ',') P.>$< P.liftFixedToBounded (P.char7 P.>*< P.char7)) (0, 0, 0) (P.liftFixedToBounded shares) P.>*< after (known P.emptyB 0 hundredths) P.>*< after (known P.emptyB 0 number) P.>*< after (P.liftFixedToBounded P.char7)
    viewed s = (,,) <$> average pairScoreStructure s <*> average pairScoreLexical s <*> average pairScoreNames s
    average view = fmap viewAverage . view

-- | Behind a comma.
after :: P.BoundedPrim a -> P.BoundedPrim a
after prim = (',',) P.>$< (P.liftFixedToBounded P.char7 P.>*< prim)
{-# INLINE after #-}

-- | What stands for nothing, some value, and what stands for one.
known :: P.BoundedPrim () -> a -> P.BoundedPrim a -> P.BoundedPrim (Maybe a)
known nothing some prim = P.condB isNothing (const () P.>$< nothing) (fromMaybe some P.>$< prim)
{-# INLINE known #-}

-- | A name. It has an apostrophe before it where a spreadsheet would take it for a formula, or where
-- it begins with one. Without that one it is the name. What a spreadsheet may take for the end of a
-- field stands in quotes: another field begins behind it, with whatever the name's author likes.
csvField :: ByteString -> Builder
csvField text
  | B.any special text = char7 '"' <> shield <> P.primMapByteStringBounded doubled text <> char7 '"'
  | otherwise = shield <> byteString text
  where
    shield = if any (`B.isPrefixOf` text) formulas then char7 '\'' else mempty
    special w = w == 44 || w == 34 || w == 10 || w == 13 || w == 59 || w == 9
    doubled = P.condB (== 34) (P.liftFixedToBounded ((\w -> (w, w)) P.>$< P.word8 P.>*< P.word8)) (P.liftFixedToBounded P.word8)

-- | How they begin, in UTF-8, with an East Asian keyboard's wide signs; and the apostrophe.
formulas :: [ByteString]
formulas = ["=", "+", "-", "@", "\t", "\r", "\n", "'", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"]

-- | A pair with what is printed of it.
data Detail = Detail
  { leftName :: !ByteString,
    rightName :: !ByteString,
    detailPair :: !Pair,
    detailScore :: !PairScore,
    leftTokens :: !Int,
    rightTokens :: !Int
  }

detail :: Report -> Pair -> Detail
detail report pair =
  Detail
    { leftName = submissionName (side pairLeft),
      rightName = submissionName (side pairRight),
      detailPair = pair,
      detailScore = pairScore report pair,
      leftTokens = submissionTokens (side pairLeft),
      rightTokens = submissionTokens (side pairRight)
    }
  where
    side which = reportSubmissions report V.! which pair

-- | Schema @maru-similar/2@ (docs/similar.md): UTF-8, one line per element of
-- its lists; bytes of names that are not UTF-8 become U+FFFD. What does not bear
-- on the result (back end, workers) is not in it.
json :: Report -> Builder
json = jsonWith (const Nothing)

-- | Also with where pairs match: by their position in the ranking, what is known of it.
jsonWith :: (Int -> Maybe [Shown]) -> Report -> Builder
jsonWith matches report =
  "{\"schema\":\"maru-similar/2\",\n\"options\":"
    <> options (reportConfig report)
    <> ",\n\"compared\":"
    <> intDec (reportCompared report)
    <> ",\n\"apart\":"
    <> intDec (reportApart report)
    <> ",\n\"submissions\":"
    <> list submission (V.toList (reportSubmissions report))
    <> ",\n\"leftOut\":"
    <> list leftOut (reportLeftOut report)
    <> ",\n\"encodings\":"
    <> list guessed (reportGuessed report)
    <> ",\n\"pairs\":"
    <> char7 '['
    <> streamed (pairCount pairs) (\i -> (if i == 0 then mempty else ",\n") <> pairObject (matches i) (detail report (pairAt pairs i)))
    <> "]}\n"
  where
    pairs = reportPairs report
    weighed = configMode (reportConfig report) == Score
    options config =
      object $
        [ ("language", maybe "\"auto\"" languageString (configLanguage config)),
          ("mode", quoted (modeName (configMode config))),
          ("view", jsonString (viewsName config)),
          ("rank", quoted (rankName (configRank config))),
          ("minMatch", intDec (configMinMatch config)),
          ("threshold", doubleDec (configThreshold config)),
          ("pairs", intDec (configPairs config))
        ]
          ++ [("grammars", object [(string7 (languageName l), maybe "null" (jsonString . grammarName) (Map.lookup l (configGrammars config))) | l <- inUse, hasGrammar l]) | weighed]
    inUse = Set.toList (Set.fromList (concatMap submissionLanguages (V.toList (reportSubmissions report))))
    languageString = quoted . languageName
    submission s =
      object $
        [ ("name", jsonString (submissionName s)),
          ("files", intDec (length (submissionPaths s))),
          ("tokens", intDec (submissionTokens s)),
          ("excludedTokens", intDec (submissionExcluded s)),
          ("errors", intDec (submissionErrors s)),
          ("unclosed", intDec (submissionUnclosed s)),
          ("notJava", intDec (submissionNotJava s)),
          ("controlBytes", intDec (submissionControls s)),
          ("role", jsonString (roleName (submissionRole s))),
          ("students", list jsonString (submissionStudents s)),
          ("paths", list jsonString (submissionPaths s)),
          ("languages", list languageString (Set.toList (Set.fromList (submissionLanguages s))))
        ]
          ++ [("parsed", string7 (show (parseName (submissionParse s)))) | weighed]
    guessed (path, encoding) = object [("path", jsonString path), ("encoding", jsonString (encodingName encoding))]
    leftOut (LeftOut path why) = object [("path", jsonString path), ("reason", jsonString why)]

parseName :: Parse -> String
parseName how = case how of
  Clean -> "yes"
  Broken -> "with errors"
  ByTokens -> "by tokens"
  NotParsed -> "no"

-- | So many parts, one after the other. Each is made when it is written and forgotten then. A
-- builder that '<>' makes of them all keeps all that it has written for as long as somebody holds
-- its beginning: some 2 KB a pair.
streamed :: Int -> (Int -> Builder) -> Builder
streamed n part = builder (from 0)
  where
    from :: Int -> BuildStep r -> BufferRange -> IO (BuildSignal r)
    from i next range
      | i >= n = next range
      | otherwise = runBuilderWith (part i) (from (i + 1) next) range

viewsName :: Config -> ByteString
viewsName config = case (configMode config, configView config) of
  (Score, _) -> "structure, lexical, names"
  (Seed, Structure) -> "structure"
  (Seed, Names) -> "names"

quoted :: String -> Builder
quoted name = char7 '"' <> string7 name <> char7 '"'

pairObject :: Maybe [Shown] -> Detail -> Builder
pairObject matches d =
  object $
    [ ("left", jsonString (leftName d)),
      ("right", jsonString (rightName d)),
      ("similarity", figure (pairScoreSimilarity s)),
      ("avg", figure (pairScoreWhole s)),
      ("max", figure (pairScoreEmbedded s))
    ]
      ++ evidence (pairEvidence (detailPair d))
      ++ [ ("leftTokens", intDec (leftTokens d)),
           ("rightTokens", intDec (rightTokens d)),
           ("kind", quoted (kindName (pairScoreKind s))),
           ("tooShort", truth (pairScoreTooShort s)),
           ("complete", truth (pairComplete (detailPair d)))
         ]
      ++ [("matches", list matchObject found) | Just found <- [matches]]
  where
    s = detailScore d
    evidence e = case e of
      Tiles n _ -> [("matched", intDec n)]
      Shared {} ->
        [ ("structure", maybe "null" view (pairScoreStructure s)),
          ("lexical", maybe "null" view (pairScoreLexical s)),
          ("names", maybe "null" view (pairScoreNames s)),
          ("z", maybe "null" (P.primBounded hundredths) (pairScoreZ s)),
          ("innocent", maybe "null" (P.primBounded number) (pairScoreInnocentAbove s))
        ]
    view v = object [("avg", figure (viewAverage v)), ("max", figure (viewMaximum v))]

figure :: Double -> Builder
figure = P.primFixed share

kindName :: Kind -> String
kindName kind = case kind of
  Whole -> "whole"
  Embedded -> "embedded"

truth :: Bool -> Builder
truth b = if b then "true" else "false"

-- | Ranges are bytes of the file as UTF-8.
matchObject :: Shown -> Builder
matchObject (Shown t moved rare) =
  object
    [ ("left", spanObject (tileLeft t)),
      ("right", spanObject (tileRight t)),
      ("tokens", intDec (tileTokens t)),
      ("reason", string7 (show (reasonName (tileReason t)))),
      ("moved", truth moved),
      ("rare", truth rare)
    ]
  where
    spanObject s = object [("file", intDec (spanFile s)), ("start", intDec (spanStart s)), ("bytes", intDec (spanBytes s))]

object :: [(Builder, Builder)] -> Builder
object fields = char7 '{' <> mconcat (intersperse (char7 ',') (map field fields)) <> char7 '}'
  where
    field (key, value) = char7 '"' <> key <> "\":" <> value

list :: (a -> Builder) -> [a] -> Builder
list item items = char7 '[' <> mconcat (intersperse ",\n" (map item items)) <> char7 ']'

jsonString :: ByteString -> Builder
jsonString text = char7 '"' <> T.encodeUtf8BuilderEscaped escape (readable text) <> char7 '"'
  where
    escape =
      P.condB (< 32) (P.liftFixedToBounded hexEscape) $
        P.condB (\w -> w == 34 || w == 92) (P.liftFixedToBounded backslashed) (P.liftFixedToBounded P.word8)
    hexEscape = (\w -> ('\\', ('u', ('0', ('0', w))))) P.>$< P.char7 P.>*< P.char7 P.>*< P.char7 P.>*< P.char7 P.>*< P.word8HexFixed
    backslashed = ('\\',) P.>$< P.char7 P.>*< P.word8

readable :: ByteString -> Text
readable = T.decodeUtf8With T.lenientDecode

-- | How a table is drawn.
newtype TableStyle = TableStyle
  { -- | With colours for a terminal.
    coloured :: Bool
  }

-- | The most similar pairs, aligned; then one line that sums up.
table :: TableStyle -> Int -> Report -> Builder
table style top report
  | V.length (reportSubmissions report) == 1 = "Nothing to compare: one submission only.\n"
  | reportCompared report == 0 = "Nothing to compare: no two submissions that may be compared.\n"
  | otherwise = foldMap line shown <> summary report (length shown)
  where
    shown = map (detail report) (take top (pairList (reportPairs report)))
    leftWidth = maximum (0 : map (T.length . printable . leftName) shown)
    rightWidth = maximum (0 : map (T.length . printable . rightName) shown)
    line d =
      paint style d (percent (pairScoreSimilarity (detailScore d)))
        <> "  "
        <> cellText leftWidth (leftName d)
        <> "  "
        <> cellText rightWidth (rightName d)
        <> "  ("
        <> extent d
        <> ")\n"
    cellText width name = T.encodeUtf8Builder (T.justifyLeft width ' ' (printable name))

-- | What is common, of how much.
extent :: Detail -> Builder
extent d = case pairEvidence (detailPair d) of
  Tiles n whole -> (if whole then "" else "at least ") <> intDec n <> " of " <> sizes <> " tokens"
  Shared structure lexical names ->
    sizes <> " tokens; structure " <> share' structure <> ", lexical " <> share' lexical <> ", names " <> share' names
      <> (if pairScoreKind (detailScore d) == Embedded then "; part of the other" else "")
      <> (if pairScoreTooShort (detailScore d) then "; too short to judge" else "")
  where
    share' v = intDec (floor (viewAverage v * 100 + 1e-4) :: Int)
    sizes
      | leftTokens d == rightTokens d = intDec (leftTokens d)
      | otherwise = intDec (leftTokens d) <> " and " <> intDec (rightTokens d)

-- | Rounded down, so that 100 % is said of nothing less.
percent :: Double -> Builder
percent x = T.encodeUtf8Builder (T.justifyRight 3 ' ' (T.pack (show n))) <> " %"
  where
    n = floor (x * 100 + 1e-9) :: Int

-- | Red from 80 %, yellow from 60 %.
paint :: TableStyle -> Detail -> Builder -> Builder
paint style d text
  | not (coloured style) = text
  | s >= 0.8 = "\ESC[31m" <> text <> "\ESC[0m"
  | s >= 0.6 = "\ESC[33m" <> text <> "\ESC[0m"
  | otherwise = text
  where
    s = pairScoreSimilarity (detailScore d)

summary :: Report -> Int -> Builder
summary report shown =
  "\n"
    <> count (V.length (reportSubmissions report)) "submission"
    <> ", "
    <> count (reportCompared report) "pair"
    <> " compared"
    <> (if reportApart report > 0 then " (" <> intDec (reportApart report) <> " of one student, of the archive or of other languages are not)" else "")
    <> "; "
    <> (if reported < reportCompared report then intDec reported <> " of them reported; " else "")
    <> intDec high
    <> " at 80 % or more"
    <> (if shown < reported then "; the first " <> intDec shown <> " are shown" else "")
    <> ".\n"
  where
    reported = pairCount (reportPairs report)
    high = length (takeWhile ((>= 0.8) . similarityAt (reportPairs report)) [0 .. reported - 1])

count :: Int -> Builder -> Builder
count n thing = intDec n <> " " <> thing <> (if n == 1 then "" else "s")

-- | A name must not steer the terminal, nor change the order of what stands beside it.
printable :: ByteString -> Text
printable = T.map (\c -> if generalCategory c `elem` [Control, Format, LineSeparator, ParagraphSeparator] then '?' else c) . readable

-- | The same as bytes, UTF-8.
printableName :: ByteString -> ByteString
printableName = T.encodeUtf8 . printable
