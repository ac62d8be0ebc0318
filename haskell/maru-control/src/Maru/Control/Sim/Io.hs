-- | A plant for the steering controller, and the two in a closed loop. It is what a machine with
-- several nodes does with a load of input and output under given sets of cores.
--
-- = The model
--
-- A fluid model in periods of a tenth of a second. Threads compute on all cores
-- that serve no item, wherever those are, and ask for operations. One operation is computing, one
-- system call and its interrupts. Where an item has a set, its work is done there. Else the call is
-- on the thread's own core and the interrupt on all nodes alike.
--
-- * /Computing/ costs 'taskCompute', and 'plantPollution' of it more for each of
--   calls and interrupts that share the thread's core (caches, preemption).
-- * /A call/ costs 'taskCall', longer by @costStack@ for each ten units of
--   distance (as SLIT counts) to the device, since that is where queues and cache pages are. It is
--   longer by 'costSpread' times the chance that two calls in succession are done on different
--   nodes, since they share the stack's locks and counters. And it copies: 'costCopy' a KiB, longer
--   by 'costCopyFar' for each ten units between the caller and the core that does it.
-- * /A delegated call/ costs the caller 'plantHandOver' times the distance to the
--   core that does it.
-- * /An interrupt/ costs 'taskInterrupt', longer by distance and spread as a call.
-- * /The devices/ together have a cap in bytes a second.
--
-- All cores of a set are equally busy. Every task goes as fast as the busiest
-- thing that it uses allows.
--
-- = What it assumes
--
-- The costs are chosen, not measured. They hold what the seed says of its policies. A file system's
-- stack is one, so that calls from several nodes meet in it. Large blocks stream, so that copying
-- over a distance costs little. Network flows have little in common, but their small buffers are
-- hot in the caller's cache. The order of the policies follows from that; the size of a gain means
-- nothing.
--
-- Not in the model: latency, queues, bursts within a period, the scheduler, the
-- cost of moving threads.
module Maru.Control.Sim.Io
  ( -- * The plant
    Plant (..),
    DeviceCosts (..),
    Task (..),
    machine,
    seedPlant,
    losingPlant,

    -- * Loads
    Load (..),
    loads,
    mapReduce,
    httpd,

    -- * What was recorded
    Look (..),
    Flow (..),
    replayed,

    -- * The closed loop
    Period (..),
    run,
    Summary (..),
    summarise,
  )
where

import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (mapAccumL)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Maru.Control.Steer
import System.Random.SplitMix (SMGen, mkSMGen, nextDouble)

data Plant = Plant
  { plantTopology :: !Topology,
    plantPollution :: !Double,
    plantFile :: !DeviceCosts,
    plantNet :: !DeviceCosts,
    -- | Microseconds at distance 10.
    plantHandOver :: !Double,
    -- | KiB a second that the devices can do.
    plantDevice :: !Double,
    -- | Share by which each period's figures scatter.
    plantNoise :: !Double
  }
  deriving (Eq, Show)

data DeviceCosts = DeviceCosts
  { costStack :: !Double,
    costSpread :: !Double,
    -- | Microseconds a KiB.
    costCopy :: !Double,
    costCopyFar :: !Double
  }
  deriving (Eq, Show)

data Task = Task
  { taskDevice :: !Device,
    -- | Operations a second that it asks for; more than fits: as many as fit.
    taskOffered :: !Double,
    -- | Microseconds.
    taskCompute :: !Double,
    taskCall :: !Double,
    taskInterrupt :: !Double,
    -- | KiB.
    taskBytes :: !Double
  }
  deriving (Eq, Show)

-- | So many nodes with so many cores in all, both devices at node 0, distance 21
-- between nodes.
machine :: Int -> Int -> Topology
machine sockets cores =
  Topology
    { topologyCpus = IntMap.fromList [(cpu, cpu * sockets `div` max 1 cores) | cpu <- [0 .. cores - 1]],
      topologyDistances = Map.fromList [((a, b), 21) | a <- [0 .. sockets - 1], b <- [0 .. sockets - 1], a /= b],
      topologyFile = Just 0,
      topologyNet = Just 0
    }

