{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

module PairsTest (tests) where

import Control.Exception (evaluate)
import Control.Monad (forM_)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.List (sort)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32)
import Maru (parMapWith)
import qualified Maru.Options as Maru
import Maru.Similar
import Maru.Similar.Mutate
import Maru.Similar.Normalise
import Maru.Similar.Output (csv, json)
import Maru.Similar.Pairs
import Maru.Similar.Score (Score (..), score, similarity)
import Snippets
import System.Timeout (timeout)
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Pairs"
    [ property "a score does not depend on which side is which" 500 symmetric,
      property "scores are in [0, 1], 1 for equals, 0 for nothing in common" 500 bounded,
      property "any order of submissions gives the same pairs" 200 anyOrder,
      property "the threshold leaves out just what is below it" 200 thresholded,
      testCase "reversed evaluation gives the same bytes" $
        [outputs c backwards someCorpus | c <- modes] @?= [outputs c map someCorpus | c <- modes],
      testGroup
        "every back end of maru gives the same bytes"
        [ testCase (Maru.backendName b <> ", " <> show w) $ do
            done <- timeout 60000000 (evaluate ([outputs c (parMapWith Maru.defaultOptions {Maru.backend = b, Maru.workers = Maru.Workers w}) someCorpus == outputs c map someCorpus | c <- modes] == [True, True]))
            done @?= Just True
          | b <- Maru.allBackends,
            w <- [1, 2, 5]
        ],
      testCase "of pairs as similar the first count, through all waves of tasks" $ do
        -- Some thirteen tasks; six kinds, within which all is equal.
        let kind i = i * i `mod` 11 :: Int
            source i = BC.pack ("class T { int x" <> show (kind i) <> "; int f(int y) { return y + x" <> show (kind i) <> "; } }\n")
            corpus = corpusOf [newEntry (BC.pack (show i)) [javaSource "T.java" (source i)] | i <- [1000 .. 2299 :: Int]] []
            equal = [(i, j) | i <- [0 .. 1299], j <- [i + 1 .. 1299], kind (1000 + i) == kind (1000 + j)]
            sides p = (pairLeft p, pairRight p)
        forM_ [1, 700, 100000] $ \most -> do
          let report = run defaultConfig {configPairs = most} corpus
          map sides (pairList (reportPairs report)) @?= take most equal
          reportCompared report @?= 1300 * 1299 `div` 2
        let strict = run defaultConfig {configPairs = 700, configThreshold = 1} corpus
        map sides (pairList (reportPairs strict)) @?= take 700 equal,
      testCase "short equals are found, short others not" $ do
        similarityOf [1, 2] [1, 2] @?= 1
        similarityOf [1, 2] [1, 3] @?= 0,
      testCase "a part of another: max is 1, avg is less" $ do
        let s = score 10 10 30
        (scoreMaximum s, scoreAverage s, similarity s) @?= (1, 0.5, 0.75),
      testCase "equal work scores 100 % also with template code in it" $ do
        let entries = [newEntry "a" [javaSource "a" (template <> bubble)], newEntry "b" [javaSource "b" (template <> bubble)]]
        forM_ modes $ \c -> do
          let report = run c (corpusOf entries [javaSource "base" template])
          [pairSimilarity p | p <- pairList (reportPairs report)] @?= [1]
          [submissionExcluded s > 20 | s <- V.toList (reportSubmissions report)] @?= [True, True],
      testCase "template code alone is nothing in common" $ do
        let entries = [newEntry "a" [javaSource "a" (template <> bubble)], newEntry "b" [javaSource "b" (template <> words_)]]
            similarities m c = sum [pairSimilarity p | p <- pairList (reportPairs (run m c))]
        forM_ modes $ \m -> do
          let with = similarities m (corpusOf entries [javaSource "base" template])
              without = similarities m (corpusOf entries [])
          assertBool (show (with, without)) (with < without / 2),
      testCase "what has only template code matches nothing" $ do
        forM_ modes $ \m -> do
          let r = run m (corpusOf [newEntry n [javaSource n template] | n <- ["a", "b"]] [javaSource "base" template])
          [pairSimilarity p | p <- pairList (reportPairs r)] @?= [0],
      testCase "the names view tells renamed copies apart" $ do
        let entries = [newEntry "a" [javaSource "a" bubble], newEntry "b" [javaSource "b" (mutate 1 [Rename] bubble)]]
            value view = let r = run seedConfig {configView = view} (corpusOf entries []) in [pairSimilarity p | p <- pairList (reportPairs r)]
        value Structure @?= [1]
        assertBool (show (value Names)) (all (< 0.9) (value Names)),
      testCase "a submission without code is left out by name" $ do
        let r = run defaultConfig (corpusOf [newEntry "a" [javaSource "d/a" "// nothing\n"], newEntry "b" [javaSource "b" bubble]] [])
        map leftOutPath (reportLeftOut r) @?= ["d/a"]
        V.length (reportSubmissions r) @?= 1
        pairCount (reportPairs r) @?= 0
    ]

