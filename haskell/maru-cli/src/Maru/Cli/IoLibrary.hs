-- | Where @libmaru-io.so@ is installed.
module Maru.Cli.IoLibrary
  ( ioLibrary,
  )
where

import System.Directory (doesFileExist)
import System.Environment (getExecutablePath, lookupEnv)
import System.FilePath (takeDirectory, (</>))

-- | Where it is expected, by @MARU_LIBEXEC@ or beside the command's @bin@; whether it is there.
ioLibrary :: IO (FilePath, Bool)
ioLibrary = do
  libexec <- lookupEnv "MARU_LIBEXEC"
  executable <- getExecutablePath
  let prefix = takeDirectory . takeDirectory $ case libexec of
        Just folder | not (null folder) -> folder
        _ -> executable
      path = prefix </> "lib" </> "maru" </> "libmaru-io.so"
  (,) path <$> doesFileExist path
