{-# LANGUAGE OverloadedStrings #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

-- | An index that is kept: the same as no index, however it was made; whole or refused.
module IndexTest (tests) where

import Control.Exception (evaluate, try)
import Control.Monad (forM, forM_, void)
import Data.Bits (xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.IORef
import Data.List (sort, sortOn)
import Foreign.C.Error (Errno (..), eBADMSG)
import Maru.Similar
import Maru.Similar.Anonymous (anonymous, shuffled)
import Maru.Similar.Archive
import Maru.Similar.Extend
import Maru.Similar.Mutate
import Maru.Similar.Output (csv, json)
import Maru.Similar.Store (checked, eOVERFLOW)
import Maru.Similar.Views (recipe)
import Snippets
import System.Directory
import System.FilePath (takeDirectory, (</>))
import System.IO.Temp (withSystemTempDirectory)
import Test.QuickCheck hiding (property)
import Test.QuickCheck.Monadic (assert, monadicIO, run)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit hiding (assert)

tests :: TestTree
tests =
  testGroup
    "Index"
    [ property "added in any parts, in any order: the same file" 25 anyParts,
      property "a query says what the same run without an index says" 40 sameAsDirect,
      testCase "a class of two hundred against a hundred: the same, too" largeClass,
      testCase "also under other names" hiddenNames,
      testCase "the programs of old submissions are there" programsKept,
      testCase "what is known is not added again; another one of the same name gets a number" knownOnes,
      testCase "one submission has one name however its path is typed; under another one it is said" typedOtherwise,
      testCase "the same bytes in other files, or at other paths, are something else" otherFiles,
      testCase "a later list of students renews the owners of known ones, and no list keeps them" renewedOwners,
      property "a changed file is refused, or says the same" 150 changedBytes,
      property "a file that is cut off is refused" 40 cutOff,
      testCase "what is no index is refused in words" foreignFiles,
      testCase "nothing is made, and nothing removed, in a folder of other things" othersFolders,
      testCase "what cannot be written is told from what cannot be read, in the system's words" notWritten,
      testCase "another minimum match length is right without templates, and refused with them" otherMinMatch,
      testCase "two cannot write at once; the first one's work stays" oneWriter,
      testCase "what a killed command left is no harm" leftovers,
      testCase "a user's files beside an index stay" usersFiles
    ]

-- | Entries by name, of programs that share much.
newtype Class = Class [Entry]
  deriving (Show)

instance Arbitrary Class where
  arbitrary = do
    n <- choose (1, 12)
    Class <$> forM [1 .. n :: Int] entry
    where
      entry i = do
        files <- choose (1, 2) >>= \k -> vectorOf k source
        owner <- frequency [(3, pure []), (1, elements [["ada"], ["bob"], ["ada", "bob"]])]
        role <- elements [New, Archive]
        pure (newEntry (BC.pack (show (100 + i))) files) {entryStudents = owner, entryRole = role}
      source = do
        parts <- choose (1, 3) >>= \k -> vectorOf k (elements programs)
        seed <- choose (0, 1000)
        pure (javaSource "a/B.java" (mutate seed (take (fromIntegral (seed `mod` 4)) (someOperators seed)) (B.concat parts)))
  shrink (Class es) = [Class es' | es' <- shrinkList (const []) es, not (null es')]

temporary :: (FilePath -> IO a) -> IO a
temporary = withSystemTempDirectory "maru-index-test"

indexOf :: FilePath -> [[Entry]] -> IO ()
indexOf folder = mapM_ (extend map defaultConfig (const (pure ())) (BC.pack folder) . (`corpusOf` []))

anyParts :: Class -> Property
anyParts (Class entries) = forAll (shuffle entries) $ \mixed -> forAll (choose (1, 4)) $ \size -> monadicIO $ do
  same <- run . temporary $ \dir -> do
    indexOf (dir </> "once") [entries]
    indexOf (dir </> "parts") (parts size mixed)
    (==) <$> B.readFile (dir </> "once" </> "archive") <*> B.readFile (dir </> "parts" </> "archive")
  assert same
  where
    parts n xs = case splitAt n xs of
      ([], _) -> []
      (some, rest) -> some : parts n rest

-- | CSV and the pairs of JSON.
said :: Config -> (Corpus -> Corpus) -> (Report -> Report) -> Corpus -> BL.ByteString
said config before after corpus = Builder.toLazyByteString (csv report <> json report)
  where
    prepared = prepare map config (before corpus)
    report = after (assembled config prepared (comparePrepared map config prepared))

-- | With the old ones given, and with them in an index.
bothWays :: Config -> (Corpus -> Corpus) -> (Report -> Report) -> [Entry] -> IO (BL.ByteString, BL.ByteString)
bothWays config before after entries = temporary $ \dir -> do
  indexOf dir [filter old entries]
  archive <- openArchive (recipe mempty) (BC.pack dir)
  let new = corpusOf (filter (not . old) entries) []
      direct = said config before after (corpusOf entries [])
      kept = said config before after new {corpusArchive = Just archive}
  _ <- evaluate (BL.length direct + BL.length kept)
  pure (direct, kept)
  where
    old = (== Archive) . entryRole

sameAsDirect :: Class -> Property
sameAsDirect (Class entries) = any ((== Archive) . entryRole) entries ==> forAll (elements [minBound ..]) $ \rank -> forAll (elements [0, 0.4]) $ \least ->
  monadicIO $ do
    (direct, kept) <- run (bothWays defaultConfig {configRank = rank, configThreshold = least} id id entries)
    assert (direct == kept)

-- | So many that grams are had by more than 64: rarities in steps, and a sample.
largeClass :: Assertion
largeClass = do
  (direct, kept) <- bothWays defaultConfig {configPairs = 900} id id entries
  assertBool "differ" (direct == kept)
  BC.count '\n' (BL.toStrict direct) > 900 @?= True
  where
    entries = [(newEntry (BC.pack (show n)) [javaSource "A.java" (mutate n (someOperators n) p)]) {entryRole = if even n then New else Archive} | (n, p) <- zip [1000 .. 1299] (cycle programs)]

hiddenNames :: Assertion
hiddenNames = do
  (direct, kept) <- bothWays defaultConfig shuffled anonymous [(newEntry (BC.pack (show n)) [javaSource "A.java" p]) {entryRole = r} | (n, p, r) <- zip3 [1 :: Int ..] programs (cycle [New, Archive, Archive])]
  assertBool "differ" (direct == kept)

programsKept :: Assertion
programsKept = temporary $ \dir -> do
  let entries = [newEntry (BC.pack (show n)) [javaSource "A.java" p, javaSource "B.java" bubble] | (n, p) <- zip [1 :: Int ..] programs]
  indexOf dir (map pure (reverse entries))
  archive <- openArchive (recipe mempty) (BC.pack dir)
  [archiveSources archive i | i <- [0 .. archiveCount archive - 1]] @?= map entrySources (sortOn entryName entries)
  let prepared = prepare map defaultConfig (corpusOf [newEntry "new" [javaSource "C.java" bubble]] []) {corpusArchive = Just archive}
  map (preparedSources prepared) [0, 1] @?= [[javaSource "C.java" bubble], entrySources (head' entries)]
  where
    head' es = case es of
      e : _ -> e
      [] -> newEntry "" []

knownOnes :: Assertion
knownOnes = temporary $ \dir -> do
  let add es = extend map defaultConfig (const (pure ())) (BC.pack dir) (corpusOf es [])
      one n p = newEntry n [javaSource "A.java" p]
  first <- add [one "a" bubble, one "b" account, one "c" "// nothing\n"]
  (extendedAll first, extendedAdded first, map leftOutPath (extendedLeftOut first)) @?= (2, 2, ["A.java"])
  second <- add [one "a" bubble, one "b" words_]
  (extendedAll second, extendedAdded second, extendedKnown second, extendedRenamed second) @?= (3, 1, 1, [("b", "b (2)")])
  third <- add [one "b" words_]
  (extendedAll third, extendedAdded third, extendedKnown third) @?= (3, 0, 1)

typedOtherwise :: Assertion
typedOtherwise = temporary $ \dir -> do
  createDirectory (dir </> "2023")
  B.writeFile (dir </> "2023" </> "ada.java") bubble
  createDirectory (dir </> "link")
  let add path = do
        read' <- readCollection (collectionOf [BC.pack path]) {collectionLongNames = True}
        extend map defaultConfig (const (pure ())) (BC.pack (dir </> "index")) (either (error . show) id read')
  first <- add (dir </> "2023")
  (extendedAll first, extendedTwins first) @?= (1, [])
  forM_ ["2023/", "2023//", "./2023", ".//2023/.", "./2023/ada.java", "2023//ada.java"] $ \path -> do
    more <- add (dir <> "/" <> path)
    (path, extendedAll more, extendedKnown more, extendedTwins more) @?= (path, 1, 1, [])
  other <- add (dir </> "link/../2023")
  (extendedAll other, extendedTwins other) @?= (2, [(BC.pack (dir </> "link/../2023/ada.java"), BC.pack (dir </> "2023/ada.java"))])

otherFiles :: Assertion
otherFiles = temporary $ \dir -> do
  let add files = extend map defaultConfig (const (pure ())) (BC.pack dir) (corpusOf [newEntry "a" files] [])
      (left, right) = B.splitAt 20 (bubble <> bubble)
  made <- mapM add [[javaSource "A.java" left, javaSource "B.java" right], [javaSource "A.java" (left <> B.take 9 right), javaSource "B.java" (B.drop 9 right)], [javaSource "A.java" left, javaSource "C.java" right]]
  map extendedAll made @?= [1, 2, 3]

renewedOwners :: Assertion
renewedOwners = temporary $ \dir -> do
  let add owners = extend map defaultConfig (const (pure ())) (BC.pack dir) (corpusOf [e {entryStudents = owners} | e <- small] [])
      kept = do
        archive <- openArchive (recipe mempty) (BC.pack dir)
        pure (archiveOwned archive, [submissionStudents (archiveSubmission archive i) | i <- [0 .. archiveCount archive - 1]])
      expect owned who renewed = do
        made <- add who
        (extendedKnown made, extendedOwners made) @?= (if null who && not owned then 0 else 3, renewed)
        kept >>= (@?= (owned, replicate 3 (if null who && owned then ["bob"] else who)))
  expect False [] 0
  expect True ["ada"] 3
  expect True ["bob"] 3
  expect True ["bob"] 0
  expect True [] 0

small :: [Entry]
small = [newEntry (BC.pack (show n)) [javaSource "A.java" p] | (n, p) <- zip [1 :: Int ..] (take 3 programs)]

-- | What a query says, or that it was refused; nothing else is thrown.
query :: FilePath -> IO (Either BadPath BL.ByteString)
query dir = try $ do
  archive <- openArchive (recipe mempty) (BC.pack dir)
  let out = said defaultConfig id id (corpusOf [newEntry "new" [javaSource "N.java" bubble]] []) {corpusArchive = Just archive}
  out <$ evaluate (fromIntegral (BL.length out) + sum [B.length (sourceBytes s) | i <- [0 .. archiveCount archive - 1], s <- archiveSources archive i])

damagedBy :: (ByteString -> ByteString) -> IO (Either BadPath BL.ByteString, Either BadPath BL.ByteString)
damagedBy change = temporary $ \dir -> do
  indexOf dir [small]
  before <- query dir
  bytes <- B.readFile (dir </> "archive")
  B.writeFile (dir </> "archive") (change bytes)
  (,) before <$> query dir

changedBytes :: Property
changedBytes = forAll ((,) <$> choose (0, 1 :: Double) <*> choose (1, 255)) $ \(at, flipped) -> monadicIO $ do
  (before, after) <- run . damagedBy $ \bytes ->
    let (a, b) = B.splitAt (floor (at * fromIntegral (B.length bytes - 1))) bytes in a <> B.map (xor flipped) (B.take 1 b) <> B.drop 1 b
  assert (either (const True) (\said' -> Right said' == before) after)

cutOff :: Property
cutOff = forAll (choose (0, 1 :: Double)) $ \at -> monadicIO $ do
  (_, after) <- run (damagedBy (\bytes -> B.take (floor (at * fromIntegral (B.length bytes - 1))) bytes))
  assert (either (const True) (const False) after)

foreignFiles :: Assertion
foreignFiles = temporary $ \dir -> do
  let why = either (\(BadPath _ w) -> w) (const "none") <$> query dir
      says part w = assertBool (show w) (part `B.isInfixOf` w)
  why >>= says "holds no index"
  B.writeFile (dir </> "archive") (B.replicate 8192 65)
  why >>= says "is no index of maru similar"
  removeFile (dir </> "archive")
  B.writeFile (dir </> "lock") ""
  indexOf dir [small]
  bytes <- B.readFile (dir </> "archive")
  -- The version.
  B.writeFile (dir </> "archive") (B.take 12 bytes <> "\x63" <> B.drop 13 bytes)
  why >>= says "another version"
  -- An index is never put beside other things.
  other <- try (extend map defaultConfig (const (pure ())) (BC.pack (dir </> "..")) (corpusOf small []))
  either (\(BadPath _ w) -> says "folder of other things" w) (const (assertFailure "took a folder of other things")) (void other)

otherMinMatch :: Assertion
otherMinMatch = temporary $ \dir -> do
  let add m base es = extend map defaultConfig {configMinMatch = m} (const (pure ())) (BC.pack dir) (corpusOf es base)
      handout = [javaSource "H.java" account]
      config = defaultConfig {configMinMatch = 20}
      new = corpusOf [newEntry "new" [javaSource "N.java" bubble]] []
      refuses act = try act >>= either (\(BadPath _ w) -> assertBool (show w) ("give --min-match 9" `B.isInfixOf` w)) (const (assertFailure "took another length"))
  _ <- add 5 [] (take 2 small)
  plain <- openArchive (recipe mempty) (BC.pack dir)
  said config id id new {corpusArchive = Just plain} @?= said config id id (corpusOf (corpusEntries new ++ [e {entryRole = Archive} | e <- take 2 small]) [])
  fitting 20 handout plain
  made <- add 9 handout small
  extendedAll made @?= 3
  refuses (add 5 handout small)
  _ <- add 5 [] (take 1 small)
  taken <- openArchive (recipe mempty) (BC.pack dir)
  archiveMinMatch taken @?= 9
  fitting 9 handout taken
  fitting 5 [] taken
  refuses (fitting 5 handout taken)

othersFolders :: Assertion
othersFolders = forM_ [[("archive/x.java", bubble), ("batch", "mine")], [("archive", "my notes"), ("archive.new", "mine")], [("lock", ""), ("batch", "mine")], [(".maru-index-new", "mine")]] $ \files -> temporary $ \dir -> do
  createDirectory (dir </> "course")
  forM_ files $ \(path, bytes) -> do
    createDirectoryIfMissing True (takeDirectory (dir </> "course" </> path))
    B.writeFile (dir </> "course" </> path) bytes
  before <- listDirectory (dir </> "course")
  refused <- try (indexOf (dir </> "course") [small])
  either (\(BadPath _ w) -> assertBool (show w) ("folder of other things" `B.isInfixOf` w)) (const (assertFailure ("took " <> show before))) refused
  left <- listDirectory (dir </> "course")
  sort left @?= sort before
  forM_ files $ \(path, bytes) -> B.readFile (dir </> "course" </> path) >>= (@?= bytes)

notWritten :: Assertion
notWritten = temporary $ \dir -> do
  B.writeFile (dir </> "file") ""
  refused <- try (indexOf (dir </> "file" </> "index") [small])
  refused @?= Left (CannotWrite (BC.pack (dir </> "file" </> "index")) "the index cannot be written: Not a directory")
  full <- try (writingArchive "index" (checked (negate (let Errno e = eOVERFLOW in e))))
  full @?= Left (CannotWrite "index" "the index would be larger than one can be: make a second one for some of the submissions")
  torn <- try (writingArchive "index" (checked (negate (let Errno e = eBADMSG in e))))
  either (\(BadPath _ w) -> assertBool (show w) ("torn" `B.isInfixOf` w)) (const (assertFailure "took it")) torn

oneWriter :: Assertion
oneWriter = temporary $ \dir -> do
  indexOf dir [take 1 small]
  before <- B.readFile (dir </> "archive")
  -- Another command comes while this one works.
  met <- newIORef []
  _ <- extend map defaultConfig (\_ -> try (indexOf dir [small]) >>= \r -> modifyIORef met (r :)) (BC.pack dir) (corpusOf (take 1 small) [])
  refused <- readIORef met
  assertBool "none came" (not (null refused))
  forM_ refused $ either (\(BadPath _ w) -> assertBool (show w) ("another command" `B.isInfixOf` w)) (const (assertFailure "two wrote"))
  B.readFile (dir </> "archive") >>= (@?= before)

leftovers :: Assertion
leftovers = temporary $ \dir -> do
  indexOf (dir </> "once") [small]
  whole <- B.readFile (dir </> "once" </> "archive")
  forM_ ["maru: an unfinished index\n\0\0half", whole] $ \left -> do
    let folder = dir </> "index"
    indexOf folder [take 1 small]
    B.writeFile (folder </> ".maru-index-new") left
    indexOf folder [small]
    names <- listDirectory folder
    sort names @?= ["archive", "lock"]
    same <- (== whole) <$> B.readFile (folder </> "archive")
    assertBool "another file" same
    removeDirectoryRecursive folder

usersFiles :: Assertion
usersFiles = temporary $ \dir -> do
  let mine name = B.readFile (dir </> name) >>= (@?= "mine")
      harmless = ["batch", "archive.new"]
  indexOf dir [take 1 small]
  forM_ harmless $ \name -> B.writeFile (dir </> name) "mine"
  indexOf dir [take 2 small]
  before <- B.readFile (dir </> "archive")
  B.writeFile (dir </> ".maru-index-new") "mine"
  refused <- try (indexOf dir [small])
  either (\(BadPath _ w) -> assertBool (show w) ("no file of maru's" `B.isInfixOf` w)) (const (assertFailure "took its place")) refused
  mapM_ mine (".maru-index-new" : harmless)
  B.writeFile (dir </> ".maru-index-new") ""
  empty <- try (indexOf dir [small])
  either (\(BadPath _ w) -> assertBool (show w) ("is empty" `B.isInfixOf` w)) (const (assertFailure "removed it")) empty
  B.readFile (dir </> ".maru-index-new") >>= (@?= "")
  B.readFile (dir </> "archive") >>= (@?= before)
