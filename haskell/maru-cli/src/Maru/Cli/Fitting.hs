-- | What of a room's part a command can have: whether libraries can stand before its own.
module Maru.Cli.Fitting
  ( fitting,
    ranWithout,
  )
where

import Control.Monad (guard)
import Data.Binary.Get (getByteString, getWord64host)
import Data.Maybe (mapMaybe)
import Maru.Cli.Installed (unloadable)
import Maru.Cli.Output (plural)
import Maru.Cli.Program
import Maru.Cli.Room
import Maru.Cli.Section
import Maru.Native.BoardView (Board)

-- | The part of a room, as far as the command can have libraries before its own. One with a
-- sanitizer would not start, nor one of another C library: they run without what they can do
-- without.
fitting :: String -> Described -> Part -> Either Refusal Part
fitting command described part
  | null (partPreload part) = Right part
  | why : _ <- mapMaybe unloadable (partPreload part) = case partNeeding part of
    needing : _ -> Left (Unavailable (needing ++ " cannot serve " ++ command ++ ": " ++ why ++ "; install maru in another folder"))
    [] -> Right (without why)
  | Just sanitizer <- describedSanitizer described = Right (without (sanitized sanitizer))
  | needing : _ <- partNeeding part, Just why <- unfit described = Left (Unavailable (needing ++ " cannot serve " ++ command ++ ": " ++ why))
  | Just why <- spoiled described = Right (without ("no library of maru's stands before " ++ command ++ " and what it starts: " ++ why))
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
  (processes, path) <- sectionOf "without" (decoded ((,) <$> getWord64host <*> getByteString 248)) board
  guard (processes > 0)
  pure ("not active in " ++ plural (fromIntegral processes) "process" ++ " with a sanitizer, which must be the first library; the first was " ++ untilZero path)
