-- | @maru similar@ as the user meets it: statuses, lines, streams, bad input.
module Main (main) where

import Control.Monad (forM_)
import Data.List (intercalate, isInfixOf, isPrefixOf, sort)
import Maru.Options (allBackends, backendName)
import System.Directory (createDirectory, createDirectoryIfMissing, renameFile)
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO.Temp (withSystemTempDirectory)
import System.Posix.Files (createNamedPipe, createSymbolicLink)
import System.Process (CreateProcess (cwd), callProcess, proc, readCreateProcessWithExitCode, readProcessWithExitCode)
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
          forM_ ["3 files or folders left out", "notes.txt: not a source file", "pipe.java: a pipe", "loop"] $ \part ->
            assertBool err (part `isInfixOf` err),
        inFolder "without a grammar, standard error and the JSON say so" $ \dir -> do
          programs dir
          (status, out, err) <- readProcessWithExitCode "timeout" ["60", "env", "MARU_PREFIX=/nonexistent", "maru", "similar", "--json", "-", dir] ""
          status @?= ExitSuccess
          length (filter ("no grammar of Java" `isInfixOf`) (lines err)) @?= 1
          forM_ ["\"grammars\":{\"java\":null}", "\"parsed\":\"by tokens\""] $ \part -> assertBool out (part `isInfixOf` out),
        inFolder "a plug-in of a language that is not at hand is not opened" $ \dir -> do
          let plugins = dir </> "prefix/lib/maru/grammars"
          createDirectory (dir </> "in")
          createDirectoryIfMissing True plugins
          programs (dir </> "in")
          writeFile (dir </> "die.c") "#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }\n"
          callProcess "cc" ["-shared", "-fPIC", "-o", plugins </> "rust.so", dir </> "die.c"]
          callProcess "sh" ["-c", "printf 'maru-md5:%s' \"$(md5sum <\"$1\" | cut -c 1-32)\" >>\"$1\"", "sh", plugins </> "rust.so"]
          (status, _, _) <- readProcessWithExitCode "timeout" ["60", "env", "MARU_PREFIX=" ++ dir </> "prefix", "maru", "similar", dir </> "in"] ""
          status @?= ExitSuccess
          writeFile (dir </> "in/x.rs") "fn f() { g(); }\n"
          (opened, _, _) <- readProcessWithExitCode "timeout" ["60", "env", "MARU_PREFIX=" ++ dir </> "prefix", "maru", "similar", dir </> "in"] ""
          assertBool "the plug-in kills its user" (opened /= ExitSuccess),
        inFolder "a damaged plug-in is one line, and the lexer goes on: query, index, doctor" $ \dir -> do
          let plugins = dir </> "prefix/lib/maru/grammars"
              maru arguments = readProcessWithExitCode "timeout" (["60", "env", "MARU_PREFIX=" ++ dir </> "prefix", "maru"] ++ arguments) ""
          createDirectory (dir </> "in")
          createDirectoryIfMissing True plugins
          programs (dir </> "in")
          writeFile (dir </> "die.c") "#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }\n"
          callProcess "cc" ["-shared", "-fPIC", "-o", plugins </> "java.so", dir </> "die.c"]
          appendFile (plugins </> "java.so") ("maru-md5:" ++ replicate 32 '0')
          forM_ [[dir </> "in"], ["index", dir </> "years", dir </> "in"], ["--index", dir </> "years", dir </> "in"]] $ \arguments -> do
            (status, _, err) <- maru ("similar" : arguments)
            status @?= ExitSuccess
            assertBool err (length (filter ("damaged: it does not fit its checksum" `isInfixOf`) (lines err)) == 1 && "no grammar of Java" `isInfixOf` err)
          (_, said, _) <- maru ["doctor"]
          assertBool said ("damaged: it does not fit its checksum" `isInfixOf` said),
        inFolder "a language is told by a file's name, or asked for; only those of a family are compared" $ \dir -> do
          programs dir
          let lines' = concat ["def f(a, b):\n    while a < b:\n        a = a + " ++ show n ++ "\n    return a\n\n" | n <- [1 :: Int .. 9]]
          forM_ ["ada.py", "bob.py"] $ \name -> writeFile (dir </> name) lines'
          writeFile (dir </> "notes") lines'
          (status, out, err) <- similar ["--json", "-", dir]
          status @?= ExitSuccess
          forM_ ["\"language\":\"auto\"", "\"compared\":2,\n\"apart\":4,", "\"left\":\"ada.py\",\"right\":\"bob.py\",\"similarity\":1.000000", "\"languages\":[\"python\"]", "\"python\":"] $ \part -> assertBool out (part `isInfixOf` out)
          forM_ ["several languages: only submissions of one are compared with each other (Java 2, Python 2)", "notes: not a source file"] $ \part -> assertBool err (part `isInfixOf` err)
          (_, alone, _) <- similar ["--language", "python", "--json", "-", dir]
          assertBool alone ("\"compared\":1,\n\"apart\":0," `isInfixOf` alone && "\"reason\":\"not a Python file\"" `isInfixOf` alone)
          (_, text, _) <- similar ["--lang", "text", "--json", "-", dir]
          assertBool text ("\"compared\":10,\n" `isInfixOf` text && "\"left\":\"ada.py\",\"right\":\"notes\",\"similarity\":1.000000" `isInfixOf` text),
        inFolder "a header is of C or of C++ by what it holds, and families are called by their languages" $ \dir -> do
          writeFile (dir </> "ada.h") "namespace a {\nclass B { public: int c(); };\n}\n"
          writeFile (dir </> "bob.cpp") "int f(int a) { return a; }\n"
          writeFile (dir </> "eve.py") "def f(a):\n    return a\n"
          (status, out, err) <- similar ["--json", "-", dir]
          status @?= ExitSuccess
          assertBool out (("\"paths\":[\"" ++ (dir </> "ada.h") ++ "\"],\"languages\":[\"cpp\"]") `isInfixOf` out)
          forM_ ["1 header (.h) taken for C++ by what it holds: ", "(C++ 2, Python 1)"] $ \part -> assertBool err (part `isInfixOf` err)
          (_, asC, _) <- similar ["--lang", "c", "--json", "-", dir]
          assertBool asC ("\"languages\":[\"c\"]" `isInfixOf` asC),
        inFolder "what is odd about a submission is said, and it is compared" $ \dir -> do
          writeFile (dir </> "whole.java") (program "x")
          writeFile (dir </> "nul.java") ("// \0\n" ++ program "x")
          writeFile (dir </> "open.java") ("/* no end\n" ++ program "x")
          writeFile (dir </> "prose.java") "I have lost my program and I am sorry about it. Please let me hand it in later.\n"
          (status, out, err) <- similar ["--json", "-", dir]
          status @?= ExitSuccess
          forM_ ["shape of Java (prose, another language?); compared all the same: prose.java\n", "what follows it is compared as code: open.java\n", "1 submission holds NUL or other control bytes; compared all the same: nul.java\n"] $ \part ->
            assertBool err (part `isInfixOf` err)
          forM_ ["\"left\":\"nul.java\",\"right\":\"whole.java\",\"similarity\":1.000000", "\"left\":\"open.java\",\"right\":\"whole.java\",\"similarity\":0.9", "\"name\":\"open.java\",\"files\":1,\"tokens\":38,\"excludedTokens\":0,\"errors\":1,\"unclosed\":1,\"notJava\":0,\"controlBytes\":0,"] $ \part ->
            assertBool out (part `isInfixOf` out)
          assertBool out ("\"errors\":2,\"unclosed\":0,\"notJava\":1,\"controlBytes\":0" `isInfixOf` out),
        inFolder "a platform's export, a list of students, last year's submissions" $ \dir -> do
          forM_ ["export", "export/ada", "export/bob", "old"] (createDirectory . (dir </>))
          programs (dir </> "export/ada")
          writeFile (dir </> "export/bob/B.java") (program "y")
          writeFile (dir </> "export/bob/notes.txt") "x"
          writeFile (dir </> "export/<script>alert(1)<") (program "z")
          writeFile (dir </> "old/x.java") (program "x" ++ program "y")
          writeFile (dir </> "old/y.java") (program "z" ++ program "y")
          writeFile (dir </> "list.csv") "submission,student\nada,Ada\nnobody,N\n"
          zipped dir "export"
          (status, out, err) <- similar ["--archive", dir </> "old", "--students", dir </> "list.csv", "--exclude", "*.txt", "--mode", "seed", "--fail-above", "1", "--csv", "-", dir </> "export.zip"]
          status @?= ExitFailure 1
          sort (map (intercalate "," . take 2 . fields) (drop 1 (lines out))) @?= ["ada,bob", "ada,x.java", "ada,y.java", "bob,x.java", "bob,y.java"]
          forM_ ["names what is not there: nobody", "2 pairs at 1.0 or more (--fail-above)", "1 file or folder left out", "export/<script>alert(1)<: not a source file"] $ \part ->
            assertBool err (part `isInfixOf` err)
          similar ["--fail-above", "1", "--archive", dir </> "old", "--exclude", "ada", dir </> "export.zip"] >>= (@?= ExitSuccess) . fst3,
        inFolder "a bomb and a way out are one line each" $ \dir -> do
          forM_ ["in", "bomb"] (createDirectory . (dir </>))
          programs (dir </> "in")
          writeFile (dir </> "bomb/Zero.java") (replicate 8000000 ' ')
          zipped dir "bomb"
          renameFile (dir </> "bomb.zip") (dir </> "in/bomb.zip")
          python dir "import zipfile; z = zipfile.ZipFile('in/out.zip', 'w'); z.writestr('../../up.java', 'class A {}'); z.writestr('B.java', 'class A { int a; int b; int c; }')"
          (status, out, err) <- similar [dir </> "in"]
          status @?= ExitSuccess
          assertBool out ("3 submissions" `isInfixOf` out)
          forM_ ["in/bomb.zip/bomb/Zero.java: expands to more than 200 times its size: a bomb?\n", "in/out.zip/../../up.java: leads out of its archive; not read\n"] $ \part ->
            assertBool err (part `isInfixOf` err),
        inFolder "all pairs of 600 submissions need the memory that is promised" $ \dir -> do
          createDirectory (dir </> "in")
          forM_ [1 .. submissions] $ \i -> writeFile (dir </> "in" </> (show i ++ ".java")) (concat (replicate (1 + i `mod` 3) (program "x")))
          forM_ [(mode, form) | mode <- [("score", 64), ("seed", 50)], form <- ["--csv", "--json", "--html"]] $ \((mode, bytes), form) -> do
            let most = (bytes * submissions * (submissions - 1) `div` 2) `div` 1024 + 52 * 1024 -- 48, and what a newer GHC keeps for itself
            kib <- neededKiB most ["maru", "similar", "--mode", mode, "--backend", "sequential", form, dir </> "out", dir </> "in"]
            assertBool (mode ++ " " ++ form ++ ": " ++ show kib ++ " KiB, at most " ++ show most) (kib <= most),
        inFolder "what a packed tar holds besides programs is not kept" $ \dir -> do
          createDirectory (dir </> "in")
          programs (dir </> "in")
          python dir "import io, os, tarfile\nt = tarfile.open('in/x.tgz', 'w:gz', compresslevel=1)\nfor name, data in (('x.bin', b''.join(os.urandom(12) + bytes(1012) for _ in range(150000))), ('C.java', open('in/a.java', 'rb').read())):\n    i = tarfile.TarInfo(name); i.size = len(data); t.addfile(i, io.BytesIO(data))\nt.close()"
          kib <- peakKiB ["maru", "similar", "--backend", "sequential", "--exclude", "x.bin", dir </> "in"]
          assertBool (show kib ++ " KiB") (kib <= 96 * 1024),
        inFolder "every back end prints the same" $ \dir -> do
          programs dir
          expected <- similar ["--backend", "sequential", "--json", "-", dir]
          forM_ allBackends $ \b -> do
            got <- similar ["--backend", backendName b, "--workers", "2", "--json", "-", dir]
            got @?= expected,
        inFolder "the most similar pairs, and no more of them" $ \dir -> do
          createDirectory (dir </> "in")
          forM_ [1 .. 40 :: Int] $ \i -> writeFile (dir </> "in" </> (show i ++ ".java")) (concatMap (\k -> "class C" ++ show k ++ " { int f" ++ show k ++ "(int x) { while (x > " ++ show k ++ ") x--; return x; } }\n") [i .. i + 5])
          (_, every, _) <- similar ["--csv", "-", dir </> "in"]
          (_, few, _) <- similar ["--csv", "-", "--pairs", "30", dir </> "in"]
          (length (lines every), length (lines few)) @?= (781, 31)
          few @?= unlines (take 31 (lines every))
          (_, out, _) <- similar ["--pairs", "30", dir </> "in"]
          assertBool out ("30 of them reported" `isInfixOf` out),
        inFolder "a pair with the printed similarity is one with that or more" $ \dir -> do
          createDirectory (dir </> "in")
          forM_ [1 .. 12 :: Int] $ \i -> writeFile (dir </> "in" </> (show i ++ ".java")) (concatMap (\k -> "class C" ++ show k ++ " { int f" ++ show k ++ "(int x) { while (x > " ++ show k ++ ") x--; return x; } }\n") [i .. i + 5])
          (_, every, _) <- similar ["--csv", "-", dir </> "in"]
          let scores = map ((!! 2) . fields) (drop 1 (lines every))
              distinct = take 12 [s | (s, before) <- zip scores ("" : scores), s /= before]
          assertBool every (length distinct >= 8)
          forM_ distinct $ \bound -> do
            (status, _, err) <- similar ["--fail-above", bound, dir </> "in"]
            (status, take 3 (words err)) @?= (ExitFailure 1, ["maru", "similar:", show (length (takeWhile (>= bound) scores))]),
        inFolder "the report names as many files as there is room for, and tells alike names apart" $ \dir -> do
          createDirectory (dir </> "in")
          forM_ ["b\1", "b\2", "b?"] $ \name -> writeFile (dir </> "in" </> (name ++ ".java")) (program "x")
          forM_ [1 .. 250 :: Int] $ \i -> writeFile (dir </> "in" </> ("notes" ++ show i ++ ".txt")) "x"
          (status, out, _) <- similar ["--html", "-", dir </> "in"]
          status @?= ExitSuccess
          forM_ ["\"name\":\"b?.java\"", "\"name\":\"b?.java (2)\"", "\"name\":\"b?.java (3)\"", "and 50 more: --json names them all"] $ \part ->
            assertBool (take 2000 out) (part `isInfixOf` out)
          length (filter ("not a source file" `isInfixOf`) (lines out)) @?= 200,
        inFolder "an anonymous report has no notes" $ \dir -> do
          createDirectory (dir </> "in")
          programs (dir </> "in")
          writeFile (dir </> "v.json") "{\"schema\":\"maru-similar-verdicts/1\",\"verdicts\":[{\"left\":\"a.java\",\"right\":\"b.java\",\"verdict\":\"copy\",\"note\":\"Ada admits it\"}]}"
          (_, out, _) <- similar ["--anonymous", "--verdicts", dir </> "v.json", "--html", "-", dir </> "in"]
          assertBool (take 2000 out) ("{\"left\":\"submission-1\",\"note\":\"\",\"right\":\"submission-2\",\"verdict\":\"copy\"}" `isInfixOf` out && not ("admits" `isInfixOf` out))
          (_, whole, _) <- similar ["--verdicts", dir </> "v.json", "--html", "-", dir </> "in"]
          assertBool (take 2000 whole) ("admits" `isInfixOf` whole),
        inFolder "many tiny files, and two large ones" $ \dir -> do
          -- The soak has a hundred thousand and 50 MB.
          scale <- maybe 1 read <$> lookupEnv "MARU_TEST_SCALE"
          let count = min 100000 (2000 * scale) :: Int
              bytes = min 50 scale * 1000000 :: Int
          python dir ("import os\nfor i in range(" ++ show count ++ "):\n d = 'tiny/%d' % (i % 100)\n os.makedirs(d, exist_ok=True)\n open('%s/T%d.java' % (d, i), 'w').write('class T { int x%d; }\\n' % (i % 7))")
          python dir ("import os\nos.mkdir('large')\nfor name in 'ab':\n with open('large/%s.java' % name, 'w') as f:\n  n = 0\n  f.write('class L {\\n')\n  while f.tell() < " ++ show bytes ++ ":\n   n += 1\n   f.write('int f%d(int x) { for (int i = 0; i < %d; i++) x += i * %d; %sreturn x %% %d; }\\n' % (n, n * 7 % 1013, n * n % 917, 'x--; ' if name == 'b' and n % 3 == 0 else '', n + 3))\n  f.write('}\\n')")
          forM_ [("tiny", "100 submissions, 4950 pairs"), ("large", "2 submissions, 1 pair")] $ \(folder, told) -> forM_ ["score", "seed"] $ \way -> do
            (status, out, err) <- readProcessWithExitCode "timeout" [show (120 * scale), "maru", "similar", "--mode", way, dir </> folder] ""
            -- A busy machine takes longer than the 30 s after which it is said how far it is.
            (status, [l | l <- lines err, not ("maru similar: warning: " `isPrefixOf` l || " %" `isInfixOf` l)]) @?= (ExitSuccess, [])
            assertBool out (told `isInfixOf` out),
        inFolder "an anonymous run names nobody on standard error" $ \dir -> do
          createDirectory (dir </> "in")
          programs (dir </> "in")
          writeFile (dir </> "in/mallory.java") (program "x" ++ "/* open\n@@ `")
          writeFile (dir </> "in/carol.txt") "x"
          writeFile (dir </> "list") "submission,student\ndave,dave\n"
          (status, out, err) <- similar ["--anonymous", "--students", dir </> "list", dir </> "in"]
          status @?= ExitSuccess
          forM_ ["mallory", "carol", "dave"] $ \name -> assertBool (out ++ err) (not (name `isInfixOf` (out ++ err)))
          forM_ ["1 file or folder left out", "submission-", "names what is not there: 1 name"] $ \part -> assertBool err (part `isInfixOf` err),
        inFolder "an index says what its archive says; it is one line where it is none" $ \dir -> do
          mapM_ (createDirectory . (dir </>)) ["in", "old", "other"]
          programs (dir </> "in")
          forM_ [1 .. 12 :: Int] $ \i -> writeFile (dir </> "old" </> (show i ++ ".java")) (concatMap (\k -> "class C" ++ show k ++ " { int f" ++ show k ++ "(int x) { while (x > " ++ show k ++ ") x--; return x; } }\n") [i .. i + 5])
          writeFile (dir </> "other/x") ""
          similar ["--index", dir </> "idx", dir </> "in"] >>= fails 65
          (made, told, said) <- similar ["index", dir </> "idx", dir </> "old"]
          (made, said) @?= (ExitSuccess, "")
          assertBool told ("12 submissions; 12 new" `isInfixOf` told)
          (_, again, _) <- similar ["index", dir </> "idx", dir </> "old"]
          assertBool again ("12 submissions; 0 new, 12 known before" `isInfixOf` again)
          (_, direct, _) <- similar ["--csv", "-", "--archive", dir </> "old", dir </> "in"]
          (status, kept, err) <- similar ["--csv", "-", "--index", dir </> "idx", dir </> "in"]
          (status, err) @?= (ExitSuccess, "")
          map (drop 2 . fields) (lines kept) @?= map (drop 2 . fields) (lines direct)
          similar ["--mode", "seed", "--index", dir </> "idx", dir </> "in"] >>= fails 64
          similar ["index", dir </> "other", dir </> "old"] >>= fails 65
          (full, out, why) <- readProcessWithExitCode "timeout" ["60", "sh", "-c", "ulimit -f 8; exec maru similar index \"$@\"", "sh", dir </> "idx", dir </> "in"] ""
          fails 69 (full, out, why)
          assertBool why ("the index cannot be written: File too large" `isInfixOf` why)
          (_, whole, _) <- similar ["--csv", "-", "--index", dir </> "idx", dir </> "in"]
          whole @?= kept
          (based, _, _) <- similar ["index", "--base", dir </> "old/1.java", dir </> "based", dir </> "old"]
          based @?= ExitSuccess
          similar ["--index", dir </> "based", "--base", dir </> "old/1.java", "--min-match", "5", dir </> "in"] >>= fails 65
          writeFile (dir </> "idx/archive") "torn"
          similar ["--index", dir </> "idx", dir </> "in"] >>= fails 65
          similar ["index", dir </> "idx", dir </> "old"] >>= fails 65
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
    ("a bound above 1", ["--fail-above", "2"]),
    ("a bound below the threshold", ["--threshold", "0.5", "--fail-above", "0.4"]),
    ("matches of nothing", ["--min-match", "0"]),
    ("an unknown mode", ["--mode", "seeds"]),
    ("an unknown rank", ["--rank", "best"]),
    ("no pairs at all", ["--pairs", "0"]),
    ("a rank of --mode seed", ["--mode", "seed", "--rank", "both"]),
    ("the most pairs of --mode seed", ["--mode", "seed", "--pairs", "5"]),
    ("two outputs for one stream", ["--csv", "-", "--json", "-"])
  ]