-- | The assumed costs.
seedPlant :: Topology -> Plant
seedPlant topology =
  Plant
    { plantTopology = topology,
      plantPollution = 0.15,
      plantFile = DeviceCosts {costStack = 0.35, costSpread = 0.5, costCopy = 0.1, costCopyFar = 0.3},
      plantNet = DeviceCosts {costStack = 0.05, costSpread = 0.05, costCopy = 0.3, costCopyFar = 1},
      plantHandOver = 0.4,
      plantDevice = 1 / 0,
      plantNoise = 0.02
    }

-- | One where delegation only costs, as on one socket: nothing is polluted,
-- nothing is far, each hand-over takes a sleep.
losingPlant :: Topology -> Plant
losingPlant topology = (seedPlant topology) {plantPollution = 0, plantFile = flat, plantNet = flat, plantHandOver = 30}
  where
    flat = DeviceCosts 0 0 0.1 0

-- ---- one period --------------------------------------------------------

-- | Where a share of a task's item is done: from a node, on a node, by a set.
data Share = Share
  { shareFrom :: !Node,
    shareOn :: !Node,
    sharePart :: !Double,
    shareSet :: !Bool
  }

-- | Cores that work is charged to.
data Pool = Own | Serving !Item
  deriving (Eq, Ord)

-- | What is seen of a period: the sample, with the plant's scatter.
plantSample :: Plant -> IntSet -> Maybe Policy -> Sets -> [Task] -> SMGen -> (Sample, SMGen)
plantSample plant allowed policy sets tasks generator =
  ( Sample
      { sampleAllowed = allowed,
        sampleWork = Map.fromList [(item, IntMap.fromListWith (+) [(node, v * rate) | (rate, t) <- paced, (node, v) <- asked item t]) | item <- allItems],
        sampleUse = IntMap.fromList [(cpu, min 1 (use pool)) | (pool, cpus) <- pools, cpu <- cpus],
        sampleRate = (1 + plantNoise plant * (2 * noise - 1)) * sum (map fst paced)
      },
    rest
  )
  where
    (noise, rest) = nextDouble generator
    topology = plantTopology plant
    usable = IntSet.filter (`IntMap.member` topologyCpus topology) allowed
    own = IntSet.difference usable (IntSet.unions (Map.elems sets))
    inNode node = filter ((== Just node) . (`IntMap.lookup` topologyCpus topology)) . IntSet.toAscList
    pools = (Own, IntSet.toAscList own) : [(Serving item, IntSet.toAscList (IntSet.intersection usable set)) | (item, set) <- Map.toList sets]
    size = Map.fromList [(pool, fromIntegral (length cpus)) | (pool, cpus) <- pools] :: Map Pool Double
    parts :: [(Node, Double)] -> [(Node, Double)]
    parts weighted = [(node, w / max 1e-9 (sum (map snd weighted))) | (node, w) <- weighted, w > 0]
    ownParts = parts [(node, fromIntegral (length (inNode node own))) | node <- nodes topology]
    setParts item = parts [(node, fromIntegral (length (inNode node (IntSet.intersection usable (Map.findWithDefault IntSet.empty item sets))))) | node <- nodes topology]

    -- Where an item is done. Under 'PerSocket' a caller's own node serves it as far
    -- as the set's cores there reach, and nodes with more cores than callers take the rest. Else
    -- any core of the set serves anybody.
    shares item = case setParts item of
      []
        | itemKind item == Call -> [Share node node part False | (node, part) <- ownParts]
        | otherwise -> [Share from on (p * q) False | (from, p) <- ownParts, (on, q) <- ownParts]
      on
        | policy == Just PerSocket -> filter ((> 0) . sharePart) (concatMap (nearest on) ownParts)
        | otherwise -> [Share caller node (p * q) True | (caller, p) <- ownParts, (node, q) <- on]
    nearest on (node, part) = Share node node local True : [Share node other ((part - local) * spare / max 1e-9 (sum (map snd spares))) True | (other, spare) <- spares]
      where
        local = min part (fromMaybe 0 (lookup node on))
        spares = [(other, q - min q (fromMaybe 0 (lookup other ownParts))) | (other, q) <- on]

    far a b = fromIntegral (distance topology a b) / 10 - 1 :: Double
    toDevice item node = maybe 0 (far node) (if itemDevice item == File then topologyFile topology else topologyNet topology)
    costs item = if itemDevice item == File then plantFile plant else plantNet plant
    -- Chance that two in succession are done on different nodes.
    scattered item = 1 - sum [p * p | p <- IntMap.elems (IntMap.fromListWith (+) [(shareOn s, sharePart s) | s <- shares item])]
    -- Microseconds of an item's work at a share, and what the caller adds.
    itemCost item task share = base * (1 + costStack c * toDevice item (shareOn share)) * (1 + costSpread c * scattered item) + copied
      where
        c = costs item
        base = if itemKind item == Call then taskCall task else taskInterrupt task
        copied = if itemKind item == Call then taskBytes task * costCopy c * (1 + costCopyFar c * far (shareOn share) (shareFrom share)) else 0
    waited item share
      | shareSet share && itemKind item == Call = plantHandOver plant * (1 + far (shareOn share) (shareFrom share))
      | otherwise = 0
    items task = [Item (taskDevice task) Call, Item (taskDevice task) Interrupt]
    -- Core-seconds an operation of a task, by pool.
    charges task =
      Map.fromListWith (+) $
        (Own, micro * taskCompute task * (1 + plantPollution plant * polluting task)) :
        concat [[(if shareSet s then Serving item else Own, sharePart s * micro * itemCost item task s), (Own, sharePart s * micro * waited item s)] | item <- items task, s <- shares item]
    polluting task = fromIntegral (length (filter (null . setParts) (items task)))
    asked item task
      | itemDevice item /= taskDevice task = []
      | otherwise = [(shareFrom s, sharePart s * micro * itemCost item task s) | s <- shares item]
    micro = 1e-6

    -- Everything goes at the pace of the busiest thing that it uses.
    demand = Map.fromListWith (+) [(pool, taskOffered t * c) | t <- tasks, (pool, c) <- Map.toList (charges t)]
    pressure pool = Map.findWithDefault 0 pool demand / max 1e-9 (Map.findWithDefault 0 pool size)
    bytes = sum [taskOffered t * taskBytes t | t <- tasks]
    pace task = taskOffered task / maximum (1 : bytes / plantDevice plant : map pressure (Map.keys (charges task)))
    paced = [(pace t, t) | t <- tasks]
    use pool = sum [rate * Map.findWithDefault 0 pool (charges t) | (rate, t) <- paced] / max 1e-9 (Map.findWithDefault 0 pool size)

