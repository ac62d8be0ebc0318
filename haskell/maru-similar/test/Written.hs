{-# LANGUAGE OverloadedStrings #-}
-- Quicker to compile, and no slower where it counts: what is tested is optimised.
{-# OPTIONS_GHC -O0 #-}

-- | Small programs, made up by a generator and written in many languages; and copies of them that
-- are disguised in ways that need no language: other names, other numbers, comments, blank lines,
-- another layout, functions in another order.
module Written
  ( Program,
    program,
    written,
    Disguise (..),
    disguised,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.List (intercalate, nub)
import qualified Data.Map.Strict as Map
import Maru.Similar.Language
import Maru.Similar.Token
import Test.QuickCheck (Gen, choose, elements, frequency, shuffle, vectorOf)
import Test.QuickCheck.Gen (unGen)
import Test.QuickCheck.Random (mkQCGen)

data Expression = Number Int | Variable String | Operation String Expression Expression | Applied String [Expression]

data Statement
  = Declare String Expression
  | Change String Expression
  | Repeat Expression [Statement]
  | Count String Expression [Statement]
  | Choice Expression [Statement] [Statement]
  | Run String [Expression]

data Function = Function String [String] [Statement] Expression

type Program = [Function]

-- | Of a number: always the same.
program :: Int -> Program
program seed = unGen (choose (3, 5) >>= \n -> mapM function (take n verbs)) (mkQCGen seed) 30

verbs, nouns :: [String]
verbs = ["total", "best", "report", "merge", "scan", "update"]
nouns = ["sum", "count", "limit", "item", "low", "high", "next1", "rest"]

function :: String -> Gen Function
function called = do
  parameters <- take <$> choose (1, 3) <*> shuffle ["xs", "n", "key"]
  size <- choose (3, 6)
  body <- block (2 :: Int) size parameters
  Function called parameters body <$> expression 2 parameters

-- | A variable is declared before it is used.
block :: Int -> Int -> [String] -> Gen [Statement]
block depth size known = case size of
  0 -> pure []
  _ -> do
    s <- statement depth known
    let known' = case s of
          Declare v _ -> nub (v : known)
          _ -> known
    (s :) <$> block depth (size - 1) known'

statement :: Int -> [String] -> Gen Statement
statement depth known =
  frequency $
    [(3, Declare <$> elements new <*> expression 2 known) | not (null new)]
      ++ [(3, Change <$> elements known <*> expression 2 known), (2, Run <$> elements verbs <*> arguments)]
      ++ [(2, Repeat <$> condition <*> inner) | depth > 0]
      ++ [(2, Count "i" <$> expression 1 known <*> inner) | depth > 0]
      ++ [(3, Choice <$> condition <*> inner <*> inner) | depth > 0]
  where
    new = filter (`notElem` known) nouns
    inner = choose (1, 3) >>= \n -> block (depth - 1) n known
    condition = Operation <$> elements ["<", ">", "=="] <*> expression 1 known <*> expression 1 known
    arguments = choose (1, 2) >>= \n -> vectorOf n (expression 1 known)

expression :: Int -> [String] -> Gen Expression
expression depth known =
  frequency $
    [(2, Number <$> choose (0, 99)), (4, Variable <$> elements known)]
      ++ [(3, Operation <$> elements ["+", "-", "*"] <*> expression (depth - 1) known <*> expression (depth - 1) known) | depth > 0]
      ++ [(2, Applied <$> elements verbs <*> (choose (1, 2) >>= \n -> vectorOf n (expression (depth - 1) known))) | depth > 0]

-- Writing ---------------------------------------------------------------------------

-- | How a language is written here.
data Dialect = Dialect
  { -- | Before all functions, and behind.
    begins, ends :: [String],
    -- | With the name and the parameters.
    heads :: String -> [String] -> String,
    declares, changes :: String -> String -> String,
    repeats :: String -> String,
    counts :: String -> String -> String,
    -- | And how it goes on with the other.
    chooses :: String -> String,
    otherwise' :: String,
    runs, returns :: String -> String,
    closes :: Maybe String
  }

-- | Functions are apart by an empty line.
written :: Language -> Program -> ByteString
written language functions = BC.unlines (map BC.pack (begins d)) <> "\n" <> B.intercalate "\n" (map (BC.unlines . map BC.pack . whole) functions) <> "\n" <> BC.unlines (map BC.pack (ends d))
  where
    d = dialect language
    whole (Function called parameters body result) = heads d called parameters : indented (concatMap lines' body ++ [returns d (said result)]) ++ closing
    closing = maybe [] pure (closes d)
    inside body = indented (concatMap lines' body)
    lines' s = case s of
      Declare v e -> [declares d v (said e)]
      Change v e -> [changes d v (said e)]
      Run f es -> [runs d (call f es)]
      Repeat e body -> repeats d (said e) : inside body ++ closing
      Count v e body -> counts d v (said e) : inside body ++ closing
      Choice e one other -> chooses d (said e) : inside one ++ [otherwise' d] ++ inside other ++ closing
    said e = case e of
      Number n -> show n
      Variable v -> sigil ++ v
      Operation o a b -> said a ++ " " ++ o ++ " " ++ nested b
      Applied f es -> call f es
    nested e = case e of
      Operation {} -> "(" ++ said e ++ ")"
      _ -> said e
    sigil = if language == Php then "$" else ""
    call f es
      | language == Haskell = "(" ++ unwords (f : map inParentheses es) ++ ")"
      | otherwise = f ++ "(" ++ intercalate ", " (map said es) ++ ")"
    inParentheses e = case e of
      Applied {} -> said e
      Operation {} -> nested e
      _ -> said e

indented :: [String] -> [String]
indented = map ("    " ++)

dialect :: Language -> Dialect
dialect language = case language of
  Java -> (braces "static int" "int ") {begins = ["package made;", "class Made {"], ends = ["}"]}
  C -> (braces "int" "int ") {begins = ["#include <stdio.h>"]}
  Cpp -> (braces "int" "int ") {begins = ["#include <vector>", "using namespace std;"], declares = \v e -> "auto " ++ v ++ " = " ++ e ++ ";"}
  CSharp -> (braces "static int" "int ") {begins = ["using System;", "class Made {"], ends = ["}"]}
  JavaScript -> (braces "function" "") {counts = letting, declares = \v e -> "let " ++ v ++ " = " ++ e ++ ";"}
  TypeScript -> (braces "function" "") {counts = letting, heads = \f ps -> "function " ++ f ++ "(" ++ intercalate ", " (map (++ ": number") ps) ++ "): number {", declares = \v e -> "let " ++ v ++ ": number = " ++ e ++ ";"}
  Tsx -> dialect TypeScript
  Php -> (braces "function" "$") {begins = ["<?php"], declares = \v e -> "$" ++ v ++ " = " ++ e ++ ";", changes = \v e -> "$" ++ v ++ " = " ++ e ++ ";", counts = \v e -> "for ($" ++ v ++ " = 0; $" ++ v ++ " < " ++ e ++ "; $" ++ v ++ "++) {"}
  Kotlin -> bare {begins = ["package made", "import kotlin.math"], heads = \f ps -> "fun " ++ f ++ "(" ++ intercalate ", " (map (++ ": Int") ps) ++ "): Int {", declares = \v e -> "var " ++ v ++ " = " ++ e, repeats = \e -> "while (" ++ e ++ ") {", counts = \v e -> "for (" ++ v ++ " in 0 until " ++ e ++ ") {", chooses = \e -> "if (" ++ e ++ ") {"}
  Swift -> bare {begins = ["import Foundation"], heads = \f ps -> "func " ++ f ++ "(" ++ intercalate ", " (map (++ ": Int") ps) ++ ") -> Int {", declares = \v e -> "var " ++ v ++ " = " ++ e, counts = \v e -> "for " ++ v ++ " in 0..<" ++ e ++ " {"}
  Go -> bare {begins = ["package main", "import \"fmt\""], heads = \f ps -> "func " ++ f ++ "(" ++ intercalate ", " ps ++ " int) int {", declares = \v e -> v ++ " := " ++ e, repeats = \e -> "for " ++ e ++ " {", counts = \v e -> "for " ++ v ++ " := 0; " ++ v ++ " < " ++ e ++ "; " ++ v ++ "++ {"}
  Rust -> bare {begins = ["use std::io;"], heads = \f ps -> "fn " ++ f ++ "(" ++ intercalate ", " (map (++ ": i32") ps) ++ ") -> i32 {", declares = \v e -> "let mut " ++ v ++ " = " ++ e ++ ";", changes = \v e -> v ++ " = " ++ e ++ ";", counts = \v e -> "for " ++ v ++ " in 0.." ++ e ++ " {", runs = (++ ";"), returns = \e -> "return " ++ e ++ ";"}
  Scala -> bare {begins = ["object Made {"], ends = ["}"], heads = \f ps -> "def " ++ f ++ "(" ++ intercalate ", " (map (++ ": Int") ps) ++ "): Int = {", declares = \v e -> "var " ++ v ++ " = " ++ e, repeats = \e -> "while (" ++ e ++ ") {", counts = \v e -> "for (" ++ v ++ " <- 0 until " ++ e ++ ") {", chooses = \e -> "if (" ++ e ++ ") {", returns = id}
  R -> bare {heads = \f ps -> f ++ " <- function(" ++ intercalate ", " ps ++ ") {", declares = \v e -> v ++ " <- " ++ e, changes = \v e -> v ++ " <- " ++ e, repeats = \e -> "while (" ++ e ++ ") {", counts = \v e -> "for (" ++ v ++ " in 1:" ++ e ++ ") {", chooses = \e -> "if (" ++ e ++ ") {", returns = \e -> "return(" ++ e ++ ")"}
  Python -> words' {begins = ["import sys"], heads = \f ps -> "def " ++ f ++ "(" ++ intercalate ", " ps ++ "):", repeats = \e -> "while " ++ e ++ ":", counts = \v e -> "for " ++ v ++ " in range(" ++ e ++ "):", chooses = \e -> "if " ++ e ++ ":", otherwise' = "else:", closes = Nothing}
  Ruby -> words' {begins = ["require 'set'"], heads = \f ps -> "def " ++ f ++ "(" ++ intercalate ", " ps ++ ")", repeats = ("while " ++), counts = \v e -> "for " ++ v ++ " in 0..." ++ e, chooses = ("if " ++)}
  Lua -> words' {heads = \f ps -> "function " ++ f ++ "(" ++ intercalate ", " ps ++ ")", declares = \v e -> "local " ++ v ++ " = " ++ e, repeats = \e -> "while " ++ e ++ " do", counts = \v e -> "for " ++ v ++ " = 0, " ++ e ++ " do", chooses = \e -> "if " ++ e ++ " then"}
  Haskell -> words' {begins = ["module Made where", "import Control.Monad"], heads = \f ps -> f ++ concatMap (' ' :) ps ++ " = do", declares = \v e -> "let " ++ v ++ " = " ++ e, changes = \v e -> v ++ " <- pure (" ++ e ++ ")", repeats = \e -> "when (" ++ e ++ ") $ do", counts = \v e -> "forM_ [0 .. " ++ e ++ "] $ \\" ++ v ++ " -> do", chooses = \e -> "if " ++ e ++ " then do", otherwise' = "else do", runs = ("print " ++), returns = \e -> "return (" ++ e ++ ")", closes = Nothing}
  _ -> braces "int" "int "
  where
    braces kind typed =
      bare
        { heads = \f ps -> kind ++ " " ++ f ++ "(" ++ intercalate ", " (map (typed ++) ps) ++ ") {",
          declares = \v e -> "int " ++ v ++ " = " ++ e ++ ";",
          changes = \v e -> v ++ " = " ++ e ++ ";",
          repeats = \e -> "while (" ++ e ++ ") {",
          counts = \v e -> "for (int " ++ v ++ " = 0; " ++ v ++ " < " ++ e ++ "; " ++ v ++ "++) {",
          chooses = \e -> "if (" ++ e ++ ") {",
          runs = (++ ";"),
          returns = \e -> "return " ++ e ++ ";"
        }
    letting v e = "for (let " ++ v ++ " = 0; " ++ v ++ " < " ++ e ++ "; " ++ v ++ "++) {"
    bare = words' {repeats = \e -> "while " ++ e ++ " {", chooses = \e -> "if " ++ e ++ " {", otherwise' = "} else {", closes = Just "}"}
    words' = Dialect [] [] (const . const "") (\v e -> v ++ " = " ++ e) (\v e -> v ++ " = " ++ e) id const id "else" id ("return " ++) (Just "end")

-- Disguises -------------------------------------------------------------------------

data Disguise = Renamed | OtherNumbers | Commented | Reformatted | Reordered
  deriving (Eq, Show, Enum, Bounded)

-- | A copy with these, of that seed.
disguised :: Language -> Int -> [Disguise] -> Program -> ByteString
disguised language seed how functions = foldl (flip apply) (written language (if Reordered `elem` how then unGen (shuffle functions) (mkQCGen seed) 30 else functions)) how
  where
    apply d text = case d of
      Renamed -> respelled language (\kind t names -> if kind == Identifier then Map.findWithDefault t t names else t) text
      OtherNumbers -> respelled language (\kind t _ -> if kind == IntLiteral then BC.pack (show (seed `mod` 89 + B.length t * 7 + 11)) else t) text
      Commented -> BC.unlines (concat [if "<?" `B.isPrefixOf` line then [line] else [indent line <> comment, "", line] | line <- BC.lines text])
      Reformatted -> BC.unlines [indent line <> indent line <> BC.intercalate "  " (BC.split ' ' (BC.dropWhile (== ' ') line)) | line <- BC.lines text]
      Reordered -> text
    indent = BC.takeWhile (== ' ')
    comment = (if language `elem` [Python, Ruby, R] then "# " else if language `elem` [Haskell, Lua, Sql] then "-- " else "// ") <> "written by hand: if (x) { y(); } \"quoted\" 'text"

-- | Tokens spelled by a function of kind, spelling and new names; what is between them stays.
respelled :: Language -> (Kind -> ByteString -> Map.Map ByteString ByteString -> ByteString) -> ByteString -> ByteString
respelled language spell text = B.concat (go 0 [0 .. tokenCount ts - 1])
  where
    ts = lexSource language text
    names = Map.fromList (zip (nub [tokenText text ts i | i <- [0 .. tokenCount ts - 1], tokenKind ts i == Identifier]) [if language == Php then "$w" <> n else "w" <> n | n <- map (BC.pack . show) [1 :: Int ..]])
    go at is = case is of
      [] -> [B.drop at text]
      i : more -> B.take (tokenStart ts i - at) (B.drop at text) : spell (tokenKind ts i) (tokenText text ts i) names : go (tokenEnd ts i) more
