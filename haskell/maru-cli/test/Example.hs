{-# LANGUAGE OverloadedStrings #-}

-- | A room that uses every plug and does nothing: the pattern for a new one,
-- and what the tests of the shells run. It is not in "Maru.Cli.Rooms".
module Example
  ( exampleRoom,
  )
where

import Data.Aeson (Value, object, toJSON, (.=))
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Control.Plot
import Maru.Native.BoardView
import Options.Applicative
import System.Exit (ExitCode (..))

exampleRoom :: Room
exampleRoom =
  (room "example" "nothing")
    { roomRun = Just (RunPlug kindFlag (\_ _ -> pure available) decide),
      roomTop = Just (pure page),
      roomChecks = [Check "example" (pure (Finding Good "as ever" ""))],
      roomSimulators = [simulator],
      roomTuners = [tuner]
    }
  where
    available = ["plain"]
    kindFlag = optional (strOption (long "example" <> metavar "KIND" <> help "plain or fancy"))

-- | The decision is pure: the machine's facts come as an argument.
decide :: [String] -> Maybe String -> Either Refusal Part
decide _ Nothing = Right mempty
decide available (Just kind)
  | kind `elem` available = Right mempty {partEnvironment = [("EXAMPLE", kind)], partPreload = ["/lib/libexample.so"], partExplain = ["the example is " ++ kind]}
  | kind == "fancy" = Left (Unavailable "this machine has no fancy example")
  | otherwise = Left (Misused ("unknown example '" ++ kind ++ "'; known: plain, fancy"))

-- | Counts the sections; @x@ shows their names too.
page :: TopPage
page =
  TopPage
    { pageKeys = [('x', "names")],
      pageStart = False,
      pageKey = const not,
      pageTurn = \_ _ -> pure (),
      pageSee = pure . map sectionName . boardSections,
      pageDraw = \shown before names ->
        Line (show (length names) ++ " sections" ++ maybe "" (const ", seen before") before) :
          [Tabular (Table [(L, "name")] (map pure names)) | shown],
      pageJson = \_ names -> Just (toJSON (length names))
    }

simulator :: Simulator
simulator = Simulator "example" "Counts" (pictured . Right . figures <$> option auto (long "n" <> metavar "N" <> value (3 :: Int) <> help "How far"))

tuner :: Tuner
tuner =
  Tuner "example" "Finds that nothing helps" "-- ./sort" (pure ()) (const Nothing) $ \() _ ->
    pure (Tuned Nothing "no gain: there is nothing to tune" [] Nothing ExitSuccess (Table [] []) (object []))

figures :: Int -> Figures
figures n =
  Figures
    { figuresLine = "counted to " ++ show n,
      figuresTables = [("Numbers", Table [(R, "n")] [[show i] | i <- [1 .. n]])],
      figuresPlots = [Plot "Numbers" (Axis "n" Linear) (Axis "n" Linear) [Series "n" [Point (fromIntegral i) (fromIntegral i) 0 (fromIntegral i) | i <- [1 .. n]]]],
      figuresData = object ["n" .= n] :: Value
    }
