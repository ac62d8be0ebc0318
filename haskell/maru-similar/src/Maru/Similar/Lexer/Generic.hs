{-# LANGUAGE OverloadedStrings #-}

-- | A lexer for languages that have no other. It knows comments, literals, words and signs as a
-- style says; it accepts any bytes. A comment or text that does not end hides nothing: its opening
-- is an error, what follows is code. Linear time.
module Maru.Similar.Lexer.Generic
  ( Style (..),
    Comment (..),
    Quote (..),
    plainStyle,
    lexGeneric,
  )
where

import Data.Array.Unboxed (UArray, accumArray, (!))
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Unsafe as BU
import qualified Data.Map.Strict as Map
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word8)
import Maru.Similar.Token

-- | How a language is written.
data Style = Style
  { -- | What makes the rest of a line a comment.
    lineComments :: ![ByteString],
    blockComments :: ![Comment],
    -- | Of texts; longer openings first.
    quotes :: ![Quote],
    -- | A single quote holds one character, or is a sign.
    quotedChars :: !Bool,
    -- | A slash where an operand may stand opens a text.
    patterns :: !Bool,
    -- | Beside letters, digits, @_@ and @$@.
    wordBytes :: ![Word8],
    -- | What a line begins with that says which code of others is used: it does not count.
    preambles :: ![ByteString],
    -- | Separated by spaces.
    keywords :: !ByteString
  }

-- | Opening and end; whether one may lie in another.
data Comment = Comment !ByteString !ByteString !Bool

data Quote = Quote
  { quoteOpens :: !ByteString,
    quoteCloses :: !ByteString,
    -- | A backslash takes what follows it into the text.
    quoteEscapes :: !Bool,
    -- | It may go on in the next line.
    quoteLines :: !Bool
  }

plainStyle :: Style
plainStyle = Style [] [] [] False False [] [] ""

-- | Where the lexer is.
data Place = Place
  { offset :: !Int,
    -- | Only white space stands before it in its line.
    lineStart :: !Bool,
    -- | The last token may be divided.
    operand :: !Bool,
    -- | Ends that were looked for in vain, by their openings: each is so once.
    absent :: ![ByteString]
  }

-- | The tokens of a source of that family, of less than 4 GiB.
lexGeneric :: Style -> Word32 -> ByteString -> Tokens
lexGeneric style family = \source ->
  let (kinds, starts, ends, open) = VU.unzip4 (VU.unfoldr (next style known special source) (Place 0 True False []))
   in Tokens kinds starts ends (VU.length (VU.filter (== code Error) kinds)) (VU.length (VU.filter id open)) family
  where
    known = Map.fromList [(w, Map.findWithDefault Mark w meanings) | w <- BC.words (keywords style)]
    special = accumArray (\_ new -> new) False (0, 255) [(B.head o, True) | o <- openings, not (B.null o)] :: UArray Word8 Bool
    openings = lineComments style ++ [o | Comment o _ _ <- blockComments style] ++ map quoteOpens (quotes style) ++ preambles style

-- | Kind, ends, and whether it is an opening without an end.
type Lexeme = (Word8, Word32, Word32, Bool)

next :: Style -> Map.Map ByteString Kind -> UArray Word8 Bool -> ByteString -> Place -> Maybe (Lexeme, Place)
next style known special source = go
  where
    go at
      | offset at >= B.length source = Nothing
      | c == 10 = go at {offset = offset at + 1, lineStart = True}
      | white c = go at {offset = offset at + 1}
      | special ! c, Just found <- opened at rest = found
      | c == 39 && quotedChars style = let (kind, n) = character rest in token at kind n
      | c == 47 && patterns style && not (operand at), Just n <- patternLength rest = token at StringLiteral n
      | digit c = token at IntLiteral (number rest)
      | wordStart c = let n = B.length (B.takeWhile inWord rest) in token at (Map.findWithDefault Identifier (BU.unsafeTake n rest) known) n
      | otherwise = let (kind, n) = sign rest in token at kind n
      where
        rest = BU.unsafeDrop (offset at) source
        c = BU.unsafeIndex source (offset at)
    opened at rest
      | lineStart at && any (isPreamble inWord rest) (preambles style) = Just (token at Preamble (preambleLength rest))
      | (open, close, nested) : _ <- [(o, e, n) | Comment o e n <- blockComments style, o `B.isPrefixOf` rest] =
        Just (maybe (unclosed at open) (skip at) (if open `elem` absent at then Nothing else commentLength open close nested rest))
      | any (opensLine rest) (lineComments style) = Just (skip at (lineLength rest))
      | quote : _ <- filter ((`B.isPrefixOf` rest) . quoteOpens) (quotes style) = Just (text at quote rest)
      | otherwise = Nothing
    skip at n = go at {offset = offset at + n}
    text at quote rest
      | quoteLines quote = maybe (unclosed at open) (token at StringLiteral) (if open `elem` absent at then Nothing else textLength quote rest)
      | otherwise = maybe (token at Error (lineLength rest)) (token at StringLiteral) (textLength quote rest)
      where
        open = quoteOpens quote
    token at kind n = Just ((code kind, fromIntegral (offset at), fromIntegral (offset at + n), False), at {offset = offset at + n, lineStart = False, operand = dividable kind})
    unclosed at open = (\((k, s, e, _), after) -> ((k, s, e, True), after {absent = open : absent at})) <$> token at Error (B.length open)
    inWord w = wordPart w || w `elem` wordBytes style
    number rest = let n = B.length (B.takeWhile wordPart rest) in n + fraction (B.drop n rest)
    fraction rest = case B.unpack (B.take 2 rest) of
      [46, w] | digit w -> 1 + B.length (B.takeWhile wordPart (B.drop 1 rest))
      _ -> 0

