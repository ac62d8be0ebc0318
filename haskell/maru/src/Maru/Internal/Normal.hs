{-# LANGUAGE BangPatterns #-}

-- | Values in normal form. /Internal/.
module Maru.Internal.Normal
  ( normalised,
  )
where

import Maru.Native.Force (normalise)
import System.IO.Unsafe (unsafePerformIO)

-- | The function's value there; looking at it evaluates it to normal form, in the thread
-- that looks. What evaluation throws, looking throws.
--
-- A call is one thunk. The application by itself would be a second one inside, a twentieth of an item
-- of 100 ns.
normalised :: (a -> b) -> a -> b
normalised f x = case f x of !y -> unsafePerformIO (y <$ normalise y)
{-# NOINLINE normalised #-}
