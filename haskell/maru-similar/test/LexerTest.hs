{-# LANGUAGE OverloadedStrings #-}

module LexerTest (tests) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word8)
import Maru.Similar.Lexer.Java
import Maru.Similar.Shape
import Maru.Similar.Token
import Snippets
import System.Timeout (timeout)
import Test.QuickCheck (Gen, choose, elements, forAllShow, frequency, listOf, oneof, vectorOf)
import qualified Test.QuickCheck as Q
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Lexer.Java"
    [ testGroup "one lexeme" [testCase (show text) (kindsOf text @?= [kind]) | (text, kind) <- lexemes],
      testGroup "several" [testCase (show text) (kindsOf text @?= expected) | (text, expected) <- sequences],
      testCase "every kind of Java has an example" everyKind,
      testCase "errors are counted, one token a run" $ do
        kindsOf "a ## \x01 b" @?= [Identifier, Error, Error, Identifier]
        tokenErrors (lexJava "a ## \x01 b") @?= 2
        tokenErrors (lexJava "s = \"no end\n/* none either") @?= 2
        tokenErrors (lexJava "\"\"\"\n no end") @?= 1,
      testCase "a comment or text block that does not end hides nothing" $ do
        let opened = kindsOf ("/* /* \"\"\"\n " <> plain)
        opened @?= [Error, Error, Error] ++ kindsOf plain
        map (tokenUnclosed . lexJava) ["/* /* x", "\"\"\"\n x", "/* */ x", "\"no end", "\"\"\"\n \"\"\" /*"] @?= [2, 1, 0, 0, 1],
      testCase "prose is not Java, and every program here is" $ do
        map (notJava . lexJava) [prose, "Sorry I lost it", "Words; and a few semicolons which help nobody at all; {braces} as well.", "#!/bin/sh\nls", "def f(x):\n  return x\n"]
          @?= [True, True, True, True, True]
        map (notJava . lexJava) (["", "// nothing", "package a;", "@Inherited non-sealed interface A { }", "int[] a = { 1, 2, 3 };"] ++ programs) @?= replicate (5 + length programs) False
        shapeStretches (shapeOf (lexJava prose)) @?= 2,
      testCase "unicode escapes" unicodeEscapes,
      property "any bytes: tokens and blanks are the source" 500 (forAllBytes anyBytes coversSource),
      property "Java-like bytes: tokens and blanks are the source" 1000 (forAllBytes javaLike coversSource),
      property "lexing the tokens again gives them again" 1000 (forAllBytes javaLike relexes),
      testGroup "4 MB in one line, in time" [testCase (show (B.take 8 unit)) (longLine unit) | unit <- hardUnits]
    ]

-- | Without comments.
plain :: ByteString
plain = "class A { int f(int n) { return n + 1; } }"

prose :: ByteString
prose = "Dear reader, this is my essay on sorting algorithms and why they matter. I hope you enjoy it; thanks (again) for reading."

kindsOf :: ByteString -> [Kind]
kindsOf source = map (tokenKind ts) [0 .. tokenCount ts - 1]
  where
    ts = lexJava source

lexemes :: [(ByteString, Kind)]
lexemes =
  [(text, IntLiteral) | text <- ["0", "17", "1_000_000L", "0xCAFE_babeL", "0b1010_0101", "0777", "0l"]]
    ++ [(text, FloatLiteral) | text <- ["1.", ".5", "1.5e-3f", "1e10", "2D", "0x1.8p1", "0x.8P-2f", "0xAp3", "1_0.0_1"]]
    ++ [(text, CharLiteral) | text <- ["'a'", "'\\n'", "'\\''", "'\\\\'", "'\\177'", "'\xc3\xa9'", "'\"'", "'\\u0041'"]]
    ++ [(text, StringLiteral) | text <- ["\"\"", "\"a\\\"b\"", "\"\\\\\"", "\"// no comment\"", "\"\xe9\"", "\"\\u0041\""]]
    ++ [(text, TextBlock) | text <- ["\"\"\"\n a \"quoted\" b\n\"\"\"", "\"\"\" \t\n\\\"\"\" \"\"\"", "\"\"\"\r\n\"\"\""]]
    ++ [(text, Identifier) | text <- ["x", "_x", "$", "var", "record", "sealed", "yield", "permits", "na\xc3\xafve", "\\u0061b", "truely"]]
    ++ [(text, kind) | (text, kind) <- zip keywordTexts [KwTrue ..]]
    ++ [(text, kind) | (text, kind) <- zip symbolTexts [ParenOpen ..]]
    ++ [("#", Error)]

keywordTexts :: [ByteString]
keywordTexts =
  BC.words
    "true false null abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for goto if implements import instanceof int interface long native new package private protected public return short static strictfp super switch synchronized this throw throws transient try void volatile while _"

symbolTexts :: [ByteString]
symbolTexts =
  BC.words
    "( ) { } [ ] ; , . ... @ :: = > < ! ~ ? : -> == >= <= != && || ++ -- + - * / & | ^ % << += -= *= /= &= |= ^= %= <<="

