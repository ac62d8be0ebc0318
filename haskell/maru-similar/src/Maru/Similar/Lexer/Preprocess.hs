{-# LANGUAGE OverloadedStrings #-}

-- | What happens to a source of C before its tokens are looked at: trigraphs, lines that are joined,
-- and groups that the preprocessor skips whatever is defined.
module Maru.Similar.Lexer.Preprocess
  ( joins,
    digraphs,
    respelled,
    skippedGroups,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Char (isDigit, isHexDigit)
import Data.Maybe (fromMaybe, isJust)
import qualified Data.Vector.Unboxed as VU
import Maru.Similar.Lexer.Bytes
import Maru.Similar.Lexer.Rewrite (Edit (..), Rewritten (..), rewrite)
import Maru.Similar.Token

-- | Backslashes with the ends of their lines, and trigraphs. Linear time.
joins :: ByteString -> [Edit]
joins source = go 0
  where
    go from = maybe [] (\n -> at (from + n)) (B.findIndex (\w -> w == 92 || w == 63) (B.drop from source))
    at i
      | "\\" `B.isPrefixOf` here = if joined == 0 then go (i + 1) else Edit i (1 + joined) "" : go (i + 1 + joined)
      | "??/" `B.isPrefixOf` here, n <- lineJoin (B.drop 3 here), n > 0, not (commented i) = Edit i (3 + n) "" : go (i + 3 + n)
      | "??" `B.isPrefixOf` here, Just c <- trigraph (B.drop 2 here) = Edit i 3 (BC.singleton c) : go (i + 3)
      | otherwise = go (i + 1)
      where
        here = B.drop i source
        joined = lineJoin (B.drop 1 here)
    trigraph rest = BC.uncons rest >>= \(c, _) -> lookup c (zip "=()<>!'-" "#[]{}|^~")
    -- Few compilers know trigraphs unless asked: there a comment ends with its line.
    commented i = "//" `B.isInfixOf` B.takeWhileEnd (not . lineEnd) (B.take i source)

-- | The blanks behind a backslash and the end of the line, in bytes; 0: code follows.
lineJoin :: ByteString -> Int
lineJoin rest
  | "\r\n" `B.isPrefixOf` after = blanks + 2
  | B.any lineEnd (B.take 1 after) = blanks + 1
  | otherwise = 0
  where
    blanks = B.length (B.takeWhile (\w -> white w && not (lineEnd w)) rest)
    after = B.drop blanks rest

-- | Other spellings of signs.
digraphs :: [(ByteString, ByteString)]
digraphs = [("<%", "{"), ("%>", "}"), ("<:", "["), (":>", "]"), ("%:", "#")]

-- | With signs in place of their other spellings: as long, with a blank behind each.
respelled :: [(ByteString, ByteString)] -> ByteString -> Tokens -> (ByteString, Tokens)
respelled others source ts
  | null found || null others = (source, ts)
  | otherwise = (rewrittenText (rewrite source [Edit (tokenStart ts i) 2 (sign <> " ") | (i, sign) <- found]), ts {tokenEnds = tokenEnds ts VU.// [(i, tokenEnds ts VU.! i - 1) | (i, _) <- found, short i]})
  where
    found = [(i, sign) | i <- [0 .. tokenCount ts - 1], short i || tokenKind ts i == Preamble, Just sign <- [lookup (B.take 2 (tokenText source ts i)) others]]
    short i = tokenEnd ts i - tokenStart ts i == 2

-- Groups that are skipped ----------------------------------------------------------

-- | A line of the preprocessor on conditions: its first token, the one after its last, its name, and
-- what its condition is, if that is a constant.
data Directive = Directive !Int !Int !ByteString !(Maybe Bool)

-- | An @#if@ that is open: whether all its branches so far are known, whether one was taken, and from
-- which token on it is skipped.
data Open = Open !Bool !Bool !(Maybe Int)

-- | Which tokens are skipped whatever is defined, from the first to before the second, with the lines
-- that say so. None where an @#if@ does not end: it hides nothing. Linear time.
skippedGroups :: ByteString -> Tokens -> [(Int, Int)]
skippedGroups source ts = fromMaybe [] (go [] (directives source ts))
  where
    go [] [] = Just []
    go _ [] = Nothing
    go opened (Directive from to word condition : more) = case (word, opened) of
      ("if", _) -> case condition of
        Just False -> go (Open True False (Just from) : opened) more
        Just True -> ((from, to) :) <$> go (Open True True Nothing : opened) more
        Nothing -> go (Open False False Nothing : opened) more
      ("ifdef", _) -> go (Open False False Nothing : opened) more
      ("ifndef", _) -> go (Open False False Nothing : opened) more
      (_, []) -> Nothing
      ("endif", Open known _ skipped : outer) -> (range known skipped ++) <$> go outer more
      ("else", o : outer) -> branch o (Just True) outer
      (_, o : outer) -> branch o condition outer
      where
        range known skipped = [(fromMaybe from skipped, if known then to else from) | known || isJust skipped]
        branch (Open known taken skipped) true outer
          | known && taken = go (Open True True (Just (fromMaybe from skipped)) : outer) more
          | true == Just False = go (Open known False (Just (fromMaybe from skipped)) : outer) more
          | otherwise = (range (known && true == Just True) skipped ++) <$> go (Open (known && true == Just True) known Nothing : outer) more

directives :: ByteString -> Tokens -> [Directive]
directives source ts = [Directive i to word (constant (map text [i + 2 .. to - 1])) | i <- [0 .. n - 2], text i `elem` ["#", "%:"], starts i, let word = text (i + 1), word `elem` words', let to = lineFrom (i + 1)]
  where
    n = tokenCount ts
    text = tokenText source ts
    words' = ["if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"]
    starts i = i == 0 || breaks (between (i - 1))
    between i = B.take (tokenStart ts (i + 1) - tokenEnd ts i) (B.drop (tokenEnd ts i) source)
    lineFrom i = if i + 1 < n && not (breaks (between i)) then lineFrom (i + 1) else i + 1

-- | Whether a line ends in these blanks and comments: not by one within a comment.
breaks :: ByteString -> Bool
breaks blanks
  | B.null rest = False
  | lineEnd (B.head rest) = True
  | "/*" `B.isPrefixOf` rest = breaks (B.drop 2 (snd (B.breakSubstring "*/" (B.drop 2 rest))))
  | otherwise = B.any lineEnd rest
  where
    rest = B.dropWhile (\w -> w /= 47 && not (lineEnd w)) blanks

-- | What a condition always is: a number, @false@, and those negated. In C @true@ may be none.
constant :: [ByteString] -> Maybe Bool
constant condition = case condition of
  "!" : more -> not <$> constant more
  "(" : more@(_ : _) | last more == ")" -> constant (init more)
  ["false"] -> Just False
  [number]
    | Just (c, _) <- BC.uncons number, isDigit c, not (B.null digits), BC.all isHexDigit digits -> Just (BC.any (/= '0') digits)
    where
      digits = (if B.take 2 number `elem` ["0x", "0X", "0b", "0B"] then B.drop 2 else id) (BC.dropWhileEnd (`BC.elem` "uUlLzZ") number)
  _ -> Nothing
