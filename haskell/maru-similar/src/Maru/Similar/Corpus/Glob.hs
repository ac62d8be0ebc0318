{-# LANGUAGE OverloadedStrings #-}

-- | Patterns of paths, as @--exclude@ and the list of students take them. Pure, total.
module Maru.Similar.Corpus.Glob
  ( Glob,
    glob,
    matches,
    excludedAt,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.IntMap.Strict as IntMap
import Data.List (find, scanl')

-- | @*@ is anything within a name, @?@ one byte of it, @**@ anything; all else is itself.
newtype Glob = Glob [Part]
  deriving (Eq, Show)

data Part = Literal !Char | One | Within | Anything
  deriving (Eq, Show)

glob :: ByteString -> Glob
glob = Glob . parts . BC.unpack
  where
    parts text = case text of
      '*' : '*' : rest -> Anything : parts (dropWhile (== '*') rest)
      '*' : rest -> Within : parts rest
      '?' : rest -> One : parts rest
      c : rest -> Literal c : parts rest
      [] -> []

-- | The whole text. O(length of the pattern · length of the text), whatever the pattern.
matches :: Glob -> ByteString -> Bool
matches pattern_ = any null . BC.foldl' step (start pattern_)

-- | Whether it is the first so many bytes of a text, from none to all.
reached :: Glob -> ByteString -> [Bool]
reached pattern_ = map (any null) . scanl' step (start pattern_) . BC.unpack

start :: Glob -> [[Part]]
start (Glob pattern_) = closed [pattern_]

-- | What is still to come, once each: what stands for anything may stand for nothing.
closed :: [[Part]] -> [[Part]]
closed states = IntMap.elems (IntMap.fromList [(length s, s) | state <- states, s <- spared state])
  where
    spared s = case s of
      Within : rest -> s : spared rest
      Anything : rest -> s : spared rest
      _ -> [s]

step :: [[Part]] -> Char -> [[Part]]
step states c = closed (concatMap after states)
  where
    after s = case s of
      Literal l : rest | l == c -> [rest]
      One : rest | c /= '/' -> [rest]
      Within : _ | c /= '/' -> [s]
      Anything : _ -> [s]
      _ -> []

-- | How many bytes of a path name what a pattern takes out: with a slash in it the path as a whole or
-- the outermost folder that it lies in, else any name in it. O(length of the pattern · of the path).
excludedAt :: ByteString -> ByteString -> Maybe Int
excludedAt text path
  | BC.elem '/' bare = fst <$> find snd (zip [0 ..] (reached pattern_ path) `at` ends)
  | otherwise = fst <$> find (matches pattern_ . snd) (zip ends (BC.split '/' path))
  where
    bare = BC.dropWhileEnd (== '/') text
    pattern_ = glob bare
    -- Where its names end.
    ends = BC.elemIndices '/' path ++ [B.length path]
    at (one@(i, _) : more) (end : others)
      | i == end = one : at more others
      | otherwise = at more (end : others)
    at _ _ = []
