{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | Measures the first items in the caller, then decides where the rest is
-- evaluated.
--
-- The bargain (Maru.Options.Auto): a list that takes 50 ms or more is at most
-- 5 % slower than 'Sequential', a shorter one at most 2 ms. So at most
-- 'sampleNs' is spent on measuring, and workers are started only for work that
-- is known to be there (cells already walked) and long enough to pay for them.
module Maru.Backend.Auto
  ( Decision (..),
    decide,
    Sample (..),
    autoMap,
    forkCost,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad (void)
import Data.IORef (mkWeakIORef, newIORef, readIORef)
import Data.Int (Int64)
import Data.Maybe (isJust)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Maru.Internal.Feed
import Maru.Internal.Normal (normalised)
import Maru.Native.Force (normalise)
import Maru.Native.Process (residentBytes)
import System.IO.Unsafe (unsafeInterleaveIO)

-- | What the first items showed.
data Sample = Sample
  { sampleItems :: !Int,
    -- | Evaluating them.
    sampleWorkNs :: !Int64,
    -- | Walking their results once more: what carrying them costs grows with it.
    sampleWalkNs :: !Int64
  }
  deriving (Eq, Show)

data Decision = InCaller | OnWorkers
  deriving (Eq, Show)

-- | @decide workers forkNs sample ahead@: where to evaluate @ahead@ items that
-- are known to follow. Pure, for its tests.
--
-- Workers pay when what they take off the caller exceeds what they cost:
-- starting them, and carrying results (building a copy costs about four walks,
-- measured).
decide :: Int -> Int64 -> Sample -> Int -> Decision
decide workers forkNs (Sample items work walk) ahead
  | workers < 2 || items == 0 = InCaller
  | carrying > 0.5 * perItem = InCaller
  | alone > together + 2 * starting = OnWorkers
  | otherwise = InCaller
  where
    perItem = fromIntegral work / fromIntegral items :: Double
    carrying = 4 * fromIntegral walk / fromIntegral items
    starting = fromIntegral forkNs * fromIntegral workers
    alone = perItem * fromIntegral ahead
    together = starting + (perItem + carrying) * fromIntegral ahead / fromIntegral workers

-- | At most so many nanoseconds are spent on measuring.
sampleNs :: Int64
sampleNs = 1000000

-- | @autoMap workers costOfFork parallel f xs@. @parallel offset rest@ maps the
-- rest of the list on workers.
autoMap :: forall a b. Int -> IO Int64 -> (Int -> [a] -> IO [b]) -> (a -> b) -> [a] -> IO [b]
autoMap workers costOfFork parallel f = sampling 0 (Sample 0 0 0)
  where
    sampling _ _ [] = pure []
    sampling i sample xs@(x : rest)
      | workers < 2 = pure (map (normalised . f) xs)
      | sampleWorkNs sample + sampleWalkNs sample >= sampleNs = choose i sample xs
      | otherwise = do
        (value, sample') <- measure sample (f x)
        (value :) <$> unsafeInterleaveIO (sampling (i + 1) sample' rest)
    choose i sample xs = do
      forkNs <- costOfFork
      ahead <- walkAhead (cellsWorth sample (8 * forkNs * fromIntegral workers)) xs
      case decide workers forkNs sample ahead of
        OnWorkers -> parallel i xs
        InCaller -> here (max 1 ahead) i sample xs
    -- So many items are mapped here before looking again.
    here :: Int -> Int -> Sample -> [a] -> IO [b]
    here 0 i sample xs = choose i sample xs
    here _ _ _ [] = pure []
    here n i sample (x : rest) =
      (normalised (f x) :) <$> unsafeInterleaveIO (here (n - 1) (i + 1) sample rest)

-- | Nanoseconds until one more worker works, for the heap as it is: page tables
-- are copied (20 us a MiB, measured).
forkCost :: IO Int64
forkCost = do
  resident <- residentBytes
  pure (700000 + 20000 * fromIntegral (resident `div` 1048576))

-- | How many items take that long, within reason.
cellsWorth :: Sample -> Int64 -> Int
cellsWorth (Sample items work _) ns =
  fromIntegral (max 1 (min 20000 (ns * fromIntegral items `div` max 1 work)))

-- | How many cells follow, up to a number; gives a slow spine one millisecond.
walkAhead :: Int -> [a] -> IO Int
walkAhead wanted xs = do
  progress <- newEmptyMVar
  feed <- startFeed xs (void (tryPutMVar progress ()))
  wantUpTo feed wanted
  let wait slices = do
        seen <- known feed
        if slices == 0 || knownCount seen >= wanted || isJust (knownEnd seen)
          then knownCount seen <$ forkIO (stopFeed feed)
          else do
            -- Either more has been walked, or some time has passed.
            yield
            _ <- tryTakeMVar progress
            threadDelay 50
            wait (slices - 1 :: Int)
  wait 20

-- | Evaluates one result in a thread beside the consumer: what @f@ throws must
-- not be mistaken for an exception thrown at the consumer, and becomes the
-- element, not the list.
measure :: forall b. Sample -> b -> IO (b, Sample)
measure (Sample items work walk) y = do
  box <- newEmptyMVar
  helper <- mask_ (forkIOWithUnmask (evaluateInto box))
  -- Nobody waits any more: the thread ends too.
  waiting <- newIORef ()
  _ <- mkWeakIORef waiting (killThread helper)
  (value, more, again) <- takeMVar box
  readIORef waiting
  pure (value, Sample (items + 1) (work + fromIntegral more) (walk + fromIntegral again))
  where
    evaluateInto :: MVar (b, Word64, Word64) -> (forall x. IO x -> IO x) -> IO ()
    evaluateInto box unmask = do
      start <- getMonotonicTimeNSec
      result <- try (unmask (normalise y))
      end <- getMonotonicTimeNSec
      case result of
        Left e -> putMVar box (throw (e :: SomeException), end - start, 0)
        Right () -> do
          normalise y
          walked <- getMonotonicTimeNSec
          putMVar box (y, end - start, walked - end)
