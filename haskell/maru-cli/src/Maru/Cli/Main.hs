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

import Data.Version (showVersion)
import GHC.IO.Encoding (mkTextEncoding, setFileSystemEncoding, setLocaleEncoding)
import Maru.Cli.Attach (attachCommand)
import Maru.Cli.Bench (benchCommand)
import Maru.Cli.Bench.Io.Irqs (irqsRun)
import Maru.Cli.Boost (boostCommand)
import Maru.Cli.Doctor (doctorCommand)
import Maru.Cli.Exit
import Maru.Cli.Launch (launchCommand, reportLaunch)
import Maru.Cli.Room (Room)
import Maru.Cli.Run (reportRun, runCommand)
import Maru.Cli.Sim (simCommand)
import Maru.Cli.Similar (similarCommand)
import Maru.Cli.Steer.Control (steerRun)
import Maru.Cli.Top (topCommand)
import Maru.Cli.Tune (tuneSubcommand)
import Options.Applicative hiding (internal)
import Options.Applicative.Help.Types (renderHelp)
import Paths_maru_cli (version)
import System.Environment (getArgs)
import System.Exit (ExitCode (..), exitWith)
import System.IO (hSetEncoding, stderr, stdout, utf8)

-- | The whole command, with these rooms.
maru :: [Room] -> IO ()
maru rooms = do
  -- Figures hold µ and arguments any byte, whatever the locale says.
  setLocaleEncoding utf8
  mkTextEncoding "UTF-8//ROUNDTRIP" >>= setFileSystemEncoding
  mapM_ (`hSetEncoding` utf8) [stdout, stderr]
  reporting (getArgs >>= dispatch >>= exitWith)
  where
    dispatch ("report-run" : arguments) = reportRun rooms arguments
    dispatch ("steer-run" : arguments) = steerRun arguments
    dispatch ("steer-irqs" : arguments) = irqsRun arguments
    dispatch ("report-launch" : arguments) = reportLaunch arguments
    dispatch arguments = case execParserPure preferences (commandLineOf rooms) arguments of
      Success run -> run
      CompletionInvoked result -> execCompletion result "maru" >>= putStr >> pure ExitSuccess
      Failure failure -> answer (execFailure failure "maru")
    preferences = prefs (columns 100)

-- | Help is printed; anything else is one line and status 64.
answer :: (ParserHelp, ExitCode, Int) -> IO ExitCode
answer (text, code, width) = case code of
  ExitSuccess -> ExitSuccess <$ putStrLn (renderHelp width text)
  ExitFailure _ -> problem usage (oneLine ++ "; see 'maru --help'")
  where
    oneLine = unwords (words (renderHelp 10000 mempty {helpError = helpError text}))

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
            <> benchCommand rooms
        )
    versionOption = infoOption ("maru " ++ showVersion version) (long "version" <> help "Print the version and end")
