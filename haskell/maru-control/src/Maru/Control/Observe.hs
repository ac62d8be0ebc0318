-- | Which threads do input and output, on which core, and how far from the device. It goes from the
-- text of files below @\/proc@ and @\/sys@ to figures.
--
-- = What is known and what is guessed
--
-- The kernel counts bytes through read and write by thread, but not by file. A thread's device is
-- that of the files that its process holds open, where there is only one, and @recv@ and @send@ are
-- not counted. A thread may do file I/O while its process holds no file of a disk. It is taken to
-- use the network if the process holds sockets (@threadKind@). Where the kernel counts by thread
-- and device ('snapshotMoved'), that is taken instead, for threads that it counted something of.
--
-- Pure; O(text) for the parsers, O(threads + cores · interrupts) for 'between'.
module Maru.Control.Observe
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

    -- * Parsers
    parseCores,
    parseInterrupts,
    parseSoftirqs,
    parseStat,
    parseCounts,
    parseAllowed,
    parseTraffic,
    parseMounts,
    parseMountOf,
    parseDistances,

    -- * Between two looks
    Use (..),
    ThreadUse (..),
    Observation (..),
    between,
    sinceStart,
    sinceStartUncounted,
    predictedGain,
  )
where

import Data.Either (fromRight)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Data.List (isInfixOf, isPrefixOf, sortOn)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (listToMaybe, mapMaybe)
import Data.Ord (Down (..))
import Maru.Control.Observe.Parse
import Maru.Control.Observe.Types
import Maru.Control.Steer (Device (..), Node)

-- ---- between two looks -------------------------------------------------

-- | Shares of a core's time.
data Use = Use
  { useUser :: !Double,
    useSystem :: !Double,
    useIrq :: !Double,
    useSoftirq :: !Double
  }
  deriving (Eq, Show)

-- | What a thread did, a second.
data ThreadUse = ThreadUse
  { usedThread :: !Thread,
    usedUser :: !Double,
    usedSystem :: !Double,
    usedRead :: !Double,
    usedWritten :: !Double,
    usedCalls :: !Double,
    -- | Where it ran last.
    usedNode :: !(Maybe Node),
    -- | What it uses, the disks' or interfaces' names, and their node if they
    -- are of one.
    usedDevice :: !(Maybe Device),
    usedHardware :: ![String],
    usedDeviceNode :: !(Maybe Node),
    -- | Bytes to and from each hardware, where the kernel counted some: then
    -- 'usedHardware' is known, not guessed.
    usedMoved :: !(Map String Double)
  }
  deriving (Eq, Show)

data Observation = Observation
  { observedSeconds :: !Double,
    observedCores :: !(IntMap Use),
    -- | Share of a core's softirqs that was the network's.
    observedNetShare :: !(IntMap Double),
    observedThreads :: ![ThreadUse],
    -- | A second: hardware, core.
    observedInterrupts :: !(Map String (IntMap Double)),
    -- | Bytes a second over interfaces.
    observedTraffic :: !Double,
    -- | Bytes a second read and written by the processes together. What ends meanwhile
    -- counts, where 'snapshotBytes' is known: else slower threads, which live longer, would seem to
    -- do more.
    observedBytes :: !Double,
    -- | Of the bytes read and written by threads whose node and whose device's are known: the share
    -- where they differ. It is 0 on a machine of one node.
    observedRemote :: !(Maybe Double),
    -- | Why devices were not counted by the kernel; 'Nothing': they were.
    observedUncounted :: !(Maybe String)
  }
  deriving (Eq, Show)

-- | From the first to the second. Threads are paired by number and start; one that
-- is new counts from its start.
between :: Machine -> Snapshot -> Snapshot -> Observation
between machine old new =
  Observation
    { observedSeconds = elapsed,
      observedCores = IntMap.mapWithKey core (snapshotCores new),
      observedNetShare = IntMap.mapMaybeWithKey share (snapshotSoftirqs new),
      observedThreads = threads,
      observedInterrupts = interruptRates machine elapsed (snapshotInterrupts old) (snapshotInterrupts new),
      observedTraffic = traffic,
      observedBytes = bytes,
      observedRemote = remoteShare machine threads,
      observedUncounted = either Just (const Nothing) counted
    }
  where
    elapsed = max 0.001 (snapshotTime new - snapshotTime old)
    core cpu = coreUse (IntMap.findWithDefault (Ticks 0 0 0 0 0) cpu (snapshotCores old))
    share cpu = netShare (IntMap.findWithDefault (0, 0) cpu (snapshotSoftirqs old))
    traffic = sum [max 0 (n - Map.findWithDefault 0 name (snapshotTraffic old)) | (name, n) <- Map.toList (snapshotTraffic new)] / elapsed
    counted = movedRates elapsed <$> snapshotMoved old <*> snapshotMoved new
    threads = threadUses machine elapsed traffic (fromRight IntMap.empty counted) (snapshotThreads old) (snapshotThreads new)
    bytes
      | IntMap.null (snapshotBytes old) || IntMap.null (snapshotBytes new) = sum [usedRead u + usedWritten u | u <- threads]
      | otherwise = max 0 (sum (snapshotBytes new) - sum (snapshotBytes old)) / elapsed