usageCase :: String -> [String] -> TestTree
usageCase name flags = inFolder name $ \dir -> programs dir >> similar (flags ++ [dir]) >>= fails 64

badInputs :: [TestTree]
badInputs =
  [ inFolder "a path that is missing" $ \dir -> similar [dir </> "missing"] >>= fails 65,
    inFolder "a base that is missing" $ \dir -> programs dir >> similar ["--base", dir </> "missing", dir] >>= fails 65,
    inFolder "an empty folder" $ \dir -> similar [dir] >>= fails 65,
    inFolder "a list of students that is none" $ \dir -> programs dir >> writeFile (dir </> "list") "a,b\n" >> similar ["--students", dir </> "list", dir] >>= fails 65,
    inFolder "verdicts that are none, and steer no terminal" $ \dir -> do
      programs dir
      writeFile (dir </> "verdicts") "\ESC[2J\b\b"
      said <- similar ["--verdicts", dir </> "verdicts", dir]
      fails 65 said
      assertBool (show said) (case said of (_, _, line) -> '\ESC' `notElem` line && '\b' `notElem` line),
    inFolder "a role that is none, and steers no terminal" $ \dir -> do
      programs dir
      writeFile (dir </> "list") "submission,role\na.java,\ESC[2J\n"
      said@(_, _, line) <- similar ["--students", dir </> "list", dir]
      fails 65 said
      assertBool line ('\ESC' `notElem` line),
    inFolder "a device without end" $ \dir -> do
      programs dir
      similar ["--students", "/dev/zero", dir] >>= fails 65
      similar ["--verdicts", "/dev/zero", dir] >>= fails 65
      similar ["generate", "--out", dir </> "copies", "--count", "1", "/dev/zero"] >>= fails 65,
    inFolder "an archive that is none" $ \dir -> writeFile (dir </> "x.zip") "PK" >> similar [dir </> "x.zip"] >>= failsIn 65 3,
    inFolder "a pipe" $ \dir -> createNamedPipe (dir </> "pipe") 0o600 >> similar [dir </> "pipe"] >>= fails 65
  ]

