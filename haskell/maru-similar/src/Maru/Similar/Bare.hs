{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE OverloadedStrings #-}

-- | A program without comments, and without the layout that its language is free in, as a grammar is
-- given it. So neither has a say in what is made of the program, be it whole, broken or too large.
module Maru.Similar.Bare
  ( Bare,
    bare,
    bareText,
    tokenAt,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Internal (unsafeCreate)
import Data.ByteString.Unsafe (unsafeUseAsCString)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Foreign.Storable (pokeByteOff)
import Maru.Similar.Language (Layout (..))
import Maru.Similar.Lexer.Bytes (lineEnd, white)
import Maru.Similar.Token

data Bare = Bare
  { -- | Each token, and white space behind it: of 'Free' languages one byte.
    bareText :: !ByteString,
    -- | The tokens, by the offset of their first byte in it. Lazy: few ask.
    bareTokens :: IntMap Int
  }

-- | 'Nothing': its tokens have more than that many bytes, with one for each. O(n).
bare :: Layout -> Int -> ByteString -> Tokens -> Maybe Bare
bare Free = bareFree
bare layout = bareLines layout

-- | So neither comments nor layout have a say.
size :: Tokens -> Int
size ts = tokenCount ts + fromIntegral (VU.sum (tokenEnds ts) - VU.sum (tokenStarts ts)) -- both sums may wrap around; their difference does not

bareFree :: Int -> ByteString -> Tokens -> Maybe Bare
bareFree most source ts
  | whole > most = Nothing
  | otherwise = Just (Bare text (IntMap.fromDistinctAscList (zip starts [0 ..])))
  where
    whole = size ts
    n = tokenCount ts
    blanks = [behind source ts i | i <- [0 .. n - 1]]
    starts = scanl (+) 0 [tokenEnd ts i - tokenStart ts i + maybe 0 (const 1) blank | (i, blank) <- zip [0 ..] blanks]
    -- Blank at its end, so that the size is the same, whatever belongs together.
    text = unsafeCreate whole $ \out -> unsafeUseAsCString source $ \from -> do
      let put !at i
            | i == n = fillBytes (out `plusPtr` at) 32 (whole - at)
            | otherwise = do
              let long = tokenEnd ts i - tokenStart ts i
              copyBytes (out `plusPtr` at) (castPtr from `plusPtr` tokenStart ts i) long
              case behind source ts i of
                Nothing -> put (at + long) (i + 1)
                Just blank -> pokeByteOff out (at + long) blank >> put (at + long + 1) (i + 1)
      put 0 0

-- | A comment is a blank, and a line without a token is none.
bareLines :: Layout -> Int -> ByteString -> Tokens -> Maybe Bare
bareLines layout most source ts
  | size ts > most = Nothing
  | otherwise = Just (Bare text (IntMap.fromDistinctAscList (zip starts [0 ..])))
  where
    indexes = [0 .. tokenCount ts - 1]
    text = B.concat (indent : concat [[tokenText source ts i, gap i] | i <- indexes])
    starts = scanl (+) (B.length indent) [tokenEnd ts i - tokenStart ts i + B.length (gap i) | i <- indexes]
    indent = if tokenCount ts > 0 then column (B.take (tokenStart ts 0) source) else ""
    gap i
      | i + 1 == tokenCount ts = "\n"
      | B.null between = ""
      | B.any lineEnd between && not (joins between) = "\n" <> column between
      | layout == Columns = B.map blank between
      | otherwise = " "
      where
        between = B.take (tokenStart ts (i + 1) - tokenEnd ts i) (B.drop (tokenEnd ts i) source)
    -- A backslash that is no token's nor a comment's joins two lines.
    joins between = maybe False (\(before, w) -> w == 92 && B.all white before) (B.unsnoc (B.takeWhile (not . lineEnd) between))
    column = B.map blank . B.takeWhileEnd (not . lineEnd)
    blank w = if w == 9 then 9 else 32

-- | The token that the byte is of, or that it is behind; 0 where there is none. O(log n).
tokenAt :: Bare -> Int -> Int
tokenAt b at = maybe 0 snd (IntMap.lookupLE at (bareTokens b))

-- | The white space behind a token. A literal that is not closed ends with its line. What is one token
-- for a grammar stays together.
behind :: ByteString -> Tokens -> Int -> Maybe Word8
behind source ts i
  | i + 1 < tokenCount ts && together = Nothing
  | kind == StringLiteral || kind == Error = Just 10
  | otherwise = Just 32
  where
    kind = tokenKind ts i
    next = tokenKind ts (i + 1)
    touches = tokenEnd ts i == tokenStart ts (i + 1)
    together = case kind of
      At -> next == KwInterface
      Greater -> touches && (next == Greater || next == GreaterEqual)
      Identifier -> touches && next == Minus && tokenText source ts i == "non"
      Minus -> touches && next == Identifier && tokenText source ts (i + 1) == "sealed"
      _ -> False
