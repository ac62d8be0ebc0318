-- | Which cores an item's set should have: how many its work needs, and where they
-- are under a policy.
--
-- The sets are disjoint, inside the CPUs allowed and the nodes of the policy. They are never more
-- than 'budget' cores in all nor more than half of any node. With fewer than four CPUs they are
-- empty.
--
-- Pure. O((cores + nodes) · cores).
module Maru.Control.Steer.Sets
  ( budget,
    policyNodes,
    fitting,
    wanted,
    sizeOf,
    arranged,
  )
where

import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (foldl', sortOn)
import qualified Data.Map.Strict as Map
import Data.Ord (Down (..))
import Maru.Control.Steer.Types

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

-- ---- how many ----------------------------------------------------------

sizeOf :: Sets -> Item -> Int
sizeOf sets item = maybe 0 IntSet.size (Map.lookup item sets)

-- | How many cores an item should have; the number it has where it is between
-- the thresholds. On a machine that is busy all over, a set is right when it is as busy as the
-- rest. Then it neither grows for being busy nor keeps cores idle.
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

-- | A set's parts in the nodes where it has any.
byNode :: Topology -> IntSet -> [IntSet]
byNode topology set = IntMap.elems (IntMap.fromListWith IntSet.union [(node, IntSet.singleton cpu) | cpu <- IntSet.toList set, Just node <- [IntMap.lookup cpu (topologyCpus topology)]])

meanUse :: Sample -> IntSet -> Double
meanUse sample set = sum [IntMap.findWithDefault 0 cpu (sampleUse sample) | cpu <- IntSet.toList set] / fromIntegral (max 1 (IntSet.size set))

-- ---- where -------------------------------------------------------------

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

-- | The sets that the items' wishes ask for under a policy. Cores that an item
-- has and may keep, it keeps.
arranged :: Config -> Topology -> Sample -> Sets -> Policy -> Sets
arranged config topology sample now policy = Map.filter (not . IntSet.null) (foldl' give kept order)
  where
    usable = IntSet.filter (`IntMap.member` topologyCpus topology) (sampleAllowed sample)
    limits = nodeLimits topology usable
    sizes = Map.fromList [(item, wanted config topology sample now item) | item <- allItems]
    mayUse item cpu = maybe False (`elem` policyNodes topology policy (itemDevice item)) (IntMap.lookup cpu (topologyCpus topology))
    kept = fitting config topology usable (Map.mapWithKey keep now)
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
