-- | Numbers for bytes and for what a submission holds. Equal numbers are no proof.
module Maru.Similar.Fingerprint
  ( fingerprint,
    hashOf,
  )
where

import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.List (foldl')
import Data.Word (Word64, Word8)

-- | Of what files hold: the same bytes in other files have another number but by chance. Paths do
-- not count, for an order by it must tell nothing of names.
fingerprint :: [ByteString] -> Word64
fingerprint = mixed . foldl' sized offset
  where
    sized h bytes = B.foldl' step (foldl' (number bytes) h [0, 8 .. 56]) bytes
    number bytes h shift = step h (fromIntegral (B.length bytes `shiftR` shift))

-- | FNV-1a, mixed so that the last bytes, too, count for the order.
hashOf :: ByteString -> Word64
hashOf = mixed . B.foldl' step offset

offset :: Word64
offset = 0xcbf29ce484222325

step :: Word64 -> Word8 -> Word64
step h byte = (h `xor` fromIntegral byte) * 0x100000001b3

mixed :: Word64 -> Word64
mixed h = let a = (h `xor` (h `shiftR` 33)) * 0xff51afd7ed558ccd in a `xor` (a `shiftR` 33)
