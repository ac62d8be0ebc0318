-- | What of a room's part a command can have: whether libraries can stand before its own.
module Maru.Cli.Fitting
  ( fitting,
    ranWithout,
  )
where

import Control.Monad (guard)
import Data.Binary.Get (getByteString, getWord64host, runGetOrFail)
import qualified Data.ByteString.Char8 as Chars
import qualified Data.ByteString.Lazy as Lazy
import Data.List (find)
import Maru.Cli.Output (plural)
import Maru.Cli.Program
import Maru.Cli.Room
import Maru.Native.BoardView

-- | The part of a room, as far as the command can have libraries before its own. One with a
-- sanitizer would not start, and runs without them.
fitting :: String -> Described -> Part -> Either Refusal Part
fitting command described part
  | null (partPreload part) = Right part
  | Just sanitizer <- describedSanitizer described = Right (without (sanitized sanitizer))
  | needing : _ <- partNeeding part, Just why <- unfit described = Left (Unavailable (needing ++ " cannot serve " ++ command ++ ": " ++ why))
  | describedGo described = Right part {partReplaced = partReplaced part ++ [command ++ " is written in Go, which makes system calls of its own: " ++ needing ++ " sees few of them" | needing <- take 1 (partNeeding part)]}
  | otherwise = Right part
  where
    sanitized name = "not active: " ++ command ++ " is built with " ++ name ++ ", which must be its first library; it, and what it starts, runs without maru's"
    without line
      | null (partNeeding part) = part {partPreload = [], partReplaced = partReplaced part ++ [line]}
      | otherwise = mempty {partReplaced = [line]}

-- | The line that the section @without@ (layout: @native\/preload\/first\/section.h@) of a run's
-- board comes to: how many processes beside the command ran without libraries.
ranWithout :: Board -> Maybe String
ranWithout board = do
  found <- find ((== ("without", 1)) . key) (boardSections board)
  (processes, path) <- either (const Nothing) (\(_, _, decoded) -> Just decoded) (runGetOrFail ((,) <$> getWord64host <*> getByteString 248) (Lazy.fromStrict (sectionBytes found)))
  guard (processes > 0)
  pure ("not active in " ++ plural (fromIntegral processes) "process" ++ " with a sanitizer, which must be the first library; the first was " ++ map plain (Chars.unpack (Chars.takeWhile (/= '\0') path)))
  where
    key s = (sectionName s, sectionVersion s)
    plain c = if c < ' ' || c > '~' then '?' else c