run :: Config -> Corpus -> Report
run config corpus = assembled config prepared (comparePrepared map config prepared)
  where
    prepared = prepare map config corpus

modes :: [Config]
modes = [defaultConfig, seedConfig]

outputs :: Config -> ParallelMap -> Corpus -> (BL.ByteString, BL.ByteString)
outputs config parallel corpus = (text csv, text json)
  where
    text form = Builder.toLazyByteString (form report)
    prepared = prepare parallel config corpus
    report = assembled config prepared (comparePrepared parallel config prepared)

-- | A map that evaluates from the end.
backwards :: (a -> b) -> [a] -> [b]
backwards f xs = reverse (foldr (\x ys -> let y = f x in y `seq` (y : ys)) [] (reverse xs))

someCorpus :: Corpus
someCorpus = corpusOf [newEntry (name i j) [javaSource (name i j) (mutate i (someOperators i) p)] | (j, p) <- zip [1 :: Int ..] programs, i <- [1 .. 5]] []
  where
    name i j = BC.pack (show j <> "-" <> show i)

template :: B.ByteString
template =
  BC.unlines
    [ "interface Task { void run(java.util.List<String> lines) throws Exception; }",
      "class Loader { static String load(String path) { return path == null ? \"\" : path.trim(); } }"
    ]

newtype Sequences = Sequences [[Word32]]
  deriving (Show)

instance Arbitrary Sequences where
  arbitrary = Sequences <$> (choose (2, 7) >>= \n -> vectorOf n (concat <$> listOf (elements stock)))
    where
      stock = [[1 .. 6], [3 .. 9], [1, 1, 1], [9, 8, 7, 6], [1, 2], [20], []]
  shrink (Sequences s) = [Sequences s' | s' <- shrinkList (shrinkList (const [])) s, length s' >= 2]

pairsOf :: Double -> [[Word32]] -> [(Int, Int, Double)]
pairsOf threshold sequences = [(pairLeft p, pairRight p, pairSimilarity p) | p <- pairList ranked]
  where
    arrays = V.fromList (map codes sequences)
    lengths = VU.convert (V.map ownLength arrays)
    ranked = tiledTable threshold lengths (compareAll map 3 threshold Nothing arrays)

similarityOf :: [Word32] -> [Word32] -> Double
similarityOf a b = sum [s | (_, _, s) <- pairsOf 0 [a, b]]

symmetric :: Sequences -> Property
symmetric (Sequences s) = conjoin [similarityOf a b === similarityOf b a | (a, b) <- zip s (drop 1 s)]

bounded :: Sequences -> Property
bounded (Sequences s) =
  conjoin
    [ conjoin [counterexample (show x) (x >= 0 && x <= 1) | (_, _, x) <- pairsOf 0 s],
      conjoin [similarityOf a a === (if null a then 0 else 1) | a <- s],
      conjoin [similarityOf a (map (+ 100) a) === 0 | a <- s]
    ]

anyOrder :: Sequences -> Property
anyOrder (Sequences s) = forAll (shuffle [0 .. length s - 1]) $ \order ->
  named order (pairsOf 0 [s !! i | i <- order]) === named [0 ..] (pairsOf 0 s)
  where
    named :: [Int] -> [(Int, Int, Double)] -> [(Int, Int, Double)]
    named order found = sort [(min a b, max a b, x) | (l, r, x) <- found, let a = order !! l, let b = order !! r]

thresholded :: Sequences -> Property
thresholded (Sequences s) = forAll (choose (0, 1)) $ \t ->
  pairsOf t s === filter (\(_, _, x) -> x >= t) (pairsOf 0 s)
