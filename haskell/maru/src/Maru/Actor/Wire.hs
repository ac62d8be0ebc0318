{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- | Frames between a process and one that it forks. /Internal/.
--
-- A wire is a connected socket, and for @Shm@ a log for each direction beside it. A frame goes
-- into the log, and a bell to the socket when the reader sleeps there. A log never wraps: the
-- frames after its last one go through the socket.
--
-- No bell is lost. The reader sets its flag and looks at the log once more, then it sleeps. The
-- writer commits and takes the flag away. Both change the flag by an exchange: of the two
-- exchanges one is the later, and sees what was done before the other.
module Maru.Actor.Wire
  ( Line,
    newLine,
    lineDescriptors,
    abandonLine,
    Wire,
    ourEnd,
    theirEnd,
    keepOurs,
    Frame (..),
    sendFrame,
    nextFrame,
    hangUp,
    closeWire,
  )
where

import Control.Concurrent (threadWaitRead)
import Control.Concurrent.MVar
import Control.Exception (onException)
import Control.Monad (void, when)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_)
import Data.Word (Word16, Word64)
import Foreign (Ptr, castPtr, copyBytes, nullPtr, plusPtr)
import Foreign.C (CInt (..))
import GHC.Exts (Ptr (Ptr), atomicExchangeWordAddr#)
import GHC.IO (IO (IO))
import GHC.Word (Word (W#))
import Maru.Native.Log
import Maru.Native.Stream

-- | Both ends, before the fork.
data Line = Line
  { lineOurs :: !CInt,
    lineTheirs :: !CInt,
    lineTracks :: !(Maybe Tracks)
  }

-- | Logs down and up, and a page that holds the flags of those who read them.
data Tracks = Tracks !Log !Log !Log !(Ptr Word)

-- | With logs of so many bytes, or without. Throws 'Maru.Failure.Unavailable'.
newLine :: Maybe Word64 -> IO Line
newLine size = do
  (ours, theirs) <- newStreamPair
  Line ours theirs <$> traverse newTracks size `onException` (closeStream ours >> closeStream theirs)

newTracks :: Word64 -> IO Tracks
newTracks size = do
  (down, _) <- newLog size
  (up, _) <- newLog size `onException` freeLog down
  let undo = freeLog down >> freeLog up
  (flags, _) <- newLog 4096 `onException` undo
  room <- reserve flags 16 `onException` (undo >> freeLog flags)
  case room of
    -- Fresh pages are zero.
    Reserved flag -> pure (Tracks down up flags (castPtr flag))
    LogFull -> undo >> freeLog flags >> refused "a page in shared memory" (-12)

-- | Those of the other end, which the child needs.
lineDescriptors :: Line -> [CInt]
lineDescriptors line = [lineTheirs line]

-- | Where there was no fork.
abandonLine :: Line -> IO ()
abandonLine line = do
  closeStream (lineOurs line)
  closeStream (lineTheirs line)
  for_ (lineTracks line) freeTracks

freeTracks :: Tracks -> IO ()
freeTracks (Tracks down up flags _) = freeLog down >> freeLog up >> freeLog flags

-- | One end.
data Wire = Wire
  { wireSocket :: !CInt,
    wireReader :: !Reader,
    -- | Held by the one that writes.
    wireWriting :: !(MVar Writing),
    wireEnd :: !(Maybe End),
    wireFree :: !(IO ())
  }

-- | Where the next frame goes.
data Writing = ByLog | BySocket | Nowhere

data End = End
  { outgoing :: !Log,
    -- | The reader of 'outgoing' sleeps.
    otherSleeps :: !(Ptr Word),
    incoming :: !Log,
    weSleep :: !(Ptr Word)
  }

-- | In the process that made the line. The other end's socket is open here until 'keepOurs'.
ourEnd :: Line -> IO Wire
ourEnd line = wire line (lineOurs line) (\(Tracks down up _ flag) -> End down flag up (flag `plusPtr` 8))

-- | In the child.
theirEnd :: Line -> IO Wire
theirEnd line = wire line (lineTheirs line) (\(Tracks down up _ flag) -> End up (flag `plusPtr` 8) down flag)

-- | After the fork, in the parent: or the child's death would not show.
keepOurs :: Line -> IO ()
keepOurs = closeStream . lineTheirs

wire :: Line -> CInt -> (Tracks -> End) -> IO Wire
wire line socket end = do
  reader <- newReader socket
  writing <- newMVar (maybe BySocket (const ByLog) (lineTracks line))
  pure (Wire socket reader writing (end <$> lineTracks line) (freeReader reader >> closeStream socket >> for_ (lineTracks line) freeTracks))

-- | When no thread reads it any more. What is sent later is dropped.
closeWire :: Wire -> IO ()
closeWire w = modifyMVarMasked_ (wireWriting w) (const (Nowhere <$ wireFree w))

-- | A mailbox's number, and what is for it.
data Frame = Frame !Int !Bytes.ByteString

-- Kinds of record on the socket.
frameKind, bellKind :: Word16
frameKind = 0
bellKind = 1

-- | Frames of one thread arrive in order, whole, or not at all: where the other process is gone,
-- none does. Waits where the socket is full and the other process is stopped.
sendFrame :: Wire -> Frame -> IO ()
sendFrame w (Frame box bytes) =
  -- Masked: a frame that is committed gets its bell.
  modifyMVarMasked_ (wireWriting w) $ \writing -> case (writing, wireEnd w) of
    (ByLog, Just end) -> do
      room <- reserve (outgoing end) n
      case room of
        Reserved to -> do
          withBytes (\from -> copyBytes (castPtr to) from n)
          commit (outgoing end) n box frameKind
          ByLog <$ wake end
        LogFull -> do
          closeLog (outgoing end)
          wake end
          BySocket <$ bySocket
    (Nowhere, _) -> pure Nowhere
    _ -> BySocket <$ bySocket
  where
    n = Bytes.length bytes
    withBytes act = Unsafe.unsafeUseAsCStringLen bytes (act . fst)
    bySocket = withBytes (\from -> void (sendRecord (wireSocket w) box frameKind from n))
    wake end = do
      slept <- exchange (otherSleeps end) 0
      when (slept /= 0) (void (sendRecord (wireSocket w) 0 bellKind nullPtr 0))

-- | Waits for one. 'Nothing': the other process is gone, and all that it sent was read. By one
-- thread at a time. An asynchronous exception ends the wait.
nextFrame :: Wire -> IO (Maybe Frame)
nextFrame w = maybe (fromSocket w) (fromLog w) (wireEnd w)

fromSocket :: Wire -> IO (Maybe Frame)
fromSocket w = do
  got <- nextOnSocket w
  case got of
    Nothing -> pure Nothing
    Just r
      | recordKind r == fromIntegral bellKind -> fromSocket w
      | otherwise -> Just <$> frame r

fromLog :: Wire -> End -> IO (Maybe Frame)
fromLog w end = look (exchange (weSleep end) 1 >> look (nextOnSocket w >>= maybe taken (const (fromLog w end))))
  where
    look whenNone = do
      -- In this order: a log that was closed before has all of its records.
      closed <- isClosed (incoming end)
      got <- taken
      case got of
        Nothing -> if closed then fromSocket w else whenNone
        _ -> pure got
    taken = nextRecord (incoming end) >>= traverse (\r -> frame r <* releaseRecords (incoming end))

-- The log's pages, or the reader's buffer, are used again.
frame :: Record -> IO Frame
frame r = Frame (recordIndex r) <$> Bytes.packCStringLen (castPtr (recordChunk r), recordLength r)

nextOnSocket :: Wire -> IO (Maybe Record)
nextOnSocket w = do
  got <- readRecord (wireReader w)
  case got of
    Left () -> pure Nothing
    Right (Just r) -> pure (Just r)
    Right Nothing -> threadWaitRead (fromIntegral (wireSocket w)) >> nextOnSocket w

-- | What was sent until now can still be read; then the other process counts as gone, even where
-- a third one holds its end. A thread that waits for room in the socket goes on.
hangUp :: Wire -> IO ()
hangUp w = void (c_shutdown (wireSocket w) both)
  where
    both = 2

foreign import ccall unsafe "shutdown" c_shutdown :: CInt -> CInt -> IO CInt

-- | Of two exchanges of one word the later sees what was written before the earlier.
exchange :: Ptr Word -> Word -> IO Word
exchange (Ptr word) (W# new) = IO $ \s -> case atomicExchangeWordAddr# word new s of
  (# s', old #) -> (# s', W# old #)
