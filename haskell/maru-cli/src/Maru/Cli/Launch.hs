-- | @maru launch@: becomes the agent that starts the nodes of a job on this host
-- and watches them.
module Maru.Cli.Launch
  ( launchCommand,
  )
where

import Control.Exception (try)
import Maru.Cli.Bench.Side (helperPath)
import Maru.Cli.Exit
import Options.Applicative hiding (internal)
import System.Exit (ExitCode)
import System.Posix.Process (executeFile)

launchCommand :: Mod CommandFields (IO ExitCode)
launchCommand =
  command "launch" $
    info
      (launch <$> nodes <*> some (strArgument (metavar "[--] COMMAND...")))
      ( progDesc "Run a program on several nodes that share memory (maru/dsm.h)"
          <> noIntersperse
          <> footer
            "Example: maru launch -n 4 -- ./ocean   |   Status: that of the first node that failed; 75 a node was lost, 125 maru failed, 126 cannot execute, 127 not found, 128+N ended by signal N."
      )
  where
    nodes = option (auto >>= bounded) (short 'n' <> metavar "N" <> help "So many nodes, all on this host (1 to 256)")
    bounded n
      | n >= 1 && n <= 256 = pure n
      | otherwise = readerError "there may be 1 to 256 nodes"

launch :: Int -> [String] -> IO ExitCode
launch nodes words' = do
  agent <- helperPath "maru-launch"
  started <- try (executeFile agent False (["-n", show nodes, "--"] ++ words') Nothing)
  case started of
    Left e -> problem maruFailed ("cannot start " ++ agent ++ ": " ++ reason e)
    Right code -> pure code
