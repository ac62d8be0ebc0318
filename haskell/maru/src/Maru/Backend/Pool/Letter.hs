-- | What a call on a pool sends to its workers: shared pages that the caller fills before
-- each call and that no process changes until the call is over. /Internal/.
--
-- Words: the call's number, the items of a chunk, then where each block lies and how long it
-- is: the function's first, one of items for each chunk.
module Maru.Backend.Pool.Letter
  ( Box,
    newBox,
    freeBox,
    Letter,
    letter,
    post,
    clear,
    opener,
    callNumber,
  )
where

import Control.Monad (forM_, when)
import Data.IORef
import Data.Word (Word64, Word8)
import Foreign (ForeignPtr, Ptr, copyBytes, peekElemOff, plusPtr, pokeElemOff, withForeignPtr)
import Foreign.Ptr (alignPtr, minusPtr)
import Maru.Native.Channel (Chunk (..))
import Maru.Native.Letter (landLetter, packLetter)
import Maru.Native.Log (Log, Reserved (..), freeLog, newLog, removePages, reserve)

-- | A log to which nothing is ever committed: pages that the workers inherit.
data Box = Box !Log !(Ptr Word64)

-- | Bytes. A letter that is larger is not sent.
boxBytes :: Num n => n
boxBytes = 64 * 1024 * 1024

-- | Throws 'Maru.Failure.Unavailable'.
newBox :: IO Box
newBox = do
  (pages, _) <- newLog boxBytes
  room <- reserve pages 0
  case room of
    Reserved p -> pure (Box pages p)
    LogFull -> ioError (userError "maru: a log without room for nothing")

-- | Once no worker reads it.
freeBox :: Box -> IO ()
freeBox (Box pages _) = freeLog pages

-- | Not yet in a box.
data Letter = Letter !Int ![(ForeignPtr Word8, Int)]

-- | @letter n f xs@: @f@ and the items, as they are, in chunks of @n@; or what in them cannot
-- be sent. Evaluates the list's spine and nothing else.
letter :: Int -> f -> [a] -> IO (Either String Letter)
letter n f xs = do
  function <- packLetter f
  case function of
    Left why -> pure (Left why)
    Right block -> blocks [block] xs
  where
    blocks done [] = pure (Right (Letter n (reverse done)))
    blocks done ys = do
      let (now, later) = splitAt n ys
      packed <- length now `seq` packLetter now
      either (pure . Left) (\block -> blocks (block : done) later) packed

-- | @post box call letter@: how many bytes it takes there, or 'Nothing': there is no room.
post :: Box -> Int -> Letter -> IO (Maybe Int)
post (Box pages p) call (Letter n packed) = do
  room <- reserve pages end
  case room of
    LogFull -> pure Nothing
    Reserved _ -> do
      pokeElemOff p 0 (fromIntegral call)
      pokeElemOff p 1 (fromIntegral n)
      forM_ (zip3 [0 ..] places packed) $ \(k, at, (bytes, size)) -> do
        pokeElemOff p (2 + 2 * k) (fromIntegral at)
        pokeElemOff p (3 + 2 * k) (fromIntegral size)
        withForeignPtr bytes $ \from -> copyBytes (p `plusPtr` at) from size
      pure (Just end)
  where
    places = scanl (\at (_, size) -> (at + size + 15) `quot` 16 * 16) (8 * (2 + 2 * length packed)) packed
    end = last' places
    last' = foldl (\_ at -> at) 0

-- | When the call is over and its letter took so many bytes: the pages of a large one go
-- back to the system.
clear :: Box -> Int -> IO ()
clear (Box _ p) bytes = when (bytes > 1048576) (removePages from (bytes - (from `minusPtr` p)))
  where
    from = alignPtr p 4096

-- | The number of the last call that was posted; its pages may have gone back since (0). In
-- workers, at any time: one word, of which only a change is looked at.
callNumber :: Box -> IO Word64
callNumber (Box _ p) = peekElemOff p 0

-- | In a worker: reads what was sent with a chunk. The types must be those that were sent.
opener :: Box -> IO (Chunk -> IO (Maybe (f, [a])))
opener (Box _ p) = do
  known <- newIORef Nothing
  pure $ \(Chunk first count) -> do
    call <- peekElemOff p 0
    n <- fromIntegral <$> peekElemOff p 1
    before <- readIORef known
    function <- case before of
      Just (number, f) | number == call -> pure (Just f)
      _ -> block 0
    items <- if n > 0 && first >= 0 && first `rem` n == 0 then block (1 + first `quot` n) else pure Nothing
    writeIORef known ((,) call <$> function)
    pure $ case (function, items) of
      (Just f, Just xs) | length xs == count -> Just (f, xs)
      _ -> Nothing
  where
    block k = do
      at <- fromIntegral <$> peekElemOff p (2 + 2 * k)
      size <- fromIntegral <$> peekElemOff p (3 + 2 * k)
      if at >= 0 && size >= 0 && at + size <= boxBytes then landLetter (p `plusPtr` at) size else pure Nothing
