-- | What the simulator of the wait room is held to: measurements of two nodes, the
-- published experiment, and up to 1024 nodes.
--
-- Fitted on two CPUs of this machine (@boost_jobs@, medians of three or more runs,
-- 2026-11-21, raw data in @bench\/results\/2026-11-21-calm@): what a wake-up costs and what others
-- take, on spinning, sleeping and giving way at 1000, 100 and 30 µs. And what the emulated network
-- card costs, on one job that spins. The judged policies were looked at while those were chosen, in
-- the cells without latency and with four jobs: assumed. The rest is predicted.
module Maru.Control.Sim.Boost.Study
  ( Cell (..),
    measured,
    cellModel,
    cellChecks,
    publishedShares,
    publishedModel,
    publishedChecks,
    nodeCounts,
    scaleModel,
    scaleChecks,
    Disturbed (..),
    scaleDisturbed,
    Corner (..),
    corners,
    Regret (..),
    regretIn,
    slowdown,
  )
where

import Data.List (minimumBy)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (fromMaybe)
import Data.Ord (comparing)
import Maru.Control.Sim.Boost
import Maru.Control.Sim.Check
import Maru.Control.Statistics (median)

-- | Jobs, computing between messages, latency (µs), and the measured slowdown of a scheme.
data Cell = Cell
  { cellScheme :: !String,
    cellJobs :: !Int,
    cellCompute :: !Double,
    cellLatency :: !Double,
    cellMeasured :: !Double
  }
  deriving (Eq, Show)

-- | Medians of the raw data.
measured :: [Cell]
measured =
  [ Cell "adaptive" 4 30 0 1.214,
    Cell "adaptive" 4 100 0 1.166,
    Cell "adaptive" 4 1000 0 1.154,
    Cell "block" 4 30 0 1.282,
    Cell "block" 4 100 0 1.226,
    Cell "block" 4 1000 0 1.129,
    Cell "coop" 4 29 20 2.559,
    Cell "coop" 4 30 0 1.143,
    Cell "coop" 4 67 20 1.814,
    Cell "coop" 4 100 0 1.172,
    Cell "coop" 4 300 0 1.085,
    Cell "coop" 4 400 20 1.24,
    Cell "coop" 4 1000 0 1.062,
    Cell "coop" 8 100 0 1.207,
    Cell "coop" 8 1000 0 1.086,
    Cell "dcs" 4 30 0 1.323,
    Cell "dcs" 4 100 0 1.218,
    Cell "dcs" 4 1000 0 1.133,
    Cell "gang" 4 29 20 3.587,
    Cell "gang" 4 30 0 1.189,
    Cell "gang" 4 67 20 2.276,
    Cell "gang" 4 100 0 1.29,
    Cell "gang" 4 300 0 1.158,
    Cell "gang" 4 400 20 1.294,
    Cell "gang" 4 1000 0 1.132,
    Cell "gang" 8 100 0 1.345,
    Cell "gang" 8 1000 0 1.255,
    Cell "lower-yield" 4 29 20 3.269,
    Cell "lower-yield" 4 30 0 1.234,
    Cell "lower-yield" 4 67 20 2.119,
    Cell "lower-yield" 4 100 0 1.198,
    Cell "lower-yield" 4 300 0 1.125,
    Cell "lower-yield" 4 400 20 1.242,
    Cell "lower-yield" 4 1000 0 1.16,
    Cell "lower-yield" 8 100 0 1.246,
    Cell "lower-yield" 8 1000 0 1.172,
    Cell "sleep-poll" 4 30 0 1.394,
    Cell "sleep-poll" 4 100 0 1.46,
    Cell "sleep-poll" 4 1000 0 1.154,
    Cell "spin" 4 30 0 4.12,
    Cell "spin" 4 100 0 3.818,
    Cell "spin" 4 1000 0 1.908,
    Cell "spin-block" 4 30 0 1.219,
    Cell "spin-block" 4 100 0 1.257,
    Cell "spin-block" 4 1000 0 1.131,
    Cell "spin-lower" 4 30 0 1.849,
    Cell "spin-lower" 4 100 0 1.752,
    Cell "spin-lower" 4 1000 0 1.727,
    Cell "yield" 4 30 0 1.288,
    Cell "yield" 4 100 0 1.236,
    Cell "yield" 4 1000 0 1.129
  ]

