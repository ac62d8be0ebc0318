-- | How a result crosses when the caller says how: for results that hold
-- functions or foreign memory, or whose encoded form is much smaller.
module Maru.Codec
  ( Codec (..),
    binary,
    rawBytes,
    showRead,
  )
where

import Data.Binary (Binary)
import qualified Data.Binary as Binary
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
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

-- | Through 'show' and 'read': slow, for small results and tests.
--
-- >>> parMapVia showRead defaultOptions {workers = Workers 2} (`lookup` [(1, 'a')]) [1, 2 :: Int]
-- [Just 'a',Nothing]
showRead :: (Show b, Read b) => Codec b
showRead =
  Codec
    { encode = Lazy.fromStrict . Char8.pack . show,
      decode = readEither . Char8.unpack
    }
