-- | The section @lockprof@ of a board (@maru\/lockprof.h@), copied. Whatever is on a board may be
-- wrong: each number is read once and checked before it is used.
module Maru.Native.LockProfile
  ( readLockProfile,
    lockProfileBytes,
  )
where

import Control.Exception (finally)
import Control.Monad (forM)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import Data.Bits (shiftR, (.&.))
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Int (Int32)
import Data.Maybe (catMaybes)
import Data.Word (Word32, Word64)
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (Storable, peek, peekByteOff)
import Maru.View.Plain (plain)
import Maru.Control.Histogram (fromClasses)
import Maru.Control.LockProfile.Types

#include <maru/board.h>
#include <maru/lockprof.h>

-- | What the section takes on a board.
lockProfileBytes :: Int
lockProfileBytes = #{size struct maru_lockprof} + 4096

foreign import ccall safe "maru_board_open"
  boardOpen :: Ptr () -> CString -> IO CInt

foreign import ccall safe "maru_board_close"
  boardClose :: Ptr () -> IO ()

foreign import ccall unsafe "maru_board_find"
  boardFind :: Ptr () -> CString -> CUInt -> CSize -> Ptr (Ptr ()) -> IO CInt

-- | 'Nothing': the board cannot be read or has none.
readLockProfile :: FilePath -> IO (Maybe LockProfile)
readLockProfile path =
  allocaBytes #{size struct maru_board} $ \board -> do
    opened <- withCString path (boardOpen board)
    if opened < 0 then pure Nothing else found board `finally` boardClose board
  where
    found board = alloca $ \section -> do
      status <- withCString #{const_str MARU_LOCKPROF_SECTION} $ \name ->
        boardFind board name #{const MARU_LOCKPROF_VERSION} #{size struct maru_lockprof} section
      if status < 0 then pure Nothing else peek section >>= fmap Just . copy

