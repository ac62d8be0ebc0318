{-# LANGUAGE BangPatterns #-}

-- | A discrete-event simulator of one contended lock on a machine with several
-- sockets.
--
-- = The model
--
-- A closed system: each thread has a core of its own, and repeats one
-- operation: think, take the lock, hold it, release it. Threads are dealt to
-- the sockets in turn.
--
-- * /Think/: exponential with mean 'loadThink'.
-- * /Hold/: 'loadHold', the share 'loadHoldSpread' of it exponential; longer by
--   'machineRemoteData' when the holder before was on another socket (the data
--   must come over).
-- * /Hand-over/: 'machineLocal' or 'machineRemote' from release to the next
--   holder's start, by the sockets of the two; 'machineAgain' when a thread
--   takes a free lock that it held last.
-- * /Admission/: which waiter is next is the algorithm's choice. Where it looks
--   through the queue, each waiter looked at costs 'machineScanLocal' or
--   'machineScanRemote' before the hand-over. The longer path of an algorithm
--   that chooses costs 'machinePath' more at each hand-over at which it had a
--   choice.
-- * /Noise/: a thread that thinks, holds or hands over is interrupted by
--   ticks (of exponential length) and by rarer stalls (all of one length, so
--   that the longest response is not a matter of one draw), Poisson in its own
--   running time. An interruption of the holder stops everybody.
--
-- Not in the model: memory bandwidth, what spinning waiters do to the
-- interconnect, waiters that are interrupted when their turn comes, more
-- threads than cores, sleeping. So it tells apart algorithms by the /order/ in
-- which they admit: MCS, CLH and ticket locks are all 'Fifo', and locks whose
-- order is a race between spinning cores (TTAS, back-off) are left out.
--
-- Times are in nanoseconds. The same seed gives the same result on every
-- machine with the same libm. O(log threads) an acquisition for 'Fifo' and
-- 'Hmcs', O(threads) at worst for 'Cna'.
module Maru.Control.Sim.Lock
  ( -- * What is simulated
    Machine (..),
    machineFields,
    Load (..),
    Algorithm (..),
    CnaKnobs (..),
    seedCna,
    deadlineCna,
    Model (..),
    problemOf,

    -- * The result
    Outcome (..),
    throughput,
    remoteShare,
    simulate,

    -- * Names
    algorithmName,
    algorithmFromName,
  )
where

import Control.Monad (unless, when)
import Control.Monad.ST (ST, runST)
import Data.Char (isDigit)
import Data.List (intercalate)
import Data.Maybe (catMaybes)
import Data.Primitive (Prim)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Calendar
import Maru.Control.Sim.Random
import Maru.Control.Sim.Tally
import Numeric (showHex)
import Text.Read (readMaybe)

-- | Costs of a machine, in nanoseconds; rates per second of running time.
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
    machineStall :: !Double
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
    ("stall_ns", machineStall, \v m -> m {machineStall = v})
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

-- ---- names -------------------------------------------------------------

-- | As 'algorithmFromName' reads it.
algorithmName :: Algorithm -> String
algorithmName algorithm = case algorithm of
  Fifo -> "fifo"
  Hmcs passes -> "hmcs:passes=" ++ show passes
  Cna c ->
    intercalate "," . filter (not . null) . merge $
      [ if cnaRange c == Just defaultRange then "" else "handoff_range=" ++ maybe "0" (\r -> "0x" ++ showHex r "") (cnaRange c),
        if cnaReduction c == impliedReduction c then "" else "shuffle_reduction=" ++ show (cnaReduction c),
        maybe "" (\d -> "deadline_ns=" ++ show (round d :: Int)) (cnaDeadline c),
        maybe "" (\n -> "max_bypass=" ++ show n) (cnaBypass c)
      ]
  where
    merge keys = case filter (not . null) keys of
      [] -> ["cna"]
      k : ks -> ("cna:" ++ k) : ks

-- | With a deadline there is no shuffle reduction unless it is asked for.
impliedReduction :: CnaKnobs -> Int
impliedReduction c = maybe 128 (const 1) (cnaDeadline c)

-- | @NAME[:key=value,...]@: @fifo@ (also @mcs@, @clh@, @ticket@),
-- @cna[:handoff_range=0x100,shuffle_reduction=1,deadline=25us,max_bypass=9]@,
-- @hmcs[:passes=64]@.
algorithmFromName :: String -> Either String Algorithm
algorithmFromName text = case break (== ':') text of
  (name, rest) -> do
    keys <- traverse key (if null rest then [] else splitOn ',' (drop 1 rest))
    case name of
      "cna" -> Cna . finish <$> foldl (\c k -> c >>= cnaKey k) (Right unset) keys
      "hmcs" -> foldl (\a k -> a >>= hmcsKey k) (Right (Hmcs 64)) keys
      _
        | name `elem` ["fifo", "mcs", "clh", "ticket"] -> maybe (Right Fifo) (unknown name) (firstOf keys)
        | otherwise -> Left ("unknown lock '" ++ name ++ "'; the model tells apart fifo (mcs, clh, ticket), cna and hmcs")
  where
    firstOf = foldr (\k _ -> Just (fst k)) Nothing
    key word = case break (== '=') word of
      (k, '=' : v) | not (null k) -> Right (k, v)
      _ -> Left ("KEY=VALUE is needed, not '" ++ word ++ "'")
    unknown name k = Left ("the lock " ++ name ++ " has no key '" ++ k ++ "'")
    unset = CnaKnobs (Just defaultRange) 0 Nothing Nothing
    finish c = if cnaReduction c == 0 then c {cnaReduction = impliedReduction c} else c
    cnaKey (k, v) c = case k of
      "handoff_range" -> (\n -> c {cnaRange = if n == 0 then Nothing else Just n}) <$> whole 0 k v
      "shuffle_reduction" -> (\n -> c {cnaReduction = n}) <$> whole 1 k v
      "max_bypass" -> (\n -> c {cnaBypass = Just n}) <$> whole 0 k v
      "deadline_ns" -> (\n -> c {cnaDeadline = Just (fromIntegral n)}) <$> whole 1 k v
      "deadline" -> (\t -> c {cnaDeadline = Just t}) <$> duration v
      _ -> unknown "cna" k
    hmcsKey (k, v) _ = if k == "passes" then Hmcs <$> whole 1 k v else unknown "hmcs" k

whole :: Int -> String -> String -> Either String Int
whole least key text = case readMaybe text of
  Just n | all (`elem` "0123456789xXabcdefABCDEF") text, n >= fromIntegral least, n <= 2 ^ (40 :: Int) -> Right (fromInteger n)
  _ -> Left (key ++ " needs a number of at least " ++ show least ++ ", not '" ++ text ++ "'")

-- | Nanoseconds of @500ns@, @25us@, @1ms@ or @1s@; a number alone is nanoseconds.
duration :: String -> Either String Double
duration text = case (readMaybe digits, lookup unit units) of
  (Just n, Just factor) | n * factor >= 1, n * factor <= 1e12 -> Right (n * factor)
  _ -> Left ("a deadline such as 25us or 1ms is needed, not '" ++ text ++ "'")
  where
    (digits, unit) = span (\c -> isDigit c || c == '.') text
    units = [("", 1), ("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)] :: [(String, Double)]

splitOn :: Char -> String -> [String]
splitOn separator text = case break (== separator) text of
  (word, _ : more) -> word : splitOn separator more
  (word, []) -> [word]

-- ---- the simulation ----------------------------------------------------

-- | Everything that changes. Waiters are linked lists through 'worldNext'; list
-- 0 is the main queue (or the first socket's), list 1 the secondary one.
data World s = World
  { worldModel :: !Model,
    worldRandom :: !(Source s),
    worldThinkers :: !(Calendar s),
    worldNext :: !(MutablePrimArray s Int),
    worldHead :: !(MutablePrimArray s Int),
    worldTail :: !(MutablePrimArray s Int),
    -- | Per thread: arrival, start of the operation, when set aside.
    worldArrival :: !(MutablePrimArray s Double),
    worldStart :: !(MutablePrimArray s Double),
    worldAside :: !(MutablePrimArray s Double),
    -- | Per thread: times passed over before, and what 'regPassed' was when it
    -- was set aside.
    worldBypassed :: !(MutablePrimArray s Int),
    worldEntered :: !(MutablePrimArray s Int),
    -- | Per thread: operations in this window, and in the run.
    worldWindow :: !(MutablePrimArray s Int),
    worldCounts :: !(MutablePrimArray s Int),
    -- | Counters by the names below.
    worldInts :: !(MutablePrimArray s Int),
    -- | Running time left to the next tick and to the next stall; cost of the
    -- look through the queue just done; end of this window; sums of windows.
    worldDoubles :: !(MutablePrimArray s Double),
    worldResponse :: !(Counter s),
    worldWait :: !(Counter s)
  }

-- Cells of 'worldInts'.
regPassed, regRemote, regFree, regBypass, regOperations, regWindows, regPasses, regLength :: Int
regPassed = 0 -- grants while somebody was set aside
regRemote = 1
regFree = 2
regBypass = 3
regOperations = 4
regWindows = 5
regPasses = 6 -- hand-overs within this socket, one after another
regLength = 7 -- waiters in all

-- Cells of 'worldDoubles'.
regTick, regStall, regScan, regWindowEnd, regJain, regSince :: Int
regTick = 0
regStall = 1
regScan = 2
regWindowEnd = 3
regJain = 4
regSince = 5 -- and following: per socket, when it got in line for 'Hmcs'

nobody :: Int
nobody = -1

windowLength :: Double
windowLength = 1e7

-- | Runs the model, which must have no 'problemOf'.
simulate :: Model -> Outcome
simulate model = runST $ do
  world <- newWorld model
  scatter world
  let warm = modelDuration model / 20
  (ended, lastThread) <- operate world warm 0 nobody
  fresh <- forget world ended
  (stopped, _) <- operate fresh (ended + modelDuration model) ended lastThread
  outcome fresh (stopped - ended)

newWorld :: Model -> ST s (World s)
newWorld model = do
  random <- newSource (modelSeed model)
  World model random
    <$> newCalendar threads
    <*> filled threads nobody
    <*> filled lists nobody
    <*> filled lists nobody
    <*> filled threads 0
    <*> filled threads 0
    <*> filled threads 0
    <*> filled threads 0
    <*> filled threads 0
    <*> filled threads 0
    <*> filled threads 0
    <*> filled 8 0
    <*> filled (regSince + modelSockets model) 0
    <*> newCounter
    <*> newCounter
  where
    threads = modelThreads model
    lists = max 2 (modelSockets model + 1)

filled :: Prim a => Int -> a -> ST s (MutablePrimArray s a)
filled n value = do
  cells <- newPrimArray n
  setPrimArray cells 0 n value
  pure cells

-- | Threads start somewhere in their think part; the first interruptions are drawn.
scatter :: World s -> ST s ()
scatter world = do
  mapM_ begin [0 .. modelThreads (worldModel world) - 1]
  untilNext machineTickRate regTick world
  untilNext machineStallRate regStall world
  where
    think = loadThink (modelLoad (worldModel world))
    begin thread = do
      u <- uniform (worldRandom world)
      schedule (worldThinkers world) (think * u) thread

-- | The same world with empty counters, in which counting starts at this time.
forget :: World s -> Double -> ST s (World s)
forget world now = do
  response <- newCounter
  waited <- newCounter
  mapM_ (\r -> writePrimArray (worldInts world) r 0) [regRemote, regFree, regBypass, regOperations, regWindows]
  writePrimArray (worldDoubles world) regWindowEnd (now + windowLength)
  writePrimArray (worldDoubles world) regJain 0
  setPrimArray (worldCounts world) 0 (modelThreads (worldModel world)) 0
  setPrimArray (worldWindow world) 0 (modelThreads (worldModel world)) 0
  pure world {worldResponse = response, worldWait = waited}

-- | Grants one after another until the end; when it was, and who held last.
operate :: World s -> Double -> Double -> Int -> ST s (Double, Int)
operate world end = go
  where
    go !now !before
      | now >= end = pure (now, before)
      | otherwise = do
        admit world now
        waiting <- readPrimArray (worldInts world) regLength
        if waiting == 0 then fromFree now before else fromQueue now before
    fromFree now before = do
      bump world regFree
      writePrimArray (worldInts world) regPasses 0
      arrived <- earliest (worldThinkers world)
      thread <- takeEarliest (worldThinkers world)
      writePrimArray (worldArrival world) thread arrived
      writePrimArray (worldBypassed world) thread 0
      hold world (max now arrived + handOver world before thread) before thread >>= \t -> go t thread
    fromQueue now before = do
      writePrimArray (worldDoubles world) regScan 0
      thread <- successor world now before
      scan <- readPrimArray (worldDoubles world) regScan
      cost <- interrupted world (scan + handOver world before thread)
      hold world (now + cost) before thread >>= \t -> go t thread

-- | From release to the next holder's start.
handOver :: World s -> Int -> Int -> Double
handOver world before thread
  | before == nobody || before == thread = machineAgain machine
  | socketOf world before == socketOf world thread = machineLocal machine
  | otherwise = machineRemote machine
  where
    machine = modelMachine (worldModel world)
{-# INLINE handOver #-}

socketOf :: World s -> Int -> Int
socketOf world thread = thread `rem` modelSockets (worldModel world)
{-# INLINE socketOf #-}

bump :: World s -> Int -> ST s ()
bump world r = readPrimArray (worldInts world) r >>= writePrimArray (worldInts world) r . (+ 1)
{-# INLINE bump #-}

-- | A thread has the lock from this time on; when it releases it. It then
-- thinks again.
hold :: World s -> Double -> Int -> Int -> ST s Double
hold world start before thread = do
  arrival <- readPrimArray (worldArrival world) thread
  count (worldWait world) (start - arrival)
  spread <- exponential (loadHold load * loadHoldSpread load) (worldRandom world)
  when remote (bump world regRemote)
  held <- interrupted world (loadHold load * (1 - loadHoldSpread load) + spread + if remote then machineRemoteData machine else 0)
  let end = start + held
  began <- readPrimArray (worldStart world) thread
  count (worldResponse world) (end - began)
  countOperation world thread end
  vary <- exponential (loadThink load * loadThinkSpread load) (worldRandom world)
  thought <- interrupted world (loadThink load * (1 - loadThinkSpread load) + vary)
  writePrimArray (worldStart world) thread end
  schedule (worldThinkers world) (end + thought) thread
  pure end
  where
    load = modelLoad (worldModel world)
    machine = modelMachine (worldModel world)
    remote = before /= nobody && socketOf world before /= socketOf world thread

countOperation :: World s -> Int -> Double -> ST s ()
countOperation world thread now = do
  bump world regOperations
  passed <- readPrimArray (worldBypassed world) thread
  worst <- readPrimArray (worldInts world) regBypass
  when (passed > worst) (writePrimArray (worldInts world) regBypass passed)
  increment (worldWindow world)
  increment (worldCounts world)
  windowEnd <- readPrimArray (worldDoubles world) regWindowEnd
  when (now >= windowEnd) $ do
    index <- jain world (worldWindow world)
    sum' <- readPrimArray (worldDoubles world) regJain
    writePrimArray (worldDoubles world) regJain (sum' + index)
    bump world regWindows
    setPrimArray (worldWindow world) 0 (modelThreads (worldModel world)) 0
    writePrimArray (worldDoubles world) regWindowEnd (now + windowLength)
  where
    increment cells = readPrimArray cells thread >>= writePrimArray cells thread . (+ 1)

-- | Square of the sum over n times the sum of squares; 1 when all are 0.
jain :: World s -> MutablePrimArray s Int -> ST s Double
jain world cells = go (0 :: Int) 0 0
  where
    n = modelThreads (worldModel world)
    go !i !s !squares
      | i == n = pure (if squares > 0 then s * s / (fromIntegral n * squares) else 1)
      | otherwise = do
        c <- fromIntegral <$> readPrimArray cells i
        go (i + 1) (s + c) (squares + c * c)

-- | A span of running time with the interruptions that fall into it.
interrupted :: World s -> Double -> ST s Double
interrupted world span' = do
  tick <- meets regTick machineTickRate (exponential (machineTick machine) (worldRandom world))
  stall <- meets regStall machineStallRate (pure (machineStall machine))
  pure (span' + tick + stall)
  where
    machine = modelMachine (worldModel world)
    meets r rate size = do
      left <- readPrimArray (worldDoubles world) r
      if span' < left
        then writePrimArray (worldDoubles world) r (left - span') >> pure 0
        else untilNext rate r world >> size
    {-# INLINE meets #-}

untilNext :: (Machine -> Double) -> Int -> World s -> ST s ()
untilNext rate r world
  | perSecond > 0 = exponential (1e9 / perSecond) (worldRandom world) >>= writePrimArray (worldDoubles world) r
  | otherwise = writePrimArray (worldDoubles world) r (1 / 0)
  where
    perSecond = rate (modelMachine (worldModel world))

-- ---- queues ------------------------------------------------------------

-- | Those whose think part has ended by now queue up, in that order.
admit :: World s -> Double -> ST s ()
admit world now = do
  next <- earliest (worldThinkers world)
  when (next <= now) $ do
    thread <- takeEarliest (worldThinkers world)
    writePrimArray (worldArrival world) thread next
    writePrimArray (worldBypassed world) thread 0
    let list = listOf thread
    first <- readPrimArray (worldHead world) list
    when (first == nobody) (inLine list next)
    enqueue world list thread
    readPrimArray (worldInts world) regLength >>= writePrimArray (worldInts world) regLength . (+ 1)
    admit world now
  where
    listOf thread = case modelAlgorithm (worldModel world) of
      Hmcs _ -> socketOf world thread
      _ -> mainQueue
    inLine list time = case modelAlgorithm (worldModel world) of
      Hmcs _ -> writePrimArray (worldDoubles world) (regSince + list) time
      _ -> pure ()

mainQueue, aside :: Int
mainQueue = 0
aside = 1

enqueue :: World s -> Int -> Int -> ST s ()
enqueue world list thread = do
  writePrimArray (worldNext world) thread nobody
  last' <- readPrimArray (worldTail world) list
  if last' == nobody
    then writePrimArray (worldHead world) list thread
    else writePrimArray (worldNext world) last' thread
  writePrimArray (worldTail world) list thread

-- | The head of a list that is not empty leaves.
dequeue :: World s -> Int -> ST s Int
dequeue world list = do
  thread <- readPrimArray (worldHead world) list
  next <- readPrimArray (worldNext world) thread
  writePrimArray (worldHead world) list next
  when (next == nobody) (writePrimArray (worldTail world) list nobody)
  pure thread

-- | Who gets the lock next, of at least one waiter.
successor :: World s -> Double -> Int -> ST s Int
successor world now before = do
  waiting <- readPrimArray (worldInts world) regLength
  writePrimArray (worldInts world) regLength (waiting - 1)
  let path = when (waiting > 1) (writePrimArray (worldDoubles world) regScan (machinePath (modelMachine (worldModel world))))
  case modelAlgorithm (worldModel world) of
    Fifo -> dequeue world mainQueue
    Hmcs passes -> path >> nextCohort world passes now before
    Cna c -> path >> nextCna world c now before

-- | Stays in the socket for so many hand-overs, then goes to the socket that has
-- been in line longest. One that gives the lock up gets in line again.
nextCohort :: World s -> Int -> Double -> Int -> ST s Int
nextCohort world passes now before = do
  used <- readPrimArray (worldInts world) regPasses
  own <- readPrimArray (worldHead world) here
  if own /= nobody && used < passes
    then writePrimArray (worldInts world) regPasses (used + 1) >> dequeue world here
    else do
      writePrimArray (worldInts world) regPasses 0
      writePrimArray (worldDoubles world) (regSince + here) now
      longest 0 here (1 / 0) >>= dequeue world
  where
    here = if before == nobody then 0 else socketOf world before
    longest !s !best !since
      | s == modelSockets (worldModel world) = pure best
      | otherwise = do
        waiter <- readPrimArray (worldHead world) s
        inLine <- readPrimArray (worldDoubles world) (regSince + s)
        if waiter /= nobody && inLine < since then longest (s + 1) s inLine else longest (s + 1) best since

-- | CNA. Those set aside came before everybody in the main queue, so its head,
-- or else the main queue's head, has waited longest of all.
nextCna :: World s -> CnaKnobs -> Double -> Int -> ST s Int
nextCna world c now before = do
  setAside <- readPrimArray (worldHead world) aside
  keep <- keeps world c now setAside
  look <- if setAside == nobody && cnaReduction c > 1 then chance (1 / fromIntegral (cnaReduction c)) (worldRandom world) else pure True
  local <- if keep && look then findLocal world now before else pure False
  unless (local || (keep && not look)) (putBack world)
  stillAside <- readPrimArray (worldHead world) aside
  when (stillAside /= nobody) (bump world regPassed)
  dequeue world mainQueue

-- | Whether a waiter of this socket may go first.
keeps :: World s -> CnaKnobs -> Double -> Int -> ST s Bool
keeps world c now setAside = do
  byChance <- maybe (pure False) (\r -> chance (1 / fromIntegral r) (worldRandom world)) (cnaRange c)
  late <- case cnaDeadline c of
    Just limit | setAside /= nobody -> (\since -> now - since >= limit) <$> readPrimArray (worldAside world) setAside
    _ -> pure False
  passed <- maybe (pure False) exhausted (cnaBypass c)
  pure (not (byChance || late || passed))
  where
    exhausted limit
      | setAside /= nobody = (>= limit) <$> bypassed setAside True
      | otherwise = do
        first <- readPrimArray (worldHead world) mainQueue
        if first == nobody then pure False else (>= limit) <$> bypassed first False
    bypassed thread there = (\before more -> if there then before + more else before) <$> readPrimArray (worldBypassed world) thread <*> sinceAside world thread

sinceAside :: World s -> Int -> ST s Int
sinceAside world thread = (-) <$> readPrimArray (worldInts world) regPassed <*> readPrimArray (worldEntered world) thread

-- | Looks for the first waiter of the holder's socket in the main queue. If there is
-- one, those before it are set aside and it is the head.
findLocal :: World s -> Double -> Int -> ST s Bool
findLocal world now before = do
  first <- readPrimArray (worldHead world) mainQueue
  look first 0
  where
    machine = modelMachine (worldModel world)
    isLocal thread = before == nobody || socketOf world thread == socketOf world before
    look !thread !cost
      | thread == nobody = charge cost >> pure False
      | isLocal thread = charge (cost + machineScanLocal machine) >> setAsideBefore thread >> pure True
      | otherwise = do
        next <- readPrimArray (worldNext world) thread
        look next (cost + machineScanRemote machine)
    charge cost = do
      known <- readPrimArray (worldDoubles world) regScan
      writePrimArray (worldDoubles world) regScan (known + cost)
    setAsideBefore thread = do
      first <- readPrimArray (worldHead world) mainQueue
      when (first /= thread) $ do
        moved <- dequeue world mainQueue
        enqueue world aside moved
        writePrimArray (worldAside world) moved now
        readPrimArray (worldInts world) regPassed >>= writePrimArray (worldEntered world) moved
        setAsideBefore thread

-- | Those set aside return in front of the main queue.
putBack :: World s -> ST s ()
putBack world = do
  first <- readPrimArray (worldHead world) aside
  unless (first == nobody) $ do
    settle first
    last' <- readPrimArray (worldTail world) aside
    others <- readPrimArray (worldHead world) mainQueue
    writePrimArray (worldNext world) last' others
    writePrimArray (worldHead world) mainQueue first
    when (others == nobody) (writePrimArray (worldTail world) mainQueue last')
    writePrimArray (worldHead world) aside nobody
    writePrimArray (worldTail world) aside nobody
  where
    settle thread = unless (thread == nobody) $ do
      more <- sinceAside world thread
      before <- readPrimArray (worldBypassed world) thread
      writePrimArray (worldBypassed world) thread (before + more)
      readPrimArray (worldNext world) thread >>= settle

outcome :: World s -> Double -> ST s Outcome
outcome world time = do
  operations <- readPrimArray (worldInts world) regOperations
  remote <- readPrimArray (worldInts world) regRemote
  free <- readPrimArray (worldInts world) regFree
  bypass <- readPrimArray (worldInts world) regBypass
  windows <- readPrimArray (worldInts world) regWindows
  sum' <- readPrimArray (worldDoubles world) regJain
  whole' <- jain world (worldCounts world)
  response <- freeze (worldResponse world)
  waited <- freeze (worldWait world)
  pure
    Outcome
      { outcomeOperations = operations,
        outcomeTime = time,
        outcomeResponse = response,
        outcomeWait = waited,
        outcomeRemote = remote,
        outcomeFree = free,
        outcomeBypass = case modelAlgorithm (worldModel world) of
          Hmcs _ -> Nothing
          _ -> Just bypass,
        outcomeJainWindow = if windows > 0 then sum' / fromIntegral windows else whole',
        outcomeJain = whole'
      }
