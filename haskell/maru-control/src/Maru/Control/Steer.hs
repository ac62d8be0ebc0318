-- | The steering controller: which cores serve input and output, as a function
-- from samples to actions.
--
-- = What it decides
--
-- Four items, system calls and interrupts of files and of the network, may each
-- have a set of cores. A period's sample says how much of each item's work was
-- done for threads of each node, how busy each core was and how fast the program
-- went. The sets grow when they are busier than a threshold for
-- 'configGrowAfter' periods and shrink when they are idler than another for
-- 'configShrinkAfter'; they go to the size that the work needs at once.
--
-- = What it promises
--
-- * The sets are disjoint, inside the CPUs allowed in this period and the nodes
--   of the policy, never more than 'budget' cores in all nor more than half of
--   any node. With fewer than four CPUs they are empty.
-- * Every change is a trial with a score that it must reach ('actionMust'). Its
--   sizes are corrected once after two periods; 'configTrial' periods later
--   it stays or is undone; after one that was undone nothing grows for a time that
--   doubles with each failure.
-- * A size that a correction has found too large is not tried again for a while.
-- * Between the end of a trial and the next, but when CPUs go away, there
--   are 'configDwell' periods.
--
-- The score is the rate divided by the use of the busiest group of cores: what
-- the machine could do as it is arranged now. A change of the load alone does not
-- change it.
--
-- Pure. O((cores + nodes) · cores) a step.
module Maru.Control.Steer
  ( -- * The machine
    Cpu,
    Node,
    Topology (..),
    nodes,
    distance,
    nodeCpus,

    -- * What is steered
    Device (..),
    Kind (..),
    Item (..),
    allItems,
    itemName,
    Policy (..),
    policyName,
    allPolicies,

    -- * The controller
    Config (..),
    Thresholds (..),
    defaultConfig,
    Sample (..),
    Sets,
    State,
    start,
    stateSets,
    statePolicy,
    Action (..),
    Reason (..),
    reasonName,
    step,
    budget,
    policyNodes,
  )
where

