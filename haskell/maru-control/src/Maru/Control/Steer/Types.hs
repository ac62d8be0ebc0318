-- | What the steering controller speaks of: the machine, what is steered, a period's
-- sample, and what is to be done. "Maru.Control.Steer" is its front.
module Maru.Control.Steer.Types
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

    -- * How
    Config (..),
    Thresholds (..),
    defaultConfig,

    -- * What comes in and goes out
    Sample (..),
    Sets,
    Action (..),
    Reason (..),
    reasonName,
  )
where

import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)

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

-- ---- how ---------------------------------------------------------------

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
    -- | Periods between the end of a trial and the next change, at least.
    configDwell :: !Int,
    -- | Cores in all; never more than half of those allowed.
    configBudget :: !Int,
    -- | Periods of a trial, at most: what is undecided then is undone.
    configTrial :: !Int,
    -- | Share of the rate that is worth cores: a trial ends once a gain of that is refuted.
    configGain :: !Double,
    -- | Chance that anything without an effect is ever kept, all trials together; and that a trial
    -- refutes what is worth it.
    configError :: !Double,
    configMiss :: !Double,
    -- | After a trial so many times its length passes before the next.
    configRest :: !Int,
    -- | Periods between trials, at least after a failed one, and at most.
    configBackoff :: !Int,
    configBackoffMost :: !Int
  }

defaultConfig :: Policy -> Config
defaultConfig policy =
  Config
    { configPolicy = policy,
      configThresholds = const (Thresholds 0.4 0.15 0.92 0.5),
      configAim = 0.8,
      configGrowAfter = 4,
      configShrinkAfter = 4,
      configDwell = 5,
      configBudget = maxBound,
      configTrial = 590,
      configGain = 0.03,
      configError = 0.04,
      configMiss = 0.1,
      configRest = 9,
      configBackoff = 200,
      configBackoffMost = 7200
    }

-- ---- what comes in and goes out ----------------------------------------

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
  = -- | A trial begins: of larger sets, of a policy, of what is kept already.
    Grown
  | Probed !Policy
  | Repeated
  | -- | Resized once within a trial.
    Corrected
  | -- | Within a trial: by turns with and without.
    Turned
  | -- | A verdict.
    Kept
  | Undone
  | -- | The rate fell below what was usual: let go at once.
    Fallen
  | -- | It did not come back without: put on again.
    Restored
  | -- | There is no more work for it.
    Shrunk
  | -- | CPUs of the sets went away: everything starts anew.
    Lost
  deriving (Eq, Show)

reasonName :: Reason -> String
reasonName reason = case reason of
  Grown -> "trying more cores"
  Probed policy -> "trying " ++ policyName policy
  Repeated -> "trying again"
  Corrected -> "corrected"
  Turned -> "by turns"
  Kept -> "kept"
  Undone -> "undone"
  Fallen -> "let go, the rate fell"
  Restored -> "put on again"
  Shrunk -> "no work left"
  Lost -> "CPUs went away"

-- | An item's new set.
data Action = Action
  { actionItem :: !Item,
    actionCpus :: !IntSet,
    actionReason :: !Reason
  }
  deriving (Eq, Show)
