-- | Signals that end @maru bench@. They arrive as exceptions where something is measured, so that
-- what was measured before can be kept; while that is written, they wait.
module Maru.Cli.Bench.Interrupt
  ( Interrupts,
    catchInterrupts,
    interrupted,
    sparing,
    isInterrupt,
    finding,
  )
where

import Control.Concurrent (myThreadId, threadDelay)
import Control.Exception
import Control.Monad (forM_, when)
import Data.IORef
import GHC.Clock (getMonotonicTime)
import System.Exit (ExitCode (..))
import System.Posix.Signals (Handler (Catch), Signal, installHandler, sigHUP, sigINT, sigTERM)

data Interrupts = Interrupts
  { -- | When the last one came that was no twin of another, and as what the first one ends the command.
    seen :: !(IORef (Maybe (Double, SomeException))),
    spared :: !(IORef Bool)
  }

-- | From now on the calling thread is interrupted.
catchInterrupts :: IO Interrupts
catchInterrupts = do
  self <- myThreadId
  interrupts <- Interrupts <$> newIORef Nothing <*> newIORef False
  forM_ signals $ \(signal, end) -> installHandler signal (Catch (arrives interrupts end (throwTo self end))) Nothing
  pure interrupts

signals :: [(Signal, SomeException)]
signals = [(sigINT, toException UserInterrupt), (sigTERM, toException (ExitFailure 143)), (sigHUP, toException (ExitFailure 129))]

-- | @timeout@ sends each twice at once: only who asks again after a second is impatient.
arrives :: Interrupts -> SomeException -> IO () -> IO ()
arrives interrupts end interrupt = do
  now <- getMonotonicTime
  quiet <- readIORef (spared interrupts)
  let early (heeded, _) = now - heeded <= 1
      note old = if maybe False early old then old else Just (now, maybe end snd old)
  before <- atomicModifyIORef' (seen interrupts) (\old -> (note old, old))
  when (maybe (not quiet) (not . early) before) interrupt

-- | As what the command is to end, if a signal came.
interrupted :: Interrupts -> IO (Maybe SomeException)
interrupted interrupts = fmap snd <$> readIORef (seen interrupts)

-- | The first one does not end this action.
sparing :: Interrupts -> IO a -> IO a
sparing interrupts = bracket_ (writeIORef (spared interrupts) True) (writeIORef (spared interrupts) False)

isInterrupt :: SomeException -> Bool
isInterrupt e = case (fromException e, fromException e) of
  (Just UserInterrupt, _) -> True
  (_, Just (ExitFailure _)) -> True
  _ -> False

-- | 'Left': why the action was interrupted. A terminal interrupts what is measured, too, and its
-- end may be seen first: an action that fails waits for that.
finding :: IO a -> IO (Either SomeException a)
finding action = try action >>= either ended (pure . Right)
  where
    ended e
      | isInterrupt e = pure (Left e)
      | otherwise = do
        later <- try (threadDelay 200000)
        case later of
          Left e' | isInterrupt e' -> pure (Left e')
          _ -> throwIO e
