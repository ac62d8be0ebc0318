{-# LANGUAGE OverloadedStrings #-}

module StructureTest (tests) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as BC
import Maru.Similar.Lexer.Java
import Maru.Similar.Structure
import Maru.Similar.Token
import Snippets
import System.Timeout (timeout)
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Structure"
    [ testCase "all of a small program" $
        actsOf "import a.B; @X(y = 1) class A<T> { int f = 1, g; A(int n) { this.f = n; } public void m() { for (;;) { if (f()) { return; } } } }"
          @?= [Class, Assigns, Method, Assigns, MethodEnd, Method, Loop, Choose, Apply, Return, MethodEnd, ClassEnd],
      testGroup
        "written otherwise, the same acts"
        [ testCase name (actsOf (inMethod one) @?= actsOf (inMethod other))
          | (name, one, other) <-
              [ ("loops", "while (a) { b(); }", "for (;a;) b();"),
                ("do", "while (a) { b(); }", "do { b(); } while (a);"),
                ("assignments", "x = x + 1;", "x++;"),
                ("compound", "x = x + 1;", "x += 1;"),
                ("parentheses", "return a;", "return ((a));"),
                ("types", "final int x = 1;", "double x = 2.5;"),
                ("declarations without a value", "a();", "int x; String s; a();"),
                ("comparisons", "if (a < b) c();", "if (b > a) { c(); }"),
                ("annotations", "a();", "@SuppressWarnings({\"x\", y(1)}) int x; a();"),
                ("wildcards", "f();", "java.util.Map<? extends K, ?> m; f();")
              ]
        ],
      testCase "what is no call, and what is" $
        actsOf (inMethod "new A(b()); int[] c = {1, 2}; boolean d = a > f(x); g(() -> h()); super(1);")
          @?= inside [New, Apply, Assigns, Assigns, Apply, Apply, Lambda, Apply, Apply],
      testCase "methods of a class without a name" $
        actsOf (inMethod "r = new R() { public void run() { a(); } };") @?= inside [Assigns, New, Method, Apply, MethodEnd],
      -- A tenth of a second; by looking for each end anew, minutes.
      testCase "parentheses and annotations that do not end take linear time" $ do
        done <- timeout 20000000 (mapM_ (\(part, n) -> length (actsOf (BC.concat (replicate 400000 part))) @?= n) [("while(", 400000), ("@a(", 0), ("while)(", 400000)])
        done @?= Just (),
      property "any bytes: at most one act a token, in order" 300 ordered
    ]

actsOf :: ByteString -> [Act]
actsOf = map fst . skeleton . lexJava

inMethod :: ByteString -> ByteString
inMethod body = "class A { void m() { " <> body <> " } }"

inside :: [Act] -> [Act]
inside body = [Class, Method] ++ body ++ [MethodEnd, ClassEnd]

ordered :: Property
ordered = forAll (mconcat <$> listOf (elements fragments)) $ \source ->
  let tokens = lexJava source
      places = map snd (skeleton tokens)
   in counterexample (show source) (and (zipWith (<) places (drop 1 places)) && all (\i -> i >= 0 && i < tokenCount tokens) places)
  where
    fragments = ["class ", "{", "}", "(", ")", "for", " while ", "do ", ";", "@", "a", ".", "import ", "?", "<", "new ", "\"", "=", "else ", "[", "]", "\xff"]
