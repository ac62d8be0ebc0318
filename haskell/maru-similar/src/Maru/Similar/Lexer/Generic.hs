{-# LANGUAGE OverloadedStrings #-}

-- | A lexer for languages that have no other. It knows comments, literals, words and signs as a
-- style says; it accepts any bytes. A comment or text that does not end hides nothing: its opening
-- is an error, what follows is code. Linear time.
module Maru.Similar.Lexer.Generic
  ( lexGeneric,
  )
where

import Data.Array.Unboxed (UArray, accumArray, (!))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Unsafe as BU
import Data.Char (toLower)
import Data.List (find)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust)
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word8)
import Maru.Similar.Lexer.Bytes
import Maru.Similar.Lexer.Markup
import Maru.Similar.Lexer.Style hiding (Preamble)
import Maru.Similar.Lexer.Texts
import Maru.Similar.Token

-- | Where the lexer is.
data Place = Place
  { offset :: !Int,
    -- | Only white space stands before it in its line.
    lineStart :: !Bool,
    -- | The last token may be divided.
    operand :: !Bool,
    -- | Ends that were looked for in vain, by their openings: each is so once.
    absent :: ![ByteString],
    -- | Up to here stands a preamble.
    preambleTo :: !Int,
    -- | From here on the end of a preamble is looked for in later lines, again.
    farFrom :: !Int,
    -- | From here on the end of a text in brackets of its own is looked for, again.
    percentsFrom :: !Int,
    -- | And that of a text which its opening does not say alone.
    textsFrom :: !Int,
    -- | Where texts end that stand behind the end of this line.
    bodiesTo :: !Int,
    -- | Code between two tags, the innermost first: where the second one stands, its length, and the
    -- ends that were looked for in vain before the first.
    tagged :: ![(Int, Int, [ByteString])],
    -- | No code stands here, but what is around it.
    outside :: !Bool,
    -- | Elements, and code in them.
    around :: ![Around]
  }

-- | The tokens of a source of that family, of less than 4 GiB.
lexGeneric :: Style -> Word32 -> ByteString -> Tokens
lexGeneric style family = \source ->
  let (kinds, starts, ends, open) = VU.unzip4 (VU.unfoldr (next style known special source (closingsIn source)) (Place 0 True False [] 0 0 0 0 0 [] (isJust (islands style)) []))
   in Tokens kinds starts ends (VU.length (VU.filter (== code Error) kinds)) (VU.length (VU.filter id open)) family (habits style)
  where
    known = Map.fromList [(w, Map.findWithDefault Mark w meanings) | w <- BC.words (keywords style)]
    special = accumArray (\_ new -> new) False (0, 255) [(B.head o, True) | o <- openings, not (B.null o)] :: UArray Word8 Bool
    openings = lineComments style ++ startComments style ++ foldMap pure (lastLine style) ++ [o | Comment o _ _ <- blockComments style] ++ map (BC.singleton . fst) (quotedNames style) ++ ["$" | dollars style] ++ map fst (pages style) ++ map quoteOpens (quotes style) ++ map preambleWord (preambles style) ++ [close | Just (_, close) <- [islands style]] ++ map BC.singleton (concatMap rawFirsts (raws style) ++ [heredocFirst h | Just h <- [heredocs style]])

-- | Kind, ends, and whether it is an opening without an end.
type Lexeme = (Word8, Word32, Word32, Bool)

-- | The next one, and where the lexer is then; none at the end.
type Found = Maybe (Lexeme, Place)

