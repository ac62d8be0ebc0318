{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | The Java lexer. It accepts every sequence of bytes: what is not Java becomes
-- 'Error' tokens, and is counted. A comment or text block that does not end hides
-- nothing: its opening is an error, what follows is code. Linear time; about 9 bytes
-- a token are kept.
module Maru.Similar.Lexer.Java
  ( lexJava,
    lexUnescaped,
  )
where

import Control.Monad.ST (ST, runST)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.Vector.Unboxed as VU
import qualified Data.Vector.Unboxed.Mutable as VM
import Data.Word (Word32, Word8)
import Maru.Similar.Lexer.Rewrite
import Maru.Similar.Lexer.Scanner (Lexeme (..), Scanned (..), scan)
import Maru.Similar.Lexer.Unescape (escapes)
import Maru.Similar.Token

-- | All tokens of a source of less than 4 GiB. Offsets are those of the given
-- source, also where it has unicode escapes. Never fails.
lexJava :: ByteString -> Tokens
lexJava source = relocated r (lexUnescaped (rewrittenText r))
  where
    r = rewrite source (escapes source)

data Buffers s = Buffers
  { kindBuffer :: !(VM.MVector s Word8),
    startBuffer :: !(VM.MVector s Word32),
    endBuffer :: !(VM.MVector s Word32)
  }

-- | How much is wrong so far.
data Wrong = Wrong
  { errors :: !Int,
    unclosed :: !Int,
    -- | No @*/@ follows, no @\"\"\"@ follows: each is looked for in vain once.
    openComment :: !Bool,
    openBlock :: !Bool
  }

buildTokens :: Int -> (forall s. Buffers s -> ST s (Buffers s, Int, Wrong)) -> Tokens
buildTokens expected fill = runST $ do
  buffers <- Buffers <$> VM.new expected <*> VM.new expected <*> VM.new expected
  (Buffers kinds starts ends, n, wrong) <- fill buffers
  Tokens
    <$> VU.unsafeFreeze (VM.take n kinds)
    <*> VU.unsafeFreeze (VM.take n starts)
    <*> VU.unsafeFreeze (VM.take n ends)
    <*> pure (errors wrong)
    <*> pure (unclosed wrong)
    <*> pure 0
    <*> pure noHabits

-- | Those of a source in which no unicode escape is one.
lexUnescaped :: ByteString -> Tokens
lexUnescaped source = buildTokens (size `div` 4 + 64) (run (withoutMark source))
  where
    size = B.length source
    offsetOf rest = fromIntegral (size - B.length rest) :: Word32

    -- n: tokens so far; stuckEnd: where the last Error token ends, so that the
    -- next stuck byte lengthens it instead of starting another.
    run :: ByteString -> Buffers s -> ST s (Buffers s, Int, Wrong)
    run text buffers0 = go buffers0 text 0 (Wrong 0 0 False False) maxBound
    go :: Buffers s -> ByteString -> Int -> Wrong -> Word32 -> ST s (Buffers s, Int, Wrong)
    go !buffers !text !n !wrong !stuckEnd = case scan text of
      Done -> pure (buffers, n, wrong)
      Stuck
        | stuckEnd == at -> do
          VM.unsafeWrite (endBuffer buffers) (n - 1) (at + 1)
          go buffers (B.drop 1 text) n wrong (at + 1)
        | otherwise -> do
          buffers' <- push buffers n Error at (at + 1)
          go buffers' (B.drop 1 text) (n + 1) (oneMore wrong) (at + 1)
      Scanned lexeme rest -> case lexeme of
        Blank -> go buffers rest n wrong maxBound
        Token kind -> token kind rest wrong
        Unterminated -> token StringLiteral rest (oneMore wrong)
        OpenComment -> case if openComment wrong then Nothing else afterComment rest of
          Just rest' -> go buffers rest' n wrong maxBound
          Nothing -> token Error rest (oneOpen wrong) {openComment = True}
        OpenTextBlock -> case if openBlock wrong then Nothing else afterTextBlock rest of
          Just rest' -> token TextBlock rest' wrong
          Nothing -> token Error (B.drop 3 text) (oneOpen wrong) {openBlock = True}
      where
        at = offsetOf text
        token kind rest wrong' = do
          buffers' <- push buffers n kind at (offsetOf rest)
          go buffers' rest (n + 1) wrong' maxBound

oneMore, oneOpen :: Wrong -> Wrong
oneMore w = w {errors = errors w + 1}
oneOpen w = (oneMore w) {unclosed = unclosed w + 1}

-- | Without the byte order mark of UTF-8.
withoutMark :: ByteString -> ByteString
withoutMark text
  | "\xef\xbb\xbf" `B.isPrefixOf` text = B.drop 3 text
  | otherwise = text

-- | What follows the comment; 'Nothing' where it does not end.
afterComment :: ByteString -> Maybe ByteString
afterComment text = case B.elemIndex 42 text of
  Nothing -> Nothing
  Just i
    | "/" `B.isPrefixOf` rest -> Just (B.drop 1 rest)
    | otherwise -> afterComment rest
    where
      rest = B.drop (i + 1) text

-- | What follows the text block; 'Nothing' where it does not end.
afterTextBlock :: ByteString -> Maybe ByteString
afterTextBlock text = case B.findIndex (\w -> w == 34 || w == 92) text of
  Nothing -> Nothing
  Just i
    | "\"\"\"" `B.isPrefixOf` rest -> Just (B.drop 3 rest)
    | "\\" `B.isPrefixOf` rest -> afterTextBlock (B.drop 2 rest)
    | otherwise -> afterTextBlock (B.drop 1 rest)
    where
      rest = B.drop i text

push :: Buffers s -> Int -> Kind -> Word32 -> Word32 -> ST s (Buffers s)
push buffers n kind start end = do
  roomy <- if n < VM.length (kindBuffer buffers) then pure buffers else enlarge buffers
  VM.unsafeWrite (kindBuffer roomy) n (fromIntegral (fromEnum kind))
  VM.unsafeWrite (startBuffer roomy) n start
  VM.unsafeWrite (endBuffer roomy) n end
  pure roomy
{-# INLINE push #-}

enlarge :: Buffers s -> ST s (Buffers s)
enlarge (Buffers kinds starts ends) =
  Buffers <$> VM.grow kinds extra <*> VM.grow starts extra <*> VM.grow ends extra
  where
    extra = VM.length kinds `div` 2 + 64
