{-# LANGUAGE OverloadedStrings #-}

module MutateTest (tests) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Word (Word64)
import Maru.Similar
import Maru.Similar.Lexer.Java
import Maru.Similar.Mutate
import Maru.Similar.Token
import Snippets
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Mutate"
    [ testGroup "neutral operators leave a similarity of 1" [testCase (show op) (neutral op) | op <- allOperators, tokenNeutral op],
      testGroup "every operator changes something" [testCase (show op) (changes op) | op <- allOperators],
      testGroup "an example of each" [testCase (show op) (assertBool (show wanted) (any (wanted `B.isInfixOf`) (variants op source))) | (op, source, wanted) <- examples],
      testCase "methods are swapped whole" methodsSwapped,
      property "the same seed, the same copy" 50 $ \seed -> disguise seed bubble === disguise seed bubble,
      property "copies lex without errors and stay similar" 300 staysSimilar,
      testCase "each strength does what those below it do, and more" $
        [all (`elem` operatorsOf (s + 1)) (operatorsOf s) && length (operatorsOf s) < length (operatorsOf (s + 1)) | s <- [1 .. 5]] @?= replicate 5 True,
      testCase "the highest strength does all" $ operatorsOf 6 @?= allOperators,
      property "any strength of anything keeps the nesting, and is the same again" 200 $ \seed strength ->
        let ops = operatorsOf (1 + abs strength `mod` 6)
            nesting text = [[length (filter (== k) (kindsOf text)) | k <- pair] | pair <- [[BraceOpen, BraceClose], [ParenOpen, ParenClose]]]
            whole text = all (\counts -> take 1 counts == drop 1 counts) (nesting text)
         in conjoin [counterexample (BC.unpack copy) (whole copy && tokenErrors (lexJava copy) == 0 && copy == mutate seed ops p) | p <- programs, let copy = mutate seed ops p]
    ]

kindsOf :: ByteString -> [Kind]
kindsOf text = map (tokenKind tokens) [0 .. tokenCount tokens - 1]
  where
    tokens = lexJava text

disguise :: Word64 -> ByteString -> ByteString
disguise seed = mutate seed (someOperators seed)

variants :: Operator -> ByteString -> [ByteString]
variants op source = [mutate seed [op] source | seed <- [1 .. 30]]

neutral :: Operator -> Assertion
neutral op = [() | p <- programs, copy <- variants op p, similarityOf p copy /= 1] @?= []

changes :: Operator -> Assertion
changes op = assertBool "no variant differs" (or [copy /= p | p <- bothWays : programs, copy <- variants op p])
  where
    bothWays = "class A { int f(int a) { if (a > 1) { return 1; } else { return 2; } } }"

examples :: [(Operator, ByteString, ByteString)]
examples =
  [ (Rename, "class A { int total = 0; void f() { total++; } }", "int v2 = 0; void v1() { v2++; }"),
    (StripComments, "int a; // one\n/* two */ int b;", "int a; \n  int b;"),
    (Layout, "class A {\n    int a;\n}", "\n\tint a;"),
    (DeadDeclarations, "class A { void f() { g(); h(); } }", "g();\n        int unused"),
    (ForToWhile, "for (int i = 0; i < n; i++) { f(i); }", "{int i = 0; while ( i < n) { f(i); i++; } }"),
    (CompoundIncrement, "x++;", "x += 1;"),
    (ExtraParentheses, "return a + b;", "return (a + b);"),
    (FlipComparisons, "if (a < b)", "if (b > a)"),
    (SplitDeclarations, "class A { void f() { int a = 1; } }", "int a; a = 1;"),
    (ExpandAssignments, "; a += b;", "a = a + b;"),
    (InvertConditions, "if (a) { b(); } else { c(); }", "if (!(a)) { c(); } else { b(); }"),
    (InsertPrints, "class A { void f() { g(); h(); } }", "g();\n        System."),
    (InsertMuch, "class A { void f() { g(); h(); } }", "g();\n        for (int skip")
  ]

methodsSwapped :: Assertion
methodsSwapped = do
  let source = "class A { int x; void f() { if (y) { g(); } } int g() { return 1; } }"
      swapped = "class A { int x; int g() { return 1; } void f() { if (y) { g(); } } }"
  assertBool "never swapped" (swapped `elem` variants MethodSwap source)
  [v | v <- variants MethodSwap source, v `notElem` [source, swapped]] @?= []

staysSimilar :: Word64 -> Property
staysSimilar seed = conjoin [judge p | p <- programs]
  where
    judge p = counterexample (BC.unpack copy) (tokenErrors (lexJava copy) == 0 && similarityOf p copy > 0.35)
      where
        copy = disguise seed p

similarityOf :: ByteString -> ByteString -> Double
similarityOf a b = sum [pairSimilarity p | p <- pairList (reportPairs report)]
  where
    prepared = prepare map seedConfig (corpusOf [newEntry "a" [javaSource "a" a], newEntry "b" [javaSource "b" b]] [])
    report = assembled seedConfig prepared (comparePrepared map seedConfig prepared)
