-- | What bytes are for a lexer of any language.
module Maru.Similar.Lexer.Bytes
  ( lineEnd,
    white,
    wordStart,
    wordPart,
  )
where

import Data.Bits ((.&.))
import Data.Word (Word8)

lineEnd, white, wordStart, wordPart :: Word8 -> Bool
lineEnd c = c == 10 || c == 13
white c = c == 32 || (c >= 9 && c <= 13)
wordStart c = (c .&. 0xdf >= 65 && c .&. 0xdf <= 90 && c < 0x80) || c == 95 || c == 36 || c >= 0x80
wordPart c = wordStart c || (c >= 48 && c <= 57)
