{-# LANGUAGE BangPatterns #-}

-- | Does a text have the shape of Java? The lexer takes prose: words are
-- identifiers, stops are dots.
module Maru.Similar.Shape
  ( Shape (..),
    shapeOf,
    notJava,
  )
where

import qualified Data.Vector.Unboxed as VU
import Data.Word (Word8)
import Maru.Similar.Token

-- | What no Java program has, in tokens.
data Shape = Shape
  { -- | Stretches of more than @longestNames@ identifiers in a row.
    shapeStretches :: !Int,
    -- | The tokens in them, and those that are no token of Java's.
    shapeStrange :: !Int,
    -- | Whether there is a @;@ or a brace: every declaration has one.
    shapeDeclares :: !Bool
  }
  deriving (Eq, Show)

-- | No Java grammar has more identifiers in a row: @\@Inherited sealed interface@ and
-- @record Point@ come to three at most.
longestNames :: Int
longestNames = 3

-- | Linear time.
shapeOf :: Tokens -> Shape
shapeOf ts = closed (VU.foldl' step (0, Shape 0 0 False) (tokenKinds ts))
  where
    step (!names, !shape) kind
      | kind == code Identifier = (names + 1, shape)
      | otherwise = (0, other kind (closed (names, shape)))
    closed (names, shape)
      | names > longestNames = shape {shapeStretches = shapeStretches shape + 1, shapeStrange = shapeStrange shape + names}
      | otherwise = shape
    other kind shape
      | kind == code Error = shape {shapeStrange = shapeStrange shape + 1}
      | kind == code Semicolon || kind == code BraceOpen = shape {shapeDeclares = True}
      | otherwise = shape

code :: Kind -> Word8
code = fromIntegral . fromEnum

-- | A text with tokens, of which a quarter or more are strange, or that declares nothing.
notJava :: Tokens -> Bool
notJava ts = n > 0 && (4 * shapeStrange shape >= n || not (shapeDeclares shape))
  where
    n = tokenCount ts
    shape = shapeOf ts
