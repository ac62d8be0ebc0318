-- | What every subcommand prints with: tables, JSON, files. @-@ as a file is
-- standard output everywhere.
module Maru.Cli.Output
  ( -- * Tables
    Table (..),
    Align (..),
    renderTable,

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
    readInput,
    makeFolder,

    -- * Words
    seconds,
    plural,
    fixed,
    percent,
    shareOf,
    paint,
    Colour (..),
    wantsColour,
  )
where

import Control.Exception (try)
import Data.Aeson (Value, encode)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Lazy.Char8 as LazyChars
import Data.List (dropWhileEnd, transpose)
import Maru.Cli.Columns
import Maru.Cli.Exit
import Maru.Cli.Plain
import Maru.Cli.WholeFile
import Maru.Control.Plot (Plot)
import Numeric (showFFloat)
import Options.Applicative hiding (internal)
import qualified Options.Applicative as Options
import System.Directory (createDirectoryIfMissing)
import System.Environment (lookupEnv)
import System.IO (Handle, hIsTerminalDevice)

data Table = Table
  { tableHeads :: ![(Align, String)],
    tableRows :: ![[String]]
  }
  deriving (Eq, Show)

data Align = L | R
  deriving (Eq, Show)

-- | Lines without trailing blanks; columns two blanks apart.
renderTable :: Table -> [String]
renderTable (Table heads rows) = map line (map snd heads : rows)
  where
    line = dropWhileEnd (== ' ') . concat . zipWith3 cell (map fst heads) widths
    widths = map (maximum . (0 :) . map columnsIn) (transpose (map snd heads : rows))
    cell align width text = case align of
      L -> text ++ blanks ++ "  "
      R -> blanks ++ text ++ "  "
      where
        blanks = replicate (width - columnsIn text) ' '

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

-- | What a file holds. Ends with status 65 if it cannot be read or understood.
readInput :: (Lazy.ByteString -> Either String a) -> FilePath -> IO a
readInput understand file = try (Lazy.fromStrict <$> ByteString.readFile file) >>= either (refuse . reason) (either refuse pure . understand)
  where
    refuse why = problem badInput (file ++ ": " ++ why)

-- | With its parents. Ends with status 69 if it cannot be made.
makeFolder :: FilePath -> IO ()
makeFolder folder = do
  made <- try (createDirectoryIfMissing True folder)
  case made of
    Right () -> pure ()
    Left e -> problem unavailable ("cannot make the folder " ++ folder ++ ": " ++ reason e)

-- | A duration with three digits and a unit.
seconds :: Double -> String
seconds s
  | s == 0 = "0 s"
  | s >= 100 = showFFloat (Just 0) s " s"
  | s >= 1 = showFFloat (Just 2) s " s"
  | s >= 1e-3 = showFFloat (Just (if s >= 0.1 then 0 else 2)) (s * 1e3) " ms"
  | s >= 1e-6 = showFFloat (Just (if s >= 1e-4 then 0 else 2)) (s * 1e6) " µs"
  | otherwise = showFFloat (Just 0) (s * 1e9) " ns"

-- | @1 rank@, @2 ranks@, @3 processes@, @4 mutexes@.
plural :: Int -> String -> String
plural 1 noun = "1 " ++ noun
plural n noun = show n ++ " " ++ noun ++ (if last' noun `elem` "sx" then "es" else "s")
  where
    last' = foldl (\_ c -> c) ' '

-- | With so many digits; what is no number is a dash.
fixed :: Int -> Double -> String
fixed digits v
  | isNaN v || isInfinite v = "-"
  | otherwise = showFFloat (Just digits) v ""

-- | Of a share.
percent :: Int -> Double -> String
percent digits v = fixed digits (v * 100) ++ " %"

-- | A part of a whole; of nothing it is 0 %.
shareOf :: Double -> Double -> String
shareOf part whole = percent 0 (if whole > 0 then part / whole else 0)

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
