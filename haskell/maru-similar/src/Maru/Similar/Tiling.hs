-- | Exact greedy string tiling (Wise 1993): a thin shell over the kernel (@cbits\/tile.h@), which
-- says what a tiling is and what it costs.
--
-- One side is indexed once ('index'), then tiled with any others, one call a pair. The tiles are
-- those of the rescanning algorithm up to the choice among equally long matches. Where the
-- kernel's bound of steps is met, the tiling is not 'complete'.
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
    mostCovered,
  )
where

import Control.Exception (bracket)
import Control.Monad (when)
import Control.Monad.Primitive (RealWorld, touch)
import Data.Int (Int64)
import Data.Primitive.PrimArray
import Data.Word (Word32)
import Foreign.C.Error (eNOMEM, errnoToIOError, throwErrnoIfNull)
import Foreign.C.Types
import Foreign.ForeignPtr
import Foreign.Marshal.Alloc
import Foreign.Marshal.Array
import Foreign.Ptr
import Foreign.Storable
import Maru.Similar.Normalise (Codes, ownLength)
import System.IO.Unsafe (unsafePerformIO)

-- | A token sequence with the hashes of its m-grams, both pinned.
data Side = Side
  { sideCodes :: !Codes,
    sideWindows :: !(PrimArray Word32),
    -- | Tokens without barriers.
    sideLength :: !Int
  }

-- | Sides that meet must be made with the same minimum match length (at least
-- 1). O(n).
side :: Int -> Codes -> Side
side m codes = Side pinned windows (ownLength codes)
  where
    n = sizeofPrimArray codes
    pinned = pinnedArray n (\out -> copyPrimArray out 0 codes 0 n)
    windows = pinnedArray (max 0 (n - m + 1)) $ \out ->
      withCodes pinned (\p -> c_windows p (fromIntegral n) (fromIntegral m) (mutablePrimArrayContents out))

pinnedArray :: Int -> (MutablePrimArray RealWorld Word32 -> IO ()) -> PrimArray Word32
pinnedArray n fill = unsafePerformIO $ do
  out <- newPinnedPrimArray n
  fill out
  touch out
  unsafeFreezePrimArray out

withCodes :: PrimArray Word32 -> (Ptr Word32 -> IO a) -> IO a
withCodes codes use = use (primArrayContents codes) <* touch codes

data Tiler

-- | A side with the table of its m-grams.
data Index = Index
  { indexMinimum :: !Int,
    indexTiler :: !(ForeignPtr Tiler)
  }

-- | Index a side with less than @2^31@ tokens. O(n).
index :: Int -> Side -> Index
index m s = unsafePerformIO . withCodes (sideCodes s) $ \codes -> withCodes (sideWindows s) $ \windows -> do
  made <- orNoMemory (c_tiler codes windows (fromIntegral (sizeofPrimArray (sideCodes s))) (fromIntegral m))
  Index m <$> newForeignPtr c_tiler_free made

orNoMemory :: IO (Ptr a) -> IO (Ptr a)
orNoMemory = throwErrnoIfNull "tiling"

-- | Where a match begins on the indexed and on the other side, and its length.
data Match = Match {matchLeft :: !Int, matchRight :: !Int, matchLength :: !Int}
  deriving (Eq, Show)

-- | A stretch that both sides share.
type Tile = Match

data Tiling = Tiling
  { tilingTiles :: ![Tile],
    tilingComplete :: !Bool
  }
  deriving (Eq, Show)

-- | The tiles, longest first.
tiles :: Index -> Side -> Tiling
tiles ix other = unsafePerformIO . withScratch ix n $ \scratch ->
  allocaArray (3 * (n `quot` max 1 (indexMinimum ix)) + 3) $ \out -> do
    (_, found, whole) <- tiled ix scratch 0 out other
    words' <- peekArray (3 * found) (out :: Ptr Word32)
    pure (Tiling (matches (map fromIntegral words')) whole)
  where
    n = sizeofPrimArray (sideCodes other)
    matches (i : j : len : more) = Match i j len : matches more
    matches _ = []

-- | How many tokens tiles cover (on either side: it is the same number).
data Coverage = Coverage
  { covered :: !Int,
    -- | Whether the work bound was not met.
    complete :: !Bool
  }
  deriving (Eq, Show)

-- | The coverage of the indexed side with each of the others, each with the least that matters:
-- where 'mostCovered' is below that, nothing is tiled, and nothing covered. The work space is
-- shared; the results are all evaluated when the list is.
coverages :: Index -> [(Int, Side)] -> [Coverage]
coverages ix others = unsafePerformIO . withScratch ix (maximum (0 : map (sizeofPrimArray . sideCodes . snd) others)) $ \scratch ->
  mapM (\(least, other) -> (\(n, _, whole) -> Coverage n whole) <$> tiled ix scratch least nullPtr other) others

-- | At least as many tokens as tiles cover. O(n).
mostCovered :: Index -> Side -> Int
mostCovered ix other = unsafePerformIO . withForeignPtr (indexTiler ix) $ \t ->
  withCodes (sideWindows other) (\w -> fromIntegral <$> c_most t w (fromIntegral (sizeofPrimArray (sideCodes other))))

data Scratch

withScratch :: Index -> Int -> (Ptr Scratch -> IO a) -> IO a
withScratch ix most use = withForeignPtr (indexTiler ix) $ \t ->
  bracket (orNoMemory (c_scratch t (fromIntegral most))) c_scratch_free use

-- | Tokens covered, how many tiles, whether the work bound was not met.
tiled :: Index -> Ptr Scratch -> Int -> Ptr Word32 -> Side -> IO (Int, Int, Bool)
tiled ix scratch least out other =
  withForeignPtr (indexTiler ix) $ \t -> withCodes (sideCodes other) $ \codes -> withCodes (sideWindows other) $ \windows ->
    alloca $ \found -> alloca $ \whole -> do
      n <- c_tiled t scratch codes windows (fromIntegral (sizeofPrimArray (sideCodes other))) (fromIntegral least) out found whole
      when (n < 0) $ ioError (errnoToIOError "tiling" eNOMEM Nothing Nothing)
      (,,) (fromIntegral n) . fromIntegral <$> peek (found :: Ptr Word32) <*> ((/= 0) <$> peek (whole :: Ptr CInt))

foreign import ccall safe "maru_similar_windows" c_windows :: Ptr Word32 -> Word32 -> Word32 -> Ptr Word32 -> IO ()

foreign import ccall safe "maru_similar_tiler_new"
  c_tiler :: Ptr Word32 -> Ptr Word32 -> Word32 -> Word32 -> IO (Ptr Tiler)

foreign import ccall "&maru_similar_tiler_free" c_tiler_free :: FunPtr (Ptr Tiler -> IO ())

foreign import ccall safe "maru_similar_scratch_new" c_scratch :: Ptr Tiler -> Word32 -> IO (Ptr Scratch)

foreign import ccall unsafe "maru_similar_scratch_free" c_scratch_free :: Ptr Scratch -> IO ()

foreign import ccall unsafe "maru_similar_most_covered" c_most :: Ptr Tiler -> Ptr Word32 -> Word32 -> IO Word32

foreign import ccall safe "maru_similar_tiled"
  c_tiled :: Ptr Tiler -> Ptr Scratch -> Ptr Word32 -> Ptr Word32 -> Word32 -> Word32 -> Ptr Word32 -> Ptr Word32 -> Ptr CInt -> IO Int64
