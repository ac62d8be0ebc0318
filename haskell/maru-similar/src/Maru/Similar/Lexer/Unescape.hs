-- | Unicode escapes: @\\u0041@ stands for its character.
module Maru.Similar.Lexer.Unescape
  ( escapes,
    wordEscapes,
  )
where

import Data.Bits (shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Word (Word32, Word8)
import Maru.Similar.Lexer.Bytes (wordPart)
import Maru.Similar.Lexer.Rewrite (Edit (..))

-- | Java's (JLS 3.3): anywhere in a source, before anything else is looked at. A backslash that follows
-- an odd number of backslashes is itself escaped.
escapes :: ByteString -> [Edit]
escapes source = go 0
  where
    go from = case B.elemIndex 92 (B.drop from source) of
      Nothing -> []
      Just skipped -> at (from + skipped)
    at i = case escapeAt source i of
      Just e@(Edit _ len _) -> e : go (i + len)
      Nothing -> go (i + 2)

-- | Those of letters and digits: in names, and without harm anywhere else. One has a single @u@.
wordEscapes :: ByteString -> [Edit]
wordEscapes source = [e | e@(Edit _ len new) <- escapes source, len == 6, B.all wordPart new]

escapeAt :: ByteString -> Int -> Maybe Edit
escapeAt source i
  | us > 0 && B.length digits == 4 && B.all isHex digits = Just (Edit i (1 + us + 4) (B.pack (utf8 unit)))
  | otherwise = Nothing
  where
    (uRun, rest) = B.span (== 117) (B.drop (i + 1) source)
    us = B.length uRun
    digits = B.take 4 rest
    unit = B.foldl' (\acc d -> acc * 16 + hexValue d) 0 digits

isHex :: Word8 -> Bool
isHex w = (w >= 48 && w <= 57) || (w >= 65 && w <= 70) || (w >= 97 && w <= 102)

hexValue :: Word8 -> Word32
hexValue w
  | w <= 57 = fromIntegral w - 48
  | otherwise = (fromIntegral w .&. 7) + 9

-- A surrogate is coded by itself: to the lexer it is part of a letter either way.
utf8 :: Word32 -> [Word8]
utf8 c
  | c < 0x80 = [fromIntegral c]
  | c < 0x800 = [0xc0 .|. part 6, tailByte 0]
  | otherwise = [0xe0 .|. part 12, tailByte 6, tailByte 0]
  where
    part n = fromIntegral (c `shiftR` n)
    tailByte n = 0x80 .|. (part n .&. 0x3f)
