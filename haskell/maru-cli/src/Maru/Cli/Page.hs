-- | Pages as files.
module Maru.Cli.Page
  ( module Maru.View.Page,
    isPage,
    writePage,
  )
where

import qualified Data.ByteString.Lazy as Lazy
import qualified Data.Text as Text
import Data.Text.Encoding (encodeUtf8)
import Maru.Cli.Output (writeTo)
import Maru.View.Page
import System.FilePath (takeExtension)

-- | A report is a page by its name.
isPage :: FilePath -> Bool
isPage file = takeExtension file == ".html"

-- | UTF-8; as 'writeTo'.
writePage :: FilePath -> String -> IO ()
writePage file = writeTo file . Lazy.fromStrict . encodeUtf8 . Text.pack
