-- | The reported pairs, ranked.
module Maru.Similar.Table
  ( PairTable,
    Pair (..),
    Evidence (..),
    pairComplete,
    pairMatched,
    pairCount,
    pairAt,
    similarityAt,
    pairList,
    incompletePairs,
    tiledTable,
    weighedTable,
    sortKeys,

    -- * The best so far
    Best,
    noneYet,
    bestCount,
    addBlock,
    Bar,
    noBar,
    leastOf,
    raised,
  )
where

import Control.Monad.ST (ST)
import Data.Bits (complement, shiftL, shiftR, (.&.), (.|.))
import qualified Data.Vector as V
import qualified Data.Vector.Algorithms.Intro as Intro
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word64)
import GHC.Float (castFloatToWord32, castWord32ToFloat)
import Maru.Similar.Config (Rank (..))
import Maru.Similar.Match (ViewScore (..))
import Maru.Similar.Pairs (Row, rankRows)
import Maru.Similar.Score
import Maru.Similar.Weigh

-- | A compared pair; positions in the submissions' order, left before right.
data Pair = Pair
  { pairLeft :: !Int,
    pairRight :: !Int,
    -- | What it is ranked by.
    pairSimilarity :: !Double,
    -- | The share of both that is common.
    pairWhole :: !Double,
    -- | The share of the smaller that is common.
    pairEmbedded :: !Double,
    pairEvidence :: !Evidence
  }
  deriving (Eq, Show)

data Evidence
  = -- | Tokens that tiles cover on either side; whether all work was done. If not,
    -- the true coverage may be higher.
    Tiles !Int !Bool
  | -- | Structure, lexical, names.
    Shared !ViewScore !ViewScore !ViewScore
  deriving (Eq, Show)

-- | 'False': the work bound was met; the true similarity may be higher.
pairComplete :: Pair -> Bool
pairComplete pair = case pairEvidence pair of
  Tiles _ c -> c
  Shared {} -> True

-- | Tokens covered, where that was found out.
pairMatched :: Pair -> Maybe Int
pairMatched pair = case pairEvidence pair of
  Tiles n _ -> Just n
  Shared {} -> Nothing

-- | Pairs, the most similar first, then by position. 20 bytes a pair of @Seed@, 52 a
-- pair of 'Score'.
data PairTable
  = -- | With the submissions' lengths.
    Tiled !(VU.Vector Int) !(VU.Vector (Double, Word64, Word32))
  | -- | Blocks, the first position of each, ranked positions.
    Weighed !Rank !(V.Vector Cells) !(VU.Vector Int) !(VU.Vector Word64)

pairCount :: PairTable -> Int
pairCount table = case table of
  Tiled _ t -> VU.length t
  Weighed _ _ _ order -> VU.length order

-- | The index must be in @[0, pairCount)@.
pairAt :: PairTable -> Int -> Pair
pairAt table i = case table of
  Tiled lengths t -> tiledPair lengths (t VU.! i)
  Weighed rank blocks starts order -> weighedPair rank (cellAt (blocks V.! block) (at - starts VU.! block))
    where
      at = fromIntegral (order VU.! i .&. 0xffffffff)
      block = lastNotAbove at starts

-- | What the pair is ranked by; cheaper than 'pairAt'. The index must be in @[0, pairCount)@.
similarityAt :: PairTable -> Int -> Double
similarityAt table i = case table of
  Tiled _ t -> let (s, _, _) = t VU.! i in s
  Weighed _ _ _ order -> realToFrac (castWord32ToFloat (complement (fromIntegral ((order VU.! i) `shiftR` 32))))

tiledPair :: VU.Vector Int -> (Double, Word64, Word32) -> Pair
tiledPair lengths (s, at, c) = Pair left right s (scoreAverage both) (scoreMaximum both) (Tiles matched (even c))
  where
    left = fromIntegral (at `shiftR` 32)
    right = fromIntegral (at .&. 0xffffffff)
    matched = fromIntegral (c `shiftR` 1)
    both = score matched (lengths VU.! left) (lengths VU.! right)

weighedPair :: Rank -> Cell -> Pair
weighedPair rank c = Pair (cellLeft c) (cellRight c) ranked (cellWhole c) (cellEmbedded c) (Shared (cellStructure c) (cellLexical c) (cellNames c))
  where
    ranked = case rank of
      ByBoth -> cellBoth c
      ByWhole -> cellWhole c
      ByEmbedded -> cellEmbedded c

