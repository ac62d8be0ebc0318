-- | Java's unicode escapes (JLS 3.3): @\\u0041@ anywhere in a source stands for
-- its character, before anything else is looked at.
module Maru.Similar.Lexer.Unescape
  ( Unescaped (..),
    unescape,
    originalOffset,
  )
where

import Data.Bits (shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Lazy as BL
import Data.Vector.Unboxed (Vector)
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word8)

-- | A source without escapes, and how its offsets map to those of the original.
data Unescaped = Unescaped
  { unescapedSource :: !ByteString,
    -- | Before and after each escape: offset here, offset in the original;
    -- ascending.
    unescapedAnchors :: !(Vector (Word32, Word32))
  }

-- | 'Nothing' where there is no escape: nearly always, and then free.
unescape :: ByteString -> Maybe Unescaped
unescape source
  | null found = Nothing
  | otherwise = Just (Unescaped (BL.toStrict (Builder.toLazyByteString text)) (VU.fromList anchors))
  where
    found = escapes source
    (text, anchors) = rebuild source 0 0 found

-- | An escape: where it starts, its length, its UTF-16 code unit.
data Escape = Escape !Int !Int !Word32

-- A backslash that follows an odd number of backslashes is itself escaped.
escapes :: ByteString -> [Escape]
escapes source = go 0
  where
    go from = case B.elemIndex 92 (B.drop from source) of
      Nothing -> []
      Just skipped -> at (from + skipped)
    at i = case escapeAt source i of
      Just e@(Escape _ len _) -> e : go (i + len)
      Nothing -> go (i + 2)

escapeAt :: ByteString -> Int -> Maybe Escape
escapeAt source i
  | us > 0 && B.length digits == 4 && B.all isHex digits = Just (Escape i (1 + us + 4) code)
  | otherwise = Nothing
  where
    (uRun, rest) = B.span (== 117) (B.drop (i + 1) source)
    us = B.length uRun
    digits = B.take 4 rest
    code = B.foldl' (\acc d -> acc * 16 + hexValue d) 0 digits

isHex :: Word8 -> Bool
isHex w = (w >= 48 && w <= 57) || (w >= 65 && w <= 70) || (w >= 97 && w <= 102)

hexValue :: Word8 -> Word32
hexValue w
  | w <= 57 = fromIntegral w - 48
  | otherwise = (fromIntegral w .&. 7) + 9

rebuild :: ByteString -> Int -> Int -> [Escape] -> (Builder.Builder, [(Word32, Word32)])
rebuild source here original es = case es of
  [] -> (Builder.byteString (B.drop original source), [])
  Escape at len unit : more ->
    let gap = at - original
        bytes = utf8 unit
        here' = here + gap + length bytes
        (text, anchors) = rebuild source here' (at + len) more
     in ( Builder.byteString (B.take gap (B.drop original source))
            <> foldMap Builder.word8 bytes
            <> text,
          (fromIntegral (here + gap), fromIntegral at) :
          (fromIntegral here', fromIntegral (at + len)) :
          anchors
        )

-- A surrogate is coded by itself: to the lexer it is part of a letter either way.
utf8 :: Word32 -> [Word8]
utf8 c
  | c < 0x80 = [fromIntegral c]
  | c < 0x800 = [0xc0 .|. part 6, tailByte 0]
  | otherwise = [0xe0 .|. part 12, tailByte 6, tailByte 0]
  where
    part n = fromIntegral (c `shiftR` n)
    tailByte n = 0x80 .|. (part n .&. 0x3f)

-- | The offset in the original source. Monotone. O(log escapes).
originalOffset :: Unescaped -> Word32 -> Word32
originalOffset u offset = case search 0 (VU.length anchors) of
  0 -> offset
  n -> let (here, original) = anchors VU.! (n - 1) in original + (offset - here)
  where
    anchors = unescapedAnchors u
    -- How many anchors are at or before the offset.
    search :: Int -> Int -> Int
    search lo hi
      | lo >= hi = lo
      | fst (anchors VU.! mid) <= offset = search (mid + 1) hi
      | otherwise = search lo mid
      where
        mid = (lo + hi) `div` 2
