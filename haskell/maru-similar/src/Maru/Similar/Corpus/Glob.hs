{-# LANGUAGE OverloadedStrings #-}

-- | Patterns of paths, as @--exclude@ and the list of students take them. Pure, total.
module Maru.Similar.Corpus.Glob
  ( Glob,
    glob,
    matches,
    excludes,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as BC
import qualified Data.IntMap.Strict as IntMap

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
matches (Glob pattern_) text = any null (BC.foldl' step (closed [pattern_]) text)
  where
    -- What is still to come, once each: what stands for anything may stand for nothing.
    closed states = IntMap.elems (IntMap.fromList [(length s, s) | state <- states, s <- spared state])
    spared s = case s of
      Within : rest -> s : spared rest
      Anything : rest -> s : spared rest
      _ -> [s]
    step states c = closed (concatMap (after c) states)
    after c s = case s of
      Literal l : rest | l == c -> [rest]
      One : rest | c /= '/' -> [rest]
      Within : _ | c /= '/' -> [s]
      Anything : _ -> [s]
      _ -> []

-- | Whether a pattern takes out a path: with a slash in it the path as a whole or a folder that it
-- lies in, else any name in it.
excludes :: ByteString -> ByteString -> Bool
excludes text = any (matches pattern_) . candidates . BC.split '/'
  where
    pattern_ = glob (BC.dropWhileEnd (== '/') text)
    candidates names
      | BC.elem '/' (BC.dropWhileEnd (== '/') text) = scanl1 (\folder name -> folder <> "/" <> name) names
      | otherwise = names
