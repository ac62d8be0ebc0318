-- | Processes with a group of their own, that does not outlive the process that waits for them. The
-- terminal's signals are ours. What they started is ended with them, by a reaper if we are killed.
module Maru.Cli.Group
  ( inGroup,
    inGroups,
    outputOf,
    statusWithin,
    endWithin,
  )
where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar, threadDelay, threadWaitRead)
import Control.Exception (bracket, evaluate, finally, mask, onException)
import Control.Monad (void)
import Data.Maybe (isJust, isNothing)
import Maru.Cli.Exit
import Maru.Cli.Reaper
import Maru.Native.Process (closePidfd, openPidfd)
import System.Exit (ExitCode)
import System.IO
import System.Posix.Signals (nullSignal, sigTERM, signalProcessGroup)
import System.Process
import System.Timeout (timeout)

-- | What 'createProcess' gives.
type Started = (Maybe Handle, Maybe Handle, Maybe Handle, ProcessHandle)

-- | The process is over when the action is left, in whatever way, and all of its group.
inGroup :: Reaper -> CreateProcess -> (Started -> IO a) -> IO a
inGroup reaper job action = mask $ \restore -> do
  started@(input, _, _, process) <- createProcess (underReaper reaper job)
  group <- getPid process
  let end = mapM_ (orNothing . hClose) input `finally` endProcess reaper process group
  (restore (action started) `onException` end) <* end

-- | The same of several.
inGroups :: Reaper -> [CreateProcess] -> ([Started] -> IO a) -> IO a
inGroups _ [] action = action []
inGroups reaper (job : jobs) action = inGroup reaper job (\started -> inGroups reaper jobs (action . (started :)))

-- | How it ended and what it wrote. An input that is 'CreatePipe' ends when it has: or when this
-- process does.
outputOf :: Reaper -> CreateProcess -> IO (ExitCode, String, String)
outputOf reaper job = inGroup reaper job {std_out = CreatePipe, std_err = CreatePipe} $ \(input, output, errors, process) -> do
  said <- newEmptyMVar
  _ <- forkIO (whole errors >>= putMVar said)
  printed <- whole output
  code <- waitForProcess process
  mapM_ hClose input
  (,,) code printed <$> takeMVar said
  where
    whole = maybe (pure "") (\h -> do text <- hGetContents h; text <$ evaluate (length text))

-- | Its status if it ends within so many seconds. A session of its own: one that asks the terminal
-- from the background would be stopped for good.
statusWithin :: Reaper -> Double -> CreateProcess -> IO (Maybe ExitCode)
statusWithin reaper most job = inGroup reaper job {new_session = True} $ \(_, _, _, process) ->
  endWithin most process

-- | How it ended, if it does within so many seconds. Not by a wait that is broken off: an end that
-- is taken just then is lost, and the next wait finds no such process.
endWithin :: Double -> ProcessHandle -> IO (Maybe ExitCode)
endWithin most process = do
  known <- getProcessExitCode process
  number <- getPid process
  case number of
    Just pid | isNothing known -> bracket (openPidfd pid) closePidfd $ \fd ->
      if fd < 0
        then limited (waitForProcess process)
        else limited (threadWaitRead (fromIntegral fd)) >>= traverse (const (waitForProcess process))
    _ -> Just <$> waitForProcess process
  where
    limited = timeout (max 0 (ceiling (most * 1e6)))

-- | Asked to end; after @patience@, or when it has, what is left of its group is, too, which may
-- need a moment to clean up. Then made to, at once if we are told again to end.
endProcess :: Reaper -> ProcessHandle -> Maybe Pid -> IO ()
endProcess reaper process group = do
  lives <- isNothing <$> getProcessExitCode process
  gone <- (if lives then asked else pure False) `onException` made
  -- The number of a group that is gone may become a stranger's.
  if gone then mapM_ (forgetGroup reaper) group else made
  void (waitForProcess process)
  where
    made = mapM_ (endGroup reaper) group
    asked = do
      terminateProcess process
      void (endWithin patience process)
      mapM_ (orNothing . signalProcessGroup sigTERM) group
      maybe (pure True) (vanishes (20 :: Int)) group
    vanishes tries own = do
      there <- isJust <$> orNothing (signalProcessGroup nullSignal own)
      if there && tries > 0 then threadDelay 50000 >> vanishes (tries - 1) own else pure (not there)

-- | Seconds.
patience :: Double
patience = 10
