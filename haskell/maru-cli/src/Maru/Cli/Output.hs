-- | What every subcommand prints with: tables, JSON, files. @-@ as a file is
-- standard output everywhere.
module Maru.Cli.Output
  ( -- * Tables and words
    module Maru.View.Table,

    -- * Figures
    Figures (..),
    printFigures,

    -- * JSON
    JsonTo,
    jsonTo,
    writeJson,
    jsonLine,

    -- * Files
    writeTo,
    oneToOutput,
    readInput,
    makeFolder,

    -- * Colours
    paint,
    Colour (..),
    wantsColour,
  )
where

import Control.Exception (try)
import Data.Aeson (Value, encode)
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Lazy.Char8 as LazyChars
import Data.List (intercalate)
import Maru.Cli.Exit
import Maru.Cli.WholeFile
import Maru.Control.Plot (Plot)
import Maru.View.Plain
import Maru.View.Table
import Options.Applicative hiding (internal)
import qualified Options.Applicative as Options
import System.Directory (createDirectoryIfMissing)
import System.Environment (lookupEnv)
import System.IO (Handle, hIsTerminalDevice)

-- | What a simulation or an experiment has to show.
data Figures = Figures
  { -- | One line: what was found.
    figuresLine :: !String,
    -- | With their titles.
    figuresTables :: ![(String, Table)],
    figuresPlots :: ![Plot],
    -- | The raw data.
    figuresData :: !Value
  }

-- | Tables with their titles, then the line.
printFigures :: Figures -> IO ()
printFigures figures = do
  mapM_ titled (figuresTables figures)
  putStrLn (figuresLine figures)
  where
    titled (title, table) = mapM_ putStrLn ((title : renderTable table) ++ [""])

-- | Where JSON goes, if anywhere.
type JsonTo = Maybe FilePath

-- | @--json@ and @--json=FILE@.
jsonTo :: Parser JsonTo
jsonTo =
  optional $
    flag' "-" (long "json" <> help "Print JSON instead of the table (--json=FILE: write it to FILE, print the table)")
      <|> strOption (long "json" <> metavar "FILE" <> Options.internal)

-- | As 'writeTo'.
writeJson :: FilePath -> Value -> IO ()
writeJson file = writeTo file . jsonLine

-- | One line, ended; a terminal can bear it.
jsonLine :: Value -> Lazy.ByteString
jsonLine = (<> LazyChars.pack "\n") . plainJson . encode

-- | The file is whole or as it was before. Ends with status 69 if it cannot be written.
writeTo :: FilePath -> Lazy.ByteString -> IO ()
writeTo "-" content = Lazy.putStr content
writeTo file content = do
  written <- try (replaceFile file (`Lazy.hPut` content))
  case written of
    Right () -> pure ()
    Left e -> problem unavailable ("cannot write " ++ file ++ ": " ++ reason e)

-- | Ends with status 64 where several of these options have standard output as their file: two
-- documents in one stream are none. Else whether one has it: then nothing else is printed there.
oneToOutput :: [(String, Maybe FilePath)] -> IO Bool
oneToOutput files = case [name | (name, Just "-") <- files] of
  names@(_ : _ : _) -> problem usage ("only one of " ++ intercalate " and " names ++ " can go to standard output")
  names -> pure (not (null names))

-- | What a file of 64 MiB at most holds. Ends with status 65 if it cannot be read or understood.
readInput :: (Lazy.ByteString -> Either String a) -> FilePath -> IO a
readInput understand file = readWithin 64 file >>= either refuse pure . (>>= understand)
  where
    refuse why = problem badInput (file ++ ": " ++ why)

-- | With its parents. Ends with status 69 if it cannot be made.
makeFolder :: FilePath -> IO ()
makeFolder folder = do
  made <- try (createDirectoryIfMissing True folder)
  case made of
    Right () -> pure ()
    Left e -> problem unavailable ("cannot make the folder " ++ folder ++ ": " ++ reason e)

data Colour = Green | Yellow | Red | Bold
  deriving (Eq, Show)

-- | The text in a colour, if colour is wanted.
paint :: Bool -> Colour -> String -> String
paint False _ text = text
paint True colour text = "\ESC[" ++ code ++ "m" ++ text ++ "\ESC[0m"
  where
    code = case colour of
      Green -> "32"
      Yellow -> "33"
      Red -> "31"
      Bold -> "1"

-- | On a terminal that knows colours, and not forbidden by @NO_COLOR@.
wantsColour :: Handle -> IO Bool
wantsColour handle = do
  terminal <- hIsTerminalDevice handle
  forbidden <- maybe False (not . null) <$> lookupEnv "NO_COLOR"
  kind <- lookupEnv "TERM"
  pure (terminal && not forbidden && kind /= Just "dumb")
