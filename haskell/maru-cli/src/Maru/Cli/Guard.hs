-- | Commands that do not outlive us, however we end: each has a session of its own, and when we are
-- killed a guard beside us kills its process group (@native\/base\/guard.h@, as in @maru launch@).
module Maru.Cli.Guard
  ( Guard,
    withGuard,
    guarded,
    endGroup,
    runGuarded,
  )
where

import Control.Exception (bracket, finally, mask, onException)
import Control.Monad (void, when)
import Data.Binary.Put (putInt32host, runPut)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import Data.Maybe (isNothing)
import Maru.Cli.Exit
import System.Exit (ExitCode)
import System.IO
import System.Posix.IO (FdOption (CloseOnExec), fdToHandle, handleToFd, setFdOption)
import System.Posix.Signals (sigKILL, sigTERM, signalProcessGroup)
import System.Posix.Types (Fd)
import System.Process
import System.Timeout (timeout)

-- | The program, where the guard is told, and the number of that for who becomes a command.
data Guard = Guard !FilePath !Handle !Fd

-- | The program is @maru-guard@.
withGuard :: FilePath -> (Guard -> IO a) -> IO a
withGuard program act = bracket begin end (act . fst)
  where
    begin = do
      (input, _, _, process) <- createProcess (proc program []) {std_in = CreatePipe}
      told <- maybe (problem internal "the guard has no input") handleToFd input
      -- Every command inherits it, and closes it before it begins.
      setFdOption told CloseOnExec False
      handle <- fdToHandle told
      hSetBuffering handle NoBuffering
      pure (Guard program handle told, process)
    end (guard@(Guard _ handle _), process) = do
      tell guard 0
      void (orNothing (hClose handle))
      void (waitForProcess process)

-- | As in @guard.h@. A guard that somebody killed is no reason to die.
tell :: Guard -> Pid -> IO ()
tell (Guard _ handle _) group = void (orNothing (ByteString.hPut handle bytes))
  where
    bytes = Lazy.toStrict (runPut (putInt32host (fromIntegral group)))

-- | It begins when the guard knows its group. What cannot be executed ends with 126 or 127.
guarded :: Guard -> CreateProcess -> CreateProcess
guarded (Guard program _ told) job =
  job
    { cmdspec = RawCommand program (show told : words' (cmdspec job)),
      -- By whoever becomes the command, too; here so that the group is there when we go on.
      new_session = True
    }
  where
    words' (RawCommand command arguments) = command : arguments
    words' (ShellCommand text) = ["/bin/sh", "-c", text]

-- | Of a command that is over: what it has left running ends with it.
endGroup :: Guard -> Pid -> IO ()
endGroup guard group = do
  void (orNothing (signalProcessGroup sigKILL group))
  tell guard (negate group)

-- | Its status if it ends within so many seconds. It is over when we leave, and all of its group.
runGuarded :: Guard -> Maybe Double -> CreateProcess -> IO (Maybe ExitCode)
runGuarded guard most job = mask $ \restore -> do
  (_, _, _, child) <- createProcess (guarded guard job)
  group <- getPid child
  code <- restore (maybe (fmap Just) (timeout . round . (* 1e6)) most (waitForProcess child)) `onException` end child group
  code <$ end child group
  where
    -- Asked to, then made to.
    end child group = do
      lives <- isNothing <$> getProcessExitCode child
      when lives (mapM_ (orNothing . signalProcessGroup sigTERM) group >> void (timeout 5000000 (waitForProcess child)))
        `finally` mapM_ (endGroup guard) group
      void (waitForProcess child)
