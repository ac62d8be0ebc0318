-- | Results that cross by address.
module Maru.Native.Region
  ( -- * By address
    Region,
    newRegion,
    Added (..),
    regionAdd,
    regionRoom,
    regionGet,
    regionRelease,
    zeroCopy,

    -- * By copy
    Packed (..),
    pack,
    unpack,
  )
where

import Data.Word (Word64, Word8)
import Foreign.ForeignPtr (ForeignPtr)
import Foreign.Ptr (Ptr)

-- | Shared pages that a worker fills and the parent adopts.
data Region = Region

data Added
  = -- | The address, for 'regionGet'.
    Added !Word64
  | -- | It did not fit. Nothing was added; smaller values may still fit.
    Full
  | -- | What was found in it that cannot leave its process: \"a function\".
    Refused !String

-- | In the parent, before the fork: so many MiB.
newRegion :: Int -> IO Region
newRegion _ = ioError (userError "not built yet")

-- | In the child: evaluates the value fully, copies it. True: keep sharing
-- (and cycles) inside the value.
regionAdd :: Region -> Bool -> a -> IO Added
regionAdd _ _ _ = ioError (userError "not built yet")

-- | Bytes still free.
regionRoom :: Region -> IO Int
regionRoom _ = pure 0

-- | In the parent: the value at that address.
regionGet :: Word64 -> IO a
regionGet _ = ioError (userError "not built yet")

-- | In the parent, once the process that wrote is dead. Idempotent.
regionRelease :: Region -> IO ()
regionRelease _ = pure ()

-- | May results cross by address in this program, and why not.
zeroCopy :: IO (Either String ())
zeroCopy = pure (Left "not built yet")

-- | A value as position-independent bytes.
data Packed
  = -- | So many bytes there (outside the heap, freed with the pointer).
    Packed !(ForeignPtr Word8) !Int
  | -- | As 'Refused'.
    Unpackable !String

-- | In the child: evaluates the value fully. Flag as for 'regionAdd'.
pack :: Bool -> a -> IO Packed
pack _ _ = ioError (userError "not built yet")

-- | In a process of the same program forked from the same parent (or the
-- parent itself): the value, or 'Nothing' when the bytes are not one.
unpack :: Ptr Word8 -> Int -> IO (Maybe a)
unpack _ _ = ioError (userError "not built yet")
