-- | @maru similar@ as the user meets it: statuses, lines, streams, bad input.
module Main (main) where

import Control.Monad (forM_)
import Data.List (isInfixOf, isPrefixOf)
import Maru.Options (allBackends, backendName)
import System.Directory (createDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO.Temp (withSystemTempDirectory)
import System.Posix.Files (createNamedPipe, createSymbolicLink)
import System.Process (readProcessWithExitCode)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit

main :: IO ()
main =
  defaultMain $
    testGroup
      "maru similar"
      [ testGroup "usage is status 64 and one line" (map (uncurry usageCase) usages),
        testGroup "bad input is status 65 and one line" badInputs,
        testGroup "outputs" outputs,
        inFolder "what is left out is named on standard error" $ \dir -> do
          programs dir
          writeFile (dir </> "notes.txt") "x"
          createNamedPipe (dir </> "pipe.java") 0o600
          createSymbolicLink "." (dir </> "loop")
          (status, out, err) <- similar [dir]
          status @?= ExitSuccess
          assertBool out ("2 submissions" `isInfixOf` out)
          forM_ ["3 files or folders left out", "notes.txt: not a Java file", "pipe.java: a pipe", "loop"] $ \part ->
            assertBool err (part `isInfixOf` err),
        inFolder "what is odd about a submission is said, and it is compared" $ \dir -> do
          writeFile (dir </> "whole.java") (program "x")
          writeFile (dir </> "nul.java") ("// \0\n" ++ program "x")
          writeFile (dir </> "open.java") ("/* no end\n" ++ program "x")
          writeFile (dir </> "prose.java") "I have lost my program and I am sorry about it. Please let me hand it in later.\n"
          (status, out, err) <- similar ["--json", "-", dir]
          status @?= ExitSuccess
          forM_ ["shape of Java (prose, another language?); compared all the same: prose.java\n", "what follows it is compared as code: open.java\n", "control bytes; compared all the same: nul.java\n"] $ \part ->
            assertBool err (part `isInfixOf` err)
          forM_ ["\"left\":\"nul.java\",\"right\":\"whole.java\",\"similarity\":1.000000", "\"left\":\"open.java\",\"right\":\"whole.java\",\"similarity\":0.9", "\"name\":\"open.java\",\"files\":1,\"tokens\":38,\"excludedTokens\":0,\"errors\":1,\"unclosed\":1,\"notJava\":0,\"controlBytes\":0"] $ \part ->
            assertBool out (part `isInfixOf` out)
          assertBool out ("\"errors\":2,\"unclosed\":0,\"notJava\":1,\"controlBytes\":0" `isInfixOf` out),
        inFolder "all pairs of 600 submissions need the memory that is promised" $ \dir -> do
          createDirectory (dir </> "in")
          forM_ [1 .. submissions] $ \i -> writeFile (dir </> "in" </> (show i ++ ".java")) (concat (replicate (1 + i `mod` 3) (program "x")))
          forM_ ["--csv", "--json", "--html"] $ \form -> do
            kib <- peakKiB ["maru", "similar", "--backend", "sequential", form, dir </> "out", dir </> "in"]
            let most = (50 * submissions * (submissions - 1) `div` 2) `div` 1024 + 32 * 1024
            assertBool (form ++ ": " ++ show kib ++ " KiB, at most " ++ show most) (kib <= most),
        inFolder "every back end prints the same" $ \dir -> do
          programs dir
          expected <- similar ["--backend", "sequential", "--json", "-", dir]
          forM_ allBackends $ \b -> do
            got <- similar ["--backend", backendName b, "--workers", "2", "--json", "-", dir]
            got @?= expected
      ]

usages :: [(String, [String])]
usages =
  [ ("no workers", ["--workers", "0"]),
    ("less than no workers", ["--workers", "-1"]),
    ("a million workers", ["--workers", "1000000"]),
    ("an unknown back end", ["--backend", "nonesuch"]),
    ("an unknown language", ["--lang", "cobol"]),
    ("a threshold above 1", ["--threshold", "1.5"]),
    ("a threshold below 0", ["--threshold", "-0.1"]),
    ("matches of nothing", ["--min-match", "0"]),
    ("two outputs for one stream", ["--csv", "-", "--json", "-"])
  ]

usageCase :: String -> [String] -> TestTree
usageCase name flags = inFolder name $ \dir -> programs dir >> similar (flags ++ [dir]) >>= fails 64

badInputs :: [TestTree]
badInputs =
  [ inFolder "a path that is missing" $ \dir -> similar [dir </> "missing"] >>= fails 65,
    inFolder "a base that is missing" $ \dir -> programs dir >> similar ["--base", dir </> "missing", dir] >>= fails 65,
    inFolder "an empty folder" $ \dir -> similar [dir] >>= fails 65,
    inFolder "a pipe" $ \dir -> createNamedPipe (dir </> "pipe") 0o600 >> similar [dir </> "pipe"] >>= fails 65
  ]

-- | That status, nothing on standard output, one line on standard error.
fails :: Int -> (ExitCode, String, String) -> Assertion
fails expected (status, out, err) = do
  (status, out, length (lines err)) @?= (ExitFailure expected, "", 1)
  assertBool err ("maru" `isPrefixOf` err)

outputs :: [TestTree]
outputs =
  [ inFolder "CSV on standard output, and nothing else" $ \dir -> do
      programs dir
      similar ["--csv", "-", dir]
        >>= (@?= (ExitSuccess, "left,right,similarity,avg,max,matched,left_tokens,right_tokens\na.java,b.java,1.000000,1.000000,1.000000,35,35,35\n", "")),
    inFolder "CSV in a file, and the table" $ \dir -> do
      createDirectory (dir </> "in")
      programs (dir </> "in")
      (status, out, err) <- similar ["--csv", dir </> "out.csv", dir </> "in"]
      (status, err) @?= (ExitSuccess, "")
      out @?= "100 %  a.java  b.java  (35 of 35 tokens)\n\n2 submissions, 1 pair compared; 1 at 80 % or more.\n"
      rows <- lines <$> readFile (dir </> "out.csv")
      length rows @?= 2,
    inFolder "one submission: nothing to compare" $ \dir -> do
      writeFile (dir </> "a.java") (program "x")
      similar [dir] >>= (@?= (ExitSuccess, "Nothing to compare: one submission only.\n", "")),
    inFolder "an output that cannot be written is status 69" $ \dir -> do
      programs dir
      similar ["--csv", "/dev/full", dir] >>= fails 69
      similar ["--json", dir </> "no/such", dir] >>= fails 69
  ]

-- | Two programs that differ in names only.
programs :: FilePath -> IO ()
programs dir = writeFile (dir </> "a.java") (program "x") >> writeFile (dir </> "b.java") (program "other")

program :: String -> String
program name = "class A { int " <> name <> " = 1; int f(int n) { while (n > 0) { " <> name <> " += n; n--; } return " <> name <> "; } }\n"

inFolder :: String -> (FilePath -> Assertion) -> TestTree
inFolder name body = testCase name (withSystemTempDirectory "maru-similar" body)

submissions :: Int
submissions = 600

-- | The most memory that a command had at once, in KiB. It must succeed.
peakKiB :: [String] -> IO Int
peakKiB arguments = do
  (status, out, err) <- readProcessWithExitCode "python3" ("-c" : measure : arguments) ""
  (status, err) @?= (ExitSuccess, "")
  pure (read out)
  where
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, timeout=300, stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"

similar :: [String] -> IO (ExitCode, String, String)
similar arguments = readProcessWithExitCode "timeout" ("60" : "maru" : "similar" : arguments) ""
