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
--   running time. An interruption of the holder stops everybody. Waiters are
--   interrupted if 'machineWaiters' says so: the seed's machine leaves that out.
--   It matters to one whose turn has come, for whom everybody waits then.
--
-- Not in the model: memory bandwidth, what spinning waiters do to the
-- interconnect, more threads than cores, sleeping. So it tells apart algorithms by the /order/ in
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

import Control.Monad.ST (ST, runST)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Calendar
import Maru.Control.Sim.Lock.Model
import Maru.Control.Sim.Lock.Names
import Maru.Control.Sim.Lock.Queue
import Maru.Control.Sim.Lock.World
import Maru.Control.Sim.Random
import Maru.Control.Sim.Tally

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
      away <- heldUp world now thread
      hold world (now + max cost away) before thread >>= \t -> go t thread

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
