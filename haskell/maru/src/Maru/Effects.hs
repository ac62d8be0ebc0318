{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Items that are more than a pure function: actions whose effects stay in the
-- worker, state that a worker makes once, limits of time, random numbers.
-- "Maru" exports all of it.
module Maru.Effects
  ( parMapIO,
    parMapState,
    parMapWithin,
    itemSeeds,
  )
where

import Control.Exception (bracket_, evaluate, fromException, throw, throwIO)
import Data.Bits (shiftR, xor)
import Data.IORef
import Data.Word (Word64)
import Maru.Failure
import Maru.Internal.Engine
import Maru.Internal.Normal (normalised)
import Maru.Internal.Start
import Maru.Options
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Process (getProcessID)
import System.Posix.Signals
import System.Posix.Types (ProcessID)
import System.Timeout (timeout)

-- | @parMapIO options act xs@ returns what @mapM act xs@ returns, for actions of
-- which none needs what another one did. Their effects on memory stay in the
-- worker; those on files, sockets and other processes happen. They happen in no
-- particular order, and again for an item that is evaluated again: 'policy' says
-- when. Descriptors that the caller has open cannot be used in a worker: an action
-- opens what it needs, else its item is evaluated in the caller.
--
-- Scoped, as @parMapM@, which says what may outlive it. With the back end 'Auto': 'Shm'.
--
-- >>> parMapIO defaultOptions {workers = Workers 2} (fmap (length . words) . readFile) ["/proc/sys/kernel/ostype"]
-- [1]
parMapIO :: Options -> (a -> IO b) -> [a] -> IO [b]
parMapIO options = parMapState options (pure ()) . const

-- | 'parMapIO' whose actions share a state of their worker: a connection, a
-- table, a buffer. A worker makes it before the first item that looks at it, once;
-- what making it throws, each of those items throws. The state ends with the
-- worker, without notice. Threads that share the caller's heap ('Threads', 'Stm',
-- 'Sparks') share one state, at the same time. Scoped, as @parMapM@.
--
-- @parMapState options (pure s) (\s' x -> pure (f s' x)) xs == pure (map (f s) xs)@
--
-- >>> parMapState defaultOptions {workers = Workers 2} (pure 10) (\ten n -> pure (ten + n)) [1, 2, 3 :: Int]
-- [11,12,13]
parMapState :: Options -> IO s -> (s -> a -> IO b) -> [a] -> IO [b]
parMapState options make act xs = do
  state <- ofProcess make
  scoped options Ordered Nothing (\x -> unsafePerformIO (state >>= \s -> act s x)) xs $
    mapM (either throwIO evaluate . outcomeResult) . outcomes

-- | A value for each process that asks. What a fork inherits is not taken for its
-- own, made or not.
ofProcess :: IO s -> IO (IO s)
ofProcess make = do
  made <- newIORef Nothing
  pure $ do
    me <- getProcessID
    -- Lazy: of two threads that come first, one makes it and the other waits.
    let fresh = unsafePerformIO make
        own (Just (pid, s)) | pid == me = (Just (pid, s), s)
        own _ = (Just (me, fresh), fresh)
    s <- atomicModifyIORef made own
    -- Whether it has been made, not the state: nobody may look at that.
    s <$ (readIORef made >>= evaluate)

-- | @parMapWithin options seconds f xs@: 'Just' what @parMapWith@ gives, 'Nothing'
-- for an item that takes longer than so many seconds (above 0) to its normal form.
--
-- Such an item is interrupted where it allocates. Computing without allocation cannot
-- be: after twice the limit and a second more a forked worker ends by SIGALRM
-- then, and again for as many retries as 'policy' gives; 'Fail' fails the list. Back ends in the caller's
-- heap wait for it. With the back end 'Auto': 'Shm'.
--
-- >>> parMapWithin defaultOptions {workers = Workers 2} 0.2 (\n -> if n == 2 then length [n ..] else n) [1, 2, 3]
-- [Just 1,Nothing,Just 3]
parMapWithin :: Options -> Double -> (a -> b) -> [a] -> [Maybe b]
parMapWithin options seconds f xs
  | seconds <= 0 || isNaN seconds = throw (BadOptions ("the limit of an item is " <> show seconds <> " s; give a positive number"))
  | otherwise = unsafePerformIO $ do
    caller <- getProcessID
    map (either late id . outcomeResult) . outcomes <$> startedOn options Ordered Nothing (limited caller) xs
  where
    limited caller x = unsafePerformIO (orEnd caller seconds (timeout (micros seconds) (evaluate (normalised f x))))
    late e = case fromException e of
      Just WorkerLost {lostDeath = Killed n} | n == fromIntegral sigALRM -> Nothing
      _ -> throw e
    micros s = round (min 1e15 (max 1 (s * 1e6)))

-- | A worker that is in the action for twice so many seconds and one more ends by
-- SIGALRM, whatever the program made of that signal; the caller does not.
orEnd :: ProcessID -> Double -> IO a -> IO a
orEnd caller seconds action = do
  worker <- (/= caller) <$> getProcessID
  if worker then bracket_ begin (scheduleAlarm 0) action else action
  where
    begin = do
      _ <- installHandler sigALRM Default Nothing
      unblockSignals (addSignal sigALRM emptySignalSet)
      scheduleAlarm (ceiling (min 1e9 (2 * seconds + 1)))

-- | An endless list of numbers to begin random generators with, each another one:
-- zip them to the items, and an item's chance depends on its place alone, whatever
-- back end, worker or order evaluates it. The first argument chooses the list. They
-- are the outputs of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
-- number generators, 2014).
--
-- >>> map (`mod` 100) (take 3 (itemSeeds 1))
-- [57,70,95]
itemSeeds :: Word64 -> [Word64]
itemSeeds begin = map mixed (iterate (+ gamma) (mixed begin))
  where
    gamma = 0x9e3779b97f4a7c15

-- | Of David Stafford's mixers the 13th: one to one.
mixed :: Word64 -> Word64
mixed = shifted 31 . (* 0x94d049bb133111eb) . shifted 27 . (* 0xbf58476d1ce4e5b9) . shifted 30
  where
    shifted n z = z `xor` (z `shiftR` n)
