{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

-- | All languages, with their grammars where these were built and with the generic lexer.
module LanguageTest (tests) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.Char (toLower)
import Data.List (isInfixOf, nub)
import qualified Data.Map.Strict as Map
import Data.Primitive.PrimArray (primArrayToList)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word8)
import Maru.Similar
import Maru.Similar.Archive
import Maru.Similar.Evidence (Shown (..), evidence, programOf, usualIn)
import Maru.Similar.Extend
import Maru.Similar.Grammar
import Maru.Similar.Language
import Maru.Similar.Match (PairScore (..), Span (..), Tile (..), ViewScore (..))
import Maru.Similar.Output (json)
import Maru.Similar.Structure (Act (..))
import Maru.Similar.Token hiding (Error)
import qualified Maru.Similar.Token as Token
import Maru.Similar.Told (toldReport)
import Maru.Similar.Views
import Plugins
import Snippets
import System.IO.Temp (withSystemTempDirectory)
import System.Timeout (timeout)
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Written

tests :: TestTree
tests =
  testGroup
    "Language"
    [ testGroup "a file's language is told by its name" [testCase (show path) (languageOf path @?= l) | (path, l) <- named],
      testCase "where a language is asked for, its files are those that go with it" $
        [languageWhere l path | (l, path) <- [(Cpp, "x.h"), (C, "x.h"), (TypeScript, "x.tsx"), (Tsx, "x.ts"), (C, "x.cpp")]] @?= [Just Cpp, Just C, Just Tsx, Nothing, Nothing],
      testCase "a header that uses what C does not have is one of C++" $ do
        forM_ ["class A { int b; };", "class A : B<C> { };", "template <class T> T f();", "namespace a { }", "std::string f();", "using namespace std;", "struct A { public: int b; };", "struct A { virtual ~A(); };", "enum class A { b };"] $ \text ->
          assertEqual (show text) (Cpp, Cpp, C) (byContent C "a.h" (text <> "\n"), byContent C "A.H" text, byContent C "a.c" text)
        forM_ ["int class;", "int f(int template, int virtual);", "// class A { };\nint x;", "char *s = \"class A {\";", "struct class { int private; };", "struct class foo;", "extern union class a;", "#ifndef A\n#define A(b) b ? c : d\n#endif", ""] $ \text ->
          assertEqual (show text) C (byContent C "a.h" text),
      testGroup "tokens" [testCase (languageName l ++ ": " ++ show text) (spelled l text @?= ts) | (l, text, ts) <- lexed'],
      testCase "what does not end hides nothing, and is counted" $
        forM_ unclosed $ \(l, text, errors, open) -> do
          let ts = lexSource l (text <> "\nx = f(1)")
          assertEqual (show (l, text)) (errors, open) (tokenErrors ts, tokenUnclosed ts)
          assertBool (show (l, text)) ("f" `elem` spelled l (text <> "\nx = f(1)")),
      property "any bytes: tokens ascend within the text, and are the same again" 300 $
        forAll anySource $ \(l, text) ->
          counterexample (show (l, text)) (wellFormed (B.length text) (lexSource l text) && lexSource l (B.copy text) == lexSource l text),
      testGroup "200 KB in one line, in time" [testCase (languageName l ++ ": " ++ show (B.take 8 unit)) (longLine l unit) | l <- [C, Python, JavaScript, Rust, Haskell, Lua, Ruby, Sql], unit <- hardUnits],
      testCase "800 KB of dashes that are no comment, in time" $
        forM_ [Haskell, Lua, Sql] $ \l -> longLine l ("x = " <> BC.replicate 800000 '-' <> ">"),
      testCase "800 KB of tags that never end, and of some in each other, in time" $ do
        longLine Sql (BC.unwords ["$a" <> BC.pack (show i) <> "$ '" | i <- [1 .. 80000 :: Int]])
        longLine Sql (BC.unwords (concat [["$a" <> n <> "$", "'"] | n <- numbers] ++ ["$a" <> n <> "$" | n <- reverse numbers])),
      testCase "4 MB of brackets that never end, in time" $
        longLine Ruby (BC.concat (replicate 1400000 "%(\n")),
      testGroup "acts" [testCase (languageName l) (withGrammar l (\g -> actsOf l g text @?= (0, acts))) | (l, text, acts) <- acted],
      testGroup
        "copies in disguise rank above independent programs"
        ( [testCase (languageName l ++ ", by its grammar") (withGrammar l (holds 3 . ranked l . Map.singleton l)) | l <- written', hasGrammar l]
            ++ [property (languageName l ++ ", by the lexer") 3 (ranked l mempty) | l <- written']
        ),
      testGroup "what is written by the generator parses" [testCase (languageName l) (withGrammar l (\g -> [fst (actsOf l g (written l (program s))) | s <- [1 .. 10]] @?= replicate 10 0)) | l <- written', hasGrammar l],
      testGroup
        "comments and layout change no view"
        ( [testCase (languageName l ++ ", by its grammar") (withGrammar l (sameViews l . Map.singleton l)) | l <- written', hasGrammar l]
            ++ [testCase (languageName l ++ ", by the lexer") (sameViews l mempty) | l <- written']
        ),
      testCase "what a formatter changes changes no view" $
        forM_ formatted $ \(l, text, other) ->
          assertEqual (show (l, text)) (viewed l mempty text) (viewed l mempty other),
      testGroup
        "what a language reads alike changes no view"
        [ testCase (show (l, other)) $ do
            let alike grammars = assertEqual "" (viewed l grammars text) (viewed l grammars other)
            alike mempty
            if hasGrammar l then withGrammar l (alike . Map.singleton l) else pure ()
          | (l, text, other) <- readAlike
        ],
      testCase "what is skipped whatever is defined hides nothing else" $
        forM_ shownStill $ \text ->
          assertBool (show text) ("seen" `elem` spelled C text),
      testCase "what is written otherwise is shown as it is written" $ do
        let text = "int f(int a) <% return a<:1:> + g(??-a, h\\\n1); %>\n"
        [B.take (spanBytes s) (B.drop (spanStart s) text) | s <- map (tileRight . shownTile) (matches [Source C "a.c" "int f(int a) { return a[1] + g(~a, h1); }"] [Source C "b.c" text])] @?= [B.init text],
      testCase "other names change the lexical view in no language, in the code of texts neither" $
        forM_ renamed $ \(l, text, other) -> do
          let views = fst3 . viewed l mempty
          assertEqual (show (l, text)) (numbered (views text)) (numbered (views other))
          assertBool (show (l, text)) (namesView (views text) /= namesView (views other)),
      testCase "what is no name in a text counts" $
        forM_ otherTexts $ \(l, text, other) ->
          assertBool (show (l, text)) (numbered (fst3 (viewed l mempty text)) /= numbered (fst3 (viewed l mempty other))),
      testCase "where capitals are small letters, they change no view" $
        forM_ [(Sql, "SELECT Name, count(*) FROM t WHERE x IS NOT NULL"), (Php, "<?php IF ($a) { Foreach (F($b) as $c) { ECHO $c; } } Function g() { Return 1; }")] $ \(l, text) ->
          assertEqual (show (l, text)) (viewed l mempty (BC.map toLower text)) (viewed l mempty text),
      testCase "a comment of 60 001 bytes is not the reason why a program is not parsed" $
        forM_ (filter hasGrammar written') $ \l -> withGrammar l $ \g ->
          let text = written l (program 1)
              comment
                | l == Python = "\n#"
                | l == Haskell = "\n-- "
                | otherwise = "\n//"
           in fst3 (viewed l (Map.singleton l g) (text <> comment <> BC.replicate 60001 '.' <> "\n")) @?= fst3 (viewed l (Map.singleton l g) text),
      testCase "comments and blanks of any length within lines change no view of a language of lines" $
        withGrammar Haskell $ \g -> do
          let wide blank = "f x =" <> blank <> "g x + 1\nh y = f" <> blank <> "y\n"
              seen = viewed Haskell (Map.singleton Haskell g)
          forM_ [BC.replicate 70000 ' ', " {- " <> BC.replicate 70000 '.' <> " -} "] $ \blank -> seen (wide blank) @?= seen (wide " ")
          thd3 (seen (wide " ")) @?= Clean,
      testGroup
        "what names are does not count in the lexical view"
        [ testCase (languageName l) $
            forM_ [1 .. 5] $ \s -> do
              let report = reported map (corpusOf [newEntry "a" [Source l "x" (written l (program s))], newEntry "b" [Source l "x" (disguised l s [Renamed] (program s))]] [])
              [pairScoreLexical (pairScore report p) | p <- pairList (reportPairs report)] @?= [Just (ViewScore 1 1)]
          | l <- written'
        ],
      testCase "in a text nothing is a name" $ do
        let report = reported map (corpusOf [newEntry n [Source AnyText n (BC.unwords (replicate 40 n))] | n <- ["one", "two"]] [])
        [pairScoreLexical (pairScore report p) | p <- pairList (reportPairs report)] @?= [Just (ViewScore 0 0)],
      testCase "only one family is compared, and each map says the same" severalFamilies,
      testCase "an index says what the same run without an index says" $
        withSystemTempDirectory "languages" $ \dir -> do
          let all' = [newEntry (name i) [one i, one (i + 1)] | i <- [0 .. 19]]
              old = [e {entryRole = Archive} | e <- drop 10 all']
              new = take 10 all'
          _ <- extend map defaultConfig (const (pure ())) (BC.pack dir) (corpusOf old [])
          archive <- openArchive (recipe mempty) (BC.pack dir)
          said map (corpusOf new []) {corpusArchive = Just archive} @?= said map (corpusOf (new ++ old) []),
      testCase "a family with one grammar of two goes by tokens, and others by theirs" $
        withGrammar Java $ \g -> do
          let (found, absent) = wholeFamilies (Map.fromList [(C, g), (Java, g)], Map.fromList [(Cpp, "not there"), (Go, "not there")])
          (Map.keys found, Map.keys absent) @?= ([Java], [C, Cpp, Go])
          Map.lookup C absent @?= Just "it is left out, for there is none of cpp",
      testCase "an index knows a program in its language only, and its languages count as several" $
        withSystemTempDirectory "languages" $ \dir -> do
          let add l = extend map defaultConfig (const (pure ())) (BC.pack dir) (corpusOf [newEntry "a" [Source l "a.py" (written Python (program 1))]] [])
          made <- mapM add [AnyText, Python, Python]
          [(extendedAdded e, extendedKnown e) | e <- made] @?= [(1, 0), (1, 0), (0, 1)]
          archive <- openArchive (recipe mempty) (BC.pack dir)
          let report = reported map (corpusOf [newEntry "b" [Source Python "b.py" (written Python (program 2))]] []) {corpusArchive = Just archive}
          assertBool (show (toldReport report)) (any (isInfixOf "(Python 2, text 1)" . show) (toldReport report)),
      testCase "lines of an old Mac are lines" $
        forM_ written' $ \l -> let text = written l (program 3) in assertEqual (show l) (viewed l mempty text) (viewed l mempty (BC.map (\c -> if c == '\n' then '\r' else c) text)),
      testCase "a header is the same in C and in C++" $ do
        let text = "#include <a.h>\nusing b;\nclass C { public: bool d(); };\n"
        spelledKinds C text @?= spelledKinds Cpp text,
      testCase "a stretch is rare if hardly any other submission has it" $ do
        let of' text = [javaSource "A.java" text]
            common = "class A { void f() { for (int i = 0; i < 9; i++) { a(i); } } }\n"
            own = "class B { int g(int x) { while (x > 1) { x = x / 2 + h(x, 3); } return -x; } }\n"
            (this, that) = (of' (common <> own), of' (own <> common))
            rare others = [shownRare s | s <- evidence 9 (usualOf ([this, that] ++ others)) (programOf 9 [] this) (programOf 9 [] that)]
            usualOf all' = usualIn 9 (all' !!) (map (map sourceLanguage) all')
        rare (replicate 20 (of' common)) @?= [False, True]
        rare (replicate 20 (of' (own <> common))) @?= [False, False]
        rare (replicate 7 (of' common)) @?= [False, False]
        -- Those that cannot have it say nothing, be they as many as they will.
        rare (replicate 10 (of' (own <> common)) ++ replicate 1000 [Source Python "a.py" "x = f(1)\n"]) @?= [False, False]
        rare (replicate 10 (of' common) ++ replicate 1000 [Source Python "a.py" "x = f(1)\n"]) @?= [False, True],
      testCase "a pair of two languages of a family has tiles, one of two families none" $ do
        let c = Source C "a.c" (written C (program 2))
        assertBool "none" (not (null (matches [c] [Source Cpp "a.cpp" (sourceBytes c)])))
        matches [c] [Source Java "a.java" (sourceBytes c)] @?= []
    ]
  where
    matches left right = evidence 9 mempty (programOf 9 [] left) (programOf 9 [] right)
    name i = BC.pack (show (100 + i))
    numbers = map (BC.pack . show) [1 .. 40000 :: Int]
    one i = let l = written' !! (i `mod` 5) in Source l ("x." <> BC.pack (languageName l)) (written l (program (i `div` 3)))

-- | Two of each that a formatter takes for the same.
formatted :: [(Language, ByteString, ByteString)]
formatted =
  [(l, "f(a, \"b'c\")", "f(a, 'b\\'c')") | l <- [Python, JavaScript, TypeScript, Tsx, Ruby, Lua, R]]
    ++ [(Php, "<?php f(a, \"b'c\")", "<?php f(a, 'b\\'c')")]
    ++ [(l, "x = [f(a)]\ny = b", "x = [f(a,),];\ny = b;") | l <- [Python, JavaScript, TypeScript, Tsx, Ruby, Kotlin, Swift, Scala, Go, Lua, R, Haskell]]
    ++ [(l, "x = { f(a), b };", "x = {\n  f(a),\n  b,\n};") | l <- [C, Cpp, CSharp, Rust, Java]]
    ++ [(Python, "x = '''a\nb'''", "x = \"\"\"a\nb\"\"\"")]

-- | Two of each that a language takes for the same.
readAlike :: [(Language, ByteString, ByteString)]
readAlike =
  concat
    [ [ (l, "int f() { return 1; }\n", "int f() { // a \\\n  junk 'b \\ \t\n more\n return 1; }\n"),
        (l, "while (a) b(12);\n", "wh\\\nile (a) b\\\r\n(1\\\n2);\n"),
        (l, "#define A(x) f(x) + 1\nint a;\n", "#define A(x) f(x) \\\n  + 1\nint a;\n"),
        (l, "#include <a.h>\nint f(int *a) { return a[1]; }\n", "%:include <a.h>\nint f(int *a) <% return a<:1:>; %>\n"),
        (l, "int f(int *a) { return a[1] | ~a[2] || 0; }\n", "int f(int *a) ??< return a??(1??) ??! ??-a??(2??) ??!??! 0; ??>\n"),
        (l, "f(\"a\");\n", "f(\"a\\\n\");\n"),
        (l, "int f() { for (;;) { if (a) { b(); } else { c(); } } }\n", "int f() {; for (;;) {;; if (a) { b();; }; else { c(); }; ; } };\n")
      ]
        ++ [ (l, "a();\nb();\n", "a();\n" <> skipped' <> "b();\n")
             | skipped' <-
                 [ "#if 0\nx(); don't \"\n#endif\n",
                   "#  if false\nx();\n#if A\ny();\n#else\nz();\n#endif\n#endif /* c */\n",
                   "#if (0) // b\nx(); /*\n#endif\n*/ y();\n# endif\n",
                   "%:if 0x0UL\nx();\n%:endif\n",
                   "#if 1\n#else\nx();\n#endif\n",
                   "#if !0\n#elif A\nx();\n#else\ny();\n#endif\n",
                   "#if 0\nx();\n#elif 0\ny();\n#endif\n"
                 ]
           ]
        ++ [(l, "a();\nb();\nc();\n", "a();\n#if 0\nx();\n#else\nb();\n#endif\nc();\n")]
      | l <- [C, Cpp]
    ]
    ++ [ (Sql, "SELECT a, t.b FROM t WHERE x[1] = 2", "SELECT `a`, [t].[b] FROM [T] WHERE x[1] = 2"),
         (Kotlin, "fun f(a: Int) = g(a)\n", "fun `f`(`a`: Int) = `g`(a)\n"),
         (Python, "x = a + b\nf(x)  # c\ny\n", "x = a + \\\n   b\nf \\\n(x)  # c \\\ny\n"),
         (Ruby, "x = a + b\nf(x) # c\ny\n", "x = a + \\\n  b\nf(x) # c \\\ny\n"),
         (Java, inClass "if (a) { b(); }", inClass "\\u0069f (\\uu0061) { b\\u0028); }"),
         (Java, inClass "for (;;) { a(); } if (b) { c(); } else { d(); }", inClass ";for (;;) {; a();; }; if (b) { c(); ; ; } else { d(); };"),
         (CSharp, "if (a) { b(); }", "if (\\u0061) {; b();; };"),
         (JavaScript, "f(a, /b/, 'c\"d');", "\\u0066(a, /\\u0062/, '\\u0063\"d');")
       ]
  where
    inClass body = "class A { void m() { " <> body <> " } }"

-- | In C: none of it is skipped.
shownStill :: [ByteString]
shownStill =
  [ "/*\n#if 0\n*/ seen /*\n#endif\n*/",
    "a = \"\\\n#if 0\";\nseen\n#endif\n",
    "#if 0\nseen\n",
    "#if 0\n#endif\nseen\n#endif\n",
    "#if 0 /*\n*/ || 1\nseen\n#endif\n",
    "#if true\nseen\n#else\nseen\n#endif\n",
    "#if 0b1\nseen\n#else\n#endif\n",
    "#if A\nx\n#else\nseen\n#endif\n",
    "#if 0\n#else\n#if 1\nseen\n#endif\n#endif\n",
    "#if 0\n#elif A\nseen\n#endif\n",
    "// what??/\nseen\n",
    "#define A \\\n#if 0\nseen\n#define B \\\n#endif\n"
  ]

-- | All that the generator writes.
written', generic :: [Language]
written' = filter (`notElem` [Sql, AnyText]) [minBound ..]
generic = filter (/= Java) [minBound ..]

named :: [(ByteString, Maybe Language)]
named =
  [ ("a/B.java", Just Java),
    ("a/B.JAVA", Just Java),
    ("JAVA", Nothing),
    ("x.R", Just R),
    ("X.Hpp", Just Cpp),
    ("x.c", Just C),
    ("x.h", Just C),
    ("x.cpp", Just Cpp),
    ("x.hpp", Just Cpp),
    ("x.py", Just Python),
    ("x.js", Just JavaScript),
    ("x.ts", Just TypeScript),
    ("x.tsx", Just Tsx),
    ("x.kt", Just Kotlin),
    ("x.go", Just Go),
    ("x.rs", Just Rust),
    ("x.hs", Just Haskell),
    ("x.cs", Just CSharp),
    ("x.txt", Nothing),
    ("c", Nothing),
    ("x.class", Nothing)
  ]

-- | Imports are tokens, comments are not.
lexed' :: [(Language, ByteString, [ByteString])]
lexed' =
  [ (C, "#include <a.h> // b\nint x = 'a'; /* c */ y->z", ["#include <a.h>", "int", "x", "=", "'a'", ";", "y", "->", "z"]),
    (C, "'\\'' \"a\\\"b\" 0x1fUL 1.5e3", ["'\\''", "\"a\\\"b\"", "0x1fUL", "1.5e3"]),
    (Python, "from a import (b,\n  c)\nx = \"\"\"a\n# b\"\"\" # c", ["from a import (b,\n  c)", "x", "=", "\"\"\"a\n# b\"\"\""]),
    (Python, "import_x = f'a' + r\"b\"", ["import_x", "=", "f", "'a'", "+", "r", "\"b\""]),
    (JavaScript, "x = /a\\/[/\"]b/g / 2; y = a / b; z = `t\n${x}`", ["x", "=", "/a\\/[/\"]b/g", "/", "2", ";", "y", "=", "a", "/", "b", ";", "z", "=", "`t\n${x}`"]),
    -- Text between tags has no quotes, comments and patterns; code in it has.
    (JavaScript, "return <p a='b' c={d}>Don't // e {f('g')} can't</p> + 'h'", ["return", "<", "p", "a", "=", "'b'", "c", "=", "{", "d", "}", ">", "Don't // e", "{", "f", "(", "'g'", ")", "}", "can't", "</", "p", ">", "+", "'h'"]),
    (Tsx, "x = a && <><B.C d={{e: 1}} />it's\n  `f <i>g</i></>; 'h'", ["x", "=", "a", "&&", "<", ">", "<", "B", ".", "C", "d", "=", "{", "{", "e", ":", "1", "}", "}", "/>", "it's", "`f", "<", "i", ">", "g", "</", "i", ">", "</", ">", ";", "'h'"]),
    -- Neither a comparison nor a type is an element.
    (JavaScript, "a <b && c> d; 'e' // f", ["a", "<", "b", "&&", "c", ">", "d", ";", "'e'"]),
    (Tsx, "f = <T extends U>(a: T) => 'b'; // c\nd = <i/>", ["f", "=", "<", "T", "extends", "U", ">", "(", "a", ":", "T", ")", "=>", "'b'", ";", "d", "=", "<", "i", "/>"]),
    -- Types behind a tag's name end no tag.
    (Tsx, "t = <T<R, (x: {y: Z<'u'>}) => V> a={b} />;\nif (c > 1) { d('e'); }\nf = <T>g</T>", ["t", "=", "<", "T", "<", "R", ",", "(", "x", ":", "{", "y", ":", "Z", "<", "'u'", ">", "}", ")", "=>", "V", ">", "a", "=", "{", "b", "}", "/>", ";", "if", "(", "c", ">", "1", ")", "{", "d", "(", "'e'", ")", ";", "}", "f", "=", "<", "T", ">", "g", "</", "T", ">"]),
    (Tsx, "t = <T<R>>it's</T>; u = <U<R> /> + 'v'", ["t", "=", "<", "T", "<", "R", ">", ">", "it's", "</", "T", ">", ";", "u", "=", "<", "U", "<", "R", ">", "/>", "+", "'v'"]),
    (TypeScript, "f = <T>(a) => 'b'; c = <T>d; // </T>", ["f", "=", "<", "T", ">", "(", "a", ")", "=>", "'b'", ";", "c", "=", "<", "T", ">", "d", ";"]),
    (Ruby, "a =~ /b'c/i; puts /'d/\ne / f / g", ["a", "=", "~", "/b'c/i", ";", "puts", "/'d/", "e", "/", "f", "/", "g"]),
    (Ruby, "w = %w(don't (x) y); r = %r{'}; m = a % b; q %'c'", ["w", "=", "%w(don't (x) y)", ";", "r", "=", "%r{'}", ";", "m", "=", "a", "%", "b", ";", "q", "%'c'"]),
    (JavaScript, "import(x).then(y)", ["import", "(", "x", ")", ".", "then", "(", "y", ")"]),
    (Kotlin, "/* a /* b */ c */ x..y", ["x", ".", ".", "y"]),
    (Go, "import (\n \"a\"\n)\nx := `a\\`", ["import (\n \"a\"\n)", "x", ":=", "`a\\`"]),
    (Rust, "fn f<'a>(x: &'a str) { \"a\nb\" }", ["fn", "f", "<", "'", "a", ">", "(", "x", ":", "&", "'", "a", "str", ")", "{", "\"a\nb\"", "}"]),
    (Haskell, "import A\nx' = a --> b -- c\n{- {- -} -} y 'q'", ["import A", "x'", "=", "a", "--", ">", "b", "y", "'q'"]),
    (CSharp, "using System;\nusing (var x = y) { @\"a\\\"; }", ["using System;", "using", "(", "var", "x", "=", "y", ")", "{", "@\"a\\\"", ";", "}"]),
    (Lua, "--[[ a\nb ]] x = [[a]] -- c", ["x", "=", "[[a]]"]),
    -- Ends that are made of openings.
    (Lua, "--[==[ a ]] ' ]==] x = [=[ --[[ ]] ]=] y", ["x", "=", "[=[ --[[ ]] ]=]", "y"]),
    (Cpp, "R\"q(a )\" /* ' )q\" u8R\"(\")\" R \"b\"", ["R\"q(a )\" /* ' )q\"", "u8R\"(\")\"", "R", "\"b\""]),
    (Rust, "r#\"a \" /*\"# br\"\\\" r#b", ["r#\"a \" /*\"#", "br\"\\\"", "r", "#", "b"]),
    (Swift, "#\"a\" /*\"# #if \"b\\(c(\"/*\"))\" d", ["#\"a\" /*\"#", "#", "if", "\"b\\(c(\"/*\"))\"", "d"]),
    (CSharp, "$@\"\\\" @$\"\n/*\" \"\"\"\"a \"\"\" /*\"\"\"\" \"\" b", ["$@\"\\\"", "@$\"\n/*\"", "\"\"\"\"a \"\"\" /*\"\"\"\"", "\"\"", "b"]),
    (R, "r\"-(a)\" ')-\" R'[\"]' r(b) \"'(\" c", ["r\"-(a)\" ')-\"", "R'[\"]'", "r", "(", "b", ")", "\"'(\"", "c"]),
    (Php, "<?php f(<<<A\n don't\n  A, <<<'B'\n/* A\nB);\nx", ["<?php", "f", "(", "<<<A", " don't\n  A", ",", "<<<'B'", "/* A\nB", ")", ";", "x"]),
    (Ruby, "f(<<~A, <<-'B') # c\n don't\n A\n\"\n B\nx << y; z <<C", ["f", "(", "<<~A", ",", "<<-'B'", ")", " don't\n A\n\"\n B", "x", "<<", "y", ";", "z", "<<", "C"]),
    -- Code in texts has texts.
    (JavaScript, "`a${b(`/*`, '`')}` c", ["`a${b(`/*`, '`')}`", "c"]),
    (Kotlin, "\"a${b[\"/*\"]}\" c", ["\"a${b[\"/*\"]}\"", "c"]),
    (Ruby, "\"a#{b(\"#\")}\" c", ["\"a#{b(\"#\")}\"", "c"]),
    -- Between tags stands code, and no text goes on behind them.
    (Sql, "AS $$ don't x $$ 'b' $a$ $$ y $$ 'z' $a$; $1", ["AS", "$$", "don", "'", "t", "x", "$$", "'b'", "$a$", "$$", "y", "$$", "'z'", "$a$", ";", "$1"]),
    (Sql, "a[i] [b c] `d e` [1, 2]", ["a", "[", "i", "]", "[b c]", "`d e`", "[", "1", ",", "2", "]"]),
    -- A statement that is empty means nothing; a semicolon that ends a value or a type does.
    (Java, "enum A { B(1) { int c() {; } }; }; int[] d = { 1 }; e = f -> { g();; }; new H() { };", ["enum", "A", "{", "B", "(", "1", ")", "{", "int", "c", "(", ")", "{", "}", "}", ";", "}", ";", "int", "[", "]", "d", "=", "{", "1", "}", ";", "e", "=", "f", "->", "{", "g", "(", ")", ";", "}", ";", "new", "H", "(", ")", "{", "}", ";"]),
    (C, "struct a { int b; }; while (c); if (d) ; x = (int[]) { 1 };", ["struct", "a", "{", "int", "b", ";", "}", ";", "while", "(", "c", ")", ";", "if", "(", "d", ")", ";", "x", "=", "(", "int", "[", "]", ")", "{", "1", "}", ";"]),
    (Cpp, "a<::b> x; c<:1:> \"<:\"; auto f = [](int y) { };", ["a", "<", "::", "b", ">", "x", ";", "c", "<:", "1", ":>", "\"<:\"", ";", "auto", "f", "=", "[", "]", "(", "int", "y", ")", "{", "}", ";"]),
    -- A sharp sign does not always open a comment, nor only where it always does.
    (Php, "<?php #[A] f(); # b", ["<?php", "#[", "A", "]", "f", "(", ")", ";"]),
    (Sql, "# don't\na # b\n  #> 'c'", ["a", "#", "b", "#", ">", "'c'"]),
    (Ruby, "a\n__END__ b\n__END__\nc", ["a", "__END__", "b"]),
    (Sql, "SELECT 'a''b' -- c", ["SELECT", "'a'", "'b'"]),
    (R, "a.b <- 1 # c", ["a.b", "<-", "1"]),
    (AnyText, "don't // c\n# d\n#!e\nhttp://f", ["don", "'", "t", "#", "d", "http", ":", "/", "/", "f"]),
    -- A preamble hides no code behind it, and no comment.
    (Cpp, "using namespace std; int f() { }\nusing A = struct { int x; }", ["using namespace std;", "int", "f", "(", ")", "{", "}", "using", "A", "=", "struct", "{", "int", "x", ";", "}"]),
    (Python, "import a; x = 1\nimport b # :(\ny", ["import a;", "x", "=", "1", "import b", "y"]),
    (Go, "package a; import \"b//c\"; func f() {", ["package a;", "import \"b//c\";", "func", "f", "(", ")", "{"]),
    (Go, "import (\n \"a\" // b\n /* c */ \"d\"\n) // e\nx", ["import (\n \"a\"", "\"d\"\n)", "x"]),
    (Rust, "use a::{b,\n c}; fn f() {\nuse {\ng", ["use a::{b,\n c};", "fn", "f", "(", ")", "{", "use", "{", "g"]),
    (JavaScript, "import {a,\n b} from 'c' /* d */; e", ["import {a,\n b} from 'c'", ";", "e"]),
    (Haskell, "module A\n  ( b, -- c\n    d\n  )\nwhere e\nimport {-# SOURCE #-} F", ["module A\n  ( b,", "d\n  )\nwhere", "e", "import", "F"]),
    (Php, "<?php namespace A; namespace B { use C\\{D, E}; x", ["<?php", "namespace A;", "namespace", "B", "{", "use", "C", "\\", "{", "D", ",", "E", "}", ";", "x"]),
    (Scala, "package a { x", ["package", "a", "{", "x"]),
    -- Only within its marks a text is PHP.
    (Php, "<b>it's\n a</b>\n<?php f('b'); // c ?> d's\n<?= $e", ["<b>it's", "a", "</b>", "<?php", "f", "(", "'b'", ")", ";", "?>", "d's", "<?=", "$e"]),
    -- A run of dashes is one sign, if no comment.
    (Haskell, "a ---> b\n--| c", ["a", "---", ">", "b", "--", "|", "c"]),
    (Lua, "---@param x\na", ["a"]),
    (Sql, "--=====\na", ["a"]),
    -- A carriage return ends a line.
    (Python, "# a\rb = 'c\rimport d\re", ["b", "=", "'c", "import d", "e"]),
    (C, "#include <a>\r\nb // c\rd", ["#include <a>", "b", "d"]),
    (Ruby, "a\n=begin\nb 'c\n =end\n=end d\ne =begin", ["a", "e", "=", "begin"])
  ]

-- | Errors, and those that are openings.
unclosed :: [(Language, ByteString, Int, Int)]
unclosed =
  [ (C, "/* /*", 2, 2),
    (C, "\"abc", 1, 0),
    (Python, "\"\"\" a \"\"\" \"\"\"", 1, 1),
    (Go, "`", 1, 1),
    (Haskell, "{- {- -}", 2, 2),
    (Rust, "\"", 1, 1),
    (Ruby, "=begin", 1, 1),
    (Cpp, "R\"a(", 1, 1),
    (Lua, "--[=[ [=[", 2, 2),
    (JavaScript, "`${", 1, 1),
    (Ruby, "<<~A", 0, 0),
    (Sql, "$a$", 1, 1),
    (Sql, "$$ ' $$", 1, 1),
    (C, "\x01", 1, 0)
  ]

spelled :: Language -> ByteString -> [ByteString]
spelled l text = map (tokenText text ts) [0 .. tokenCount ts - 1]
  where
    ts = lexSource l text

spelledKinds :: Language -> ByteString -> VU.Vector Word8
spelledKinds l = tokenKinds . lexSource l

anySource :: Gen (Language, ByteString)
anySource = (,) <$> elements generic <*> (B.concat <$> listOf (oneof [elements pieces, B.pack <$> vectorOf 3 arbitrary]))
  where
    pieces = ["/*", "*/", "//", "#", "--", "{-", "-}", "\"", "'", "`", "\"\"\"", "'''", "\\", "\n", " ", "x", "12.5", "import ", "import (", "(", ")", "{", "}", "[[", "]]", "/", "[", "]", "=", "->", "\xc3\xa9", "\0", "\r", "use {", "module ", "where", ";", "<?php", "?>", "=begin", "=end", "<a>", "</a>", "<b/>", "<", ">", "%w(", "%", "$$", "$a$", "\\\n", "??/", "??=", "<%", "%:", "#if 0\n", "\n#else\n", "\n#endif\n", ";", "\\u0061"]

wellFormed :: Int -> Tokens -> Bool
wellFormed size ts = and (zipWith (<=) (0 : ends) starts) && and (zipWith (<) starts ends) && all (<= size) ends && tokenUnclosed ts <= tokenErrors ts && all ((`elem` [minBound .. maxBound]) . tokenKind ts) is && tokenErrors ts == length (filter ((== Token.Error) . tokenKind ts) is)
  where
    is = [0 .. tokenCount ts - 1]
    (starts, ends) = (map (tokenStart ts) is, map (tokenEnd ts) is)

hardUnits :: [ByteString]
hardUnits = ["\"", "\\\"", "'", "/*", "/* ", "{-", "/", "/[", "=/", "\"\"\"", "'''", "`", "import (", "\nimport (", "\nuse {", "\nimport /*", "\nmodule ", "--", "--\n", "\r", "[[", "(", "\xff", "$", "=<a ", "=<a {", "=<a>", "=<a>{", "=<a<", "%w(", "= %(", "R\"a(", "r#\"", "<<~A ", "\"#{", "`${", "[==[", "$$", "$$ ", "\\\n", "??/\n", "\n#if 0\n", "\\ ", "{;", "\\u0061"]

longLine :: Language -> ByteString -> Assertion
longLine l unit = timeout 20000000 (pure $! VU.sum (tokenEnds (lexSource l (B.concat (replicate (max 1 (200000 `div` B.length unit)) unit)))) `seq` ()) >>= (@?= Just ())

-- | A program in each language that has a grammar, and what it does.
acted :: [(Language, ByteString, [Act])]
acted =
  [ (C, "#include <a.h>\nint f(int *a, int n) { int s = 0, unused = 1; for (int i = 0; i < n; i++) { if (a[i] > 0) s += a[i]; else break; } return g(s); }", method ([Assigns] ++ counted [Choose, Compares, Indexes, Assigns, Computes, Indexes, Otherwise, Break] ++ [Return, Apply])),
    (Cpp, "using namespace std;\nclass A { int f() { for (auto x : xs) { try { throw 1; } catch (int e) { h(); } } return 1; } };", [Class] ++ method [Loop, Try, Throw, Catch, Apply, Return] ++ [ClassEnd]),
    (Python, "import a\nclass A(B):\n    def f(self, xs):\n        for x in xs:\n            if not x > 0:\n                s += 1\n            else:\n                continue\n        return g(s)\n", [Class] ++ method [Loop, Choose, Compares, Continue, Otherwise, Assigns, Computes, Return, Apply] ++ [ClassEnd]),
    (JavaScript, "import a from 'b';\nfunction f(xs) { let s = g(); for (let i = 0; i < n; i++) { s++; } const h = (x) => x === 1; return h(s); }", method ([Assigns, Apply] ++ counted [Assigns, Computes] ++ [Assigns, Lambda, Compares, Return, Apply])),
    (TypeScript, "class A { b: number = 1; f(x: number): number { return x > 0 ? this.b : g(x); } }", [Class, Assigns] ++ method [Return, Choose, Compares, Otherwise, Apply] ++ [ClassEnd]),
    (Tsx, "function f(xs: number[]) { const s = g(); return <p title={h(s)}>Don't {s > 0 ? k(s) : <b/>}</p>; }", method [Assigns, Apply, Return, Apply, Choose, Compares, Apply, Otherwise]),
    (Kotlin, "package a\nfun f(xs: List<Int>): Int {\n var s = g()\n for (x in xs) { if (x > 0) { s += x } else { s++ } }\n return s }", method [Assigns, Apply, Loop, Choose, Compares, Assigns, Computes, Otherwise, Assigns, Computes, Return]),
    (Go, "package a\nimport \"b\"\nfunc f(xs []int) int { s := 0; for i := 0; i < len(xs); i++ { s += xs[i] }\n return s }", method ([Assigns, Assigns, Loop, Compares, Apply, Assigns, Computes, Indexes, Assigns, Computes] ++ [Return])),
    (Rust, "use std::io;\nimpl A { fn f(&self, xs: &[i32]) -> i32 { let mut s = g(); while s > 1 { s -= 1; } if s != 2 { return 1; } else { h(); } s } }", [Class] ++ method [Assigns, Apply, Loop, Compares, Assigns, Computes, Choose, Compares, Apply, Otherwise, Return] ++ [ClassEnd]),
    (Haskell, "module A where\nf :: Int -> Int\nf x\n  | x > 0 = g x\n  | otherwise = if x == 1 then 2 else h x\n", method [Choose, Compares, Apply, Choose, Choose, Compares, Otherwise, Apply])
  ]
  where
    method acts = [Method] ++ acts ++ [MethodEnd]
    -- A loop of i from 0 to below a variable.
    counted acts = [Assigns, Loop, Compares] ++ acts ++ [Assigns, Computes]

-- | How many errors; the acts.
actsOf :: Language -> Grammar -> ByteString -> (Int, [Act])
actsOf l g text = maybe (-1, []) (\p -> (parsedErrors p, actsIn p)) (parse g (bareOf l text))

-- | Programs with other names.
renamed :: [(Language, ByteString, ByteString)]
renamed =
  [ (Python, "a = 1\nprint(f\"is {a:.2f} of {len(a)}{{x}}\", 'b {c}')", "z = 1\nprint(f\"is {z:.2f} of {len(z)}{{x}}\", 'b {y}')"),
    (JavaScript, "f(`is ${a} of ${ {b: [c]}[d] } c`)", "g(`is ${z} of ${ {y: [x]}[w] } c`)"),
    (TypeScript, "f(`${a}`)", "g(`${z}`)"),
    (Tsx, "f(`${a}`)", "g(`${z}`)"),
    (Kotlin, "f(\"$a is ${b.c} of $\")", "g(\"$z is ${y.x} of $\")"),
    (Scala, "f(s\"$a is ${b.c}\", s\"\"\"$a\"\"\")", "g(s\"$z is ${y.x}\", s\"\"\"$z\"\"\")"),
    (Rust, "f!(\"is {a:>4} of {}\", b)", "g!(\"is {z:>4} of {}\", y)"),
    (CSharp, "f($\"is {a} of {b.c}\");", "g($\"is {z} of {y.x}\");"),
    (Php, "<?php f(\"is $a of {$b->c}\");", "<?php g(\"is $z of {$y->x}\");"),
    (Ruby, "f(\"is #{a} of #{b { c }} c\")", "g(\"is #{z} of #{y { x }} c\")"),
    (Swift, "f(\"is \\(a) of \\(b(c)) c\")", "g(\"is \\(z) of \\(y(x)) c\")")
  ]

-- | What differs in them is no name.
otherTexts :: [(Language, ByteString, ByteString)]
otherTexts =
  [ (Python, "f(f\"is {a}\")", "f(f\"was {a}\")"),
    (Python, "f(f\"{a:.2f}\")", "f(f\"{a:.3f}\")"),
    (JavaScript, "f(\"{a}\")", "f(\"{b}\")"),
    (Kotlin, "f(\"$a is 1\")", "f(\"$a is 2\")"),
    (Ruby, "f(\"#{a} b\")", "f(\"#{a} c\")"),
    (Java, "f(\"${a}\");", "f(\"${b}\");"),
    (Go, "f(\"{a}\")", "f(\"{b}\")")
  ]

-- | The lexical view as the kernels take it: of names only which are the same.
numbered :: Views -> [Word32]
numbered views = [if isName c then 0x80000000 + fromIntegral (length (nub (filter isName (takeWhile (/= c) lexical)))) else c | c <- lexical]
  where
    lexical = primArrayToList (lexicalView views)
    isName c = c >= 0x80000000

viewed :: Language -> Grammars -> ByteString -> (Views, Int, Parse)
viewed l grammars text = viewsOf grammars Nothing [lexed (Source l "" text)]

fst3 :: (a, b, c) -> a
fst3 (a, _, _) = a

thd3 :: (a, b, c) -> c
thd3 (_, _, c) = c

sameViews :: Language -> Grammars -> Assertion
sameViews l grammars = forM_ [1 .. 5] $ \s -> forM_ [[Commented], [Reformatted], [Commented, Reformatted]] $ \how ->
  assertEqual (show (s, how)) (viewed l grammars (written l (program s))) (viewed l grammars (disguised l s how (program s)))

-- | Six programs, of each a copy in each disguise and in all of them.
ranked :: Language -> Grammars -> Int -> Property
ranked l grammars seed = counterexample (show (least, most)) (least > most)
  where
    disguises = map pure [minBound ..] ++ [[minBound ..]]
    entries = [newEntry (BC.pack (show (100 * p + n))) [Source l "x" text] | p <- [1 .. 6], (n, text) <- zip [1 :: Int ..] (let made = program (7 * seed + p) in written l made : [disguised l (seed + p) how made | how <- disguises])]
    report = assembled config prepared (comparePrepared map config prepared)
    config = defaultConfig {configGrammars = grammars}
    prepared = prepare map config (corpusOf entries [])
    pairs = [(of' (pairLeft p) == of' (pairRight p), pairSimilarity p) | p <- pairList (reportPairs report)]
    of' i = BC.take 1 (submissionName (reportSubmissions report V.! i))
    least = minimum [s | (True, s) <- pairs]
    most = maximum (0 : [s | (False, s) <- pairs])

said :: ParallelMap -> Corpus -> BL.ByteString
said parallel corpus = Builder.toLazyByteString (json (reported parallel corpus))

reported :: ParallelMap -> Corpus -> Report
reported parallel corpus = assembled defaultConfig prepared (comparePrepared parallel defaultConfig prepared)
  where
    prepared = prepare parallel defaultConfig corpus

-- | Two in C and C++, two in Python and one in both.
severalFamilies :: Assertion
severalFamilies = do
  let of' l s = Source l ("x." <> BC.pack (languageName l)) (written l (program s))
      corpus = corpusOf [newEntry "c" [of' C 1], newEntry "cpp" [of' Cpp 1], newEntry "py" [of' Python 1], newEntry "py2" [of' Python 1], newEntry "both" [of' C 2, of' Python 1]] []
      report = reported map corpus
      name i = submissionName (reportSubmissions report V.! i)
  (reportCompared report, reportApart report) @?= (6, 4)
  [(name (pairLeft p), name (pairRight p)) | p <- pairList (reportPairs report), pairSimilarity p == 1] @?= [("py", "py2")]
  said map corpus @?= said (\f -> reverse . map f . reverse) corpus
