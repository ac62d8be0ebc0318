{-# LANGUAGE OverloadedStrings #-}

-- | @maru tune@: searches settings for one command and keeps them as a profile
-- for @maru run \@NAME@, if there is a gain. If there is none it says so.
module Maru.Cli.Tune
  ( tuneSubcommand,
    parseDuration,
  )
where

import Control.Monad (unless)
import Data.Aeson (object, (.=))
import qualified Data.ByteString.Lazy as Lazy
import Data.Char (isAlphaNum)
import Data.Maybe (catMaybes, fromMaybe, isJust)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Profile
import Maru.Cli.Readers (duration)
import Maru.Cli.Reaper (withReaper)
import Maru.Cli.Report (checkWritable)
import Maru.Cli.Room
import Maru.Control.Plot (svg)
import Options.Applicative hiding (internal)
import qualified System.Directory as Directory
import System.Exit (ExitCode (..))
import System.FilePath (takeDirectory, takeFileName)

data Flags = Flags
  { flagBudget :: !Double,
    flagName :: !(Maybe String),
    flagOut :: !(Maybe FilePath),
    flagJson :: !JsonTo,
    flagCommand :: !FilePath,
    flagArguments :: ![String]
  }

tuneSubcommand :: [Room] -> Mod CommandFields (IO ExitCode)
tuneSubcommand rooms =
  command "tune" $
    info
      (hsubparser (foldMap tuner (concatMap roomTuners rooms) <> metavar "WHAT"))
      ( progDesc "Search better settings for a command and keep them as a profile"
          <> footer "Example: maru tune gc --budget 1m --name sort -- ./sort big.txt; then: maru run @sort -- ./sort big.txt"
      )

tuner :: Tuner -> Mod CommandFields (IO ExitCode)
tuner (Tuner name purpose example parser picture run) =
  command name $
    info
      ((\flags own command' -> tune name (picture own) (run own) (command' flags)) <$> common <*> parser <*> behind)
      (progDesc purpose <> noIntersperse <> footer ("Example: maru tune " ++ name ++ " " ++ example))
  where
    -- Last: the help shows options before the command, where they have to be.
    behind = (\program arguments flags -> flags program arguments) <$> strArgument (metavar "COMMAND") <*> many (strArgument (metavar "ARGUMENT..."))
    common =
      Flags
        <$> option (eitherReader parseDuration) (long "budget" <> metavar "TIME" <> value 120 <> help "How long to search: 30s, 2m (default 2m)")
        <*> optional (strOption (long "name" <> metavar "NAME" <> help "Name of the profile (default: the command's)"))
        <*> optional (strOption (long "out" <> metavar "FILE" <> help "Write the profile there instead (- is standard output)"))
        <*> jsonTo

tune :: String -> Maybe FilePath -> (TuneContext -> IO Tuned) -> Flags -> IO ExitCode
tune what picture run flags = do
  unless (all plain name && not (null name)) $
    problem usage ("the profile's name may have letters, digits, - and _ only, not '" ++ name ++ "'")
  found <- executable (flagCommand flags)
  unless found $ problem badInput ("cannot execute '" ++ flagCommand flags ++ "': there is no such program")
  reaper <- helperPath "maru-reaper"
  -- Before the time is spent.
  quiet <- oneToOutput [("--out", flagOut flags), ("--json", flagJson flags), ("--svg", picture)]
  kept <- maybe (profilePath name) pure (flagOut flags)
  unless (kept == "-") (makeFolder (takeDirectory kept))
  mapM_ (checkWritable unavailable) (kept : catMaybes [flagJson flags, picture])
  end <- (+ flagBudget flags) <$> getMonotonicTime
  tuned <- withReaper reaper (\g -> run (TuneContext (flagBudget flags) end (flagCommand flags) (flagArguments flags) g (sayUntil end)))
  unless quiet (mapM_ putStrLn (shown (tunedTable tuned) ++ tunedLine tuned : tunedAdvice tuned))
  mapM_ (keep kept tuned) (tunedEnvironment tuned)
  mapM_ (`writeJson` document tuned) (flagJson flags)
  sequence_ (draw <$> picture <*> tunedPicture tuned)
  pure (tunedStatus tuned)
  where
    shown table
      | null (tableHeads table) = []
      | null (tableRows table) = ["no setting was measured to its end within the budget of " ++ seconds (flagBudget flags)]
      | otherwise = renderTable table ++ [""]
    sayUntil end line = do
      left <- subtract <$> getMonotonicTime <*> pure end
      warn (line ++ (if left > 0 then " (" ++ show (ceiling left :: Int) ++ " s of the budget left)" else ""))
    name = fromMaybe (filter plain (takeFileName (flagCommand flags))) (flagName flags)
    plain c = isAlphaNum c || c `elem` ("-_" :: String)
    document tuned =
      object
        [ "schema" .= ("maru-tune/1" :: String),
          "tuner" .= what,
          "command" .= (flagCommand flags : flagArguments flags),
          "gain" .= isJust (tunedEnvironment tuned),
          "line" .= tunedLine tuned,
          "advice" .= tunedAdvice tuned,
          "data" .= tunedData tuned
        ]
    draw file plot = writeTo file (Lazy.fromStrict (Text.encodeUtf8 (Text.pack (svg plot))))
    keep path tuned environment = do
      writeJson path (encodeProfile (Profile name what environment (tunedLine tuned) (tunedData tuned)))
      unless (path == "-") $
        warn ("profile written to " ++ path ++ maybe ("; use it: maru run @" ++ name ++ " -- COMMAND") (const "") (flagOut flags))

-- | As the system would look for it.
executable :: FilePath -> IO Bool
executable file
  | '/' `elem` file = maybe False Directory.executable <$> orNothing (Directory.getPermissions file)
  | otherwise = isJust <$> Directory.findExecutable file

-- | Seconds: @30@, @30s@, @1.5m@, @1h@. What waits counts microseconds, which have an end.
parseDuration :: String -> Either String Double
parseDuration text = case duration [("", 1), ("s", 1), ("m", 60), ("h", 3600)] text of
  Nothing -> Left ("a time such as 30s or 2m is needed, not '" ++ text ++ "'")
  Just time
    | time > 30 * 24 * 3600 -> Left ("30 days (720h) are the longest, not '" ++ text ++ "'")
    | otherwise -> Right time
