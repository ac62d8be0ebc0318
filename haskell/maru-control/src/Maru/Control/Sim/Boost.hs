{-# LANGUAGE PatternSynonyms #-}

-- | A discrete-event simulator of the wait room: jobs whose processes lie on
-- several nodes and wait for each other's messages, on nodes with one CPU each
-- that they share.
--
-- = The model
--
-- * /Jobs./ Each has one process on each node. A process repeats: send, receive,
--   compute (± 10 %). It sends to both neighbours in a ring and needs a message of
--   each, or meets all others at a barrier. A message needs 'modelLatency'.
-- * /The scheduler./ By default EEVDF: virtual times by weight, the earliest virtual
--   deadline of those that have not had more than their part, one that was picked is
--   safe for a slice, requests end at ticks. Or round robin with a long quantum. Above
--   both are raised threads. Hogs compute without end.
-- * /Waiting/ by all policies of "Maru.Wait" and the daemons of @maru boost@, to the
--   letter where time is spent: who looks when, who pays for a wake-up, what happens to
--   priorities. Spinning and giving way are not stepped through: between two things that
--   change anything, they are an interval.
-- * /Costs/ of switches, wake-ups, looks and ticks stop the node's CPU.
--
-- Not in the model: caches, several CPUs a node, other users of the machine, real-time
-- throttling, interrupts (but 'costArrival'), control groups, that two waiters of one machine
-- could see each other's boards.
--
-- All times are microseconds. The same model gives the same result on every machine.
-- A message costs O(jobs + hogs + log nodes).
module Maru.Control.Sim.Boost
  ( Model (..),
    defaultModel,
    Pattern (..),
    Scheduler (..),
    Fairness (..),
    fair,
    longQuantum,
    Scheme (..),
    Daemon (..),
    schemes,
    schemeNamed,
    withPeriod,
    Costs (..),
    thisMachine,
    underCard,
    quietMachine,
    freeOfCost,
    Outcome (..),
    simulate,
    ideal,
    ablations,
  )
where

import Control.Monad (void, when)
import Control.Monad.ST (ST, runST)
import Data.List (find)
import Data.Primitive.PrimArray
import Data.Primitive.Types (Prim)
import Maru.Control.Sim.Random
import Maru.Control.Sim.Tournament
import Maru.Wait (Policy (..), policyName)

data Model = Model
  { modelNodes :: !Int,
    modelJobs :: !Int,
    -- | Threads on each node that only compute.
    modelHogs :: !Int,
    -- | Computing of each process in all, and between two messages.
    modelWork :: !Double,
    modelCompute :: !Double,
    modelLatency :: !Double,
    modelPattern :: !Pattern,
    -- | The nodes start their jobs in orders of their own, so far apart.
    modelStagger :: !Double,
    -- | The nodes' clocks are off by up to so much, either way.
    modelSkew :: !Double,
    modelScheduler :: !Scheduler,
    modelScheme :: !Scheme,
    modelCosts :: !Costs,
    -- | Ended after so many times the ideal.
    modelLimit :: !Double,
    modelSeed :: !Int
  }
  deriving (Eq, Show)

-- | Two nodes with four jobs of 60 ms, a message every 100 µs.
defaultModel :: Model
defaultModel =
  Model
    { modelNodes = 2,
      modelJobs = 4,
      modelHogs = 0,
      modelWork = 60000,
      modelCompute = 100,
      modelLatency = 2,
      modelPattern = Ring,
      modelStagger = 5000,
      modelSkew = 50,
      modelScheduler = Fair fair,
      modelScheme = Scheme Adaptive NoDaemon,
      modelCosts = thisMachine,
      modelLimit = 40,
      modelSeed = 1
    }

-- | Who sends to whom.
data Pattern = Ring | Barrier
  deriving (Eq, Show, Enum, Bounded)

-- | What shares a node's CPU.
data Scheduler
  = Fair !Fairness
  | -- | With that quantum.
    RoundRobin !Double
  deriving (Eq, Show)

-- | Of EEVDF.
data Fairness = Fairness
  { fairSlice :: !Double,
    fairTick :: !Double,
    -- | One that wakes may take the CPU at once.
    fairPreempts :: !Bool
  }
  deriving (Eq, Show)

-- | Linux 6.18 on two CPUs with 250 ticks a second.
fair :: Fairness
fair = Fairness {fairSlice = 1400, fairTick = 4000, fairPreempts = True}

-- | As that of the published experiment: 100 ms.
longQuantum :: Scheduler
longQuantum = RoundRobin 100000

-- | How processes wait, and what helps them.
data Scheme = Scheme
  { schemePolicy :: !Policy,
    schemeDaemon :: !Daemon
  }
  deriving (Eq, Show)

-- | Of each node, with its period.
data Daemon
  = NoDaemon
  | -- | Wakes, restores, raises what is stuck; 250 µs to 5 ms by itself.
    Auto
  | -- | Raises what has a message.
    Pb !Double
  | -- | The same, and restores.
    PbLower !Double
  | -- | Raises one job after the other.
    Slots !Double
  deriving (Eq, Show)

-- | All policies, and the published heuristic without and with lowering.
schemes :: [(String, Scheme)]
schemes =
  [(policyName p, Scheme p (if p == Gang then Slots 20000 else NoDaemon)) | p <- [minBound .. maxBound]]
    ++ [("pb", Scheme Spin (Pb 20000)), ("pb+lower", Scheme SpinLower (PbLower 20000))]

-- | A scheme by its name; @NAME+auto@ has the daemon beside it.
schemeNamed :: String -> Maybe Scheme
schemeNamed name = case lookup name schemes of
  Just scheme -> Just scheme
  Nothing -> do
    (known, scheme) <- find ((== name) . (++ "+auto") . fst) schemes
    if known `elem` ["pb", "pb+lower", "gang"] then Nothing else Just scheme {schemeDaemon = Auto}

-- | With another period; what has none of its own stays.
withPeriod :: Double -> Scheme -> Scheme
withPeriod every scheme = scheme {schemeDaemon = changed (schemeDaemon scheme)}
  where
    changed daemon = case daemon of
      Pb _ -> Pb every
      PbLower _ -> PbLower every
      Slots _ -> Slots every
      other -> other

data Costs = Costs
  { costSend :: !Double,
    costLook :: !Double,
    -- | From one thread of a CPU to another.
    costSwitch :: !Double,
    -- | To give way and be back at once.
    costYield :: !Double,
    -- | To wake a sleeper, for who wakes.
    costWake :: !Double,
    -- | Until an idle CPU runs what was woken.
    costIdle :: !Double,
    -- | To fall asleep and return.
    costSleep :: !Double,
    -- | To change a priority.
    costPriority :: !Double,
    costTick :: !Double,
    -- | Of a message, for the CPU of the receiver, whatever that does: it arrives so
    -- much later, and the scheduler picks anew.
    costArrival :: !Double,
    -- | What outranks all this takes a node's CPU once in so long (at random, the
    -- mean), for so long: kernel threads, watchers. Then the scheduler picks anew.
    costOthersEvery :: !Double,
    costOthers :: !Double,
    -- | How long those spin who spin before they do something else.
    costSpin :: !Double
  }
  deriving (Eq, Show)

