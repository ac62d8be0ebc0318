-- | How much the default loses to the policy that is best in each of 24 cells. These are two shares
-- of latency by computing, four latencies, three numbers of jobs. One experiment a latency. The
-- best policy is chosen on the even rounds, the ratio taken on the odd ones. Choosing and measuring
-- on the same rounds would find luck.
module BoostRegret
  ( regretExperiments,
  )
where

import BoostCell
import Data.List (minimumBy)
import Data.List.NonEmpty (nonEmpty)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import Data.Ord (comparing)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Control.Ratio
import Maru.Control.Statistics

regretExperiments :: [Experiment]
regretExperiments =
  [ experiment
      ("boost/cells-" ++ show l)
      ("This kernel's own scheduler, a latency of " ++ show l ++ " µs: all policies by jobs and the latency's share of computing; times the ideal")
      (concatMap (cellsOf l) jobCounts)
      (regretClaims l)
    | l <- [2, 20, 100, 1000]
  ]

jobCounts :: [Int]
jobCounts = [1, 4, 8]

-- | Latency by computing.
shares :: [Double]
shares = [0.1, 0.5]

policies :: [String]
policies = ["spin", "yield", "block", "spin-block", "spin-lower", "lower-yield", "sleep-poll", "coop", "dcs", "adaptive"]

way :: String -> Int -> String
way policy jobs = policy ++ ", " ++ show jobs ++ (if jobs == 1 then " job" else " jobs")

-- | Messages through shared memory take 2 µs by themselves; longer latencies are the card's.
cellsOf :: Int -> Int -> [Cell]
cellsOf latency jobs =
  [ Cell (way policy jobs) share ["quantum=fair", "limit=4", setting "jobs" (fromIntegral jobs), setting "latency" card, setting "compute" grain, setting "work" work, "wait=" ++ policy]
    | share <- shares,
      let grain = fromIntegral latency / share
          -- Ten messages at least.
          work = max 30 (grain / 100),
      policy <- policies
  ]
  where
    card = if latency > 2 then fromIntegral latency else 0

regretClaims :: Int -> [Claim]
regretClaims latency =
  [regret latency jobs share | jobs <- jobCounts, share <- shares]
    ++ [against (AtMost 0.45) (way "adaptive" jobs) (way "spin" jobs) share | jobs <- jobCounts, jobs >= 4, share <- shares]
    ++ [onAverage latency]

regret :: Int -> Int -> Double -> Claim
regret latency jobs share = Claim text [named (way p jobs) share | p <- policies] values (AtMost 1.10)
  where
    text = "adaptive / best policy at " ++ show latency ++ " µs, share " ++ show share ++ ", jobs " ++ show jobs
    values (Rounds rounds) =
      let complete = [times | (_, samples) <- rounds, Just times <- [mapM (\p -> (,) p <$> timesOf samples p jobs share) policies]]
          numbered = zip [0 :: Int ..] complete
          (even', odd') = ([t | (k, t) <- numbered, even k], [t | (k, t) <- numbered, odd k])
          typical p = maybe infinity median (nonEmpty (mapMaybe (lookup p) even'))
          best = minimumBy (comparing typical) policies
       in [a / b | t <- odd', Just a <- [lookup "adaptive" t], Just b <- [lookup best t], b > 0]
    infinity = 1 / 0

-- | The geometric mean over the cells, a round at a time.
onAverage :: Int -> Claim
onAverage latency = Claim ("adaptive / block at " ++ show latency ++ " µs, mean of the cells") sides values (AtMost 1.00)
  where
    cells = [(jobs, share) | jobs <- jobCounts, share <- shares]
    sides = [named (way p jobs) share | (jobs, share) <- cells, p <- ["adaptive", "block"]]
    values (Rounds rounds) = mapMaybe (\(_, samples) -> mean <$> mapM (ratioIn samples) cells) rounds
    ratioIn samples (jobs, share) = (/) <$> timesOf samples "adaptive" jobs share <*> timesOf samples "block" jobs share
    mean ratios = exp (sum (map log ratios) / fromIntegral (length ratios))

timesOf :: Map.Map String Sample -> String -> Int -> Double -> Maybe Double
timesOf samples policy jobs share = Map.lookup (named (way policy jobs) share) samples >>= timesIdeal
