-- | What the simulator of the wait room is told, and what it tells: see
-- "Maru.Control.Sim.Boost".
module Maru.Control.Sim.Boost.Model
  ( Model (..),
    defaultModel,
    Pattern (..),
    Scheduler (..),
    Fairness (..),
    fair,
    longQuantum,
    Scheme (..),
    Daemon (..),
    schemes,
    schemeNamed,
    withPeriod,
    Costs (..),
    thisMachine,
    underCard,
    quietMachine,
    freeOfCost,
    Outcome (..),
    ideal,
    phasesOf,
    infinity,
    ablations,
  )
where

import Data.List (find)
import Maru.Wait.Policy (Policy (..), policyName)

data Model = Model
  { modelNodes :: !Int,
    modelJobs :: !Int,
    -- | Threads on each node that only compute.
    modelHogs :: !Int,
    -- | Computing of each process in all, and between two messages.
    modelWork :: !Double,
    modelCompute :: !Double,
    modelLatency :: !Double,
    modelPattern :: !Pattern,
    -- | The nodes start their jobs in orders of their own, so far apart.
    modelStagger :: !Double,
    -- | The nodes' clocks are off by up to so much, either way.
    modelSkew :: !Double,
    modelScheduler :: !Scheduler,
    modelScheme :: !Scheme,
    modelCosts :: !Costs,
    -- | Ended after so many times the ideal.
    modelLimit :: !Double,
    modelSeed :: !Int
  }
  deriving (Eq, Show)

-- | Two nodes with four jobs of 60 ms, a message every 100 µs.
defaultModel :: Model
defaultModel =
  Model
    { modelNodes = 2,
      modelJobs = 4,
      modelHogs = 0,
      modelWork = 60000,
      modelCompute = 100,
      modelLatency = 2,
      modelPattern = Ring,
      modelStagger = 5000,
      modelSkew = 50,
      modelScheduler = Fair fair,
      modelScheme = Scheme Adaptive NoDaemon,
      modelCosts = thisMachine,
      modelLimit = 40,
      modelSeed = 1
    }

-- | Which process sends to which.
data Pattern = Ring | Barrier
  deriving (Eq, Show, Enum, Bounded)

-- | What shares a node's CPU.
data Scheduler
  = Fair !Fairness
  | -- | With that quantum.
    RoundRobin !Double
  deriving (Eq, Show)

-- | Of EEVDF.
data Fairness = Fairness
  { fairSlice :: !Double,
    fairTick :: !Double,
    -- | One that wakes may take the CPU at once.
    fairPreempts :: !Bool
  }
  deriving (Eq, Show)

-- | Linux 6.18 on two CPUs with 250 ticks a second.
fair :: Fairness
fair = Fairness {fairSlice = 1400, fairTick = 4000, fairPreempts = True}

-- | As that of the published experiment: 100 ms.
longQuantum :: Scheduler
longQuantum = RoundRobin 100000

-- | How processes wait, and what helps them.
data Scheme = Scheme
  { schemePolicy :: !Policy,
    schemeDaemon :: !Daemon
  }
  deriving (Eq, Show)

-- | Of each node, with its period.
data Daemon
  = NoDaemon
  | -- | Wakes, restores, raises what is stuck; 250 µs to 5 ms by itself.
    Auto
  | -- | Raises what has a message.
    Pb !Double
  | -- | The same, and restores.
    PbLower !Double
  | -- | Raises one job after the other.
    Slots !Double
  deriving (Eq, Show)

-- | All policies, and the published heuristic without and with lowering.
schemes :: [(String, Scheme)]
schemes =
  [(policyName p, Scheme p (if p == Gang then Slots 20000 else NoDaemon)) | p <- [minBound .. maxBound]]
    ++ [("pb", Scheme Spin (Pb 20000)), ("pb+lower", Scheme SpinLower (PbLower 20000))]

-- | A scheme by its name; @NAME+auto@ has the daemon beside it.
schemeNamed :: String -> Maybe Scheme
schemeNamed name = case lookup name schemes of
  Just scheme -> Just scheme
  Nothing -> do
    (known, scheme) <- find ((== name) . (++ "+auto") . fst) schemes
    if known `elem` ["pb", "pb+lower", "gang"] then Nothing else Just scheme {schemeDaemon = Auto}