next :: Style -> Map.Map ByteString Kind -> UArray Word8 Bool -> ByteString -> Closings -> Place -> Found
next style known special source closings = go
  where
    go at
      | offset at >= B.length source = Nothing
      | (close, n, before') : outer <- tagged at, offset at == close = token at {tagged = outer, absent = before'} BraceClose n
      | lineEnd c && bodiesTo at > offset at + 1 = token at {offset = offset at + 1} StringLiteral (bodiesTo at - offset at - 1)
      | lineEnd c = go at {offset = offset at + 1, lineStart = True}
      | white c = go at {offset = offset at + 1}
      | outside at = surroundings style at rest
      | offset at < preambleTo at = preamble at (B.take (preambleTo at - offset at) rest)
      | elements style, Just found <- element style closings at rest = found
      | special ! c, Just found <- marked at rest = found
      | special ! c, Just found <- opened at rest = found
      | c == 39 && quotedChars style = let (kind, n) = character rest in token at kind n
      | c == 47 && patterns style && opens style (before at) at rest, Just n <- patternLength rest = token at StringLiteral n
      | c == 37 && percents style && opens style (before at) at rest = percent style at rest
      | c == 92 && lineJoins style && B.any lineEnd (B.take 1 (B.drop 1 rest)) = go at {offset = offset at + 1}
      | digit c = token at IntLiteral (number rest)
      | wordStart c = let n = B.length (B.takeWhile (inWord style) rest) in token at (Map.findWithDefault Identifier (folded (BU.unsafeTake n rest)) known) n
      | otherwise = signed style at rest
      where
        -- No text goes on behind a tag.
        rest = BU.unsafeDrop (offset at) (case tagged at of (close, _, _) : _ -> BU.unsafeTake close source; [] -> source)
        c = BU.unsafeIndex source (offset at)
    folded
      | habitFolds (habits style) = BC.map toLower
      | otherwise = id
    opened at rest
      | lineStart at, Just found <- openedLine at rest = Just found
      | (raw, n, close) : _ <- [(raw, n, close) | raw <- raws style, BC.head rest `elem` rawFirsts raw, Just (n, close) <- [rawOpening raw rest]] = Just (rawText at raw n close rest)
      | Just heredoc <- heredocs style, Just found <- heredocAt style at heredoc rest = Just found
      | opening@(Comment open _ _) : _ <- [c | c@(Comment open _ _) <- blockComments style, open `B.isPrefixOf` rest] = Just (comment at open (commentLength opening rest))
      | Just (_, close) <- islands style, close `B.isPrefixOf` rest = Just (token at {outside = True} Mark (B.length close))
      | otherwise = case opensLine style (before at) rest of
        Just OpensComment -> Just (skip at (lineLength style rest))
        Just (NoComment n) -> Just (token at (Map.findWithDefault Mark (BU.unsafeTake n rest) signs) n)
        Nothing -> (\quote -> text style at quote rest) <$> find ((`B.isPrefixOf` rest) . quoteOpens) (quotes style)
    marked at rest
      | Just n <- quotedName (quotedNames style) (before at) rest = Just (token at Identifier n)
      | dollars style, Just n <- tagLength (before at) rest = Just (tagAt at n rest)
      | otherwise = Nothing
    -- Only where white space alone stands before it.
    openedLine at rest
      | Just found <- preambleAt at rest = Just found
      | any (`B.isPrefixOf` rest) (startComments style) && not (any (`B.isPrefixOf` rest) (noComments style)) = Just (skip at (lineLength style rest))
      | Just word <- lastLine style, lineEnd (before at) && B.takeWhile (not . lineEnd) rest == word = Just Nothing
      | (open, close) : _ <- filter ((`B.isPrefixOf` rest) . fst) (pages style) = Just (comment at open (pageLength close rest))
      | otherwise = Nothing
    before at = if offset at == 0 then 10 else BU.unsafeIndex source (offset at - 1)
    comment at open found = maybe (unclosed at open) (skip at) (if open `elem` absent at then Nothing else found)
    preambleAt at rest = case [(n, failed) | p <- preambles style, (n, failed) <- [preambleLength style (offset at >= farFrom at) p rest], isJust n || failed] of
      (n, failed) : _ -> let at' = if failed then at {farFrom = offset at + 4096} else at in Just (go (maybe at' {lineStart = False} (\k -> at' {preambleTo = offset at + k}) n))
      [] -> Nothing
    preamble at rest = case skipped style (before at) rest of
      Comments n -> skip at (min n (B.length rest))
      Plain _ -> let n = pieceLength style (before at) rest in atLineStart (";" `B.isSuffixOf` BU.unsafeTake n rest) (token at Preamble n)
    skip at n = go at {offset = offset at + n}
    rawText at raw n close rest
      | offset at >= textsFrom at, Just k <- rawEnd n close rest = if rawComment raw then skip at k else token at StringLiteral k
      | otherwise = openError (vain at) n

-- | A token of so many bytes.
token :: Place -> Kind -> Int -> Found
token at kind n = Just ((code kind, fromIntegral (offset at), fromIntegral (offset at + n), False), at {offset = offset at + n, lineStart = False, operand = dividable kind})

-- | An opening without an end, which is an error of so many bytes.
openError :: Place -> Int -> Found
openError at n = (\((k, s, e, _), after) -> ((k, s, e, True), after)) <$> token at Error n

-- | One that is not looked for any more.
unclosed :: Place -> ByteString -> Found
unclosed at open = openError at {absent = open : absent at} (B.length open)

-- | What is looked for in vain is not looked for again nearby, so that time is linear.
vain :: Place -> Place
vain at = at {textsFrom = offset at + 4096}

-- | And whether a line begins behind it.
atLineStart :: Bool -> Found -> Found
atLineStart yes = fmap (\(found, after) -> (found, after {lineStart = yes}))

-- | What surrounds code: a token a line.
surroundings :: Style -> Place -> ByteString -> Found
surroundings style at rest
  | tag : _ <- filter (`B.isPrefixOf` rest) tags = leave at {outside = False} (B.length tag)
  | otherwise = leave at (B.length (B.dropWhileEnd white (BU.unsafeTake (1 + B.length (B.takeWhile (\w -> not (lineEnd w || w `elem` firsts)) (B.drop 1 rest))) rest)))
  where
    leave at' n = atLineStart True (token at' Mark n)
    tags = maybe [] fst (islands style)
    firsts = [w | Just (w, _) <- map B.uncons tags]

