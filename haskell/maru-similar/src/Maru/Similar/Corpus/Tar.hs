{-# LANGUAGE OverloadedStrings #-}

-- | The members of a tar archive, plain or packed by gzip, with long names as GNU and POSIX write
-- them. Pure, total: what is damaged is said.
module Maru.Similar.Corpus.Tar
  ( Tarred (..),
    tarMembers,
  )
where

import qualified Codec.Archive.Tar as Tar
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.Maybe (fromMaybe)
import Maru.Similar.Corpus.Member

-- | The members in the archive's order, as far as they are asked for. To be asked for after them: what
-- the archive took of the total, what its members take included, and why it ends early; why there
-- are not all members. Each is a field of its own: a thunk of two of them would keep all that is
-- unpacked.
data Tarred = Tarred [Member] Unpacked (Maybe ByteString)

-- | While so many bytes of the total are left.
tarMembers :: Limits -> Int -> Wrapping -> ByteString -> Tarred
tarMembers limits left wrapping archive = Tarred members unpacked broken
  where
    (text, unpacked) = case wrapping of
      Raw -> (BL.fromStrict archive, Unpacked 0 Nothing)
      Gzip -> packedTar limits left archive
    (members, broken) = listed (limitMembers limits) Nothing (Tar.read text)

-- | So many at most; the name that an entry before has given to the next.
listed :: Show e => Int -> Maybe ByteString -> Tar.Entries e -> ([Member], Maybe ByteString)
listed most given entries
  | most <= 0 = ([], Just "has too many members; the rest is not read")
  | otherwise = case entries of
    Tar.Done -> ([], Nothing)
    Tar.Fail _ -> ([], Just "is no tar archive, or damaged from there on")
    Tar.Next entry rest -> case Tar.entryContent entry of
      Tar.OtherEntryType 'L' content _ -> listed (most - 1) (Just (BC.takeWhile (/= '\0') (short content))) rest
      Tar.OtherEntryType 'x' content _ -> listed (most - 1) (pathOf (short content)) rest
      Tar.OtherEntryType 'g' _ _ -> listed (most - 1) Nothing rest
      content -> let ~(more, why) = listed (most - 1) Nothing rest in (member (fromMaybe (named entry) given) content : more, why)
  where
    named = BC.pack . Tar.entryPath
    -- No path is longer.
    short = BL.toStrict . BL.take 65536

member :: ByteString -> Tar.EntryContent -> Member
member name content = case content of
  Tar.NormalFile bytes size -> one File (toInteger size) (BL.foldrChunks More (end size bytes) bytes)
  Tar.Directory -> one Folder 0 End
  Tar.SymbolicLink _ -> one (Refused "a symbolic link in an archive; not followed") 0 End
  Tar.HardLink _ -> one (Refused "a hard link in an archive; not followed") 0 End
  _ -> one (Refused "no file") 0 End
  where
    one kind size = Member name kind 0 size Nothing
    end size bytes = if BL.length (BL.take size bytes) < size then Broken "is damaged: it ends too early" else End

-- | The path of a POSIX header: lines of @LENGTH KEY=VALUE@.
pathOf :: ByteString -> Maybe ByteString
pathOf text = case BC.readInt text of
  Just (size, rest)
    | size > 0 && size <= B.length text,
      Just value <- B.stripPrefix "path=" (B.drop 1 (record size rest)) ->
      Just value
    | size > 0 -> pathOf (B.drop size text)
  _ -> Nothing
  where
    record size rest = B.take (size - (B.length text - B.length rest) - 1) rest