-- ---- loads -------------------------------------------------------------

-- | What happens in each period.
data Load = Load
  { loadName :: !String,
    loadPurpose :: !String,
    -- | Tasks and allowed CPUs in a period.
    loadAt :: !(Topology -> Int -> ([Task], IntSet))
  }

-- | More than any machine does.
endless :: Double
endless = 1e9

-- | Large blocks, a third of the time in the kernel.
mapReduce :: Task
mapReduce = Task File endless 100 30 6 64

-- | Answers of 16 KiB, a third of the time in the kernel.
httpd :: Task
httpd = Task Net endless 30 10 4 16

loads :: [Load]
loads =
  [ Load "hdfs" "a map-reduce over large blocks, as fast as it goes" (always mapReduce),
    Load "httpd" "a web server's small answers, as fast as it goes" (always httpd),
    Load "idle" "next to nothing" (always httpd {taskOffered = 100}),
    Load "burst" "a quiet web server, full from period 50 to 150" (\t p -> ([httpd {taskOffered = if p >= 50 && p < 150 then endless else 2000}], cpus t)),
    Load "square" "full and idle by turns of seven periods" (\t p -> ([mapReduce {taskOffered = if even (p `div` 7) then endless else 500}], cpus t)),
    Load "unplugged" "the map-reduce; from period 100 on a quarter of the CPUs is gone" (\t p -> ([mapReduce], (if p >= 100 then fewer else id) (cpus t)))
  ]
  where
    always task t _ = ([task], cpus t)
    cpus = IntMap.keysSet . topologyCpus
    fewer set = IntSet.fromList (drop (IntSet.size set `div` 4) (IntSet.toAscList set))

