{-# LANGUAGE ScopedTypeVariables #-}

-- | How a result crosses when the caller says how: for results that hold
-- functions or foreign memory, or whose encoded form is much smaller.
module Maru.Codec
  ( Codec (..),
    binary,
    rawBytes,
    storable,
    showRead,
  )
where

import Control.Monad ((>=>))
import Data.Binary (Binary)
import qualified Data.Binary as Binary
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Unsafe as Unsafe
import qualified Data.Vector.Storable as Storable
import Foreign (Storable (sizeOf), castForeignPtr, castPtr, copyBytes, mallocForeignPtrArray, withForeignPtr)
import System.IO.Unsafe (unsafePerformIO)
import Text.Read (readEither)

-- | Law: @decode c (toStrict (encode c x)) == Right x@. What 'encode' throws counts
-- as thrown by @f@.
data Codec b = Codec
  { -- | Runs in the worker; evaluates the result as far as it needs.
    encode :: b -> Lazy.ByteString,
    -- | Runs in the caller. 'Left' becomes an exception of that element. It
    -- must not throw: that would reach whoever looks at the element first.
    decode :: Strict.ByteString -> Either String b
  }

-- | Through the @binary@ package; bytes left over are an error. O(size) on both
-- sides.
--
-- >>> parMapVia binary defaultOptions {workers = Workers 2} words ["to be", "or not"]
-- [["to","be"],["or","not"]]
binary :: Binary b => Codec b
binary =
  Codec
    { encode = Binary.encode,
      decode = \bytes -> case Binary.decodeOrFail (Lazy.fromStrict bytes) of
        Left (_, at, why) -> Left ("byte " <> show at <> ": " <> why)
        Right (rest, at, x)
          | Lazy.null rest -> Right x
          | otherwise -> Left ("byte " <> show at <> ": bytes left over")
    }

-- | The bytes themselves, copied once. Never fails.
--
-- >>> import qualified Data.ByteString.Char8 as Bytes
-- >>> parMapVia rawBytes defaultOptions {workers = Workers 2} Bytes.reverse [Bytes.pack "maru"]
-- ["uram"]
rawBytes :: Codec Strict.ByteString
rawBytes = Codec {encode = Lazy.fromStrict, decode = Right}

-- | The elements of a vector as they lie in memory: for many numbers. It makes no heap object an
-- element, on either side. Encoding copies nothing; decoding copies once, O(bytes). Bytes that are no
-- whole number of elements are an error. Between machines that lay the elements out alike.
--
-- >>> import qualified Data.Vector.Storable as Vector
-- >>> parMapVia storable defaultOptions {workers = Workers 2} (`Vector.replicate` 'm') [1, 2]
-- ["m","mm"]
storable :: forall a. Storable a => Codec (Storable.Vector a)
storable = Codec {encode = Lazy.fromStrict . bytesOf, decode = elementsOf}
  where
    bytesOf v = let (p, n) = Storable.unsafeToForeignPtr0 v in Internal.fromForeignPtr (castForeignPtr p) 0 (n * size)
    elementsOf bytes
      | size > 0, (n, 0) <- Strict.length bytes `quotRem` size = Right (unsafePerformIO (elements n bytes))
      | otherwise = Left (show (Strict.length bytes) <> " bytes are no whole number of elements of " <> show size)
    -- Aligned, which the bytes need not be.
    elements n bytes = do
      p <- mallocForeignPtrArray n
      withForeignPtr p $ \to -> Unsafe.unsafeUseAsCStringLen bytes $ \(from, length') -> copyBytes to (castPtr from) length'
      pure (Storable.unsafeFromForeignPtr0 p n)
    size = sizeOf (undefined :: a)

-- | Through 'show' and 'read': slow, for small results and tests.
--
-- >>> parMapVia showRead defaultOptions {workers = Workers 2} (`lookup` [(1, 'a')]) [1, 2 :: Int]
-- [Just 'a',Nothing]
showRead :: (Show b, Read b) => Codec b
showRead =
  Codec
    { encode = Binary.encode . show,
      decode = decode binary >=> readEither
    }
