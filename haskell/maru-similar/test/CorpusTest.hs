{-# LANGUAGE OverloadedStrings #-}

module CorpusTest (tests) where

import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Maybe (fromMaybe)
import Maru.Similar
import Snippets
import System.Directory
import System.FilePath ((</>))
import System.IO.Temp (withSystemTempDirectory)
import System.Posix.Files hiding (rename)
import qualified System.Posix.Files.ByteString as Raw
import System.Posix.User (getEffectiveUserID)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Corpus"
    [ corpusCase "a file and a folder are a submission each" $ \dir -> do
        write dir "b.java" bubble
        createDirectoryIfMissing True (dir </> "a/src/deep")
        write dir "a/src/deep/Z.java" account
        write dir "a/A.java" words_
        c <- expect dir
        map entryName (corpusEntries c) @?= ["a", "b.java"]
        map (map (below dir . sourcePath) . entrySources) (corpusEntries c)
          @?= [["a/A.java", "a/src/deep/Z.java"], ["b.java"]]
        corpusLeftOut c @?= [],
      corpusCase "whatever is left out is named, with the reason" $ \dir -> do
        write dir "ok.java" bubble
        write dir "empty.java" ""
        write dir "binary.java" "\x7f\&ELF\0\0"
        write dir "notes.txt" "x"
        write dir ".hidden" "x"
        createDirectory (dir </> "none")
        createDirectory (dir </> "mixed")
        write dir "mixed/A.java" account
        write dir "mixed/A.class" "\xca\xfe"
        createSymbolicLink "nowhere" (dir </> "broken.java")
        createNamedPipe (dir </> "pipe.java") 0o600
        c <- expect dir
        map entryName (corpusEntries c) @?= ["mixed", "ok.java"]
        [(below dir (leftOutPath l), leftOutReason l) | l <- corpusLeftOut c]
          @?= [ (".hidden", "hidden"),
                ("binary.java", "binary"),
                ("broken.java", "a broken symbolic link, or removed meanwhile"),
                ("empty.java", "empty"),
                ("mixed/A.class", "not a Java file"),
                ("none", "holds no Java source that can be read"),
                ("notes.txt", "not a Java file"),
                ("pipe.java", "a pipe, not a file")
              ],
      corpusCase "loops of symbolic links end" $ \dir -> do
        createDirectory (dir </> "a")
        write dir "a/A.java" bubble
        createSymbolicLink "." (dir </> "a/loop")
        createSymbolicLink ".." (dir </> "a/up")
        createSymbolicLink "self" (dir </> "self")
        createSymbolicLink "." (dir </> "all")
        c <- expect dir
        map entryName (corpusEntries c) @?= ["a"]
        length (concatMap entrySources (corpusEntries c)) @?= 1
        map (below dir . leftOutPath) (corpusLeftOut c) @?= ["a/loop", "a/up", "all", "self"],
      corpusCase "a folder that cannot be read is named" $ \dir -> do
        write dir "ok.java" bubble
        createDirectory (dir </> "locked")
        root <- (== 0) <$> getEffectiveUserID
        -- Nothing is closed to root; a folder named like a file must do.
        if root then createDirectory (dir </> "locked/X.java") else setFileMode (dir </> "locked") 0
        c <- expect dir
        setFileMode (dir </> "locked") 0o700
        map entryName (corpusEntries c) @?= ["ok.java"]
        map (below dir . leftOutPath) (corpusLeftOut c) @?= ["locked"],
      corpusCase "text that is not UTF-8, and UTF-16" $ \dir -> do
        write dir "latin.java" "class A { String s = \"\xe9\"; /* \xff */ }"
        write dir "utf16.java" ("\xff\xfe" <> B.concatMap (\w -> B.pack [w, 0]) account)
        write dir "utf8.java" account
        c <- expect dir
        corpusLeftOut c @?= []
        map (map sourceBytes . entrySources) (drop 1 (corpusEntries c)) @?= [[account], [account]],
      corpusCase "a long line without end" $ \dir -> do
        write dir "long.java" (B.concat (replicate 1000000 "{ x = (1; "))
        write dir "ok.java" bubble
        c <- expect dir
        let prepared = prepare map defaultConfig c
        assertBool "hardly any token" (all ((> 60) . submissionTokens) (preparedSubmissions prepared))
        length (comparePrepared map defaultConfig prepared) @?= 1,
      corpusCase "a path may be a single file; names say the path where they must" $ \dir -> do
        createDirectory (dir </> "x")
        createDirectory (dir </> "y")
        write dir "x/A.java" bubble
        write dir "y/A.java" account
        write dir "y/B.java" account
        write dir "C.txt" words_
        c <- right =<< readCorpus Java [] (map (raw dir) ["x", "y", "C.txt"])
        map (below dir . entryName) (corpusEntries c) @?= ["C.txt", "x/A.java", "y/A.java", "B.java"]
        auto <- right =<< readCorpus LanguageAuto [] (map (raw dir) ["x", "C.txt"])
        map (below dir . leftOutPath) (corpusLeftOut auto) @?= ["C.txt"],
      corpusCase "the base is no submission, a path given twice is one" $ \dir -> do
        createDirectory (dir </> "template")
        write dir "template/T.java" account
        write dir "a.java" bubble
        c <- right =<< readCorpus LanguageAuto [raw dir "template"] [BC.pack dir, BC.pack dir]
        map entryName (corpusEntries c) @?= ["a.java"]
        length (corpusBase c) @?= 1
        map (below dir . leftOutPath) (corpusLeftOut c) @?= ["a.java", "template", "template"],
      corpusCase "a path that is missing or no file" $ \dir -> do
        missing <- readCorpus LanguageAuto [] [raw dir "missing"]
        missing @?= Left (BadPath (raw dir "missing") "does not exist")
        createNamedPipe (dir </> "pipe") 0o600
        pipe <- readCorpus LanguageAuto [raw dir "pipe"] [BC.pack dir]
        pipe @?= Left (BadPath (raw dir "pipe") "a pipe, not a file"),
      corpusCase "names are bytes" $ \dir -> do
        createDirectory (dir </> "in")
        write dir "plain.java" bubble
        Raw.rename (raw dir "plain.java") (raw dir "in/caf" <> "\xe9.java")
        c <- right =<< readCorpus LanguageAuto [] [raw dir "in"]
        map entryName (corpusEntries c) @?= ["caf\xe9.java"]
    ]

-- | In a folder of its own, and in time: nothing may hang.
corpusCase :: String -> (FilePath -> IO ()) -> TestTree
corpusCase name body = testCase name $
  withSystemTempDirectory "maru-similar" $ \dir -> do
    done <- timeout 30000000 (body dir)
    done @?= Just ()

write :: FilePath -> FilePath -> B.ByteString -> IO ()
write dir name = B.writeFile (dir </> name)

raw :: FilePath -> FilePath -> B.ByteString
raw dir name = BC.pack (dir </> name)

below :: FilePath -> B.ByteString -> B.ByteString
below dir path = fromMaybe path (B.stripPrefix (BC.pack (dir <> "/")) path)

expect :: FilePath -> IO Corpus
expect dir = right =<< readCorpus LanguageAuto [] [BC.pack dir]

right :: Either BadPath Corpus -> IO Corpus
right = either (assertFailure . show) pure
