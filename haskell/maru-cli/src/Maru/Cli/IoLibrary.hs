-- | Where @libmaru-io.so@ is installed.
module Maru.Cli.IoLibrary
  ( ioLibrary,
  )
where

import Maru.Cli.Library (libraryFolder)
import System.Directory (doesFileExist)
import System.FilePath ((</>))

-- | Where it is expected; whether it is there.
ioLibrary :: IO (FilePath, Bool)
ioLibrary = do
  path <- (</> "libmaru-io.so") <$> libraryFolder
  (,) path <$> doesFileExist path
