-- | Commands that do not outlive us, however we end: each has a process group of its own, and when we
-- are killed a guard beside us kills that (@native\/base\/guard.h@, as in @maru launch@).
module Maru.Cli.Guard
  ( Guard,
    withGuard,
    guarded,
    endGroup,
    forgetGroup,
  )
where

import Control.Exception (bracket)
import Control.Monad (unless, void)
import Data.Binary.Put (putInt32host, runPut)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import Maru.Cli.Exit
import System.Directory (makeAbsolute)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.IO (FdOption (CloseOnExec), fdToHandle, handleToFd, setFdOption)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigKILL, signalProcessGroup)
import System.Process

-- | The program, where the guard is told, and where who becomes a command finds that.
data Guard = Guard !FilePath !Handle !FilePath

-- | The program is @maru-guard@. That it was killed is said: from then on nobody was guarded.
withGuard :: FilePath -> (Guard -> IO a) -> IO a
withGuard program act = bracket begin end (act . fst)
  where
    begin = do
      path <- makeAbsolute program
      (input, _, _, process) <- createProcess (proc path []) {std_in = CreatePipe}
      told <- maybe (problem internal "the guard has no input") handleToFd input
      -- No command inherits it: whoever still held it when we are killed would keep the guard waiting.
      setFdOption told CloseOnExec True
      handle <- fdToHandle told
      hSetBuffering handle NoBuffering
      self <- getProcessID
      pure (Guard path handle ("/proc/" ++ show self ++ "/fd/" ++ show told), process)
    end (guard@(Guard _ handle _), process) = do
      tell guard 0
      void (orNothing (hClose handle))
      code <- waitForProcess process
      unless (code == ExitSuccess) $
        warn "the guard was killed: had maru been killed, too, what it had begun would have gone on"

-- | As in @guard.h@. A guard that somebody killed is no reason to die.
tell :: Guard -> Pid -> IO ()
tell (Guard _ handle _) group = void (orNothing (ByteString.hPut handle bytes))
  where
    bytes = Lazy.toStrict (runPut (putInt32host (fromIntegral group)))

-- | In a session of its own if the job says so, else in a group of its own alone: what is measured
-- together stays in one session, by which kernels share out CPUs. It begins when the guard knows its
-- group. What cannot be executed ends with 126 or 127.
guarded :: Guard -> CreateProcess -> CreateProcess
guarded (Guard program _ told) job =
  job
    { cmdspec = RawCommand program (told : words' (cmdspec job)),
      create_group = not (new_session job)
    }
  where
    words' (RawCommand command arguments) = command : arguments
    words' (ShellCommand text) = ["/bin/sh", "-c", text]

-- | Of a command that is over: what it has left running ends with it.
endGroup :: Guard -> Pid -> IO ()
endGroup guard group = do
  void (orNothing (signalProcessGroup sigKILL group))
  forgetGroup guard group

-- | Of a group that nobody is left in.
forgetGroup :: Guard -> Pid -> IO ()
forgetGroup guard = tell guard . negate
