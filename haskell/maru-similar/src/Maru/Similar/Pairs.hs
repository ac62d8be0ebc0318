{-# LANGUAGE RankNTypes #-}

-- | All pairs of a collection, by any parallel map.
--
-- One task compares one submission with all that are at least as long: its
-- m-gram table is built once. What a task returns is one unboxed array, four
-- bytes a pair; nothing else is kept a pair. The outcome does not depend on the
-- map, nor on the order of the submissions.
module Maru.Similar.Pairs
  ( -- * Comparing
    ParallelMap,
    Row (..),
    compareAll,
    leastFor,
    rankRows,
  )
where

import Control.Monad (foldM_)
import Control.Monad.ST (ST, runST)
import Data.Bits (shiftL, shiftR, (.|.))
import Data.List (sortOn, tails)
import Data.Primitive.PrimArray
import qualified Data.Vector as V
import qualified Data.Vector.Algorithms.Intro as Intro
import qualified Data.Vector.Unboxed as VU
import qualified Data.Vector.Unboxed.Mutable as VM
import Data.Word (Word32, Word64)
import Maru.Similar.Normalise (Codes)
import Maru.Similar.Score (score, similarity)
import Maru.Similar.Tiling

-- | Anything that equals 'map'.
type ParallelMap = forall a b. (a -> b) -> [a] -> [b]

-- | The outcome of one task.
data Row = Row
  { -- | Which submission.
    rowLeft :: !Int,
    -- | Whom it was compared with; a part of one vector that all rows share.
    rowRights :: !(VU.Vector Int),
    -- | Tokens covered, by right side; times two, plus one where the tiling is
    -- not complete.
    rowCells :: !(VU.Vector Word32)
  }

-- | One row per submission but the last (in the tasks' order), produced as the
-- map produces them. The minimum match length must be at least 1. What cannot be of that similarity
-- is not tiled, and counts as nothing covered. By position, which pairs are
-- compared; 'Nothing': all.
compareAll :: ParallelMap -> Int -> Double -> Maybe (Int -> Int -> Bool) -> V.Vector Codes -> [Row]
compareAll parallel m threshold meet submissions = zipWith row [0 ..] (parallel (cells m threshold) (zipWith task [0 ..] [s | s@(_ : _ : _) <- tails sides]))
  where
    row k = Row (order VU.! k) (rightsOf k)
    rightsOf k = maybe id (VU.filter . ($ (order VU.! k))) meet (VU.drop (k + 1) order)
    task k ss = case (meet, ss) of
      (Just meets, left : rights) -> left : [right | (i, right) <- zip (VU.toList (VU.drop (k + 1) order)) rights, meets (order VU.! k) i]
      _ -> ss
    (ids, sides) = unzip (sortOn (orderKey . snd) (zip [0 ..] (map (side m) (V.toList submissions))))
    order = VU.fromList ids

-- | Equal keys only for equal sequences, whose order cannot matter.
orderKey :: Side -> (Int, Int, [Word32])
orderKey s = (sideLength s, sizeofPrimArray (sideCodes s), primArrayToList (sideCodes s))

-- | The first side against the others. Equal sequences match wholly, also where
-- they are shorter than the minimum match length.
cells :: Int -> Double -> [Side] -> VU.Vector Word32
cells _ _ [] = VU.empty
cells m threshold (left : rights) = VU.fromListN (length rights) (merge same (coverages (index m left) [(leastFor threshold (sideLength left) (sideLength r), r) | r <- different]))
  where
    same = map ((== sideCodes left) . sideCodes) rights
    different = [r | (r, False) <- zip rights same]
    merge (True : more) found = cell (Coverage (sideLength left) True) : merge more found
    merge (False : more) (c : found) = cell c : merge more found
    merge _ _ = []

-- | Fewer tokens in common than that are below the similarity, of sides so long. One less than it
-- takes, for the rounding.
leastFor :: Double -> Int -> Int -> Int
leastFor threshold left right
  | threshold <= 0 || left == 0 || right == 0 = 0
  | otherwise = max 0 (ceiling (threshold / similarity (score 1 left right)) - 1)

cell :: Coverage -> Word32
cell (Coverage n whole) = fromIntegral n * 2 + (if whole then 0 else 1)

-- | The pairs of at least that similarity, the most similar first, then by
-- position: similarity, the left side's position times 2^32 plus the right one's, and
-- the cell. The lengths are those of the submissions, in tokens. O(p log p) for p
-- pairs; 20 bytes a pair, and no more while it is made.
rankRows :: Double -> VU.Vector Int -> [Row] -> VU.Vector (Double, Word64, Word32)
rankRows threshold lengths rows = runST $ do
  table <- VM.new (sum (map (VU.length . ranked) rows))
  foldM_ (\at row -> VU.foldM (put table) at (ranked row)) 0 rows
  sortRanked table
  VU.unsafeFreeze table
  where
    put table at pair = (at + 1) <$ VM.write table at pair
    ranked :: Row -> VU.Vector (Double, Word64, Word32)
    ranked (Row left rights found) =
      VU.filter (\(s, _, _) -> s >= threshold) (VU.zipWith (entry left) rights found)
    entry left right c =
      (similarity (score (fromIntegral (c `shiftR` 1)) (lengths VU.! left) (lengths VU.! right)), at, c)
      where
        at = fromIntegral (min left right) `shiftL` 32 .|. fromIntegral (max left right)

sortRanked :: VM.MVector s (Double, Word64, Word32) -> ST s ()
sortRanked = Intro.sortBy $ \(s, at, _) (s', at', _) -> compare s' s <> compare at at'
