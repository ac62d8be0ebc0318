-- | One budget of workers for nested calls: a worker that itself maps in
-- parallel gets the cores that are idle ("Maru.Internal.Cores"), not all of them
-- again. /Internal/.
module Maru.Internal.Budget
  ( resolveWorkers,
    resolveBackend,
    enterWorker,
    insideWorker,
    coresInside,
    shareMachine,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Exception (throwIO)
import Control.Monad (unless)
import Data.IORef (IORef, modifyIORef', newIORef, readIORef, writeIORef)
import Foreign.C (CInt (..))
import Maru.Failure (BadOptions (..))
import Maru.Internal.Cores (enterShared, idleCores, shareCores)
import Maru.Internal.Within (Within (..), whereNow)
import Maru.Options
import System.Environment (lookupEnv)
import System.IO.Unsafe (unsafePerformIO)
import Text.Read (readMaybe)

foreign import ccall safe "maru_default_workers" c_defaultWorkers :: IO CInt

-- Among how many processes the cores are shared; 0 in the program itself.
sharers :: IORef Int
sharers = unsafePerformIO (newIORef 0)
{-# NOINLINE sharers #-}

-- | In a worker: one of so many. Looks at nothing: most workers never ask.
enterWorker :: Int -> IO ()
enterWorker siblings = modifyIORef' sharers ((* siblings) . max 1) >> enterShared

insideWorker :: IO Bool
insideWorker = (> 0) <$> readIORef sharers

-- | Inside an item of another map: how many workers a map may have now that is left to choose, by the
-- cores that are idle. One of them has the core of this process, which waits for it. A number
-- that the user named for the program is obeyed.
coresInside :: IO (Maybe Int)
coresInside = do
  nested <- insideWorker
  if nested then Just <$> left else whereNow >>= byItem
  where
    left = idleCores >>= maybe allowance (pure . (+ 1))
    unlessAsked act = lookupEnv "MARU_WORKERS" >>= maybe (Just <$> act) (const (pure Nothing))
    byItem Outside = pure Nothing
    byItem Early = unlessAsked (pure 1)
    byItem Inside = unlessAsked left

-- | Before a fork, in the program itself: maps inside its workers share its cores.
shareMachine :: IO ()
shareMachine = do
  nested <- insideWorker
  unless nested (allowance >>= shareCores)

-- What this process may use in all. The machine is looked at once a process, and again
-- only where another one is described meanwhile: a look is some hundred files.
allowance :: IO Int
allowance = do
  among <- readIORef sharers
  n <- allCores
  pure (max 1 (n `div` max 1 among))

allCores :: IO Int
allCores = do
  known <- readIORef cores
  described <- lookupEnv "MARU_TOPOLOGY"
  case known of
    Just (description, n) | description == described -> pure n
    _ -> do
      n <- machine described
      writeIORef cores (Just (described, n))
      pure n

-- By MARU_TOPOLOGY.
cores :: IORef (Maybe (Maybe String, Int))
cores = unsafePerformIO (newIORef Nothing)
{-# NOINLINE cores #-}

-- A machine that says nothing of itself has one core; one that the user
-- describes must be readable.
machine :: Maybe String -> IO Int
machine described = do
  n <- fromIntegral <$> c_defaultWorkers
  case described of
    Just text | n < 0, not (null text) -> throwIO (BadOptions ("MARU_TOPOLOGY is " <> show text <> ", which cannot be read: give virtual:SxC (S sockets of C cores), a folder, or unset it"))
    _ -> pure (max 1 n)

-- | How many workers. Throws 'BadOptions' outside of 1 to 65 535.
resolveWorkers :: Options -> Backend -> IO Int
resolveWorkers options which = case workers options of
  Workers n -> checked "the number of workers" n
  WorkersAuto -> do
    nested <- insideWorker
    asked <- if nested then pure Nothing else lookupEnv "MARU_WORKERS"
    case (asked, which) of
      (Just text, _) -> case readMaybe text of
        Just n -> checked "MARU_WORKERS" n
        Nothing -> throwIO (BadOptions ("MARU_WORKERS is " <> show text <> "; give a number from 1 to 65535"))
      (Nothing, Stm) | not nested -> getNumCapabilities
      (Nothing, _) | nested && which `elem` [Auto, Shm, Sockets] -> idleCores >>= maybe allowance among
      (Nothing, _) -> allowance
  where
    -- In a worker: its own core, which it does not use while it waits, and those that are
    -- idle now. The forked workers of a map may become more, as cores fall idle.
    among idle
      | which == Auto = pure (idle + 1)
      | otherwise = allCores
    checked what n
      | n >= 1 && n <= 65535 = pure n
      | otherwise = throwIO (BadOptions (what <> " is " <> show n <> "; give one from 1 to 65535"))

-- | The back end asked for, in options or environment; still 'Auto' when
-- neither says. Throws 'BadOptions' for a name that does not exist.
resolveBackend :: Options -> IO Backend
resolveBackend options
  | backend options /= Auto = pure (backend options)
  | otherwise = do
    asked <- lookupEnv "MARU_BACKEND"
    case asked of
      Nothing -> pure Auto
      Just "" -> pure Auto
      Just name -> maybe (throwIO (unknown name)) pure (backendFromName name)
  where
    unknown name =
      BadOptions ("MARU_BACKEND is " <> show name <> "; known: " <> unwords (map backendName [minBound .. maxBound]))