-- | Median over three seeds of wall time by the ideal.
slowdown :: Model -> Double
slowdown m = median (fmap (\k -> outcomeSlowdown (simulate m {modelSeed = modelSeed m + k})) (0 :| [1, 2]))

cellModel :: Cell -> Model
cellModel cell =
  withScheme (cellScheme cell) $
    defaultModel
      { modelJobs = cellJobs cell,
        modelWork = if cellJobs cell == 8 then 50000 else 100000,
        modelCompute = cellCompute cell,
        modelLatency = cellLatency cell,
        modelCosts = if cellLatency cell > 0 then underCard else thisMachine,
        modelLimit = 10
      }

withScheme :: String -> Model -> Model
withScheme name m = maybe m (\scheme -> m {modelScheme = scheme}) (schemeNamed name)

-- | Gang, coop and lower-yield within 15 % of what was measured.
cellChecks :: [Check]
cellChecks = [check cell | cell <- measured, cellScheme cell `elem` ["gang", "coop", "lower-yield"]]
  where
    check cell =
      Check
        { checkName = cellScheme cell ++ ", " ++ show (cellJobs cell) ++ " jobs, " ++ whole (cellCompute cell) ++ " us, latency " ++ whole (cellLatency cell) ++ " us",
          checkKind = if cellLatency cell == 0 && cellJobs cell == 4 then Assumed else Predicted,
          checkBound = Between (0.85 * cellMeasured cell) (1.15 * cellMeasured cell),
          checkValue = slowdown (cellModel cell),
          checkPublished = "measured " ++ show (cellMeasured cell)
        }

whole :: Double -> String
whole x = show (round x :: Int)

-- | Latency by computing.
publishedShares :: [Double]
publishedShares = [0.1, 0.3, 0.5, 0.7]

-- | Four jobs on two nodes under the published kernel's long quantum.
publishedModel :: Double -> String -> Model
publishedModel share name =
  withScheme name $
    defaultModel
      { modelScheduler = longQuantum,
        modelWork = 200000,
        modelLatency = 1000,
        modelCompute = 1000 / share,
        modelCosts = underCard,
        modelLimit = 10
      }

-- | Beside the published claims.
publishedChecks :: [Check]
publishedChecks = concatMap checks publishedShares
  where
    checks share =
      let lowering = slowdown (publishedModel share "pb+lower")
          boost = slowdown (publishedModel share "pb")
          local = slowdown (publishedModel share "spin")
          at what = what ++ " at share " ++ show share
       in [ Check (at "boost + lowering over LOCAL") Predicted (AtMost 0.5) (lowering / local) "<= 0.5",
            Check (at "boost + lowering over boost") Predicted (AtMost 0.91) (lowering / boost) "<= 0.91"
          ]

-- | What the table of nodes shows.
nodeCounts :: [Int]
nodeCounts = [1, 2, 16, 256, 1024]

-- | Four jobs with a message every 100 µs.
scaleModel :: Costs -> Pattern -> Int -> String -> Model
scaleModel machine what nodes name =
  withScheme name $ defaultModel {modelNodes = nodes, modelPattern = what, modelCosts = machine, modelWork = 60000, modelLimit = 10.5}

-- | At 1024 nodes, where spinning takes ten times the ideal.
scaleChecks :: [Check]
scaleChecks =
  [check shape "quiet nodes" "" (once (scaleModel quietMachine what 1024 "adaptive")) | (what, shape) <- shapes]
    ++ [check (disturbedShape d) "disturbed as this machine" (floorText d) (disturbedAdaptive d) | d <- scaleDisturbed]
    ++ [Check (disturbedShape d ++ " of 1024 disturbed nodes: adaptive over waiting for free") Predicted (AtMost 1.1) (disturbedAdaptive d / disturbedFree d) "" | d <- scaleDisturbed]
    ++ [Check "LOCAL, 1024 nodes, ring, quiet nodes" Predicted (AtLeast 10) (once (scaleModel quietMachine Ring 1024 "spin")) ""]
  where
    check shape machine said x = Check ("adaptive, 1024 nodes, " ++ shape ++ ", " ++ machine) Predicted (AtMost 1.4) x said
    floorText d
      | disturbedFloor d > 1.4 = "no policy can: the floor is " ++ hundredths (disturbedFloor d)
      | otherwise = "floor " ++ hundredths (disturbedFloor d)

