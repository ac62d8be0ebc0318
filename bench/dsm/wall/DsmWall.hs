{-# LANGUAGE OverloadedStrings #-}

-- | The programs of examples\/dsm as jobs of two nodes, in wall time, on networks that are
-- described. @MARU_DSM_LINK@ (native\/dsm\/link.h) says when a message may be seen. Bounded: no
-- round for what is undecided begins after 'limitSeconds'.
module DsmWall
  ( wallExperiment,
  )
where

import Data.Aeson (object, (.=))
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import DsmJobs
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics (Summary (summaryMedian))

limitSeconds :: Int
limitSeconds = 540

wallExperiment :: Experiment
wallExperiment = Experiment "dsm/wall" "The programs of examples/dsm as jobs of 2 nodes, in wall time: fetch policies on the paper's network and at 1, 10, 100 Gb/s, by delayed messages" wall

wall :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
wall reaper effort say = do
  launcher <- helperPath "maru-launch"
  paths <- mapM (\p -> (,) p <$> helperPath ("dsm-" ++ p)) programs
  let sides = [Side (sideOf l p f) [] | l <- described, p <- programs, f <- compared]
      runs = Map.fromList [(sideOf l p f, timed reaper Nothing (job launcher l f path (sizes p))) | l <- described, (p, path) <- paths, f <- compared]
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
        figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged, "not_measured" .= ("real links: dsm/netns" :: String)]
      }
  where
    compared = ["page", "range", "adaptive"]
    sideOf l p f = linkName l ++ ", " ++ p ++ ", " ++ f
    seconds' = number ["seconds"]
    job launcher (Link _ _ latency ps _) policy =
      Job [launcher, "-n", "2", "--"] [("MARU_DSM_BATCH", "1"), ("MARU_DSM_PREFETCH", "0"), ("MARU_DSM_LINK", show latency ++ "," ++ show ps), ("MARU_DSM_FETCH", policy)]
