{-# LANGUAGE ScopedTypeVariables #-}

-- | The copy path by means of GHC's own compact regions, for those GHCs that
-- "Maru.Native.Region" has not been validated with. It refuses what holds pinned
-- memory (ByteStrings).
module Maru.Native.Compact (packCompact, unpackCompact) where

import Control.Exception (try)
import Control.Monad (foldM_, zipWithM)
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Word (Word64, Word8)
import Foreign.Marshal (copyBytes, mallocBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr, ptrToWordPtr, wordPtrToPtr)
import Foreign.Storable (peekElemOff, pokeByteOff, pokeElemOff)
import GHC.Compact (compact, compactWithSharing, getCompact)
import GHC.Compact.Serialized (SerializedCompact (..), importCompact, withSerializedCompact)
import GHC.IO.Exception (CompactionFailed (..))

-- | Evaluates the value and writes it to memory to be freed by the caller, or
-- says why not.
--
-- Layout, in words: magic, number of blocks, root, then address and size of each
-- block; then the blocks.
packCompact :: Bool -> a -> IO (Either String (Ptr Word8, Int))
packCompact sharing x = do
  made <- try ((if sharing then compactWithSharing else compact) x)
  case made of
    Left (CompactionFailed why) -> pure (Left ("what a compact region refuses (" <> why <> ")"))
    Right region -> Right <$> withSerializedCompact region write
  where
    write (SerializedCompact blocks root) = do
      let header = headerBytes (length blocks)
          total = header + sum (map (fromIntegral . snd) blocks)
      buffer <- mallocBytes total
      let word = pokeElemOff (castPtr buffer :: Ptr Word64)
          address = fromIntegral . ptrToWordPtr
      word 0 magic
      word 1 (fromIntegral (length blocks))
      word 2 (address root)
      sequence_ [word (3 + 2 * i) (address p) >> word (4 + 2 * i) (fromIntegral n) | (i, (p, n)) <- zip [0 ..] blocks]
      foldM_ (\to (p, n) -> (to `plusPtr` fromIntegral n) <$ copyBytes to (castPtr p) (fromIntegral n)) (buffer `plusPtr` header) blocks
      sequence_ [pokeByteOff buffer (header + at) (0 :: Word64) | at <- map (+ nextField) (starts blocks)]
      pure (buffer, total)
    starts = init . scanl (\at (_, n) -> at + fromIntegral n) 0

magic :: Word64
magic = 0x7463706d6f63726d

-- | Where in a block its successor's address stands. It means nothing to the
-- receiver, whose run-time system sets it after the block has been filled; but a
-- collection in between follows it where that run-time system is one for
-- debugging.
nextField :: Int
nextField = 16

headerBytes :: Int -> Int
headerBytes blocks = 8 * (3 + 2 * blocks)

-- | The value, in a process of the same program; 'Nothing': the bytes are none.
unpackCompact :: Ptr Word8 -> Int -> IO (Maybe a)
unpackCompact bytes size
  | size < headerBytes 0 = pure Nothing
  | otherwise = do
    found <- word 0
    blocks <- fromIntegral <$> word 1
    if found /= magic || blocks < 1 || blocks > size `div` 16 || headerBytes blocks > size
      then pure Nothing
      else do
        root <- word 2
        sizes <- zipWithM (\i () -> (,) <$> word (3 + 2 * i) <*> word (4 + 2 * i)) [0 ..] (replicate blocks ())
        if headerBytes blocks + sum (map (fromIntegral . snd) sizes) /= size
          then pure Nothing
          else fmap getCompact <$> land' root sizes (bytes `plusPtr` headerBytes blocks)
  where
    word :: Int -> IO Word64
    word = peekElemOff (castPtr bytes)
    land' root sizes start = do
      from <- newIORef start
      importCompact (SerializedCompact [(pointer p, fromIntegral n) | (p, n) <- sizes] (pointer root)) $ \to n -> do
        p <- readIORef from
        copyBytes (castPtr to) p (fromIntegral n)
        writeIORef from (p `plusPtr` fromIntegral n)
    pointer = wordPtrToPtr . fromIntegral
