-- | Frames between the coordinator and a peer on any host. /Internal/.
--
-- A frame arrives whole, or not at all; those of one wire in the order in which they were sent.
-- A wire is a socket, or the two ends of pipes that @ssh@ gives its command. After the other side's
-- end 'nextFrame' says so once what came before was read, and 'sendFrame' drops what it is given:
-- the reader tells who was lost, in one place.
module Maru.Cluster.Frame
  ( Wire,
    wireOn,
    wireOver,
    Frame (..),
    Kind (..),
    sendFrame,
    nextFrame,
    nextHeard,
    largestFrame,
    nextShort,
    hangUp,
    closeWire,
  )
where

import Control.Concurrent.MVar
import Control.Exception (IOException, try, uninterruptibleMask_)
import Control.Monad (void)
import Data.Binary.Get (getWord32be, getWord64be, getWord8, runGet)
import qualified Data.ByteString as Bytes
import Data.ByteString.Builder
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Lazy as Lazy
import Foreign (plusPtr)
import Foreign.C (CInt)
import GHC.IO.Device (IODeviceType (Stream))
import GHC.IO.Handle.FD (fdToHandle')
import Maru.Native.Ranks (shutDown)
import System.IO

-- | A connection to one peer. Sending is safe from several threads, reading from one.
data Wire = Wire
  { wireIn :: !Handle,
    wireOut :: !Handle,
    wireSending :: !(MVar ()),
    wireEnd :: !(IO ())
  }

-- | Over a connected socket, which is the wire's from then on.
wireOn :: CInt -> IO Wire
wireOn socket = do
  handle <- fdToHandle' socket (Just Stream) True "a peer" ReadWriteMode True
  wire handle handle (shutDown socket)

-- | What is read from the one descriptor and written to the other.
wireOver :: CInt -> CInt -> IO Wire
wireOver from to = do
  input <- fdToHandle' from (Just Stream) True "the coordinator" ReadMode True
  output <- fdToHandle' to (Just Stream) True "the coordinator" WriteMode True
  wire input output (shutDown from >> shutDown to)

wire :: Handle -> Handle -> IO () -> IO Wire
wire input output end = do
  hSetBuffering output (BlockBuffering (Just 65536))
  sending <- newMVar ()
  pure (Wire input output sending end)

-- | What a frame says.
data Kind
  = -- | Of a greeting.
    Greets
  | -- | To a peer: a function, its environment and options.
    Begins
  | -- | To a peer: items, each with its index.
    Items
  | -- | To a peer: nothing more of this call; what runs of it ends.
    Ends
  | -- | To a peer: the program is over.
    Leaves
  | -- | From a peer: an item's result.
    Result
  | -- | From a peer: what an item threw.
    Threw
  | -- | From a peer: the call fails with that.
    Fails
  | -- | From a peer: a block is done: what it took.
    Done
  | -- | From a peer: it lives.
    Beats
  deriving (Eq, Show, Enum, Bounded)

-- | Kind, call, index of an item, and the rest.
data Frame = Frame !Kind !Int !Int !Bytes.ByteString
  deriving (Eq, Show)

-- Kind, call, index, length.
headerBytes :: Int
headerBytes = 21

-- | Waits for room as long as the other side lives. Not interruptible then: a frame that was begun
-- is sent to its end, or the next one would be taken for its rest.
sendFrame :: Wire -> Frame -> IO ()
sendFrame w (Frame kind call index body) =
  modifyMVarMasked_ (wireSending w) $ \() -> uninterruptibleMask_ (void (try write :: IO (Either IOException ())))
  where
    write = do
      hPutBuilder (wireOut w) (header <> byteString body)
      hFlush (wireOut w)
    header =
      word8 (fromIntegral (fromEnum kind))
        <> word32BE (fromIntegral call)
        <> word64BE (fromIntegral index)
        <> word64BE (fromIntegral (Bytes.length body))

-- | 'Nothing': the other side is gone, or is none of ours. By one thread at a time.
nextFrame :: Wire -> IO (Maybe Frame)
nextFrame = nextHeard (pure ()) largestFrame

-- | Bytes of one, besides its header.
largestFrame :: Int
largestFrame = 2 ^ (40 :: Int)

-- | The same of a stranger, who is not to be given much memory.
nextShort :: Wire -> IO (Maybe Frame)
nextShort = nextHeard (pure ()) 4096

-- | The same with so many bytes besides its header, at most: a longer one is none of ours. The action
-- is run whenever something of the frame has come. A large one takes its time, and no beat passes it.
nextHeard :: IO () -> Int -> Wire -> IO (Maybe Frame)
nextHeard heard most w = either gone id <$> try read'
  where
    gone :: IOException -> Maybe Frame
    gone _ = Nothing
    read' = do
      header <- readUpTo heard (wireIn w) headerBytes
      if Bytes.length header < headerBytes then pure Nothing else bodyOf (runGet fields (Lazy.fromStrict header))
    fields = (,,,) <$> getWord8 <*> getWord32be <*> getWord64be <*> getWord64be
    bodyOf (kind, call, index, size)
      | fromIntegral kind > fromEnum (maxBound :: Kind) || size > fromIntegral most = pure Nothing
      | otherwise = do
        body <- readUpTo heard (wireIn w) (fromIntegral size)
        pure $
          if Bytes.length body < fromIntegral size
            then Nothing
            else Just (Frame (toEnum (fromIntegral kind)) (fromIntegral call) (fromIntegral index) body)

-- | So many bytes, or those before the end.
readUpTo :: IO () -> Handle -> Int -> IO Bytes.ByteString
readUpTo heard handle size = Internal.createAndTrim size (fill 0)
  where
    fill got to
      | got == size = pure got
      | otherwise = do
        n <- hGetBufSome handle (to `plusPtr` got) (size - got)
        if n == 0 then pure got else heard >> fill (got + n) to

-- | Both sides see the wire's end.
hangUp :: Wire -> IO ()
hangUp = wireEnd

-- | The same; and its descriptors are free. Only the last thread that knows the wire may do it: another's
-- 'hangUp' would meet what has the number then.
closeWire :: Wire -> IO ()
closeWire w = hangUp w >> quietly (wireIn w) >> quietly (wireOut w)
  where
    quietly handle = void (try (hClose handle) :: IO (Either IOException ()))