hundredths :: Double -> String
hundredths x = show (fromIntegral (round (100 * x) :: Int) / 100 :: Double)

-- | 1024 nodes disturbed as this machine, where one of them always stands still; times the ideal.
data Disturbed = Disturbed
  { disturbedShape :: !String,
    disturbedAdaptive :: !Double,
    -- | Waiting that itself costs nothing, under the same scheduler.
    disturbedFree :: !Double,
    -- | Below any policy and any scheduler: a single job of the four. It has all nodes to itself
    -- and computes whenever a node does not stand still and its messages are there. The other three
    -- can only make it later. And computing alone takes 1.
    disturbedFloor :: !Double
  }

scaleDisturbed :: [Disturbed]
scaleDisturbed = [disturbed what shape | (what, shape) <- shapes]
  where
    disturbed what shape =
      let four = scaleModel thisMachine what 1024
          free = (four "block") {modelCosts = unpaid}
          alone = (four "spin") {modelCosts = unpaid, modelJobs = 1, modelStagger = 0, modelLatency = 0}
       in Disturbed shape (once (four "adaptive")) (once free) (max 1 (outcomeWall (simulate alone) / ideal (four "spin")))
    unpaid = freeOfCost {costOthersEvery = costOthersEvery thisMachine, costOthers = costOthers thisMachine}

shapes :: [(Pattern, String)]
shapes = [(Ring, "ring"), (Barrier, "barrier")]

once :: Model -> Double
once = outcomeSlowdown . simulate

-- ---- the default beside the best policy ---------------------------------------

-- | Two nodes, as @maru bench boost\/cells-*@ has them.
data Corner = Corner
  { cornerLatency :: !Double,
    -- | Latency by computing.
    cornerShare :: !Double,
    cornerJobs :: !Int
  }
  deriving (Eq, Show)

-- | All, and whether the bench measures it.
corners :: [(Corner, Bool)]
corners =
  [ (Corner latency share jobs, share `elem` [0.1, 0.5] && jobs `elem` [1, 4, 8])
    | latency <- [2, 20, 100, 1000],
      share <- [0.05, 0.1, 0.3, 0.5, 0.7],
      jobs <- [1, 2, 4, 8, 16]
  ]

-- | The bench's.
cornerPolicies :: [String]
cornerPolicies = ["spin", "yield", "block", "spin-block", "spin-lower", "lower-yield", "sleep-poll", "coop", "dcs", "adaptive"]

-- | With the bench's settings: longer latencies than 2 µs are those of a card.
cornerModel :: Corner -> String -> Model
cornerModel corner name =
  withScheme name $
    defaultModel
      { modelJobs = cornerJobs corner,
        modelLatency = if carded then cornerLatency corner else 0,
        modelCompute = compute,
        modelWork = max 30000 (10 * compute),
        modelCosts = if carded then underCard else thisMachine,
        modelLimit = 4
      }
  where
    carded = cornerLatency corner > 2
    compute = cornerLatency corner / cornerShare corner

data Regret = Regret
  { regretCorner :: !Corner,
    -- | Times the ideal; 4 is the limit.
    regretDefault :: !Double,
    regretBest :: !String,
    regretLeast :: !Double
  }

-- | The best is chosen with hindsight, so luck counts against the default.
regretIn :: Corner -> Regret
regretIn corner = Regret corner (fromMaybe least (lookup "adaptive" all')) best least
  where
    all' = [(name, once (cornerModel corner name)) | name <- cornerPolicies]
    (best, least) = minimumBy (comparing snd) all'
