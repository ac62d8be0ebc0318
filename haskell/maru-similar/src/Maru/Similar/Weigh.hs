-- | How similar are all pairs, by what they share and how rare that is? A thin
-- shell over the kernels (@cbits\/similar.h@), which hold what counts.
module Maru.Similar.Weigh
  ( -- * Submissions
    Weighed,
    weighedCount,
    weighedRows,
    weigh,
    Older (..),

    -- * Pairs
    blocksOf,
    compareBlock,
    against,
    Cells,
    Cell (..),
    cellCount,
    cellAt,
    cellSides,
    cellRanked,
    pickCells,
  )
where

import Control.Monad.Primitive (touch)
import Data.Int (Int64)
import Data.Primitive.ByteArray
import Data.Primitive.PrimArray
import qualified Data.Vector.Storable as VS
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word64)
import Foreign.C.Types
import Foreign.ForeignPtr
import Foreign.Marshal.Alloc
import Foreign.Marshal.Array
import Foreign.Ptr
import Foreign.Storable
import Maru.Similar.Config (Rank)
import Maru.Similar.Match (ViewScore (..))
import Maru.Similar.Normalise (Codes)
import Maru.Similar.Store
import Maru.Similar.Views
import System.IO.Unsafe (unsafePerformIO)

data Index

-- | Submissions that can be compared. Off the heap and never written again:
-- forked workers read the same pages.
data Weighed = Weighed
  { weighedCount :: !Int,
    -- | So many of them, the first, have rows: the others make no pairs among them.
    weighedRows :: !Int,
    weighedViews :: ![ForeignPtr Index]
  }

-- | Submissions of an archive: where each has its place, behind all others.
data Older = Older !Store !(VS.Vector Word32)

-- | Index all submissions, of which the first so many are compared with all, and those of an
-- archive. O(codes), in time and in memory, and what the archive has of their grams.
weigh :: Maybe Older -> Int -> [Views] -> IO Weighed
weigh older new submissions = Weighed (length submissions + maybe 0 (\(Older _ places) -> VS.length places) older) new <$> mapM indexed (zip3 [0 ..] gramLengths [structureView, lexicalView, namesView])
  where
    indexed (v, k, view) = newIndex older v k (map view submissions)

newIndex :: Maybe Older -> CInt -> Int -> [Codes] -> IO (ForeignPtr Index)
newIndex older v k views =
  withArray (map fromIntegral starts) $ \offsets -> alloca $ \out -> do
    codes <- newPinnedPrimArray (last starts)
    sequence_ [copyPrimArray codes at c 0 (sizeofPrimArray c) | (at, c) <- zip starts views]
    let plain use = use (mutablePrimArrayContents codes) offsets (fromIntegral (length views)) (fromIntegral k) out
    made <- case older of
      Nothing -> plain c_new
      Just (Older store places) -> withStore store (\p -> VS.unsafeWith places (plain . c_join p v))
    touch codes
    checked made
    peek out >>= newForeignPtr c_free
  where
    starts = scanl (+) 0 (map sizeofPrimArray views)

-- | The rows as blocks of some 2^22 steps each, but of no more than 2^16 pairs
-- where a row has fewer.
blocksOf :: Weighed -> [(Int, Int)]
blocksOf w = unsafePerformIO (go 0 <$> mapM cost [0 .. n - 1])
  where
    n = weighedRows w
    cost i = sum <$> mapM (\v -> withForeignPtr v (\p -> c_cost p (fromIntegral i))) (weighedViews w)
    go from costs
      | from >= n = []
      | otherwise = (from, to) : go to rest
      where
        (to, rest) = grow from 0 0 costs
    grow :: Int -> Word64 -> Int -> [Word64] -> (Int, [Word64])
    grow i steps pairs (c : more)
      | pairs == 0 || (steps + c <= 4194304 && pairs + rowPairs w i <= 65536) = grow (i + 1) (steps + c) (pairs + rowPairs w i) more
    grow i _ _ rest = (i, rest)

-- | How many pairs the row has at most; at least 1.
rowPairs :: Weighed -> Int -> Int
rowPairs w i = max 1 (weighedCount w - i - 1)

-- | Pairs of a block, 44 bytes each.
newtype Cells = Cells ByteArray