-- | Shares of what a core's ticks have grown by.
coreUse :: Ticks -> Ticks -> Use
coreUse before now = Use (part ticksUser) (part ticksSystem) (part ticksIrq) (part ticksSoftirq)
  where
    grown field = max 0 (field now - field before)
    whole = max 1e-9 (sum (map grown [ticksUser, ticksSystem, ticksIrq, ticksSoftirq, ticksIdle]))
    part field = grown field / whole

-- | The network's share of what a core's softirqs, the network's and the disks', have grown by.
netShare :: (Double, Double) -> (Double, Double) -> Maybe Double
netShare (net, disk) (net', disk')
  | n + d > 0 = Just (n / (n + d))
  | otherwise = Nothing
  where
    (n, d) = (max 0 (net' - net), max 0 (disk' - disk))

-- | A second, by hardware and core, in those seconds.
interruptRates :: Machine -> Double -> [IrqLine] -> [IrqLine] -> Map String (IntMap Double)
interruptRates machine elapsed old new =
  Map.filter (not . IntMap.null) (Map.fromListWith (IntMap.unionWith (+)) [(name, rates i) | i <- new, Just name <- [ownerOf machine i]])
  where
    counted = IntMap.fromList [(interruptNumber i, interruptCounts i) | i <- old]
    rates i = IntMap.filter (> 0) (IntMap.mapWithKey (\cpu n -> max 0 (n - IntMap.findWithDefault 0 cpu before) / elapsed) (interruptCounts i))
      where
        before = IntMap.findWithDefault IntMap.empty (interruptNumber i) counted

-- | Bytes a second, by thread and hardware, in those seconds; only what has grown.
movedRates :: Double -> IntMap (Map String Double) -> IntMap (Map String Double) -> IntMap (Map String Double)
movedRates elapsed old new = IntMap.filter (not . Map.null) (IntMap.mapWithKey (\tid -> Map.mapMaybeWithKey (gained (IntMap.findWithDefault Map.empty tid old))) new)
  where
    -- An entry that the kernel dropped starts again at 0.
    gained before name n
      | n > b = Just ((n - b) / elapsed)
      | n < b = Just (n / elapsed)
      | otherwise = Nothing
      where
        b = Map.findWithDefault 0 name before

-- | What the threads of the second look did in those seconds. Given are also the bytes a second over
-- all interfaces, and what the kernel counted of each thread.
threadUses :: Machine -> Double -> Double -> IntMap (Map String Double) -> [Thread] -> [Thread] -> [ThreadUse]
threadUses machine elapsed traffic counted old new = map used new
  where
    known = Map.fromList [((threadId t, statStart (threadStat t)), t) | t <- old]
    processes = Map.fromListWith (+) [(threadProcess t, counts t countRead + counts t countWritten) | t <- new]
    rate t field = max 0 (field t - maybe 0 field (Map.lookup (threadId t, statStart (threadStat t)) known)) / elapsed
    counts t field = rate t (maybe 0 field . threadCounts)
    used t =
      ThreadUse
        { usedThread = t,
          usedUser = rate t (statUser . threadStat) / ticksASecond,
          usedSystem = rate t (statSystem . threadStat) / ticksASecond,
          usedRead = counts t countRead,
          usedWritten = counts t countWritten,
          usedCalls = counts t countCalls,
          usedNode = machineNode machine (statCpu (threadStat t)),
          usedDevice = device,
          usedHardware = map hardwareName hardware,
          usedMoved = moved,
          usedDeviceNode = case map hardwareNode hardware of
            first : more | all (== first) more -> first
            _ -> Nothing
        }
      where
        moved = IntMap.findWithDefault Map.empty (threadId t) counted
        (device, hardware) = threadHardware machine moved (threadKind traffic (Map.findWithDefault 0 (threadProcess t) processes) t) t