-- | Two virtual CPUs of a server of 2026, with messages through shared memory.
thisMachine :: Costs
thisMachine =
  Costs
    { costSend = 0.1,
      costLook = 0.1,
      costSwitch = 1.2,
      costYield = 0.5,
      costWake = 4,
      costIdle = 20,
      costSleep = 0.5,
      costPriority = 0.7,
      costTick = 15,
      costArrival = 0,
      costOthersEvery = 5000,
      costOthers = 330,
      costSpin = 44
    }

-- | The same under a network card that is a process, as @boost_jobs@ has it.
underCard :: Costs
underCard = thisMachine {costArrival = 25}

-- | The same without a hypervisor and other users.
quietMachine :: Costs
quietMachine = thisMachine {costOthersEvery = infinity}

-- | What it would be if nothing cost anything but the waiting itself. Giving way costs
-- a thousandth: it has to end.
freeOfCost :: Costs
freeOfCost = Costs 0 0 0 0.001 0 0 0 0 0 0 infinity 0 40

data Outcome = Outcome
  { -- | Wall time by 'ideal'.
    outcomeSlowdown :: !Double,
    -- | False: ended at the limit.
    outcomeDone :: !Bool,
    outcomeWall :: !Double,
    -- | Sums over the nodes: computing, waiting awake, costs, hogs, idle.
    outcomeComputed :: !Double,
    outcomeBurnt :: !Double,
    outcomeCosts :: !Double,
    outcomeHogs :: !Double,
    outcomeIdle :: !Double,
    -- | What the finished phases asked for, and how many there were.
    outcomeAsked :: !Double,
    outcomePhases :: !Int,
    outcomeEvents :: !Int
  }
  deriving (Eq, Show)

-- | Without waiting: each CPU computes for its processes one after the other.
ideal :: Model -> Double
ideal m = fromIntegral (modelJobs m) * fromIntegral (phasesOf m) * modelCompute m

-- | At least one.
phasesOf :: Model -> Int
phasesOf m = max 1 (floor (modelWork m / modelCompute m + 1e-9))

-- | The model without each of its parts. The whole one comes first.
ablations :: Model -> [(String, Model)]
ablations m =
  [ ("whole model", m),
    ("clocks agree", m {modelSkew = 0}),
    ("nodes start in phase", m {modelStagger = 0}),
    ("nobody preempts by waking", m {modelScheduler = calm (modelScheduler m)}),
    ("nobody else takes CPU time", m {modelCosts = (modelCosts m) {costOthersEvery = infinity}}),
    ("switches, wake-ups and ticks are free", m {modelCosts = unhurried (modelCosts m)}),
    ("idle CPUs answer at once", m {modelCosts = (modelCosts m) {costIdle = 0}}),
    ("messages arrive at once", m {modelLatency = 0})
  ]
  where
    unhurried c =
      freeOfCost
        { costSpin = costSpin c,
          costArrival = costArrival c,
          costOthersEvery = costOthersEvery c,
          costOthers = costOthers c
        }
    calm scheduler = case scheduler of
      Fair rules -> Fair rules {fairPreempts = False}
      other -> other