-- | Where in an ascending vector that begins with 0 the last value is that is not above.
lastNotAbove :: Int -> VU.Vector Int -> Int
lastNotAbove x values = go 0 (VU.length values)
  where
    go lo hi
      | hi - lo <= 1 = lo
      | values VU.! mid > x = go lo mid
      | otherwise = go mid hi
      where
        mid = (lo + hi) `div` 2

-- | Produced lazily.
pairList :: PairTable -> [Pair]
pairList t = map (pairAt t) [0 .. pairCount t - 1]

-- | How many are not 'pairComplete'.
incompletePairs :: PairTable -> Int
incompletePairs table = case table of
  Tiled _ t -> VU.length (VU.filter (\(_, _, c) -> odd c) t)
  Weighed {} -> 0

-- | All pairs of at least that similarity. O(p log p).
tiledTable :: Double -> VU.Vector Int -> [Row] -> PairTable
tiledTable threshold lengths rows = Tiled lengths (rankRows threshold lengths rows)

-- | The most similar pairs of the blocks so far, and an eighth more at most; how many there are. The
-- last block comes first.
data Best = Best !Int ![Cells]

noneYet :: Best
noneYet = Best 0 []

bestCount :: Best -> Int
bestCount (Best n _) = n

-- | With the next block. At most so many pairs count; the earlier one of two that are as similar.
-- O(pairs of the block), amortised.
addBlock :: Rank -> Int -> Best -> Cells -> Best
addBlock rank most (Best n blocks) cells
  | more <= most + most `quot` 8 = Best more (cells : blocks)
  | otherwise = Best most (keepBest rank most (cells : blocks))
  where
    more = n + cellCount cells

-- | So many of more; the last block first.
keepBest :: Rank -> Int -> [Cells] -> [Cells]
keepBest rank most blocks = go [] (most - above) (reverse blocks)
  where
    values = VU.concat [VU.generate (cellCount c) (cellRanked rank c) | c <- blocks]
    -- The least that counts, and how many are above.
    bar = VU.minimum (VU.take most (VU.modify (\v -> Intro.selectBy (flip compare) v most) values))
    above = VU.length (VU.filter (> bar) values)
    go done _ [] = done
    go done ties (c : more) = kept `seq` go (kept : done) left more
      where
        kept = pickCells wanted c
        (left, wanted) = pick ties [(i, cellRanked rank c i) | i <- [0 .. cellCount c - 1]]
    pick ties cells = case cells of
      [] -> (ties, [])
      (i, x) : more
        | x > bar -> (i :) <$> pick ties more
        | x == bar && ties > 0 -> (i :) <$> pick (ties - 1) more
        | otherwise -> pick ties more

-- | How similar a pair must be at least to be among the best of those so far and itself. And the
-- similarities, four bytes each, of so many that are above.
data Bar = Bar !Float !Int ![VU.Vector Float]

noBar :: Float -> Bar
noBar from = Bar from 0 []

leastOf :: Bar -> Float
leastOf (Bar least _ _) = least

-- | With the next block, as 'addBlock' has it. O(pairs of the block), amortised.
raised :: Rank -> Int -> Bar -> Cells -> Bar
raised rank most (Bar least n values) cells
  | more <= most + most `quot` 8 = new `seq` Bar least more (new : values)
  | otherwise = Bar (above (VU.last best)) most [best]
  where
    more = n + cellCount cells
    new = VU.generate (cellCount cells) (cellRanked rank cells)
    -- The least of the best is the last one.
    best = VU.force (VU.take most (VU.modify (\v -> Intro.partialSortBy (flip compare) v most) (VU.concat (new : values))))
    -- Similarities are not negative.
    above x = castWord32ToFloat (castFloatToWord32 x + 1)

-- | The most similar pairs, at most so many. O(p log p).
weighedTable :: Rank -> Int -> Best -> PairTable
weighedTable rank most (Best _ backwards) = Weighed rank blocks starts (VU.force (VU.take most ranked))
  where
    found = reverse backwards
    blocks = V.fromList found
    starts = VU.fromList (scanl (+) 0 (map cellCount found))
    -- Similarities are not negative, so the complement of their bits is descending.
    ranked = VU.modify sortKeys (VU.concat (zipWith keys (VU.toList starts) found))
    keys start cells = VU.generate (cellCount cells) (key start cells)
    key :: Int -> Cells -> Int -> Word64
    key start cells i = fromIntegral (complement (castFloatToWord32 (cellRanked rank cells i))) `shiftL` 32 .|. fromIntegral (start + i)

-- | Ascending. Of one type: a sort of any type asks a dictionary for each step.
sortKeys :: VU.MVector s Word64 -> ST s ()
sortKeys = Intro.sortBy (\a b -> compare (a :: Word64) b)
