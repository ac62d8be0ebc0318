{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

-- | The grammar of Java ("Plugins").
module GrammarTest (tests) where

import Control.Exception (try)
import Control.Monad (forM_, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as BC
import Data.List (isInfixOf)
import qualified Data.Map.Strict as Map
import Data.Primitive.PrimArray
import Data.Word (Word32)
import Maru.Similar
import Maru.Similar.Archive
import Maru.Similar.Extend
import Maru.Similar.Grammar
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Mutate
import Maru.Similar.Normalise (barrier)
import Maru.Similar.Output (json)
import Maru.Similar.Structure (Act (..))
import Maru.Similar.Token
import Maru.Similar.Views
import Plugins
import Snippets
import System.Directory (doesFileExist)
import System.FilePath ((</>))
import System.IO.Temp (withSystemTempDirectory)
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Grammar"
    [ testCase "acts of a small program" $
        withJava $ \java ->
          actsOf java "import a.B; @X(y = 1) class A<T> { int f = 1, g; A(int n) { this.f = n + 1; } public void m() { for (;;) { if (f() < g[1]) { return; } } } }"
            @?= [Class, Assigns, Method, Assigns, Computes, MethodEnd, Method, Loop, Choose, Compares, Apply, Indexes, Return, MethodEnd, ClassEnd],
      testCase "written otherwise, the same acts" $
        withJava $ \java -> forM_ disguises $ \(name, one, other) ->
          assertEqual name (actsOf java (inMethod one)) (actsOf java (inMethod other)),
      testCase "what does nothing has no act" $
        withJava $ \java -> forM_ idle $ \text ->
          assertEqual (BC.unpack text) (actsOf java (inMethod "a(b);")) (actsOf java (inMethod ("a(b); " <> text))),
      testCase "what does something has" $
        withJava $ \java -> forM_ busy $ \text ->
          assertBool (BC.unpack text) (actsOf java (inMethod "a(b);") /= actsOf java (inMethod ("a(b); " <> text))),
      testCase "comments between all tokens: the same acts" $
        withJava $ \java -> forM_ (programs ++ map inMethod (concat [[one, other] | (_, one, other) <- disguises] ++ idle ++ busy)) $ \program -> do
          assertEqual (BC.unpack program) (actsOf java program) (actsOf java (between "/**/" program))
          assertEqual (BC.unpack program) (actsOf java program) (actsOf java (between " //\n" program)),
      testCase "an error counts wherever it is" $
        withJava $ \java -> forM_ ["class A { void m(int , , = ) { a(); } }", "class A<,> { }", "import ,;", "class A { @B(,) int a; }", inMethod "if (1 , 2) { }", inMethod "assert 1 > ;"] $ \program ->
          assertBool (BC.unpack program) (maybe False ((> 0) . parsedErrors) (parse java program)),
      testCase "broken programs, prose, too large ones" $
        withJava $ \java -> do
          fmap ((> 0) . parsedErrors) (parse java "class A { void m( { x = ; } ") @?= Just True
          fmap parsedErrors (parse java (inMethod "a();")) @?= Just 0
          parse java (BC.replicate 60001 ';') @?= Nothing,
      testCase "a copy with comments, in another layout, is the same" $
        withJava $ \java -> forM_ (programs ++ atBound ++ map (B.take 300) programs) $ \program ->
          forM_ [program <> "/*" <> BC.replicate 60001 '.' <> "*/", between "\n \t" program, between "/* ; */" program, "// a\n" <> program] $ \copy -> do
            let Views structure lexical names = fst3 (viewed java program)
                Views structure' lexical' names' = fst3 (viewed java copy)
            assertEqual (show (B.take 200 copy)) (structure, lexical, names) (structure', lexical', names')
            thd3 (viewed java program) @?= thd3 (viewed java copy),
      testCase "what is too large to be parsed has no structure, and what is not has" $
        withJava $ \java -> do
          [thd3 (viewed java p) | p <- atBound] @?= [Clean, NotParsed]
          [sizeofPrimArray (structureView (fst3 (viewed java p))) > 0 | p <- atBound] @?= [True, False],
      testCase "acts of the template are cut out of a tree" $
        withJava $ \java -> do
          let (whole, _, _) = viewed java (bubble <> account)
              (left, cut, _) = viewsOf (the (Just java)) (Just (templateOf 9 [javaSource "" bubble])) [lexed (javaSource "" (between "/**/" (bubble <> account)))]
              (own, _, _) = viewed java account
          assertBool "cut" (cut > 0 && sizeofPrimArray (structureView left) < sizeofPrimArray (structureView whole))
          dropWhile (== barrier) (primArrayToList (structureView left)) @?= primArrayToList (structureView own),
      testCase "what is no grammar is said, and nothing dies" notGrammars,
      testCase "an index with a grammar says what the same run without an index says" $
        withJava $ \java -> withSystemTempDirectory "grammar" $ \dir -> do
          let config = defaultConfig {configGrammars = Map.singleton Java java}
              entry role n p = (newEntry (BC.pack (show n)) [javaSource "A.java" p]) {entryRole = role}
              old = zipWith (entry Archive) [10 :: Int ..] (programs ++ map (mutate 3 (someOperators 3)) programs)
              new = zipWith (entry Maru.Similar.New) [1 :: Int ..] programs
              said corpus = let p = prepare map config corpus in json (assembled config p (comparePrepared map config p))
          _ <- extend map config (const (pure ())) (BC.pack dir) (corpusOf old [])
          archive <- openArchive (recipe (Map.singleton Java java)) (BC.pack dir)
          Builder.toLazyByteString (said (corpusOf new []) {corpusArchive = Just archive}) @?= Builder.toLazyByteString (said (corpusOf (new ++ old) [])),
      testCase "an index with a grammar is none of a run without it, nor the other way round" $
        withJava $ \java -> forM_ [(Nothing, Just java), (Just java, Nothing)] $ \(made, asked) -> withSystemTempDirectory "grammar" $ \dir -> do
          let add with = extend map defaultConfig {configGrammars = the with} (const (pure ())) (BC.pack dir) (corpusOf [newEntry "a" [javaSource "A.java" bubble]] [])
              refused what act = try act >>= either (\(BadPath _ why) -> assertBool (show why) ("another version" `B.isInfixOf` why)) (const (assertFailure (what ++ " took it")))
          _ <- add made
          refused "a query" (void (openArchive (recipe (the asked)) (BC.pack dir)))
          refused "extending" (void (add asked))
          void (openArchive (recipe (the made)) (BC.pack dir)),
      testCase "submissions by a grammar say so, and each map gives the same" $
        withJava $ \java -> do
          let config = defaultConfig {configGrammars = Map.singleton Java java}
              corpus = corpusOf [newEntry name [javaSource name text] | (name, text) <- [("a", inMethod "a();"), ("b", inMethod "b( ;"), ("c", inMethod (B.concat (replicate 20000 "c();")))]] []
              report :: ParallelMap -> Report
              report parallel = let p = prepare parallel config corpus in assembled config p (comparePrepared parallel config p)
          map submissionParse (toList' (reportSubmissions (report map))) @?= [Clean, Broken, NotParsed]
          map (pairScore (report map)) (pairList (reportPairs (report map))) @?= map (pairScore (report backwards)) (pairList (reportPairs (report backwards))),
      testCase "any piece of a program: acts within it" $
        withJava $ \java -> forM_ programs $ \program -> forM_ [0, 97 .. B.length program] $ \n ->
          let piece = B.take n program
           in maybe (assertFailure "not parsed") (assertBool (show n) . all (inText n) . pairsOf . parsedActs) (parse java piece),
      testCase "any bytes: the same acts again, all within the text" $ withJava (holds 100 . anyBytes)
    ]
  where
    toList' = foldr (:) []
    backwards f = reverse . map f . reverse

disguises :: [(String, ByteString, ByteString)]
disguises =
  [ ("for as while", "for (int i = 0; i < n; i++) { a(i); b(); }", "int i = 0; while (i < n) { a(i); b(); i++; }"),
    ("do", "while (a) { b(); }", "do { b(); } while (a);"),
    ("increment", "x = x + 1;", "x++;"),
    ("op=", "x = x + y;", "x += y;"),
    ("parentheses", "return a;", "return ((a));"),
    ("flipped comparison", "if (f() > g[1]) c();", "if (g[1] < f()) { c(); }"),
    ("exchanged branches", "if (a == b) { c(); } else { d = 1; }", "if (!(a == b)) { d = 1; } else { c(); }"),
    ("unequal", "if (a == b) { c(); } else { d = 1; }", "if (a != b) { d = 1; } else { c(); }"),
    ("choice as an expression", "x = a ? f() : 2;", "x = a ? (f()) : (2);"),
    ("split declaration", "int x = f(); a(x);", "int x; x = f(); a(x);"),
    ("types and annotations", "final int x = f(); a(x);", "@Deprecated Map<? extends K, List<V>> x = f(); a(x);"),
    ("imports do not count, names neither", "foo.bar(x, 1);", "baz.qux(y, 2);")
  ]

idle, busy :: [ByteString]
idle =
  [ "int unused = 5;",
    "long sum1 = 89L * 2;",
    "int[] spare = new int[5];",
    "String note = \"a\", other = \"b\";",
    "if (3 > 9) { }",
    "assert 3 < 12;",
    "for (int skip = 0; skip < 0; skip++) { }",
    "int x; String s;"
  ]
busy = ["int v = f();", "int v = 1; a(v);", "if (b) { }", "while (f()) { }", "if (3 > 9) { f(); }", "assert b;"]

-- | In order of harm: a program that opens them all has not died.
notGrammars :: IO ()
notGrammars = withSystemTempDirectory "grammar" $ \dir -> do
  let path = dir </> "java.so"
      refused why = openGrammar "java" path >>= either (\said -> assertBool said (why `isInfixOf` said && path `isInfixOf` said && length (lines said) == 1)) (const (assertFailure ("opened, though: " ++ why)))
  refused "does not exist"
  forM_ [("", "no shared library"), ("#!/bin/sh\n", "no shared library"), (B.replicate 4096 0, "no shared library"), ("\DELELF\1\1\1" <> B.replicate 4096 0, "64 bits")] $ \(bytes, why) -> B.writeFile path bytes >> refused why
  own <- B.readFile "/proc/self/exe"
  B.writeFile path (B.take (B.length own `div` 2) own) >> refused "cut off"
  built <- doesFileExist (pluginOf "java")
  when built $ do
    plugin <- B.readFile (pluginOf "java")
    forM_ [64, 4096, B.length plugin `div` 2] $ \n -> B.writeFile path (B.take n plugin) >> refused "cut off"
    -- Whatever is wrong in its middle would end its user, or make other acts.
    forM_ [200, B.length plugin `div` 3, B.length plugin `div` 2, B.length plugin - 100, B.length plugin - 1] $ \n -> do
      let (before, after) = B.splitAt n plugin
      B.writeFile path (before <> B.map (+ 1) (B.take 1 after) <> B.drop 1 after) >> refused "damaged"
    forM_ [1, 41] $ \n -> B.writeFile path (B.take (B.length plugin - n) plugin) >> refused "no checksum"
    openGrammar "python" (pluginOf "java") >>= either (\said -> assertBool said ("it is tree-sitter-java" `isInfixOf` said)) (const (assertFailure "Java is Python"))

-- | Of a copy: the same text at another address.
anyBytes :: Grammar -> Property
anyBytes java = forAll (B.pack <$> listOf arbitrary) $ \text ->
  parse java (B.copy text) === parse java text .&&. maybe True (all (inText (B.length text)) . pairsOf . parsedActs) (parse java text)

-- | Whether the act is one, and its byte one of a text of that length.
inText :: Int -> (Word32, Word32) -> Bool
inText n (act, at) = act <= fromIntegral (fromEnum (maxBound :: Act)) && fromIntegral at < n

withJava :: (Grammar -> IO ()) -> IO ()
withJava = withGrammar Java

-- | None, or that of Java.
the :: Maybe Grammar -> Grammars
the = maybe mempty (Map.singleton Java)

actsOf :: Grammar -> ByteString -> [Act]
actsOf grammar text = maybe [] (map (toEnum . fromIntegral . fst) . pairsOf . parsedActs) (parse grammar text)

pairsOf :: PrimArray Word32 -> [(Word32, Word32)]
pairsOf a = [(indexPrimArray a (2 * i), indexPrimArray a (2 * i + 1)) | i <- [0 .. sizeofPrimArray a `quot` 2 - 1]]

inMethod :: ByteString -> ByteString
inMethod body = "class A { void m() { " <> body <> " } }"

-- | The text with that between all tokens, but not within a shift.
between :: ByteString -> ByteString -> ByteString
between what text = B.concat (concat [[tokenText text tokens i, if split i then what else ""] | i <- [0 .. tokenCount tokens - 1]])
  where
    tokens = lexJava text
    split i = i + 1 == tokenCount tokens || tokenKind tokens i /= Greater || tokenEnd tokens i /= tokenStart tokens (i + 1)

-- | Of 60 000 bytes with one for each token, and of one more.
atBound :: [ByteString]
atBound = [inMethod ("a(" <> BC.replicate (60000 - rest + extra) 'b' <> ");") | extra <- [0, 1]]
  where
    tokens = lexJava (inMethod "a();")
    rest = sum [tokenEnd tokens i - tokenStart tokens i + 1 | i <- [0 .. tokenCount tokens - 1]] + 1

viewed :: Grammar -> ByteString -> (Views, Int, Parse)
viewed java text = viewsOf (the (Just java)) Nothing [lexed (javaSource "" text)]

fst3 :: (a, b, c) -> a
fst3 (a, _, _) = a

thd3 :: (a, b, c) -> c
thd3 (_, _, c) = c