-- ---- the world ---------------------------------------------------------

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

runs, waits :: Int -> Bool
runs what = what <= Looking
waits what = what >= Spinning && what <= Polling

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
    -- Barriers: who has come, by job and iteration.
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

infinity :: Double
infinity = 1 / 0

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

newWorld :: Model -> ST s (World s)
newWorld m = do
  let nodes = modelNodes m
      wide = modelJobs m + modelHogs m
      threads = nodes * wide
  w <-
    World m wide (phasesOf m)
      <$> newSource (modelSeed m)
      <*> newTournament nodes
      <*> filled threads Hog
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads infinity
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads (1000 * costSpin (modelCosts m))
      <*> filled threads 0
      <*> filled threads infinity
      <*> filled threads 0
      <*> filled threads 0
      <*> filled (4 * threads) infinity
      <*> filled nodes (-1)
      <*> filled nodes 0
      <*> filled nodes (-1)
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled nodes infinity
      <*> filled nodes 0
      <*> filled nodes infinity
      <*> filled nodes 0
      <*> filled (2 * modelJobs m) 0
      <*> filled 7 0
      <*> filled 4 0
  each nodes (newNode w)
  pure w

each :: Int -> (Int -> ST s ()) -> ST s ()
each n act = go 0
  where
    go i = when (i < n) $ act i >> go (i + 1)
{-# INLINE each #-}

newNode :: World s -> Int -> ST s ()
newNode w n = do
  let m = model w
      jobs = modelJobs m
  order <- newPrimArray (max 1 jobs)
  each jobs $ \k -> writePrimArray order k k
  -- Every order is as likely.
  each (jobs - 1) $ \i -> do
    let last' = jobs - 1 - i
    k <- (\u -> min last' (floor (u * fromIntegral (last' + 1)))) <$> uniform (source w)
    a <- readPrimArray order last'
    readPrimArray order k >>= writePrimArray order last'
    writePrimArray order k (a :: Int)
  each (width w) $ \k -> do
    let thread = n * width w + k
    renew w thread
    takeTurn w thread
    when (k < jobs) $ do
      position <- readPrimArray order k
      writePrimArray (state w) thread Unborn
      writePrimArray (limit w) thread (100 + modelStagger m * fromIntegral position)
  offset <- (\u -> modelSkew m * (2 * u - 1)) <$> uniform (source w)
  writePrimArray (skew w) n offset
  phase <- uniform (source w)
  writePrimArray (tick w) n (phase * tickOf w)
  beginning <- uniform (source w)
  let first p = writePrimArray (period w) n p >> writePrimArray (daemonAt w) n (beginning * p)
  case schemeDaemon (modelScheme m) of
    NoDaemon -> pure ()
    Auto -> first longest
    Pb p -> first p
    PbLower p -> first p
    Slots p -> writePrimArray (period w) n p >> writePrimArray (daemonAt w) n 0
  othersNext w n 0
  due (agenda w) n 0

othersNext :: World s -> Int -> Double -> ST s ()
othersNext w n now = do
  let every = costOthersEvery (costs w)
  when (every < infinity) $ exponential every (source w) >>= writePrimArray (othersAt w) n . (now +)

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

simulate :: Model -> Outcome
simulate m = runST $ do
  w <- newWorld m
  let ends = modelLimit m * ideal m
      everybody = modelNodes m * modelJobs m
      loop = do
        (time, n) <- next (agenda w)
        finished <- readPrimArray (counts w) CountDone
        if finished == everybody
          then readPrimArray (sums w) SumEnd
          else
            if time > ends
              then pure ends
              else do
                _ <- bump (counts w) CountEvents
                visit w n time
                loop
  wall <- loop
  each (modelNodes m) $ \n -> elapse w n wall
  finished <- (== everybody) <$> readPrimArray (counts w) CountDone
  let summed = readPrimArray (sums w)
  Outcome (wall / ideal m) finished wall
    <$> summed SumComputed
    <*> summed SumBurnt
    <*> summed SumCosts
    <*> summed SumHogs
    <*> summed SumIdle
    <*> summed SumAsked
    <*> readPrimArray (counts w) CountPhases
    <*> readPrimArray (counts w) CountEvents

-- | Everything that happens on a node at this time.
visit :: World s -> Int -> Double -> ST s ()
visit w n now = do
  elapse w n now
  heartbeat <- readPrimArray (tick w) n
  when (now >= heartbeat) $ tickNode w n now
  each (modelJobs (model w)) (arise w n now)
  daemon <- readPrimArray (daemonAt w) n
  when (now >= daemon) $ daemonTick w n now
  others <- readPrimArray (othersAt w) n
  when (now >= others) $ do
    held <- max now <$> readPrimArray (stolen w) n
    _ <- spend w n (costOthers (costs w)) held
    writePrimArray (again w) n 1
    othersNext w n now
  at <- max now <$> readPrimArray (stolen w) n
  decide w n at
  plan w n now

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

