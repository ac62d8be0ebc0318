{-# LANGUAGE OverloadedStrings #-}

-- | The sources of SPLASH-3, which are not maru's (@MARU_SPLASH@ names the folder that holds them), compiled
-- unchanged with their own threads and as nodes.
module SplashSources
  ( Way (..),
    withSources,
    commandIn,
  )
where

import Control.Exception (bracket)
import Control.Monad (forM_)
import Data.Aeson (object, (.=))
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Installed (commandPath)
import Maru.Cli.Output (Figures (..))
import Maru.Cli.Reaper (Reaper)
import System.Directory (getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath (takeDirectory, (</>))
import System.Posix.Temp (mkdtemp)
import System.Process

data Way = Threads | Nodes
  deriving (Eq)

-- | A copy of the sources for each way, with those folders compiled and those files written beside them. The
-- action gets the folder of a way. Without sources it says so.
withSources :: Reaper -> (String -> IO ()) -> [Way] -> [FilePath] -> [(FilePath, String)] -> ((Way -> FilePath) -> IO Figures) -> IO Figures
withSources reaper say ways folders files act = do
  sources <- lookupEnv "MARU_SPLASH"
  case sources of
    Just folder -> bracket (getTemporaryDirectory >>= mkdtemp . (</> "maru-splash-")) removeDirectoryRecursive $ \work -> do
      let copy way = work </> wayName way
      forM_ ways $ \way -> compiled reaper say (folder </> "codes") way (copy way) folders
      sequence_ [writeFile (copy way </> path) text | way <- ways, (path, text) <- files]
      act copy
    Nothing -> pure Figures {figuresLine = "not measured: " ++ why, figuresTables = [], figuresPlots = [], figuresData = object ["not_measured" .= why]}
  where
    why = "MARU_SPLASH names no folder with the sources of SPLASH-3 (github.com/SakalisC/Splash-3)"

wayName :: Way -> String
wayName way = if way == Threads then "threads" else "nodes"

compiled :: Reaper -> (String -> IO ()) -> FilePath -> Way -> FilePath -> [FilePath] -> IO ()
compiled reaper say codes way copy folders = do
  cc <- (</> "maru-cc") . takeDirectory <$> commandPath
  macros <- concat . lines <$> printed reaper cc ["macros"]
  _ <- printed reaper "cp" ["-r", codes, copy]
  forM_ folders $ \folder -> do
    say ("compiling " ++ folder ++ " for " ++ wayName way)
    printed reaper "make" (["-s", "-C", copy </> folder] ++ concat [["CC=" ++ cc, "MACROS=" ++ macros] | way == Nodes])

printed :: Reaper -> FilePath -> [String] -> IO String
printed reaper program arguments = do
  (code, said, errors) <- outputOf reaper (proc program arguments) {std_in = CreatePipe}
  case code of
    ExitSuccess -> pure said
    ExitFailure n -> problem unavailable (unwords (program : arguments) ++ " ended with status " ++ show n ++ ": " ++ unwords (lines errors))

-- | A line for the shell that is run in the folder, its output dropped.
commandIn :: FilePath -> String -> [String]
commandIn folder line = ["sh", "-c", "cd '" ++ folder ++ "' && exec " ++ line ++ " >/dev/null"]