-- | A sign.
signed :: Style -> Place -> ByteString -> Found
signed style at rest = let (kind, n) = sign (spellings style) rest in token at kind n

-- | A text behind a per cent sign, or that sign.
percent :: Style -> Place -> ByteString -> Found
percent style at rest = case percentLength (offset at >= percentsFrom at) rest of
  (Just n, _) -> token at StringLiteral n
  (Nothing, failed) -> signed style (if failed then at {percentsFrom = offset at + mostPercent} else at) rest

-- | Whether a slash, or a per cent sign, behind that byte is no division.
opens :: Style -> Word8 -> Place -> ByteString -> Bool
opens style before at rest = not (operand at) || percents style && white before && not (B.all (\w -> white w || w == 61) (B.take 1 (B.drop 1 rest)))

-- | What stands in an element, or opens one.
element :: Style -> Closings -> Place -> ByteString -> Maybe Found
element style closings at rest = case markup (around at) rest of
  Just (Step kind n inside) -> Just (token at {around = inside} kind n)
  Just (Value quote) -> Just (text style at quote rest)
  Nothing
    | "<" `B.isPrefixOf` rest && not (operand at) && opensElement closings (offset at) rest -> Just (token at {around = InTag False : around at} Mark 1)
    | otherwise -> Nothing

-- | The first of two tags around code.
tagAt :: Place -> Int -> ByteString -> Found
tagAt at n rest
  | offset at >= textsFrom at, length (tagged at) < mostTagged, Just k <- rawEnd n (B.take n rest) rest = token at {tagged = (offset at + k - n, n, absent at) : tagged at} BraceOpen n
  | otherwise = openError (vain at) n

-- | The opening of a text that stands behind this line.
heredocAt :: Style -> Place -> Heredoc -> ByteString -> Maybe Found
heredocAt style at heredoc rest = do
  (n, word, indented) <- heredocOpening heredoc rest
  let from = max n (bodiesTo at - offset at)
  if offset at < textsFrom at
    then Nothing
    else Just $ case bodyOf heredoc word indented (B.drop from rest) of
      Just k -> token at {bodiesTo = offset at + from + k} ShiftLeft n
      Nothing -> signed style (vain at) rest

-- | A text in quotes, which may have code in it.
text :: Style -> Place -> Quote -> ByteString -> Found
text style at quote rest
  | offset at >= textsFrom at && quoteOpens quote `notElem` absent at && hasHole quote rest = maybe (plainText style (vain at) quote rest) (token at StringLiteral) (holedLength (quotes style) quote rest)
  | otherwise = plainText style at quote rest

plainText :: Style -> Place -> Quote -> ByteString -> Found
plainText style at quote rest
  | quoteLines quote = maybe (unclosed at open) (token at StringLiteral) (if open `elem` absent at then Nothing else textLength quote rest)
  | otherwise = maybe (token at Error (lineLength style rest)) (token at StringLiteral) (textLength quote rest)
  where
    open = quoteOpens quote

-- | Bytes of a number.
number :: ByteString -> Int
number rest = let n = B.length (B.takeWhile wordPart rest) in n + fraction (B.drop n rest)
  where
    fraction behind = case B.unpack (B.take 2 behind) of
      [46, w] | digit w -> 1 + B.length (B.takeWhile wordPart (B.drop 1 behind))
      _ -> 0

-- | A regular expression within a line, with its flags. No longer than such are.
patternLength :: ByteString -> Maybe Int
patternLength rest = go False 1
  where
    near = B.take 500 rest
    go inClass n = case BC.uncons (B.drop n near) of
      Nothing -> Nothing
      Just (c, _) | c == '\n' || c == '\r' -> Nothing
      Just ('\\', _) -> go inClass (n + 2)
      Just ('[', _) -> go True (n + 1)
      Just (']', _) -> go False (n + 1)
      Just ('/', after) | not inClass -> Just (n + 1 + B.length (B.takeWhile wordPart after))
      _ -> go inClass (n + 1)

