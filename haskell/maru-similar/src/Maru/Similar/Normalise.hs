{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE RankNTypes #-}

-- | From tokens to the codes that are compared.
--
-- * Identifiers and literals become their class ('Structure') or keep their
--   spelling as a hash ('Names').
-- * What a formatter may change has no code: which quotes a text has, a comma before a
--   closing bracket, a semicolon where the end of a line does as well.
-- * @package@ and @import@ declarations, and what other languages have for them,
--   are left out: they are no work of anybody's.
-- * Codes of two families of languages are never the same.
-- * A stretch that repeats itself with a period of at most 'longestPeriod'
--   tokens is cut after 'repeatsKept' tokens: a table of ten thousand numbers is
--   one idea, and would otherwise outweigh the program (and make tiling
--   quadratic).
module Maru.Similar.Normalise
  ( View (..),
    Code,
    Codes,
    barrier,
    isBarrier,
    normalise,
    codesOf,
    familyCode,
    codedTokens,
    spelledText,
    namelessTexts,
    namesMarked,
    collapseRepeats,
    collapseWith,
    longestPeriod,
    repeatsKept,
    joinWithBarriers,
    excluding,
    ownLength,
  )
where

import Control.Monad (when)
import Control.Monad.ST (ST)
import Data.Bits (shiftL, shiftR, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Char (toLower)
import Data.List (intersperse)
import Data.Primitive.PrimArray
import Data.Word (Word32, Word64, Word8)
import Maru.Similar.Lexer.Texts (nameless)
import Maru.Similar.Token

-- | What of a token is compared.
data View
  = -- | Names and values do not count, only their classes.
    Structure
  | -- | Names and values count.
    Names
  deriving (Eq, Show, Enum, Bounded)

type Code = Word32

type Codes = PrimArray Code

-- | Matches nothing, not even itself. Stands between the files of a submission
-- and for what was excluded, so that no tile spans either.
barrier :: Code
barrier = maxBound

isBarrier :: Code -> Bool
isBarrier = (== barrier)
{-# INLINE isBarrier #-}

-- | The codes of one source, without barriers. Linear time.
normalise :: View -> ByteString -> Tokens -> Codes
normalise view source = collapseRepeats . codesOf view source

-- | The positions of the tokens that have a code: all but those of @package@ and
-- @import@ declarations, and what a formatter adds. Linear time.
codedTokens :: Tokens -> PrimArray Word32
codedTokens = coded (\i _ -> fromIntegral i)

-- | A code for each of 'codedTokens', with all repeats. Linear time.
codesOf :: View -> ByteString -> Tokens -> Codes
codesOf view source ts = coded code ts
  where
    code i kind = case view of
      Structure
        | kind == Mark -> spelled i
        | otherwise -> familyCode (tokenFamily ts) (fromEnum (classOf kind))
      Names
        | hasSpelling kind -> spelled i
        | otherwise -> familyCode (tokenFamily ts) (fromEnum kind)
    spelled i = spelling (tokenFamily ts) (spelledText source ts i)
{-# INLINE codesOf #-}

-- | A token as it is spelled, the same in each way that its language takes for the same: texts without
-- quotes and backslashes, behind one quote; names without quotes.
spelledText :: ByteString -> Tokens -> Int -> ByteString
spelledText source ts i
  | kind == StringLiteral = unquoted text
  | habitFolds (tokenHabits ts) && (kind == Identifier || kind == Mark) = BC.map toLower name
  | otherwise = name
  where
    kind = tokenKind ts i
    text = tokenText source ts i
    name = if kind == Identifier && B.any (`elem` [91, 96]) (B.take 1 text) then B.drop 1 (B.init text) else text

unquoted :: ByteString -> ByteString
unquoted = B.cons 34 . B.filter (`notElem` [34, 39, 92, 96])

-- | Spelled codes of the tokens at those places; texts without the names in their code. Linear time.
namelessTexts :: ByteString -> Tokens -> PrimArray Word32 -> Codes -> Codes
namelessTexts source ts places spelled = case habitHole (tokenHabits ts) of
  Nothing -> spelled
  Just hole -> generatePrimArray (sizeofPrimArray spelled) (code hole)
  where
    code hole i
      | tokenKind ts at == StringLiteral = spelling (tokenFamily ts) (unquoted (nameless hole (tokenText source ts at)))
      | otherwise = indexPrimArray spelled i
      where
        at = fromIntegral (indexPrimArray places i)

-- | Spelled codes of one family, with names marked as such: of them counts only which are the same.
-- The first codes are the classes of the same tokens. Linear time.
namesMarked :: Word32 -> Codes -> Codes -> Codes
namesMarked of' classes spelled = generatePrimArray (sizeofPrimArray classes) code
  where
    code i
      | indexPrimArray classes i == name = nameOf of' (indexPrimArray spelled i)
      | otherwise = indexPrimArray spelled i
    name = familyCode of' (fromEnum Identifier)

-- | A name as @cbits\/similar.h@ has it: a bit that says so, six of its family, the rest of its
-- spelling. No barrier: no family has all its bits.
nameOf :: Word32 -> Code -> Code
nameOf of' spelled = 0x80000000 .|. of' `shiftL` 25 .|. spelled .&. 0x1ffffff

-- | What the function says of each token that counts.
coded :: (Int -> Kind -> Word32) -> Tokens -> PrimArray Word32
coded code ts = generateUpTo n fill
  where
    n = tokenCount ts
    fill :: MutablePrimArray s Code -> ST s Int
    fill out = go 0 0
      where
        go !i !o
          | i >= n = pure o
          | kind == KwImport || kind == KwPackage = go (afterSemicolon i) o
          | kind == Preamble || silent i kind = go (i + 1) o
          | otherwise = writePrimArray out o (code i kind) >> go (i + 1) (o + 1)
          where
            kind = tokenKind ts i
    silent i kind = case kind of
      Semicolon -> habitLines (tokenHabits ts)
      Comma -> i + 1 < n && tokenKind ts (i + 1) `elem` [ParenClose, BracketClose, BraceClose]
      _ -> False
    afterSemicolon i
      | i >= n = n
      | tokenKind ts i == Semicolon = i + 1
      | otherwise = afterSemicolon (i + 1)
{-# INLINE coded #-}

-- | An array of at most so many codes; the action says how many it wrote.
generateUpTo :: Int -> (forall s. MutablePrimArray s Code -> ST s Int) -> Codes
generateUpTo n fill = runPrimArray $ do
  out <- newPrimArray n
  used <- fill out
  shrinkMutablePrimArray out used
  pure out

-- | One representative for kinds that are interchangeable.
classOf :: Kind -> Kind
classOf kind = case kind of
  FloatLiteral -> IntLiteral
  TextBlock -> StringLiteral
  KwFalse -> KwTrue
  _ -> kind

hasSpelling :: Kind -> Bool
hasSpelling kind = kind <= TextBlock || kind == Mark

-- | Of a number below 256 in one of at most 1024 families.
familyCode :: Word32 -> Int -> Code
familyCode of' n = 256 * of' + fromIntegral n

-- | Above every 'familyCode', below 'barrier'.
spelling :: Word32 -> ByteString -> Code
spelling of' text = (fromIntegral (h `xor` (h `shiftR` 32)) .&. 0x3fffffff) .|. 0x40000000
  where
    h = B.foldl' (\acc w -> (acc `xor` fromIntegral w) * 0x100000001b3) (0xcbf29ce484222325 `xor` fromIntegral of' :: Word64) text

-- | Periods that 'collapseRepeats' looks for: 1 to this.
longestPeriod :: Int
longestPeriod = 16

-- | How much of a repeating stretch is kept, at least.
repeatsKept :: Int
repeatsKept = 64

-- | Cuts each stretch in which every token equals the one @p@ tokens before it,
-- for a @p@ in @[1, longestPeriod]@, to its first @repeatsKept + p@ tokens.
-- Idempotent but for what the cuts bring together. O(n).
collapseRepeats :: Codes -> Codes
collapseRepeats codes = collapseWith codes codes

-- | The second codes, cut where the first repeat themselves; as many of both. O(n).
collapseWith :: Codes -> Codes -> Codes
collapseWith codes others
  | n <= repeatsKept = others
  | foldlPrimArray' max 0 surplus == 0 = others
  | otherwise = generateUpTo n (keepOthers 0 0)
  where
    n = sizeofPrimArray codes
    surplus = runPrimArray $ do
      flags <- newPrimArray n
      setPrimArray flags 0 n (0 :: Word8)
      mapM_ (flagSurplus codes flags) [1 .. longestPeriod]
      pure flags
    keepOthers :: Int -> Int -> MutablePrimArray s Code -> ST s Int
    keepOthers !i !o out
      | i >= n = pure o
      | indexPrimArray surplus i == 0 =
        writePrimArray out o (indexPrimArray others i) >> keepOthers (i + 1) (o + 1) out
      | otherwise = keepOthers (i + 1) o out

flagSurplus :: Codes -> MutablePrimArray s Word8 -> Int -> ST s ()
flagSurplus codes flags p = go p (0 :: Int)
  where
    n = sizeofPrimArray codes
    go !i !run
      | i >= n = pure ()
      -- What repeats itself that long from here to there on does so there, too.
      | run == 0 && i + repeatsKept <= n && differs (i + repeatsKept - 1) = go (i + repeatsKept) 0
      | differs i = go (i + 1) 0
      | otherwise = do
        when (run >= repeatsKept) $ writePrimArray flags i 1
        go (i + 1) (run + 1)
    differs i = indexPrimArray codes i /= indexPrimArray codes (i - p)

-- | The files of a submission as one sequence.
joinWithBarriers :: [Codes] -> Codes
joinWithBarriers = mconcat . intersperse (primArrayFromList [barrier])

-- | Each of the ranges (first, length; ascending, disjoint) becomes a barrier.
excluding :: [(Int, Int)] -> Codes -> Codes
excluding ranges codes = mconcat (go 0 ranges)
  where
    slice from to = clonePrimArray codes from (to - from)
    go at [] = [slice at (sizeofPrimArray codes)]
    go at ((first, len) : more) =
      slice at first : primArrayFromList [barrier] : go (first + len) more

-- | Tokens that count: all but barriers. O(n).
ownLength :: Codes -> Int
ownLength = foldlPrimArray' (\acc c -> if isBarrier c then acc else acc + 1) 0
