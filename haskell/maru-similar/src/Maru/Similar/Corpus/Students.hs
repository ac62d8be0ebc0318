{-# LANGUAGE OverloadedStrings #-}

-- | The list that says whose a submission is, and what part it plays: CSV with a head. Pure, total.
--
-- > submission,student,role
-- > ada-1.zip,Ada Lovelace,
-- > ada-2.zip,Ada Lovelace,
-- > 2024_*,,archive
module Maru.Similar.Corpus.Students
  ( Students,
    Role (..),
    roleName,
    parseStudents,
    noStudents,
    studentsOf,
    roleOf,
    unmatched,
  )
where

import Control.Applicative ((<|>))
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Char (isSpace, toLower)
import Data.List (elemIndex, partition, sortOn)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isNothing, listToMaybe)
import qualified Data.Set as Set
import Maru.Similar.Corpus.Encoding
import Maru.Similar.Corpus.Glob

-- | What a submission is compared with.
data Role
  = -- | With all others.
    New
  | -- | With new ones only.
    Archive
  | -- | With none: it is template code.
    Base
  | -- | With none.
    Ignored
  deriving (Eq, Ord, Show, Enum, Bounded)

roleName :: Role -> ByteString
roleName role = case role of
  New -> "new"
  Archive -> "archive"
  Base -> "base"
  Ignored -> "ignored"

-- | Each with its place. Lines without a wildcard go by their submission's name: a list may have as many lines as there
-- are submissions.
data Students = Students !(Map ByteString [(Int, Line)]) ![(Int, Line)]
  deriving (Eq, Show)

-- | The submission as it stands there, and as a pattern.
data Line = Line !ByteString !Glob !(Maybe ByteString) !(Maybe Role)
  deriving (Eq, Show)

noStudents :: Students
noStudents = studentsFrom []

studentsFrom :: [Line] -> Students
studentsFrom ls = Students (Map.fromListWith (flip (++)) [(text, [one]) | one@(_, Line text _ _ _) <- named]) patterns
  where
    (patterns, named) = partition (\(_, Line text _ _ _) -> BC.any (`elem` ("*?" :: String)) text) (zip [0 ..] ls)

-- | Those of a submission of this name, in their order.
linesOf :: Students -> ByteString -> [Line]
linesOf (Students named patterns) name =
  map snd (sortOn fst (Map.findWithDefault [] name named ++ [one | one@(_, Line _ pattern_ _ _) <- patterns, matches pattern_ name]))

-- | A head with @submission@ and one or more of @student@, @group@, @role@, in any order, among
-- any others; fields apart by commas, semicolons or tabs (RFC 4180). The failure names the line.
parseStudents :: ByteString -> Either ByteString Students
parseStudents bytes = case fields separator text of
  Left why -> Left why
  Right [] -> Left "is empty"
  Right ((_, names) : rows) -> do
    let column name = elemIndex name (map (BC.map toLower . trimmed) names)
    submission <- maybe (Left "has no column 'submission' in its first line") Right (column "submission")
    let owner = column "student" <|> column "group"
    if isNothing owner && isNothing (column "role")
      then Left "has no column 'student', 'group' or 'role' in its first line"
      else studentsFrom . concat <$> mapM (row submission owner (column "role")) rows
  where
    text = decoded (encodingOf bytes) bytes
    head_ = BC.takeWhile (/= '\n') text
    separator = fromMaybe ',' (BC.find (`elem` (",;\t" :: String)) head_)

row :: Int -> Maybe Int -> Maybe Int -> (Int, [ByteString]) -> Either ByteString [Line]
row submission owner role (number, cells)
  | all B.null cells = Right []
  | B.null name = Left (line number <> "names no submission")
  | otherwise = (\r -> [Line name (glob name) (filled =<< owner) r]) <$> first (line number <>) (traverse parseRole (filled =<< role))
  where
    at i = maybe "" trimmed (listToMaybe (drop i cells))
    name = at submission
    filled i = if B.null (at i) then Nothing else Just (at i)

line :: Int -> ByteString
line number = "line " <> BC.pack (show number) <> ": "

parseRole :: ByteString -> Either ByteString Role
parseRole text = case [r | r <- [minBound ..], roleName r == BC.map toLower text] of
  r : _ -> Right r
  [] -> Left ("the role must be new, archive, base or ignored, not '" <> text <> "'")

trimmed :: ByteString -> ByteString
trimmed = BC.dropWhileEnd isSpace . BC.dropWhile isSpace

-- | Rows with the number of the line that they begin in.
fields :: Char -> ByteString -> Either ByteString [(Int, [ByteString])]
fields separator = rows 1
  where
    rows n text
      | B.null text = Right []
      | otherwise = do
        (cells, rest, lines_) <- cellsFrom n [] text
        ((n, reverse cells) :) <$> rows (n + lines_) rest
    cellsFrom n done text
      | "\"" `B.isPrefixOf` text = case quoted [] (B.drop 1 text) of
        Nothing -> Left (line n <> "a quoted field does not end")
        Just (inner, after) -> continue n (inner : done) (BC.count '\n' inner) (BC.dropWhile (`elem` (" \r" :: String)) after)
      | otherwise = continue n (BC.filter (/= '\r') cell : done) 0 rest
      where
        (cell, rest) = BC.break (\c -> c == separator || c == '\n') text
    continue n done within rest = case BC.uncons rest of
      Nothing -> Right (done, rest, within + 1)
      Just ('\n', rest') -> Right (done, rest', within + 1)
      Just (c, rest')
        | c == separator -> (\(cells, r, lines_) -> (cells, r, lines_ + within)) <$> cellsFrom n done rest'
        | otherwise -> Left (line n <> "text follows a quoted field")
    quoted parts text = case BC.break (== '"') text of
      (part, rest)
        | B.null rest -> Nothing
        | "\"\"" `B.isPrefixOf` rest -> quoted ("\"" : part : parts) (B.drop 2 rest)
        | otherwise -> Just (B.concat (reverse (part : parts)), B.drop 1 rest)

-- | Whose a submission is, by its name: several where it is a team's.
studentsOf :: Students -> ByteString -> [ByteString]
studentsOf students name = [who | Line _ _ (Just who) _ <- linesOf students name]

-- | The first that says one.
roleOf :: Students -> ByteString -> Maybe Role
roleOf students name = listToMaybe [role | Line _ _ _ (Just role) <- linesOf students name]

-- | What the list names and the collection does not have.
unmatched :: Students -> [ByteString] -> [ByteString]
unmatched (Students named patterns) names = [text | (_, Line text _ _ _) <- sortOn fst (concat (Map.elems strangers) ++ filter empty patterns)]
  where
    strangers = Map.withoutKeys named (Set.fromList names)
    empty (_, Line _ pattern_ _ _) = not (any (matches pattern_) names)