import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (foldl', sortOn)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.Ord (Down (..))

type Cpu = Int

type Node = Int

data Topology = Topology
  { -- | The node of each CPU.
    topologyCpus :: !(IntMap Node),
    -- | As firmware says it: 10 within a node. Missing pairs are 20.
    topologyDistances :: !(Map (Node, Node) Int),
    -- | The node next to each device; 'Nothing' when unknown: then all are near.
    topologyFile :: !(Maybe Node),
    topologyNet :: !(Maybe Node)
  }
  deriving (Eq, Show)

-- | Those that have CPUs.
nodes :: Topology -> [Node]
nodes = IntSet.toAscList . IntSet.fromList . IntMap.elems . topologyCpus

distance :: Topology -> Node -> Node -> Int
distance topology a b
  | a == b = 10
  | otherwise = fromMaybe 20 (Map.lookup (a, b) (topologyDistances topology))

nodeCpus :: Topology -> Node -> [Cpu]
nodeCpus topology node = IntMap.keys (IntMap.filter (== node) (topologyCpus topology))

data Device = File | Net
  deriving (Eq, Ord, Show, Enum, Bounded)

data Kind = Call | Interrupt
  deriving (Eq, Ord, Show, Enum, Bounded)

data Item = Item {itemDevice :: !Device, itemKind :: !Kind}
  deriving (Eq, Ord, Show)

allItems :: [Item]
allItems = Item <$> [minBound ..] <*> [minBound ..]

itemName :: Item -> String
itemName (Item device kind) = (if device == File then "file " else "net ") ++ (if kind == Call then "calls" else "interrupts")

data Policy
  = -- | Only cores of the node next to the device: the stack stays local.
    SingleSocket
  | -- | Cores of the node that asks: the buffers stay local.
    PerSocket
  | -- | As 'SingleSocket', and the nearest other nodes when that one is full.
    CrossSocket
  | -- | Tries the three and no sets at all; keeps the best.
    Auto
  deriving (Eq, Ord, Show, Enum, Bounded)

policyName :: Policy -> String
policyName policy = case policy of
  SingleSocket -> "single-socket"
  PerSocket -> "per-socket"
  CrossSocket -> "cross-socket"
  Auto -> "auto"

allPolicies :: [Policy]
allPolicies = [minBound ..]

-- ---- configuration -----------------------------------------------------

-- | Of an item.
data Thresholds = Thresholds
  { -- | Without a set: cores' worth of work above which it gets one; below
    -- which it loses its last one.
    thresholdStart :: !Double,
    thresholdStop :: !Double,
    -- | With a set: mean use above which it grows, below which it shrinks.
    thresholdGrow :: !Double,
    thresholdShrink :: !Double
  }
  deriving (Eq, Show)

data Config = Config
  { configPolicy :: !Policy,
    configThresholds :: !(Item -> Thresholds),
    -- | Mean use that a changed set is sized for.
    configAim :: !Double,
    -- | Periods above or below a threshold before anything changes.
    configGrowAfter :: !Int,
    configShrinkAfter :: !Int,
    -- | Periods between the end of a trial and the next change.
    configDwell :: !Int,
    -- | Cores in all; never more than half of those allowed.
    configBudget :: !Int,
    -- | Periods whose scores decide a trial; 'Auto' takes them for each policy.
    configTrial :: !Int,
    -- | Share by which growing must raise the score, and by which shrinking
    -- may lower it.
    configGain :: !Double,
    -- | Periods without growth after a failed trial, at first and at most.
    configBackoff :: !Int,
    configBackoffMost :: !Int
  }

defaultConfig :: Policy -> Config
defaultConfig policy =
  Config
    { configPolicy = policy,
      configThresholds = const (Thresholds 0.4 0.15 0.92 0.5),
      configAim = 0.8,
      configGrowAfter = 2,
      configShrinkAfter = 4,
      configDwell = 5,
      configBudget = maxBound,
      configTrial = 4,
      configGain = 0.03,
      configBackoff = 200,
      configBackoffMost = 6400
    }

-- ---- samples, actions, state -------------------------------------------

-- | What was seen in one period.
data Sample = Sample
  { -- | CPUs that may be used now.
    sampleAllowed :: !IntSet,
    -- | Cores' worth of an item's work, by the node of the thread that asked.
    sampleWork :: !(Map Item (IntMap Double)),
    -- | Use of each CPU, 0 to 1.
    sampleUse :: !(IntMap Double),
    -- | What the program got done, in any unit a second.
    sampleRate :: !Double
  }
  deriving (Eq, Show)

-- | Items without a set are absent.
type Sets = Map Item IntSet

data Reason
  = Grown
  | Shrunk
  | -- | Resized once within a trial.
    Corrected
  | -- | The next of several policies is tried.
    Probed !Policy
  | -- | The best of those tried.
    Chosen !Policy
  | -- | The score did not come.
    Undone
  | -- | CPUs of the sets went away: everything starts anew.
    Lost
  deriving (Eq, Show)

reasonName :: Reason -> String
reasonName reason = case reason of
  Grown -> "grown"
  Shrunk -> "shrunk"
  Corrected -> "corrected"
  Probed policy -> "trying " ++ policyName policy
  Chosen policy -> "chose " ++ policyName policy
  Undone -> "undone"
  Lost -> "CPUs went away"

-- | An item's new set.
data Action = Action
  { actionItem :: !Item,
    actionCpus :: !IntSet,
    actionReason :: !Reason,
    -- | The score that must be reached for this to stay; 0 when nothing is judged.
    actionMust :: !Double
  }
  deriving (Eq, Show)

data State = State
  { stateSets_ :: !Sets,
    -- | Under which policy these sets were made; 'Nothing': none was tried or all
    -- lost.
    statePolicy_ :: !(Maybe Policy),
    stateNow :: !Int,
    -- | Periods for which an item has wanted to grow (positive) or shrink (negative).
    stateWishes :: !(Map Item Int),
    stateChanged :: !Int,
    stateTrial :: !(Maybe Trial),
    -- | Nothing grows, nothing shrinks before this period; and the next wait.
    stateGrowFrom :: !Int,
    stateShrinkFrom :: !Int,
    stateWait :: !Int,
    -- | Scores of the last periods since the last change, newest first.
    stateScores :: ![Double],
    -- | Sizes that a correction has found too large, the highest rate of that trial, and
    -- until which period this is remembered.
    stateTooLarge :: !(Map Item (Int, Double, Int))
  }
  deriving (Eq, Show)

-- | A change that is being judged.
data Trial = Trial
  { -- | What there was, and its score.
    trialBefore :: !(Maybe Policy, Sets, Double),
    -- | What was tried so far, the current one first, without its score.
    trialNow :: !(Policy, Sets),
    trialSeen :: ![(Policy, Sets, Double)],
    trialNext :: ![Policy],
    -- | What was seen before it: all policies are sized by the same.
    trialSample :: !Sample,
    trialGrows :: !Bool,
    -- | When the sizes are corrected once by what the sets turn out to need.
    trialCorrects :: !(Maybe Int),
    trialEnds :: !Int
  }
  deriving (Eq, Show)

-- | No sets.
start :: State
start =
  State
    { stateSets_ = Map.empty,
      statePolicy_ = Nothing,
      stateNow = 0,
      stateWishes = Map.empty,
      -- Long ago.
      stateChanged = minBound `div` 2,
      stateTrial = Nothing,
      stateGrowFrom = 0,
      stateShrinkFrom = 0,
      stateWait = 0,
      stateScores = [],
      stateTooLarge = Map.empty
    }

stateSets :: State -> Sets
stateSets = stateSets_

-- | The policy in force; 'Nothing' when it is off.
statePolicy :: State -> Maybe Policy
statePolicy = statePolicy_

-- | Cores that may be given to items at most: half of those allowed, none of
-- fewer than four.
budget :: Config -> IntSet -> Int
budget config allowed
  | IntSet.size allowed < 4 = 0
  | otherwise = max 0 (min (configBudget config) (IntSet.size allowed `div` 2))

-- | Nodes that a device's sets may use, in order of preference. 'Auto' is no
-- policy of its own: all of them.
policyNodes :: Topology -> Policy -> Device -> [Node]
policyNodes topology policy device = case near of
  Just node
    | policy == SingleSocket -> [node | node `elem` nodes topology]
    | policy == CrossSocket -> sortOn (\n -> (distance topology node n, n)) (nodes topology)
  _ -> nodes topology
  where
    near = if device == File then topologyFile topology else topologyNet topology

-- ---- one period --------------------------------------------------------

-- | The controller. Call it once a period.
step :: Config -> Topology -> State -> Sample -> (State, [Action])
step config topology before sample
  | fitting config topology (sampleAllowed sample) (stateSets_ before) /= stateSets_ before =
    -- What was found out held for another machine.
    change (later {stateTrial = Nothing, stateScores = [], stateGrowFrom = 0, stateWait = 0, stateTooLarge = Map.empty}) Map.empty Nothing Lost 0
  | otherwise = case stateTrial seen of
    Just trial
      | trialCorrects trial == Just (stateNow seen) -> correct config topology sample seen trial
      | stateNow seen >= trialEnds trial || hopeless seen trial -> judge config topology sample seen trial
      | otherwise -> (seen, [])
    Nothing -> consider config topology sample seen
  where
    later = before {stateNow = stateNow before + 1}
    -- What is normal after a correction is known when its trial ends.
    usual (size, rate, until') = (size, if null (stateTrial before) then rate else max rate (sampleRate sample), until')
    seen = wish config topology sample later {stateTooLarge = Map.map usual (stateTooLarge later), stateScores = take (configTrial config) (score topology sample (stateSets_ before) : stateScores later)}

-- | Sets that the CPUs allowed now still hold, within the budget.
fitting :: Config -> Topology -> IntSet -> Sets -> Sets
fitting config topology allowed sets = Map.filter (not . IntSet.null) (snd (Map.mapAccum trim (budget config allowed, IntMap.empty) sets))
  where
    usable = IntSet.filter (`IntMap.member` topologyCpus topology) allowed
    limits = nodeLimits topology usable
    trim (left, used) set = foldl' take' ((left, used), IntSet.empty) (IntSet.toAscList (IntSet.intersection usable set))
    take' ((left, used), chosen) cpu
      | left > 0 && room = ((left - 1, IntMap.insertWith (+) node 1 used), IntSet.insert cpu chosen)
      | otherwise = ((left, used), chosen)
      where
        node = IntMap.findWithDefault 0 cpu (topologyCpus topology)
        room = IntMap.findWithDefault 0 node used < IntMap.findWithDefault (0 :: Int) node limits

-- | Half of each node's CPUs.
nodeLimits :: Topology -> IntSet -> IntMap Int
nodeLimits topology usable =
  IntMap.map (`div` 2) (IntMap.fromListWith (+) [(node, 1) | cpu <- IntSet.toList usable, Just node <- [IntMap.lookup cpu (topologyCpus topology)]])

-- | The rate over the use of the busiest group: a node's other CPUs, or an item's
-- set in a node.
score :: Topology -> Sample -> Sets -> Double
score topology sample sets = sampleRate sample / max 0.01 (maximum (0 : map use groups))
  where
    own = IntSet.unions (Map.elems sets)
    usable = sampleAllowed sample
    groups = concatMap (byNode topology) (IntSet.difference usable own : Map.elems sets)
    use = meanUse sample

-- | A set's parts in the nodes where it has any.
byNode :: Topology -> IntSet -> [IntSet]
byNode topology set = IntMap.elems (IntMap.fromListWith IntSet.union [(node, IntSet.singleton cpu) | cpu <- IntSet.toList set, Just node <- [IntMap.lookup cpu (topologyCpus topology)]])

meanUse :: Sample -> IntSet -> Double
meanUse sample set = sum [IntMap.findWithDefault 0 cpu (sampleUse sample) | cpu <- IntSet.toList set] / fromIntegral (max 1 (IntSet.size set))

-- | Which items want to grow or shrink, and for how long they have.
wish :: Config -> Topology -> Sample -> State -> State
wish config topology sample state = state {stateWishes = Map.fromList [(item, counted item) | item <- allItems]}
  where
    counted item = case compare size (sizeOf (stateSets_ state) item) of
      GT | not (tooLarge item size) -> max 0 known + 1
      LT -> min 0 known - 1
      _ -> 0
      where
        size = wanted config topology sample (stateSets_ state) item
        known = Map.findWithDefault 0 item (stateWishes state)

    -- A set of few cores may be too busy with one less and too idle with one more: only more load, or
    -- time, is a reason to try that again.
    tooLarge item size = case Map.lookup item (stateTooLarge state) of
      Just (known, rate, until') -> size >= known && sampleRate sample <= 1.1 * rate && stateNow state < until'
      Nothing -> False

sizeOf :: Sets -> Item -> Int
sizeOf sets item = maybe 0 IntSet.size (Map.lookup item sets)

-- | How many cores an item should have; the number it has where it is between
-- the thresholds. On a machine that is busy all over, a set is right when it is
-- as busy as the rest: then it neither grows for being busy nor keeps cores idle.
wanted :: Config -> Topology -> Sample -> Sets -> Item -> Int
wanted config topology sample sets item
  | size == 0 = if work > thresholdStart limits then needed else 0
  | work < thresholdStop limits = 0
  | busiest > thresholdGrow limits && others < busiest - 0.03 = max (size + max 1 (size `div` 8)) needed
  | use < thresholdShrink limits || use < 0.85 * overall && overall > configAim config = min size (max 1 needed)
  | otherwise = size
  where
    limits = configThresholds config item
    size = sizeOf sets item
    use = maybe 0 (meanUse sample) (Map.lookup item sets)
    -- Its part in one node may be what everything waits for.
    busiest = maximum (0 : [meanUse sample part | part <- byNode topology (Map.findWithDefault IntSet.empty item sets)])
    others = meanUse sample (IntSet.difference (sampleAllowed sample) (IntSet.unions (Map.elems sets)))
    overall = meanUse sample (sampleAllowed sample)
    aim = max (configAim config) (min 0.97 overall)
    work = workOf sample item
    needed = min (IntSet.size (sampleAllowed sample)) (ceiling (work / aim))

workOf :: Sample -> Item -> Double
workOf sample item = sum (IntMap.elems (Map.findWithDefault IntMap.empty item (sampleWork sample)))

-- | Starts a trial if items have wished for one long enough.
consider :: Config -> Topology -> Sample -> State -> (State, [Action])
consider config topology sample state
  | stateNow state - stateChanged state < configDwell config = (state, [])
  | grows && stateNow state >= stateGrowFrom state = try True arms
  | shrinks && stateNow state >= stateShrinkFrom state = try False (take 1 current)
  | otherwise = (state, [])
  where
    wishes = Map.elems (stateWishes state)
    grows = any (>= configGrowAfter config) wishes
    shrinks = any (<= negate (configShrinkAfter config)) wishes
    current = maybe id (:) (statePolicy_ state) (if configPolicy config == Auto then [CrossSocket] else [configPolicy config])
    arms = case (configPolicy config, statePolicy_ state) of
      (Auto, Nothing) -> [SingleSocket, PerSocket, CrossSocket]
      (Auto, Just policy) -> [policy]
      (policy, _) -> [policy]
    before = (statePolicy_ state, stateSets_ state, average (stateScores state))
    try grow policies = case policies of
      [] -> (state, [])
      policy : next
        | sets == stateSets_ state && null next -> (state, [])
        | otherwise ->
          let trial = Trial before (policy, sets) [] next sample grow (correction state grow) (duration config state grow)
           in begin state {stateTrial = Just trial} sets policy reason (bar config trial)
        where
          sets = arranged config topology sample state policy
          reason
            | not grow = Shrunk
            | null next = Grown
            | otherwise = Probed policy

-- | The score that a trial must reach.
bar :: Config -> Trial -> Double
bar config trial = old * (if trialGrows trial then 1 + configGain config else 1 - configGain config)
  where
    (_, _, old) = trialBefore trial

-- | A trial whose sizes were corrected and which is so much slower that waiting
-- for its end would only cost.
hopeless :: State -> Trial -> Bool
hopeless state trial = maybe False (< stateNow state) (trialCorrects trial) && any (< 0.85 * old) (take 1 (stateScores state))
  where
    (_, _, old) = trialBefore trial

-- | A trial that grows sets has two periods before its sizes are corrected.
correction :: State -> Bool -> Maybe Int
correction state grows = if grows then Just (stateNow state + settling) else Nothing

-- | When a trial that starts now is judged.
duration :: Config -> State -> Bool -> Int
duration config state grows = stateNow state + configTrial config + (if grows then settling else 0)

settling :: Int
settling = 2

begin :: State -> Sets -> Policy -> Reason -> Double -> (State, [Action])
begin state sets policy = change state {stateScores = []} sets (Just policy)

-- | The sizes that the sets turn out to need, under the policy on trial.
correct :: Config -> Topology -> Sample -> State -> Trial -> (State, [Action])
correct config topology sample state trial
  | sets == stateSets_ state = (state {stateScores = []}, [])
  | otherwise = begin state {stateTrial = Just trial {trialNow = (policy, sets)}, stateTooLarge = Map.union cut (stateTooLarge state)} sets policy Corrected (bar config trial)
  where
    (policy, _) = trialNow trial
    sets = arranged config topology sample state policy
    cut = Map.fromList [(item, (size, sampleRate sample, stateNow state + configBackoff config)) | (item, set) <- Map.toList (stateSets_ state), let size = IntSet.size set, sizeOf sets item < size]

-- | A trial has run its time: the next policy, or a verdict.
judge :: Config -> Topology -> Sample -> State -> Trial -> (State, [Action])
judge config topology sample state trial = case trialNext trial of
  policy : next ->
    let sets = arranged config topology (trialSample trial) {sampleAllowed = sampleAllowed sample} state {stateSets_ = before} policy
        again = trial {trialNow = (policy, sets), trialSeen = seen, trialNext = next, trialCorrects = correction state True, trialEnds = duration config state True}
     in begin state {stateTrial = Just again} sets policy (Probed policy) (bar config trial)
  []
    | bestScore >= bar config trial -> settle bestPolicy bestSets
    | otherwise -> change (failed state) {stateTrial = Nothing, stateScores = []} (fitting config topology (sampleAllowed sample) before) oldPolicy Undone 0
  where
    (oldPolicy, before, _) = trialBefore trial
    (policyNow, setsNow) = trialNow trial
    seen = (policyNow, setsNow, average (stateScores state)) : trialSeen trial
    (bestPolicy, bestSets, bestScore) = foldl' (\a@(_, _, x) b@(_, _, y) -> if y > x then b else a) (policyNow, setsNow, average (stateScores state)) (trialSeen trial)
    settle policy sets
      | sets == setsNow = (ended {statePolicy_ = emptyIsOff sets policy}, [])
      | otherwise = change ended (fitting config topology (sampleAllowed sample) sets) (Just policy) (Chosen policy) 0
    ended = state {stateTrial = Nothing, stateScores = [], stateWait = 0, stateChanged = stateNow state}
    emptyIsOff sets policy = if Map.null sets then Nothing else Just policy
    failed s
      | trialGrows trial = s {stateGrowFrom = stateNow s + wait, stateWait = wait}
      | otherwise = s {stateShrinkFrom = stateNow s + wait, stateWait = wait}
    wait = max (configBackoff config) (min (configBackoffMost config) (2 * stateWait state))

average :: [Double] -> Double
average values = if null values then 0 else sum values / fromIntegral (length values)

-- | New sets, and an action for each item whose set differs.
change :: State -> Sets -> Maybe Policy -> Reason -> Double -> (State, [Action])
change state sets policy reason must = (changed, actions)
  where
    changed =
      state
        { stateSets_ = sets,
          statePolicy_ = if Map.null sets then Nothing else policy,
          stateChanged = stateNow state,
          stateWishes = Map.empty
        }
    actions =
      [ Action item new reason must
        | item <- allItems,
          let new = Map.findWithDefault IntSet.empty item sets,
          new /= Map.findWithDefault IntSet.empty item (stateSets_ state)
      ]

-- ---- where the cores are -----------------------------------------------

-- | The sets that the items' wishes ask for under a policy. Cores that an item
-- has and may keep, it keeps.
arranged :: Config -> Topology -> Sample -> State -> Policy -> Sets
arranged config topology sample state policy = Map.filter (not . IntSet.null) (foldl' give kept order)
  where
    usable = IntSet.filter (`IntMap.member` topologyCpus topology) (sampleAllowed sample)
    limits = nodeLimits topology usable
    sizes = Map.fromList [(item, wanted config topology sample (stateSets_ state) item) | item <- allItems]
    mayUse item cpu = maybe False (`elem` policyNodes topology policy (itemDevice item)) (IntMap.lookup cpu (topologyCpus topology))
    kept = fitting config topology usable (Map.mapWithKey keep (stateSets_ state))
    keep item set = IntSet.fromAscList (take (Map.findWithDefault 0 item sizes) (filter (mayUse item) (IntSet.toAscList set)))
    -- The item that has least of what it wants gets the next core.
    order = replicate (max 0 (budget config usable - sum (map IntSet.size (Map.elems kept)))) ()
    give sets () = case sortOn (\item -> (Down (shortage sets item), item)) (filter (\item -> shortage sets item > 0) allItems) of
      [] -> sets
      hungry -> case [(item, cpu) | item <- hungry, Just cpu <- [nextCpu sets item]] of
        [] -> sets
        (item, cpu) : _ -> Map.insertWith IntSet.union item (IntSet.singleton cpu) sets
    shortage sets item = 1 - fromIntegral (sizeOf sets item) / fromIntegral (max 1 (want item)) :: Double
      where
        want i = Map.findWithDefault 0 i sizes
    nextCpu sets item = case [cpu | node <- preferred sets item, roomIn sets node, cpu <- reverse (nodeCpus topology node), IntSet.member cpu usable, not (taken sets cpu)] of
      cpu : _ | sizeOf sets item < Map.findWithDefault 0 item sizes -> Just cpu
      _ -> Nothing
    taken sets cpu = any (IntSet.member cpu) (Map.elems sets)
    inNode node = IntSet.size . IntSet.filter (\c -> IntMap.lookup c (topologyCpus topology) == Just node)
    roomIn sets node = sum (map (inNode node) (Map.elems sets)) < IntMap.findWithDefault 0 node limits
    preferred sets item
      | policy == PerSocket = sortOn (\node -> (negate (asked item node / fromIntegral (1 + inNode node (Map.findWithDefault IntSet.empty item sets))), node)) (policyNodes topology policy (itemDevice item))
      | otherwise = policyNodes topology policy (itemDevice item)
    asked item node = IntMap.findWithDefault 0 node (Map.findWithDefault IntMap.empty item (sampleWork sample))
