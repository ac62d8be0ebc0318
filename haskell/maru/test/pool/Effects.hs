{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Effects in pure code, and what is static: apart from the test itself, whose functions are
-- to become what they are in a program.
module Effects
  ( three,
    constant,
    collecting,
    slowPid,
    pidLater,
    stretch,
    started,
    runsOf,
    gate,
    waiting,
    dies,
  )
where

import Control.Concurrent
import Control.Exception (evaluate)
import Data.IORef
import qualified Data.Map.Strict as Map
import GHC.Clock (getMonotonicTimeNSec)
import System.Mem (performMajorGC)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigKILL)
import Tools (effect, kill)

three :: Int -> Int -> Int -> Int
three a b c = a * 100 + b * 10 + c
{-# NOINLINE three #-}

constant :: Map.Map Int String
constant = Map.fromList [(i, show i) | i <- [1 .. 1000]]
{-# NOINLINE constant #-}

-- | The argument, after a collection of everything and some garbage.
collecting :: Int -> Int
collecting i = effect (performMajorGC >> performMajorGC >> evaluate (length (show [1 .. 10000 + i]))) `seq` i
{-# NOINLINE collecting #-}

slowPid :: Int -> Int
slowPid i = effect (threadDelay 20000 >> fmap fromIntegral getProcessID) + 0 * i
{-# NOINLINE slowPid #-}

started :: IORef Int
started = effect (newIORef 0)
{-# NOINLINE started #-}

runsOf :: Int -> Int
runsOf i = effect (readIORef started) + 0 * i
{-# NOINLINE runsOf #-}

gate :: MVar Int
gate = effect newEmptyMVar
{-# NOINLINE gate #-}

dies :: Int -> Int
dies i = effect (getProcessID >>= kill sigKILL >> threadDelay 1000000) `seq` i
{-# NOINLINE dies #-}

-- | Who evaluates it, after 10 ms.
pidLater :: Int -> Int
pidLater i = effect (threadDelay 10000 >> fmap fromIntegral getProcessID) + 0 * i
{-# NOINLINE pidLater #-}

-- | When it was begun, and 10 ms later ended.
stretch :: Int -> (Int, Int)
stretch i = i `seq` effect ((,) <$> now <*> (threadDelay 10000 >> now))
  where
    now = fromIntegral <$> getMonotonicTimeNSec
{-# NOINLINE stretch #-}

-- | The argument, or for 2 what somebody puts into the gate.
waiting :: Int -> Int
waiting i = if i == 2 then effect (readMVar gate) else i
{-# NOINLINE waiting #-}
