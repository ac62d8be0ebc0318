-- | The processes that another launcher started, and agents on other hosts
-- (@native/dsm/ranks.h@). /Internal/.
module Maru.Native.Ranks
  ( -- * Launchers
    Launcher (..),
    findLauncher,
    Ranks (..),
    meetRanks,
    acceptRank,
    roomFor,
    leaveRanks,
    abortRanks,
    shareOf,

    -- * Agents
    spawnOn,
    endWithin,
    shutDown,

    -- * Proofs
    proof,
    program,
    layout,
    freshBytes,
  )
where

import Control.Exception (bracket, throwIO)
import Control.Monad (void, (>=>))
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Unsafe as Unsafe
import Foreign hiding (void)
import Foreign.C
import GHC.IO.Exception (ioe_description)
import Maru.Failure (Unavailable (..))
import System.IO (IOMode (..), withBinaryFile)
import System.Posix.Resource
import System.Posix.Types (CSsize (..))

-- | What started this process.
data Launcher
  = NoLauncher
  | Launched
  | -- | One that offers no way to meet.
    Mute
  deriving (Eq, Show)

findLauncher :: IO Launcher
findLauncher = of' <$> c_launcher
  where
    of' 0 = NoLauncher
    of' 3 = Mute
    of' _ = Launched

-- | All of them. The listener is rank 0's; the other ranks are connected to it.
data Ranks = Ranks
  { ranksCount :: !Int,
    ranksMe :: !Int,
    ranksListener :: !(Maybe CInt),
    ranksFirst :: !(Maybe CInt),
    ranksSecret :: !Bytes.ByteString
  }

-- | Within so many seconds, or why not.
meetRanks :: Int -> IO (Either String Ranks)
meetRanks seconds = allocaBytes 304 $ \p -> do
  rc <- c_meet p (fromIntegral seconds)
  if rc < 0
    then Left <$> peekCString (p `plusPtr` 48)
    else
      Right
        <$> ( Ranks
                <$> word p 0
                <*> word p 4
                <*> descriptor p 8
                <*> descriptor p 12
                <*> Bytes.packCStringLen (p `plusPtr` 16, 32)
            )
  where
    word p at = fromIntegral <$> (peekByteOff p at :: IO Word32)
    descriptor p at = (\fd -> if fd < 0 then Nothing else Just (fromIntegral fd)) <$> (peekByteOff p at :: IO Int32)

-- | 'Left': nobody calls; or why nobody could be taken.
acceptRank :: CInt -> IO (Either (Maybe String) CInt)
acceptRank listener = of' <$> c_accept listener
  where
    of' fd
      | fd >= 0 = Right fd
      | Errno (negate fd) == eAGAIN = Left Nothing
      | otherwise = Left (Just (textOf fd))

-- | Raises the limit of descriptors, as far as it may be, to that many.
roomFor :: Int -> IO ()
roomFor wanted = do
  limits <- getResourceLimit ResourceOpenFiles
  case (softLimit limits, hardLimit limits) of
    (ResourceLimit soft, ResourceLimit hard) | soft < enough -> raise limits (min enough hard)
    (ResourceLimit soft, ResourceLimitInfinity) | soft < enough -> raise limits enough
    _ -> pure ()
  where
    enough = fromIntegral wanted
    raise limits n = setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit n}

-- | Takes seconds where the launcher does not answer.
leaveRanks :: IO ()
leaveRanks = void c_leave

-- | Tells the launcher that the job ends with that status, as this process is to do then.
abortRanks :: Int -> IO ()
abortRanks = c_abort . fromIntegral

-- | Of so many workers on this host: see @maru_ranks_share@.
shareOf :: Int -> IO Int
shareOf n = fromIntegral <$> c_share (fromIntegral n)

-- | Starts a command, whose standard input and output are that descriptor: its process, or why
-- not.
spawnOn :: CInt -> [String] -> IO (Either String CInt)
spawnOn end command = bracket (mapM newCString command) (mapM_ free) $ \words' ->
  withArray0 nullPtr words' $ \argv -> do
    pid <- withArrayLen [end, end] (\n given -> c_spawn argv given (fromIntegral n))
    if pid > 0
      then pure (Right pid)
      else pure (Left (textOf pid))

-- | Its exit status, if it ends within so many milliseconds. Else its group is killed. Once.
endWithin :: Int -> CInt -> IO (Maybe Int)
endWithin ms pid = (\s -> if s < 0 then Nothing else Just (fromIntegral s)) <$> c_end pid (fromIntegral ms)

-- | Both directions: threads that wait for it see the end, here and there.
shutDown :: CInt -> IO ()
shutDown fd = void (c_shutdown fd 2)

-- | HMAC-SHA-256 by a secret of 32 bytes.
proof :: Bytes.ByteString -> Bytes.ByteString -> Bytes.ByteString
proof secret bytes = Internal.unsafeCreate 32 $ \to ->
  Unsafe.unsafeUseAsCString (Bytes.take 32 (secret <> Bytes.replicate 32 0)) $ \key ->
    Unsafe.unsafeUseAsCStringLen bytes $ \(from, n) -> c_proof (castPtr key) from (fromIntegral n) to

-- | What this process runs; equal in another one: it is the same program.
program :: IO Bytes.ByteString
program = Internal.create 32 (c_program >=> readable)

-- | The same, and where its code lies in memory.
layout :: IO Bytes.ByteString
layout = Internal.create 32 (c_layout >=> readable)

readable :: CInt -> IO ()
readable rc
  | rc >= 0 = pure ()
  | otherwise = throwIO (Unavailable "this program's file" (textOf rc) "it must be readable to be compared with that of other processes")

textOf :: CInt -> String
textOf rc = ioe_description (errnoToIOError "" (Errno (negate rc)) Nothing Nothing)

-- | So many that nobody can foretell, 256 at most. It needs no descriptor, but where the system has
-- just begun.
freshBytes :: Int -> IO Bytes.ByteString
freshBytes n = do
  bytes <- Internal.createAndTrim n (\to -> max 0 . fromIntegral <$> c_random to (fromIntegral n) nonBlocking)
  if Bytes.length bytes == n then pure bytes else withBinaryFile "/dev/urandom" ReadMode (`Bytes.hGet` n)
  where
    nonBlocking = 1

foreign import ccall unsafe "maru_ranks_launcher" c_launcher :: IO CInt

foreign import ccall safe "maru_ranks_meet" c_meet :: Ptr a -> CInt -> IO CInt

foreign import ccall unsafe "maru_ranks_accept" c_accept :: CInt -> IO CInt

foreign import ccall safe "maru_ranks_leave" c_leave :: IO CInt

foreign import ccall safe "maru_ranks_abort" c_abort :: CInt -> IO ()

foreign import ccall unsafe "maru_ranks_share" c_share :: CUInt -> IO CUInt

foreign import ccall safe "maru_ranks_spawn" c_spawn :: Ptr CString -> Ptr CInt -> CUInt -> IO CInt

foreign import ccall safe "maru_ranks_end" c_end :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "shutdown" c_shutdown :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "maru_ranks_proof" c_proof :: Ptr Word8 -> Ptr a -> CSize -> Ptr Word8 -> IO ()

foreign import ccall unsafe "getrandom" c_random :: Ptr Word8 -> CSize -> CUInt -> IO CSsize

foreign import ccall unsafe "maru_ranks_program" c_program :: Ptr Word8 -> IO CInt

foreign import ccall unsafe "maru_ranks_layout" c_layout :: Ptr Word8 -> IO CInt
