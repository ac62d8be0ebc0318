{-# LANGUAGE OverloadedStrings #-}

-- | @maru sim@: a room's model, run on a machine you may not have.
module Maru.Cli.Sim
  ( simCommand,
  )
where

import Control.Monad (unless, when)
import Data.Aeson (object, (.=))
import qualified Data.ByteString.Lazy as Lazy
import Data.Maybe (isJust, listToMaybe)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import Maru.Cli.Exit
import Maru.Cli.Output
import Maru.Cli.Progress
import Maru.Cli.Room
import Maru.Control.Plot (svg)
import Options.Applicative hiding (internal)
import System.Exit (ExitCode (..))

simCommand :: [Room] -> Mod CommandFields (IO ExitCode)
simCommand rooms =
  command "sim" $
    info
      (hsubparser (foldMap simulator (concatMap roomSimulators rooms) <> metavar "MODEL"))
      ( progDesc "Simulate a room on a machine you describe"
          <> footer "Example: maru sim map --workers 1,8,64 --costs bimodal   |   The same seed gives the same result."
      )

simulator :: Simulator -> Mod CommandFields (IO ExitCode)
simulator sim =
  command (simName sim) $
    info (simulate (simName sim) <$> simParser sim <*> jsonTo <*> drawing) (progDesc (simPurpose sim))
  where
    drawing = optional (strOption (long "svg" <> metavar "FILE" <> help "Draw the result"))

simulate :: String -> Simulation -> JsonTo -> Maybe FilePath -> IO ExitCode
simulate name model json drawing = do
  quiet <- oneToOutput (("--json", json) : ("--svg", drawing) : simulationFiles model)
  when (isJust drawing && not (simulationPictured model)) $
    problem usage ("the model " ++ name ++ " has no picture of these options")
  simulationRun model >>= either (problem usage) (shown quiet)
  where
    shown quiet figures = do
      forced ("simulating " ++ name) (concatMap (tableRows . snd) (figuresTables figures))
      unless quiet (printFigures figures)
      mapM_ (`writeJson` document figures) json
      sequence_ (draw <$> drawing <*> listToMaybe (figuresPlots figures))
      pure ExitSuccess
    document figures = object ["schema" .= ("maru-sim/1" :: String), "model" .= name, "data" .= figuresData figures]
    draw file = writeTo file . Lazy.fromStrict . Text.encodeUtf8 . Text.pack . svg
