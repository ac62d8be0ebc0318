-- | A whole process under flags of GHC's run-time system: measured by what that system says of it, and
-- tuned by @maru tune gc@.
module GcRun
  ( mapJob,
    gcRun,
    gcTuned,
  )
where

import Control.Exception (bracket)
import Data.Aeson (Value, decode)
import qualified Data.ByteString.Lazy.Char8 as Lazy
import GHC.Clock (getMonotonicTimeNSec)
import Maru.Cli.Exit
import Maru.Cli.Group (outputOf, statusWithin)
import Maru.Cli.Installed (commandPath)
import Maru.Cli.Reaper (Reaper)
import Maru.Cli.TuneRace (withScratch)
import Maru.Control.Tune.Gc (Statistics, parseStatistics)
import System.Directory (getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO
import System.Posix.Temp (mkdtemp)
import System.Process

-- | The process that @maru bench@ starts for a measurement of the map, without anybody who tells it to begin.
mapJob :: [String] -> [String]
mapJob command = ["sh", "-c", "echo go | \"$0\" \"$@\""] ++ command

-- | With these flags: nanoseconds from start to end, and what the run-time system says.
gcRun :: Reaper -> String -> [String] -> [String] -> IO (Double, Statistics)
gcRun reaper name job flags = withScratch "maru-tuner" $ \file -> do
  environment <- withFlags (flags ++ ["-t" ++ file, "--machine-readable"])
  begun <- getMonotonicTimeNSec
  status <- withFile "/dev/null" ReadWriteMode $ \none ->
    statusWithin reaper 300 (proc "env" job) {env = Just environment, std_in = UseHandle none, std_out = UseHandle none, std_err = UseHandle none}
  ended <- getMonotonicTimeNSec
  statistics <- readFile file >>= \text -> length text `seq` pure (parseStatistics text)
  case status of
    Just ExitSuccess -> pure (fromIntegral (ended - begun), statistics)
    _ -> problem internal ("measuring " ++ name ++ " with '" ++ unwords flags ++ "': it failed, or was not done in 300 s")

-- | What the tuner says of the job under these flags, with options of its own.
gcTuned :: Reaper -> [String] -> [String] -> [String] -> IO Value
gcTuned reaper options job flags = bracket (getTemporaryDirectory >>= mkdtemp . (</> "maru-tuner-")) removeDirectoryRecursive $ \folder -> do
  maru <- commandPath
  environment <- withFlags flags
  (code, text, errors) <- outputOf reaper (proc maru (["tune", "gc"] ++ options ++ ["--json", "--out", folder </> "profile", "--", "env"] ++ job)) {env = Just environment, std_in = CreatePipe}
  case (code, decode (Lazy.pack text)) of
    (ExitSuccess, Just value) -> pure value
    _ -> problem internal ("maru tune gc failed: " ++ lastLine errors)
  where
    lastLine text = case reverse (lines text) of
      line : _ -> line
      [] -> "it said nothing"

-- | The environment, in which these flags are the only ones.
withFlags :: [String] -> IO [(String, String)]
withFlags flags = ([("GHCRTS", unwords flags) | not (null flags)] ++) . filter ((/= "GHCRTS") . fst) <$> getEnvironment
