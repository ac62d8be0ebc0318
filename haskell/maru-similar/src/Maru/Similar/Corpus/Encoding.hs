{-# LANGUAGE OverloadedStrings #-}

-- | How the bytes of a source stand for text: told by its mark, or guessed. Pure, total, linear.
--
-- A guess is never a reason to leave a file out: bytes of any kind become some UTF-8, equal bytes
-- the same.
module Maru.Similar.Corpus.Encoding
  ( Encoding (..),
    encodingName,
    encodingOf,
    decoded,
  )
where

import Data.Bits (shiftR, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.Char (chr, ord)
import Data.Either (isRight)
import Data.Text (Text)
import qualified Data.Text as T
import qualified Data.Text.Encoding as T
import qualified Data.Text.Encoding.Error as T

data Encoding = Utf8 | Utf16LE | Utf16BE | Utf32LE | Utf32BE | Windows1252
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | As IANA calls it, in lower case.
encodingName :: Encoding -> ByteString
encodingName encoding = case encoding of
  Utf8 -> "utf-8"
  Utf16LE -> "utf-16le"
  Utf16BE -> "utf-16be"
  Utf32LE -> "utf-32le"
  Utf32BE -> "utf-32be"
  Windows1252 -> "windows-1252"

-- | By the mark at its beginning; else where its NULs stand (UTF-16 of a Western script has them in
-- every other place), else UTF-8 if it is that, else Windows-1252, which has all of Latin-1.
encodingOf :: ByteString -> Encoding
encodingOf bytes
  | marked "\xff\xfe\0\0" && B.length bytes `rem` 4 == 0 = Utf32LE
  | marked "\0\0\xfe\xff" = Utf32BE
  | marked "\xff\xfe" = Utf16LE
  | marked "\xfe\xff" = Utf16BE
  | halfNul odds evens = Utf16LE
  | halfNul evens odds = Utf16BE
  | B.all (< 128) bytes || isRight (T.decodeUtf8' bytes) = Utf8
  | otherwise = Windows1252
  where
    marked = (`B.isPrefixOf` bytes)
    (evens, odds) = nuls (B.take 65536 bytes)
    pairs = min 65536 (B.length bytes) `quot` 2
    -- A comment that holds NULs has them in both places.
    halfNul many few = pairs > 1 && 4 * many >= pairs && 50 * few <= many

-- | How many NULs at even and at odd offsets.
nuls :: ByteString -> (Int, Int)
nuls bytes = (length (filter even found), length (filter odd found))
  where
    found = B.elemIndices 0 bytes

-- | As UTF-8, without a mark. What the encoding does not have becomes U+FFFD.
decoded :: Encoding -> ByteString -> ByteString
decoded encoding bytes = case encoding of
  Utf8 -> B.drop (if "\xef\xbb\xbf" `B.isPrefixOf` bytes then 3 else 0) bytes
  Utf16LE -> unmarked (T.decodeUtf16LEWith T.lenientDecode bytes)
  Utf16BE -> unmarked (T.decodeUtf16BEWith T.lenientDecode bytes)
  Utf32LE -> unmarked (T.decodeUtf32LEWith T.lenientDecode bytes)
  Utf32BE -> unmarked (T.decodeUtf32BEWith T.lenientDecode bytes)
  Windows1252 -> T.encodeUtf8 (T.map western (T.decodeLatin1 bytes))

unmarked :: Text -> ByteString
unmarked text = T.encodeUtf8 (if "\xfeff" `T.isPrefixOf` text then T.drop 1 text else text)

-- | What Windows-1252 has where Latin-1 has control characters.
western :: Char -> Char
western c
  | n .&. 0x7f < 0x20 && n `shiftR` 7 == 1 = chr (T.foldl' (\_ x -> ord x) n (T.take 1 (T.drop (n - 0x80) table)))
  | otherwise = c
  where
    n = ord c
    table = "\x20ac\x81\x201a\x192\x201e\x2026\x2020\x2021\x2c6\x2030\x160\x2039\x152\x8d\x17d\x8f\x90\x2018\x2019\x201c\x201d\x2022\x2013\x2014\x2dc\x2122\x161\x203a\x153\x9d\x17e\x178"
