-- | The tuner of "Maru.Control.Tune.Lock" on simulated locks, beside an oracle
-- that has measured every deadline at length.
module Maru.Control.Sim.Lock.Tuning
  ( Workload (..),
    workloads,
    objectives,
    Trial (..),
    trials,
    succeeded,
  )
where

import Control.Monad.ST (runST)
import Data.Maybe (isNothing)
import Data.STRef (newSTRef, readSTRef, writeSTRef)
import Maru.Control.Sim.Lock
import Maru.Control.Sim.Lock.Study
import Maru.Control.Sim.Tally
import Maru.Control.Tune.Lock

data Workload = Workload
  { workloadName :: !String,
    workloadModel :: !Model
  }
  deriving (Eq, Show)

workloads :: [Workload]
workloads =
  [ Workload "seed" seedModel,
    Workload "4 sockets, 72 threads" seedModel {modelSockets = 4, modelThreads = 72},
    Workload "short hold" seedModel {modelLoad = seedLoad {loadHold = 50, loadThink = 500}},
    Workload "long hold" seedModel {modelLoad = seedLoad {loadHold = 800, loadThink = 3000}},
    Workload "light load, 8 threads" seedModel {modelThreads = 8, modelLoad = seedLoad {loadThink = 4000}}
  ]

-- | Percentile, and the limit as a multiple of what FIFO has.
objectives :: [(Double, Double)]
objectives = [(0.999, 0.6), (0.999, 1.3), (0.999, 4), (0.99, 2)]

-- | One workload and objective.
data Trial = Trial
  { trialWorkload :: !String,
    trialObjective :: !Objective,
    trialVerdict :: !Verdict,
    trialWindows :: !Int,
    -- | The verdict's setting, measured at length.
    trialResult :: !(Maybe Window),
    -- | The best that holds the objective, of all deadlines; 'Nothing' when none does.
    trialOracle :: !(Maybe (Setting, Window))
  }
  deriving (Eq, Show)

-- | The objective held within 10 %, at 95 % or more of the oracle's throughput, in
-- at most 'mostWindows' windows; where nothing holds it, said so or held within
-- 10 % nevertheless.
succeeded :: Trial -> Bool
succeeded t =
  trialWindows t <= mostWindows && case (trialResult t, trialOracle t) of
    (Just w, oracle) -> held w && maybe True (\(_, best) -> windowThroughput w >= 0.95 * windowThroughput best) oracle
    (Nothing, oracle) -> isNothing oracle
  where
    held w = windowTail w <= 1.1 * objectiveLimit (trialObjective t)

-- | All objectives on one workload.
trials :: Workload -> [Trial]
trials (Workload name model) = map attempt objectives
  where
    table = [(s, outcomeOf 1 s) | s <- InOrder : [Within (500 * sqrt 2 ^^ k) | k <- [0 .. 26 :: Int]]]
    plain = outcomeOf 1 InOrder
    outcomeOf seed setting = simulate model {modelAlgorithm = algorithm setting, modelDuration = 1.5e8, modelSeed = seed}
    attempt (share, factor) =
      Trial
        { trialWorkload = name,
          trialObjective = objective,
          trialVerdict = verdict,
          trialWindows = length seen,
          trialResult = case verdict of
            Use setting _ -> Just (seenIn share (outcomeOf 2 setting))
            Infeasible _ -> Nothing,
          trialOracle = best [(s, w) | (s, o) <- table, allowed s, let w = seenIn share o, windowTail w <= limit]
        }
      where
        limit = factor * windowTail (seenIn share plain)
        objective = Objective share limit
        (verdict, seen) = tune model objective
        allowed setting = case setting of
          InOrder -> True
          Within d -> d <= limit
    best ws = case ws of
      [] -> Nothing
      w : more -> Just (foldl (\a b -> if windowThroughput (snd b) > windowThroughput (snd a) then b else a) w more)

-- | The tuner with windows of 50 ms, each with a seed of its own.
tune :: Model -> Objective -> (Verdict, [(Setting, Window)])
tune model objective = runST $ do
  seeds <- newSTRef 1000
  let measure setting = do
        seed <- readSTRef seeds
        writeSTRef seeds (seed + 1)
        pure (seenIn (objectiveShare objective) (simulate model {modelAlgorithm = algorithm setting, modelDuration = 5e7, modelSeed = seed}))
  follow measure (search objective)

algorithm :: Setting -> Algorithm
algorithm setting = case setting of
  InOrder -> Fifo
  Within d -> deadlineCna d

seenIn :: Double -> Outcome -> Window
seenIn share o = Window (throughput o) (quantile share (outcomeResponse o))
