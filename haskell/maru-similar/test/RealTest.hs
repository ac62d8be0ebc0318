{-# LANGUAGE OverloadedStrings #-}

-- | On whole collections, where they are at hand: our own in @examples/corpus@ of
-- the checkout; real student programs in @MARU_JAVA_CORPUS@, or in
-- @shared/data/java-corpus@ beside the checkout.
module RealTest (tests) where

import Control.Monad (filterM)
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.List (isPrefixOf, partition, sort)
import qualified Data.Map.Strict as Map
import Data.Maybe (listToMaybe)
import qualified Data.Vector as V
import Maru.Similar
import Maru.Similar.Mutate
import Maru.Similar.Output (csv)
import System.CPUTime (getCPUTime)
import System.Directory
import System.Environment (lookupEnv)
import System.FilePath (takeDirectory, (</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Text.Printf (printf)

tests :: IO TestTree
tests = do
  given <- lookupEnv "MARU_JAVA_CORPUS"
  real <- maybe (findAbove "shared/data/java-corpus") (pure . Just) given
  own <- findAbove "examples/corpus"
  pure $
    testGroup
      "collections"
      [ collection "our own corpus (examples/corpus)" own $ \dir ->
          [testCaseInfo ("every copy is above every pair of independent works" <> name) (ownCorpus config dir) | (name, config) <- modes],
        collection "the real Java corpus (set MARU_JAVA_CORPUS)" real $ \dir ->
          concat
            [ [ testCaseInfo ("homework-108: copies rank above other tasks" <> name) (homework config dir),
                testCaseInfo ("projects: the clone is found, folders are submissions" <> name) (projects config dir),
                testCaseInfo ("1000 copies: every pair" <> name) (thousand config dir)
              ]
              | (name, config) <- modes
            ]
      ]

modes :: [(String, Config)]
modes = [(", scored", defaultConfig), (", tiled", seedConfig)]

collection :: String -> Maybe FilePath -> (FilePath -> [TestTree]) -> TestTree
collection name found these = case found of
  Nothing -> testCase ("SKIPPED: " <> name <> " is not at hand") (pure ())
  Just dir -> testGroup name (these dir)

-- | In the working directory, or beside one of those that it is in.
findAbove :: FilePath -> IO (Maybe FilePath)
findAbove path = do
  here <- getCurrentDirectory
  present <- filterM doesDirectoryExist [d </> path | d <- takeWhile (/= "/") (iterate takeDirectory here)]
  pure (listToMaybe present)

-- | The copies' labels lie beside the folder.
ownCorpus :: Config -> FilePath -> IO String
ownCorpus config dir = do
  report <- analyse config <$> load dir
  V.length (reportSubmissions report) @?= 40
  reportLeftOut report @?= []
  rows <- drop 1 . BC.lines <$> BC.readFile (takeDirectory dir </> "corpus-labels.csv")
  let labelled = [(copy, BC.drop (BC.length "corpus/") source) | copy : source : _ <- map (BC.split ',') rows]
      name i = submissionName (reportSubmissions report V.! i)
      scored = [(name (pairLeft p), name (pairRight p), pairSimilarity p) | p <- pairList (reportPairs report)]
      (copies, others) = partition (\(a, b, _) -> (a, b) `elem` labelled || (b, a) `elem` labelled) scored
      lowest = minimum [s | (_, _, s) <- copies]
      highest = maximum [s | (_, _, s) <- others]
  length copies @?= 20
  assertBool (printf "lowest copy %.3f, highest other %.3f" lowest highest) (lowest > highest + (if configMode config == Seed then 0.1 else 0))
  pure (printf "lowest copy %.3f, highest other %.3f" lowest highest)

analyse :: Config -> Corpus -> Report
analyse config corpus = assembled config prepared (comparePrepared map config prepared)
  where
    prepared = prepare map config corpus

load :: FilePath -> IO Corpus
load dir = readCorpus Nothing [] [BC.pack dir] >>= either (assertFailure . show) pure

-- | With the seconds of processor time it took.
timed :: IO a -> IO (a, Double)
timed act = do
  before <- getCPUTime
  result <- act
  after <- getCPUTime
  pure (result, fromIntegral (after - before) / 1e12)

homework :: Config -> FilePath -> IO String
homework config dir = do
  (report, seconds) <- timed $ do
    r <- analyse config <$> load (dir </> "homework-108")
    r <$ (pairCount (reportPairs r) @?= 5778)
  V.length (reportSubmissions report) @?= 108
  reportLeftOut report @?= []
  [submissionName s | s <- V.toList (reportSubmissions report), submissionErrors s > 0] @?= []
  labels <- readLabels (dir </> "homework-108.labels.csv")
  let scored = [(label (pairLeft p), label (pairRight p), pairSimilarity p) | p <- pairList (reportPairs report)]
      label i = Map.findWithDefault ("", "", "") (submissionName (reportSubmissions report V.! i)) labels
      otherTasks = [s | ((case1, _, _), (case2, _, _), s) <- scored, case1 /= case2]
      copies levels = [s | (a, b, s) <- scored, isCopy levels a b || isCopy levels b a]
      isCopy levels (case1, kind, _) (case2, _, level) = case1 == case2 && kind == "original" && level `elem` levels
      independent = [s | (a, b, s) <- scored, isIndependent a b || isIndependent b a]
      isIndependent (case1, kind1, _) (case2, kind2, _) = case1 == case2 && kind1 == "original" && kind2 == "non-plagiarized"
      near = copies ["L1", "L2", "L3"]
      far = copies ["L4", "L5", "L6"]
  (length otherTasks, length near, length far, length independent) @?= (54 * 54, 40, 36, 30)
  let nearArea = area near otherTasks
      farArea = area far otherTasks
      inTask = area near independent
  assertBool (printf "copies L1-L3 against other tasks: AUC %.3f" nearArea) (nearArea >= 0.99)
  assertBool (printf "copies L4-L6 against other tasks: AUC %.3f" farArea) (farArea >= 0.9)
  assertBool (printf "copies L1-L3 against independent work on the task: AUC %.3f" inTask) (inTask >= 0.8)
  pure (printf "AUC of L1-L3 %.4f, of L4-L6 %.4f against other tasks; of L1-L3 %.4f against independent work; %.3f s" nearArea farArea inTask seconds)

-- | Case, kind and level by file.
readLabels :: FilePath -> IO (Map.Map BC.ByteString (BC.ByteString, BC.ByteString, BC.ByteString))
readLabels path = Map.fromList . map (fields . BC.split ',') . drop 1 . BC.lines <$> BC.readFile path
  where
    fields row = case row of
      file : task : kind : level : _ -> (file, (task, kind, level))
      _ -> ("", ("", "", ""))

-- | Area under the ROC curve: how often a positive is above a negative.
area :: [Double] -> [Double] -> Double
area positives negatives = sum [wins p n | p <- positives, n <- negatives] / fromIntegral (length positives * length negatives)
  where
    wins p n = case compare p n of
      GT -> 1
      EQ -> 0.5
      LT -> 0

projects :: Config -> FilePath -> IO String
projects config dir = do
  report <- analyse config <$> load (dir </> "projects")
  V.length (reportSubmissions report) @?= 10
  assertBool "one file each" (all ((> 5) . length . submissionPaths) (reportSubmissions report))
  let name i = submissionName (reportSubmissions report V.! i)
      ranked = [(name (pairLeft p), name (pairRight p), pairSimilarity p) | p <- pairList (reportPairs report)]
  take 1 ranked @?= [("4-clone", "4-src", 1)]
  let lowest = minimum [s | (a, b, s) <- ranked, "4-src" `elem` [a, b]]
  assertBool (show lowest) (lowest > if configMode config == Seed then 0.4 else 0.15)
  pure (printf "least similarity of an obfuscated copy with its source %.3f" lowest)

thousand :: Config -> FilePath -> IO String
thousand config dir = do
  names <- sort . filter (not . ("." `isPrefixOf`)) <$> listDirectory (dir </> "homework-108")
  sources <- mapM (BC.readFile . ((dir </> "homework-108") </>)) names
  let entries = [newEntry (BC.pack (printf "%04d" n)) [javaSource "" (mutate n (someOperators n) s)] | (n, s) <- zip [1 .. 1000] (cycle sources)]
      corpus = corpusOf entries []
  assertBool "empty" (sum [BC.length (sourceBytes s) | e <- entries, s <- entrySources e] > 100000)
  (report, seconds) <- timed $ do
    let r = analyse config corpus
    r <$ (pairCount (reportPairs r) @?= 499500)
  (size, writing) <- timed (pure $! BL.length (Builder.toLazyByteString (csv report)))
  -- A bound for a loaded machine; what is expected is in the documentation.
  assertBool (printf "%.2f s" seconds) (seconds < 15)
  pure (printf "499500 pairs in %.2f s of processor time; %d bytes of CSV in %.2f s" seconds size writing)
