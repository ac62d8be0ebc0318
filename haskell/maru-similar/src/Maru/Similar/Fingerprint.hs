-- | A number for what a submission holds.
module Maru.Similar.Fingerprint
  ( fingerprint,
  )
where

import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.List (foldl')
import Data.Word (Word64)

-- | FNV-1a, mixed so that the last bytes, too, count for the order.
fingerprint :: [ByteString] -> Word64
fingerprint = mixed . foldl' (B.foldl' step) 0xcbf29ce484222325
  where
    step h byte = (h `xor` fromIntegral byte) * 0x100000001b3
    mixed h = let a = (h `xor` (h `shiftR` 33)) * 0xff51afd7ed558ccd in a `xor` (a `shiftR` 33)
