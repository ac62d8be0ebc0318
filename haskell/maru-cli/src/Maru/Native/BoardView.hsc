-- | A board as one copy of what it held at a moment: nothing here points into
-- shared memory, so that what is read cannot change under the reader.
module Maru.Native.BoardView
  ( Board (..),
    Section (..),
    ProcessCalls (..),
    Linkage (..),
    readBoard,
  )
where

import Control.Exception (finally)
import qualified Data.ByteString as ByteString
import Data.ByteString (ByteString)
import Data.Int (Int32)
import Data.Word (Word32, Word64)
import Foreign.C.Error (Errno (..), eNOENT, eOK, errnoToIOError)
import Foreign.C.String (CString, peekCString, withCString)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import GHC.IO.Exception (IOException (..))

#include <maru/board.h>

-- | What a board held.
data Board = Board
  { -- | Where it was found; a value for @MARU_BOARD@.
    boardPath :: !FilePath,
    -- | The process that made it.
    boardOwner :: !Int,
    boardSections :: ![Section],
    -- | The text log, oldest line first, as far as its ring still has it.
    boardLines :: ![String],
    -- | The owner and its descendants; empty where nobody looked.
    boardProcesses :: ![ProcessCalls]
  }

-- | A process of a run, as the kernel knows it.
data ProcessCalls = ProcessCalls
  { callsPid :: !Int,
    callsName :: !String,
    -- | Read and write calls, with those of children that it reaped.
    callsMade :: !Integer,
    -- | @libmaru-io.so@ is in it.
    callsLoaded :: !Bool,
    -- | It was started with @MARU_IO@.
    callsAsked :: !Bool,
    callsLinkage :: !Linkage
  }
  deriving (Eq, Show)

data Linkage = Dynamic | Static | Go | Unknown
  deriving (Eq, Show)

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

foreign import ccall unsafe "maru_board_line"
  boardLine :: Ptr () -> Word64 -> Ptr () -> CSize -> IO CInt

-- | Opens the board at a path, copies it, closes it. 'Left': why it cannot be
-- read (gone, not a board, another version, not ours).
readBoard :: FilePath -> IO (Either String Board)
readBoard path =
  allocaBytes #{size struct maru_board} $ \board -> do
    opened <- withCString path (boardOpen board)
    if opened < 0
      then pure (Left (reason opened))
      else (Right <$> copyBoard path board) `finally` boardClose board

copyBoard :: FilePath -> Ptr () -> IO Board
copyBoard path board =
  Board path <$> readOwner board <*> readSections board <*> readLines board <*> pure []

readOwner :: Ptr () -> IO Int
readOwner board =
  allocaBytes #{size struct maru_board_owner} $ \owner -> do
    status <- boardOwnerOf board owner
    if status < 0
      then pure 0
      else fromIntegral <$> (#{peek struct maru_board_owner, pid} owner :: IO Int32)

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
  name <- peekCString (section `plusPtr` #{offset struct maru_board_section, name})
  version <- #{peek struct maru_board_section, version} section :: IO Word32
  size <- #{peek struct maru_board_section, size} section :: IO Word64
  content <- #{peek struct maru_board_section, data} section :: IO (Ptr ())
  bytes <- ByteString.packCStringLen (castPtr content, fromIntegral (min size (1024 * 1024)))
  pure (Section name (fromIntegral version) bytes)

readLines :: Ptr () -> IO [String]
readLines board = allocaBytes room (go 0)
  where
    room = 256
    go number text = do
      status <- boardLine board number text (fromIntegral room)
      if status >= 0
        then (:) <$> peekCString (castPtr text) <*> go (number + 1) text
        else
          if Errno (negate status) == eNOENT
            then pure []
            else go (number + 1) text

reason :: CInt -> String
reason status
  | Errno (negate status) == eOK = "no error"
  | otherwise = ioe_description (errnoToIOError "" (Errno (negate status)) Nothing Nothing)