-- ---- what was recorded -------------------------------------------------

-- | What a program did on a machine, between two looks.
data Look = Look
  { lookSeconds :: !Double,
    -- | Cores' worth of all that is no call and no interrupt.
    lookComputing :: !Double,
    lookFlows :: ![(Device, Flow)]
  }
  deriving (Eq, Show)

-- | Of a device, a second.
data Flow = Flow
  { flowCalls :: !Double,
    flowBytes :: !Double,
    -- | Cores' worth of the calls, and of its interrupts.
    flowSystem :: !Double,
    flowInterrupt :: !Double
  }
  deriving (Eq, Show)

-- | The looks one after another, and then anew. An operation is one call with its share of the
-- computing and of the interrupts. As many are offered as were made, so that a program that the
-- machine held back asks for no more here.
replayed :: Plant -> [Look] -> Load
replayed plant looks = Load "recorded" "what was recorded on a machine, again and again" $ \topology p ->
  (maybe [] snd (IntMap.lookupLE (p `mod` max 1 whole) starts), IntMap.keysSet (topologyCpus topology))
  where
    lengths = map (max 1 . round . (10 *) . lookSeconds) looks :: [Int]
    whole = sum lengths
    starts = IntMap.fromList (zip (scanl (+) 0 lengths) (map (tasksOf plant) looks))

-- | What the plant adds to a call for its bytes was in the call already.
tasksOf :: Plant -> Look -> [Task]
tasksOf plant look = [task device flow | (device, flow) <- made]
  where
    made = [(device, flow) | (device, flow) <- lookFlows look, flowCalls flow > 0]
    calls = sum [flowCalls flow | (_, flow) <- made]
    task device flow =
      Task
        { taskDevice = device,
          taskOffered = flowCalls flow,
          taskCompute = 1e6 * lookComputing look / calls,
          taskCall = max 0 (each flowSystem - kib * costCopy (if device == File then plantFile plant else plantNet plant)),
          taskInterrupt = each flowInterrupt,
          taskBytes = kib
        }
      where
        each part = 1e6 * part flow / flowCalls flow
        kib = flowBytes flow / flowCalls flow / 1024

-- ---- the closed loop ---------------------------------------------------

data Period = Period
  { periodRate :: !Double,
    periodSets :: !Sets,
    periodActions :: ![Action],
    -- | What the controller makes of it: its tally, and whether it is trying something.
    periodTally :: !Tally,
    periodTrying :: !Bool
  }
  deriving (Eq, Show)

-- | So many periods. 'Nothing': without a controller.
run :: Plant -> Maybe Config -> Load -> Int -> Int -> [Period]
run plant config load seed periods = snd (mapAccumL period (start, mkSMGen (fromIntegral seed)) [0 .. periods - 1])
  where
    topology = plantTopology plant
    period (state, generator) p =
      let (tasks, allowed) = loadAt load topology p
          (sample, rest) = plantSample plant allowed (statePolicy state) (stateSets state) tasks generator
          (next, actions) = maybe (state, []) (\c -> step c topology state sample) config
       in ((next, rest), Period (sampleRate sample) (stateSets state) actions (stateTally next) (stateTrying next))

-- | What a run came to.
data Summary = Summary
  { -- | Mean over the last half.
    summaryRate :: !Double,
    summarySets :: !Sets,
    -- | Periods with actions, and verdicts that undid something.
    summaryChanges :: !Int,
    summaryUndone :: !Int
  }
  deriving (Eq, Show)

summarise :: [Period] -> Summary
summarise periods =
  Summary
    { summaryRate = sum (map periodRate late) / fromIntegral (max 1 (length late)),
      summarySets = case reverse periods of
        lastOne : _ -> periodSets lastOne
        [] -> Map.empty,
      summaryChanges = length (filter (not . null . periodActions) periods),
      summaryUndone = maximum (0 : map (tallyUndone . periodTally) (take 1 (reverse periods)))
    }
  where
    late = drop (length periods `div` 2) periods
