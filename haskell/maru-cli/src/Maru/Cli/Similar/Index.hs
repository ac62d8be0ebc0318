{-# LANGUAGE OverloadedStrings #-}

-- | @maru similar index@: keeps submissions, ready to be compared with new ones.
--
-- Exit status: 0 done, 64 usage, 65 a path that cannot be used, nothing usable in it, an index that
-- is damaged or that another command writes, 69 an index that cannot be written.
module Maru.Cli.Similar.Index
  ( indexCommand,
  )
where

import qualified Data.ByteString as B
import Maru (parMapWith)
import Maru.Cli.Exit (badInput)
import Maru.Cli.Progress (withProgress)
import Maru.Cli.Similar.Settings
import Maru.Similar
import Maru.Similar.Extend (extend, extendedAll, extendedLeftOut)
import Maru.Similar.Told
import Options.Applicative
import System.Exit (ExitCode (..))
import System.IO (stdout)

indexCommand :: Mod CommandFields (IO ExitCode)
indexCommand =
  command
    "index"
    ( info
        (index <$> strArgument (metavar "DIR" <> action "directory" <> help "The index: a new folder, or one to add to") <*> reading)
        ( progDesc "Keep submissions in an index, for maru similar --index"
            <> footer "Examples: maru similar index archive/ 2023/ 2024.zip   |   maru similar index archive/ 2025/ --base handout/   |   Status: 0, 64 usage, 65 bad input, 69 cannot write."
        )
    )
    <> metavar "index ..."

index :: FilePath -> Settings -> IO ExitCode
index dir s = orStopped $ do
  options <- mapOptions s
  folder <- rawPath dir
  (config, without) <- configOf s (languagesAsked s)
  wanted <- collectionAsked (configGrammars config) s
  corpus <- withProgress "reading" (\tell -> readCollection wanted {collectionTell = tell, collectionLongNames = True}) >>= either badPath pure
  made <- withProgress "indexing" (\tell -> extend (parMapWith options) config tell folder corpus)
  mapM_ say (toldLeftOut False (extendedLeftOut made) ++ toldRead False corpus)
  let (lines', summary) = toldExtended folder made
  if null (corpusEntries corpus) || extendedAll made == 0
    then stop badInput (nothingUsable (language s) (collectionPaths wanted) (extendedLeftOut made))
    else ExitSuccess <$ (withoutGrammars without corpus *> mapM_ say lines' *> B.hPut stdout summary)