-- ---- messages ----------------------------------------------------------

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

-- | The message of this iteration; the time after it.
send :: World s -> Int -> Int -> Double -> Double -> ST s Double
send w n k now at0 = do
  at <- spend w n (costSend (costs w)) at0
  i <- readPrimArray (iteration w) (n * width w + k)
  let m = model w
      nodes = modelNodes m
      arrival = at + modelLatency m + costArrival (costs w)
      to other side = post w now at (other * width w + k) other (4 * (other * width w + k) + 2 * side + i `rem` 2)
      -- Who waits asleep is woken by the sender, unless the message takes time.
      pay woken = if woken && modelLatency m == 0 then spend w n (costWake (costs w)) else pure
  case modelPattern m of
    _ | nodes < 2 -> pure at
    Ring
      | nodes == 2 -> to (1 - n) 0 arrival >>= (`pay` at)
      | otherwise -> do
        right <- to ((n + 1) `rem` nodes) 0 arrival
        after <- pay right at
        toLeft <- to ((n + nodes - 1) `rem` nodes) 1 arrival
        pay toLeft after
    Barrier -> do
      let place = 2 * k + i `rem` 2
      there <- bump (come w) place
      if there < nodes
        then pure at
        else do
          writePrimArray (come w) place 0
          let steps = ceiling (logBase 2 (fromIntegral nodes :: Double)) :: Int
          each nodes $ \other -> void (to other 0 (at + fromIntegral steps * (modelLatency m + costArrival (costs w))))
          -- One of them was for this node, whose CPU it may have cost.
          max at <$> readPrimArray (stolen w) n

-- | Into an inbox. Whether its owner must be woken for it.
post :: World s -> Double -> Double -> Int -> Int -> Int -> Double -> ST s Bool
post w now at thread n place arrival = do
  writePrimArray (inbox w) place arrival
  let cost = costArrival (costs w)
  when (cost > 0) $ do
    elapse w n now
    held <- max now <$> readPrimArray (stolen w) n
    _ <- spend w n cost held
    writePrimArray (again w) n 1
    due (agenda w) n now
  what <- readPrimArray (state w) thread
  complete <- ready w thread
  when (waits what && complete < infinity && cost == 0) $ do
    known <- nextOf w n
    due (agenda w) n (min known (max complete at))
  pure (what == Armed && complete < infinity)

-- ---- sleeping and waking -----------------------------------------------

-- | Who begins, and whose sleep is over.
arise :: World s -> Int -> Double -> Int -> ST s ()
arise w n now k = do
  let thread = n * width w + k
  what <- readPrimArray (state w) thread
  case what of
    Unborn -> onTime thread (wake w n thread Computing)
    Armed -> do
      arrived <- ready w thread
      when (arrived <= now) $ do
        when (modelLatency (model w) > 0) $ held (costWake (costs w))
        wake w n thread Looking
    Unknown -> onTime thread (wake w n thread Looking)
    Polling -> onTime thread (wake w n thread Looking)
    _ -> pure ()
  where
    onTime thread act = do
      end <- readPrimArray (limit w) thread
      when (end <= now) act
    held cost = do
      at <- max now <$> readPrimArray (stolen w) n
      void (spend w n cost at)

-- | It may run. Like EEVDF: with the part that it had not had when it fell asleep.
wake :: World s -> Int -> Int -> Int -> ST s ()
wake w n thread what = do
  common <- average w n
  owed <- readPrimArray (lag w) thread
  v <- readPrimArray (virtual w) thread
  -- One that had had more than its part goes on with its old request until that is made good.
  when (owed >= 0 || v < common) $ do
    when (common < infinity) $ writePrimArray (virtual w) thread (common - max 0 owed)
    renew w thread
  takeTurn w thread
  writePrimArray (state w) thread what
  c <- readPrimArray (current w) n
  when (c >= 0) $ do
    takes <- preempts w n (n * width w + c) thread
    when takes $ writePrimArray (again w) n 1

-- | A new request: for a slice, or for a quantum of round robin.
renew :: World s -> Int -> ST s ()
renew w thread = do
  v <- readPrimArray (virtual w) thread
  weight <- weightOf w thread
  writePrimArray (deadline w) thread $ case modelScheduler (model w) of
    RoundRobin quantum | weight == 1 -> v + quantum
    _ -> v + requestOf w / weight

requestOf :: World s -> Double
requestOf w = if schemePolicy (modelScheme (model w)) == Dcs then 100 else sliceOf w

-- | Whether one that wakes gets the CPU of the one that has it.
preempts :: World s -> Int -> Int -> Int -> ST s Bool
preempts w n holder thread = do
  mine <- classOf w thread
  its <- classOf w holder
  case modelScheduler (model w) of
    _ | mine /= its -> pure (mine < its)
    Fair (Fairness slice _ True) | mine == fairClass -> do
      safe <- (<) <$> readPrimArray (virtual w) holder <*> readPrimArray (safety w) n
      common <- average w n
      v <- readPrimArray (virtual w) thread
      sooner <- (<) <$> readPrimArray (deadline w) thread <*> readPrimArray (deadline w) holder
      what <- readPrimArray (state w) holder
      -- A shorter request than the holder's lifts its protection.
      let shorter = requestOf w < slice && what == Hog
      pure ((shorter || not safe) && v <= common + 1e-6 && sooner)
    _ -> pure False

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

