{-# LANGUAGE PatternSynonyms #-}

-- | The simulated nodes and their threads: arrays, accounts, virtual times.
module Maru.Control.Sim.Boost.World
  ( World (..),
    Doubles,
    Ints,
    pattern Computing,
    pattern Hog,
    pattern Spinning,
    pattern Yielding,
    pattern Looking,
    pattern Armed,
    pattern Unknown,
    pattern Polling,
    pattern Unborn,
    pattern Done,
    pattern SumComputed,
    pattern SumBurnt,
    pattern SumCosts,
    pattern SumHogs,
    pattern SumIdle,
    pattern SumAsked,
    pattern SumEnd,
    pattern CountDone,
    pattern CountPhases,
    pattern CountTurns,
    pattern CountEvents,
    runs,
    waits,
    add,
    bump,
    costs,
    filled,
    each,
    sliceOf,
    tickOf,
    takeTurn,
    elapse,
    weightOf,
    spend,
    ready,
    classOf,
    fairClass,
    average,
  )
where

import Control.Monad (when)
import Control.Monad.ST (ST)
import Data.Primitive.PrimArray
import Data.Primitive.Types (Prim)
import Maru.Control.Sim.Boost.Model
import Maru.Control.Sim.Random
import Maru.Control.Sim.Tournament

-- What a thread does.
pattern Computing, Hog, Spinning, Yielding, Looking, Armed, Unknown, Polling, Unborn, Done :: Int
pattern Computing = 0
pattern Hog = 1

-- | Awake: spins, or gives way between looks.
pattern Spinning = 2

pattern Yielding = 3

-- | Woken, or its sleep is over: it looks when it runs.
pattern Looking = 4

-- | Asleep; the sender wakes.
pattern Armed = 5

-- | Asleep; the sender does not know.
pattern Unknown = 6

pattern Polling = 7

pattern Unborn = 8

pattern Done = 9

type Doubles s = MutablePrimArray s Double

type Ints s = MutablePrimArray s Int

data World s = World
  { model :: !Model,
    width :: !Int, -- threads of a node
    phases :: !Int,
    source :: !(Source s),
    agenda :: !(Tournament s),
    -- Of threads.
    state :: !(Ints s),
    iteration :: !(Ints s),
    lowered :: !(Ints s),
    left :: !(Doubles s), -- to compute
    limit :: !(Doubles s), -- of what it does now: spinning, sleeping
    virtual :: !(Doubles s),
    deadline :: !(Doubles s),
    lag :: !(Doubles s), -- when it fell asleep
    turn :: !(Doubles s), -- round robin
    learned :: !(Doubles s), -- adaptive
    budget :: !(Doubles s),
    pending :: !(Doubles s), -- since when, as the daemon knows; infinity: not
    raised :: !(Doubles s), -- until; 0: not
    rests :: !(Doubles s),
    short :: !(Ints s), -- 1: asks for short time slices
    inbox :: !(Doubles s), -- when messages arrive: two sides, two iterations
    -- Of nodes.
    current :: !(Ints s), -- a thread's number there; -1: idle
    again :: !(Ints s), -- 1: pick anew
    watcher :: !(Ints s),
    since :: !(Doubles s), -- accounts are settled until here
    stolen :: !(Doubles s), -- the CPU is held up until then
    safety :: !(Doubles s), -- the virtual time of the running one until which none preempts it
    tick :: !(Doubles s),
    daemonAt :: !(Doubles s),
    period :: !(Doubles s),
    othersAt :: !(Doubles s),
    skew :: !(Doubles s),
    gaveWay :: !(Doubles s), -- when its watcher last let others go first; 0: it has been back
    crowded :: !(Doubles s), -- adaptive: until then nobody stays awake there
    -- Barriers: the processes that have come, by job and iteration.
    come :: !(Ints s),
    -- Sums: see 'Outcome'.
    sums :: !(Doubles s),
    counts :: !(Ints s) -- done threads, phases, turns, events
  }

pattern SumComputed, SumBurnt, SumCosts, SumHogs, SumIdle, SumAsked, SumEnd :: Int
pattern SumComputed = 0
pattern SumBurnt = 1
pattern SumCosts = 2
pattern SumHogs = 3
pattern SumIdle = 4
pattern SumAsked = 5
pattern SumEnd = 6

pattern CountDone, CountPhases, CountTurns, CountEvents :: Int
pattern CountDone = 0
pattern CountPhases = 1
pattern CountTurns = 2
pattern CountEvents = 3

runs, waits :: Int -> Bool
runs what = what <= Looking
waits what = what >= Spinning && what <= Polling

add :: Doubles s -> Int -> Double -> ST s ()
add array i x = readPrimArray array i >>= writePrimArray array i . (+ x)
{-# INLINE add #-}

bump :: Ints s -> Int -> ST s Int
bump array i = do
  n <- (+ 1) <$> readPrimArray array i
  writePrimArray array i n
  pure n
{-# INLINE bump #-}

costs :: World s -> Costs
costs = modelCosts . model
{-# INLINE costs #-}

filled :: Prim a => Int -> a -> ST s (MutablePrimArray s a)
filled n x = do
  array <- newPrimArray (max 1 n)
  setPrimArray array 0 (max 1 n) x
  pure array

each :: Int -> (Int -> ST s ()) -> ST s ()
each n act = go 0
  where
    go i = when (i < n) $ act i >> go (i + 1)
{-# INLINE each #-}

sliceOf, tickOf :: World s -> Double
sliceOf = fairSlice . fairness
tickOf = fairTick . fairness

-- | Beside round robin: of those that are lowered below it.
fairness :: World s -> Fairness
fairness w = case modelScheduler (model w) of
  Fair rules -> rules
  RoundRobin _ -> fair

takeTurn :: World s -> Int -> ST s ()
takeTurn w thread = bump (counts w) CountTurns >>= writePrimArray (turn w) thread . fromIntegral

-- | The time since the last accounts belongs to what ran.
elapse :: World s -> Int -> Double -> ST s ()
elapse w n now = do
  from <- max <$> readPrimArray (since w) n <*> readPrimArray (stolen w) n
  writePrimArray (since w) n now
  when (now > from) $ do
    c <- readPrimArray (current w) n
    let passed = now - from
    if c < 0
      then add (sums w) SumIdle passed
      else do
        let thread = n * width w + c
        what <- readPrimArray (state w) thread
        case what of
          Computing -> add (left w) thread (negate passed) >> add (sums w) SumComputed passed
          Hog -> add (sums w) SumHogs passed
          _ -> add (sums w) SumBurnt passed
        -- Those that give way to each other all advance alike.
        when (what /= Yielding) $ do
          weight <- weightOf w thread
          add (virtual w) thread (passed / weight)

-- | Nice 19 by nice 0.
weightOf :: World s -> Int -> ST s Double
weightOf w thread = (\low -> if low == 1 then 15 / 1024 else 1) <$> readPrimArray (lowered w) thread
{-# INLINE weightOf #-}

-- | The CPU stands still for that long.
spend :: World s -> Int -> Double -> Double -> ST s Double
spend w n cost at = do
  add (sums w) SumCosts cost
  writePrimArray (stolen w) n (at + cost)
  pure (at + cost)

-- | When all that it waits for is there; infinity: not yet known.
ready :: World s -> Int -> ST s Double
ready w thread
  | modelNodes (model w) < 2 = pure 0
  | otherwise = do
    i <- readPrimArray (iteration w) thread
    let slot = 4 * thread + i `rem` 2
    first <- readPrimArray (inbox w) slot
    if twoSided w then max first <$> readPrimArray (inbox w) (slot + 2) else pure first
{-# INLINE ready #-}

twoSided :: World s -> Bool
twoSided w = modelPattern (model w) == Ring && modelNodes (model w) > 2
{-# INLINE twoSided #-}

-- | Raised, round robin, fair: the smaller runs first.
classOf :: World s -> Int -> ST s Int
classOf w thread = do
  up <- readPrimArray (raised w) thread
  low <- readPrimArray (lowered w) thread
  pure $ case modelScheduler (model w) of
    _ | up > 0 -> 0
    RoundRobin _ | low == 0 -> 1
    _ -> fairClass
{-# INLINE classOf #-}

fairClass :: Int
fairClass = 2

-- | Mean virtual time of the fair ones that may run; infinity without any.
average :: World s -> Int -> ST s Double
average w n = go 0 0 0
  where
    go k total weights
      | k >= width w = pure (if weights > 0 then total / weights else infinity)
      | otherwise = do
        let thread = n * width w + k
        what <- readPrimArray (state w) thread
        level <- if runs what then classOf w thread else pure 0
        if level /= fairClass
          then go (k + 1) total weights
          else do
            v <- readPrimArray (virtual w) thread
            weight <- weightOf w thread
            go (k + 1) (total + weight * v) (weights + weight)
