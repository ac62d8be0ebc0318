{-# LANGUAGE OverloadedStrings #-}

-- | The report of a comparison: no text of others becomes part of the page, and no file is taken for
-- verdicts that is none. What a browser makes of it, report.py of the command tests.
module SimilarTest (comparisons) where

import Data.Aeson (encode, object, (.=))
import qualified Data.ByteString as B
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Lazy as BL
import qualified Data.ByteString.Lazy.Char8 as BLC
import Data.Char (isAsciiUpper)
import Data.Either (isLeft)
import Data.String (fromString)
import Data.Text (Text)
import qualified Data.Text as T
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.View.Similar
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

comparisons :: TestTree
comparisons =
  testGroup
    "report of a comparison"
    [ holds "has the tags of an empty one, whatever the texts" . withTests 200 . property $ do
        texts <- forAll (Gen.list (Range.singleton 8) hostile)
        let page = rendered texts
        -- Rows of the table, lines of the list and files come on top; scripts, styles and images never.
        [count tag page | tag <- tags] === [count tag (rendered (replicate 8 "x")) | tag <- tags],
      holds "verdicts survive being written" . property $ do
        verdicts <- forAll (Gen.list (Range.linear 0 5) (Verdict <$> hostile <*> hostile <*> Gen.element ["copy", "unsure", "innocent", ""] <*> hostile))
        readVerdicts (encode (object ["schema" .= ("maru-similar-verdicts/1" :: Text), "verdicts" .= verdicts])) === Right verdicts,
      holds "broken files of verdicts are said, or hold verdicts" . withTests 500 . property $ do
        place <- forAll (Gen.int (Range.constant 0 (fromIntegral (BL.length good) - 1)))
        byte <- forAll (Gen.word8 Range.constantBounded)
        let (before, after) = BL.splitAt (fromIntegral place) good
        either (assert . not . null) (assert . all ((`elem` ["copy", "unsure", "innocent"]) . verdictWord)) (readVerdicts (before <> BL.singleton byte <> BL.drop 1 after)),
      testCase "what is no file of verdicts" $
        map (isLeft . readVerdicts) ["", "[]", "{}", "{\"schema\":\"x\",\"verdicts\":[]}", "{\"schema\":\"maru-similar-verdicts/1\",\"verdicts\":[{}]}"] @?= replicate 5 True
    ]
  where
    tags = ["<script", "</script", "<style", "</style", "<img", "<iframe", "<svg", "onerror=\""]
    good = encode (object ["schema" .= ("maru-similar-verdicts/1" :: Text), "verdicts" .= [Verdict "a" "b" "copy" "n", Verdict "c" "d" "unsure" ""]])

holds :: String -> Property -> TestTree
holds what = testPropertyNamed what (fromString what)

-- | Parts of what harms.
hostile :: Gen Text
hostile = T.concat <$> Gen.list (Range.linear 0 6) (Gen.element ["<script>", "</script>", "<!--", "]]>", "\"", "'", "<img src=x onerror=\"alert(1)\">", "\\u003c", "\0", "\x2028", "&lt;", "</style>", "x", "\xfffd"])

-- | A page that has the texts wherever a page has text of others.
rendered :: [Text] -> BL.ByteString
rendered texts = toLazyByteString (comparisonPage comparison (Plain (programsJson programs)))
  where
    at i = T.concat (take 1 (drop i texts))
    comparison =
      Comparison
        { comparisonFound = T.unpack (at 0),
          comparisonFacts = [("command", T.unpack (at 1))],
          comparisonFigures = [("1", "pair")],
          comparisonThreshold = 0.8,
          comparisonSubmissions = [Shown (at 2) [at 3] "new" 1, Shown (at 4) [] "archive" 1],
          comparisonPairs = [ShownPair 0 1 1 1 1 (Just 9) True (Just 0.5) [at 5]],
          comparisonReported = 1,
          comparisonHistogram = [1],
          comparisonLeftOut = [(at 6, at 7)],
          comparisonReasons = ["renamed"],
          comparisonVerdicts = [Verdict (at 2) (at 4) "copy" (at 7)]
        }
    programs = Programs [(0, [(at 6, at 7)]), (1, [(at 5, at 0)])] [(0, [[0, 0, 1, 0, 0, 1, 9, 0, 0, 1]])]

count :: B.ByteString -> BL.ByteString -> Int
count what page = go (BL.toStrict (BLC.map lower page))
  where
    go text = case B.breakSubstring what text of
      (_, rest) | B.null rest -> 0
      (_, rest) -> 1 + go (B.drop 1 rest)
    lower c = if isAsciiUpper c then toEnum (fromEnum c + 32) else c
