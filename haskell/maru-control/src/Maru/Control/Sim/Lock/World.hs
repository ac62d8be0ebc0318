{-# LANGUAGE BangPatterns #-}

-- | The state of a run, and what a thread does in it but for the queues: it holds, is
-- interrupted, thinks, and is counted.
module Maru.Control.Sim.Lock.World
  ( World (..),
    newWorld,
    forget,

    -- * Cells of 'worldInts' and 'worldDoubles'
    regPassed,
    regRemote,
    regFree,
    regBypass,
    regOperations,
    regWindows,
    regPasses,
    regLength,
    regTick,
    regStall,
    regScan,
    regJain,
    regSince,
    bump,
    nobody,

    -- * A thread's part
    handOver,
    socketOf,
    hold,
    interrupted,
    heldUp,
    untilNext,
    jain,
  )
where

import Control.Monad (when)
import Control.Monad.ST (ST)
import Data.Primitive (Prim)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Calendar
import Maru.Control.Sim.Lock.Model
import Maru.Control.Sim.Random
import Maru.Control.Sim.Tally

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

-- | How long the waiter whose turn has come is away still, by an interruption that began while it
-- waited. The chance is that of a Poisson process: what began earlier has more likely ended.
heldUp :: World s -> Double -> Int -> ST s Double
heldUp world now thread
  | machineWaiters machine <= 0 = pure 0
  | otherwise = do
    waited <- max 0 . (now -) <$> readPrimArray (worldArrival world) thread
    let ticking = often machineTickRate * machineTick machine * (1 - exp (negate waited / max 1 (machineTick machine)))
        window = min waited (machineStall machine)
        stalling = often machineStallRate * window
    drawn <- uniform (worldRandom world)
    if drawn < stalling
      then (\since -> machineStall machine - since * window) <$> uniform (worldRandom world)
      else if drawn < stalling + ticking then exponential (machineTick machine) (worldRandom world) else pure 0
  where
    machine = modelMachine (worldModel world)
    often rate = machineWaiters machine * rate machine / 1e9
