{-# LANGUAGE OverloadedStrings #-}

-- | What checkpoints cost a job that loses nobody. Three programs of SPLASH-3 run on four nodes, whose
-- messages go over a described link. They do without checkpoints, and with one every thirty seconds, the
-- default. They do with journals as well, so that only a lost node would repeat.
module DsmCheckpoint
  ( checkpointExperiment,
  )
where

import Data.Aeson (object, (.=))
import DsmJobs
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (commandPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Ratio
import Maru.Control.Statistics (Summary (summaryMedian))
import SplashSources
import System.FilePath ((</>))

checkpointExperiment :: Experiment
checkpointExperiment = Experiment "dsm/checkpoint" "Three programs of SPLASH-3 (MARU_SPLASH names its folder) on four nodes and a described link: with a checkpoint every 30 seconds, with journals as well, and with none" checkpoint

-- | Name, folder and command. Each takes some three minutes on two cores, by what shorter ones took: what a job
-- takes once, memory of its journals above all, is not to count as if it went on.
jobs :: [(String, FilePath, String)]
jobs =
  [ ("ocean", "apps/ocean/contiguous_partitions", "./OCEAN -n2050 -p4 -t900"),
    ("water", "apps/water-nsquared", "./WATER-NSQUARED <input"),
    ("raytrace", "apps/raytrace", "./RAYTRACE -m64 -a41 -p4 inputs/teapot.env")
  ]

-- | Of 1728 molecules, 650 steps by four processes.
waterInput :: String
waterInput = unlines ["1.5e-16 1728 650 6", "-1 3000 3 0", "4 6.212752"]

checkpoint :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
checkpoint reaper effort say =
  withSources reaper say [Nodes] [folder | (_, folder, _) <- jobs] [("apps/water-nsquared/input", waterInput)] $ \copy -> do
    maru <- commandPath
    rounds <- runRoundsOfEachWithin limitSeconds effort say (runPlain reaper 1 . concat . sideProcesses) [(caseName each, sidesOf maru copy each, const (claimsOf each)) | each <- cases]
    let judged = concat [map (judgeClaim found) (claimsOf each) | (found, each) <- zip rounds cases]
        row each found = caseName each : [maybe "-" (fixed 2 . (/ 1000) . summaryMedian) (summaryOf (number [metric]) found (sideOf each keeping)) | metric <- ["wall_ms", "cpu_ms"], keeping <- keepings]
    pure
      Figures
        { figuresLine = claimsLine judged,
          figuresTables =
            [ ("Seconds, median: the whole job, and its processor time", Table ((L, "link, program") : [(R, what ++ keepingName keeping) | what <- ["time, ", "processors, "], keeping <- keepings]) (zipWith row cases rounds)),
              ("Claims", claimsTable judged)
            ],
          figuresPlots = [],
          figuresData = object ["measured" .= map roundsJson rounds, "claims" .= map claimJson judged]
        }
  where
    cases = [(link, job) | link <- reverse described, not (null (barsOn link)), job <- jobs]
    caseName (link, (name, _, _)) = linkName link ++ ", " ++ name
    sideOf each keeping = caseName each ++ ", " ++ keepingName keeping
    claimsOf each = [ratio (caseName each ++ ": " ++ keepingName keeping ++ " by none, time") (AtMost bar) (number ["wall_ms"]) (sideOf each keeping) (sideOf each None) | (keeping, bar) <- barsOn (fst each)]
    sidesOf maru copy each@(Link _ _ latency ps _, (_, folder, command)) =
      [ Side (sideOf each keeping) [commandIn (copy Nodes </> folder) (unwords (["env MARU_DSM_ACCESS=userfaultfd MARU_DSM_TRANSPORT=tcp MARU_DSM_LINK=" ++ show latency ++ "," ++ show ps, maru, "launch -n 4"] ++ keepingOptions keeping ++ ["--", command]))]
        | keeping <- keepings
      ]

-- | Journals are more bytes than a link of 1 Gb/s is for: there they are measured, and nothing is claimed.
barsOn :: Link -> [(Keeping, Double)]
barsOn link = case linkName link of
  "10 Gb/s" -> [(All, 1.05), (Lost, 1.15)]
  "1 Gb/s" -> [(All, 1.05)]
  _ -> []

-- | Who goes back where a node is lost: nobody can, all, or that one alone.
data Keeping = None | All | Lost
  deriving (Eq)

keepings :: [Keeping]
keepings = [None, All, Lost]

keepingName :: Keeping -> String
keepingName None = "none"
keepingName All = "every 30 s"
keepingName Lost = "every 30 s and journals"

-- | A journal that is half full has a checkpoint taken at once: these are not.
keepingOptions :: Keeping -> [String]
keepingOptions None = []
keepingOptions All = ["--ckpt-every 30"]
keepingOptions Lost = ["--ckpt-every 30 --recover lost --journal 4096"]

-- | Of one program on one link; no further round begins later.
limitSeconds :: Int
limitSeconds = 1800
