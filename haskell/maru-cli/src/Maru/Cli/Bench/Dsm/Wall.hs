{-# LANGUAGE OverloadedStrings #-}

-- | The programs of examples\/dsm as jobs of two nodes, in wall time, on networks
-- that are described: @MARU_DSM_LINK@ (native\/dsm\/link.h) says when a message may
-- be seen. Bounded: no round for what is undecided begins after 'limitSeconds'.
module Maru.Cli.Bench.Dsm.Wall
  ( wall,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.List (stripPrefix)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, mapMaybe)
import Maru.Cli.Bench.Dsm.Links
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Sim.Readers (fixed)
import Maru.Control.Ratio
import Maru.Control.Statistics (Summary (summaryMedian))
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.Process
import System.Timeout (timeout)
import Text.Read (readMaybe)

limitSeconds :: Int
limitSeconds = 540

-- | Sizes that take tenths of a second on two processors.
sizes :: String -> [String]
sizes program = case program of
  "tsp" -> ["-n", "17", "-c", "0"]
  "raytrace" -> ["-n", "256"]
  "ocean" -> ["-k", "7", "-s", "1"]
  "water" -> ["-n", "216", "-s", "12"]
  "radix" -> ["-n", "262144"]
  "fft" -> ["-k", "8"]
  "lu" -> ["-n", "384"]
  _ -> ["-n", "320"]

wall :: Effort -> (String -> IO ()) -> IO Figures
wall effort say = do
  launcher <- helperPath "maru-launch"
  paths <- mapM (\p -> (,) p <$> helperPath ("dsm-" ++ p)) programs
  let sides = [Side (sideOf l p f) [] | l <- described, p <- programs, f <- compared]
      runs = Map.fromList [(sideOf l p f, timed launcher l f path (sizes p)) | l <- described, (p, path) <- paths, f <- compared]
      measure side = fromMaybe (problem internal ("no side " ++ sideName side)) (Map.lookup (sideName side) runs)
      claims = [ratio (linkName l ++ ", " ++ p ++ ": adaptive over " ++ f) (AtMost 1.05) seconds' (sideOf l p "adaptive") (sideOf l p f) | l <- described, p <- programs, f <- ["page", "range"]]
  rounds <- runRoundsWithin limitSeconds effort say measure sides (const claims)
  let judged = map (judgeClaim rounds) claims
      found l p f = maybe "-" (fixed 4 . summaryMedian) (summaryOf seconds' rounds (sideOf l p f))
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ("Seconds of wall time, 2 nodes, one page a fetch, median", Table ([(L, "link"), (L, "program")] ++ [(R, f) | f <- compared]) [[linkName l, p] ++ [found l p f | f <- compared] | l <- described, p <- programs]),
            ("Bars", claimsTable judged)
          ],
        figuresPlots = [],
        figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged, "not_measured" .= ("real links: the kernel may lack netem; describe networks with MARU_DSM_LINK" :: String)]
      }
  where
    compared = ["page", "range", "adaptive"]
    linkName (Link name _ _ _ _) = name
    sideOf l p f = linkName l ++ ", " ++ p ++ ", " ++ f
    seconds' = number ["seconds"]

-- | A job of two nodes; its time is the program's own.
timed :: FilePath -> Link -> String -> FilePath -> [String] -> IO Value
timed launcher (Link _ _ latency ps _) policy path arguments = do
  environment <- getEnvironment
  let own = [("MARU_DSM_LINK", show latency ++ "," ++ show ps), ("MARU_DSM_FETCH", policy), ("MARU_DSM_BATCH", "1")]
      job = (proc launcher (["-n", "2", "--", path] ++ arguments ++ ["-t", "1"])) {env = Just (own ++ filter ((`notElem` map fst own) . fst) environment)}
  done <- timeout 120000000 (readCreateProcessWithExitCode job "")
  case done of
    Just (ExitSuccess, _, said) | [time'] <- mapMaybe (stripPrefix "[0] seconds: ") (lines said), Just s <- readMaybe time' -> pure (object ["seconds" .= (s :: Double)])
    Just (code, _, said) -> problem internal (path ++ " as a job of 2 nodes: " ++ show code ++ ": " ++ unwords (lines said))
    Nothing -> problem internal (path ++ " as a job of 2 nodes took more than two minutes; it was ended")
