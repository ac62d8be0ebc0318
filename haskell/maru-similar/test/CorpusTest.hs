{-# LANGUAGE OverloadedStrings #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

module CorpusTest (tests) where

import Control.Monad (forM_)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.List (sort)
import Data.Maybe (fromMaybe)
import qualified Data.Vector as V
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
                ("mixed/A.class", "not a source file"),
                ("none", "holds no source file that can be read"),
                ("notes.txt", "not a source file"),
                ("pipe.java", "a pipe, not a file")
              ],
      corpusCase "a path within another is read once, whichever comes first" $ \dir -> do
        createDirectoryIfMissing True (dir </> "a/src")
        write dir "a/src/A.java" account
        write dir "b.java" bubble
        forM_ [("", "a", ["a", "b.java"]), ("a", "", ["b.java", "src"]), ("", "a/src", ["a", "b.java"]), ("a/src", "", ["A.java", "b.java"])] $ \(one, other, names) -> do
          c <- right =<< readCorpus Nothing [] (map (BC.pack . (dir </>)) [one, other])
          map entryName (corpusEntries c) @?= names
          [leftOutReason l | l <- corpusLeftOut c, leftOutReason l /= "holds no source file that can be read"] @?= ["already read, or part of the base"],
      corpusCase "a file within another path is read once, whichever comes first" $ \dir -> do
        createDirectoryIfMissing True (dir </> "a/src")
        write dir "a/A.java" words_
        write dir "a/src/A.java" account
        write dir "b.java" bubble
        createDirectory (dir </> "links")
        createSymbolicLink "../a/src/A.java" (dir </> "links/L.java")
        let within = ["a", "b.java"]
            alone name = [name, "a", "b.java"]
        forM_ [("", "b.java", within), ("b.java", "", ["b.java", "a"]), ("", "a/src/A.java", within), ("a/src/A.java", "", alone "a/src/A.java"), ("links/L.java", "", alone "links/L.java"), ("", "links/L.java", within)] $ \(one, other, names) -> do
          c <- right =<< readCorpus Nothing [] (map (BC.pack . (dir </>)) [one, other])
          sort (map (below dir . entryName) (corpusEntries c)) @?= sort names
          sort [sourceBytes s | e <- corpusEntries c, s <- entrySources e] @?= sort [account, bubble, words_]
          filter (== "already read, or part of the base") (map leftOutReason (corpusLeftOut c)) @?= ["already read, or part of the base"],
      corpusCase "submissions that share a file by a hard link are copies" $ \dir -> do
        createDirectory (dir </> "c")
        write dir "a.java" bubble
        createLink (dir </> "a.java") (dir </> "b.java")
        createLink (dir </> "a.java") (dir </> "c/C.java")
        forM_ [[""], ["b.java", ""], ["a.java", "b.java", "c"]] $ \paths -> do
          c <- right =<< readCorpus Nothing [] (map (BC.pack . (dir </>)) paths)
          map sourceBytes (concatMap entrySources (corpusEntries c)) @?= [bubble, bubble, bubble],
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
        [(below dir (leftOutPath l), leftOutReason l) | l <- corpusLeftOut c]
          @?= [ ("a/loop", "reached before by another way (a link)"),
                ("a/up", "a symbolic link out of the submission; not followed"),
                ("all", "a symbolic link out of the submission; not followed"),
                ("self", "cannot be read: Too many levels of symbolic links")
              ],
      corpusCase "a link that leads out of its submission is not followed" $ \dir -> do
        mapM_ (createDirectory . (dir </>)) ["in", "in/mallory", "in/mallory/src", "in/victim", "elsewhere"]
        write dir "elsewhere/E.java" words_
        write dir "in/victim/V.java" account
        write dir "in/single.java" words_
        write dir "in/mallory/src/M.java" bubble
        -- To a fellow's file and folder, to elsewhere by both kinds of path, to what begins like
        -- its own name.
        createDirectory (dir </> "in/mallory2")
        write dir "in/mallory2/N.java" account
        createSymbolicLink "../victim/V.java" (dir </> "in/mallory/A.java")
        createSymbolicLink "../victim" (dir </> "in/mallory/b")
        createSymbolicLink (dir </> "elsewhere/E.java") (dir </> "in/mallory/C.java")
        createSymbolicLink "/etc" (dir </> "in/mallory/d")
        createSymbolicLink "../mallory2/N.java" (dir </> "in/mallory/E.java")
        -- By way of a link that stays inside.
        createSymbolicLink "src" (dir </> "in/mallory/f")
        createSymbolicLink "../../victim/V.java" (dir </> "in/mallory/src/O.java")
        -- A submission that is another's, first in the order: the other must not lose its place to
        -- it.
        createSymbolicLink "victim" (dir </> "in/aaa")
        createSymbolicLink "single.java" (dir </> "in/aab.java")
        c <- right =<< readCorpus Nothing [] [raw dir "in"]
        [(entryName e, map (below dir . sourcePath) (entrySources e)) | e <- corpusEntries c]
          @?= [ ("mallory", ["in/mallory/f/M.java"]),
                ("mallory2", ["in/mallory2/N.java"]),
                ("single.java", ["in/single.java"]),
                ("victim", ["in/victim/V.java"])
              ]
        [(below dir (leftOutPath l), leftOutReason l) | l <- corpusLeftOut c]
          @?= [(p, "a symbolic link out of the submission; not followed") | p <- ["in/aaa", "in/aab.java", "in/mallory/A.java", "in/mallory/C.java", "in/mallory/E.java", "in/mallory/b", "in/mallory/d", "in/mallory/f/O.java"]]
            ++ [("in/mallory/src", "reached before by another way (a link)")],
      corpusCase "a given path may be a link itself" $ \dir -> do
        createDirectory (dir </> "this-year")
        write dir "this-year/a.java" bubble
        createSymbolicLink "this-year" (dir </> "current")
        createSymbolicLink "this-year/a.java" (dir </> "one.java")
        c <- right =<< readCorpus Nothing [] [raw dir "current"]
        map entryName (corpusEntries c) @?= ["a.java"]
        one <- right =<< readCorpus Nothing [] [raw dir "one.java"]
        map (below dir . entryName) (corpusEntries one) @?= ["one.java"],
      corpusCase "control bytes in comments and literals take no program out" $ \dir -> do
        write dir "nul.java" ("// \0\n" <> bubble)
        write dir "many.java" ("/* " <> B.replicate 100000 0 <> " */" <> bubble)
        write dir "literal.java" ("class S { String s = \"\1\2\0\"; }" <> bubble)
        write dir "elf.java" ("\x7f\&ELF\2\1\1" <> B.pack (concat (replicate 200 [0, 1, 200, 0, 3, 59, 0, 123])))
        write dir "plain.java" bubble
        c <- expect dir
        map entryName (corpusEntries c) @?= ["literal.java", "many.java", "nul.java", "plain.java"]
        [(below dir (leftOutPath l), leftOutReason l) | l <- corpusLeftOut c] @?= [("elf.java", "binary")]
        map submissionControls (V.toList (preparedSubmissions (prepare map defaultConfig c))) @?= [3, 100000, 1, 0],
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
        write dir "long.java" (B.concat (replicate 200000 "{ x = (1; "))
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
        c <- right =<< readCorpus (Just Java) [] (map (raw dir) ["x", "y", "C.txt"])
        map (below dir . entryName) (corpusEntries c) @?= ["C.txt", "x/A.java", "y/A.java", "B.java"]
        auto <- right =<< readCorpus Nothing [] (map (raw dir) ["x", "C.txt"])
        map (below dir . leftOutPath) (corpusLeftOut auto) @?= ["C.txt"],
      corpusCase "the base is no submission, a path given twice is one" $ \dir -> do
        createDirectory (dir </> "template")
        write dir "template/T.java" account
        write dir "a.java" bubble
        c <- right =<< readCorpus Nothing [raw dir "template"] [BC.pack dir, BC.pack dir]
        map entryName (corpusEntries c) @?= ["a.java"]
        length (corpusBase c) @?= 1
        map (below dir . leftOutPath) (corpusLeftOut c) @?= [BC.pack dir, "template"],
      corpusCase "a path that is missing or no file" $ \dir -> do
        missing <- readCorpus Nothing [] [raw dir "missing"]
        missing @?= Left (BadPath (raw dir "missing") "does not exist")
        createNamedPipe (dir </> "pipe") 0o600
        pipe <- readCorpus Nothing [raw dir "pipe"] [BC.pack dir]
        pipe @?= Left (BadPath (raw dir "pipe") "a pipe, not a file"),
      corpusCase "names are bytes" $ \dir -> do
        createDirectory (dir </> "in")
        write dir "plain.java" bubble
        Raw.rename (raw dir "plain.java") (raw dir "in/caf" <> "\xe9.java")
        c <- right =<< readCorpus Nothing [] [raw dir "in"]
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
expect dir = right =<< readCorpus Nothing [] [BC.pack dir]

right :: Either BadPath Corpus -> IO Corpus
right = either (assertFailure . show) pure