-- | What a thread uses: the hardware that it moved bytes to and from, most bytes first. Where nothing
-- was counted, what is guessed for such a device.
threadHardware :: Machine -> Map String Double -> Maybe Device -> Thread -> (Maybe Device, [Hardware])
threadHardware machine moved guess t = case mapMaybe (hardwareOf machine . fst) (sortOn (Down . snd) (Map.toList moved)) of
  known@(first : _) -> (Just (hardwareDevice first), known)
  [] -> (guess, guessed)
  where
    guessed = case guess of
      Just File -> mapMaybe (hardwareOf machine) (threadDisks t)
      Just Net -> [h | h <- machineHardware machine, hardwareDevice h == Net]
      Nothing -> []

-- | See 'observedRemote'.
remoteShare :: Machine -> [ThreadUse] -> Maybe Double
remoteShare machine threads
  | oneNode = Just 0
  | placed > 0 = Just (remote / placed)
  | otherwise = Nothing
  where
    oneNode = IntSet.size (IntSet.fromList (IntMap.elems (machineCpus machine))) == 1
    bytesOf u
      | Map.null (usedMoved u) = usedRead u + usedWritten u
      | otherwise = sum (usedMoved u)
    located = [(bytesOf u, a /= b) | u <- threads, Just a <- [usedNode u], Just b <- [usedDeviceNode u]]
    placed = sum (map fst located)
    remote = sum [b | (b, True) <- located]

-- | From boot, and from each thread's own start, to now; a thread's figures are
-- means over its life.
sinceStart :: Machine -> Snapshot -> Observation
sinceStart machine now = whole {observedThreads = zipWith mean (snapshotThreads now) (observedThreads whole)}
  where
    uptime = max 0.001 (snapshotUptime now)
    whole = between machine now {snapshotTime = snapshotTime now - uptime, snapshotCores = IntMap.empty, snapshotInterrupts = [], snapshotSoftirqs = IntMap.empty, snapshotTraffic = Map.empty, snapshotThreads = [], snapshotBytes = IntMap.empty, snapshotMoved = Left sinceStartUncounted} now
    mean t u = u {usedUser = k * usedUser u, usedSystem = k * usedSystem u, usedRead = k * usedRead u, usedWritten = k * usedWritten u, usedCalls = k * usedCalls u}
      where
        k = uptime / max 0.01 (uptime - fromIntegral (statStart (threadStat t)) / ticksASecond)

-- | Why the kernel did not count then ('observedUncounted'): no other observation says so.
sinceStartUncounted :: String
sinceStartUncounted = "it counts from the first look on"

-- | Whose interrupt a line is: by number, else by the interface or disk that it
-- names.
ownerOf :: Machine -> IrqLine -> Maybe String
ownerOf machine i = listToMaybe (byNumber ++ byName)
  where
    byNumber = [hardwareName h | h <- machineHardware machine, IntSet.member (interruptNumber i) (hardwareInterrupts h)]
    byName = [hardwareName h | h <- machineHardware machine, any (names (hardwareName h)) (words (interruptWhat i))]
    names name word = name == word || (name ++ "-") `isPrefixOf` word || ("@" ++ name) `isInfixOf` word

-- | What a thread's reads and writes go to, if it makes any. Given are the bytes a second over all
-- interfaces and those that its process reads and writes. See the module's head.
threadKind :: Double -> Double -> Thread -> Maybe Device
threadKind traffic bytes t
  | threadSockets t && (null (threadDisks t) || 2 * traffic >= max 1 bytes) = Just Net
  | null (threadDisks t) && maybe True ((== 0) . countCalls) (threadCounts t) = Nothing
  | otherwise = Just File

-- | Share by which the program's time would shrink if no call were far from its device. It is the
-- far part of system time, longer by @costStack@ of the simulator's file system (0.35 for each ten
-- units of distance, assumed, not measured). 'Nothing' where nothing is known of distances.
predictedGain :: Machine -> Observation -> Maybe Double
predictedGain machine seen = case observedRemote seen of
  Nothing -> Nothing
  Just _ -> Just (sum (map saved (observedThreads seen)) / max 1e-9 (sum [usedUser u + usedSystem u | u <- observedThreads seen]))
  where
    saved u = case (usedNode u, usedDeviceNode u) of
      (Just a, Just b) | a /= b -> let far = 0.35 * fromIntegral (machineDistance machine a b - 10) / 10 in usedSystem u * far / (1 + far)
      _ -> 0
