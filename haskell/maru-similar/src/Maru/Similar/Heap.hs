{-# LANGUAGE BangPatterns #-}

-- | A growable heap of matches: longest first, then the earliest. /Internal/.
module Maru.Similar.Heap
  ( Heap,
    newHeap,
    clear,
    push,
    pop,
    Match (..),
  )
where

import Control.Monad (when)
import Control.Monad.ST (ST)
import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.Primitive.MutVar
import Data.Primitive.PrimArray

-- | Where a match begins on either side, and its length; each below @2^31@.
data Match = Match {matchLeft :: !Int, matchRight :: !Int, matchLength :: !Int}
  deriving (Eq, Show)

-- | Entries are two words: length, and both positions packed.
data Heap s = Heap
  { heapCount :: !(MutablePrimArray s Int),
    heapStore :: !(MutVar s (MutablePrimArray s Int))
  }

newHeap :: ST s (Heap s)
newHeap = do
  count <- newPrimArray 1
  writePrimArray count 0 0
  Heap count <$> (newPrimArray 128 >>= newMutVar)

clear :: Heap s -> ST s ()
clear heap = writePrimArray (heapCount heap) 0 0
{-# INLINE clear #-}

-- | O(log n) amortised.
push :: Heap s -> Match -> ST s ()
push heap (Match i j len) = do
  n <- readPrimArray (heapCount heap) 0
  store <- roomFor heap (n + 1)
  writePrimArray (heapCount heap) 0 (n + 1)
  siftUp store len (i `shiftL` 32 .|. j) n

roomFor :: Heap s -> Int -> ST s (MutablePrimArray s Int)
roomFor heap n = do
  store <- readMutVar (heapStore heap)
  capacity <- getSizeofMutablePrimArray store
  if 2 * n <= capacity
    then pure store
    else do
      bigger <- resizeMutablePrimArray store (2 * capacity)
      writeMutVar (heapStore heap) bigger
      pure bigger

-- | The longest match, the earliest of these. O(log n).
pop :: Heap s -> ST s (Maybe Match)
pop heap = do
  n <- readPrimArray (heapCount heap) 0
  if n == 0
    then pure Nothing
    else do
      store <- readMutVar (heapStore heap)
      len <- readPrimArray store 0
      pos <- readPrimArray store 1
      writePrimArray (heapCount heap) 0 (n - 1)
      when (n > 1) $ do
        lastLen <- readPrimArray store (2 * n - 2)
        lastPos <- readPrimArray store (2 * n - 1)
        siftDown store (n - 1) lastLen lastPos 0
      pure (Just (Match (pos `shiftR` 32) (pos .&. 0xffffffff) len))

before :: Int -> Int -> Int -> Int -> Bool
before len pos len' pos' = len > len' || (len == len' && pos < pos')
{-# INLINE before #-}

place :: MutablePrimArray s Int -> Int -> Int -> Int -> ST s ()
place store k len pos = writePrimArray store (2 * k) len >> writePrimArray store (2 * k + 1) pos
{-# INLINE place #-}

siftUp :: MutablePrimArray s Int -> Int -> Int -> Int -> ST s ()
siftUp store !len !pos = go
  where
    go 0 = place store 0 len pos
    go k = do
      let parent = (k - 1) `shiftR` 1
      len' <- readPrimArray store (2 * parent)
      pos' <- readPrimArray store (2 * parent + 1)
      if before len pos len' pos'
        then place store k len' pos' >> go parent
        else place store k len pos

siftDown :: MutablePrimArray s Int -> Int -> Int -> Int -> Int -> ST s ()
siftDown store !n !len !pos = go
  where
    go k
      | left >= n = place store k len pos
      | otherwise = do
        leftLen <- readPrimArray store (2 * left)
        leftPos <- readPrimArray store (2 * left + 1)
        if left + 1 >= n
          then settle k left leftLen leftPos
          else do
            rightLen <- readPrimArray store (2 * left + 2)
            rightPos <- readPrimArray store (2 * left + 3)
            if before rightLen rightPos leftLen leftPos
              then settle k (left + 1) rightLen rightPos
              else settle k left leftLen leftPos
      where
        left = 2 * k + 1
    settle k child childLen childPos
      | before childLen childPos len pos = place store k childLen childPos >> go child
      | otherwise = place store k len pos
