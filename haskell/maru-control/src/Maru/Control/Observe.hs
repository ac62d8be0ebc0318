-- | Who does input and output, on which core, and how far from the device: from
-- the text of files below @\/proc@ and @\/sys@ to figures.
--
-- = What is known and what is guessed
--
-- The kernel counts bytes through read and write by thread, but not by file:
-- a thread's device is that of the files that its process holds open, where there is
-- only one, and @recv@ and @send@ are not counted. A thread that does file I/O and
-- whose process holds no file of a disk is taken to use the network if it
-- holds sockets ('threadKind'). Where the kernel counts by thread and device
-- ('snapshotMoved'), that is taken instead, for threads that it counted something of.
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
    threadKind,
    predictedGain,
  )
where

import Data.Char (isDigit, isSpace)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (isInfixOf, isPrefixOf, sortOn, stripPrefix)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (listToMaybe, mapMaybe)
import Data.Ord (Down (..))
import Maru.Control.CpuList (parseCpuList)
import Maru.Control.Steer (Cpu, Device (..), Node, Topology (..), distance)
import Text.Read (readMaybe)

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
    -- | Bytes read and written by each process, by its threads that have ended and by children that it
    -- has waited for, too; of those that may be read.
    snapshotBytes :: !(IntMap Double),
    -- | By thread: bytes that the kernel counted to and from each hardware, from
    -- some moment on. 'Left': why it does not count.
    snapshotMoved :: !(Either String (IntMap (Map String Double)))
  }
  deriving (Eq, Show)

-- ---- parsers -----------------------------------------------------------

-- | @\/proc\/stat@: the cores' lines.
parseCores :: String -> IntMap Ticks
parseCores text = IntMap.fromList (mapMaybe (core . words) (lines text))
  where
    core (name : values)
      | Just digits <- stripPrefix "cpu" name,
        Just cpu <- readMaybe digits,
        Just (user : nice : system : idle : waits : irq : softirq : _) <- traverse readMaybe values =
        Just (cpu, Ticks (user + nice) system irq softirq (idle + waits))
    core _ = Nothing

-- | @\/proc\/interrupts@: the numbered ones.
parseInterrupts :: String -> [IrqLine]
parseInterrupts text = case lines text of
  heads : rows | cpus <- mapMaybe cpuOf (words heads) -> mapMaybe (interrupt cpus) rows
  _ -> []
  where
    cpuOf word = stripPrefix "CPU" word >>= readMaybe
    interrupt cpus row = case break (== ':') (dropWhile isSpace row) of
      (digits, ':' : rest)
        | not (null digits),
          all isDigit digits,
          Just number <- readMaybe digits,
          (values, what) <- splitAt (length cpus) (words rest),
          Just counts <- traverse readMaybe values,
          length counts == length cpus ->
          Just (IrqLine number (IntMap.fromList (zip cpus counts)) (unwords what))
      _ -> Nothing

-- | @\/proc\/softirqs@: runs for the network and for disks on each core.
parseSoftirqs :: String -> IntMap (Double, Double)
parseSoftirqs text = case lines text of
  heads : rows ->
    IntMap.unionsWith
      add
      [ IntMap.fromList (zip (mapMaybe cpuOf (words heads)) (map kind counts))
        | name : values <- map words rows,
          Just kind <- [lookup name kinds],
          Just counts <- [traverse readMaybe values]
      ]
  [] -> IntMap.empty
  where
    cpuOf word = stripPrefix "CPU" word >>= readMaybe
    kinds = [("NET_RX:", net), ("NET_TX:", net), ("BLOCK:", disk), ("IRQ_POLL:", disk)]
    net n = (n, 0)
    disk n = (0, n)
    add (a, b) (c, d) = (a + c, b + d)

