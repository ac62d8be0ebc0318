{-# LANGUAGE ScopedTypeVariables #-}

-- | Shared vectors; "Maru.Dsm" exports all of it.
module Maru.Dsm.Shared
  ( Shared,
    newShared,
    size,
    slice,
    readRange,
    withRange,
    writeRange,
    modifyRange,
    readAt,
    writeAt,
    Heap,
    newHeap,
    newOnHeap,
    Place,
    place,
    atPlace,
    Reduction,
    newReduction,
    reduce,
  )
where

import Control.DeepSeq (NFData, force)
import Control.Exception (evaluate, throwIO)
import Control.Monad (when)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import Data.Int (Int64)
import Data.Vector.Storable (Vector)
import qualified Data.Vector.Storable as Vector
import Data.Vector.Storable.Mutable (IOVector)
import qualified Data.Vector.Storable.Mutable as Mutable
import Foreign (Ptr, Storable (..), minusPtr, newForeignPtr_, nullPtr, plusPtr)
import Foreign.C (newCString)
import GHC.Stack (HasCallStack, callStack, getCallStack, srcLocFile, srcLocStartLine)
import Maru.Dsm.Failure
import Maru.Dsm.Job
import Maru.Dsm.Native
import Maru.Dsm.Sync

-- | A vector in shared memory: where it is, not its elements.
data Shared a = Shared !Dsm !(Ptr a) !Int

-- | So many elements, all bytes 0. Collective: every node calls the same, in the same
-- order. 'NoRoom' if not so much is left of @MARU_DSM_MIB@ (256) MiB. In the report of @maru
-- launch --report@ the calling line has the vector's faults.
newShared :: forall a. (HasCallStack, Storable a) => Dsm -> Int -> IO (Shared a)
newShared dsm count = guarded dsm "newShared" $ do
  bytes <- bytesOf (sizeOf (undefined :: a)) count
  -- Never freed: the report names it at the end.
  site <- newCString (siteOf (getCallStack callStack))
  memory <- c_alloc (fromIntegral bytes) site
  when (memory == nullPtr) $ throwIO (NoRoom bytes)
  pure (Shared dsm memory count)
  where
    siteOf ((_, at) : _) = srcLocFile at ++ ":" ++ show (srcLocStartLine at)
    siteOf [] = "newShared"

bytesOf :: Int -> Int -> IO Int
bytesOf each count
  | count < 0 || (each > 0 && count > maxBound `div` each) = throwIO (BadCount "elements" count)
  | otherwise = pure (each * count)

-- | How many elements.
size :: Shared a -> Int
size (Shared _ _ count) = count

-- | @slice from count@: the vector that is so many elements of this one; 'OutOfRange'.
slice :: Storable a => Int -> Int -> Shared a -> IO (Shared a)
slice from count shared@(Shared dsm _ _) = do
  first <- within shared from count
  pure (Shared dsm first count)

within :: forall a. Storable a => Shared a -> Int -> Int -> IO (Ptr a)
within (Shared _ memory total) from count
  | from < 0 || count < 0 || count > total - from = throwIO (OutOfRange from count total)
  | otherwise = pure (memory `plusPtr` (from * sizeOf (undefined :: a)))

-- | Brought in, and in use until the action has ended and its result is evaluated.
inUse ::
  forall a b.
  (Storable a, NFData b) =>
  String ->
  (Ptr a -> Int -> IO ()) ->
  Shared a ->
  Int ->
  Int ->
  (Ptr a -> IO b) ->
  IO b
inUse what bring shared@(Shared dsm _ _) from count action = guarded dsm what $ do
  first <- within shared from count
  when (count > 0) $ bring first (count * sizeOf (undefined :: a))
  using dsm (action first >>= evaluate . force)

toRead, toWrite :: Ptr a -> Int -> IO ()
toRead first = c_read_range first . fromIntegral
toWrite first = c_write_range first . fromIntegral

-- | A copy of so many elements from one on.
readRange :: Storable a => Shared a -> Int -> Int -> IO (Vector a)
readRange shared from count = inUse "readRange" toRead shared from count $ \first -> do
  memory <- newForeignPtr_ first
  Vector.freeze (Mutable.unsafeFromForeignPtr0 memory count)

-- | The elements themselves, without a copy, while the action runs; its result is evaluated
-- before that ends. Keep neither the vector nor a part of it: afterwards others may change it.
-- Nothing in the action may synchronise ('WithinRange'); other ranges may be used in it.
withRange :: (Storable a, NFData b) => Shared a -> Int -> Int -> (Vector a -> IO b) -> IO b
withRange shared from count action = inUse "withRange" toRead shared from count $ \first -> do
  memory <- newForeignPtr_ first
  action (Vector.unsafeFromForeignPtr0 memory count)

-- | The same to change them in place. Others see the changes once they synchronise with this
-- node.
modifyRange :: (Storable a, NFData b) => Shared a -> Int -> Int -> (IOVector a -> IO b) -> IO b
modifyRange shared from count action = inUse "modifyRange" toWrite shared from count $ \first -> do
  memory <- newForeignPtr_ first
  action (Mutable.unsafeFromForeignPtr0 memory count)

-- | Writes these elements from one on.
writeRange :: Storable a => Shared a -> Int -> Vector a -> IO ()
writeRange shared from elements =
  modifyRange shared from (Vector.length elements) (`Vector.copy` elements)

-- | One element. A call each: many are better read as a range.
readAt :: Storable a => Shared a -> Int -> IO a
readAt shared at = Vector.unsafeHead <$> readRange shared at 1

-- | One element; the same.
writeAt :: Storable a => Shared a -> Int -> a -> IO ()
writeAt shared at = writeRange shared at . Vector.singleton

-- * Allocation by one node

-- | Memory of which each node may take a part when it likes.
data Heap = Heap !(Shared Line) !Counter

-- | What it is given out in, so that no two vectors share a line of a cache or of the protocol.
data Line = Line

instance Storable Line where
  sizeOf _ = 64
  alignment _ = 64
  peek _ = pure Line
  poke _ _ = pure ()

-- | So many bytes, rounded up to 64. Collective, as 'newShared'.
newHeap :: HasCallStack => Dsm -> Int -> IO Heap
newHeap dsm bytes
  | bytes < 0 = throwIO (BadCount "bytes" bytes)
  | otherwise = Heap <$> newShared dsm (linesFor bytes) <*> newCounter dsm

linesFor :: Int -> Int
linesFor bytes = bytes `div` 64 + (if bytes `mod` 64 > 0 then 1 else 0)

-- | So many elements, all bytes 0, by one node alone, at any time. It costs what a lock
-- costs, and orders as one does. Others find the vector by its 'place'. Never given back; 'NoRoom'.
newOnHeap :: forall a. Storable a => Heap -> Int -> IO (Shared a)
newOnHeap (Heap (Shared dsm memory total) taken) count = do
  bytes <- bytesOf (sizeOf (undefined :: a)) count
  let need = linesFor bytes
  when (need > total) $ throwIO (NoRoom bytes)
  before <- fromIntegral <$> fetchAdd taken (fromIntegral need)
  when (need > total - before) $ do
    -- So that what is smaller still finds its room.
    _ <- fetchAdd taken (negate (fromIntegral need))
    throwIO (NoRoom bytes)
  pure (Shared dsm (memory `plusPtr` (64 * before)) count)

-- | Where a vector is: the same on every node, to be put into shared memory.
data Place a = Place !Int64 !Int64
  deriving (Eq, Show)

instance Storable (Place a) where
  sizeOf _ = 16
  alignment _ = 8
  peek from = Place <$> peekByteOff from 0 <*> peekByteOff from 8
  poke to (Place first count) = pokeByteOff to 0 first >> pokeByteOff to 8 count

-- | Of a vector.
place :: Shared a -> Place a
place (Shared _ first count) = Place (fromIntegral (first `minusPtr` nullPtr)) (fromIntegral count)

-- | The vector there. 'Nothing': all bytes are 0, as where nobody has written. Anything else
-- that is no place of this job is not noticed.
atPlace :: Dsm -> Place a -> Maybe (Shared a)
atPlace dsm (Place first count)
  | first == 0 = Nothing
  | otherwise = Just (Shared dsm (nullPtr `plusPtr` fromIntegral first) (fromIntegral count))

-- * Reductions

-- | Where nodes put what is to be combined.
data Reduction a = Reduction !Dsm !(Shared a) !(IORef Int)

-- | Of elements of that type. Collective, as 'newShared'.
newReduction :: (HasCallStack, Storable a) => Dsm -> IO (Reduction a)
newReduction dsm = Reduction dsm <$> newShared dsm (2 * nodes dsm) <*> newIORef 0

-- | Combines what all nodes give, in their order; all get the same result, to the bit,
-- floating point included. A 'barrier'.
reduce :: Storable a => Reduction a -> (a -> a -> a) -> a -> IO a
reduce (Reduction dsm slots turn) combine mine = do
  -- Two banks in turn: a node that still reads one is not disturbed by the next reduction.
  bank <- guarded dsm "reduce" $ atomicModifyIORef' turn (\t -> (1 - t, t * nodes dsm))
  writeAt slots (bank + node dsm) mine
  barrier dsm
  Vector.foldl1' combine <$> readRange slots bank (nodes dsm)
