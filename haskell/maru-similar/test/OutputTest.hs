{-# LANGUAGE OverloadedStrings #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

module OutputTest (tests) where

import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Builder.Prim as P
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.List (sort, sortOn)
import Maru.Similar
import Maru.Similar.Anonymous
import Maru.Similar.Digits
import Maru.Similar.Output
import Snippets
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Output"
    [ testCase "CSV" $
        text csv (reportOf ["a", "b,c", "d\"e"])
          @?= BC.unlines
            [ "left,right,similarity,avg,max,matched,left_tokens,right_tokens",
              "a,\"b,c\",1.000000,1.000000,1.000000,219,219,219",
              "a,\"d\"\"e\",1.000000,1.000000,1.000000,219,219,219",
              "\"b,c\",\"d\"\"e\",1.000000,1.000000,1.000000,219,219,219"
            ],
      property "CSV names survive a reader" 300 csvRoundTrip,
      testCase "no name in a CSV file is a formula" $
        sequence_
          [ BC.lines (text csv (reportOf [left, right])) !! 1 @?= printed <> ",1.000000,1.000000,1.000000,219,219,219"
            | (left, right, printed) <-
                [ ("=1+1", "@A", "'=1+1,'@A"),
                  -- Elsewhere fields end at a semicolon or a tab.
                  ("a;=1+1", "b\t=1+1", "\"a;=1+1\",\"b\t=1+1\""),
                  ("\xef\xbc\x9d\&1+1", "\xef\xbc\xa0\&A", "'\xef\xbc\x9d\&1+1,'\xef\xbc\xa0\&A")
                ]
          ],
      testCase "a share has the digits of its millionths" $
        sequence_
          [ BL.toStrict (Builder.toLazyByteString (P.primFixed share (fromIntegral n / 1000000))) @?= BC.pack (show whole ++ "." ++ drop 1 (show (1000000 + rest)))
            | n <- [0, 37 .. 999999] ++ [999000 .. 1000100] ++ [9999999 :: Int],
              let (whole, rest) = n `quotRem` 1000000
          ],
      testCase "JSON" $
        text json ((reportOf ["\"\\\n", "\xc3\xa9\xff"]) {reportLeftOut = [LeftOut "x" "why"], reportGuessed = [("y", Utf16BE)]})
          @?= BC.unlines
            [ "{\"schema\":\"maru-similar/2\",",
              "\"options\":{\"language\":\"auto\",\"mode\":\"seed\",\"view\":\"structure\",\"rank\":\"both\",\"minMatch\":9,\"threshold\":0.0,\"pairs\":500000},",
              "\"compared\":1,",
              "\"apart\":0,",
              "\"submissions\":[{\"name\":\"\\\"\\\\\\u000a\",\"files\":1,\"tokens\":219,\"excludedTokens\":0,\"errors\":0,\"unclosed\":0,\"notJava\":0,\"controlBytes\":0,\"role\":\"new\",\"students\":[],\"paths\":[\"\\\"\\\\\\u000a\"],\"languages\":[\"java\"]},",
              "{\"name\":\"\xc3\xa9\xef\xbf\xbd\",\"files\":1,\"tokens\":219,\"excludedTokens\":0,\"errors\":0,\"unclosed\":0,\"notJava\":0,\"controlBytes\":0,\"role\":\"new\",\"students\":[],\"paths\":[\"\xc3\xa9\xef\xbf\xbd\"],\"languages\":[\"java\"]}],",
              "\"leftOut\":[{\"path\":\"x\",\"reason\":\"why\"}],",
              "\"encodings\":[{\"path\":\"y\",\"encoding\":\"utf-16be\"}],",
              "\"pairs\":[{\"left\":\"\\\"\\\\\\u000a\",\"right\":\"\xc3\xa9\xef\xbf\xbd\",\"similarity\":1.000000,\"avg\":1.000000,\"max\":1.000000,\"matched\":219,\"leftTokens\":219,\"rightTokens\":219,\"kind\":\"whole\",\"tooShort\":false,\"complete\":true}]}"
            ],
      testCase "CSV of the views" $
        text csv (reportIn defaultConfig ["a", "b"])
          @?= BC.unlines
            [ "left,right,similarity,avg,max,structure,lexical,names,z,innocent,too_short,left_tokens,right_tokens",
              "a,b,1.000000,1.000000,1.000000,1.000000,1.000000,1.000000,,,0,219,219"
            ],
      testCase "JSON of the views" $
        last (BC.lines (text json (reportIn defaultConfig ["a", "b"])))
          @?= "\"pairs\":[{\"left\":\"a\",\"right\":\"b\",\"similarity\":1.000000,\"avg\":1.000000,\"max\":1.000000,\"structure\":{\"avg\":1.000000,\"max\":1.000000},\"lexical\":{\"avg\":1.000000,\"max\":1.000000},\"names\":{\"avg\":1.000000,\"max\":1.000000},\"z\":null,\"innocent\":null,\"leftTokens\":219,\"rightTokens\":219,\"kind\":\"whole\",\"tooShort\":false,\"complete\":true}]}",
      testCase "a table of the views" $
        text (table (TableStyle False) 1) (reportIn defaultConfig ["a", "b"])
          @?= BC.unlines
            [ "100 %  a  b  (219 tokens; structure 100, lexical 100, names 100)",
              "",
              "2 submissions, 1 pair compared; 1 at 80 % or more."
            ],
      testCase "the table aligns, sums up, and steers no terminal" $
        text (table (TableStyle False) 2) (reportOf ["a", "long\ESC[1m", "\xc3\xa9"])
          @?= BC.unlines
            [ "100 %  a  long?[1m  (219 of 219 tokens)",
              "100 %  a  \xc3\xa9         (219 of 219 tokens)",
              "",
              "3 submissions, 3 pairs compared; 3 at 80 % or more; the first 2 are shown."
            ],
      testCase "colours only where they are wanted" $
        assertBool "no colour" ("\ESC[31m100 %\ESC[0m" `B.isPrefixOf` text (table (TableStyle True) 1) (reportOf ["a", "b"])),
      testCase "an anonymous report does not depend on who has which name" $ do
        let named given = [(newEntry n [javaSource (n <> "/A.java") (own i)]) {entryStudents = [n <> "'s", "everybody " <> BC.pack (show (i `div` 2))]} | (i, n) <- zip [1 ..] given]
            own :: Int -> B.ByteString
            own i = bubble <> BC.concat ["class C" <> k <> " { int f(int x) { while (x > " <> k <> ") x--; return x; } }\n" | n <- [i .. i + 4], let k = BC.pack (show n)]
            names = [BC.pack [c] | c <- ['a' .. 'l']]
            report given = let corpus = shuffled (corpusOf (sortOn entryName (named given)) []) in anonymous (runIn defaultConfig corpus)
            order = [i | e <- corpusEntries (shuffled (corpusOf (named names) [])), i <- [1 .. 12], map sourceBytes (entrySources e) == [own i]]
        text json (report names) @?= text json (report (reverse names))
        text csv (report names) @?= text csv (report (drop 5 names <> take 5 names))
        assertBool (show order) (length order == 12 && order /= sort order && order /= reverse (sort order)),
      testCase "one submission" $
        text (table (TableStyle False) 2) (reportOf ["a"]) @?= "Nothing to compare: one submission only.\n"
    ]

text :: (Report -> Builder.Builder) -> Report -> B.ByteString
text form = BL.toStrict . Builder.toLazyByteString . form

-- | Equal submissions of these names, in that order.
reportOf :: [B.ByteString] -> Report
reportOf = reportIn seedConfig

reportIn :: Config -> [B.ByteString] -> Report
reportIn config names = runIn config (corpusOf [newEntry n [javaSource n bubble] | n <- names] [])

runIn :: Config -> Corpus -> Report
runIn config corpus = assembled config prepared (comparePrepared map config prepared)
  where
    prepared = prepare map config corpus

csvRoundTrip :: Property
csvRoundTrip = forAll (vectorOf 2 (BC.pack <$> listOf1 (elements ",\"\n\rab =+-@\t';"))) $ \names ->
  map (map plain . take 2) (drop 1 (readCsv (BC.unpack (text csv (reportOf names))))) === [map BC.unpack names]
  where
    plain name = if take 1 name == "'" then drop 1 name else name

-- | RFC 4180, as it is written down there.
readCsv :: String -> [[String]]
readCsv = go [] []
  where
    go _ _ "" = []
    go fields field s = case s of
      '"' : rest | null field -> quoted fields "" rest
      ',' : rest -> go (reverse field : fields) [] rest
      '\n' : rest -> reverse (reverse field : fields) : go [] [] rest
      c : rest -> go fields (c : field) rest
    quoted fields field s = case s of
      '"' : '"' : rest -> quoted fields ('"' : field) rest
      '"' : rest -> closed fields field rest
      c : rest -> quoted fields (c : field) rest
      "" -> []
    closed fields field s = case s of
      ',' : rest -> go (reverse field : fields) [] rest
      _ : rest -> reverse (reverse field : fields) : go [] [] rest
      "" -> []
