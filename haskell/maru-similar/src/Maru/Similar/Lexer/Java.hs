{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | The Java lexer. It accepts every sequence of bytes: what is not Java becomes
-- 'Error' tokens, and is counted. Linear time; about 9 bytes a token are kept.
module Maru.Similar.Lexer.Java
  ( lexJava,
  )
where

import Control.Monad.ST (ST, runST)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.Vector.Unboxed as VU
import qualified Data.Vector.Unboxed.Mutable as VM
import Data.Word (Word32, Word8)
import Maru.Similar.Lexer.Scanner (Lexeme (..), Scanned (..), scan)
import Maru.Similar.Lexer.Unescape (Unescaped (..), originalOffset, unescape)
import Maru.Similar.Token

-- | All tokens of a source of less than 4 GiB. Offsets are those of the given
-- source, also where it has unicode escapes. Never fails.
lexJava :: ByteString -> Tokens
lexJava source = case unescape source of
  Nothing -> lexPlain source
  Just u -> relocate u (lexPlain (unescapedSource u))

relocate :: Unescaped -> Tokens -> Tokens
relocate u ts =
  ts
    { tokenStarts = VU.map (originalOffset u) (tokenStarts ts),
      tokenEnds = VU.map (originalOffset u) (tokenEnds ts)
    }

data Buffers s = Buffers
  { kindBuffer :: !(VM.MVector s Word8),
    startBuffer :: !(VM.MVector s Word32),
    endBuffer :: !(VM.MVector s Word32)
  }

buildTokens :: Int -> (forall s. Buffers s -> ST s (Buffers s, Int, Int)) -> Tokens
buildTokens expected fill = runST $ do
  buffers <- Buffers <$> VM.new expected <*> VM.new expected <*> VM.new expected
  (Buffers kinds starts ends, n, errors) <- fill buffers
  Tokens
    <$> VU.unsafeFreeze (VM.take n kinds)
    <*> VU.unsafeFreeze (VM.take n starts)
    <*> VU.unsafeFreeze (VM.take n ends)
    <*> pure errors

lexPlain :: ByteString -> Tokens
lexPlain source = buildTokens (size `div` 4 + 64) (run (withoutMark source))
  where
    size = B.length source
    offsetOf rest = fromIntegral (size - B.length rest) :: Word32

    -- n: tokens so far; errors: so far; stuckEnd: where the last Error token
    -- ends, so that the next stuck byte lengthens it instead of starting another.
    run :: ByteString -> Buffers s -> ST s (Buffers s, Int, Int)
    run text buffers0 = go buffers0 text 0 0 maxBound
    go :: Buffers s -> ByteString -> Int -> Int -> Word32 -> ST s (Buffers s, Int, Int)
    go !buffers !text !n !errors !stuckEnd = case scan text of
      Done -> pure (buffers, n, errors)
      Stuck
        | stuckEnd == at -> do
          VM.unsafeWrite (endBuffer buffers) (n - 1) (at + 1)
          go buffers (B.drop 1 text) n errors (at + 1)
        | otherwise -> do
          buffers' <- push buffers n Error at (at + 1)
          go buffers' (B.drop 1 text) (n + 1) (errors + 1) (at + 1)
      Scanned lexeme rest -> case lexeme of
        Blank -> go buffers rest n errors maxBound
        Token kind -> do
          buffers' <- push buffers n kind at (offsetOf rest)
          go buffers' rest (n + 1) errors maxBound
        Unterminated -> do
          buffers' <- push buffers n StringLiteral at (offsetOf rest)
          go buffers' rest (n + 1) (errors + 1) maxBound
        OpenComment -> case afterComment rest of
          Just rest' -> go buffers rest' n errors maxBound
          Nothing -> pure (buffers, n, errors + 1)
        OpenTextBlock -> do
          let (rest', ended) = afterTextBlock rest
          buffers' <- push buffers n TextBlock at (offsetOf rest')
          go buffers' rest' (n + 1) (if ended then errors else errors + 1) maxBound
      where
        at = offsetOf text

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

-- | What follows the text block, and whether it ended.
afterTextBlock :: ByteString -> (ByteString, Bool)
afterTextBlock text = case B.findIndex (\w -> w == 34 || w == 92) text of
  Nothing -> (B.empty, False)
  Just i
    | "\"\"\"" `B.isPrefixOf` rest -> (B.drop 3 rest, True)
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
