-- | The one finder of what is installed with the command.
--
-- Libraries that @maru run@ loads into programs lie in @lib\/maru@, helper programs in
-- @libexec\/maru@. Both lie below one prefix: that of the command itself (@bin@ is beside them), or
-- the one that @MARU_PREFIX@ names. Each question looks at the file system anew.
module Maru.Cli.Installed
  ( commandPath,
    commandItself,
    libraryAt,
    libraryPath,
    helperAt,
    helperPath,
    notInstalled,
    unloadable,
    installedParts,
    installedBuild,

    -- * For tests
    prefixOf,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (filterM)
import Data.Time.Format.ISO8601 (iso8601Show)
import Maru.Cli.Exit
import System.Directory (doesFileExist, doesPathExist, getFileSize, getModificationTime, listDirectory, makeAbsolute)
import System.Environment (getExecutablePath, lookupEnv)
import System.FilePath (takeDirectory, takeFileName, (</>))

-- | From @MARU_PREFIX@ (empty is unset) and the path of the command or of a helper program.
prefixOf :: Maybe FilePath -> FilePath -> FilePath
prefixOf asked executable = case asked of
  Just given | not (null given) -> given
  _ | takeFileName folder == "maru" && takeFileName above == "libexec" -> takeDirectory above
  _ -> above
  where
    folder = takeDirectory executable
    above = takeDirectory folder

-- | The command @maru@ of this prefix, for helper programs that start it.
commandPath :: IO FilePath
commandPath = (</> "bin" </> "maru") <$> prefix

-- | The program that runs now, wherever it lies.
commandItself :: IO FilePath
commandItself = try getExecutablePath >>= either without pure
  where
    without :: IOException -> IO a
    without e = do
      mounted <- doesPathExist "/proc/self"
      problem unavailable $
        if mounted
          then "/proc/self/exe cannot be read: " ++ reason e
          else "/proc is not mounted: maru finds its own parts, and other processes, there; mount it (mount -t proc proc /proc)"

-- | A library that is loaded into programs; 'Left': where it is not.
libraryAt :: String -> IO (Either FilePath FilePath)
libraryAt = below ("lib" </> "maru")

-- | A program that runs beside the command or instead of it; 'Left': where it is not.
helperAt :: String -> IO (Either FilePath FilePath)
helperAt = below ("libexec" </> "maru")

-- | 'libraryAt' for what cannot go on without: ends with status 69.
libraryPath :: String -> IO FilePath
libraryPath name = libraryAt name >>= needed

-- | 'helperAt' for what cannot go on without: ends with status 69.
helperPath :: String -> IO FilePath
helperPath name = helperAt name >>= needed

-- | What to say of a path where nothing is.
notInstalled :: FilePath -> String
notInstalled path = path ++ " is not there; install maru wholly or set MARU_PREFIX"

-- | Why a library at this path cannot be put before a program's own, if it cannot.
unloadable :: FilePath -> Maybe String
unloadable path
  -- The dynamic linker splits LD_PRELOAD there and knows no escape.
  | any (`elem` ": \t") path = Just ("the linker takes no library from " ++ takeDirectory path ++ ", for the space or colon in that path")
  | otherwise = Nothing

-- | Which build this is: how many bytes its programs and libraries have, and since when.
installedBuild :: IO String
installedBuild = do
  root <- prefix
  files <- concat <$> mapM (filesIn . (root </>)) ["bin", "lib", "lib" </> "maru", "libexec" </> "maru"]
  bytes <- mapM getFileSize files
  times <- mapM getModificationTime files
  pure (show (sum bytes) ++ " bytes" ++ concat [", " ++ iso8601Show (maximum times) | not (null times)])
  where
    filesIn folder = either none (filterM doesFileExist . map (folder </>)) =<< try (listDirectory folder)
    none :: IOException -> IO [FilePath]
    none _ = pure []

-- | What every build installs for users, with its finder and what cannot be used without it. Parts
-- that depend on what the build found (MPIs, libbpf) are not in here: the rooms say which there
-- are. Nor are the experiments, which are a package of their own: @maru bench@ says so.
installedParts :: [(String -> IO (Either FilePath FilePath), String, String)]
installedParts =
  [ (helperAt, "maru-supervise", "maru run"),
    (helperAt, "maru-reaper", "maru tune, maru bench"),
    (helperAt, "maru-steer", "maru run --io, maru attach"),
    (helperAt, "maru-boost", "maru boost"),
    (helperAt, "maru-launch", "maru launch"),
    (libraryAt, "libmaru-first.so", "maru run with programs that could not run with a library"),
    (libraryAt, "libmaru-lock.so", "maru run --lock"),
    (libraryAt, "libmaru-lock-profile.so", "maru run --lock-profile"),
    (libraryAt, "libmaru-io.so", "maru run --io-delegate"),
    (libraryAt, "libmaru-poll.so", "maru run --wait-poll"),
    (libraryAt, "libmaru-mpi.so", "maru run --wait for MPI ranks")
  ]

below :: FilePath -> String -> IO (Either FilePath FilePath)
below folder name = do
  path <- (\found -> found </> folder </> name) <$> prefix
  there <- doesFileExist path
  pure (if there then Right path else Left path)

-- | Absolute: what is preloaded is looked for by programs in other folders, too.
prefix :: IO FilePath
prefix = (prefixOf <$> lookupEnv "MARU_PREFIX" <*> commandItself) >>= makeAbsolute

needed :: Either FilePath FilePath -> IO FilePath
needed = either (problem unavailable . notInstalled) pure
