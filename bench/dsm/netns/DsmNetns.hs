{-# LANGUAGE OverloadedStrings #-}

-- | Jobs on a real link: two network namespaces, whose traffic the kernel's own queues
-- slow down (the script @netns@). Beside each the same job on the described link
-- of that bandwidth ('MARU_DSM_LINK', no latency), between the same namespaces with nothing that
-- slows them. What the description leaves out is the difference.
module DsmNetns
  ( netnsExperiment,
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
import Maru.Cli.Group
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics (Summary (summaryMedian))
import System.Exit (ExitCode (..))
import System.Process (CreateProcess (..), StdStream (..), proc)

-- | The kernel's link, or the described one.
data Way = Kernel | Described
  deriving (Eq)

-- | Megabits a second, and what a byte takes with the headers of its frame, in ps: as in
-- 'described'.
data Speed = Speed !String !Int !Int

speeds :: [Speed]
speeds = [Speed name (round (1000 * gigabits)) ps | Link name gigabits _ ps _ <- described, name `elem` ["1 Gb/s", "10 Gb/s"]]

-- | One that gains much by parts of pages, one that gains some, one that gains nothing.
some, policies :: [String]
some = ["ocean", "raytrace", "fft"]
policies = ["page", "range", "adaptive"]

sideOf :: Speed -> String -> String -> Way -> String
sideOf (Speed name _ _) program policy way = name ++ ", " ++ program ++ ", " ++ policy ++ (if way == Kernel then "" else ", described")

-- | One way, in us: as long as 'described' has it, where the kernel can.
delays :: Speed -> Int
delays (Speed name _ _) = sum [latency `div` 1000 | Link n _ latency _ _ <- described, n == name]

netnsExperiment :: Experiment
netnsExperiment = Experiment "dsm/netns" "Programs of examples/dsm as jobs of 2 nodes between network namespaces, joined by a link that the kernel keeps at 1 and 10 Gb/s; beside it the described link" overNetns

overNetns :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
overNetns reaper effort say = do
  link <- helperPath "maru-bench-dsm-netns"
  lacking <- mapM (uncurry (lacks reaper link)) [(1000, 0), (0, 100)]
  case lacking of
    [Nothing, delaying] -> measured reaper link (maybe delays (const (const 0)) delaying) delaying effort say
    why : _ -> pure (unmeasured (fromMaybe "no link" why))
    [] -> pure (unmeasured "no link")

-- | Why there can be no such link here, if so.
lacks :: Reaper -> FilePath -> Int -> Int -> IO (Maybe String)
lacks reaper link rate delay = do
  (code, _, said) <- outputOf reaper (proc link [show rate, show delay, "true"]) {std_in = CreatePipe}
  case code of
    ExitSuccess -> pure Nothing
    ExitFailure 77 -> pure (Just (unwords (lines said)))
    ExitFailure n -> problem internal (link ++ " ended with status " ++ show n ++ ": " ++ unwords (lines said))

unmeasured :: String -> Figures
unmeasured why =
  Figures
    { figuresLine = "not measured: " ++ why,
      figuresTables = [],
      figuresPlots = [],
      figuresData = object ["not_measured" .= why]
    }

measured :: Reaper -> FilePath -> (Speed -> Int) -> Maybe String -> Effort -> (String -> IO ()) -> IO Figures
measured reaper link delay undelayed effort say = do
  launcher <- helperPath "maru-launch"
  paths <- mapM (\p -> (,) p <$> helperPath ("dsm-" ++ p)) some
  alone <- Map.fromList <$> mapM (\(p, path) -> (,) p <$> printedAlone reaper path (sizes p)) paths
  let runs = Map.fromList [(sideOf s p f way, timed reaper (Map.lookup p alone) (job launcher s p path f way)) | s <- speeds, (p, path) <- paths, f <- policies, way <- [Kernel, Described]]
      sides = [Side name [] | name <- Map.keys runs]
      measure side = fromMaybe (problem internal ("no side " ++ sideName side)) (Map.lookup (sideName side) runs)
      claims = [ratio (name ++ ", " ++ p ++ ": adaptive over " ++ f) (AtMost 1.05) ownSeconds (sideOf s p "adaptive" Kernel) (sideOf s p f Kernel) | s@(Speed name _ _) <- speeds, p <- some, f <- ["page", "range"]]
  rounds <- runRounds effort say measure sides (const claims)
  let judged = map (judgeClaim rounds) claims
      median side = maybe (0 / 0) summaryMedian (summaryOf ownSeconds rounds side)
      row s@(Speed name _ _) p way =
        [name, p, if way == Kernel then "kernel's" else "described"]
          ++ [fixed 4 (median (sideOf s p f way)) | f <- policies]
          ++ [fixed 3 (median (sideOf s p "range" way) / median (sideOf s p "page" way))]
          ++ [if way == Kernel then "" else fixed 2 (median (sideOf s p "page" way) / median (sideOf s p "page" Kernel))]
  pure
    Figures
      { figuresLine = claimsLine judged ++ maybe "" ("; no latency is added: " ++) undelayed,
        figuresTables =
          [ ("Seconds of wall time, 2 nodes, one page a fetch, median", Table ([(L, "link"), (L, "program"), (L, "whose")] ++ [(R, f) | f <- policies] ++ [(R, "range/page"), (R, "described/kernel's, page")]) [row s p way | s <- speeds, p <- some, way <- [Kernel, Described]]),
            ("Claims", claimsTable judged)
          ],
        figuresPlots = [],
        figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged, "delay_us" .= [object ["link" .= name, "us" .= delay s] | s@(Speed name _ _) <- speeds], "no_delay_because" .= undelayed]
      }
  where
    ownSeconds = number ["seconds"]
    job launcher s@(Speed _ rate ps) p path f way =
      Job
        { jobStart = [link, show (if way == Kernel then rate else 0), show (if way == Kernel then delay s else 0), launcher, "-n", "2", "--hosts", "/dev/fd/8", "--"],
          jobEnvironment = ("MARU_DSM_BATCH", "1") : ("MARU_DSM_PREFETCH", "0") : ("MARU_DSM_FETCH", f) : [("MARU_DSM_LINK", show (1000 * delay s) ++ "," ++ show ps) | way == Described],
          jobProgram = path,
          jobArguments = sizes p
        }
