{-# LANGUAGE OverloadedStrings #-}

-- | The members of a zip archive, by its central directory (PKWARE's APPNOTE 6.3), with the
-- extensions for large archives. Pure, total: what is damaged is said. The bytes are slices of the
-- archive until they are asked for.
module Maru.Similar.Corpus.Zip
  ( zipMembers,
  )
where

import Data.Bits (shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.List (find)
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Maru.Similar.Corpus.Member

-- | All members in the directory's order; and why there are not all of them, if that is so.
zipMembers :: Limits -> ByteString -> ([Member], Maybe ByteString)
zipMembers limits archive = case directoryOf archive of
  Nothing -> ([], Just "is no zip archive, or damaged: it has no directory")
  Just (Directory entries shift whole)
    | sum (map (toInteger . headPacked) heads) > toInteger (B.length archive) -> ([], Just "its members overlap: a bomb?")
    | otherwise -> (map (member archive shift) heads, why)
    where
      (heads, broken) = headsOf (limitMembers limits) whole
      why
        | Just w <- broken = Just w
        | toInteger (length heads) < toInteger entries && length heads >= limitMembers limits = Just "has too many members; the rest is not read"
        | toInteger (length heads) /= toInteger entries .&. mask = Just "is damaged: its directory is cut off"
        | otherwise = Nothing
      -- Old writers count in 16 bits.
      mask = if toInteger entries < 65536 then 65535 else -1

-- | How many entries it says it has; what its offsets are to be moved by (something stands before
-- many archives); its bytes.
data Directory = Directory !Word64 !Int !ByteString

directoryOf :: ByteString -> Maybe Directory
directoryOf archive = do
  end <- find closes candidates
  let large = at64 end
      small = (end, word 2 (end + 10), word 4 (end + 12), word 4 (end + 16))
      (stop, entries, size, offset) = fromMaybe small large
  start <- if size <= fromIntegral stop then Just (stop - fromIntegral size) else Nothing
  if offset <= fromIntegral start
    then Just (Directory entries (start - fromIntegral offset) (slice start (fromIntegral size) archive))
    else Nothing
  where
    n = B.length archive
    -- The record of 22 bytes and a comment.
    candidates = [i | i <- [n - 22, n - 23 .. max 0 (n - 22 - 65535)], "PK\5\6" `B.isPrefixOf` B.drop i archive]
    closes i = i + 22 + fromIntegral (word 2 (i + 20)) <= n
    word width i = number (slice i width archive)
    at64 end
      | end >= 20 && "PK\6\7" `B.isPrefixOf` B.drop (end - 20) archive && place <= n - 56 && place >= 0 && "PK\6\6" `B.isPrefixOf` B.drop place archive =
        Just (place, word 8 (place + 32), word 8 (place + 40), word 8 (place + 48))
      | otherwise = Nothing
      where
        place = bounded (word 8 (end - 20 + 8))

-- | An entry of the directory.
data Head = Head
  { headName :: !ByteString,
    headFlags :: !Int,
    headMethod :: !Int,
    headSum :: !Word64,
    headPacked :: !Word64,
    headSize :: !Word64,
    headOffset :: !Word64,
    -- | As Unix has it; 0 where the writer is of another system.
    headMode :: !Int
  }

-- | So many at most; whether something else stands between them.
headsOf :: Int -> ByteString -> ([Head], Maybe ByteString)
headsOf most text
  | most <= 0 || B.null text = ([], Nothing)
  | B.length text < 46 || not ("PK\1\2" `B.isPrefixOf` text) || B.length text < size = ([], Just "is damaged: its directory is broken")
  | otherwise = let (more, why) = headsOf (most - 1) (B.drop size text) in (one : more, why)
  where
    word width i = number (slice i width text)
    int i = fromIntegral (word 2 i) :: Int
    size = 46 + int 28 + int 30 + int 32
    (wholeSize, packed, offset) = enlarged (slice (46 + int 28) (int 30) text) (word 4 24, word 4 20, word 4 42)
    unix = B.index text 5 `elem` [3, 19]
    one =
      Head
        { headName = slice 46 (int 28) text,
          headFlags = int 8,
          headMethod = int 10,
          headSum = word 4 16,
          headPacked = packed,
          headSize = wholeSize,
          headOffset = offset,
          headMode = if unix then int 40 else 0
        }

-- | Size, packed size and offset, from the extra field where 32 bits did not hold them.
enlarged :: ByteString -> (Word64, Word64, Word64) -> (Word64, Word64, Word64)
enlarged extra (a, b, c) = (a', b', c')
  where
    (a', from1) = taken a (large extra)
    (b', from2) = taken b from1
    (c', _) = taken c from2
    taken value from
      | value == 0xffffffff && B.length from >= 8 = (number (B.take 8 from), B.drop 8 from)
      | otherwise = (value, from)
    large field
      | B.length field < 4 = ""
      | number (B.take 2 field) == 1 = B.take size (B.drop 4 field)
      | otherwise = large (B.drop (4 + size) field)
      where
        size = fromIntegral (number (slice 2 2 field))

member :: ByteString -> Int -> Head -> Member
member archive shift h =
  Member
    { memberName = headName h,
      memberKind = kind,
      memberPacked = bounded (headPacked h),
      memberSize = toInteger (headSize h),
      memberSum = Just (fromIntegral (headSum h)),
      memberBytes = bytes
    }
  where
    kind
      | "/" `B.isSuffixOf` headName h = Folder
      | otherwise = case headMode h .&. 0xf000 of
        0x4000 -> Folder
        0xa000 -> Refused "a symbolic link in an archive; not followed"
        m | m /= 0 && m /= 0x8000 -> Refused "no file"
        _
          | testBit (headFlags h) 0 -> Refused "encrypted"
          | headMethod h `notElem` [0, 8] -> Refused ("packed in a way that maru does not open (method " <> BC.pack (show (headMethod h)) <> ")")
          | otherwise -> File
    at = bounded (headOffset h) + shift
    local = slice at 30 archive
    begin = at + 30 + fromIntegral (number (slice 26 2 local)) + fromIntegral (number (slice 28 2 local))
    packed = slice begin (bounded (headPacked h)) archive
    bytes
      | not ("PK\3\4" `B.isPrefixOf` local) || B.length packed /= bounded (headPacked h) = Broken "is damaged: its archive does not hold it"
      | headMethod h == 0 = More packed End
      | otherwise = inflated Raw (BL.fromStrict packed)

-- | Little endian; of nothing 0.
number :: ByteString -> Word64
number = B.foldr (\byte rest -> rest `shiftL` 8 .|. fromIntegral byte) 0

-- | Any number as one that sums do not overflow, and no archive reaches.
bounded :: Word64 -> Int
bounded w = if w `shiftR` 48 == 0 then fromIntegral w else 1 `shiftL` 48

-- | As far as it is there; nothing before the beginning.
slice :: Int -> Int -> ByteString -> ByteString
slice from count text = if from < 0 then "" else B.take count (B.drop from text)
