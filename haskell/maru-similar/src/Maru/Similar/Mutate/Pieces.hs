{-# LANGUAGE OverloadedStrings #-}

-- | A source as tokens with what lies between them, and how parts of it are rewritten.
module Maru.Similar.Mutate.Pieces
  ( Piece (..),
    Pieces (..),
    pieces,
    render,
    fragment,
    onPieces,
    kinds,
    headKind,
    nested,
    untilClosed,

    -- * Chance
    words64,
    coins,
    pick,

    -- * Rewriting
    Rule,
    rewrite,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Word (Word64)
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Token
import System.Random.SplitMix (SMGen, nextWord64)

words64 :: SMGen -> [Word64]
words64 gen = w : words64 gen'
  where
    (w, gen') = nextWord64 gen

-- | 'True' once in @n@.
coins :: Word64 -> SMGen -> [Bool]
coins n = map ((== 0) . (`mod` n)) . words64

pick :: SMGen -> [a] -> a
pick gen choices = choices !! fromIntegral (fst (nextWord64 gen) `mod` fromIntegral (length choices))

-- | A token and what lies before it.
data Piece = Piece
  { pieceGap :: !ByteString,
    pieceKind :: !Kind,
    pieceText :: !ByteString
  }

-- | The pieces of a source, and what follows the last.
data Pieces = Pieces ![Piece] !ByteString

pieces :: ByteString -> Pieces
pieces source = Pieces (zipWith piece (0 : ends) indices) (B.drop (last (0 : ends)) source)
  where
    tokens = lexJava source
    indices = [0 .. tokenCount tokens - 1]
    ends = map (tokenEnd tokens) indices
    piece from i =
      Piece
        (B.take (tokenStart tokens i - from) (B.drop from source))
        (tokenKind tokens i)
        (tokenText source tokens i)

render :: Pieces -> ByteString
render (Pieces ps end) = B.concat (concat [[pieceGap p, pieceText p] | p <- ps] ++ [end])

-- | The pieces of a fragment of Java.
fragment :: ByteString -> [Piece]
fragment text = ps
  where
    Pieces ps _ = pieces text

kinds :: [Piece] -> [Kind]
kinds = map pieceKind

-- | The next kind; 'Error' at the end.
headKind :: [Piece] -> Kind
headKind ps = case ps of
  p : _ -> pieceKind p
  [] -> Error

onPieces :: ([Piece] -> [Piece]) -> Pieces -> Pieces
onPieces f (Pieces ps end) = Pieces (f ps) end

-- | With its nesting before it: braces, parentheses.
nested :: [Piece] -> [(Int, Int, Piece)]
nested = go 0 0
  where
    go _ _ [] = []
    go braces parens (p : ps) =
      (braces, parens, p) : case pieceKind p of
        BraceOpen -> go (braces + 1) parens ps
        BraceClose -> go (braces - 1) parens ps
        ParenOpen -> go braces (parens + 1) ps
        ParenClose -> go braces (parens - 1) ps
        _ -> go braces parens ps

-- | Up to where the bracket that is open at the beginning closes: inside, and
-- from the closing bracket.
untilClosed :: Kind -> Kind -> [Piece] -> Maybe ([Piece], [Piece])
untilClosed open close = go (0 :: Int) []
  where
    go _ _ [] = Nothing
    go depth inside ps@(p : rest)
      | pieceKind p == close && depth == 0 = Just (reverse inside, ps)
      | pieceKind p == close = go (depth - 1) (p : inside) rest
      | pieceKind p == open = go (depth + 1) (p : inside) rest
      | otherwise = go depth (p : inside) rest

-- | A local change: what precedes, what follows; where it applies, what to write
-- instead and what is left.
type Rule = Kind -> [Piece] -> Maybe ([Piece], [Piece])

-- | Apply a rule from left to right; each place that it fits costs a coin.
rewrite :: [Bool] -> Rule -> [Piece] -> [Piece]
rewrite tosses rule = go tosses Semicolon
  where
    go _ _ [] = []
    go flips before ps@(p : rest) = case (rule before ps, flips) of
      (Just (new, rest'), True : flips') -> new ++ go flips' (pieceKind (last (p : new))) rest'
      (Just _, _ : flips') -> p : go flips' (pieceKind p) rest
      _ -> p : go flips (pieceKind p) rest
