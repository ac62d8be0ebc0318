-- | Bytes in a layout that a C header has, decoded: a section of a board, a part of a file.
module Maru.Cli.Section
  ( sectionOf,
    unreadSections,
    decoded,
    nanoseconds,
    readable,
    untilZero,
  )
where

import Data.Binary.Get (Get, getWord64host, runGetOrFail)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Chars
import qualified Data.ByteString.Lazy as Lazy
import Data.List (find)
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Maru.Native.BoardView
import Maru.View.Plain (plain)

-- | The layouts that this command reads: each section's version, as its C header has it.
layouts :: [(String, Int)]
layouts =
  [("dsm", 1), ("io", 2), ("kept", 4), ("lock", 1), ("lockwaits", 1), ("map", 1), ("mpi", 1), ("poll", 1), ("run", 1), ("wait", 2), ("without", 1)]

-- | What the section of that name comes to; 'Nothing': the board has none in the layout that this
-- command reads, or its bytes are not understood.
sectionOf :: String -> (ByteString -> Maybe a) -> Board -> Maybe a
sectionOf name decode board =
  find (\s -> sectionName s == name && lookup name layouts == Just (sectionVersion s)) (boardSections board) >>= decode . sectionBytes

-- | Of each section in a layout of another version of maru: that it is not shown, and why.
unreadSections :: Board -> [String]
unreadSections board =
  [ "its section " ++ sectionName s ++ " has layout " ++ show (sectionVersion s) ++ ", and this maru reads " ++ show ours ++ ": not shown"
    | s <- boardSections board,
      Just ours <- [lookup (sectionName s) layouts],
      ours /= sectionVersion s
  ]

-- | 'Nothing' if the bytes are too short or refused. Bytes behind what is read do not matter.
decoded :: Get a -> ByteString -> Maybe a
decoded get bytes = case runGetOrFail get (Lazy.fromStrict bytes) of
  Right (_, _, found) -> Just found
  Left _ -> Nothing

-- | 64 bits of nanoseconds, as seconds.
nanoseconds :: Get Double
nanoseconds = (/ 1e9) . fromIntegral <$> getWord64host

-- | A field of text that ends at its first zero, for a terminal.
untilZero :: ByteString -> String
untilZero = plain . readable . Chars.takeWhile (/= '\0')

-- | Bytes of another program's; what is no UTF-8 is replaced.
readable :: ByteString -> String
readable = Text.unpack . decodeUtf8With lenientDecode
