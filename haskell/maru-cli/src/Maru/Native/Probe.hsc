-- | Questions to this machine that only doing the thing can answer.
module Maru.Native.Probe
  ( Answer,
    probeMemfd,
    probeFutex,
    probePidfd,
    probeCollapse,
    AccessWay (..),
    probeAccess,
    scratchDescriptor,
    windowSize,
    ignoreAgain,
    keepOwnDescriptors,
    dieOf,
    Topology (..),
    probeTopology,
    waitPolicies,
    parseWait,
    probePolicy,
    probeWordPolicy,
    handover,
    overlayLocks,
    probeOverlay,
    setOverlayDeadline,
    setOverlayRange,
    setOverlayPatience,
  )
where

import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), errnoToIOError)
import Foreign.C.String (CString, peekCString, withCString)
import Foreign.C.Types (CInt (..), CUInt (..))
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, peekByteOff)
import Maru.Cli.Exit (reason)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Types (Fd (..))

#include <maru/wait.h>
#include <probe.h>

-- | 'Left': why not, as 'reason' says it.
type Answer a = Either String a

foreign import ccall unsafe "maru_probe_memfd" c_memfd :: IO CInt

foreign import ccall unsafe "maru_probe_futex" c_futex :: IO CInt

foreign import ccall unsafe "maru_probe_pidfd" c_pidfd :: IO CInt

foreign import ccall safe "maru_probe_collapse" c_collapse :: IO CInt

foreign import ccall unsafe "maru_probe_access" c_access :: CInt -> IO CInt

foreign import ccall unsafe "maru_probe_scratch" c_scratch :: CString -> IO CInt

foreign import ccall unsafe "maru_probe_window" c_window :: CInt -> Ptr CInt -> Ptr CInt -> IO CInt

-- | Columns and lines of the terminal that a descriptor leads to; 'Nothing' where it does not know.
windowSize :: Fd -> IO (Maybe (Int, Int))
windowSize (Fd fd) = alloca $ \columns -> alloca $ \rows -> do
  status <- c_window fd columns rows
  size <- (,) <$> peek columns <*> peek rows
  pure $ case size of
    (width, height) | status == 0 && width > 0 && height > 0 -> Just (fromIntegral width, fromIntegral height)
    _ -> Nothing

-- | Signals that this process was started with as ignored are ignored again: for right before
-- another program is executed.
foreign import ccall unsafe "maru_probe_ignore_again" ignoreAgain :: IO ()

-- | What the run-time system has opened is not for programs that this one executes: for the
-- first moment.
foreign import ccall unsafe "maru_probe_keep_own_descriptors" keepOwnDescriptors :: IO ()

-- | Dies of this signal, without a core. It comes back where it cannot: as a container's first
-- process.
foreign import ccall unsafe "maru_probe_die_of" dieOf :: CInt -> IO ()

foreign import ccall safe "maru_probe_topology" c_topology :: Ptr () -> IO CInt

foreign import ccall safe "maru_probe_handover"
  c_handover :: CInt -> Int64 -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall unsafe "maru_wait_parse" c_parseWait :: CString -> Ptr Int64 -> IO CInt

foreign import ccall unsafe "maru_wait_kind_name" c_kindName :: CUInt -> IO CString

-- Starts a thread: safe.
foreign import ccall safe "maru_probe_policy" c_policy :: CInt -> Ptr CString -> IO CInt

foreign import ccall safe "maru_probe_word_policy" c_wordPolicy :: CInt -> Ptr CString -> IO CInt

foreign import ccall unsafe "maru_probe_overlay_knob" c_overlayKnob :: CString -> CInt -> Word64 -> IO CInt

foreign import ccall unsafe "maru_probe_overlay" c_overlay :: CUInt -> IO CString

foreign import ccall unsafe "maru_probe_overlay_key" c_overlayKey :: CUInt -> CUInt -> IO CString

foreign import ccall unsafe "maru_probe_overlay_options" c_overlayOptions :: CString -> IO CInt

answer :: CInt -> Answer Int
answer status
  | status >= 0 = Right (fromIntegral status)
  | otherwise = Left (reason (errnoToIOError "" (Errno (negate status)) Nothing Nothing))

-- | Shared memory without a name, sealed against resizing.
probeMemfd :: IO (Answer ())
probeMemfd = (() <$) . answer <$> c_memfd

probeFutex :: IO (Answer ())
probeFutex = (() <$) . answer <$> c_futex

probePidfd :: IO (Answer ())
probePidfd = (() <$) . answer <$> c_pidfd

-- | Private memory collapses into huge pages on demand.
probeCollapse :: IO (Answer ())
probeCollapse = (() <$) . answer <$> c_collapse

-- | How first accesses to memory are seen; as in @native/dsm/access.h@.
data AccessWay = ByUserfaultfd | ByMprotect
  deriving (Eq, Show, Enum)

probeAccess :: AccessWay -> IO (Answer ())
probeAccess way = (() <$) . answer <$> c_access (fromIntegral (fromEnum way))

-- | Memory that reads and writes like a file, closed at exec; for the caller
-- to close.
scratchDescriptor :: String -> IO (Answer Fd)
scratchDescriptor name = fmap fromIntegral . answer <$> withCString name c_scratch

