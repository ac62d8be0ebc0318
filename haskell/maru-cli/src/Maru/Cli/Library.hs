-- | Where the libraries are that @maru run@ loads into programs.
module Maru.Cli.Library
  ( libraryFolder,
  )
where

import System.Environment (getExecutablePath, lookupEnv)
import System.FilePath (takeDirectory, (</>))

-- | Where @MARU_LIB@ says, else beside the command's @bin@.
libraryFolder :: IO FilePath
libraryFolder = do
  asked <- lookupEnv "MARU_LIB"
  executable <- getExecutablePath
  pure $ case asked of
    Just folder | not (null folder) -> folder
    _ -> takeDirectory (takeDirectory executable) </> "lib" </> "maru"
