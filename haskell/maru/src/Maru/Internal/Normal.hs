-- | Values in normal form. /Internal/.
module Maru.Internal.Normal
  ( normalised,
    evaluateItem,
  )
where

import Control.Exception (ErrorCall (..), evaluate, throwIO)
import qualified Data.ByteString.Lazy as Lazy
import Maru.Codec (Codec (..))
import Maru.Native.Force (normalise)
import System.IO.Unsafe (unsafePerformIO)

-- | The same value; looking at it evaluates it to normal form, in the thread
-- that looks. What evaluation throws, looking throws.
normalised :: a -> a
normalised x = unsafePerformIO (x <$ normalise x)
{-# NOINLINE normalised #-}

-- | One item's value in normal form, through the codec where one is given.
evaluateItem :: Maybe (Codec b) -> (a -> b) -> a -> IO b
evaluateItem codec f x = case codec of
  Nothing -> normal (f x)
  Just c -> do
    bytes <- evaluate (Lazy.toStrict (encode c (f x)))
    case decode c bytes of
      Left why -> throwIO (ErrorCall ("maru: the codec cannot decode its own encoding: " <> why))
      Right y -> normal y
  where
    normal y = y <$ normalise y
