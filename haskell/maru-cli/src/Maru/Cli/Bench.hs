-- | @maru bench@: becomes @maru-bench@, which has the experiments.
module Maru.Cli.Bench
  ( bench,
    benchCommand,
  )
where

import Maru.Cli.Exit (problem, unavailable)
import Maru.Cli.Installed (helperAt, notInstalled)
import Maru.Cli.Report (become)
import Options.Applicative
import System.Exit (ExitCode)

-- | With these arguments. Does not return; ends with status 69 where the program is not there.
bench :: [String] -> IO ExitCode
bench arguments = helperAt "maru-bench" >>= either (problem unavailable . named . notInstalled) (\program -> become unavailable program arguments)
  where
    named = (++ " (on Debian: package maru-bench)")

-- | For the list of commands.
benchCommand :: Mod CommandFields (IO ExitCode)
benchCommand =
  command "bench" $
    info
      (bench <$> many (strArgument (metavar "EXPERIMENT...")))
      (progDesc "Measure, and write raw data, plots and one report")
