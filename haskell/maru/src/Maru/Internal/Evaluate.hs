{-# LANGUAGE RankNTypes #-}

-- | One item in the caller's own process. /Internal/: may change without a major
-- version.
module Maru.Internal.Evaluate
  ( evaluateItem,
    capture,
  )
where

import Control.Exception (ErrorCall (..), SomeException, evaluate, throwIO, try)
import qualified Data.ByteString.Lazy as Lazy
import Maru.Codec (Codec (..))
import Maru.Internal.Run
import Maru.Native.Force (normalise)

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

-- | An item's value or what it threw, asynchronous types included: @f@ may throw
-- @ThreadKilled@ itself. 'Nothing': the run was stopped meanwhile.
capture :: Run -> Restore -> IO b -> IO (Maybe (Either SomeException b))
capture run restore action = do
  before <- isStopped run
  if before
    then pure Nothing
    else do
      result <- try (restore action)
      stopped <- isStopped run
      pure (if stopped then Nothing else Just result)
