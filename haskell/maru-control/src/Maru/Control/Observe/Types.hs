-- | A machine as the kernel describes it, and what was read of it at one moment.
-- "Maru.Control.Observe" is its front.
module Maru.Control.Observe.Types
  ( -- * The machine
    Machine (..),
    Hardware (..),
    hardwareOf,
    machineNode,
    machineDistance,

    -- * What was read
    Ticks (..),
    IrqLine (..),
    Counts (..),
    Thread (..),
    Stat (..),
    Snapshot (..),
    ticksASecond,
  )
where

import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import Data.Map.Strict (Map)
import Data.Maybe (listToMaybe)
import Maru.Control.Steer (Cpu, Device (..), Node, Topology (..), distance)

-- ---- the machine -------------------------------------------------------

-- | A disk or a network interface.
data Hardware = Hardware
  { hardwareName :: !String,
    hardwareDevice :: !Device,
    -- | 'Nothing': firmware does not say (-1).
    hardwareNode :: !(Maybe Node),
    hardwareInterrupts :: !IntSet,
    -- | Names of its queues, @rx-0@, @tx-0@; none for disks.
    hardwareQueues :: ![String]
  }
  deriving (Eq, Show)

data Machine = Machine
  { -- | CPUs that are online and their nodes. A CPU of no node is of node 0.
    machineCpus :: !(IntMap Node),
    machineDistances :: !(Map (Node, Node) Int),
    machineHardware :: ![Hardware]
  }
  deriving (Eq, Show)

-- | By name.
hardwareOf :: Machine -> String -> Maybe Hardware
hardwareOf machine name = listToMaybe [h | h <- machineHardware machine, hardwareName h == name]

machineNode :: Machine -> Cpu -> Maybe Node
machineNode machine cpu = IntMap.lookup cpu (machineCpus machine)

machineDistance :: Machine -> Node -> Node -> Int
machineDistance machine = distance (Topology IntMap.empty (machineDistances machine) Nothing Nothing)

-- ---- what was read -----------------------------------------------------

-- | Of @\/proc\/stat@ and @\/proc\/PID\/stat@: @USER_HZ@, 100 on every Linux.
ticksASecond :: Double
ticksASecond = 100

-- | A core's time since boot, in ticks.
data Ticks = Ticks
  { ticksUser :: !Double,
    ticksSystem :: !Double,
    ticksIrq :: !Double,
    ticksSoftirq :: !Double,
    -- | Waiting for a disk is idle.
    ticksIdle :: !Double
  }
  deriving (Eq, Show)

data IrqLine = IrqLine
  { interruptNumber :: !Int,
    interruptCounts :: !(IntMap Double),
    -- | The rest of the line: controller and devices.
    interruptWhat :: !String
  }
  deriving (Eq, Show)

-- | A thread's @io@.
data Counts = Counts
  { countRead :: !Double,
    countWritten :: !Double,
    countCalls :: !Double
  }
  deriving (Eq, Show)

-- | A process's or thread's @stat@.
data Stat = Stat
  { statName :: !String,
    statParent :: !Int,
    statUser :: !Double,
    statSystem :: !Double,
    -- | Of children that have ended and were waited for.
    statEnded :: !Double,
    statStart :: !Integer,
    statCpu :: !Cpu
  }
  deriving (Eq, Show)

data Thread = Thread
  { threadId :: !Int,
    threadProcess :: !Int,
    threadStat :: !Stat,
    -- | 'Nothing': it may not be read.
    threadCounts :: !(Maybe Counts),
    threadAllowed :: !IntSet,
    -- | Of the files that its process holds open: disks' names.
    threadDisks :: ![String],
    threadSockets :: !Bool
  }
  deriving (Eq, Show)

data Snapshot = Snapshot
  { -- | Seconds of some clock, and since boot.
    snapshotTime :: !Double,
    snapshotUptime :: !Double,
    snapshotCores :: !(IntMap Ticks),
    snapshotInterrupts :: ![IrqLine],
    -- | Runs of the network's and the disks' softirqs on each core.
    snapshotSoftirqs :: !(IntMap (Double, Double)),
    -- | Bytes in and out, of each interface.
    snapshotTraffic :: !(Map String Double),
    snapshotThreads :: ![Thread],
    -- | Bytes read and written by each process, by its threads that have ended and by children that
    -- it has waited for, too. Of those that may be read.
    snapshotBytes :: !(IntMap Double),
    -- | By thread: bytes that the kernel counted to and from each hardware, from
    -- some moment on. 'Left': why it does not count.
    snapshotMoved :: !(Either String (IntMap (Map String Double)))
  }
  deriving (Eq, Show)