-- | The name is in parentheses and may hold anything, parentheses too.
parseStat :: String -> Maybe Stat
parseStat text = case break (== '(') text of
  (_, '(' : rest)
    | (reversed, ')' : name) <- break (== ')') (reverse rest),
      fields <- words (reverse reversed),
      parent : _ <- drop 1 fields,
      user : system : _ <- drop 11 fields,
      start : _ <- drop 19 fields,
      cpu : _ <- drop 36 fields ->
      Stat (reverse name) <$> readMaybe parent <*> readMaybe user <*> readMaybe system <*> readMaybe start <*> readMaybe cpu
  _ -> Nothing

-- | @\/proc\/PID\/task\/TID\/io@.
parseCounts :: String -> Maybe Counts
parseCounts text = Counts <$> field "rchar:" <*> field "wchar:" <*> ((+) <$> field "syscr:" <*> field "syscw:")
  where
    field name = listToMaybe [v | [n, value] <- map words (lines text), n == name, Just v <- [readMaybe value]]

-- | Of a @status@: where it may run.
parseAllowed :: String -> Maybe IntSet
parseAllowed text = listToMaybe (mapMaybe (stripPrefix "Cpus_allowed_list:") (lines text)) >>= parseCpuList

-- | @\/proc\/net\/dev@.
parseTraffic :: String -> Map String Double
parseTraffic text = Map.fromList (mapMaybe interface (lines text))
  where
    interface line = case break (== ':') (dropWhile isSpace line) of
      (name, ':' : rest)
        | Just values <- traverse readMaybe (words rest),
          received : _ <- values,
          sent : _ <- drop 8 values ->
          Just (name, received + sent)
      _ -> Nothing

-- | A @mountinfo@: the device, @major:minor@, of each mount.
parseMounts :: String -> IntMap String
parseMounts text = IntMap.fromList [(mount, device) | number : _ : device : _ <- map words (lines text), Just mount <- [readMaybe number]]

-- | A file's @fdinfo@: its mount.
parseMountOf :: String -> Maybe Int
parseMountOf text = listToMaybe [n | ["mnt_id:", value] <- map words (lines text), Just n <- [readMaybe value]]

