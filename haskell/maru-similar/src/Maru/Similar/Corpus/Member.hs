{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE OverloadedStrings #-}

-- | What archives are made of, and how much of one may be unpacked. Pure, total.
--
-- Nothing is ever written to a file system: a member is a name and bytes. The bounds hold whatever
-- an archive says of itself.
module Maru.Similar.Corpus.Member
  ( Bytes (..),
    Member (..),
    Kind (..),
    safeName,
    longestName,
    packedTar,
    Unpacked (..),

    -- * Bounds
    Limits (..),
    defaultLimits,
    Gathered (..),
    gather,
    inflated,
    Wrapping (..),
    checksum,
  )
where

import qualified Codec.Compression.Zlib.Internal as Zlib
import Data.Array.Unboxed (UArray, listArray, (!))
import Data.Bits (complement, shiftR, xor, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import qualified Data.ByteString.Lazy.Internal as BL
import Data.Char (isAsciiLower, isAsciiUpper)
import Data.Word (Word32)

-- | Unpacked as far as it is read.
data Bytes
  = More !ByteString Bytes
  | End
  | -- | Why it does not go on.
    Broken !ByteString

data Member = Member
  { -- | As the archive has it.
    memberName :: !ByteString,
    memberKind :: !Kind,
    -- | Bytes that it takes in the archive; 0 where that cannot be told of it alone.
    memberPacked :: !Int,
    -- | Bytes that it has, as the archive says.
    memberSize :: !Integer,
    -- | CRC-32 of the bytes, where the archive has one.
    memberSum :: !(Maybe Word32),
    memberBytes :: Bytes
  }

data Kind
  = File
  | Folder
  | -- | Why it is not read.
    Refused !ByteString

-- | A relative path below the archive, without @.@; or why there is none: it would lead elsewhere, or no
-- system has it.
safeName :: ByteString -> Either ByteString ByteString
safeName name
  | B.length name > longestName = Left "its name is too long"
  | B.elem 0 name || "/" `B.isPrefixOf` path || drive || ".." `elem` names || null names = Left "leads out of its archive; not read"
  | otherwise = Right (B.intercalate "/" names)
  where
    -- Some Windows programs write their own separator.
    path = if BC.elem '/' name then name else BC.map (\c -> if c == '\\' then '/' else c) name
    names = filter (`notElem` ["", "."]) (BC.split '/' path)
    drive = case BC.unpack (B.take 2 path) of
      [c, ':'] -> isAsciiUpper c || isAsciiLower c
      _ -> False

-- | Bytes of a path, as Linux has it.
longestName :: Int
longestName = 4096

-- Bounds ------------------------------------------------------------------------

data Limits = Limits
  { -- | Members of one archive.
    limitMembers :: !Int,
    -- | Bytes of one member.
    limitMember :: !Int,
    -- | Bytes of all members of all archives.
    limitTotal :: !Int,
    -- | How many times its packed size a member may have, once it is above 'limitSmall' bytes.
    limitRatio :: !Int,
    limitSmall :: !Int,
    -- | Archives within archives.
    limitDepth :: !Int
  }

-- | 200 000 members; 256 MiB; 1 GiB in all; 200 times above 1 MiB; four archives deep.
defaultLimits :: Limits
defaultLimits = Limits 200000 (256 * mebi) (1024 * mebi) 200 mebi 4
  where
    mebi = 1024 * 1024

-- | What was unpacked, or why not; and how many bytes that took from the total.
data Gathered = Gathered !(Either ByteString ByteString) !Int

-- | Unpack a member while so many bytes of the total are left.
gather :: Limits -> Int -> Member -> Gathered
gather limits left member
  | memberSize member > toInteger (limitMember limits) = Gathered (Left large) 0
  | otherwise = go [] 0 (memberBytes member)
  where
    go parts !n bytes
      | n > left = refuse "the archives hold more than this run unpacks in all; is one a bomb?"
      | n > limitMember limits = refuse large
      | n > limitSmall limits && memberPacked member > 0 && n > limitRatio limits * memberPacked member =
        refuse ("expands to more than " <> BC.pack (show (limitRatio limits)) <> " times its size: a bomb?")
      | toInteger n > memberSize member = refuse "is larger than its archive says"
      | otherwise = case bytes of
        More part rest -> go (part : parts) (n + B.length part) rest
        Broken why -> refuse why
        End
          | maybe False (/= checksum whole) (memberSum member) -> refuse "is damaged: its checksum is wrong"
          | otherwise -> Gathered (Right whole) n
          where
            -- A slice would keep its whole archive.
            whole = B.copy (B.concat (reverse parts))
      where
        refuse why = Gathered (Left why) n
    large = "larger than " <> BC.pack (show (limitMember limits `quot` (1024 * 1024))) <> " MiB"

-- Packing -------------------------------------------------------------------------

data Wrapping = Raw | Gzip

-- | Deflated bytes, as far as they are asked for.
inflated :: Wrapping -> BL.ByteString -> Bytes
inflated wrapping =
  Zlib.foldDecompressStreamWithInput More (const End) (Broken . said) (Zlib.decompressST format Zlib.defaultDecompressParams)
  where
    format = case wrapping of
      Raw -> Zlib.rawFormat
      Gzip -> Zlib.gzipFormat
    said why = case why of
      Zlib.TruncatedInput -> "is damaged: it ends too early"
      _ -> "is damaged: it cannot be unpacked"

-- | What a packed tar took from the total; where it ends early, why.
data Unpacked = Unpacked !Int !(Maybe ByteString)

-- | The bytes of a packed tar while so many of the total are left, for a reader that takes a lazy
-- string. The second must be asked for after the first has been read.
packedTar :: Limits -> Int -> ByteString -> (BL.ByteString, Unpacked)
packedTar limits left packed = go 0 (inflated Gzip (BL.fromStrict packed))
  where
    go :: Int -> Bytes -> (BL.ByteString, Unpacked)
    go !n bytes
      | n > left = ended (Just "the archives hold more than this run unpacks in all; is one a bomb?")
      | n > 16 * limitSmall limits && n > limitRatio limits * B.length packed =
        ended (Just ("expands to more than " <> BC.pack (show (limitRatio limits)) <> " times its size: a bomb?"))
      | otherwise = case bytes of
        More part rest -> let ~(more, why) = go (n + B.length part) rest in (BL.Chunk part more, why)
        End -> ended Nothing
        Broken why -> ended (Just why)
      where
        ended why = (BL.empty, Unpacked n why)

-- | CRC-32, as zip has it.
checksum :: ByteString -> Word32
checksum = complement . B.foldl' step maxBound
  where
    step crc byte = (crc `shiftR` 8) `xor` (checksums ! fromIntegral ((crc `xor` fromIntegral byte) .&. 255))

checksums :: UArray Int Word32
checksums = listArray (0, 255) (map (\n -> iterate divide n !! 8) [0 ..])
  where
    divide c = (c `shiftR` 1) `xor` (if odd c then 0xedb88320 else 0)