copy :: Ptr () -> IO LockProfile
copy p = do
  processes <- #{peek struct maru_lockprof, processes} p
  modules <- #{peek struct maru_lockprof, modules} p
  threads <- #{peek struct maru_lockprof, threads} p
  rows <- #{peek struct maru_lockprof, rows} p
  paces <- #{peek struct maru_lockprof, paces} p
  fairnesses <- #{peek struct maru_lockprof, fairnesses} p
  octaves <- #{peek struct maru_lockprof, octaves} p
  lost <- #{peek struct maru_lockprof, lost} p
  lostProcesses <- #{peek struct maru_lockprof, lost_processes} p
  skips <- #{peek struct maru_lockprof, skips} p :: IO Word32
  let full =
        [ (name, used - size)
          | (name, used, size) <-
              [ ("modules", modules, #{const MARU_LOCKPROF_MODULES}),
                ("threads", threads, #{const MARU_LOCKPROF_THREADS}),
                ("pairs of a mutex and a site", rows, #{const MARU_LOCKPROF_ROWS}),
                ("paces", paces, #{const MARU_LOCKPROF_PACES}),
                ("mutexes with a fairness", fairnesses, #{const MARU_LOCKPROF_FAIRNESSES}),
                ("parts of histograms", octaves, #{const MARU_LOCKPROF_OCTAVES})
              ],
            used >= size
        ] :: [(String, Word32)]
  ps <- pool p #{offset struct maru_lockprof, process} #{size struct maru_lockprof_process} processes #{const MARU_LOCKPROF_PROCESSES} process
  ms <- pool p #{offset struct maru_lockprof, module} #{size struct maru_lockprof_module} modules #{const MARU_LOCKPROF_MODULES} module'
  mutexes <- pool p #{offset struct maru_lockprof, mutex} #{size struct maru_lockprof_mutex} #{const MARU_LOCKPROF_MUTEXES} #{const MARU_LOCKPROF_MUTEXES} mutex
  fs <- pool p #{offset struct maru_lockprof, fairness} #{size struct maru_lockprof_fairness} fairnesses #{const MARU_LOCKPROF_FAIRNESSES} fairness
  cs <- pool p #{offset struct maru_lockprof, pace} #{size struct maru_lockprof_pace} paces #{const MARU_LOCKPROF_PACES} pace
  ss <- pool p #{offset struct maru_lockprof, thread} #{size struct maru_lockprof_thread} threads #{const MARU_LOCKPROF_THREADS} (slot p)
  pure
    LockProfile
      { profileProcesses = IntMap.mapKeys (+ 1) ps,
        profileModules = IntMap.mapKeys (+ 1) ms,
        profileMutexes = mutexes,
        profileFairness = fs,
        profilePaces = IntMap.elems cs,
        profileSlots = IntMap.elems ss,
        profileLost = lost,
        profileLostProcesses = lostProcesses,
        profileFull = full,
        profileNoneSkipped = skips == #{const MARU_LOCKPROF_SKIPS_NONE}
      }

-- | Those of a pool that say something, by number.
pool :: Ptr () -> Int -> Int -> Word32 -> Word32 -> (Ptr () -> IO (Maybe a)) -> IO (IntMap a)
pool base offset size used limit read' = do
  found <- forM [0 .. fromIntegral (min used limit) - 1] $ \n -> fmap ((,) n) <$> read' (base `plusPtr` (offset + n * size))
  pure (IntMap.fromAscList (catMaybes found))

text :: Ptr () -> Int -> IO String
text p size = plain . Chars.unpack . Chars.takeWhile (/= '\0') <$> ByteString.packCStringLen (castPtr p, size)

process :: Ptr () -> IO (Maybe Process)
process p = do
  ready <- #{peek struct maru_lockprof_process, ready} p :: IO Word32
  if ready == 0
    then pure Nothing
    else do
      pid <- #{peek struct maru_lockprof_process, pid} p :: IO Int32
      name <- text (p `plusPtr` #{offset struct maru_lockprof_process, name}) 24
      sockets <- #{peek struct maru_lockprof_process, sockets} p :: IO Word32
      cpu <- #{peek struct maru_lockprof_process, cpu_clock} p :: IO Word32
      bare <- #{peek struct maru_lockprof_process, cost_plain_ps} p :: IO Word64
      profiled <- #{peek struct maru_lockprof_process, cost_profiled_ps} p :: IO Word64
      pure (Just (Process (fromIntegral pid) name (fromIntegral sockets) (cpu /= 0) (ns bare, ns profiled)))
  where
    ns ps = fromIntegral ps / 1000

module' :: Ptr () -> IO (Maybe FilePath)
module' p = do
  ready <- #{peek struct maru_lockprof_module, ready} p :: IO Word32
  if ready == 0 then pure Nothing else Just <$> text (p `plusPtr` #{offset struct maru_lockprof_module, path}) 252

place :: Word64 -> (Int, Word64)
place w = (fromIntegral (w `shiftR` 48), w .&. 0xffffffffffff)

mutex :: Ptr () -> IO (Maybe Mutex)
mutex p = do
  key <- #{peek struct maru_lockprof_mutex, key} p
  if key == 0
    then pure Nothing
    else do
      at <- #{peek struct maru_lockprof_mutex, place} p
      kind <- #{peek struct maru_lockprof_mutex, kind} p :: IO Word32
      let (owner, address) = place key
      pure (Just (Mutex owner address (place at) (fromIntegral kind)))

fairness :: Ptr () -> IO (Maybe Fairness)
fairness p = do
  of' <- #{peek struct maru_lockprof_fairness, mutex} p :: IO Word32
  scales <- forM [0 .. #{const MARU_LOCKPROF_SCALES} - 1] $ \n ->
    scale (p `plusPtr` (#{offset struct maru_lockprof_fairness, scales} + n * #{size struct maru_lockprof_scale}))
  first <- #{peek struct maru_lockprof_fairness, first} p
  step <- #{peek struct maru_lockprof_fairness, step} p
  series <- forM [0 .. #{const MARU_LOCKPROF_SERIES} - 1] $ \n -> do
    let at = p `plusPtr` (#{offset struct maru_lockprof_fairness, series} + n * #{size struct maru_lockprof_point})
    count <- #{peek struct maru_lockprof_point, acquisitions} at
    windows <- #{peek struct maru_lockprof_point, windows} at
    jain <- #{peek struct maru_lockprof_point, jain_ppm} at
    pure (count, windows, ppm jain)
  pure (Just (Fairness (fromIntegral of') scales first step (if step == 0 then [] else series)))

ppm :: Word64 -> Double
ppm w = fromIntegral w / 1e6

scale :: Ptr () -> IO Scale
scale p = do
  windows <- #{peek struct maru_lockprof_scale, windows} p
  jain <- #{peek struct maru_lockprof_scale, jain_ppm} p
  least <- #{peek struct maru_lockprof_scale, least_ppm} p
  late <- #{peek struct maru_lockprof_scale, late} p
  open <- forM [0 .. #{const MARU_LOCKPROF_RING} - 1] $ \n -> do
    let at = p `plusPtr` (#{offset struct maru_lockprof_scale, ring} + n * #{size struct maru_lockprof_window})
    Window <$> #{peek struct maru_lockprof_window, number} at <*> #{peek struct maru_lockprof_window, threads} at
      <*> #{peek struct maru_lockprof_window, sum} at
      <*> #{peek struct maru_lockprof_window, squares} at
  pure (Scale windows (ppm jain) (ppm least) late [w {windowNumber = windowNumber w - 1} | w <- open, windowNumber w /= 0])

pace :: Ptr () -> IO (Maybe Pace)
pace p = do
  of' <- #{peek struct maru_lockprof_pace, mutex} p :: IO Word32
  open <- forM [0 .. #{const MARU_LOCKPROF_SCALES} - 1] $ \n -> do
    window <- peekByteOff p (#{offset struct maru_lockprof_pace, window} + n * 8) :: IO Word64
    -- Before what it is taken from, which only grows.
    handedIn <- peekByteOff p (#{offset struct maru_lockprof_pace, handed_in} + n * 8) :: IO Word64
    acquisitions <- #{peek struct maru_lockprof_pace, acquisitions} p
    pure (window, acquisitions - min acquisitions handedIn)
  pure (if any ((== 0) . fst) open then Nothing else Just (Pace (fromIntegral of') [(w - 1, c) | (w, c) <- open]))

slot :: Ptr () -> Ptr () -> IO (Maybe Slot)
slot base p = do
  state <- #{peek struct maru_lockprof_thread, state} p :: IO Word32
  if state == 0
    then pure Nothing
    else do
      owner <- #{peek struct maru_lockprof_thread, process} p :: IO Word32
      unmatched <- #{peek struct maru_lockprof_thread, unmatched} p
      others <- row base True (p `plusPtr` #{offset struct maru_lockprof_thread, others})
      larger <- #{peek struct maru_lockprof_thread, larger} p :: IO Word32
      let (table, size)
            | larger == 0 || larger > #{const MARU_LOCKPROF_LARGERS} = (p `plusPtr` #{offset struct maru_lockprof_thread, table}, #{const MARU_LOCKPROF_TABLE})
            | otherwise = (base `plusPtr` (#{offset struct maru_lockprof, larger} + (fromIntegral larger - 1) * 4 * #{const MARU_LOCKPROF_LARGER}), #{const MARU_LOCKPROF_LARGER})
      numbers <- forM [0 .. size - 1] $ \n ->
        (.&. #{const MARU_LOCKPROF_TABLE_ROW}) <$> (peekByteOff table (n * 4) :: IO Word32)
      rows <- forM [n | n <- numbers, n > 0, n <= #{const MARU_LOCKPROF_ROWS}] $ \n ->
        row base False (base `plusPtr` (#{offset struct maru_lockprof, row} + (fromIntegral n - 1) * #{size struct maru_lockprof_row}))
      pure (Just (Slot (fromIntegral owner) unmatched (filter used [others] ++ rows)))
  where
    used r = rowAcquisitions r + rowRefused r + rowTimedOut r > 0

row :: Ptr () -> Bool -> Ptr () -> IO Row
row base others p = do
  address <- #{peek struct maru_lockprof_row, address} p
  site <- #{peek struct maru_lockprof_row, site} p
  of' <- #{peek struct maru_lockprof_row, mutex} p :: IO Word32
  let whose = if others then Nothing else Just (address, place site)
      at = if of' < #{const MARU_LOCKPROF_MUTEXES} && not others then Just (fromIntegral of') else Nothing
  Row whose at
    <$> #{peek struct maru_lockprof_row, acquisitions} p
    <*> #{peek struct maru_lockprof_row, contended} p
    <*> #{peek struct maru_lockprof_row, reacquired} p
    <*> #{peek struct maru_lockprof_row, reentered} p
    <*> #{peek struct maru_lockprof_row, refused} p
    <*> #{peek struct maru_lockprof_row, timed_out} p
    <*> #{peek struct maru_lockprof_row, near} p
    <*> #{peek struct maru_lockprof_row, far} p
    <*> #{peek struct maru_lockprof_row, longest_bypass} p
    <*> times 0
    <*> times 1
  where
    times n = timesOf base (p `plusPtr` (#{offset struct maru_lockprof_row, times} + n * #{size struct maru_lockprof_times}))

timesOf :: Ptr () -> Ptr () -> IO Times
timesOf base p = do
  sum' <- #{peek struct maru_lockprof_times, sum_ns} p
  longest <- #{peek struct maru_lockprof_times, longest_ns} p
  lost <- #{peek struct maru_lockprof_times, octaves_lost} p
  samples <- #{peek struct maru_lockprof_times, samples} p
  numbers <- forM [0 .. #{const MARU_HISTOGRAM_OCTAVES} - 1] $ \n ->
    (,) n <$> (peekByteOff p (#{offset struct maru_lockprof_times, octaves} + n * 4) :: IO Word32)
  counts <- forM [there | there@(_, n) <- numbers, n > 0, n <= #{const MARU_LOCKPROF_OCTAVES}] $ \(octave, n) -> forM [0 .. 63] $ \i ->
    (,) (octave * 64 + i) <$> word (base `plusPtr` (#{offset struct maru_lockprof, octave} + ((fromIntegral n - 1) * 64 + i) * 8))
  let h = fromClasses longest (concat counts)
  pure (Times h sum' lost samples)

word :: Storable a => Ptr () -> IO a
word p = peekByteOff p 0