-- | It sleeps, in that way, until then.
sleep :: World s -> Int -> Int -> Int -> Double -> Double -> ST s Double
sleep w n thread how end at = do
  common <- average w n
  v <- readPrimArray (virtual w) thread
  writePrimArray (lag w) thread (if common < infinity then min (sliceOf w) (common - v) else 0)
  writePrimArray (state w) thread how
  writePrimArray (limit w) thread end
  spend w n (costSleep (costs w)) at

-- | Wakes those of the node that sleep unknown and have a message. How many.
wakePending :: World s -> Int -> Double -> ST s (Int, Double)
wakePending w n = go 0 0
  where
    go k woken at
      | k >= modelJobs (model w) = pure (woken, at)
      | otherwise = do
        let thread = n * width w + k
        what <- readPrimArray (state w) thread
        arrived <- if what == Unknown then ready w thread else pure infinity
        if arrived > at
          then go (k + 1) woken at
          else do
            after <- spend w n (costWake (costs w)) at
            wake w n thread Looking
            go (k + 1) (woken + 1 :: Int) after

-- ---- the scheduler -----------------------------------------------------

-- | The scheduler looks whether a time slice is over.
tickNode :: World s -> Int -> Double -> ST s ()
tickNode w n now = do
  let every = tickOf w
  was <- readPrimArray (tick w) n
  writePrimArray (tick w) n (was + every * fromIntegral (floor ((now - was) / every + 1e-9) + 1 :: Int))
  c <- readPrimArray (current w) n
  when (c >= 0) $ do
    let thread = n * width w + c
    level <- classOf w thread
    over <- (>=) . (+ 1e-6) <$> readPrimArray (virtual w) thread <*> readPrimArray (deadline w) thread
    when (over && level > 0) $ do
      renew w thread
      takeTurn w thread
      writePrimArray (again w) n 1

-- | Who is to run; -1: nobody.
choose :: World s -> Int -> ST s Int
choose w n = do
  common <- average w n
  let go k best level key
        | k >= width w = pure best
        | otherwise = do
          let thread = n * width w + k
          what <- readPrimArray (state w) thread
          if not (runs what)
            then go (k + 1) best level key
            else do
              mine <- classOf w thread
              v <- readPrimArray (virtual w) thread
              own <- readPrimArray (if mine == fairClass then deadline w else turn w) thread
              let entitled = mine /= fairClass || v <= common + 1e-6
              if entitled && (mine < level || (mine == level && own < key))
                then go (k + 1) k mine own
                else go (k + 1) best level key
  go 0 (-1) (3 :: Int) infinity

-- | Until somebody runs who does something that lasts.
decide :: World s -> Int -> Double -> ST s ()
decide w n at = do
  c <- readPrimArray (current w) n
  anew <- readPrimArray (again w) n
  ran <- if c >= 0 then runs <$> readPrimArray (state w) (n * width w + c) else pure False
  if anew == 0 && ran then proceed w n c at else pick w n c at

pick :: World s -> Int -> Int -> Double -> ST s ()
pick w n before at = do
  writePrimArray (again w) n 0
  k <- choose w n
  if k < 0
    then writePrimArray (current w) n (-1) >> writePrimArray (stolen w) n at
    else do
      after <-
        if k == before
          then pure at
          else spend w n ((if before < 0 then costIdle else costSwitch) (costs w)) at
      writePrimArray (current w) n k
      readPrimArray (deadline w) (n * width w + k) >>= writePrimArray (safety w) n
      proceed w n k after

-- | It has the CPU.
proceed :: World s -> Int -> Int -> Double -> ST s ()
proceed w n k at = do
  let thread = n * width w + k
  what <- readPrimArray (state w) thread
  arrived <- if waits what then ready w thread else pure infinity
  case what of
    _ | arrived <= at -> begin w n k at
    Computing -> do
      more <- readPrimArray (left w) thread
      if more > 1e-6 then settled else finish w n k at
    Spinning -> do
      end <- readPrimArray (limit w) thread
      if end <= at then spunInVain w n k at else settled
    Looking -> lookedInVain w n k at
    Yielding -> giveWay w n k at
    _ -> settled
  where
    settled = writePrimArray (stolen w) n at

-- | The message is there: it computes.
begin :: World s -> Int -> Int -> Double -> ST s ()
begin w n k at0 = do
  let thread = n * width w + k
      m = model w
  what <- readPrimArray (state w) thread
  when (what == Spinning && schemePolicy (modelScheme m) == Adaptive) $ adaptiveLearn w thread True
  at <- restore w n thread at0 >>= spend w n (costLook (costs w))
  held <- readPrimArray (watcher w) n
  when (held == k) $ writePrimArray (watcher w) n (-1)
  i <- readPrimArray (iteration w) thread
  writePrimArray (inbox w) (4 * thread + i `rem` 2) infinity
  writePrimArray (inbox w) (4 * thread + 2 + i `rem` 2) infinity
  u <- uniform (source w)
  let asked = modelCompute m * (0.9 + 0.2 * u)
  add (sums w) SumAsked asked
  _ <- bump (counts w) CountPhases
  writePrimArray (left w) thread asked
  writePrimArray (state w) thread Computing
  writePrimArray (stolen w) n at

