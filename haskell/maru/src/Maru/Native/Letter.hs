{-# LANGUAGE ForeignFunctionInterface #-}
{-# LANGUAGE GHCForeignImportPrim #-}
{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | Closures as they are, functions and thunks too, for a process that was forked from this
-- one before (@cbits\/rts\/letter.c@). /Internal/.
module Maru.Native.Letter
  ( lettersRefused,
    packLetter,
    closuresRefused,
    packClosure,
    landLetter,
    letterReceiver,
    letterStale,
    keepsConstants,
    codeOf,
  )
where

import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C (CBool (..), CString, eAGAIN, peekCString)
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, newForeignPtr)
import Foreign.Marshal (alloca, free)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Foreign.Storable (peek, poke)
import GHC.Exts (Addr#, Any, Int (I#), Int#, Ptr (Ptr), RealWorld, State#, Word (W#), Word#, unsafeCoerce#)
import GHC.IO (IO (IO))
import Maru.Native.Force (bytestringTable)
import Maru.Native.Region (failed, isError)

foreign import prim "maru_packzh"
  pack# :: Any -> Word# -> Word# -> Addr# -> State# RealWorld -> (# State# RealWorld, Int# #)

foreign import prim "maru_letter_landzh"
  landLetter# :: Addr# -> Int# -> State# RealWorld -> (# State# RealWorld, Int#, Any #)

foreign import prim "maru_letter_codezh"
  code# :: Any -> State# RealWorld -> (# State# RealWorld, Word# #)

foreign import ccall unsafe "maru_rts_refusal"
  c_refusal :: IO CString

foreign import ccall unsafe "&free"
  c_free :: FinalizerPtr Word8

-- | Why no letters can be sent in this program, if so.
lettersRefused :: IO (Maybe String)
lettersRefused = textAt =<< c_refusal

-- | Why no closure can be sent to a process that was not forked from this one, if so.
closuresRefused :: IO (Maybe String)
closuresRefused = textAt =<< c_closuresRefusal

foreign import ccall unsafe "maru_rts_closures_refusal" c_closuresRefusal :: IO CString

textAt :: CString -> IO (Maybe String)
textAt text = if text == nullPtr then pure Nothing else Just <$> peekCString text

-- | A closure as it is, unevaluated, functions and thunks in it too, for a process that was
-- forked from this one before. 'Left': what in it cannot leave this process, and which way leads
-- there; or that it is more than 16 MiB. No evaluation.
packLetter :: a -> IO (Either String (ForeignPtr Word8, Int))
packLetter x = lettersRefused >>= maybe (packAs 2 x) (pure . Left)

-- | The same for a process that runs the same program and 'keepsConstants', where closures are not
-- 'closuresRefused'.
packClosure :: a -> IO (Either String (ForeignPtr Word8, Int))
packClosure x = closuresRefused >>= maybe (packAs 3 x) (pure . Left)

packAs :: Word -> a -> IO (Either String (ForeignPtr Word8, Int))
packAs (W# how) x = alloca pack'
  where
    pack' at = do
      poke at nullPtr
      code <- case (at, bytestringTable) of
        (Ptr at#, W# table) -> IO $ \s ->
          case pack# (unsafeCoerce# x) how table at# s of (# s1, r #) -> (# s1, fromIntegral (I# r) :: Int64 #)
      if code >= 0
        then do
          bytes <- peek at >>= newForeignPtr c_free
          pure (Right (bytes, fromIntegral code))
        else do
          way <- peek at >>= wayOf
          if isError eAGAIN code
            then pure (Left ("what a thread is evaluating" <> way))
            else failed code (pure (Left "more than 16 MiB")) (Left . (<> way))
    -- The text is C's.
    wayOf text
      | text == nullPtr = pure ""
      | otherwise = (by <$> peekCString (castPtr text)) <* free text
    by way = if null way then "" else ", by " <> way

-- | In a process that 'letterReceiver' has prepared, or that 'keepsConstants': what such bytes hold, or 'Nothing' when
-- they are none, or it is 'letterStale'. The type must be the one that was packed.
landLetter :: Ptr Word8 -> Int -> IO (Maybe a)
landLetter (Ptr bytes) (I# size) = IO $ \s -> case landLetter# bytes size s of
  (# s1, 0#, x #) -> (# s1, Just (unsafeCoerce# x) #)
  (# s1, _, _ #) -> (# s1, Nothing #)

-- | Once, in a forked process that is to receive letters.
foreign import ccall unsafe "maru_letter_receiver" letterReceiver :: IO ()

-- | It has made a major collection: of what it inherited, some may be gone that a letter
-- means.
letterStale :: IO Bool
letterStale = (/= 0) <$> c_letterStale

foreign import ccall unsafe "maru_letter_stale" c_letterStale :: IO CBool

-- | Since its start this process frees no constant that was evaluated: @MARU_CLOSURES=1@ was set.
keepsConstants :: IO Bool
keepsConstants = (/= 0) <$> c_keeps

foreign import ccall unsafe "maru_letter_keeps" c_keeps :: IO CBool

-- | What tells functions that were written apart from each other. No evaluation.
codeOf :: a -> IO Word
codeOf x = IO $ \s -> case code# (unsafeCoerce# x) s of (# s1, table #) -> (# s1, W# table #)