-- | Bytes of a text in brackets of its own behind a per cent sign, at most.
mostPercent :: Int
mostPercent = 4096

-- | A text in brackets of its own behind a per cent sign and a letter, or none; and whether its end was
-- looked for so far in vain. Brackets that come in pairs count only where the first argument says so.
percentLength :: Bool -> ByteString -> (Maybe Int, Bool)
percentLength paired rest = case BC.uncons (B.drop n near) of
  Just (open, _)
    | Just close <- lookup open (zip "([{<" ")]}>") -> if paired then go open close (0 :: Int) n else (Nothing, False)
    | open `elem` ("|!/\"'^~" :: String) -> ((+ (n + 2)) <$> BC.elemIndex open (B.drop (n + 1) near), False)
  _ -> (Nothing, False)
  where
    near = B.take mostPercent rest
    n = if BC.all (`elem` ("qQwWiIrsx" :: String)) (B.take 1 (B.drop 1 near)) then 2 else 1
    go open close depth i = case BC.uncons (B.drop i near) of
      Nothing -> (Nothing, True)
      Just ('\\', _) -> go open close depth (i + 2)
      Just (c, _)
        | c == open -> go open close (depth + 1) (i + 1)
        | c == close -> if depth == 1 then (Just (i + 1), False) else go open close (depth - 1) (i + 1)
        | otherwise -> go open close depth (i + 1)

-- | A character, or a sign alone. It has an escape, or is one character.
character :: ByteString -> (Kind, Int)
character rest
  | "'\\" `B.isPrefixOf` rest, Just n <- B.elemIndex 39 (B.take 12 (B.drop 3 rest)) = (CharLiteral, n + 4)
  | Just n <- B.elemIndex 39 (B.take 5 (B.drop 1 rest)), n == 1 || n > 1 && B.index rest 1 >= 0x80 = (CharLiteral, n + 2)
  | otherwise = (Mark, 1)

-- | Depth of code between tags. More would take too long.
mostTagged :: Int
mostTagged = 4

-- | A name of these quotes, with them; after that byte. In square brackets it is a word or several, and no
-- index.
quotedName :: [(Char, Char)] -> Word8 -> ByteString -> Maybe Int
quotedName quotes' before rest = do
  (open, inner) <- BC.uncons rest
  close <- lookup open quotes'
  let name = BC.takeWhile (`BC.notElem` BC.pack ['\n', '\r', close]) (B.take 256 inner)
      words' = open /= '[' || not (wordPart before || before == 93 || before == 41) && B.any wordStart (B.take 1 name) && B.all (\w -> wordPart w || w == 32) name
  if not (B.null name) && words' && BC.singleton close `B.isPrefixOf` B.drop (B.length name) inner then Just (B.length name + 2) else Nothing

-- | @$tag$@; after that byte.
tagLength :: Word8 -> ByteString -> Maybe Int
tagLength before rest
  | not (wordPart before) && "$" `B.isPrefixOf` B.drop n rest && not (B.any digit (B.take 1 (B.drop 1 rest))) = Just (n + 1)
  | otherwise = Nothing
  where
    n = 1 + B.length (B.takeWhile (\w -> wordPart w && w /= 36) (B.take 64 (B.drop 1 rest)))

-- | These signs are spelled otherwise, too. Two colons behind a bracket stay two.
sign :: [(ByteString, ByteString)] -> ByteString -> (Kind, Int)
sign others rest
  | Just same <- lookup (B.take 2 rest) others, not ("<::" `B.isPrefixOf` rest && not (any (`B.isPrefixOf` B.drop 3 rest) [":", ">"])) = (Map.findWithDefault Mark same signs, 2)
  | otherwise = usualSign rest

usualSign :: ByteString -> (Kind, Int)
usualSign rest = case [(kind, n) | n <- [3, 2, 1], B.length rest >= n, Just kind <- [Map.lookup (B.take n rest) signs]] of
  found : _ -> found
  [] -> (if B.all (\c -> c > 32 && c < 127) (B.take 1 rest) then Mark else Error, 1)

dividable :: Kind -> Bool
dividable kind = kind `elem` [Identifier, IntLiteral, StringLiteral, CharLiteral, ParenClose, BracketClose, BraceClose]

code :: Kind -> Word8
code = fromIntegral . fromEnum

digit :: Word8 -> Bool
digit c = c >= 48 && c <= 57

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
