{-# LANGUAGE OverloadedStrings #-}

-- | Texts whose end depends on their opening, and texts with code in them. Each is looked for within
-- 'mostText' bytes.
module Maru.Similar.Lexer.Texts
  ( -- * With fixed ends
    Quote (..),
    textLength,
    hasHole,
    holedLength,
    nameless,

    -- * The end is made of the opening
    Raw (..),
    rawCpp,
    rawCSharp,
    rawLua,
    rawR,
    rawRust,
    rawSwift,
    rawEnd,

    -- * Bodies behind their line
    Heredoc (..),
    heredocPhp,
    heredocRuby,
    bodyOf,
  )
where

import Control.Monad (guard)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Unsafe as BU
import Data.Char (isAsciiUpper)
import Data.List (find)
import Maru.Similar.Lexer.Bytes
import Maru.Similar.Token (Hole (..))

data Quote = Quote
  { quoteOpens :: !ByteString,
    quoteCloses :: !ByteString,
    -- | A backslash takes what follows it into the text.
    quoteEscapes :: !Bool,
    -- | It may go on in the next line.
    quoteLines :: !Bool,
    -- | What code in it opens with, and the bracket that it ends with.
    quoteHole :: !(Maybe (ByteString, Char))
  }

-- | With its end.
textLength :: Quote -> ByteString -> Maybe Int
textLength quote rest = go (B.length (quoteOpens quote))
  where
    go n
      | n >= B.length rest || lineEnd (BU.unsafeHead here) && not (quoteLines quote) = Nothing
      | quoteCloses quote `B.isPrefixOf` here = Just (n + B.length (quoteCloses quote))
      | quoteEscapes quote && BU.unsafeHead here == 92 = go (n + 2)
      | otherwise = go (n + 1)
      where
        here = BU.unsafeDrop n rest

-- | Bytes in which an end is looked for.
mostText :: Int
mostText = 1048576

data Raw = Raw
  { -- | First bytes of openings: no text that begins with another is given to 'rawOpening'.
    rawFirsts :: ![Char],
    rawComment :: !Bool,
    -- | Of what begins with an opening: how long that is, and the end.
    rawOpening :: ByteString -> Maybe (Int, ByteString)
  }

-- | How long the text is, with its end.
rawEnd :: Int -> ByteString -> ByteString -> Maybe Int
rawEnd n close rest
  | B.null after = Nothing
  | otherwise = Just (n + B.length before + B.length close)
  where
    (before, after) = B.breakSubstring close (B.take mostText (B.drop n rest))

-- | @R"tag(@ to @)tag"@.
rawCpp :: Raw
rawCpp = Raw "RLuU" False $ \rest -> do
  prefix <- find (`B.isPrefixOf` rest) ["R\"", "LR\"", "uR\"", "UR\"", "u8R\""]
  let tag = BC.takeWhile (`notElem` ("()\\\" \t\r\n" :: String)) (B.take 17 (B.drop (B.length prefix) rest))
      n = B.length prefix + B.length tag
  guard (B.length tag <= 16 && "(" `B.isPrefixOf` B.drop n rest)
  pure (n + 1, ")" <> tag <> "\"")

-- | @r##"@ to @"##@.
rawRust :: Raw
rawRust = Raw "rbc" False $ \rest -> do
  prefix <- find (`B.isPrefixOf` rest) ["r#", "r\"", "br#", "br\"", "cr#", "cr\""]
  let hashes = BC.takeWhile (== '#') (B.drop (B.length prefix - 1) rest)
      n = B.length prefix - 1 + B.length hashes
  guard ("\"" `B.isPrefixOf` B.drop n rest)
  pure (n + 1, "\"" <> hashes)

-- | @##"@ to @"##@, and so with three quotes.
rawSwift :: Raw
rawSwift = Raw "#" False $ \rest -> do
  let hashes = BC.takeWhile (== '#') rest
  quote <- find (`B.isPrefixOf` B.drop (B.length hashes) rest) ["\"\"\"", "\""]
  pure (B.length hashes + B.length quote, quote <> hashes)

-- | Three quotes and more to as many; and those in which a backslash is one.
rawCSharp :: Raw
rawCSharp = Raw "$@\"" False $ \rest -> do
  let signs = BC.takeWhile (`BC.elem` "$@") rest
      quotes = BC.takeWhile (== '"') (B.drop (B.length signs) rest)
  if B.length quotes >= 3 && BC.notElem '@' signs
    then pure (B.length signs + B.length quotes, quotes)
    else guard (BC.elem '@' signs && not (B.null quotes)) >> pure (B.length signs + 1, "\"")

-- | @[==[@ to @]==]@.
rawLua :: ByteString -> Raw
rawLua prefix = Raw (take 1 (BC.unpack (prefix <> "["))) (not (B.null prefix)) $ \rest -> do
  inner <- B.stripPrefix (prefix <> "[") rest
  let level = BC.takeWhile (== '=') inner
  guard ("[" `B.isPrefixOf` B.drop (B.length level) inner)
  pure (B.length prefix + B.length level + 2, "]" <> level <> "]")

-- | @r"--(@ to @)--"@, with either quote and each bracket.
rawR :: Raw
rawR = Raw "rR" False $ \rest -> do
  let quote = BC.takeWhile (`BC.elem` "\"'") (B.take 1 (B.drop 1 rest))
  guard (not (B.null quote))
  let dashes = BC.takeWhile (== '-') (B.drop 2 rest)
  (open, _) <- BC.uncons (B.drop (2 + B.length dashes) rest)
  close <- lookup open (zip "([{" ")]}")
  pure (3 + B.length dashes, BC.cons close dashes <> quote)

-- | A text that stands behind the line of its opening.
data Heredoc = Heredoc
  { heredocFirst :: !Char,
    -- | Of what begins with an opening: how long that is, the word at the end, and whether that may
    -- be indented.
    heredocOpening :: ByteString -> Maybe (Int, ByteString, Bool),
    -- | Whether code may follow the word at the end.
    heredocGoesOn :: !Bool
  }

heredocPhp, heredocRuby :: Heredoc
heredocPhp = Heredoc '<' opening True
  where
    opening rest = do
      r <- B.stripPrefix "<<<" rest
      let blank = B.length (BC.takeWhile (`BC.elem` " \t") r)
      worded (3 + blank) True (B.drop blank r)
heredocRuby = Heredoc '<' opening False
  where
    opening rest = do
      r <- B.stripPrefix "<<" rest
      if any (`B.isPrefixOf` r) ["~", "-"]
        then worded 3 True (B.drop 1 r)
        else -- A word in small letters is more likely what something is shifted by.
          guard (BC.all (\c -> c `BC.elem` "\"'" || isAsciiUpper c) (B.take 1 r)) >> worded 2 False r

worded :: Int -> Bool -> ByteString -> Maybe (Int, ByteString, Bool)
worded n indented rest = do
  let quote = BC.takeWhile (`BC.elem` "\"'`") (B.take 1 rest)
      word = B.takeWhile wordPart (B.drop (B.length quote) rest)
      quoted = B.length quote + B.length word
  guard (B.any wordStart (B.take 1 word) && quote `B.isPrefixOf` B.drop quoted rest)
  pure (n + quoted + B.length quote, word, indented)

-- | How far a body goes that stands behind the end of this line, with the word at its end.
bodyOf :: Heredoc -> ByteString -> Bool -> ByteString -> Maybe Int
bodyOf heredoc word indented rest = go (B.length (B.takeWhile (not . lineEnd) near))
  where
    near = B.take mostText rest
    go n
      | n >= B.length near = Nothing
      | word `B.isPrefixOf` line, ends (B.drop (B.length word) line) = Just (start + B.length word)
      | otherwise = go (start + B.length (B.takeWhile (not . lineEnd) line))
      where
        after = BU.unsafeDrop (n + 1) near
        blank = if indented then B.length (BC.takeWhile (`BC.elem` " \t") after) else 0
        start = n + 1 + blank
        line = B.drop blank after
    ends after
      | heredocGoesOn heredoc = not (B.any wordPart (B.take 1 after))
      | otherwise = B.all lineEnd (B.take 1 after)

-- | Whether there seems to be code in the text that opens here.
hasHole :: Quote -> ByteString -> Bool
hasHole quote rest = case quoteHole quote of
  Just (open, _) -> open `B.isInfixOf` maybe near (`B.take` near) (textLength quote near)
  Nothing -> False
  where
    near = B.take 4096 rest

-- | The length of a text with code in it, which has texts of its own, where all of them end near. The
-- texts of the language, and the one that opens here.
holedLength :: [Quote] -> Quote -> ByteString -> Maybe Int
holedLength quotes quote rest = inText quote (B.length (quoteOpens quote))
  where
    near = B.take 4096 rest
    inText q n
      | n >= B.length near || lineEnd (BU.unsafeIndex near n) && not (quoteLines q) = Nothing
      | quoteCloses q `B.isPrefixOf` here = Just (n + B.length (quoteCloses q))
      | Just (open, close) <- quoteHole q, open `B.isPrefixOf` here = inCode (BC.last open, close) (0 :: Int) (n + B.length open) >>= inText q
      | quoteEscapes q && BU.unsafeHead here == 92 = inText q (n + 2)
      | otherwise = inText q (n + 1)
      where
        here = BU.unsafeDrop n near
    inCode brackets@(open, close) depth n
      | n >= B.length near = Nothing
      | c == close = if depth == 0 then Just (n + 1) else inCode brackets (depth - 1) (n + 1)
      | c == open = inCode brackets (depth + 1) (n + 1)
      | Just q <- find ((`B.isPrefixOf` here) . quoteOpens) quotes = inText q (n + B.length (quoteOpens q)) >>= inCode brackets depth
      | otherwise = inCode brackets depth (n + 1)
      where
        here = BU.unsafeDrop n near
        c = BC.head here

-- | A text with one sign for each word of the code in it. Code without an end goes to the end of the
-- text. Linear time.
nameless :: Hole -> ByteString -> ByteString
nameless hole = B.concat . inText
  where
    inText rest
      | B.null code = [plain]
      | holeOpens hole `B.isPrefixOf` code = plain : holeOpens hole : inCode (0 :: Int) (B.drop (B.length (holeOpens hole)) code)
      | holeDollar hole, B.any (\c -> wordStart c && c /= 36) (B.take 1 after) = plain : "$_" : inText (B.dropWhile wordPart after)
      | otherwise = plain : B.take 1 code : inText after
      where
        (plain, code) = B.break (`B.elem` firsts) rest
        after = B.drop 1 code
    firsts = B.take 1 (holeOpens hole) <> if holeDollar hole then "$" else ""
    inCode depth rest = case B.uncons rest of
      Nothing -> []
      Just (c, after)
        | wordStart c -> "_" : inCode depth (B.dropWhile wordPart after)
        | wordPart c -> let (number, more) = B.span wordPart rest in number : inCode depth more
        | c == holeCloses hole && depth == 0 -> B.singleton c : inText after
        | otherwise -> B.singleton c : inCode (depth + level c) after
    level c
      | c == holeCloses hole = -1
      | c == B.last (holeOpens hole) = 1
      | otherwise = 0
