{-# LANGUAGE OverloadedStrings #-}

-- | The report of a comparison ("Maru.View.Similar"): which pairs it shows with their programs, so
-- that it stays small. Pure.
module Maru.Cli.Similar.Page
  ( similarPage,
    Asked (..),
    shownNames,
  )
where

import qualified Codec.Compression.GZip as GZip
import Control.Applicative ((<|>))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Base64.Lazy as Base64
import Data.ByteString.Builder (Builder)
import qualified Data.ByteString.Lazy as BL
import qualified Data.IntSet as IntSet
import Data.List (find, foldl')
import Data.Maybe (fromMaybe)
import qualified Data.Set as Set
import Data.Text (Text)
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Maru.Cli.Output (plural)
import Maru.Similar
import Maru.Similar.Evidence (Shown (..))
import Maru.Similar.Match (PairScore (..), Span (..), Tile (..), reasonName)
import Maru.View.Plain (plain)
import qualified Maru.View.Similar as View

-- | What the page is made of besides the report.
data Asked = Asked
  { -- | 'Maru.Cli.Host.pageFacts'.
    askedFacts :: ![(String, String)],
    askedVerdicts :: ![View.Verdict],
    -- | The programs of a submission, by its position, and where a pair matches, by its rank.
    askedSources :: !(Int -> [Source]),
    askedEvidence :: !(Int -> Maybe [Shown])
  }

similarPage :: Asked -> Report -> Builder
similarPage asked report = View.comparisonPage (comparison asked report) (packed asked report)

comparison :: Asked -> Report -> View.Comparison
comparison asked report =
  View.Comparison
    { View.comparisonFound = found,
      View.comparisonFacts = askedFacts asked,
      View.comparisonFigures =
        [ (show (V.length submissions), "submissions"),
          (show (reportCompared report), "pairs compared"),
          (show (pairCount table), "pairs reported"),
          (show high, "pairs at 80 % or more")
        ],
      View.comparisonThreshold = if configThreshold (reportConfig report) > 0 then configThreshold (reportConfig report) else usual,
      View.comparisonSubmissions = zipWith submission (V.toList names) (V.toList submissions),
      View.comparisonPairs = zipWith shown [0 ..] listed,
      View.comparisonReported = pairCount table,
      View.comparisonHistogram = histogram table,
      View.comparisonLeftOut = leftOut (reportLeftOut report),
      View.comparisonReasons = map (Text.pack . reasonName) [minBound ..],
      View.comparisonVerdicts = askedVerdicts asked
    }
  where
    submissions = reportSubmissions report
    table = reportPairs report
    listed = map (pairAt table) [0 .. min mostPairs (pairCount table) - 1]
    high = length (takeWhile ((>= 0.8) . similarityAt table) [0 .. pairCount table - 1])
    names = shownNames report
    name i = names V.! i
    submission n s = View.Shown n (map text (submissionStudents s)) (text (roleName (submissionRole s))) (submissionTokens s)
    found = case listed of
      [] | reportCompared report == 0 -> "There is nothing to compare: one submission only."
      [] -> "No pair is at or above the threshold."
      pair : _ -> "The most similar are " ++ Text.unpack (name (pairLeft pair)) ++ " and " ++ Text.unpack (name (pairRight pair)) ++ ", " ++ percent (pairSimilarity pair) ++ "; " ++ plural high "pair" ++ " at 80 % or more."
    -- Where less than one innocent pair is expected, in whole percent; 80 % where that is not known.
    usual = case [pairSimilarity pair | pair <- listed, maybe False (<= 1) (pairScoreInnocentAbove (pairScore report pair))] of
      [] -> 0.8
      clear -> min 1 (fromIntegral (ceiling (minimum clear * 100) :: Int) / 100)
    parsed how i = submissionParse (submissions V.! i) == how
    shown rank pair =
      View.ShownPair
        { View.shownLeft = pairLeft pair,
          View.shownRight = pairRight pair,
          View.shownSimilarity = pairSimilarity pair,
          View.shownWhole = pairWhole pair,
          View.shownEmbedded = pairEmbedded pair,
          View.shownMatched = pairMatched pair <|> (sum . map (tileTokens . shownTile) <$> askedEvidence asked rank),
          View.shownComplete = pairComplete pair,
          View.shownInnocent = pairScoreInnocentAbove score,
          View.shownNotes = ["too short to judge" | pairScoreTooShort score] ++ ["does not parse" | any (parsed Broken) [pairLeft pair, pairRight pair]] ++ ["structure not compared" | any (parsed NotParsed) [pairLeft pair, pairRight pair]]
        }
      where
        score = pairScore report pair

-- | Path and reason of the first, so that the page stays small.
leftOut :: [LeftOut] -> [(Text, Text)]
leftOut missed = [(text path, text why) | LeftOut path why <- take 200 missed] ++ [(Text.pack ("and " ++ show more ++ " more"), "--json names them all") | more > 0]
  where
    more = length missed - 200

-- | What the page calls the submissions, by their position: no two the same, as verdicts go by that.
-- Names that only differ in what cannot be shown get a number.
shownNames :: Report -> V.Vector Text
shownNames report = V.fromList (go Set.empty (map (text . submissionName) (V.toList (reportSubmissions report))))
  where
    go _ [] = []
    go used (name : more) = let own = fresh used name in own : go (Set.insert own used) more
    fresh used name = fromMaybe name (find (`Set.notMember` used) (name : [name <> Text.pack (" (" ++ show n ++ ")") | n <- [2 :: Int ..]]))

-- | A name, as the page has it: it must not steer what shows it.
text :: ByteString -> Text
text = Text.pack . plain . Text.unpack . decodeUtf8With lenientDecode

-- | Rounded down, so that 100 % is said of nothing less.
percent :: Double -> String
percent x = show (floor (x * 100 + 1e-9) :: Int) ++ " %"

-- | Pairs in fiftieths.
histogram :: PairTable -> [Int]
histogram table = VU.toList (VU.unsafeAccumulate (+) (VU.replicate 50 0) (VU.map (\i -> (step (similarityAt table i), 1)) (VU.enumFromN 0 (pairCount table))))
  where
    step s = max 0 (min 49 (floor (50 * s + 1e-9)))

-- Programs ------------------------------------------------------------------------

-- | So many pairs in the ranking; so many bytes of programs as they are, and as they stand in the
-- page: it stays below 10 MB.
mostPairs, mostPlain, mostPacked :: Int
mostPairs = 5000
mostPlain = 512 * 1024
mostPacked = 7 * 1024 * 1024

-- | The programs of as many pairs as there is room for, from the most similar on.
packed :: Asked -> Report -> View.Packed
packed asked report = go (24 * 1024 * 1024)
  where
    go room
      | BL.length json <= fromIntegral mostPlain = View.Plain json
      | BL.length zipped <= fromIntegral mostPacked = View.Gzipped zipped
      | otherwise = go (room `quot` 2)
      where
        json = View.programsJson (programs room asked report)
        zipped = Base64.encode (GZip.compress json)

-- | With so many bytes of text at most.
programs :: Int -> Asked -> Report -> View.Programs
programs room asked report = View.Programs [(i, files i) | i <- IntSet.toList inside] [(rank, map tile found) | (rank, found) <- reverse kept]
  where
    (inside, _, kept) = foldl' add (IntSet.empty, 0, []) (zip [0 .. mostPairs - 1] (pairList (reportPairs report)))
    add state@(have, used, pairs) (rank, pair) = case askedEvidence asked rank of
      Just found | used + new <= room -> (IntSet.union have (IntSet.fromList both), used + new, (rank, found) : pairs)
      _ -> state
      where
        both = [pairLeft pair, pairRight pair]
        new = sum [B.length (sourceBytes s) | i <- both, IntSet.notMember i have, s <- askedSources asked i]
    files i = [(text path, decodeUtf8With lenientDecode (sourceBytes s)) | (path, s) <- zip (shortened (reportSubmissions report V.! i)) (askedSources asked i)]
    tile (Shown t moved rare) = three (tileLeft t) ++ three (tileRight t) ++ [tileTokens t, fromEnum (tileReason t), fromEnum moved, fromEnum rare]
    three s = [spanFile s, spanStart s, spanBytes s]

-- | The paths below the submission.
shortened :: Submission -> [ByteString]
shortened s = map below (submissionPaths s)
  where
    below path = case B.breakSubstring ("/" <> submissionName s <> "/") path of
      (_, rest) | not (B.null rest) -> B.drop (B.length (submissionName s) + 2) rest
      _ -> snd (B.breakEnd (== 47) path)
