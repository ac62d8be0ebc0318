-- | One budget of workers for nested calls: a worker that itself maps in
-- parallel gets its share of the cores, not all of them again. /Internal/.
module Maru.Internal.Budget
  ( resolveWorkers,
    resolveBackend,
    enterWorker,
    insideWorker,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Exception (throwIO)
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Foreign.C (CInt (..))
import Maru.Failure (BadOptions (..))
import Maru.Options
import System.Environment (lookupEnv)
import System.IO.Unsafe (unsafePerformIO)
import Text.Read (readMaybe)

foreign import ccall safe "maru_default_workers" c_defaultWorkers :: IO CInt

-- 'Nothing' in the program itself; in a worker, its share of the cores.
share :: IORef (Maybe Int)
share = unsafePerformIO (newIORef Nothing)
{-# NOINLINE share #-}

-- | In a worker: one of so many.
enterWorker :: Int -> IO ()
enterWorker siblings = do
  mine <- allowance
  writeIORef share (Just (max 1 (mine `div` siblings)))

insideWorker :: IO Bool
insideWorker = (/= Nothing) <$> readIORef share

-- What this process may use in all.
allowance :: IO Int
allowance = readIORef share >>= maybe (max 1 . fromIntegral <$> c_defaultWorkers) pure

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
      (Nothing, Stm) -> getNumCapabilities
      (Nothing, _) -> allowance
  where
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
      BadOptions ("MARU_BACKEND is " <> show name <> "; known: " <> unwords (map backendName allBackends))