-- | A compared pair.
data Cell = Cell
  { cellLeft :: !Int,
    cellRight :: !Int,
    cellStructure :: !ViewScore,
    cellLexical :: !ViewScore,
    cellNames :: !ViewScore,
    -- | By both, whole, embedded.
    cellBoth :: !Double,
    cellWhole :: !Double,
    cellEmbedded :: !Double
  }
  deriving (Eq, Show)

-- | Words of 32 bits a pair.
cellWords :: Int
cellWords = 11

cellCount :: Cells -> Int
cellCount (Cells a) = sizeofByteArray a `quot` (4 * cellWords)

real :: Cells -> Int -> Int -> Float
real (Cells a) i field = indexByteArray a (cellWords * i + field)

-- | By the rank.
cellRanked :: Rank -> Cells -> Int -> Float
cellRanked rank cells i = real cells i (8 + fromEnum rank)

-- | Whom the pair is of.
cellSides :: Cells -> Int -> (Int, Int)
cellSides (Cells a) i = (side 0, side 1)
  where
    side field = fromIntegral (indexByteArray a (cellWords * i + field) :: Word32)

cellAt :: Cells -> Int -> Cell
cellAt cells i = Cell left right (view 0) (view 1) (view 2) (value 8) (value 9) (value 10)
  where
    (left, right) = cellSides cells i
    view v = ViewScore (value (2 + v)) (value (5 + v))
    value = realToFrac . real cells i

-- | The pairs with those positions in the block.
pickCells :: [Int] -> Cells -> Cells
pickCells wanted (Cells a) = Cells $
  runByteArray $ do
    out <- newByteArray (4 * cellWords * length wanted)
    out <$ sequence_ [copyByteArray out (4 * cellWords * to) a (4 * cellWords * from) (4 * cellWords) | (to, from) <- zip [0 ..] wanted]

-- | The pairs of those rows that are at least that similar by the rank. Above 1 there is none.
compareBlock :: Weighed -> Rank -> Float -> (Int, Int) -> Cells
compareBlock w rank threshold (from, to)
  | threshold > 1 = Cells mempty
  | otherwise = unsafePerformIO $
    withWeighed w $ \views -> do
      room <- newPinnedByteArray (4 * cellWords * sum [rowPairs w i | i <- [from .. to - 1]])
      found <- c_rows views (fromIntegral from) (fromIntegral to) (fromIntegral (fromEnum rank)) (realToFrac threshold) (castPtr (mutableByteArrayContents room))
      checked found
      touch room
      exact <- newByteArray (4 * cellWords * fromIntegral found)
      copyMutableByteArray exact 0 room 0 (4 * cellWords * fromIntegral found)
      Cells <$> unsafeFreezeByteArray exact

-- | How similar by the rank the submission is to each; 1 to itself.
against :: Weighed -> Rank -> Int -> VU.Vector Float
against w rank i = unsafePerformIO $
  withWeighed w $ \views -> allocaArray n $ \out -> do
    c_against views (fromIntegral i) (fromIntegral (fromEnum rank)) out >>= checked
    VU.fromListN n . map realToFrac <$> peekArray n (out :: Ptr CFloat)
  where
    n = weighedCount w

withWeighed :: Weighed -> (Ptr (Ptr Index) -> IO a) -> IO a
withWeighed w use = withAll (weighedViews w) []
  where
    withAll (v : more) ps = withForeignPtr v (\p -> withAll more (p : ps))
    withAll [] ps = withArray (reverse ps) use

foreign import ccall safe "maru_similar_index_new"
  c_new :: Ptr Word32 -> Ptr Word64 -> Word32 -> Word32 -> Ptr (Ptr Index) -> IO CInt

foreign import ccall safe "maru_similar_index_join"
  c_join :: Ptr StorePtr -> CInt -> Ptr Word32 -> Ptr Word32 -> Ptr Word64 -> Word32 -> Word32 -> Ptr (Ptr Index) -> IO CInt

foreign import ccall "&maru_similar_index_free" c_free :: FunPtr (Ptr Index -> IO ())

foreign import ccall unsafe "maru_similar_row_cost" c_cost :: Ptr Index -> Word32 -> IO Word64

foreign import ccall safe "maru_similar_rows"
  c_rows :: Ptr (Ptr Index) -> Word32 -> Word32 -> CInt -> CFloat -> Ptr () -> IO Int64

foreign import ccall safe "maru_similar_against"
  c_against :: Ptr (Ptr Index) -> Word32 -> CInt -> Ptr CFloat -> IO CInt