-- | Its phase is over: it sends and waits.
finish :: World s -> Int -> Int -> Double -> ST s ()
finish w n k at0 = do
  let thread = n * width w + k
  i <- bump (iteration w) thread
  if i > phases w
    then do
      writePrimArray (state w) thread Done
      _ <- bump (counts w) CountDone
      end <- readPrimArray (sums w) SumEnd
      writePrimArray (sums w) SumEnd (max end at0)
      pick w n k at0
    else do
      now <- readPrimArray (since w) n
      at <- send w n k now at0
      arrived <- ready w thread
      if arrived <= at then begin w n k at else await w n k at

-- ---- the policies ------------------------------------------------------

-- | It begins to wait.
await :: World s -> Int -> Int -> Double -> ST s ()
await w n k at = do
  let thread = n * width w + k
      spinning end = do
        writePrimArray (state w) thread Spinning
        writePrimArray (limit w) thread end
        proceed w n k at
      spinFor time = spinning (at + time)
      toCoop = min coopSpin (costSpin (costs w))
  case schemePolicy (modelScheme (model w)) of
    Spin -> spinning infinity
    Block -> armed w n k at
    Dcs -> armed w n k at
    Gang -> do
      up <- readPrimArray (raised w) thread
      if up > 0 then spinning infinity else armed w n k at
    Coop -> spinFor toCoop
    Adaptive -> do
      time <- adaptiveBudget w thread (1000 * toCoop)
      writePrimArray (budget w) thread time
      if time > 0 then spinFor (time / 1000) else coop w n k at
    _ -> spinFor (costSpin (costs w))

armed :: World s -> Int -> Int -> Double -> ST s ()
armed w n k at = sleep w n (n * width w + k) Armed infinity at >>= pick w n k

spunInVain :: World s -> Int -> Int -> Double -> ST s ()
spunInVain w n k at = do
  let thread = n * width w + k
      on what end = do
        writePrimArray (state w) thread what
        writePrimArray (limit w) thread end
      low what = do
        on what infinity
        lower w n thread at >>= pick w n k
  case schemePolicy (modelScheme (model w)) of
    Yield -> on Yielding infinity >> proceed w n k at
    SpinLower -> low Spinning
    LowerYield -> low Yielding
    SleepPoll -> poll w n k at
    Coop -> coop w n k at
    Adaptive -> adaptiveLearn w thread False >> coop w n k at
    _ -> armed w n k at

-- | Awake, but for nothing.
lookedInVain :: World s -> Int -> Int -> Double -> ST s ()
lookedInVain w n k at = case schemePolicy (modelScheme (model w)) of
  SleepPoll -> poll w n k at
  Coop -> coop w n k at
  Adaptive -> coop w n k at
  Gang -> await w n k at
  _ -> armed w n k at

poll :: World s -> Int -> Int -> Double -> ST s ()
poll w n k at = sleep w n (n * width w + k) Polling (at + pollEvery) at >>= pick w n k

-- | Looks for the others; stays awake if nobody else of this node does.
coop :: World s -> Int -> Int -> Double -> ST s ()
coop w n k at0 = do
  let thread = n * width w + k
  (_, at) <- wakePending w n at0
  held <- readPrimArray (watcher w) n
  if held < 0 || held == k
    then do
      writePrimArray (watcher w) n k
      writePrimArray (state w) thread Yielding
      writePrimArray (limit w) thread (at + watchFor)
      proceed w n k at
    else sleep w n thread Unknown (at + coopSlice) at >>= pick w n k

-- | Between two looks: lets others go first, if any of them has something to do.
giveWay :: World s -> Int -> Int -> Double -> ST s ()
giveWay w n k at0 = do
  let thread = n * width w + k
  held <- readPrimArray (watcher w) n
  (woken, at) <- if held == k then wakePending w n at0 else pure (0, at0)
  when (woken > 0) $ writePrimArray (limit w) thread (at + watchFor)
  end <- readPrimArray (limit w) thread
  worth <- anyUseful w n k at
  if end <= at && held == k
    then writePrimArray (watcher w) n (-1) >> armed w n k at
    else
      if not worth
        then writePrimArray (stolen w) n at
        else do
          after <- spend w n (costYield (costs w)) at
          yield w n thread
          pick w n k after

-- | Behind the others: it forfeits the rest of its request.
yield :: World s -> Int -> Int -> ST s ()
yield w n thread = do
  takeTurn w thread
  common <- average w n
  v <- readPrimArray (virtual w) thread
  end <- readPrimArray (deadline w) thread
  when (v <= common + 1e-6) $ writePrimArray (virtual w) thread (max v end)
  renew w thread

