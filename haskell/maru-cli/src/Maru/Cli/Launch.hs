-- | @maru launch@: becomes the agent that starts the nodes of a job and watches
-- them.
module Maru.Cli.Launch
  ( launchCommand,
  )
where

import Control.Exception (try)
import Data.List (intercalate)
import Maru.Cli.Bench.Side (helperPath)
import Maru.Cli.Exit
import Options.Applicative hiding (internal)
import System.Environment (setEnv)
import System.Exit (ExitCode)
import System.Posix.Process (executeFile)

-- | What the nodes find in their environment.
data Settings = Settings
  { memory :: !(Maybe Int),
    access :: !(Maybe String),
    globals :: !(Maybe String)
  }

launchCommand :: Mod CommandFields (IO ExitCode)
launchCommand =
  command "launch" $
    info
      (launch <$> nodes <*> hosts <*> settings <*> some (strArgument (metavar "[--] COMMAND...")))
      ( progDesc "Run a program on several nodes that share memory (maru/dsm.h)"
          <> noIntersperse
          <> footer
            "Example: maru launch -n 4 -- ./ocean   |   Status: that of the first node that failed; 75 a node was lost, 125 maru failed, 126 cannot execute, 127 not found, 128+N ended by signal N."
      )
  where
    nodes = option (between 1 256) (short 'n' <> metavar "N" <> help "So many nodes (1 to 256)")
    hosts = optional (strOption (long "hosts" <> metavar "FILE" <> action "file" <> help "On the hosts that it names, a line each: HOST [NODES]; over ssh (default: all on this host)"))

settings :: Parser Settings
settings =
  Settings
    <$> optional (option (between 1 1048576) (long "memory" <> metavar "MIB" <> help "So much shared memory at most (default 256; PARMACS programs 4096)"))
    <*> choice "access" ["userfaultfd", "mprotect"] "How accesses to shared memory are seen (default: what works, in this order)"
    <*> choice "globals" ["private", "shared"] "Global variables of PARMACS programs (default private)"

between :: Int -> Int -> ReadM Int
between least most = auto >>= bounded
  where
    bounded n
      | n >= least && n <= most = pure n
      | otherwise = readerError ("a number from " ++ show least ++ " to " ++ show most ++ " is needed")

choice :: String -> [String] -> String -> Parser (Maybe String)
choice name words' text =
  optional (option (maybeReader known) (long name <> metavar (intercalate "|" words') <> completeWith words' <> help text))
  where
    known word = if word `elem` words' then Just word else Nothing

launch :: Int -> Maybe FilePath -> Settings -> [String] -> IO ExitCode
launch nodes hosts asked words' = do
  agent <- helperPath "maru-launch"
  export "MARU_DSM_MIB" (show <$> memory asked)
  export "MARU_DSM_ACCESS" (access asked)
  export "MARU_PARMACS_GLOBALS" (globals asked)
  started <- try (executeFile agent False (["-n", show nodes] ++ maybe [] (\file -> ["--hosts", file]) hosts ++ ["--"] ++ words') Nothing)
  case started of
    Left e -> problem maruFailed ("cannot start " ++ agent ++ ": " ++ reason e)
    Right code -> pure code
  where
    export name = mapM_ (setEnv name)
