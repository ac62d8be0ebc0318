{-# LANGUAGE OverloadedStrings #-}

-- | @maru similar generate@: disguised copies of Java files, with labels, to test a checker with.
-- The same seed, files and options give the same bytes.
--
-- Exit status: 0 done, 64 usage, 65 a file that cannot be read or is no Java, 69 a folder that is
-- not empty or cannot be written.
module Maru.Cli.Similar.Generate
  ( generateCommand,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (forM, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import Maru.Cli.Exit (badInput, problem, reason, unavailable)
import Maru.Cli.Progress (withProgress)
import Maru.Cli.Readers (wholeFrom)
import Maru.Cli.WholeFile (readAtMost)
import Maru.Similar.Corpus (decoded, encodingOf)
import Maru.Similar.Generate
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Shape (notJava)
import Options.Applicative
import System.Directory (createDirectoryIfMissing, listDirectory)
import System.Exit (ExitCode (..))
import System.FilePath (takeBaseName, takeFileName, (</>))
import System.IO (IOMode (WriteMode), withBinaryFile)

data Order = Order
  { orderOut :: !FilePath,
    orderCount :: !Int,
    orderSeed :: !Int,
    orderDisguise :: !Disguise,
    orderFiles :: ![FilePath]
  }

generateCommand :: Mod CommandFields (IO ExitCode)
generateCommand =
  command
    "generate"
    ( info
        (generate <$> order)
        ( progDesc "Write disguised copies of Java files, and labels that say of what, to test a checker with"
            <> footer "Examples: maru similar generate --out copies/ --count 100 *.java   |   maru similar generate --out hard/ --count 20 --strength 5-6 A.java   |   Status: 0, 64 usage, 65 bad input, 69 cannot write."
        )
    )
    <> metavar "generate ..."

order :: Parser Order
order =
  Order
    <$> strOption (long "out" <> metavar "DIR" <> action "directory" <> help "Where to: a new or an empty folder")
    <*> option (eitherReader (wholeFrom 1 1000000 "a number")) (long "count" <> metavar "N" <> help "How many copies in all, of the files in turn")
    <*> option (eitherReader (wholeFrom 0 1000000000000 "a number")) (long "seed" <> metavar "S" <> value 1 <> help "Another seed, other copies (default 1)")
    <*> ( uncurry Strengths <$> option (eitherReader strengths) (long "strength" <> metavar "A[-B]" <> help "1 layout, 2 names, 3 order, 4 and 5 forms of statements, 6 statements put in everywhere; each with those before it (default 1-6, in turn)")
            <|> Operators <$> option (eitherReader operatorsNamed) (long "operators" <> metavar "A+B..." <> help "Just these disguises, as labels.csv names them")
            <|> pure (Strengths 1 6)
        )
    <*> some (strArgument (metavar "FILE..." <> action "file"))

strengths :: String -> Either String (Int, Int)
strengths text = case break (== '-') text of
  (a, "") -> (\n -> (n, n)) <$> one a
  (a, _ : b) -> do
    range <- (,) <$> one a <*> one b
    if uncurry (<=) range then Right range else Left ("the strengths go from the lower to the higher, not '" ++ text ++ "'")
  where
    one = wholeFrom 1 6 "a strength"

generate :: Order -> IO ExitCode
generate o = do
  sources <- mapM source (orderFiles o)
  made <- try (createDirectoryIfMissing True (orderOut o) >> listDirectory (orderOut o))
  case made of
    Left e -> problem unavailable (orderOut o ++ ": " ++ reason (e :: IOException))
    Right (_ : _) -> problem unavailable (orderOut o ++ ": is not empty; name a new folder")
    Right [] -> pure ()
  written <- try (withProgress "writing" (writeCopies o (zip (orderFiles o) sources)))
  case written of
    Left e -> problem unavailable (orderOut o ++ ": cannot be written: " ++ reason (e :: IOException))
    Right () -> pure ExitSuccess

-- | A file's text; one that is no Java ends the command.
source :: FilePath -> IO ByteString
source file = do
  content <- try (readAtMost (64 * 1024 * 1024) file)
  held <- either (\e -> problem badInput (file ++ ": " ++ reason (e :: IOException))) pure content
  bytes <- maybe (problem badInput (file ++ ": larger than 64 MiB")) pure held
  let text = decoded (encodingOf bytes) bytes
  when (B.null text || notJava (lexJava text)) $ problem badInput (file ++ ": is no Java")
  pure text

-- | The copies, and @labels.csv@ beside them.
writeCopies :: Order -> [(FilePath, ByteString)] -> (Double -> IO ()) -> IO ()
writeCopies o sources tell = do
  let made = copies (orderDisguise o) (orderSeed o) (orderCount o) [(takeFileName path, takeBaseName path, text) | (path, text) <- sources]
  written <- forM (zip [1 :: Int ..] made) $ \(n, c) -> do
    B.writeFile (orderOut o </> copyName c) (copyBytes c)
    tell (fromIntegral n / fromIntegral (orderCount o))
    pure $! c {copyBytes = mempty}
  withBinaryFile (orderOut o </> "labels.csv") WriteMode (`Builder.hPutBuilder` labels written)
