-- | From the controller's sets of cores to settings of threads, interrupts and
-- queues, without anything loaded into the program.
--
-- A thread that does input and output runs on the cores of its device's set of calls
-- ('Maru.Control.Steer.Call'), all others of the program on the cores of no set. So the calls are
-- where the thread is, and what the kernel derives from that follows (the queue of a disk, RFS,
-- XPS). Interrupts go to the set of interrupts, where the kernel permits it.
--
-- A thread whose mask is neither the program's nor one of ours has been placed
-- by somebody who knows better: it is left alone.
--
-- Pure. O(threads · cores).
module Maru.Control.Place
  ( Target (..),
    Settings,
    topologyFor,
    sampleOf,
    settings,
    Order (..),
    orders,
  )
where

import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (isPrefixOf, maximumBy)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Ord (comparing)
import Maru.Control.CpuList
import Maru.Control.Observe
import Maru.Control.Steer

-- | What can be set: a thread's CPUs (number and start), a file (below the root).
data Target = OfThread !Int !Integer | OfFile !FilePath
  deriving (Eq, Ord, Show)

-- | Values as the kernel writes them; a thread's is a list of CPUs.
type Settings = Map Target String

-- | A thread does input and output in earnest: a tenth of a core, a quarter of that
-- in the kernel, and its device is known.
handlesIo :: ThreadUse -> Maybe Device
handlesIo u
  | used >= 0.1 && usedSystem u >= 0.25 * used = usedDevice u
  | otherwise = Nothing
  where
    used = usedUser u + usedSystem u

-- | The machine as the controller sees it. A device's node is that of most of
-- the bytes of the threads observed.
topologyFor :: Machine -> Observation -> Topology
topologyFor machine seen = Topology (machineCpus machine) (machineDistances machine) (near File) (near Net)
  where
    near device = case Map.toList (Map.fromListWith (+) [(node, usedRead u + usedWritten u + usedSystem u) | u <- observedThreads seen, usedDevice u == Just device, Just node <- [usedDeviceNode u]]) of
      [] -> Nothing
      weighted -> Just (fst (maximumBy (comparing snd) weighted))

-- | The period as the controller wants it, for a program that may use these CPUs.
-- The rate is in bytes through read and write, and those over all interfaces if the program holds
-- sockets. Neither counts otherwise for where a thread or an interrupt is.
sampleOf :: Machine -> IntSet -> Observation -> Sample
sampleOf machine allowed seen =
  Sample
    { sampleAllowed = IntSet.intersection allowed (IntMap.keysSet (machineCpus machine)),
      sampleWork = Map.fromListWith (IntMap.unionWith (+)) (calls ++ concatMap interrupts (IntMap.toList (observedCores seen))),
      sampleUse = IntMap.map (\u -> min 1 (useUser u + useSystem u + useIrq u + useSoftirq u)) (observedCores seen),
      sampleRate = observedBytes seen + (if any (threadSockets . usedThread) (observedThreads seen) then observedTraffic seen else 0)
    }
  where
    calls = [(Item device Call, IntMap.singleton node (usedUser u + usedSystem u)) | u <- observedThreads seen, Just device <- [handlesIo u], Just node <- [usedNode u]]
    interrupts (cpu, u) = [(Item device Interrupt, IntMap.singleton node (share * (useIrq u + useSoftirq u))) | Just node <- [machineNode machine cpu], (device, share) <- [(Net, net), (File, 1 - net)]]
      where
        net = IntMap.findWithDefault 0.5 cpu (observedNetShare seen)

-- | What these sets ask for. @allowed@ are the CPUs to be used, @base@ where the
-- program ran by itself; @ours@ are the masks that we have set.
settings :: Machine -> IntSet -> IntSet -> [IntSet] -> Maybe Policy -> Sets -> Observation -> Settings
settings machine allowed base ours policy sets seen
  | Map.null sets = Map.empty
  | otherwise = Map.fromList (threads ++ concatMap ofHardware (machineHardware machine))
  where
    -- A mask may hold CPUs that are offline, or that the machine does not have.
    online = IntSet.filter (`IntMap.member` machineCpus machine)
    others = IntSet.difference allowed (IntSet.unions (Map.elems sets))
    set device kind = Map.findWithDefault IntSet.empty (Item device kind) sets
    threads =
      [ (OfThread (threadId t) (statStart (threadStat t)), showCpuList cpus)
        | u <- observedThreads seen,
          let t = usedThread u,
          online (threadAllowed t) `elem` map online (base : ours),
          let cpus = maybe others (forCalls u) (handlesIo u),
          not (IntSet.null cpus)
      ]
    forCalls u device
      | IntSet.null calls = others
      | policy == Just PerSocket, not (IntSet.null local) = local
      | otherwise = calls
      where
        calls = set device Call
        local = IntSet.filter (\cpu -> machineNode machine cpu == usedNode u) calls
    ofHardware h = irqs h ++ (if hardwareDevice h == Net then queues h else [])
    -- One CPU each: of a mask of several the kernel takes the first.
    irqs h = zipWith (\irq cpu -> (OfFile ("proc/irq/" ++ show irq ++ "/smp_affinity_list"), show cpu)) (IntSet.toAscList (hardwareInterrupts h)) (rounds (IntSet.toAscList (set (hardwareDevice h) Interrupt)))
    rounds cpus = if null cpus then [] else cycle cpus
    queues h =
      [(queue h rx "rps_cpus", showCpuMask cpus) | let cpus = set Net Interrupt, not (IntSet.null cpus), length (rxOf h) < IntSet.size cpus, rx <- rxOf h]
        ++ [(queue h tx "xps_cpus", showCpuMask cpus) | let cpus = set Net Call, not (IntSet.null cpus), length (txOf h) > 1, tx <- txOf h]
        ++ [setting | not (IntSet.null (set Net Call)), setting <- (OfFile "proc/sys/net/core/rps_sock_flow_entries", "32768") : [(queue h rx "rps_flow_cnt", show (share (length (rxOf h)))) | rx <- rxOf h]]
    -- The kernel wants powers of two.
    share n = maximum (1 : takeWhile (\p -> p * n <= 32768) (iterate (* 2) 1)) :: Int
    rxOf = filter ("rx-" `isPrefixOf`) . hardwareQueues
    txOf = filter ("tx-" `isPrefixOf`) . hardwareQueues
    queue h name file = OfFile ("sys/class/net/" ++ hardwareName h ++ "/queues/" ++ name ++ "/" ++ file)

-- | One change.
data Order = Set !Target !String | Back !Target
  deriving (Eq, Show)

-- | From what is set to what is wanted: what is not wanted any more goes first.
orders :: Settings -> Settings -> [Order]
orders have want =
  [Back target | target <- Map.keys (Map.difference have want)]
    ++ [Set target value | (target, value) <- Map.toList want, Map.lookup target have /= Just value]
