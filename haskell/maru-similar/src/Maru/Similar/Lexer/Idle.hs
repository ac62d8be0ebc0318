{-# LANGUAGE BangPatterns #-}

-- | Tokens that mean nothing: they are left out as comments are.
module Maru.Similar.Lexer.Idle
  ( withoutRanges,
    withoutEmpty,
  )
where

import qualified Data.IntSet as IntSet
import qualified Data.Vector.Unboxed as VU
import Maru.Similar.Token

-- | Without the tokens of these ranges: from the first to before the second.
withoutRanges :: [(Int, Int)] -> Tokens -> Tokens
withoutRanges [] ts = ts
withoutRanges ranges ts = keeping (VU.map (<= 0) (VU.init (VU.scanl1' (+) changes))) ts
  where
    -- How many ranges begin, less those that end.
    changes = VU.accum (+) (VU.replicate (tokenCount ts + 1) (0 :: Int)) (concat [[(from, 1), (to, -1)] | (from, to) <- ranges])

-- | Without statements that are a semicolon alone: behind another, or at the begin or behind the end of
-- a block. A brace that may be a value's, a type's or a lambda's is none of a block.
withoutEmpty :: Tokens -> Tokens
withoutEmpty ts
  | IntSet.null empty = ts
  | otherwise = keeping (VU.generate (tokenCount ts) (`IntSet.notMember` empty)) ts
  where
    empty = IntSet.fromDistinctAscList (emptyStatements ts)

-- | A bracket that is open.
data Open
  = -- | And the place before it.
    Paren !Int
  | -- | Whether it is one of a block.
    Brace !Bool

emptyStatements :: Tokens -> [Int]
emptyStatements ts = go [] False 0
  where
    n = tokenCount ts
    kindAt i = if i >= 0 && i < n then tokenKind ts i else Error
    -- What is open; whether a semicolon would mean nothing here.
    go :: [Open] -> Bool -> Int -> [Int]
    go opened !idle !i
      | i >= n = []
      | otherwise = case (kindAt i, opened) of
        (Semicolon, Paren _ : _) -> go opened False (i + 1)
        (Semicolon, _) -> [i | idle] ++ go opened True (i + 1)
        (ParenOpen, _) -> go (Paren (i - 1) : opened) False (i + 1)
        (ParenClose, Paren from : outer)
          | kindAt (i + 1) == BraceOpen -> let block = opensBlock from in go (Brace block : outer) block (i + 2)
          | otherwise -> go outer False (i + 1)
        (BraceOpen, _) -> let block = kindAt (i - 1) `elem` [KwElse, KwDo, KwTry, KwFinally] in go (Brace block : opened) block (i + 1)
        (BraceClose, Brace block : outer) -> go outer block (i + 1)
        _ -> go opened False (i + 1)
    -- What stands before the parentheses before a brace: a word that wants a block, or a function's name.
    opensBlock i = case kindAt i of
      Identifier -> kindAt (i - 1) `elem` [Identifier, Mark, Greater, BracketClose, Star, And, ColonColon, KwVoid, KwInt, KwLong, KwDouble, KwFloat, KwBoolean, KwChar, KwByte, KwShort, KwPublic, KwPrivate, KwProtected]
      kind -> kind `elem` [KwIf, KwFor, KwWhile, KwCatch, KwSynchronized, KwTry]

-- | Those that the flags say. Linear time.
keeping :: VU.Vector Bool -> Tokens -> Tokens
keeping flags ts =
  ts
    { tokenKinds = kept (tokenKinds ts),
      tokenStarts = kept (tokenStarts ts),
      tokenEnds = kept (tokenEnds ts),
      tokenErrors = errors,
      tokenUnclosed = min errors (tokenUnclosed ts)
    }
  where
    kept :: VU.Unbox a => VU.Vector a -> VU.Vector a
    kept = VU.ifilter (\i _ -> flags VU.! i)
    errors = tokenErrors ts - VU.length (VU.ifilter (\i kind -> kind == fromIntegral (fromEnum Error) && not (flags VU.! i)) (tokenKinds ts))