-- | A node's @distance@: to the nodes of the machine in ascending order.
parseDistances :: [Node] -> Node -> String -> Map (Node, Node) Int
parseDistances known node text = maybe Map.empty (Map.fromList . zip [(node, other) | other <- known]) (traverse readMaybe (words text))

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
    -- counts, where 'snapshotBytes' is known: else slower threads, which live longer, would seem to do more.
    observedBytes :: !Double,
    -- | Of the bytes read and written by threads whose node and whose device's
    -- are known: the share where they differ. 0 on a machine of one node.
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
      observedNetShare = IntMap.mapMaybeWithKey netShare (snapshotSoftirqs new),
      observedThreads = threads,
      observedInterrupts = Map.filter (not . IntMap.null) (Map.fromListWith (IntMap.unionWith (+)) [(name, rates i) | i <- snapshotInterrupts new, Just name <- [ownerOf machine i]]),
      observedTraffic = traffic,
      observedBytes = moved',
      observedRemote = if oneNode then Just 0 else if placed > 0 then Just (remote / placed) else Nothing,
      observedUncounted = either Just (const Nothing) counted
    }
  where
    elapsed = max 0.001 (snapshotTime new - snapshotTime old)
    oneNode = IntSet.size (IntSet.fromList (IntMap.elems (machineCpus machine))) == 1
    core cpu now = Use (part ticksUser) (part ticksSystem) (part ticksIrq) (part ticksSoftirq)
      where
        before = IntMap.findWithDefault (Ticks 0 0 0 0 0) cpu (snapshotCores old)
        grown field = max 0 (field now - field before)
        whole = max 1e-9 (sum (map grown [ticksUser, ticksSystem, ticksIrq, ticksSoftirq, ticksIdle]))
        part field = grown field / whole
    netShare cpu (net, disk)
      | n + d > 0 = Just (n / (n + d))
      | otherwise = Nothing
      where
        (net', disk') = IntMap.findWithDefault (0, 0) cpu (snapshotSoftirqs old)
        (n, d) = (max 0 (net - net'), max 0 (disk - disk'))
    interruptsBefore = IntMap.fromList [(interruptNumber i, interruptCounts i) | i <- snapshotInterrupts old]
    rates i = IntMap.filter (> 0) (IntMap.mapWithKey (\cpu n -> max 0 (n - IntMap.findWithDefault 0 cpu before) / elapsed) (interruptCounts i))
      where
        before = IntMap.findWithDefault IntMap.empty (interruptNumber i) interruptsBefore
    known = Map.fromList [((threadId t, statStart (threadStat t)), t) | t <- snapshotThreads old]
    traffic = sum [max 0 (bytes - Map.findWithDefault 0 name (snapshotTraffic old)) | (name, bytes) <- Map.toList (snapshotTraffic new)] / elapsed
    moved'
      | IntMap.null (snapshotBytes old) || IntMap.null (snapshotBytes new) = sum [usedRead u + usedWritten u | u <- threads]
      | otherwise = max 0 (sum (snapshotBytes new) - sum (snapshotBytes old)) / elapsed
    processes = Map.fromListWith (+) [(threadProcess t, counts t countRead + counts t countWritten) | t <- snapshotThreads new]
    earlier t = Map.lookup (threadId t, statStart (threadStat t)) known
    rate t field = max 0 (field t - maybe 0 field (earlier t)) / elapsed
    counts t field = rate t (maybe 0 field . threadCounts)
    threads = map used (snapshotThreads new)
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
        moved = either (const Map.empty) (IntMap.findWithDefault Map.empty (threadId t)) counted
        -- Most bytes first.
        known' = mapMaybe (hardwareOf machine . fst) (sortOn (Down . snd) (Map.toList moved))
        device = case known' of
          first : _ -> Just (hardwareDevice first)
          [] -> threadKind traffic (Map.findWithDefault 0 (threadProcess t) processes) t
        hardware = if null known' then guessed else known'
        guessed = case device of
          Just File -> mapMaybe (hardwareOf machine) (threadDisks t)
          Just Net -> [h | h <- machineHardware machine, hardwareDevice h == Net]
          Nothing -> []
    counted = grew <$> snapshotMoved old <*> snapshotMoved new
    grew before now = IntMap.filter (not . Map.null) (IntMap.mapWithKey (\tid -> Map.mapMaybeWithKey (gained (IntMap.findWithDefault Map.empty tid before))) now)
    -- An entry that the kernel dropped starts again at 0.
    gained before name n
      | n > b = Just ((n - b) / elapsed)
      | n < b = Just (n / elapsed)
      | otherwise = Nothing
      where
        b = Map.findWithDefault 0 name before
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

-- | What a thread's reads and writes go to, if it makes any, given the bytes a second
-- over all interfaces and those that its process reads and writes; see the module's
-- head.
threadKind :: Double -> Double -> Thread -> Maybe Device
threadKind traffic bytes t
  | threadSockets t && (null (threadDisks t) || 2 * traffic >= max 1 bytes) = Just Net
  | null (threadDisks t) && maybe True ((== 0) . countCalls) (threadCounts t) = Nothing
  | otherwise = Just File

-- | Share by which the program's time would shrink if no call were far from its device:
-- the far part of system time, longer by 'costStack' of the simulator's file
-- system (0.35 for each ten units of distance, assumed, not measured).
-- 'Nothing' where nothing is known of distances.
predictedGain :: Machine -> Observation -> Maybe Double
predictedGain machine seen = case observedRemote seen of
  Nothing -> Nothing
  Just _ -> Just (sum (map saved (observedThreads seen)) / max 1e-9 (sum [usedUser u + usedSystem u | u <- observedThreads seen]))
  where
    saved u = case (usedNode u, usedDeviceNode u) of
      (Just a, Just b) | a /= b -> let far = 0.35 * fromIntegral (machineDistance machine a b - 10) / 10 in usedSystem u * far / (1 + far)
      _ -> 0
