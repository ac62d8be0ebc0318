-- | Commands that do not outlive us, however we end. Each has a process group of its own, and when
-- we are killed a reaper beside us kills that (@native\/base\/reaper.h@, as in @maru launch@).
module Maru.Cli.Reaper
  ( Reaper,
    withReaper,
    underReaper,
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

-- | The program, where the reaper is told, and where who becomes a command finds that.
data Reaper = Reaper !FilePath !Handle !FilePath

-- | The program is @maru-reaper@. That it was killed is said: from then on no group would have been
-- ended.
withReaper :: FilePath -> (Reaper -> IO a) -> IO a
withReaper program act = bracket begin end (act . fst)
  where
    begin = do
      path <- makeAbsolute program
      (input, _, _, process) <- createProcess (proc path []) {std_in = CreatePipe}
      told <- maybe (problem internal "the reaper has no input") handleToFd input
      -- No command inherits it: a command that held it when we are killed would keep the reaper
      -- waiting.
      setFdOption told CloseOnExec True
      handle <- fdToHandle told
      hSetBuffering handle NoBuffering
      self <- getProcessID
      pure (Reaper path handle ("/proc/" ++ show self ++ "/fd/" ++ show told), process)
    end (reaper@(Reaper _ handle _), process) = do
      tell reaper 0
      void (orNothing (hClose handle))
      code <- waitForProcess process
      unless (code == ExitSuccess) $
        warn "the reaper was killed: had maru been killed, too, what it had begun would have gone on"

-- | As in @reaper.h@. A reaper that somebody killed is no reason to die.
tell :: Reaper -> Pid -> IO ()
tell (Reaper _ handle _) group = void (orNothing (ByteString.hPut handle bytes))
  where
    bytes = Lazy.toStrict (runPut (putInt32host (fromIntegral group)))

-- | In a session of its own if the job says so, else in a group of its own alone. What is measured
-- together stays in one session, by which kernels share out CPUs. It begins when the reaper knows
-- its group. What cannot be executed ends with 126 or 127.
underReaper :: Reaper -> CreateProcess -> CreateProcess
underReaper (Reaper program _ told) job =
  job
    { cmdspec = RawCommand program (told : words' (cmdspec job)),
      create_group = not (new_session job)
    }
  where
    words' (RawCommand command arguments) = command : arguments
    words' (ShellCommand text) = ["/bin/sh", "-c", text]

-- | Of a command that is over: what it has left running ends with it.
endGroup :: Reaper -> Pid -> IO ()
endGroup reaper group = do
  void (orNothing (signalProcessGroup sigKILL group))
  forgetGroup reaper group

-- | Of a group that nobody is left in.
forgetGroup :: Reaper -> Pid -> IO ()
forgetGroup reaper = tell reaper . negate
