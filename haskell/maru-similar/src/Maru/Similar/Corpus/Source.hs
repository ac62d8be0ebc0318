-- | A source file.
module Maru.Similar.Corpus.Source
  ( Source (..),
    javaSource,
  )
where

import Data.ByteString (ByteString)
import Maru.Similar.Language (Language (..))
import System.Posix.ByteString (RawFilePath)

data Source = Source
  { sourceLanguage :: !Language,
    -- | Within an archive, the archive's path and the member's.
    sourcePath :: !RawFilePath,
    -- | As UTF-8 ('Maru.Similar.Corpus.Encoding.decoded').
    sourceBytes :: !ByteString
  }
  deriving (Eq, Show)

-- | One of Java.
javaSource :: RawFilePath -> ByteString -> Source
javaSource = Source Java