-- | Whether one that may run instead would do more than give way as well.
anyUseful :: World s -> Int -> Int -> Double -> ST s Bool
anyUseful w n k at = do
  mine <- classOf w (n * width w + k)
  let go i
        | i >= width w = pure False
        | i == k = go (i + 1)
        | otherwise = do
          let thread = n * width w + i
          what <- readPrimArray (state w) thread
          level <- classOf w thread
          useful <-
            if not (runs what) || level > mine
              then pure False
              else if what == Yielding then (<= at) <$> ready w thread else pure True
          if useful then pure True else go (i + 1)
  go 0

-- | It gives up its place, also one that the daemon gave it.
lower :: World s -> Int -> Int -> Double -> ST s Double
lower w n thread at = do
  writePrimArray (raised w) thread 0
  writePrimArray (again w) n 1
  reweigh w n thread 1
  spend w n (costPriority (costs w)) at

restore :: World s -> Int -> Int -> Double -> ST s Double
restore w n thread at = do
  low <- readPrimArray (lowered w) thread
  if low == 0 then pure at else reweigh w n thread 0 >> spend w n (costPriority (costs w)) at

-- | Another weight, the same part still to come; no more than the kernel lets anybody keep: two
-- slices or a tick.
reweigh :: World s -> Int -> Int -> Int -> ST s ()
reweigh w n thread low = do
  before <- weightOf w thread
  common <- average w n
  writePrimArray (lowered w) thread low
  after <- weightOf w thread
  v <- readPrimArray (virtual w) thread
  let most = max (2 * sliceOf w) (tickOf w)
      owed = max (negate most) (min most ((common - v) * before))
  when (common < infinity) $ writePrimArray (virtual w) thread (common - owed / after)
  takeTurn w thread
  renew w thread

-- As in native/wait/wait.c.
coopSpin, coopSlice, watchFor, pollEvery :: Double
coopSpin = 2.5
coopSlice = 4000
watchFor = 12000
pollEvery = 50

-- | In nanoseconds, like what is learned: below 512 it counts waits without spinning.
adaptiveBudget :: World s -> Int -> Double -> ST s Double
adaptiveBudget w thread base = do
  known <- readPrimArray (learned w) thread
  if known > 0 && known < leastSpin
    then 0 <$ writePrimArray (learned w) thread (known - 1)
    else do
      let now = if known <= 0 then base else known
      writePrimArray (learned w) thread now
      pure (min now (4 * base))

adaptiveLearn :: World s -> Int -> Bool -> ST s ()
adaptiveLearn w thread paid = do
  spun <- readPrimArray (budget w) thread
  let base = 1000 * min coopSpin (costSpin (costs w))
  writePrimArray (learned w) thread $
    if paid
      then min (2 * spun) (4 * base)
      else if spun / 2 < leastSpin then 64 else spun / 2

leastSpin :: Double
leastSpin = 512

-- ---- the daemon --------------------------------------------------------

longest, shortest :: Double
longest = 5000
shortest = 250

daemonTick :: World s -> Int -> Double -> ST s ()
daemonTick w n now = do
  held <- max now <$> readPrimArray (stolen w) n
  _ <- spend w n (costTick (costs w)) held
  every <- readPrimArray (period w) n
  let jobs = modelJobs (model w)
      onAgain p = writePrimArray (period w) n p >> writePrimArray (daemonAt w) n (now + p)
  unfinished <- countJobs w n (/= Done)
  case schemeDaemon (modelScheme (model w)) of
    _ | unfinished == 0 -> writePrimArray (daemonAt w) n infinity
    NoDaemon -> writePrimArray (daemonAt w) n infinity
    Slots slot -> giveSlot w n now slot unfinished
    Pb p -> observe w n now >> raiseOne w n now p 0 >> onAgain p
    PbLower p -> observe w n now >> each jobs (help w n now) >> raiseOne w n now p 0 >> onAgain p
    Auto -> do
      observe w n now
      each jobs (help w n now)
      raiseOne w n now every every
      stuck <- countPending w n (now - every)
      lying <- countPending w n infinity
      onAgain (max shortest (min longest (if stuck > 0 then every / 2 else if lying == 0 then every * 1.125 else every)))

countJobs :: World s -> Int -> (Int -> Bool) -> ST s Int
countJobs w n holds = go 0 0
  where
    go k found
      | k >= modelJobs (model w) = pure (found :: Int)
      | otherwise = do
        what <- readPrimArray (state w) (n * width w + k)
        go (k + 1) (if holds what then found + 1 else found)

countPending :: World s -> Int -> Double -> ST s Int
countPending w n before = go 0 0
  where
    go k found
      | k >= modelJobs (model w) = pure (found :: Int)
      | otherwise = do
        begun <- readPrimArray (pending w) (n * width w + k)
        go (k + 1) (if begun <= before && begun < infinity then found + 1 else found)

