-- | Values in normal form. /Internal/.
module Maru.Internal.Normal
  ( normalised,
  )
where

import Maru.Native.Force (normalise)
import System.IO.Unsafe (unsafePerformIO)

-- | The same value; looking at it evaluates it to normal form, in the thread
-- that looks. What evaluation throws, looking throws.
normalised :: a -> a
normalised x = unsafePerformIO (x <$ normalise x)
{-# NOINLINE normalised #-}
