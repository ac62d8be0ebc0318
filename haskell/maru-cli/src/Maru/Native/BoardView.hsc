-- | A board as one copy of what it held at a moment. Nothing here points into shared memory, so
-- that what is read cannot change under the reader.
module Maru.Native.BoardView
  ( Board (..),
    Section (..),
    readBoard,
    memfdAt,
  )
where

import Control.Exception (finally, try)
import qualified Data.ByteString as ByteString
import Data.ByteString (ByteString)
import Data.Int (Int32)
import Data.List (stripPrefix)
import Data.Maybe (catMaybes, fromMaybe)
import Data.Word (Word32, Word64)
import Foreign.C.Error (Errno (..), eNOTSUP, eOK, errnoToIOError)
import Foreign.C.String (CString, peekCString, withCString)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff)
import GHC.IO.Exception (IOException (..))
import Maru.View.Plain (plain)
import System.IO (IOMode (ReadMode), withBinaryFile)
import Text.Read (readMaybe)

#include <maru/board.h>
#include <shared.h>
#include <sys/stat.h>
#include <unistd.h>

-- | What a board held.
data Board = Board
  { -- | Where it was found; a value for @MARU_BOARD@.
    boardPath :: !FilePath,
    -- | The process that made it, if the kernel confirms what the board says; else that which has
    -- it open (0: that is not known).
    boardOwner :: !Int,
    boardSections :: ![Section],
    -- | The text log, oldest line first, as far as its ring still has it.
    boardLines :: ![String]
  }

-- | One room's memory, in the machine's byte order.
data Section = Section
  { sectionName :: !String,
    sectionVersion :: !Int,
    -- | At most 1 MiB of it.
    sectionBytes :: !ByteString
  }

foreign import ccall safe "maru_board_open"
  boardOpen :: Ptr () -> CString -> IO CInt

foreign import ccall safe "maru_board_close"
  boardClose :: Ptr () -> IO ()

foreign import ccall unsafe "maru_board_owner_of"
  boardOwnerOf :: Ptr () -> Ptr () -> IO CInt

foreign import ccall unsafe "maru_board_section_at"
  boardSectionAt :: Ptr () -> CUInt -> Ptr () -> IO CInt

foreign import ccall unsafe "maru_board_lines"
  boardLinesOf :: Ptr () -> Ptr Word64 -> Ptr Word64 -> IO ()

foreign import ccall unsafe "maru_board_line"
  boardLine :: Ptr () -> Word64 -> Ptr () -> CSize -> IO CInt

foreign import ccall safe "mr_memfd_at"
  memfdAtPath :: CString -> Ptr () -> IO CInt

foreign import ccall unsafe "close"
  closeDescriptor :: CInt -> IO CInt

-- | Device and inode of what the path leads to, if that is a memfd. A file system in user space is
-- asked nothing: its server might never answer.
memfdAt :: FilePath -> IO (Maybe (Word64, Word64))
memfdAt path =
  allocaBytes #{size struct stat} $ \status -> do
    found <- withCString path (`memfdAtPath` status)
    if found < 0
      then pure Nothing
      else do
        _ <- closeDescriptor found
        Just <$> ((,) <$> #{peek struct stat, st_dev} status <*> #{peek struct stat, st_ino} status)

-- | Opens this user's board at a path, copies it, closes it. A board of another version of maru is
-- one without sections, whose log says so. 'Left': why it cannot be read (gone, not a board, another
-- user's).
readBoard :: FilePath -> IO (Either String Board)
readBoard path =
  allocaBytes #{size struct maru_board} $ \board -> do
    opened <- withCString path (boardOpen board)
    case opened of
      status
        | Errno (negate status) == eNOTSUP -> Right . otherVersion path <$> layoutAt path
        | status < 0 -> pure (Left (reason status))
        | otherwise -> (Right <$> copyBoard path board) `finally` boardClose board

-- | Its header has the layout's version where each version has it.
layoutAt :: FilePath -> IO (Maybe Word32)
layoutAt path = either noneOf Just <$> try (withBinaryFile path ReadMode header)
  where
    header file = do
      bytes <- ByteString.hGet file #{const MARU_BOARD_VERSION_AT + 4}
      ByteString.useAsCStringLen (ByteString.drop #{const MARU_BOARD_VERSION_AT} bytes) (peek . castPtr . fst)
    noneOf :: IOException -> Maybe Word32
    noneOf _ = Nothing

otherVersion :: FilePath -> Maybe Word32 -> Board
otherVersion path layout = Board path (fromMaybe 0 (holderOf path)) [] [said]
  where
    said =
      "its board is of another version of maru (layout "
        ++ maybe "?" show layout
        ++ ", this maru reads layout "
        ++ show (#{const MARU_BOARD_VERSION} :: Int)
        ++ "): look at it with the maru that started it"

copyBoard :: FilePath -> Ptr () -> IO Board
copyBoard path board =
  Board path <$> readOwner path board <*> readSections board <*> readLines board

readOwner :: FilePath -> Ptr () -> IO Int
readOwner path board =
  allocaBytes #{size struct maru_board_owner} $ \owner -> do
    status <- boardOwnerOf board owner
    if status < 0
      then pure (fromMaybe 0 (holderOf path))
      else fromIntegral <$> (#{peek struct maru_board_owner, pid} owner :: IO Int32)

-- | Of @\/proc\/PID\/fd\/N@.
holderOf :: FilePath -> Maybe Int
holderOf path = stripPrefix "/proc/" path >>= readMaybe . takeWhile (/= '/')

readSections :: Ptr () -> IO [Section]
readSections board = go 0
  where
    go position =
      allocaBytes #{size struct maru_board_section} $ \section -> do
        status <- boardSectionAt board position section
        if status < 0
          then pure []
          else (:) <$> copySection section <*> go (position + 1)

copySection :: Ptr () -> IO Section
copySection section = do
  name <- plain <$> peekCString (section `plusPtr` #{offset struct maru_board_section, name})
  version <- #{peek struct maru_board_section, version} section :: IO Word32
  size <- #{peek struct maru_board_section, size} section :: IO Word64
  content <- #{peek struct maru_board_section, data} section :: IO (Ptr ())
  bytes <- ByteString.packCStringLen (castPtr content, fromIntegral (min size (1024 * 1024)))
  pure (Section name (fromIntegral version) bytes)

readLines :: Ptr () -> IO [String]
readLines board = alloca $ \first -> alloca $ \end -> do
  boardLinesOf board first end
  from <- peek first
  count <- subtract from <$> peek end
  catMaybes <$> mapM (line . (from +)) (takeWhile (< count) [0 .. 255])
  where
    room = 256
    line number = allocaBytes room $ \text -> do
      status <- boardLine board number text (fromIntegral room)
      if status < 0 then pure Nothing else Just <$> peekCString (castPtr text)

reason :: CInt -> String
reason status
  | Errno (negate status) == eOK = "no error"
  | otherwise = ioe_description (errnoToIOError "" (Errno (negate status)) Nothing Nothing)
