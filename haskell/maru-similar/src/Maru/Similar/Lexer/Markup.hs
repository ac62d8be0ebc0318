{-# LANGUAGE OverloadedStrings #-}

-- | Elements within code, as JSX has them: @\<p title=\"a\">It's {n}\<\/p>@. Between tags stands text, in
-- which no quote and no slash opens anything; in braces stands code.
--
-- What looks like an element's opening may be a comparison or a type. It is one only if its tag ends
-- it, or if a tag that closes it comes later: so no code is taken for text to the end of a file.
module Maru.Similar.Lexer.Markup
  ( Around (..),
    Step (..),
    markup,
    Closings,
    closingsIn,
    opensElement,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Unsafe as BU
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Maru.Similar.Lexer.Bytes (lineEnd, white, wordPart)
import Maru.Similar.Lexer.Texts (Quote (..))
import Maru.Similar.Token (Kind (..))

-- | What a place is in; the innermost first.
data Around
  = -- | Whether the tag is one that closes.
    InTag !Bool
  | -- | Type arguments behind a tag's name, and how many more are open in them.
    InTypes !Int
  | InText
  | -- | Code, and how many braces are open in it.
    InBraces !Int

-- | What stands at a place.
data Step
  = -- | A token of that many bytes, and what comes after it is in.
    Step !Kind !Int ![Around]
  | -- | An attribute's value.
    Value !Quote

-- | 'Nothing': code, or an attribute's name.
markup :: [Around] -> ByteString -> Maybe Step
markup around rest = case around of
  InText : outer
    | "</" `B.isPrefixOf` rest -> Just (Step Mark 2 (InTag True : outer))
    | c == '<' -> Just (Step Mark 1 (InTag False : around))
    | c == '{' -> Just (Step BraceOpen 1 (InBraces 0 : around))
    | otherwise -> Just (Step StringLiteral textLength around)
  InTag closes : outer
    | "/>" `B.isPrefixOf` rest -> Just (Step Mark 2 outer)
    | c == '>' -> Just (Step Mark 1 (if closes then outer else InText : outer))
    | c == '<' -> Just (Step Less 1 (InTypes 0 : around))
    | c == '{' -> Just (Step BraceOpen 1 (InBraces 0 : around))
    | c == '"' || c == '\'' -> let mark = B.take 1 rest in Just (Value (Quote mark mark False True Nothing))
  InTypes n : outer
    | "=>" `B.isPrefixOf` rest -> Just (Step Arrow 2 around)
    | c == '<' -> Just (Step Less 1 (InTypes (n + 1) : outer))
    | c == '>' -> Just (Step Greater 1 (if n == 0 then outer else InTypes (n - 1) : outer))
    | c == '{' -> Just (Step BraceOpen 1 (InBraces 0 : around))
  InBraces n : outer
    | c == '{' -> Just (Step BraceOpen 1 (InBraces (n + 1) : outer))
    | c == '}' -> Just (Step BraceClose 1 (if n == 0 then outer else InBraces (n - 1) : outer))
  _ -> Nothing
  where
    c = maybe '\0' fst (BC.uncons rest)
    textLength = B.length (B.dropWhileEnd white (B.takeWhile (\w -> not (lineEnd w || w == 60 || w == 123)) rest))

-- | The names of elements that are closed somewhere, each with the last place.
type Closings = Map.Map ByteString Int

-- | Linear time.
closingsIn :: ByteString -> Closings
closingsIn source = go Map.empty 0
  where
    go found at
      | B.null after = found
      | otherwise = go (Map.insert (nameAt (B.drop 2 after)) here found) (here + 2)
      where
        (before, after) = B.breakSubstring "</" (BU.unsafeDrop at source)
        here = at + B.length before

-- | Of an element; without one it is a group of others.
nameAt :: ByteString -> ByteString
nameAt = B.takeWhile (\w -> wordPart w || w == 46 || w == 45 || w == 58)

-- | Whether the angle bracket at that offset opens an element.
opensElement :: Closings -> Int -> ByteString -> Bool
opensElement closings at rest = named && (maybe False (> at) (Map.lookup name closings) || endsItself 0 (behindTypes (B.take 1024 after)))
  where
    name = nameAt (B.drop 1 rest)
    after = B.drop (1 + B.length name) rest
    named = if B.null name then ">" `B.isPrefixOf` after else not (BC.all (`elem` ['0' .. '9']) (B.take 1 name))

-- | What stands behind the type arguments that a text begins with, if it does.
behindTypes :: ByteString -> ByteString
behindTypes text = if "<" `B.isPrefixOf` text then go (0 :: Int) text else text
  where
    go depth rest = case BC.uncons rest of
      Nothing -> rest
      Just ('<', more) -> go (depth + 1) more
      Just ('>', more) -> if depth == 1 then more else go (depth - 1) more
      Just ('=', more) -> go depth (fromMaybe more (B.stripPrefix ">" more))
      Just (_, more) -> go depth more

-- | Whether a tag ends with a slash, from behind its name on, at that depth of braces.
endsItself :: Int -> ByteString -> Bool
endsItself depth rest = case BC.uncons rest of
  Nothing -> False
  Just (c, more)
    | depth == 0 && "/>" `B.isPrefixOf` rest -> True
    | depth == 0 && (c == '>' || c == '<' || c == ';') -> False
    | c == '{' -> endsItself (depth + 1) more
    | c == '}' -> depth > 0 && endsItself (depth - 1) more
    | depth == 0 && (c == '"' || c == '\'') -> endsItself depth (B.drop 1 (BC.dropWhile (/= c) more))
    | otherwise -> endsItself depth more
