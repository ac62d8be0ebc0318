-- | Processes with a group of their own, that does not outlive whoever waits for them: the
-- terminal's signals are ours, and what they started is ended with them.
module Maru.Cli.Group
  ( inGroup,
    inGroups,
    outputOf,
    endGroup,
  )
where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar, threadDelay)
import Control.Exception (evaluate, finally, mask, onException)
import Control.Monad (forM_, unless, void)
import Data.Maybe (isJust)
import Maru.Cli.Exit
import System.Exit (ExitCode)
import System.IO
import System.Posix.Signals (nullSignal, sigKILL, signalProcessGroup)
import System.Process
import System.Timeout (timeout)

-- | What 'createProcess' gives.
type Started = (Maybe Handle, Maybe Handle, Maybe Handle, ProcessHandle)

-- | The process and its group are ended if the action is left by an exception.
inGroup :: CreateProcess -> (Started -> IO a) -> IO a
inGroup job action = mask $ \restore -> do
  started@(input, _, _, process) <- createProcess job {create_group = True}
  group <- getPid process
  restore (action started) `onException` (mapM_ (orNothing . hClose) input `finally` endGroup process group)

-- | The same of several.
inGroups :: [CreateProcess] -> ([Started] -> IO a) -> IO a
inGroups [] action = action []
inGroups (job : jobs) action = inGroup job (\started -> inGroups jobs (action . (started :)))

-- | How it ended and what it wrote. An input that is 'CreatePipe' ends when it has: or when this
-- process does.
outputOf :: CreateProcess -> IO (ExitCode, String, String)
outputOf job = inGroup job {std_out = CreatePipe, std_err = CreatePipe} $ \(input, output, errors, process) -> do
  said <- newEmptyMVar
  _ <- forkIO (whole errors >>= putMVar said)
  printed <- whole output
  code <- waitForProcess process
  mapM_ hClose input
  (,,) code printed <$> takeMVar said
  where
    whole = maybe (pure "") (\h -> do text <- hGetContents h; text <$ evaluate (length text))

-- | Asked to end; after 'patience' made to, at once if we are told again to end. Then what is left of its
-- group, which may need a moment to clean up.
endGroup :: ProcessHandle -> Maybe Pid -> IO ()
endGroup process group = do
  terminateProcess process
  gone <- (timeout patience (waitForProcess process) >> maybe (pure True) (vanishes (20 :: Int)) group) `onException` kill
  unless gone kill
  void (waitForProcess process)
  where
    -- The number of a group that is gone may become a stranger's.
    vanishes tries own = do
      there <- isJust <$> orNothing (signalProcessGroup nullSignal own)
      if there && tries > 0 then threadDelay 50000 >> vanishes (tries - 1) own else pure (not there)
    kill = forM_ group (orNothing . signalProcessGroup sigKILL)

-- | Microseconds.
patience :: Int
patience = 10000000
