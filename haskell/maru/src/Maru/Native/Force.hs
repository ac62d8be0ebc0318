{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE GHCForeignImportPrim #-}
{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- | Evaluation to normal form without a class constraint.
module Maru.Native.Force
  ( normalise,
    flatBytes,
    bytestringTable,
  )
where

import Control.Monad (forM_, unless)
import qualified Data.ByteString as ByteString
import Foreign.Marshal.Utils (with)
import Foreign.Ptr (nullPtr)
import Foreign.Storable (peek)
import GHC.Exts
  ( Addr#,
    Any,
    Int (I#),
    Int#,
    MutableArray#,
    Ptr (Ptr),
    RealWorld,
    State#,
    Word (W#),
    Word#,
    newArray#,
    readArray#,
    unsafeCoerce#,
  )
import GHC.IO (IO (IO))

foreign import prim "maru_normalisezh"
  normalise# :: Any -> Word# -> Word# -> Word# -> Addr# -> State# RealWorld -> (# State# RealWorld, Word# #)

foreign import prim "maru_thunkszh"
  thunks# :: Any -> MutableArray# RealWorld Any -> Word# -> State# RealWorld -> (# State# RealWorld, Int# #)

foreign import prim "maru_infozh"
  info# :: Any -> State# RealWorld -> (# State# RealWorld, Word# #)

-- | Evaluates to normal form, whatever the type: what 'Control.DeepSeq.rnf'
-- does for types that have it. Functions and mutable objects are leaves; throws
-- what evaluation throws. A few nanoseconds per constructor; lists take no
-- stack, other data a frame per level, to a bound. Evaluated data is not
-- interruptible while it is walked.
--
-- Terminates on cyclic values too. What is shared is walked once per reference,
-- until that has become expensive; then each object once.
normalise :: a -> IO ()
normalise = normaliseCounting nullPtr

-- | The same, and bytes of the value that stand in no constructor's fields, but in ByteStrings and arrays
-- of numbers: each as often as it is walked, and those walked within some 16 million closures.
flatBytes :: a -> IO Word
flatBytes x = with 0 $ \count -> normaliseCounting count x >> peek count

normaliseCounting :: Ptr Word -> a -> IO ()
normaliseCounting count x = do
  done <- walk count (Bounds 0x1000000 0x20000) (unsafeCoerce# x)
  unless done (inRounds (Bounds 0x2000000 0x40000) (unsafeCoerce# x))

-- | How many closures to visit, and how deep to recurse.
data Bounds = Bounds !Word !Word

-- | Evaluates within bounds; whether they sufficed. Adds flat bytes at that address, if there is one.
walk :: Ptr Word -> Bounds -> Any -> IO Bool
walk (Ptr count) (Bounds (W# visits) (W# depth)) x = case bytestringTable of
  W# table -> IO $ \s -> case normalise# x visits depth table count s of
    (# s1, left #) -> (# s1, W# left > 0 #)

-- | For values that are cyclic, shared much, very deep or just large: finds the
-- thunks that are left (a walk that visits each object once), evaluates those
-- within bounds, and so on with twice the bounds, so that the walks cost no more
-- than the evaluation.
inRounds :: Bounds -> Any -> IO ()
inRounds bounds@(Bounds visits depth) x = do
  found <- findThunks x
  unless (null found) $ do
    forM_ found (walk nullPtr bounds)
    inRounds (Bounds (2 * visits) (2 * depth)) x

-- | At most 4096 thunks that the value leads to; none: it is in normal form.
findThunks :: Any -> IO [Any]
findThunks x = case bytestringTable of
  W# table -> IO $ \s -> case newArray# 4096# (unsafeCoerce# ()) s of
    (# s1, array #) -> case thunks# x array table s1 of
      (# s2, n #)
        | I# n < 0 -> unIO (ioError (userError "maru: no memory to evaluate a large result")) s2
        | otherwise -> readAll array (I# n - 1) [] s2
  where
    readAll array !i acc s
      | i < 0 = (# s, acc #)
      | otherwise = case i of
        I# i# -> case readArray# array i# s of
          (# s1, thunk #) -> readAll array (i - 1) (thunk : acc) s1
    unIO (IO m) = m

-- | The info table of the constructor of strict ByteStrings. The empty one of
-- bytestring 0.10 holds an error in a field that nobody looks at; so it must be
-- told from others.
bytestringTable :: Word
bytestringTable = case ByteString.empty of
  !b -> case info# (unsafeCoerce# b) (unsafeCoerce# ()) of
    (# _, table #) -> W# table
{-# NOINLINE bytestringTable #-}
