-- | Micro-VMs, as host and as guest (@native/vm/vm.h@). /Internal/.
module Maru.Native.Vm
  ( memoryOf,
    memoryLimit,
    sharedObjects,
    spawnVm,
    moduleFolder,
    beGuest,
  )
where

import Control.Exception (bracket, bracketOnError)
import Control.Monad (when)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Foreign
import Foreign.C
import GHC.IO.Handle.FD (fdToHandle)
import System.IO (hClose)
import System.Posix.IO (closeFd, dup)

-- | A descriptor of memory with these bytes, which other processes of this user can open as
-- @\/proc\/PID\/fd\/N@. The caller closes it.
memoryOf :: Lazy.ByteString -> IO CInt
memoryOf bytes = bracketOnError (positive "memory for a VM's files" (c_memory (fromIntegral (Lazy.length bytes)))) (closeFd . fromIntegral) $ \fd -> do
  copy <- dup (fromIntegral fd)
  bracket (fdToHandle (fromIntegral copy)) hClose (`Builder.hPutBuilder` Builder.lazyByteString bytes)
  pure fd

-- | Bytes that this process may use: its control group's limit, or the machine's memory.
memoryLimit :: IO Int
memoryLimit = fromIntegral . min (fromIntegral (maxBound :: Int)) <$> c_limit

-- | The libraries that this process is linked with, under the names by which they were found.
sharedObjects :: IO [FilePath]
sharedObjects = allocaBytes room $ \p -> do
  n <- positive "the list of this program's libraries" (c_objects p (fromIntegral room))
  map Char8.unpack . filter (not . Bytes.null) . Bytes.split 0 <$> Bytes.packCStringLen (p, fromIntegral n)
  where
    room = 1048576

-- | Starts a command whose descriptors 0, 1 and 2 are these: its process, and the descriptor whose
-- end, by that of this process too, is its own. Or why not.
spawnVm :: CInt -> CInt -> [String] -> IO (Either CInt (CInt, CInt))
spawnVm channel output command = bracket (mapM newCString command) (mapM_ free) $ \words' ->
  withArray0 nullPtr words' $ \argv -> withArray [channel, output, output] $ \given -> alloca $ \lifeline -> do
    pid <- c_spawn argv given lifeline
    if pid < 0 then pure (Left (negate pid)) else Right . (,) pid <$> peek lifeline

-- | Where a guest looks for modules; its file system has no other folder of this name.
moduleFolder :: FilePath
moduleFolder = "maru-modules"

-- | For a guest's first process. Never returns.
beGuest :: IO a
beGuest = c_guest >> beGuest

positive :: String -> IO CInt -> IO CInt
positive what action = do
  r <- action
  r <$ when (r < 0) (ioError (errnoToIOError what (Errno (negate r)) Nothing Nothing))

foreign import ccall unsafe "maru_vm_memory" c_memory :: CSize -> IO CInt

foreign import ccall safe "maru_vm_memory_limit" c_limit :: IO Word64

foreign import ccall unsafe "maru_vm_objects" c_objects :: CString -> CInt -> IO CInt

foreign import ccall safe "maru_vm_spawn" c_spawn :: Ptr CString -> Ptr CInt -> Ptr CInt -> IO CInt

foreign import ccall safe "maru_vm_guest" c_guest :: IO ()
