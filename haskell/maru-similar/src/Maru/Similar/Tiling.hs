{-# LANGUAGE BangPatterns #-}

-- | Exact greedy string tiling (Wise 1993). Repeatedly take the longest common stretch of tokens
-- that no tile covers yet, on both sides, until none of the minimum length is left.
--
-- One side is indexed once ('index'): a table of the running Karp–Rabin hashes
-- of its m-grams, m being the minimum match length. For each other side, all
-- left-maximal matches are found through the table and go into a heap. The longest is popped, and
-- what earlier tiles cover splits it. The tiles are those of the rescanning algorithm up to the
-- choice among equally long matches.
--
-- O(n + matches · (length + log matches)) a pair. Two sides that repeat
-- themselves have quadratically many matches. A pair may take 'workBound' steps, then the tiling
-- goes on with the matches found so far and is not 'complete'. Steps are counted, not timed, so the
-- result does not depend on the machine.
module Maru.Similar.Tiling
  ( -- * Sides
    Side,
    side,
    sideCodes,
    sideLength,

    -- * Tiling
    Index,
    index,
    Tile,
    Match (..),
    Tiling (..),
    tiles,
    Coverage (..),
    coverages,
    workBound,
  )
where

import Control.Monad (when)
import Control.Monad.ST (ST, runST)
import Data.Bits (shiftL, shiftR, (.&.))
import Data.Int (Int32)
import Data.Primitive.PrimArray
import Data.Word (Word32, Word64)
import Maru.Similar.Heap
import Maru.Similar.Normalise (Codes, isBarrier, ownLength)

-- | A token sequence with the hashes of its m-grams.
data Side = Side
  { sideCodes :: !Codes,
    sideGrams :: !(PrimArray Word32),
    -- | Tokens without barriers.
    sideLength :: !Int
  }

-- | Sides that meet must be made with the same minimum match length (at least
-- 1). O(n).
side :: Int -> Codes -> Side
side m codes = Side codes (gramHashes m codes) (ownLength codes)

-- | Hash of each window of @m@ codes, each from the one before.
gramHashes :: Int -> Codes -> PrimArray Word32
gramHashes m codes
  | n < m = mempty
  | otherwise = runPrimArray $ do
    out <- newPrimArray (n - m + 1)
    let go !i !h
          | i + m > n = pure out
          | otherwise = do
            writePrimArray out i (fold h)
            if i + m < n
              then go (i + 1) ((h - top * code i) * radix + code (i + m))
              else pure out
    go 0 (polynomial 0 0)
  where
    n = sizeofPrimArray codes
    code i = fromIntegral (indexPrimArray codes i) + 1
    top = radix ^ (m - 1)
    polynomial !i !h
      | i == m = h
      | otherwise = polynomial (i + 1) (h * radix + code i)

radix :: Word64
radix = 0x9e3779b97f4a7c15

fold :: Word64 -> Word32
fold h = fromIntegral ((h * 0xff51afd7ed558ccd) `shiftR` 32)
{-# INLINE fold #-}

-- | A side with the table of its m-grams.
data Index = Index
  { indexedSide :: !Side,
    indexMinimum :: !Int,
    -- | First position by hash, -1: none. A power of two long.
    indexHeads :: !(PrimArray Int32),
    -- | Next position in the same bucket, ascending.
    indexNext :: !(PrimArray Int32)
  }

-- | Index a side with less than @2^31@ tokens. O(n).
index :: Int -> Side -> Index
index m s = runST $ do
  heads <- newPrimArray buckets
  setPrimArray heads 0 buckets (-1)
  next <- newPrimArray n
  let go i
        | i < 0 = pure ()
        | otherwise = do
          let b = bucketOf (buckets - 1) (indexPrimArray grams i)
          readPrimArray heads b >>= writePrimArray next i
          writePrimArray heads b (fromIntegral i)
          go (i - 1)
  go (n - 1)
  Index s m <$> unsafeFreezePrimArray heads <*> unsafeFreezePrimArray next
  where
    grams = sideGrams s
    n = sizeofPrimArray grams
    buckets = until (>= 4 * n) (`shiftL` 1) 16

bucketOf :: Int -> Word32 -> Int
bucketOf mask h = fromIntegral h .&. mask
{-# INLINE bucketOf #-}

-- | A stretch that both sides share: positions on the indexed and on the other
-- side, and its length.
type Tile = Match

data Tiling = Tiling
  { tilingTiles :: ![Tile],
    tilingComplete :: !Bool
  }
  deriving (Eq, Show)

-- | The tiles, longest first.
tiles :: Index -> Side -> Tiling
tiles ix other = runST $ do
  scratch <- newScratch ix (sizeofPrimArray (sideCodes other))
  finished <- findMatches ix scratch other
  found <- collect scratch
  pure (Tiling found finished)
  where
    collect scratch = do
      next <- nextTile ix scratch 1
      case next of
        Nothing -> pure []
        Just t -> (t :) <$> collect scratch

-- | How many tokens tiles cover (on either side: it is the same number).
data Coverage = Coverage
  { covered :: !Int,
    -- | Whether the work bound was not met.
    complete :: !Bool
  }
  deriving (Eq, Show)

-- | The coverage of the indexed side with each of the others. The work space is
-- shared; the results are all evaluated when the list is.
coverages :: Index -> [Side] -> [Coverage]
coverages ix others = runST $ do
  scratch <- newScratch ix (maximum (0 : map (sizeofPrimArray . sideCodes) others))
  let each _ [] = pure []
      each !epoch (other : rest) = do
        finished <- findMatches ix scratch other
        n <- total scratch epoch 0
        (Coverage n finished :) <$> each (epoch + 1) rest
  each 1 others
  where
    total scratch epoch !acc = do
      next <- nextTile ix scratch epoch
      case next of
        Nothing -> pure acc
        Just t -> total scratch epoch (acc + matchLength t)

-- | Work space of one indexed side. A token is covered where its mark equals the
-- number of the current pair, so marks need not be cleared.
data Scratch s = Scratch
  { leftMarks :: !(MutablePrimArray s Word32),
    rightMarks :: !(MutablePrimArray s Word32),
    heap :: !(Heap s)
  }

newScratch :: Index -> Int -> ST s (Scratch s)
newScratch ix rightSize = Scratch <$> marks leftSize <*> marks rightSize <*> newHeap
  where
    leftSize = sizeofPrimArray (sideCodes (indexedSide ix))
    marks n = do
      a <- newPrimArray n
      setPrimArray a 0 n 0
      pure a

-- | Steps that finding the matches of a pair may take, from the number of tokens
-- of both sides.
workBound :: Int -> Int
workBound tokens = min 200000000 (4000000 + 200 * tokens)

-- | All maximal matches into the heap; whether that was within the bound.
findMatches :: Index -> Scratch s -> Side -> ST s Bool
findMatches ix scratch other = clear (heap scratch) >> rightFrom 0 0
  where
    Side as gramsA _ = indexedSide ix
    Side bs gramsB _ = other
    m = indexMinimum ix
    na = sizeofPrimArray as
    nb = sizeofPrimArray bs
    lastGram = sizeofPrimArray gramsB
    heads = indexHeads ix
    next = indexNext ix
    mask = sizeofPrimArray heads - 1
    bound = workBound (na + nb)

    rightFrom !j !work
      | j >= lastGram = pure True
      | first < 0 = rightFrom (j + 1) work
      | work > bound = pure False
      | otherwise = inBucket j h (fromIntegral first) work
      where
        h = indexPrimArray gramsB j
        first = indexPrimArray heads (bucketOf mask h)

    inBucket !j !h !i !work
      | i < 0 = rightFrom (j + 1) work
      | indexPrimArray gramsA i /= h || continues i j || len < m =
        inBucket j h following (work + 1)
      | work > bound = pure False
      | otherwise = do
        push (heap scratch) (Match i j len)
        inBucket j h following (work + len)
      where
        following = fromIntegral (indexPrimArray next i) :: Int
        len = extent i j 0

    -- Does the match begin further left?
    continues i j = i > 0 && j > 0 && same (i - 1) (j - 1)

    extent !i !j !k
      | i < na && j < nb && same i j = extent (i + 1) (j + 1) (k + 1)
      | otherwise = k

    same i j = a == indexPrimArray bs j && not (isBarrier a)
      where
        a = indexPrimArray as i

-- | Take the longest match that no tile covers in part, and mark it. A match
-- that is covered in part goes back into the heap in pieces.
nextTile :: Index -> Scratch s -> Word32 -> ST s (Maybe Tile)
nextTile ix scratch epoch = go
  where
    m = indexMinimum ix
    lefts = leftMarks scratch
    rights = rightMarks scratch
    matches = heap scratch
    go = do
      top <- pop matches
      case top of
        Nothing -> pure Nothing
        Just t@(Match i j len) -> do
          free <- freeRun i j len 0
          if free == len
            then mark i j len >> pure (Just t)
            else pieces i j len 0 free >> go

    -- k: offset in the match; run: free tokens before it.
    pieces !i !j !len !from !run
      | from >= len = pure ()
      | otherwise = do
        when (run >= m) $ push matches (Match (i + from) (j + from) run)
        let from' = from + run + 1
        run' <- freeRun (i + from') (j + from') (len - from') 0
        pieces i j len from' run'

    freeRun !i !j !len !k
      | k >= len = pure k
      | otherwise = do
        l <- readPrimArray lefts (i + k)
        r <- readPrimArray rights (j + k)
        if l == epoch || r == epoch then pure k else freeRun i j len (k + 1)

    mark !i !j !len = setPrimArray lefts i len epoch >> setPrimArray rights j len epoch
