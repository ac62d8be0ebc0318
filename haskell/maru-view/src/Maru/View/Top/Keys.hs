-- | What a terminal sends, as keys. Pure.
module Maru.View.Top.Keys
  ( Key (..),
    keysIn,
    settled,
  )
where

import Data.Bifunctor (first)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Char8 as Chars
import Data.Char (chr, ord)
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Data.Word (Word8)

data Key
  = Letter !Char
  | ArrowUp
  | ArrowDown
  | ArrowLeft
  | ArrowRight
  | PageUp
  | PageDown
  | Home
  | End
  | Enter
  | Tab
  | BackTab
  | Escape
  | Erase
  | -- | Ctrl and a letter.
    Control !Char
  | Function !Int
  | -- | A sequence that means nothing here.
    Other
  deriving (Eq, Show)

-- | The keys of bytes that came, and the bytes of one that has only begun: an escape sequence or a
-- character. At most 64 bytes are left over.
keysIn :: ByteString -> ([Key], ByteString)
keysIn bytes = case Bytes.uncons bytes of
  Nothing -> ([], bytes)
  Just (27, more) -> maybe ([], bytes) after (sequenceIn more)
  Just (lead, _)
    | lead < 128 -> after (byteKey lead, Bytes.drop 1 bytes)
    | (character, rest) <- Bytes.splitAt (1 + continued lead) bytes ->
      if Bytes.null rest && Bytes.length character < size lead
        then ([], bytes)
        else after (letterOf character, rest)
  where
    after (key, rest) = let (keys, left) = keysIn rest in (key : keys, left)
    continued lead = Bytes.length (Bytes.takeWhile (\byte -> byte .&. 0xc0 == 0x80) (Bytes.take (size lead - 1) (Bytes.drop 1 bytes)))
    size :: Word8 -> Int
    size lead
      | lead >= 0xf0 = 4
      | lead >= 0xe0 = 3
      | lead >= 0xc0 = 2
      | otherwise = 1
    letterOf = maybe Other (Letter . fst) . Text.uncons . decodeUtf8With lenientDecode

-- | Nothing more came for what had begun: the Escape key was pressed, and then the rest.
settled :: ByteString -> [Key]
settled bytes = case Bytes.uncons bytes of
  Nothing -> []
  Just (27, more) -> let (keys, left) = keysIn more in Escape : keys ++ settled left
  Just (_, more) -> let (keys, left) = keysIn more in Other : keys ++ settled left

byteKey :: Word8 -> Key
byteKey byte = case byte of
  8 -> Erase
  9 -> Tab
  10 -> Enter
  13 -> Enter
  127 -> Erase
  _
    | byte == 0 -> Other
    | byte < 27 -> Control (chr (fromIntegral byte + ord 'a' - 1))
    | byte < 32 -> Other
    | otherwise -> Letter (chr (fromIntegral byte))

-- | Behind an escape: a sequence and what follows it; 'Nothing': it has only begun. A sequence that
-- is too long is none.
sequenceIn :: ByteString -> Maybe (Key, ByteString)
sequenceIn more = case Chars.uncons more of
  Nothing -> Nothing
  Just ('[', body)
    | Just ('[', inner) <- Chars.uncons body -> fmap (\(c, rest) -> (maybe Other Function (lookup c (zip "ABCDE" [1 ..])), rest)) (Chars.uncons inner)
    | (parameters, rest) <- Bytes.splitAt (Bytes.length (Bytes.takeWhile (\b -> b >= 0x20 && b < 0x40) (Bytes.take longest body))) body ->
      case Chars.uncons rest of
        Just (final, left) -> Just (named (Chars.unpack parameters) final, left)
        Nothing
          | Bytes.length parameters == longest -> Just (Other, rest)
          | otherwise -> Nothing
  Just ('O', body) -> first (named "") <$> Chars.uncons body
  -- Alt and a key, or Escape and then a key.
  Just _ -> Just (Escape, more)
  where
    longest = 32

named :: String -> Char -> Key
named parameters final = case final of
  'A' -> ArrowUp
  'B' -> ArrowDown
  'C' -> ArrowRight
  'D' -> ArrowLeft
  'H' -> Home
  'F' -> End
  'Z' -> BackTab
  'P' -> Function 1
  'Q' -> Function 2
  'R' -> Function 3
  'S' -> Function 4
  '~' -> case takeWhile (/= ';') parameters of
    code
      | code `elem` ["1", "7"] -> Home
      | code `elem` ["4", "8"] -> End
      | code == "5" -> PageUp
      | code == "6" -> PageDown
      | code == "3" -> Erase
      | otherwise -> maybe Other Function (lookup code functions)
  _ -> Other
  where
    functions = zip ["11", "12", "13", "14", "15", "17", "18", "19", "20", "21", "23", "24"] [1 ..]
