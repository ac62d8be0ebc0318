{-# LANGUAGE OverloadedStrings #-}

-- | How a language is written, as "Maru.Similar.Lexer.Generic" knows it, and how far what it writes
-- goes: comments, texts, preambles. A line ends at a line feed or a carriage return.
module Maru.Similar.Lexer.Style
  ( Style (..),
    Comment (..),
    Preamble (..),
    plainStyle,

    -- * Lengths in bytes
    lineLength,
    commentLength,
    pageLength,
    LineOpening (..),
    opensLine,
    preambleLength,
    pieceLength,
    Skipped (..),
    skipped,

    -- * Bytes
    inWord,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Unsafe as BU
import Data.Maybe (fromMaybe, listToMaybe, mapMaybe)
import Data.Word (Word8)
import Maru.Similar.Lexer.Bytes
import Maru.Similar.Lexer.Texts
import Maru.Similar.Token (Habits, noHabits)

data Style = Style
  { -- | What makes the rest of a line a comment.
    lineComments :: ![ByteString],
    -- | And where only white space stands before it.
    startComments :: ![ByteString],
    -- | What only looks like either.
    noComments :: ![ByteString],
    -- | A run of dashes that goes on as an operator is none.
    dashes :: !Bool,
    -- | Right after a colon it is none: a link.
    links :: !Bool,
    blockComments :: ![Comment],
    -- | Comments whose opening and end stand first in their lines.
    pages :: ![(ByteString, ByteString)],
    -- | Of texts; longer openings first.
    quotes :: ![Quote],
    -- | Texts and comments whose ends are made of their openings.
    raws :: ![Raw],
    heredocs :: !(Maybe Heredoc),
    -- | What stands round names that are the same without.
    quotedNames :: ![(Char, Char)],
    -- | @$tag$@ stands round code.
    dollars :: !Bool,
    -- | Signs of two bytes that are spelled otherwise, too.
    spellings :: ![(ByteString, ByteString)],
    -- | A backslash at the end of a line joins it to the next.
    lineJoins :: !Bool,
    -- | A single quote holds one character, or is a sign.
    quotedChars :: !Bool,
    -- | A slash where an operand may stand opens a text.
    patterns :: !Bool,
    -- | So does a per cent sign, with its own brackets; and either where a blank stands before it only.
    percents :: !Bool,
    -- | An angle bracket where an operand may stand opens an element ("Maru.Similar.Lexer.Markup").
    elements :: !Bool,
    -- | Beside letters, digits, @_@ and @$@.
    wordBytes :: ![Word8],
    -- | What a line begins with that says which code of others is used: it does not count.
    preambles :: ![Preamble],
    -- | Separated by spaces; in small letters where these are the same.
    keywords :: !ByteString,
    habits :: !Habits,
    -- | What code opens with, and ends with; none: all is code.
    islands :: !(Maybe ([ByteString], ByteString)),
    -- | A line that ends all code.
    lastLine :: !(Maybe ByteString)
  }

-- | Opening and end; whether one may lie in another.
data Comment = Comment !ByteString !ByteString !Bool

data Preamble = Preamble
  { preambleWord :: !ByteString,
    -- | Brackets in which it goes on in the next line.
    preambleBrackets :: ![Char],
    -- | The word that it ends with, if need be in another line.
    preambleEnd :: !(Maybe ByteString)
  }

plainStyle :: Style
plainStyle = Style [] [] [] False False [] [] [] [] Nothing [] False [] False False False False False [] [] "" noHabits Nothing Nothing

-- | To the end of its line. A line comment ends with the code, too.
lineLength :: Style -> ByteString -> Int
lineLength style rest = maybe n (\(_, close) -> B.length (fst (B.breakSubstring close line))) (islands style)
  where
    line = BU.unsafeTake n rest
    n = B.length (B.takeWhile (not . lineEnd) rest)

-- | With its end.
commentLength :: Comment -> ByteString -> Maybe Int
commentLength (Comment open close nested) rest
  | nested = go (1 :: Int) (B.length open)
  | B.null after = Nothing
  | otherwise = Just (B.length open + B.length before + B.length close)
  where
    (before, after) = B.breakSubstring close (B.drop (B.length open) rest)
    go depth n
      | n >= B.length rest = Nothing
      | close `B.isPrefixOf` here = if depth == 1 then Just (n + B.length close) else go (depth - 1) (n + B.length close)
      | open `B.isPrefixOf` here = go (depth + 1) (n + B.length open)
      | otherwise = go depth (n + 1 + B.length (B.takeWhile (\w -> w /= opens && w /= closes) (B.drop 1 here)))
      where
        here = BU.unsafeDrop n rest
    (opens, closes) = (maybe 0 fst (B.uncons open), maybe 0 fst (B.uncons close))

-- | With the line of its end.
pageLength :: ByteString -> ByteString -> Maybe Int
pageLength close rest
  | B.null after = Nothing
  | close `B.isPrefixOf` B.drop 1 after = Just (n + 1 + B.length (B.takeWhile (not . lineEnd) (B.drop 1 after)))
  | otherwise = (+ (n + 1)) <$> pageLength close (B.drop 1 after)
  where
    (line, after) = B.break lineEnd rest
    n = B.length line

-- | What looks like a line comment.
data LineOpening
  = OpensComment
  | -- | A sign of that many bytes.
    NoComment !Int

-- | After that byte.
opensLine :: Style -> Word8 -> ByteString -> Maybe LineOpening
opensLine style before rest
  | not (any (`B.isPrefixOf` rest) (lineComments style)) = Nothing
  | sign : _ <- filter (`B.isPrefixOf` rest) (noComments style) = Just (NoComment (B.length sign))
  | links style && before == 58 = Just (NoComment 1)
  | dashes style && goesOn = Just (NoComment run)
  | otherwise = Just OpensComment
  where
    run = B.length (BC.takeWhile (== '-') rest)
    goesOn = maybe False ((`BC.elem` "!#$%&*+./<=>?@\\^|~:") . fst) (BC.uncons (B.drop run rest))

-- Preambles ---------------------------------------------------------------------

-- | How far a preamble goes that may stand here, comments in it included: to the end of its line, to
-- a semicolon, or to the end of the brackets that it opens, where that is near and is asked for. And
-- whether something was looked for in vain. 'Nothing': it is none, but a call or a block.
preambleLength :: Style -> Bool -> Preamble -> ByteString -> (Maybe Int, Bool)
preambleLength style far p rest
  | not (preambleWord p `B.isPrefixOf` rest) || any (inWord style . fst) (B.uncons after) || called = (Nothing, False)
  | not far = (within 0 [] Nothing, False)
  | otherwise = case within (maybe 0 (const 1) (preambleEnd p)) (preambleBrackets p) (preambleEnd p) of
    Nothing -> (within 0 [] Nothing, True)
    found -> (found, False)
  where
    after = B.drop (B.length (preambleWord p)) rest
    called = "(" `B.isPrefixOf` BC.dropWhile (== ' ') after && '(' `notElem` preambleBrackets p
    within = spanned style rest (B.length (preambleWord p))

-- | From the offset on, at that depth of those brackets.
spanned :: Style -> ByteString -> Int -> Int -> [Char] -> Maybe ByteString -> Maybe Int
spanned style rest from depth0 brackets end = go depth0 from
  where
    go :: Int -> Int -> Maybe Int
    go depth n
      | n >= B.length rest = if depth == 0 then Just n else Nothing
      | depth > 0 && n > from + 4096 = Nothing
      | depth == 0 && lineEnd (BU.unsafeIndex rest n) = Just n
      | depth == 0 && c == ';' = Just (n + 1)
      | Just w <- end, depth <= 1, w `B.isPrefixOf` here, apart n, apart' (n + B.length w) = Just (n + B.length w)
      | otherwise = case skipped style (BU.unsafeIndex rest (n - 1)) here of
        Comments k
          | depth == 0 && B.any lineEnd (B.take (k + 1) here) -> Just n
          | otherwise -> go depth (n + k)
        Plain 1
          | c == '{' && '{' `notElem` brackets -> Nothing
          | c `elem` brackets || depth > 0 && c == '(' -> go (depth + 1) (n + 1)
          | depth > 0 && (c == ')' || c == '}') -> go (depth - 1) (n + 1)
        Plain k -> go depth (n + k)
      where
        here = BU.unsafeDrop n rest
        c = BC.head here
    apart n = not (inWord style (BU.unsafeIndex rest (n - 1)))
    apart' n = not (any (inWord style . fst) (B.uncons (B.drop n rest)))

-- | What stands at a place of a preamble, and how long it is.
data Skipped = Comments !Int | Plain !Int

-- | A comment whose end is not near goes on to the end of all; a text of which that holds is none.
skipped :: Style -> Word8 -> ByteString -> Skipped
skipped style before rest = case opensLine style before rest of
  Just OpensComment -> Comments (lineLength style rest)
  Just (NoComment n) -> Plain n
  Nothing
    | comment : _ <- [c | c@(Comment open _ _) <- blockComments style, open `B.isPrefixOf` rest] -> Comments (fromMaybe (B.length rest) (commentLength comment (B.take 4096 rest)))
    | otherwise -> Plain (fromMaybe 1 (listToMaybe (mapMaybe (`textLength` B.take 256 rest) [q | q <- quotes style, quoteOpens q `B.isPrefixOf` rest])))

-- | How much of a preamble stands before its next comment, without white space at the end.
pieceLength :: Style -> Word8 -> ByteString -> Int
pieceLength style before rest = B.length (B.dropWhileEnd white (BU.unsafeTake (go before 0) rest))
  where
    go w n
      | n >= B.length rest = B.length rest
      | otherwise = case skipped style w (BU.unsafeDrop n rest) of
        Comments _ -> n
        Plain k -> let n' = min (B.length rest) (n + k) in go (BU.unsafeIndex rest (n' - 1)) n'

-- Bytes -------------------------------------------------------------------------

inWord :: Style -> Word8 -> Bool
inWord style w = wordPart w || w `elem` wordBytes style
