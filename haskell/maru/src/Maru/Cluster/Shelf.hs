-- | Items on their way to workers that are forked already: shared pages that one process fills and
-- its workers read. /Internal/.
--
-- Items are numbered from 0 in the order in which they are put here. Pages go back to the system
-- when all items in them were taken off. So the shelf takes the memory of what is under way, and
-- some 64 KiB more for an item that stays much longer than those around it.
module Maru.Cluster.Shelf
  ( Shelf,
    newShelf,
    freeShelf,
    shelve,
    look,
    takeOff,
  )
where

import Control.Concurrent.MVar
import Control.Exception (onException)
import Control.Monad (forM_, when)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Unsafe as Unsafe
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Word (Word64, Word8)
import Foreign (Ptr, alignPtr, castPtr, copyBytes, minusPtr, peekByteOff, plusPtr, pokeByteOff)
import Maru.Native.Log (Log, Reserved (..), freeLog, newLog, removePages, reserve)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

-- | Workers that are forked later inherit it. They only look.
data Shelf = Shelf
  { -- | By number: where the item lies.
    shelfPlaces :: !Area,
    -- | Each item: its length, its bytes.
    shelfItems :: !Area,
    shelfOwner :: !ProcessID,
    -- | 'Nothing': freed. It guards the pages against the owner's other threads.
    shelfBooks :: !(MVar (Maybe Books))
  }

-- | Pages, and how many bytes they are.
data Area = Area !Log !(Ptr Word8) !Int

-- | The owner's own: what workers could overwrite leads it nowhere.
data Books = Books
  { booksNext :: !Int,
    booksUsed :: !Int,
    -- | By number, what is not taken off: [from, to) in bytes.
    booksHeld :: !(IntMap (Int, Int)),
    -- | How many held items a granule of each area has to do with. Those with none are absent.
    booksPlaces :: !(IntMap Int),
    booksItems :: !(IntMap Int)
  }

-- | @newShelf bytes@: with so much address space for items, or what the system grants of it. Throws
-- 'Maru.Failure.Unavailable'.
newShelf :: Int -> IO Shelf
newShelf bytes = do
  items <- newArea bytes
  places <- newArea (bytes `div` 8) `onException` freeArea items
  Shelf places items <$> getProcessID <*> newMVar (Just (Books 0 0 IntMap.empty IntMap.empty IntMap.empty))

-- | A log to which nothing is ever committed.
newArea :: Int -> IO Area
newArea bytes = do
  (pages, granted) <- newLog (fromIntegral (max (4 * granule) bytes))
  room <- reserve pages 0
  case room of
    LogFull -> freeLog pages >> ioError (userError "maru: a log without room for nothing")
    Reserved p ->
      let start = alignPtr (castPtr p) granule
       in pure (Area pages start (fromIntegral granted - 16 - (start `minusPtr` p)))

freeArea :: Area -> IO ()
freeArea (Area pages _ _) = freeLog pages

-- | The owner's call; idempotent. Workers keep what they inherited.
freeShelf :: Shelf -> IO ()
freeShelf shelf = modifyMVar_ (shelfBooks shelf) $ \books -> do
  forM_ books (\_ -> freeArea (shelfItems shelf) >> freeArea (shelfPlaces shelf))
  pure Nothing

-- | The next item. 'False': there is no room for it. The owner's call.
shelve :: Shelf -> Bytes.ByteString -> IO Bool
shelve shelf bytes = modifyMVar (shelfBooks shelf) $ \books -> case books of
  Just b
    | to b <= itemsSize,
      8 * (booksNext b + 1) <= placesSize -> do
      let at = booksUsed b
      pokeByteOff items at (fromIntegral (Bytes.length bytes) :: Word64)
      Unsafe.unsafeUseAsCStringLen bytes $ \(from, n) -> copyBytes (items `plusPtr` (at + 8)) (castPtr from) n
      pokeByteOff places (8 * booksNext b) (fromIntegral at :: Word64)
      pure (Just (held b (at, to b)), True)
  _ -> pure (books, False)
  where
    Area _ items itemsSize = shelfItems shelf
    Area _ places placesSize = shelfPlaces shelf
    -- Lengths are aligned.
    to b = booksUsed b + 8 + (Bytes.length bytes + 7) `div` 8 * 8
    held b extent =
      b
        { booksNext = booksNext b + 1,
          booksUsed = snd extent,
          booksHeld = IntMap.insert (booksNext b) extent (booksHeld b),
          booksPlaces = more (place (booksNext b)) (booksPlaces b),
          booksItems = more extent (booksItems b)
        }
    more extent counts = foldr (\g -> IntMap.insertWith (+) g 1) counts (granules extent)

-- | A copy of that item's bytes, in the owner or a worker. Not before it was put there.
look :: Shelf -> Int -> Bytes.ByteString
look shelf n = unsafePerformIO $ do
  me <- getProcessID
  -- In a worker a thread that it lacks may hold the books; and nobody frees its pages.
  if me == shelfOwner shelf then withMVar (shelfBooks shelf) (maybe (pure Bytes.empty) (const found)) else found
  where
    Area _ items itemsSize = shelfItems shelf
    Area _ places _ = shelfPlaces shelf
    found = do
      at <- number places (8 * n)
      if at < 0 || at > itemsSize - 8 then pure Bytes.empty else number items at >>= bytesAt (at + 8)
    bytesAt at size
      | size < 0 || size > itemsSize - at = pure Bytes.empty
      | otherwise = Bytes.packCStringLen (castPtr (items `plusPtr` at), size)
    number area at = fromIntegral <$> (peekByteOff area at :: IO Word64) :: IO Int

-- | Nobody will look at that item again. The owner's call.
takeOff :: Shelf -> Int -> IO ()
takeOff shelf n = modifyMVar_ (shelfBooks shelf) . traverse $ \b -> case IntMap.lookup n (booksHeld b) of
  Nothing -> pure b
  Just extent -> do
    places <- less (shelfPlaces shelf) (8 * booksNext b) (place n) (booksPlaces b)
    items <- less (shelfItems shelf) (booksUsed b) extent (booksItems b)
    pure b {booksHeld = IntMap.delete n (booksHeld b), booksPlaces = places, booksItems = items}
  where
    less (Area _ start _) used extent counts = do
      let counts' = foldr (IntMap.update (\k -> if k > 1 then Just (k - 1) else Nothing)) counts (granules extent)
      -- One that is not full yet will be left again: by what lies at its end.
      forM_ (granules extent) $ \g ->
        when (IntMap.notMember g counts' && (g + 1) * granule <= used) (removePages (start `plusPtr` (g * granule)) granule)
      pure counts'

place :: Int -> (Int, Int)
place n = (8 * n, 8 * n + 8)

granules :: (Int, Int) -> [Int]
granules (from, to) = [from `div` granule .. (to - 1) `div` granule]

-- | Bytes that are given back at once; a multiple of each page size that there is.
granule :: Int
granule = 65536
