-- | Text that other programs wrote, for a terminal: nothing in it is obeyed there. Nothing changes
-- the order or the look of what stands beside it.
module Maru.View.Plain
  ( plain,
    plainJson,
  )
where

import qualified Data.ByteString.Lazy as Lazy
import Data.Char (GeneralCategory (..), generalCategory, ord)
import qualified Data.Text.Lazy as Text
import qualified Data.Text.Lazy.Encoding as Encoding
import Text.Printf (printf)

-- | Control characters (C0, DEL, C1), marks and overrides of direction, characters without width,
-- separators of lines, bytes that were no text: each a question mark. As @mr_plain@ of
-- @native\/base\/text.h@.
plain :: String -> String
plain = map (\c -> if isObeyed c then '?' else c)

isObeyed :: Char -> Bool
isObeyed c = c < ' ' || (c > '~' && generalCategory c `elem` [Control, Format, LineSeparator, ParagraphSeparator, Surrogate])

-- | The same text in JSON, in which such characters, all of them within strings, are escaped:
-- nothing is lost.
plainJson :: Lazy.ByteString -> Lazy.ByteString
plainJson json
  | Text.any isObeyed text = Encoding.encodeUtf8 (Text.concatMap escaped text)
  | otherwise = json
  where
    text = Encoding.decodeUtf8 json
    escaped c
      | not (isObeyed c) = Text.singleton c
      | ord c < 0x10000 = unit (ord c)
      | otherwise = let (high, low) = (ord c - 0x10000) `divMod` 0x400 in unit (0xd800 + high) <> unit (0xdc00 + low)
    unit n = Text.pack (printf "\\u%04x" n)