-- | As the native rooms see this machine; see @maru/topology.h@.
data Topology = Topology
  { topologyCpus :: !Int,
    topologyAllowed :: !Int,
    topologyCores :: !Int,
    topologyNodes :: !Int,
    topologySockets :: !Int,
    -- | CPU time per second granted by the cgroup, in thousandths; 0: no limit.
    topologyQuota :: !Int,
    -- | Bytes.
    topologyMemory :: !Word64,
    topologyWorkers :: !Int,
    topologyDegraded :: !Bool,
    -- | From @MARU_TOPOLOGY@, not from this machine.
    topologyDescribed :: !Bool
  }

probeTopology :: IO (Answer Topology)
probeTopology =
  allocaBytes #{size struct maru_probe_topology} $ \p -> do
    status <- c_topology p
    case answer status of
      Left why -> pure (Left why)
      Right _ ->
        fmap Right $
          Topology
            <$> (int <$> #{peek struct maru_probe_topology, cpus} p)
            <*> (int <$> #{peek struct maru_probe_topology, allowed} p)
            <*> (int <$> #{peek struct maru_probe_topology, cores} p)
            <*> (int <$> #{peek struct maru_probe_topology, nodes} p)
            <*> (int <$> #{peek struct maru_probe_topology, sockets} p)
            <*> (int <$> #{peek struct maru_probe_topology, quota_millicpus} p)
            <*> #{peek struct maru_probe_topology, memory_limit} p
            <*> (int <$> #{peek struct maru_probe_topology, workers} p)
            <*> (flag <$> #{peek struct maru_probe_topology, degraded} p)
            <*> (flag <$> #{peek struct maru_probe_topology, described} p)
  where
    int = fromIntegral :: Word64 -> Int
    flag = (/= 0) :: Word64 -> Bool

-- | The number of the policy in words such as @spin-block:spin=40us@, if they are such.
parseWait :: String -> Maybe Int
parseWait text = unsafePerformIO . withCString text $ \t -> alloca $ \spin -> do
  kind <- c_parseWait t (spin :: Ptr Int64)
  pure (if kind < 0 then Nothing else Just (fromIntegral kind))

-- | Every waiting policy's name; the position in the list is its number.
waitPolicies :: IO [String]
waitPolicies = mapM policyName [0 .. #{const MARU_WAIT_KINDS} - 1]

policyName :: CUInt -> IO String
policyName kind = do
  name <- c_kindName kind
  if name == nullPtr then pure (show kind) else peekCString name

-- | Whether the policy of that number runs as asked on a channel here:
-- 'Nothing', or what runs instead and why.
probePolicy :: Int -> IO (Answer (Maybe (String, String)))
probePolicy = replacement c_policy

-- | The same at a word that is no channel, as maru's own parts wait.
probeWordPolicy :: Int -> IO (Answer (Maybe (String, String)))
probeWordPolicy = replacement c_wordPolicy

replacement :: (CInt -> Ptr CString -> IO CInt) -> Int -> IO (Answer (Maybe (String, String)))
replacement probe kind = alloca $ \why -> do
  status <- probe (fromIntegral kind) why
  case answer status of
    Left refusal -> pure (Left refusal)
    Right runs
      | runs == kind -> pure (Right Nothing)
      | otherwise -> fmap (Right . Just) ((,) <$> policyName (fromIntegral runs) <*> (peek why >>= peekCString))

-- | Nanoseconds from the change of a word to the return of a wait for it, under the policy of that
-- number. The change comes so many nanoseconds after the wait began. It takes that many rounds at
-- most, and half a second at most.
handover :: Int -> Int -> Int -> IO (Answer [Double])
handover kind pause rounds =
  allocaArray rounds $ \latencies -> do
    done <- c_handover (fromIntegral kind) (fromIntegral pause) (fromIntegral rounds) latencies
    case answer done of
      Left why -> pure (Left why)
      Right count -> Right . map fromIntegral <$> peekArray count latencies

-- | The locks that can be laid over the mutexes of an unmodified program, each with its keys.
overlayLocks :: IO [(String, [String])]
overlayLocks = do
  names <- stringsOf c_overlay
  zip names <$> mapM (stringsOf . c_overlayKey) [0 .. fromIntegral (length names) - 1]

-- | What is at 0, 1, ..., up to NULL.
stringsOf :: (CUInt -> IO CString) -> IO [String]
stringsOf at = from 0
  where
    from n = do
      text <- at n
      if text == nullPtr then pure [] else (:) <$> peekCString text <*> from (n + 1)

-- | 'Just': from where on @NAME[:KEY=VALUE,...]@ is wrong.
probeOverlay :: String -> IO (Maybe Int)
probeOverlay text = do
  wrong <- withCString text c_overlayOptions
  pure (if wrong < 0 then Nothing else Just (fromIntegral wrong))

-- | On the board at a path, in nanoseconds; 0: none.
setOverlayDeadline :: FilePath -> Word64 -> IO (Answer ())
setOverlayDeadline = setOverlayKnob #{const MARU_PROBE_DEADLINE}

-- | A power of two.
setOverlayRange :: FilePath -> Word64 -> IO (Answer ())
setOverlayRange = setOverlayKnob #{const MARU_PROBE_RANGE}

-- | In nanoseconds.
setOverlayPatience :: FilePath -> Word64 -> IO (Answer ())
setOverlayPatience = setOverlayKnob #{const MARU_PROBE_PATIENCE}

setOverlayKnob :: CInt -> FilePath -> Word64 -> IO (Answer ())
setOverlayKnob knob path value = (() <$) . answer <$> withCString path (\p -> c_overlayKnob p knob value)