sequences :: [(ByteString, [Kind])]
sequences =
  [ ("", []),
    (" \t\r\n\f // c", []),
    ("/* a * / \" */ x /**/ // y\n z", [Identifier, Identifier]),
    ("List<List<T>>", [Identifier, Less, Identifier, Less, Identifier, Greater, Greater]),
    ("a >>>= b", [Identifier, Greater, Greater, GreaterEqual, Identifier]),
    ("1..2", [FloatLiteral, FloatLiteral]),
    ("x=+++y", [Identifier, Assign, Increment, Plus, Identifier]),
    ("0x", [IntLiteral, Identifier]),
    ("@Override non-sealed", [At, Identifier, Identifier, Minus, Identifier]),
    ("\"open\nnext", [StringLiteral, Identifier]),
    ("'open", [Error, Identifier]),
    ("/* open", [Error, Identifier]),
    ("\xef\xbb\xbf\&class", [KwClass])
  ]

everyKind :: Assertion
everyKind = [k | k <- [minBound .. maxBound], k `notElem` map snd lexemes, k `notElem` [Mark, Preamble]] @?= []

unicodeEscapes :: Assertion
unicodeEscapes = do
  kindsOf "\\u0061bstract \\uuu0063lass" @?= [KwAbstract, KwClass]
  kindsOf "\\u0022x\\u0022" @?= [StringLiteral]
  kindsOf "\"\\\\u0022\"" @?= [StringLiteral]
  kindsOf "// \\u000a int" @?= [KwInt]
  kindsOf "\\u00e9\\uD83D\\uDE00" @?= [Identifier]
  let source = "x = \\u0031\\u0032 ;"
      ts = lexJava source
  map (tokenText source ts) [0 .. tokenCount ts - 1] @?= ["x", "=", "\\u0031\\u0032", ";"]

forAllBytes :: Gen ByteString -> (ByteString -> Bool) -> Q.Property
forAllBytes gen = forAllShow gen show

anyBytes :: Gen ByteString
anyBytes = B.pack <$> oneof [listOf (choose (0, 255)), listOf (elements (map fromIntegral hard))]
  where
    hard = map fromEnum ("\"'\\/*\nu0 a.e+-_x" :: String)

-- | Lexemes, whole and broken, with and without blanks between them.
javaLike :: Gen ByteString
javaLike = B.concat <$> listOf (frequency [(8, elements (map fst lexemes)), (6, elements blanks), (1, elements broken), (1, some)])
  where
    blanks = [" ", "\n", "\t", "/* c */", "// c\n", "\r\n"]
    broken = ["\"", "'", "\\", "/*", "\"\"\"", "*/", "\\u00", "0x", "1e"]
    some = B.pack <$> (choose (1, 3) >>= \n -> vectorOf n (choose (0, 255) :: Gen Word8))

-- | Tokens ascend without overlap, are not empty, and between them is nothing but
-- blanks and comments. (A source without escapes, whose gaps can be judged.)
coversSource :: ByteString -> Bool
coversSource source = "\\u" `B.isInfixOf` source || go 0 0
  where
    ts = lexJava source
    n = tokenCount ts
    go i from
      | i == n = blank (B.drop from source)
      | otherwise = s >= from && e > s && blank (B.take (s - from) (B.drop from source)) && go (i + 1) e
      where
        s = tokenStart ts i
        e = tokenEnd ts i

blank :: ByteString -> Bool
blank text = case BC.uncons text of
  Nothing -> True
  Just (c, rest)
    | c `elem` (" \t\n\r\f\v\x1a" :: String) -> blank rest
    | "//" `B.isPrefixOf` text -> blank (BC.dropWhile (`notElem` ("\r\n" :: String)) text)
    | "/*" `B.isPrefixOf` text -> blank (afterClose (B.drop 2 text))
    | otherwise -> "\xef\xbb\xbf" `B.isPrefixOf` text && blank (B.drop 3 text)
  where
    afterClose t = case B.breakSubstring "*/" t of
      (_, close) -> B.drop 2 close

relexes :: ByteString -> Bool
relexes source = tokenErrors ts > 0 || kindsOf (BC.intercalate "\n" texts) == kindsOf source
  where
    ts = lexJava source
    texts = map (tokenText source ts) [0 .. tokenCount ts - 1]

hardUnits :: [ByteString]
hardUnits = ["\"\"\"\n", "\"\"\"\n\\", "x", " ", ";", "\"\\", "\\\"", "'", "/*", "/", "\"", "1_", "1e", "0x1.", "\\u", "\\u0022", "\xff", "#", "a.b(1, \"c\");", "\"\"\""]

longLine :: ByteString -> Assertion
longLine unit = do
  done <- timeout 20000000 (pure $! VU.sum (tokenEnds (lexJava line)) `seq` ())
  done @?= Just ()
  where
    line = B.concat (replicate (4000000 `div` B.length unit) unit)
