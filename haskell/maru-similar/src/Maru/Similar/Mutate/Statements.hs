{-# LANGUAGE OverloadedStrings #-}

-- | Disguises that put statements in or give them another form.
module Maru.Similar.Mutate.Statements
  ( insertDead,
    insertPrints,
    insertMuch,
    splitDeclarations,
    invertConditions,
    expandAssignment,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as BC
import Data.Word (Word64)
import Maru.Similar.Mutate.Pieces
import Maru.Similar.Token
import System.Random.SplitMix (SMGen)

-- | Variables that nobody uses, after one statement of four.
insertDead :: SMGen -> [Piece] -> [Piece]
insertDead = inserted 4 $ \w n -> case w `mod` 3 of
  0 -> "\n        int unused" <> n <> " = " <> value w 97 <> ";"
  1 -> "\n        String note" <> n <> " = \"step " <> n <> "\";"
  _ -> "\n        boolean flag" <> n <> " = false;"

-- | Output, after one statement of three.
insertPrints :: SMGen -> [Piece] -> [Piece]
insertPrints = inserted 3 $ \w n -> case w `mod` 2 of
  0 -> "\n        System.out.println(\"step " <> n <> "\");"
  _ -> "\n        System.err.print(" <> value w 1000 <> ");"

-- | Statements of all kinds that change nothing, after every other statement: what a program that
-- searches for a disguise does.
insertMuch :: SMGen -> [Piece] -> [Piece]
insertMuch = inserted 2 $ \w n -> case w `mod` 5 of
  0 -> "\n        if (" <> value w 7 <> " > 9) { System.out.println(" <> n <> "); }"
  1 -> "\n        for (int skip" <> n <> " = 0; skip" <> n <> " < 0; skip" <> n <> "++) { }"
  2 -> "\n        long sum" <> n <> " = " <> value w 89 <> "L * 2;"
  3 -> "\n        int[] spare" <> n <> " = new int[" <> value w 5 <> "];"
  _ -> "\n        assert " <> value w 11 <> " < 12;"

value :: Word64 -> Word64 -> ByteString
value w most = BC.pack (show (w `div` 8 `mod` most))

-- | After one statement of so many within a method, what the function makes of chance and a number.
inserted :: Word64 -> (Word64 -> ByteString -> ByteString) -> SMGen -> [Piece] -> [Piece]
inserted rate made gen ps = concat (zipWith3 place (nested ps) (drop 1 (kinds ps) ++ [Error]) choices)
  where
    choices = zip3 (coins rate gen) (words64 gen) [1 :: Int ..]
    place (braces, parens, p) next (toss, w, n)
      | toss && pieceKind p == Semicolon && braces >= 2 && parens == 0 && goesOn next = p : fragment (made w (BC.pack (show n)))
      | otherwise = [p]
    -- No end of a block, no switch's label, and no member of an inner class.
    goesOn next = next `notElem` [BraceClose, KwCase, KwDefault, KwElse, Error, KwPublic, KwPrivate, KwProtected, KwStatic, KwFinal, At]

-- | @int x = 1;@ in a method becomes @int x; x = 1;@.
splitDeclarations :: SMGen -> [Piece] -> [Piece]
splitDeclarations gen = go (coins 2 gen) Semicolon . nested
  where
    go tosses before ps = case (ps, tosses) of
      ((braces, parens, kind) : (_, _, name) : (_, _, assign) : rest, toss : tosses')
        | braces >= 2,
          parens == 0,
          before `elem` [Semicolon, BraceOpen, BraceClose],
          pieceKind kind `elem` [KwInt, KwLong, KwDouble, KwFloat, KwBoolean, KwChar] || pieceText kind == "String",
          pieceKind name == Identifier,
          pieceKind assign == Assign,
          single rest ->
          [kind, name] ++ (if toss then [Piece "" Semicolon ";", name] else []) ++ assign : go tosses' Assign rest
      ((_, _, p) : rest, _) -> p : go tosses (pieceKind p) rest
      ([], _) -> []
    -- One variable, and no array's values.
    single rest = case [pieceKind p | (_, _, p) <- rest, pieceKind p `elem` [Semicolon, Comma, BraceOpen, ParenOpen]] of
      Semicolon : _ -> True
      _ -> False

-- | @if (a) { b } else { c }@ becomes @if (!(a)) { c } else { b }@.
invertConditions :: [Bool] -> [Piece] -> [Piece]
invertConditions tosses ps = case (ps, tosses) of
  (word : open : rest, toss : tosses')
    | pieceKind word == KwIf,
      pieceKind open == ParenOpen,
      Just (condition, close : brace : inner) <- untilClosed ParenOpen ParenClose rest,
      pieceKind brace == BraceOpen,
      Just (yes, end : other : brace' : inner') <- untilClosed BraceOpen BraceClose inner,
      pieceKind other == KwElse,
      pieceKind brace' == BraceOpen,
      Just (no, end' : rest') <- untilClosed BraceOpen BraceClose inner',
      toss ->
      [word, open]
        ++ fragment "!("
        ++ condition
        ++ fragment ")"
        ++ [close, brace]
        ++ no
        ++ [end, other, brace']
        ++ yes
        ++ end' :
      invertConditions tosses' rest'
    | pieceKind word == KwIf -> word : invertConditions tosses' (open : rest)
  (p : rest, _) -> p : invertConditions tosses rest
  ([], _) -> []

-- | @x += y;@ becomes @x = x + y;@.
expandAssignment :: Rule
expandAssignment before ps = case ps of
  name : op : operand : end : rest
    | pieceKind name == Identifier,
      Just sign <- lookup (pieceKind op) [(PlusAssign, " + "), (MinusAssign, " - "), (StarAssign, " * ")],
      pieceKind operand `elem` [Identifier, IntLiteral, FloatLiteral, StringLiteral],
      pieceKind end == Semicolon,
      before `elem` [Semicolon, BraceOpen, BraceClose] ->
      Just (name : fragment (" = " <> pieceText name <> sign) ++ [operand], end : rest)
  _ -> Nothing
