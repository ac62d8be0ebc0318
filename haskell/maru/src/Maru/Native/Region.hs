{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE ForeignFunctionInterface #-}
{-# LANGUAGE GHCForeignImportPrim #-}
{-# LANGUAGE MagicHash #-}
{-# LANGUAGE TupleSections #-}
{-# LANGUAGE UnboxedTuples #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | Results that cross from a forked worker to its parent as an address.
--
-- The parent makes a 'Region' and forks. The worker puts values into it
-- ('regionAdd') and sends their addresses. The parent turns them into values
-- ('regionGet'), while the worker is still writing others. Once the worker is
-- dead the parent calls 'regionRelease'; the region is then ordinary memory,
-- freed by the garbage collector when the last of its values is.
--
-- Any value without functions and mutable objects crosses, pinned memory
-- (ByteStrings, storable vectors) included. What a value holds as a bare 'Ptr'
-- or address number crosses as that number. Mutable byte arrays cannot be told
-- from immutable ones and cross as what they held.
--
-- A weak pointer or stable name whose key lies in a region behaves as with any
-- compact region: it may die before its key.
--
-- Where the garbage collector does not allow that ('zeroCopy'), 'pack' and
-- 'unpack' do the same by copying the value twice, on any GHC.
module Maru.Native.Region
  ( -- * By address
    Region,
    newRegion,
    Added (..),
    regionAdd,
    regionRoom,
    regionGet,
    regionRelease,
    zeroCopy,

    -- * By copy
    Packed (..),
    pack,
    unpack,
    unpackLoose,
    movePrivate,

    -- * Errors of copying
    isError,
    failed,
  )
where

import Control.Concurrent.MVar (modifyMVar)
import Control.Exception (evaluate, mask_, throwIO, try)
import Control.Monad (join, when)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (IORef, atomicModifyIORef', newIORef, writeIORef)
import Data.Int (Int64)
import Data.Word (Word64, Word8)
import Foreign.C (CInt (..), CString, Errno (..), eAGAIN, eBADMSG, eFBIG, eNOMEM, eNOSPC, errnoToIOError, peekCString)
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, newForeignPtr)
import Foreign.Marshal (alloca)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.StablePtr (StablePtr, freeStablePtr, newStablePtr)
import Foreign.Storable (peek)
import GHC.Exts
  ( Addr#,
    Any,
    Compact#,
    Int (I#),
    Int#,
    Ptr (Ptr),
    RealWorld,
    State#,
    Word (W#),
    Word#,
    addrToAny#,
    compactGetFirstBlock#,
    compactNew#,
    int2Addr#,
    touch#,
    unsafeCoerce#,
  )
import GHC.IO (IO (IO))
import GHC.IO.Exception (IOException (..))
import Maru.Failure (Unavailable (..))
import Maru.Native.Force (bytestringTable, normalise)
import Maru.Native.Own
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)

foreign import ccall unsafe "maru_region_new"
  c_new :: Addr# -> Int64 -> Ptr CInt -> IO Int64

foreign import ccall unsafe "maru_region_room"
  c_room :: Ptr () -> Int64 -> IO Int64

foreign import ccall unsafe "maru_region_release"
  c_release :: Addr# -> Ptr () -> Int64 -> CInt -> IO Int64

foreign import ccall unsafe "maru_packed_kind"
  c_packedKind :: Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "maru_landing_new"
  c_landingNew :: Addr# -> IO Int64

foreign import ccall unsafe "maru_unpack_beside"
  c_unpackBeside :: Ptr () -> Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "maru_unpack_alone"
  c_unpackAlone :: Addr# -> Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "maru_rts_refusal"
  c_refusal :: IO CString

foreign import ccall unsafe "maru_rts_refused"
  c_refused :: Int64 -> IO CString

foreign import ccall unsafe "&free"
  c_free :: FinalizerPtr Word8

foreign import prim "maru_region_addzh"
  add# :: Any -> Addr# -> Word# -> Word# -> Word# -> State# RealWorld -> (# State# RealWorld, Int# #)

foreign import prim "maru_packzh"
  pack# :: Any -> Word# -> Word# -> Addr# -> State# RealWorld -> (# State# RealWorld, Int# #)

foreign import prim "maru_unpack_heapzh"
  unpackHeap# :: Addr# -> Int# -> State# RealWorld -> (# State# RealWorld, Int#, Any #)

foreign import prim "maru_unpack_loosezh"
  unpackLoose# :: Addr# -> Int# -> State# RealWorld -> (# State# RealWorld, Int#, Any #)

-- * Compact regions as such

-- | A compact region and its first block, by which C knows it.
data Anchor = Anchor Compact# Addr#

-- | Not where the collector does not allow what is to be done with it: with
-- @--nonmoving-gc@ its values would be freed under the reader.
newAnchor :: IO Anchor
newAnchor = do
  refusal <- c_refusal
  when (refusal /= nullPtr) $ do
    why <- peekCString refusal
    throwIO (Unavailable "memory for results" why "see zeroCopy")
  newCompact

newCompact :: IO Anchor
newCompact = IO $ \s -> case compactNew# 64## s of
  (# s1, compact #) -> case compactGetFirstBlock# compact s1 of
    (# s2, first, _ #) -> (# s2, Anchor compact first #)

keep :: Anchor -> IO ()
keep (Anchor compact _) = IO $ \s -> (# touch# compact s, () #)

valueAt :: Int64 -> IO a
valueAt address = case fromIntegral address of
  I# a -> IO $ \s -> case addrToAny# (int2Addr# a) of (# x #) -> (# s, x #)

-- * By address

-- | Shared pages that one worker fills and its parent adopts.
data Region
  = Region
      !Anchor
      !(Ptr ())
      -- ^ Where it lies.
      !Int
      -- ^ Its size in MiB.
      !CInt
      -- ^ The descriptor of its pages.
      !(IORef (Maybe (StablePtr Anchor)))
      -- ^ Keeps the region from the collectors of all processes that inherit it;
      -- gone once it has been released.

-- | In the parent, before the fork: a region of so many MiB (at least 1). Pages
-- that nobody writes cost nothing. Throws 'Unavailable' where there is no
-- memory, address space or descriptor for it. Must be released, else it stays.
newRegion :: Int -> IO Region
newRegion mebibytes = mask_ $ do
  anchor@(Anchor _ first) <- newAnchor
  let megablocks = max 1 mebibytes
  alloca $ \fdAt -> do
    base <- c_new first (fromIntegral megablocks) fdAt
    if base < 0
      then unavailable ("a region of " <> show megablocks <> " MiB for results") base "use a smaller regionMiB, or fewer workers"
      else do
        fd <- peek fdAt
        pin <- newStablePtr anchor >>= newIORef . Just
        pure (Region anchor (pointer base) megablocks fd pin)

unavailable :: String -> Int64 -> String -> IO a
unavailable what code remedy = throwIO (Unavailable what (errorText code) remedy)

lessMemory :: String
lessMemory = "raise the heap's bound (-M), `ulimit -v` or the container's limit, or keep fewer results at a time"

errorText :: Int64 -> String
errorText code
  | isError eFBIG code = "files may not be so large (see `ulimit -f`)"
  | otherwise = ioe_description (errnoToIOError "" (Errno (fromIntegral (negate code))) Nothing Nothing)

pointer :: Int64 -> Ptr a
pointer address = case fromIntegral address of I# a -> Ptr (int2Addr# a)

-- | What became of a value.
data Added
  = -- | It is there, at the address for 'regionGet'.
    Added !Word64
  | -- | It did not fit. Nothing was added; smaller values may still fit.
    Full
  | -- | What was found in it that cannot leave its process: \"a function\".
    Refused !String
  deriving (Eq, Show)

-- | In the worker: evaluates the value to normal form and copies it into the
-- region. Throws what evaluation throws. With the flag, what is shared inside
-- the value stays shared, and cyclic values cross; without, each reference gets
-- its own copy (large byte arrays and static data excepted), and a cyclic value
-- does not fit. An exception at any time, or the worker's death, leaves the
-- region as it was.
regionAdd :: Region -> Bool -> a -> IO Added
regionAdd (Region _ (Ptr base) size _ _) sharing x = do
  code <- inNormalForm x $ \x' -> case (fromIntegral size, bytestringTable) of
    (W# megablocks, W# table) -> IO $ \s ->
      case add# x' base megablocks (flag sharing) table s of (# s1, r #) -> (# s1, fromIntegral (I# r) #)
  if code >= 0
    then pure (Added (fromIntegral code))
    else failed code (pure Full) Refused

flag :: Bool -> Word#
flag True = 1##
flag False = 0##

-- | Runs a copier, which says 'eAGAIN' when it meets a thunk; evaluates only
-- then.
inNormalForm :: a -> (Any -> IO Int64) -> IO Int64
inNormalForm x copy = do
  _ <- evaluate x
  first <- copy (unsafeCoerce# x)
  if isError eAGAIN first then normalise x >> copy (unsafeCoerce# x) else pure first

-- | Is it this one?
isError :: Errno -> Int64 -> Bool
isError (Errno e) code = code == negate (fromIntegral e)

-- | @failed code full refused@: what an error of a copier means; others are thrown.
failed :: Int64 -> IO b -> (String -> b) -> IO b
failed code full refused
  | isError eNOSPC code = full
  | code <= negate copyRefused = refused <$> (c_refused code >>= peekCString)
  | otherwise = noMemory code
  where
    copyRefused = 4096

noMemory :: Int64 -> IO a
noMemory code = unavailable "memory for the copy of a result" code lessMemory

-- | Bytes still free.
regionRoom :: Region -> IO Int
regionRoom (Region _ base size _ _) = fromIntegral <$> c_room base (fromIntegral size)

-- | In the parent, before 'regionRelease': the value at an address that the
-- region's worker sent. The type must be the one that was added.
regionGet :: Word64 -> IO a
regionGet = valueAt . fromIntegral

-- | In the parent, once the process that wrote is dead (and waited for).
-- Idempotent. Adopted values keep the region alive; where there are none it is
-- freed. What the worker did not use goes back to the heap at once.
regionRelease :: Region -> IO ()
regionRelease (Region anchor@(Anchor _ first) base megablocks fd pin) = mask_ $ do
  held <- atomicModifyIORef' pin (Nothing,)
  case held of
    Nothing -> pure ()
    Just stable -> do
      code <- c_release first base (fromIntegral megablocks) fd
      keep anchor
      if code < 0
        then writeIORef pin held >> unavailable "memory for results" code lessMemory
        else freeStablePtr stable

-- | May results cross by address in this program, and why not: a GHC that
-- maru was not checked with, @--nonmoving-gc@, profiling, a dynamically linked
-- run-time system, or a trial that failed. The answer does not change while the program runs.
zeroCopy :: IO (Either String ())
zeroCopy = pure zeroCopyHere

zeroCopyHere :: Either String ()
zeroCopyHere = unsafePerformIO $ do
  refusal <- c_refusal
  if refusal /= nullPtr then Left <$> peekCString refusal else trial
{-# NOINLINE zeroCopyHere #-}

-- | Adds a value with all that is special to a region and gets it back.
trial :: IO (Either String ())
trial = try (newRegion 1) >>= either (pure . Left . unavailableWhy) trialIn

trialIn :: Region -> IO (Either String ())
trialIn region = do
  let value = (map Just "maru", Char8.pack "maru", 2 ^ (100 :: Int) :: Integer)
  added <- regionAdd region False value
  same <- case added of
    Added address -> (== value) <$> (regionGet address >>= evaluate)
    _ -> pure False
  regionRelease region
  pure (if same then Right () else Left "a trial value did not come back as it was")

-- * By copy

-- | A value as position-independent bytes.
data Packed
  = -- | So many bytes there, freed with the pointer.
    Packed !(ForeignPtr Word8) !Int
  | -- | As 'Refused'.
    Unpackable !String

-- | In the worker: evaluates the value to normal form and writes it to memory
-- outside the heap. As 'regionAdd' otherwise; what without the flag exceeds
-- 256 MiB and all that the heap has grown by since the fork (a cyclic value does) is
-- written again with it.
pack :: Bool -> a -> IO Packed
pack sharing x = alloca $ \at -> do
  code <- inNormalForm x $ \x' -> case (at, bytestringTable) of
    (Ptr at#, W# table) -> IO $ \s ->
      case pack# x' (flag sharing) table at# s of (# s1, r #) -> (# s1, fromIntegral (I# r) #)
  if code >= 0
    then do
      bytes <- peek at >>= newForeignPtr c_free
      pure (Packed bytes (fromIntegral code))
    else retried code
  where
    retried code
      | isError eNOSPC code && not sharing = pack True x
      | otherwise = failed code short Unpackable
    -- With sharing, memory alone bounds it.
    short = let Errno e = eNOMEM in noMemory (negate (fromIntegral e))

-- | Copies bytes that are this process's alone and that nobody reads afterwards, and
-- gives their pages back on the way.
foreign import ccall unsafe "maru_move_private"
  movePrivate :: Ptr Word64 -> Ptr Word8 -> Int64 -> IO ()

-- | In any process that was forked from the same run of the program as the one
-- that packed, with the same heap addresses of code: the value, or 'Nothing'
-- when the bytes are none. The type must be the one that was packed. The bytes may not be
-- read again: pages of large ones are given back on the way.
unpack :: Ptr Word8 -> Int -> IO (Maybe a)
unpack bytes size = do
  kind <- c_packedKind bytes (fromIntegral size)
  case kind of
    0 -> unpackHeap bytes size
    _ | kind > 0, Left _ <- zeroCopyHere -> unpackLoose bytes size
    1 -> unpackBeside bytes size
    2 -> unpackAlone bytes size
    _ -> pure Nothing

unpackHeap :: Ptr Word8 -> Int -> IO (Maybe a)
unpackHeap (Ptr bytes) (I# size) = IO $ \s -> case unpackHeap# bytes size s of
  (# s1, 0#, x #) -> (# s1, Just (unsafeCoerce# x) #)
  (# s1, _, _ #) -> (# s1, Nothing #)

-- | As ordinary objects of the heap, one by one: where there are no regions.
unpackLoose :: Ptr Word8 -> Int -> IO (Maybe a)
unpackLoose (Ptr bytes) (I# size) = do
  Landed code x <- IO $ \s -> case unpackLoose# bytes size s of
    (# s1, r, x #) -> (# s1, Landed (fromIntegral (I# r)) x #)
  if code == 0 then pure (Just (unsafeCoerce# x)) else landed code

data Landed = Landed !Int64 Any

-- | Where small values with pinned memory land, beside each other.
data Landing = Landing !Anchor !(Ptr ())

landing :: Own (Maybe Landing)
landing = unsafePerformIO (newOwn Nothing)
{-# NOINLINE landing #-}

unpackBeside :: Ptr Word8 -> Int -> IO (Maybe a)
unpackBeside bytes size =
  ownOf landing Nothing >>= \mine -> modifyMVar mine $ \current -> do
    r <- maybe (pure Nothing) beside current
    case r of
      Just x -> pure (current, x)
      Nothing -> do
        fresh <- newLanding
        x <- beside fresh
        pure (Just fresh, join x)
  where
    beside (Landing anchor base) = do
      code <- c_unpackBeside base bytes (fromIntegral size)
      x <- if isError eNOSPC code then pure Nothing else Just <$> landed code
      x <$ keep anchor

newLanding :: IO Landing
newLanding = do
  (anchor, base) <- anchored c_landingNew
  if base < 0 then unavailable "memory for results" base lessMemory else pure (Landing anchor (pointer base))

unpackAlone :: Ptr Word8 -> Int -> IO (Maybe a)
unpackAlone bytes size = do
  (anchor, code) <- anchored $ \first -> c_unpackAlone first bytes (fromIntegral size)
  landed code <* keep anchor

-- | What fills a new compact region. Results that are garbage count until the next collection; so
-- where memory is short it is tried once more after one.
anchored :: (Addr# -> IO Int64) -> IO (Anchor, Int64)
anchored fill = do
  first <- fresh
  if isError eNOMEM (snd first) then performMajorGC >> fresh else pure first
  where
    fresh = do
      anchor@(Anchor _ block) <- newAnchor
      (,) anchor <$> fill block

landed :: Int64 -> IO (Maybe a)
landed code
  | code >= 0 = do
    !x <- valueAt code
    pure (Just x)
  | isError eBADMSG code = pure Nothing
  | otherwise = unavailable "memory for results" code lessMemory
