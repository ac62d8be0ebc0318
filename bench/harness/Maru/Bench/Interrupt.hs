-- | Signals that end @maru bench@. They arrive as exceptions where something is measured, so that
-- what was measured before can be kept; while that is written, they wait.
module Maru.Bench.Interrupt
  ( Interrupts,
    catchInterrupts,
    interrupted,
    sparing,
    isInterrupt,
    finding,
  )
where

import Control.Concurrent (MVar, myThreadId, newMVar, swapMVar, threadDelay, withMVar)
import Control.Exception
import Control.Monad (forM_, void, when)
import Data.IORef
import GHC.Clock (getMonotonicTime)
import System.Exit (ExitCode (..))
import System.Posix.Signals (Handler (Catch), Signal, installHandler, sigHUP, sigINT, sigTERM)

data Interrupts = Interrupts
  { -- | When the last one came that was no twin of another, and as what the first one ends the command.
    seen :: !(IORef (Maybe (Double, SomeException))),
    -- | Held while somebody is interrupted, lest something that is spared begins meanwhile.
    spared :: !(MVar Bool)
  }

-- | From now on the calling thread is interrupted.
catchInterrupts :: IO Interrupts
catchInterrupts = do
  self <- myThreadId
  interrupts <- Interrupts <$> newIORef Nothing <*> newMVar False
  forM_ signals $ \(signal, end) -> installHandler signal (Catch (arrives interrupts end (throwTo self end))) Nothing
  pure interrupts

signals :: [(Signal, SomeException)]
signals = [(sigINT, toException UserInterrupt), (sigTERM, toException (ExitFailure 143)), (sigHUP, toException (ExitFailure 129))]

-- | @timeout@ sends each twice at once: only who asks again after a second is impatient.
arrives :: Interrupts -> SomeException -> IO () -> IO ()
arrives interrupts end interrupt = do
  now <- getMonotonicTime
  withMVar (spared interrupts) $ \quiet -> do
    before <- atomicModifyIORef' (seen interrupts) (\old -> (note now old, old))
    when (maybe (not quiet) (not . early now) before) interrupt
  where
    early now (heeded, _) = now - heeded <= 1
    note now old = if maybe False (early now) old then old else Just (now, maybe end snd old)

-- | As what the command is to end, if a signal came.
interrupted :: Interrupts -> IO (Maybe SomeException)
interrupted interrupts = fmap snd <$> readIORef (seen interrupts)

-- | The first one does not end this action, nor while it begins.
sparing :: Interrupts -> IO a -> IO a
sparing interrupts = bracket_ (set True `catch` \e -> if isInterrupt e then set True else throwIO e) (set False)
  where
    set = void . swapMVar (spared interrupts)

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
