{-# LANGUAGE OverloadedStrings #-}

-- | What a run of @maru bench@ has measured already. A run of several experiments notes in its folder
-- which are done; the note goes when the run ends. A run that finds the note of one like itself goes on
-- where that ended, and takes what was measured from its files.
module Maru.Bench.Kept
  ( Run (..),
    Before (..),
    beginRun,
    noteDone,
    endRun,

    -- * Files of an experiment
    fileOf,
    drawingsOf,
    keptTables,
    readKept,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (guard, void)
import Data.Aeson (Value, decodeStrict, object, (.=))
import qualified Data.ByteString as ByteString
import Data.List (isPrefixOf)
import Data.Maybe (fromMaybe)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import Maru.Bench.Experiment (Experiment (..))
import Maru.Bench.Report (Shown (..), dataName)
import Maru.Cli.Exit (orNothing)
import Maru.Cli.JsonPath
import Maru.Cli.Output
import System.Directory (removeFile)
import System.FilePath ((<.>), (</>))

-- | What is to be measured, and where.
data Run = Run
  { runFolder :: !FilePath,
    runNames :: ![String],
    runQuick :: !Bool,
    -- | Which build measures.
    runBuild :: !String
  }

-- | What is there of an unfinished run like this one.
data Before
  = Fresh
  | -- | The note's file, and the names that are measured.
    GoesOn !FilePath ![String]
  | -- | Another build measured them.
    OtherBuild
  deriving (Eq, Show)

noteOf :: Run -> FilePath
noteOf run = runFolder run </> "unfinished.json"

beginRun :: Run -> IO Before
beginRun run = do
  note <- readJson (noteOf run)
  pure . fromMaybe Fresh $ do
    value <- note
    names <- at ["names"] value
    quick <- at ["quick"] value
    done <- at ["done"] value
    guard (names == runNames run && quick == runQuick run && not (null (done :: [String])))
    pure (if at ["build"] value == Just (runBuild run) then GoesOn (noteOf run) done else OtherBuild)

-- | Of one experiment alone there is nothing to go on with.
noteDone :: Run -> [String] -> IO ()
noteDone run done
  | length (runNames run) < 2 = pure ()
  | otherwise = writeJson (noteOf run) (object ["schema" .= ("maru-bench-run/1" :: String), "names" .= runNames run, "quick" .= runQuick run, "build" .= runBuild run, "done" .= done])

endRun :: Run -> IO ()
endRun = void . orNothing . removeFile . noteOf

-- | Below a folder, without an ending.
fileOf :: FilePath -> String -> FilePath
fileOf folder name = folder </> dataName name

-- | For so many plots.
drawingsOf :: FilePath -> Int -> [FilePath]
drawingsOf file n = take n (file : [file ++ "-" ++ show k | k <- [2 :: Int ..]])

keptTables :: [(String, Table)] -> Value
keptTables tables = object ["tables" .= [object ["title" .= title, "columns" .= map snd heads, "left" .= [align == L | (align, _) <- heads], "rows" .= rows] | (title, Table heads rows) <- tables]]

-- | 'Fresh: its files are not there, or not whole.
readKept :: FilePath -> Experiment -> IO (Maybe Shown)
readKept folder experiment = do
  document <- readJson (file <.> "json")
  case document >>= understood of
    Nothing -> pure Nothing
    Just (shown, plots) -> do
      drawings <- traverse readText' [drawing <.> "svg" | drawing <- drawingsOf file plots]
      pure ((\svgs -> shown {shownPlots = svgs}) <$> sequence drawings)
  where
    file = fileOf folder (experimentName experiment)
    understood value = do
      line <- at ["line"] value
      plots <- at ["plots"] value
      tables <- at ["shown", "tables"] value >>= traverse table
      pure (Shown (experimentName experiment) (experimentPurpose experiment) line tables [] Nothing, plots)
    table value = do
      title <- at ["title"] value
      heads <- at ["columns"] value
      left <- at ["left"] value
      rows <- at ["rows"] value
      pure (title, Table (zip (map (\l -> if l then L else R) left) heads) rows)
    readText' path = either gone (Just . Text.unpack) . (>>= whole . Text.decodeUtf8) <$> contents path
    whole text = if "<svg" `isPrefixOf` Text.unpack text then Right text else Left (userError "no drawing")
    gone _ = Nothing

readJson :: FilePath -> IO (Maybe Value)
readJson path = either (const Nothing) decodeStrict <$> contents path

contents :: FilePath -> IO (Either IOException ByteString.ByteString)
contents = try . ByteString.readFile