lineLength :: ByteString -> Int
lineLength = B.length . BC.takeWhile (/= '\n')

-- | Whether the rest of the line is a comment: in many languages @--@ is, and @-->@ an operator.
opensLine :: ByteString -> ByteString -> Bool
opensLine rest open
  | not (open `B.isPrefixOf` rest) = False
  | "-" `B.isPrefixOf` open = maybe True ((`BC.notElem` "!#$%&*+./<=>?@\\^|~:") . fst) (BC.uncons (BC.dropWhile (== '-') rest))
  | otherwise = True

-- | With its end.
commentLength :: ByteString -> ByteString -> Bool -> ByteString -> Maybe Int
commentLength open close nested rest = go (1 :: Int) (B.length open)
  where
    go depth n
      | n >= B.length rest = Nothing
      | close `B.isPrefixOf` here = if depth == 1 then Just (n + B.length close) else go (depth - 1) (n + B.length close)
      | nested && open `B.isPrefixOf` here = go (depth + 1) (n + B.length open)
      | otherwise = go depth (n + 1 + B.length (B.takeWhile (`notElem` firsts) (B.drop 1 here)))
      where
        here = BU.unsafeDrop n rest
    firsts = [w | Just (w, _) <- [B.uncons close, B.uncons open]]

-- | With its end.
textLength :: Quote -> ByteString -> Maybe Int
textLength quote rest = go (B.length (quoteOpens quote))
  where
    go n
      | n >= B.length rest || BU.unsafeHead here == 10 && not (quoteLines quote) = Nothing
      | quoteCloses quote `B.isPrefixOf` here = Just (n + B.length (quoteCloses quote))
      | quoteEscapes quote && BU.unsafeHead here == 92 = go (n + 2)
      | otherwise = go (n + 1)
      where
        here = BU.unsafeDrop n rest

-- | A regular expression within a line, with its flags. No longer than such are.
patternLength :: ByteString -> Maybe Int
patternLength rest = go False 1
  where
    near = B.take 500 rest
    go inClass n = case BC.uncons (B.drop n near) of
      Nothing -> Nothing
      Just ('\n', _) -> Nothing
      Just ('\\', _) -> go inClass (n + 2)
      Just ('[', _) -> go True (n + 1)
      Just (']', _) -> go False (n + 1)
      Just ('/', after) | not inClass -> Just (n + 1 + B.length (B.takeWhile wordPart after))
      _ -> go inClass (n + 1)

-- | A character, or a sign alone. It has an escape, or is one character.
character :: ByteString -> (Kind, Int)
character rest
  | "'\\" `B.isPrefixOf` rest, Just n <- B.elemIndex 39 (B.take 12 (B.drop 3 rest)) = (CharLiteral, n + 4)
  | Just n <- B.elemIndex 39 (B.take 5 (B.drop 1 rest)), n == 1 || n > 1 && B.index rest 1 >= 0x80 = (CharLiteral, n + 2)
  | otherwise = (Mark, 1)

-- | A call is none: a parenthesis follows only where it belongs to the words.
isPreamble :: (Word8 -> Bool) -> ByteString -> ByteString -> Bool
isPreamble inWord rest word =
  word `B.isPrefixOf` rest && ("(" `B.isSuffixOf` word || (maybe True (not . inWord . fst) (B.uncons after) && not ("(" `B.isPrefixOf` BC.dropWhile (== ' ') after)))
  where
    after = B.drop (B.length word) rest

