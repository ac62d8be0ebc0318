{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | The least that a worker needs, for the stress programs: a fork, a region and
-- a pipe of addresses. The library's own engine is not used on purpose.
module Workers
  ( Worker,
    start,
    prologue,
    next,
    finish,
    kill,
    results,
    Copied,
    Landing,
    copied,
  )
where

import Control.Exception (SomeException, bracket, evaluate, throwIO, try)
import Control.Monad (forM_, unless, when)
import Data.Word (Word64, Word8)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal (alloca, allocaBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, poke)
import Maru.Native.Region
import Maru.Native.Rts (forkWorker, prepareChild)
import System.Exit (ExitCode (..))
import System.IO (hPutStrLn, stderr)
import System.Posix.IO (closeFd, createPipe, fdReadBuf, fdWriteBuf)
import System.Posix.Process (exitImmediately, getProcessStatus)
import System.Posix.Signals (sigKILL, signalProcess)
import System.Posix.Types (Fd, ProcessID)

-- | A process that adds values to a region, and the end of the pipe from which
-- their addresses come.
data Worker = Worker !ProcessID !Fd !Region

-- | Forks a worker that adds these values in turn.
start :: Int -> Bool -> [a] -> IO Worker
start mebibytes sharing values = do
  region <- newRegion mebibytes
  (from, to) <- createPipe
  (pid, _) <- forkWorker nullPtr (-1) . leave $ do
    prologue
    closeFd from
    forM_ values $ \x -> do
      added <- regionAdd region sharing x
      case added of
        Added address -> alloca $ \p -> poke p address >> writeAll to (castPtr p) 8
        other -> fail ("regionAdd: " <> show other)
  closeFd to
  pure (Worker pid from region)

-- | First thing in a worker.
prologue :: IO ()
prologue = prepareChild

-- | Ends the process with a status that says whether the action went well,
-- without the run-time system's exit.
leave :: IO () -> IO ()
leave act = do
  r <- try act
  case r of
    Right () -> exitImmediately ExitSuccess
    Left (e :: SomeException) -> hPutStrLn stderr ("worker: " <> show e) >> exitImmediately (ExitFailure 3)

-- | The next value; 'Nothing': the worker has closed the pipe.
next :: Worker -> IO (Maybe a)
next (Worker _ from _) = alloca $ \p -> do
  n <- readAll from (castPtr p) 8
  case n of
    8 -> Just <$> (peek p >>= \address -> regionGet (address :: Word64))
    0 -> pure Nothing
    _ -> pure Nothing -- killed in the middle of a write

-- | Waits for the worker's death, then makes its region ordinary memory.
finish :: Worker -> IO ()
finish (Worker pid from region) = do
  _ <- getProcessStatus True False pid
  closeFd from
  regionRelease region

kill :: Worker -> IO ()
kill (Worker pid _ _) = signalProcess sigKILL pid

-- | All that the worker still sends; then it is finished.
results :: Worker -> IO [a]
results w = go
  where
    go = do
      r <- next w
      case r of
        Nothing -> [] <$ finish w
        Just x -> (x :) <$> go

-- | A value that went through 'pack', a pipe and 'unpack'.
type Copied a = Either String a

-- | 'unpack', or a part of it.
type Landing = forall a. Ptr Word8 -> Int -> IO (Maybe a)

copied :: Landing -> Bool -> a -> IO (Copied a)
copied land sharing value = bracket createPipe (closeFd . fst) $ \(from, to) -> do
  (pid, _) <- forkWorker nullPtr (-1) . leave $ do
    prologue
    packed <- pack sharing value
    case packed of
      Unpackable what -> fail ("pack: " <> what)
      Packed bytes n -> alloca $ \size -> do
        poke size (fromIntegral n :: Word64)
        writeAll to (castPtr size) 8
        withForeignPtr bytes $ \p -> writeAll to p n
  closeFd to
  size <- alloca $ \p -> do
    got <- readAll from (castPtr p) 8
    when (got /= 8) (throwIO (userError "the worker sent nothing"))
    fromIntegral <$> peek (p :: Ptr Word64)
  r <- allocaBytes size $ \p -> do
    got <- readAll from p size
    if got == size then land p size else pure Nothing
  _ <- getProcessStatus True False pid
  case r of
    Nothing -> pure (Left "what arrived is no packed value")
    Just x -> Right <$> evaluate x

writeAll :: Fd -> Ptr Word8 -> Int -> IO ()
writeAll to p n = unless (n == 0) $ do
  k <- fromIntegral <$> fdWriteBuf to p (fromIntegral n)
  writeAll to (p `plusPtr` k) (n - k)

-- | How many bytes came before the end.
readAll :: Fd -> Ptr Word8 -> Int -> IO Int
readAll from = go 0
  where
    go got _ 0 = pure got
    go got p n = do
      k <- fromIntegral <$> fdReadBuf from p (fromIntegral n)
      if k == 0 then pure got else go (got + k) (p `plusPtr` k) (n - k)