-- | With another period; what has none of its own stays.
withPeriod :: Double -> Scheme -> Scheme
withPeriod every scheme = scheme {schemeDaemon = changed (schemeDaemon scheme)}
  where
    changed daemon = case daemon of
      Pb _ -> Pb every
      PbLower _ -> PbLower every
      Slots _ -> Slots every
      other -> other

data Costs = Costs
  { costSend :: !Double,
    costLook :: !Double,
    -- | From one thread of a CPU to another.
    costSwitch :: !Double,
    -- | To give way and be back at once.
    costYield :: !Double,
    -- | To wake a sleeper, for who wakes.
    costWake :: !Double,
    -- | Until an idle CPU runs what was woken.
    costIdle :: !Double,
    -- | To fall asleep and return.
    costSleep :: !Double,
    -- | To change a priority.
    costPriority :: !Double,
    costTick :: !Double,
    -- | Of a message, for the CPU of the receiver, whatever that does: it arrives so
    -- much later, and the scheduler picks anew.
    costArrival :: !Double,
    -- | What outranks all this takes a node's CPU once in so long (at random, the
    -- mean), for so long: kernel threads, watchers. Then the scheduler picks anew.
    costOthersEvery :: !Double,
    costOthers :: !Double,
    -- | How long those spin who spin before they do something else.
    costSpin :: !Double
  }
  deriving (Eq, Show)

-- | Two virtual CPUs of a server of 2026, with messages through shared memory.
thisMachine :: Costs
thisMachine =
  Costs
    { costSend = 0.1,
      costLook = 0.1,
      costSwitch = 1.2,
      costYield = 0.5,
      costWake = 4,
      costIdle = 20,
      costSleep = 0.5,
      costPriority = 0.7,
      costTick = 15,
      costArrival = 0,
      costOthersEvery = 5000,
      costOthers = 330,
      costSpin = 44
    }

-- | The same under a network card that is a process, as @boost_jobs@ has it.
underCard :: Costs
underCard = thisMachine {costArrival = 25}

-- | The same without a hypervisor and other users.
quietMachine :: Costs
quietMachine = thisMachine {costOthersEvery = infinity}

-- | What it would be if nothing cost anything but the waiting itself. Giving way costs
-- a thousandth: it has to end.
freeOfCost :: Costs
freeOfCost = Costs 0 0 0 0.001 0 0 0 0 0 0 infinity 0 40

data Outcome = Outcome
  { -- | Wall time by 'ideal'.
    outcomeSlowdown :: !Double,
    -- | False: ended at the limit.
    outcomeDone :: !Bool,
    outcomeWall :: !Double,
    -- | Sums over the nodes: computing, waiting awake, costs, hogs, idle.
    outcomeComputed :: !Double,
    outcomeBurnt :: !Double,
    outcomeCosts :: !Double,
    outcomeHogs :: !Double,
    outcomeIdle :: !Double,
    -- | What the finished phases asked for, and how many there were.
    outcomeAsked :: !Double,
    outcomePhases :: !Int,
    outcomeEvents :: !Int
  }
  deriving (Eq, Show)

-- | Without waiting: each CPU computes for its processes one after the other.
ideal :: Model -> Double
ideal m = fromIntegral (modelJobs m) * fromIntegral (phasesOf m) * modelCompute m

-- | At least one.
phasesOf :: Model -> Int
phasesOf m = max 1 (floor (modelWork m / modelCompute m + 1e-9))

-- | The model without each of its parts. The whole one comes first.
ablations :: Model -> [(String, Model)]
ablations m =
  [ ("whole model", m),
    ("clocks agree", m {modelSkew = 0}),
    ("nodes start in phase", m {modelStagger = 0}),
    ("nobody preempts by waking", m {modelScheduler = calm (modelScheduler m)}),
    ("nobody else takes CPU time", m {modelCosts = (modelCosts m) {costOthersEvery = infinity}}),
    ("switches, wake-ups and ticks are free", m {modelCosts = unhurried (modelCosts m)}),
    ("idle CPUs answer at once", m {modelCosts = (modelCosts m) {costIdle = 0}}),
    ("messages arrive at once", m {modelLatency = 0})
  ]
  where
    unhurried c =
      freeOfCost
        { costSpin = costSpin c,
          costArrival = costArrival c,
          costOthersEvery = costOthersEvery c,
          costOthers = costOthers c
        }
    calm scheduler = case scheduler of
      Fair rules -> Fair rules {fairPreempts = False}
      other -> other

infinity :: Double
infinity = 1 / 0
