-- | The command @maru@: one subcommand a module, each a shell that rooms plug
-- into.
--
-- Exit status: 0 done, 64 usage, 65 bad input data, 69 something needed is not
-- available, 70 internal error; @maru run@: see "Maru.Cli.Run".
module Maru.Cli.Main
  ( maru,

    -- * For tests
    commandLineOf,
  )
where

import Control.Exception (try)
import Data.Version (showVersion)
import Maru.Cli.Bench (bench, benchCommand)
import Maru.Cli.CommandLine (parsed, program)
import Maru.Cli.Doctor (doctorCommand)
import Maru.Cli.Exit (orNothing, reason, warn)
import Maru.Cli.Room (Room)
import Maru.Cli.Room.Dsm (launchCommand, reportLaunch)
import Maru.Cli.Room.Steer (attachCommand, steerRun)
import Maru.Cli.Room.Wait (boostCommand)
import Maru.Cli.Run (reportRun, runCommand)
import Maru.Cli.Sim (simCommand)
import Maru.Cli.Similar (similarCommand)
import Maru.Cli.Top (topCommand)
import Maru.Cli.Tune (tuneSubcommand)
import Maru.Native.Probe (dieOf, keepOwnDescriptors)
import Options.Applicative
import Paths_maru_cli (version)
import System.Exit (ExitCode (..))
import System.IO (hFlush, stderr, stdout)
import System.Posix.Process (exitImmediately)

-- | The whole command, with these rooms.
maru :: [Room] -> IO ()
maru rooms = keepOwnDescriptors >> program dispatch
  where
    dispatch ("report-run" : arguments) = reportRun rooms arguments >>= atOnce
    dispatch ("steer-run" : arguments) = steerRun arguments
    dispatch ("report-launch" : arguments) = reportLaunch arguments >>= atOnce
    -- Its options, --help among them, are its program's to read.
    dispatch ("bench" : arguments) = bench arguments
    dispatch arguments = parsed "maru" (commandLineOf rooms) arguments
    -- At its ordinary end the run-time system waits for its timer's next tick: up to 10 ms that
    -- every run would take longer. All files are closed by now.
    atOnce status = do
      printed <- try (hFlush stdout)
      mapM_ (\e -> warn ("cannot print all that was measured: " ++ reason e)) (either Just (const Nothing) printed)
      _ <- orNothing (hFlush stderr)
      case status of
        ExitFailure n | n < 0 -> dieOf (fromIntegral (negate n)) >> leave (ExitFailure (128 - n))
        _ -> leave status
    leave status = status <$ exitImmediately status

commandLineOf :: [Room] -> ParserInfo (IO ExitCode)
commandLineOf rooms =
  info
    (subcommands <**> helper <**> versionOption)
    ( fullDesc
        <> progDesc "Parallel programs whose parts do not contend: run, watch, check, tune, simulate, measure"
        <> footer "Status: 0 done, 64 usage, 65 bad input data, 69 something needed is not available, 70 internal error."
    )
  where
    subcommands =
      hsubparser
        ( metavar "COMMAND"
            <> similarCommand
            <> runCommand rooms
            <> launchCommand
            <> attachCommand
            <> boostCommand
            <> topCommand rooms
            <> doctorCommand rooms
            <> simCommand rooms
            <> tuneSubcommand rooms
            <> benchCommand
        )
    versionOption = infoOption ("maru " ++ showVersion version) (long "version" <> help "Print the version and end")