-- | To the end of its line, or of the brackets that are open there, if that is near.
preambleLength :: ByteString -> Int
preambleLength rest = go (0 :: Int) 0
  where
    near = B.take 4096 rest
    go depth n = case BC.uncons (B.drop n near) of
      Just ('\n', _) | depth <= 0 -> n
      Just (c, _)
        | c == '(' || c == '{' -> go (depth + 1) (n + 1)
        | c == ')' || c == '}' -> go (depth - 1) (n + 1)
        | otherwise -> go depth (n + 1)
      Nothing -> if depth <= 0 && B.length near == B.length rest then n else lineLength rest

sign :: ByteString -> (Kind, Int)
sign rest = case [(kind, n) | n <- [3, 2, 1], B.length rest >= n, Just kind <- [Map.lookup (B.take n rest) signs]] of
  found : _ -> found
  [] -> (if B.all (\c -> c > 32 && c < 127) (B.take 1 rest) then Mark else Error, 1)

dividable :: Kind -> Bool
dividable kind = kind `elem` [Identifier, IntLiteral, StringLiteral, CharLiteral, ParenClose, BracketClose, BraceClose]

code :: Kind -> Word8
code = fromIntegral . fromEnum

white, digit, wordStart, wordPart :: Word8 -> Bool
white c = c == 32 || (c >= 9 && c <= 13)
digit c = c >= 48 && c <= 57
wordStart c = (c .&. 0xdf >= 65 && c .&. 0xdf <= 90 && c < 0x80) || c == 95 || c == 36 || c >= 0x80
wordPart c = wordStart c || digit c

-- | Words that mean what one of Java's means.
meanings :: Map.Map ByteString Kind
meanings =
  Map.fromList $
    concat
      [ KwIf & "if elif elsif elseif unless when",
        KwElse & "else",
        KwFor & "for foreach loop repeat",
        KwWhile & "while until",
        KwDo & "do",
        KwCase & "case",
        KwDefault & "default",
        KwReturn & "return",
        KwBreak & "break",
        KwContinue & "continue next",
        KwClass & "class struct trait impl data object module",
        KwInterface & "interface protocol",
        KwVoid & "void def fn func fun function",
        KwInt & "int",
        KwLong & "long",
        KwDouble & "double",
        KwFloat & "float",
        KwChar & "char",
        KwShort & "short",
        KwTry & "try begin",
        KwCatch & "catch except rescue",
        KwFinally & "finally ensure",
        KwThrow & "throw raise",
        KwNew & "new",
        KwAssert & "assert",
        Arrow & "lambda",
        KwTrue & "true True TRUE",
        KwFalse & "false False FALSE",
        KwNull & "null nil None nullptr undefined NULL"
      ]
  where
    kind & words_ = [(w, kind) | w <- BC.words words_]

signs :: Map.Map ByteString Kind
signs =
  Map.fromList
    [ ("(", ParenOpen),
      (")", ParenClose),
      ("{", BraceOpen),
      ("}", BraceClose),
      ("[", BracketOpen),
      ("]", BracketClose),
      (";", Semicolon),
      (",", Comma),
      (".", Dot),
      ("->", Mark),
      ("::", Mark),
      ("=", Assign),
      (":=", Assign),
      ("<-", Assign),
      (">", Greater),
      ("<", Less),
      ("!", Not),
      ("~", Complement),
      ("?", Question),
      (":", Colon),
      ("=>", Arrow),
      ("==", Equal),
      ("===", Equal),
      (">=", GreaterEqual),
      ("<=", LessEqual),
      ("!=", NotEqual),
      ("!==", NotEqual),
      ("&&", AndAnd),
      ("||", OrOr),
      ("++", Increment),
      ("--", Decrement),
      ("+", Plus),
      ("-", Minus),
      ("*", Star),
      ("/", Slash),
      ("&", And),
      ("|", Or),
      ("^", Xor),
      ("%", Percent),
      ("<<", ShiftLeft),
      ("+=", PlusAssign),
      ("-=", MinusAssign),
      ("*=", StarAssign),
      ("/=", SlashAssign),
      ("&=", AndAssign),
      ("|=", OrAssign),
      ("^=", XorAssign),
      ("%=", PercentAssign),
      ("<<=", ShiftLeftAssign)
    ]
