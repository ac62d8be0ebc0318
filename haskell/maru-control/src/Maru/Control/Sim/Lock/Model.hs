-- | What a simulated lock is asked for, and what comes of it. "Maru.Control.Sim.Lock"
-- has the model itself.
module Maru.Control.Sim.Lock.Model
  ( Machine (..),
    machineFields,
    Load (..),
    Algorithm (..),
    CnaKnobs (..),
    seedCna,
    deadlineCna,
    defaultRange,
    Model (..),
    problemOf,
    Outcome (..),
    throughput,
    remoteShare,
  )
where

import Data.Maybe (catMaybes)
import Maru.Control.Sim.Tally (Tally)

-- | Costs of a machine, in nanoseconds; rates per second of running time; one share.
data Machine = Machine
  { machineAgain :: !Double,
    machineLocal :: !Double,
    machineRemote :: !Double,
    machineRemoteData :: !Double,
    machineScanLocal :: !Double,
    machineScanRemote :: !Double,
    machinePath :: !Double,
    -- | Ticks a second, and their mean length.
    machineTickRate :: !Double,
    machineTick :: !Double,
    -- | Rare interruptions a second, and their length.
    machineStallRate :: !Double,
    machineStall :: !Double,
    -- | Share of these interruptions, 0 to 1, that meet waiters, too.
    machineWaiters :: !Double
  }
  deriving (Eq, Show)

-- | Every field with the name it has in files.
machineFields :: [(String, Machine -> Double, Double -> Machine -> Machine)]
machineFields =
  [ ("again_ns", machineAgain, \v m -> m {machineAgain = v}),
    ("local_ns", machineLocal, \v m -> m {machineLocal = v}),
    ("remote_ns", machineRemote, \v m -> m {machineRemote = v}),
    ("remote_data_ns", machineRemoteData, \v m -> m {machineRemoteData = v}),
    ("scan_local_ns", machineScanLocal, \v m -> m {machineScanLocal = v}),
    ("scan_remote_ns", machineScanRemote, \v m -> m {machineScanRemote = v}),
    ("path_ns", machinePath, \v m -> m {machinePath = v}),
    ("tick_per_s", machineTickRate, \v m -> m {machineTickRate = v}),
    ("tick_ns", machineTick, \v m -> m {machineTick = v}),
    ("stall_per_s", machineStallRate, \v m -> m {machineStallRate = v}),
    ("stall_ns", machineStall, \v m -> m {machineStall = v}),
    ("waiters_interrupted", machineWaiters, \v m -> m {machineWaiters = v})
  ]

-- | What the threads do, in nanoseconds.
data Load = Load
  { loadHold :: !Double,
    -- | Share of the hold time that is exponential, 0 to 1.
    loadHoldSpread :: !Double,
    loadThink :: !Double,
    -- | Share of the think time that is exponential, 0 to 1.
    loadThinkSpread :: !Double
  }
  deriving (Eq, Show)

-- | In which order waiters are admitted.
data Algorithm
  = -- | As they came: MCS, CLH, ticket.
    Fifo
  | Cna !CnaKnobs
  | -- | Hierarchical MCS: so many hand-overs within a socket, then the next
    -- socket in line. Its path is taken to cost what CNA's costs, so that the
    -- two differ by their order alone.
    Hmcs !Int
  deriving (Eq, Show)