-- | That status, nothing on standard output, one line on standard error.
fails :: Int -> (ExitCode, String, String) -> Assertion
fails expected (status, out, err) = do
  (status, out, length (lines err)) @?= (ExitFailure expected, "", 1)
  assertBool err ("maru" `isPrefixOf` err)

-- | That status, nothing on standard output, so many lines on standard error.
failsIn :: Int -> Int -> (ExitCode, String, String) -> Assertion
failsIn expected count (status, out, err) = (status, out, length (lines err)) @?= (ExitFailure expected, "", count)

-- | A folder as an archive beside it.
zipped :: FilePath -> String -> Assertion
zipped dir name = python dir ("import shutil; shutil.make_archive('" ++ name ++ "', 'zip', '.', '" ++ name ++ "')")

python :: FilePath -> String -> Assertion
python dir script = readCreateProcessWithExitCode (proc "python3" ["-c", script]) {cwd = Just dir} "" >>= (@?= (ExitSuccess, "", ""))

fields :: String -> [String]
fields text = case break (== ',') text of
  (field, _ : more) -> field : fields more
  (field, []) -> [field]

fst3 :: (a, b, c) -> a
fst3 (a, _, _) = a

outputs :: [TestTree]
outputs =
  [ inFolder "CSV on standard output, and nothing else" $ \dir -> do
      programs dir
      similar ["--mode", "seed", "--csv", "-", dir]
        >>= (@?= (ExitSuccess, "left,right,similarity,avg,max,matched,left_tokens,right_tokens\na.java,b.java,1.000000,1.000000,1.000000,35,35,35\n", ""))
      (status, out, err) <- similar ["--csv", "-", dir]
      (status, err) @?= (ExitSuccess, "")
      map (take 2 . fields) (lines out) @?= [["left", "right"], ["a.java", "b.java"]]
      map (length . fields) (lines out) @?= [13, 13],
    inFolder "CSV in a file, and the table" $ \dir -> do
      createDirectory (dir </> "in")
      programs (dir </> "in")
      (status, out, err) <- similar ["--csv", dir </> "out.csv", dir </> "in"]
      (status, err) @?= (ExitSuccess, "")
      assertBool out (all (`isInfixOf` out) ["a.java  b.java  (35 tokens; structure 100, lexical 100, names ", "; too short to judge)\n\n2 submissions, 1 pair compared; 1 at 80 % or more.\n"])
      rows <- lines <$> readFile (dir </> "out.csv")
      length rows @?= 2,
    inFolder "one submission: nothing to compare" $ \dir -> do
      writeFile (dir </> "a.java") (program "x")
      similar [dir] >>= (@?= (ExitSuccess, "Nothing to compare: one submission only.\n", "")),
    inFolder "an output that cannot be written is status 69" $ \dir -> do
      programs dir
      full@(_, _, line) <- similar ["--csv", "/dev/full", dir]
      fails 69 full
      assertBool line ("No space left on device" `isInfixOf` line)
      similar ["--json", dir </> "no/such", dir] >>= fails 69,
    inFolder "a warning that cannot be written costs no output" $ \dir -> do
      programs dir
      let said = ["-c", "exec timeout 60 maru similar --lang java --students \"$1/list\" --json \"$1/out.json\" \"$1/a.java\" \"$1/b.java\" 2>/dev/full", "sh", dir]
      writeFile (dir </> "list") "submission,student\nnobody,N\n"
      readProcessWithExitCode "sh" said "" >>= (@?= ExitSuccess) . fst3
      out <- readFile (dir </> "out.json")
      assertBool out ("\"submissions\"" `isInfixOf` out)
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
  (status, out, err) <- fmap withoutSetUp <$> readProcessWithExitCode "python3" ("-c" : measure : arguments) ""
  (status, err) @?= (ExitSuccess, "")
  pure (read out)
  where
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, timeout=300, stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"

-- | What a command needs: the least peak of at most three runs, the first within @most@ ends it. A collection that comes
-- late (one run of some hundreds, on a loaded machine) adds to a peak what the command did not need.
neededKiB :: Int -> [String] -> IO Int
neededKiB most arguments = go (3 :: Int)
  where
    go runs = do
      kib <- peakKiB arguments
      if kib <= most || runs == 1 then pure kib else min kib <$> go (runs - 1)

similar :: [String] -> IO (ExitCode, String, String)
similar arguments = fmap withoutSetUp <$> readProcessWithExitCode "timeout" ("60" : "maru" : "similar" : arguments) ""

-- | The tested command lies where no grammar is: it says so, once.
withoutSetUp :: String -> String
withoutSetUp = unlines . filter (not . ("maru similar: warning: no grammar of Java" `isPrefixOf`)) . lines
