{-# LANGUAGE OverloadedStrings #-}

-- | @maru-mutate@: disguised copies of Java files, with labels. Deterministic.
module Main (main) where

import Control.Monad (forM_, unless, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import Data.List (intersperse)
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Maru.Similar.Mutate
import Options.Applicative
import System.Exit (ExitCode (..), exitWith)
import System.IO (IOMode (WriteMode), hPutStrLn, stderr, withBinaryFile)
import System.Posix.Directory (createDirectory)
import System.Posix.Files (fileExist)

data Order = Order
  { orderSeed :: !Word64,
    orderCount :: !Int,
    orderOut :: !FilePath,
    orderLabels :: !(Maybe FilePath),
    orderFiles :: ![FilePath]
  }

orderParser :: Parser Order
orderParser =
  Order
    <$> option auto (long "seed" <> metavar "S" <> value 1 <> showDefault <> help "Another seed, other copies")
    <*> option auto (long "count" <> metavar "N" <> help "Copies to write in all, the files in turn")
    <*> strOption (long "out" <> metavar "DIR" <> help "Where to; made if it is missing")
    <*> optional (strOption (long "labels" <> metavar "FILE" <> help "Where the labels go (default: DIR/labels.csv)"))
    <*> some (strArgument (metavar "FILE..."))

main :: IO ()
main = do
  order <- execParser (info (orderParser <**> helper) (progDesc "Write disguised copies of Java files, and their labels"))
  when (orderCount order < 0) $ failWith "--count must not be negative"
  exists <- fileExist (orderOut order)
  unless exists $ createDirectory (orderOut order) 0o777
  sources <- mapM B.readFile (orderFiles order)
  let copies = take (orderCount order) (zip [1 ..] (cycle (zip (orderFiles order) sources)))
  withBinaryFile (fromMaybe (orderOut order <> "/labels.csv") (orderLabels order)) WriteMode $ \labels -> do
    Builder.hPutBuilder labels "file,source,seed,operators\n"
    forM_ copies $ \(n, (path, source)) -> do
      let seed = orderSeed order * 1000003 + fromIntegral n
          ops = someOperators seed
          name = stem path <> "-copy-" <> padded n <> ".java"
      B.writeFile (orderOut order <> "/" <> name) (mutate seed ops source)
      Builder.hPutBuilder labels (label name path seed ops)

label :: FilePath -> FilePath -> Word64 -> [Operator] -> Builder.Builder
label name path seed ops =
  mconcat (intersperse "," [field name, field path, Builder.word64Dec seed, operators]) <> "\n"
  where
    operators = mconcat (intersperse "+" (map (Builder.byteString . operatorName) ops))
    field text
      | any (`elem` (",\"\n\r" :: String)) text = "\"" <> foldMap quoted text <> "\""
      | otherwise = Builder.stringUtf8 text
    quoted c = if c == '"' then "\"\"" else Builder.charUtf8 c

stem :: FilePath -> FilePath
stem path = case break (== '.') (reverse (takeWhile (/= '/') (reverse path))) of
  (name, _) -> name

padded :: Int -> String
padded n = replicate (4 - length digits) '0' <> digits
  where
    digits = show n

failWith :: String -> IO a
failWith why = hPutStrLn stderr ("maru-mutate: " <> why) >> exitWith (ExitFailure 64)