-- | Compact NUMA-aware lock (Dice and Kogan, EuroSys 2019; Linux series v1 to
-- v15): the holder looks for the first waiter of its own socket and sets those
-- before it aside, in a secondary queue, which returns in front of the main one.
data CnaKnobs = CnaKnobs
  { -- | The secondary queue returns with a chance of one in so many at each
    -- hand-over (the seed's knob); 'Nothing': never by chance.
    cnaRange :: !(Maybe Int),
    -- | While nobody is set aside, look for a local waiter only once in so many
    -- hand-overs on average (Linux: 128); 1: always.
    cnaReduction :: !Int,
    -- | The secondary queue returns when its head has been there for so many
    -- nanoseconds.
    cnaDeadline :: !(Maybe Double),
    -- | Nobody is passed over by more than so many later arrivals.
    cnaBypass :: !(Maybe Int)
  }
  deriving (Eq, Show)

-- | The lock of the seed's study at this range.
seedCna :: Int -> Algorithm
seedCna range = Cna (CnaKnobs (Just range) 128 Nothing Nothing)

-- | Bounded by time, in nanoseconds; always looks for a local waiter.
deadlineCna :: Double -> Algorithm
deadlineCna nanoseconds = Cna (CnaKnobs (Just defaultRange) 1 (Just nanoseconds) Nothing)

defaultRange :: Int
defaultRange = 0x10000

data Model = Model
  { modelSockets :: !Int,
    modelThreads :: !Int,
    modelMachine :: !Machine,
    modelLoad :: !Load,
    modelAlgorithm :: !Algorithm,
    -- | Simulated nanoseconds that count; a twentieth more goes before them.
    modelDuration :: !Double,
    modelSeed :: !Int
  }
  deriving (Eq, Show)

-- | Why the model cannot be run, if it cannot.
problemOf :: Model -> Maybe String
problemOf model
  | modelSockets model < 1 || modelThreads model < 1 = Just "at least one socket and one thread are needed"
  | modelThreads model > 65536 = Just "at most 65536 threads can be simulated"
  | not (modelDuration model > 0 && modelDuration model <= 1e12) = Just "a duration of up to 1000 s is needed"
  | any negative times = Just "no cost and no rate may be negative"
  | machineWaiters (modelMachine model) > 1 = Just "waiters_interrupted is a share, 0 to 1"
  | progress <= 0 = Just "an operation must cost some time"
  | otherwise = case modelAlgorithm model of
    Fifo -> Nothing
    Hmcs passes -> if passes < 1 then Just "hmcs needs at least one pass" else Nothing
    Cna c
      | any (< 1) (cnaReduction c : catMaybes [cnaRange c]) -> Just "handoff_range and shuffle_reduction are at least 1"
      | maybe False (<= 0) (cnaDeadline c) -> Just "a deadline is longer than nothing"
      | maybe False (< 0) (cnaBypass c) -> Just "max_bypass is at least 0"
      | otherwise -> Nothing
  where
    load = modelLoad model
    times = [get (modelMachine model) | (_, get, _) <- machineFields] ++ [loadHold load, loadThink load]
    negative t = not (t >= 0 && t < 1e12)
    progress = loadHold load + loadThink load

data Outcome = Outcome
  { outcomeOperations :: !Int,
    -- | Simulated nanoseconds.
    outcomeTime :: !Double,
    -- | From the start of an operation's think part to its release.
    outcomeResponse :: !Tally,
    -- | From arrival at the lock to its grant.
    outcomeWait :: !Tally,
    -- | Grants to another socket than the one before.
    outcomeRemote :: !Int,
    -- | Grants of a lock that was free.
    outcomeFree :: !Int,
    -- | The most later arrivals that were admitted before one waiter; not
    -- counted for 'Hmcs'.
    outcomeBypass :: !(Maybe Int),
    -- | Jain's index of the threads' operations: 1 is equal. In windows of
    -- 10 ms, their mean, and over the whole run.
    outcomeJainWindow :: !Double,
    outcomeJain :: !Double
  }
  deriving (Eq, Show)

-- | Operations a second.
throughput :: Outcome -> Double
throughput o = if outcomeTime o > 0 then fromIntegral (outcomeOperations o) / outcomeTime o * 1e9 else 0

-- | Share of the grants that went to another socket.
remoteShare :: Outcome -> Double
remoteShare o = fromIntegral (outcomeRemote o) / fromIntegral (max 1 (outcomeOperations o))