-- | Who waits for what is there, and whose raise is over.
observe :: World s -> Int -> Double -> ST s ()
observe w n now = each (modelJobs (model w)) $ \k -> do
  let thread = n * width w + k
  what <- readPrimArray (state w) thread
  arrived <- if waits what then ready w thread else pure infinity
  begun <- readPrimArray (pending w) thread
  let lies = arrived <= now
  writePrimArray (pending w) thread (if lies then min begun now else infinity)
  up <- readPrimArray (raised w) thread
  every <- readPrimArray (period w) n
  when (up > 0 && (not lies || now >= up)) $ do
    writePrimArray (raised w) thread 0
    writePrimArray (again w) n 1
    when lies $ writePrimArray (rests w) thread (now + 2 * every)

-- | Wakes a sleeper that has a message, restores one that is lowered.
help :: World s -> Int -> Double -> Int -> ST s ()
help w n now k = do
  let thread = n * width w + k
  begun <- readPrimArray (pending w) thread
  when (begun < infinity) $ do
    what <- readPrimArray (state w) thread
    low <- readPrimArray (lowered w) thread
    held <- max now <$> readPrimArray (stolen w) n
    when (what == Unknown) $ spend w n (costWake (costs w)) held >> wake w n thread Looking
    when (low == 1) $ do
      _ <- restore w n thread held
      c <- readPrimArray (current w) n
      when (c >= 0 && runs what) $ do
        takes <- preempts w n (n * width w + c) thread
        when takes $ writePrimArray (again w) n 1

-- | One a CPU, the one whose turn is first; only what has been pending for so long.
raiseOne :: World s -> Int -> Double -> Double -> Double -> ST s ()
raiseOne w n now every patience = go 0 (-1) infinity
  where
    go k best key
      | k >= modelJobs (model w) = when (best >= 0) $ do
        writePrimArray (raised w) (n * width w + best) (now + 2 * every)
        writePrimArray (again w) n 1
      | otherwise = do
        let thread = n * width w + k
        up <- readPrimArray (raised w) thread
        begun <- readPrimArray (pending w) thread
        rest <- readPrimArray (rests w) thread
        mine <- readPrimArray (turn w) thread
        if up > 0
          then pure ()
          else
            if begun < infinity && now - begun >= patience && now >= rest && mine < key
              then go (k + 1) k mine
              else go (k + 1) best key

-- | By the node's own clock, one unfinished job after the other.
giveSlot :: World s -> Int -> Double -> Double -> Int -> ST s ()
giveSlot w n now slot unfinished = do
  offset <- readPrimArray (skew w) n
  let number = floor ((now + offset) / slot + 1e-9) :: Int
      chosen = number `mod` unfinished
      go k seen
        | k >= modelJobs (model w) = pure ()
        | otherwise = do
          let thread = n * width w + k
          what <- readPrimArray (state w) thread
          up <- readPrimArray (raised w) thread
          if what == Done
            then writePrimArray (raised w) thread 0 >> go (k + 1) seen
            else do
              let on = seen == chosen
              writePrimArray (raised w) thread (if on then infinity else 0)
              when (on && what == Armed) $ wake w n thread Looking
              when (up > 0 && not on && what == Spinning) $ writePrimArray (limit w) thread now
              go (k + 1) (seen + 1)
  go 0 (0 :: Int)
  writePrimArray (again w) n 1
  writePrimArray (daemonAt w) n (max (now + 1e-3) (fromIntegral (number + 1) * slot - offset))

-- ---- what is next ------------------------------------------------------

-- | The node is visited again when something there can change.
plan :: World s -> Int -> Double -> ST s ()
plan w n now = do
  time <- nextOf w n
  due (agenda w) n (max time (now + 1e-3))

nextOf :: World s -> Int -> ST s Double
nextOf w n = do
  c <- readPrimArray (current w) n
  daemon <- min <$> readPrimArray (daemonAt w) n <*> readPrimArray (othersAt w) n
  heartbeat <- readPrimArray (tick w) n
  held <- readPrimArray (stolen w) n
  watches <- readPrimArray (watcher w) n
  running <- if c < 0 then pure Done else readPrimArray (state w) (n * width w + c)
  own <- if c < 0 then pure infinity else ownNext (n * width w + c) running held
  let go k least others
        | k >= width w = pure (if others && c >= 0 && running /= Yielding then min least heartbeat else least)
        | otherwise = do
          let thread = n * width w + k
          what <- readPrimArray (state w) thread
          time <- case what of
            Unborn -> readPrimArray (limit w) thread
            Armed -> ready w thread
            Polling -> readPrimArray (limit w) thread
            Unknown
              | watches == c && running == Yielding -> min <$> readPrimArray (limit w) thread <*> (max held <$> ready w thread)
              | otherwise -> readPrimArray (limit w) thread
            Yielding | running == Yielding -> max held <$> ready w thread
            _ -> pure infinity
          go (k + 1) (min least time) (others || (k /= c && runs what))
  go 0 (min daemon own) False
  where
    ownNext thread running held = case running of
      Computing -> (held +) <$> readPrimArray (left w) thread
      Hog -> pure infinity
      _ -> do
        end <- readPrimArray (limit w) thread
        arrived <- ready w thread
        pure (min end (max held arrived))
