{-# LANGUAGE BangPatterns #-}

-- | A queue lock on one socket, by how its waiters wait: what sleeping does to a queue.
--
-- = The model
--
-- Each thread thinks, queues, holds the lock, hands it to the first of the queue. To a waiter that
-- is awake a hand-over takes 'sceneHandOver'. To one that sleeps it takes 'sceneWakeCall' and
-- 'sceneWakeUp'. A thread that wakes another pays the call out of its own time. More awake threads
-- than cores: the next one is off its core with the chance that follows, for 'sceneOffCore' on
-- average.
--
-- The holder is interrupted once, for 'sceneStall', before the time that counts. So a lock that
-- works well until it is disturbed, and badly ever after, shows both.
--
-- Not in the model: sockets, barging, what a spinning waiter takes from the core beside it.
--
-- Times are in nanoseconds. The same seed gives the same result. O(log threads) an operation.
module Maru.Control.Sim.Lock.Waiting
  ( Scene (..),
    Waiting (..),
    allWaitings,
    waitingName,
    scene,
    perSecond,
    waitingChecks,
  )
where

import Data.Sequence (Seq, ViewL (..))
import qualified Data.Sequence as Seq
import qualified Data.Set as Set
import Maru.Control.Sim.Check
import System.Random.SplitMix (SMGen, mkSMGen, nextDouble)

data Waiting
  = -- | On the core, for ever.
    Spinning
  | -- | One budget for all waiters of the lock: longer while spinning pays, shorter while it does
    -- not; then asleep. What maru did until 2026-11-23.
    Learning
  | -- | Awake while the turn is near, asleep while it is far, woken when it comes near. What
    -- native/wait/turns.c does.
    Turns
  deriving (Eq, Show, Enum, Bounded)

allWaitings :: [Waiting]
allWaitings = [minBound ..]

waitingName :: Waiting -> String
waitingName waiting = case waiting of
  Spinning -> "spinning"
  Learning -> "one learned budget"
  Turns -> "by turns"

data Scene = Scene
  { sceneWaiting :: !Waiting,
    sceneCores :: !Int,
    sceneThreads :: !Int,
    sceneHold :: !Double,
    sceneThink :: !Double,
    sceneHandOver :: !Double,
    sceneWakeUp :: !Double,
    sceneWakeCall :: !Double,
    sceneOffCore :: !Double,
    -- | The policy's spin_ns.
    sceneSpin :: !Double,
    sceneStall :: !Double,
    sceneDuration :: !Double,
    sceneSeed :: !Int
  }
  deriving (Eq, Show)

-- | The costs of a machine of 16 cores. Measured: a wake-up of 6.5 µs, of which the call takes 1.4.
-- Fitted: the hand-over to 2000 thousand operations a second (16 threads, spinning) and the time
-- off the core to 13 (24 threads, spinning).
scene :: Waiting -> Int -> Int -> Scene
scene waiting cores threads =
  Scene
    { sceneWaiting = waiting,
      sceneCores = cores,
      sceneThreads = threads,
      sceneHold = 150,
      sceneThink = 1100,
      sceneHandOver = 340,
      sceneWakeUp = 5100,
      sceneWakeCall = 1400,
      sceneOffCore = 230000,
      sceneSpin = 20000,
      sceneStall = 1e6,
      sceneDuration = 1e7,
      sceneSeed = 1
    }

-- ---- the state ---------------------------------------------------------

data Waiter = Waiter
  { waiterThread :: !Int,
    waiterArrived :: !Double,
    -- | Waiters before it, at its arrival.
    waiterBefore :: !Int,
    waiterBudget :: !Double,
    -- | It is awake from then on; later than now: somebody has woken it.
    waiterFrom :: !Double,
    -- | And until then.
    waiterUntil :: !Double
  }

-- | How long the next waiter spins, or how many are to sleep before one tries again.
data Learned = Budget !Double | Sleeps !Int

data State = State
  { stateRandom :: !SMGen,
    stateThinking :: !(Set.Set (Double, Int)),
    stateQueue :: !(Seq Waiter),
    stateLearned :: !Learned,
    -- | What a turn takes; 0: not known.
    stateTurn :: !Double,
    -- | The longest queue.
    stateCrowd :: !Int,
    stateStalled :: !Bool,
    stateCounted :: !Int
  }

isAwake :: Double -> Waiter -> Bool
isAwake now waiter = now < waiterUntil waiter

-- | Of that mean.
draw :: Double -> State -> (Double, State)
draw mean s = (negate mean * log (1 - u), s {stateRandom = next})
  where
    (u, next) = nextDouble (stateRandom s)

-- ---- waiting -----------------------------------------------------------

-- | native/wait/turns.c: how many turns may be before one that is near.
reach :: Scene -> State -> Int
reach c s = min near (if crowded then max 1 (sceneCores c `div` crowdShare) else maxBound)
  where
    crowded = stateCrowd s > sceneCores c
    near = if stateTurn s <= 0 then maxBound else floor (budgets * sceneSpin c / stateTurn s)

-- | In a crowd, which is a queue that has been longer than there are cores, one waiter for so many
-- cores is awake.
crowdShare :: Int
crowdShare = 4

budgets :: Double
budgets = 4

-- | Native/wait/wait.c: below this a budget is not worth a look at the clock.
least :: Double
least = 512

-- | Those who have done thinking by now queue up.
admit :: Scene -> Double -> State -> State
admit c now s = case Set.minView (stateThinking s) of
  Just ((time, thread), others) | time <= now -> admit c now (arrive c time thread s {stateThinking = others})
  _ -> s

arrive :: Scene -> Double -> Int -> State -> State
arrive c time thread s = learnt {stateQueue = stateQueue s Seq.|> waiter}
  where
    before = Seq.length (stateQueue s)
    waiter = Waiter thread time before budget time (time + budget)
    (budget, learnt) = case sceneWaiting c of
      Spinning -> (1 / 0, s)
      Turns -> (if max 1 before <= reach c s then budgets * sceneSpin c else 0, s)
      Learning -> case stateLearned s of
        Budget b -> (min b (budgets * sceneSpin c), s)
        Sleeps 0 -> (sceneSpin c, s {stateLearned = Budget (sceneSpin c)})
        Sleeps n -> (0, s {stateLearned = Sleeps (n - 1)})

-- | What the first of the queue has learnt by the time that its turn comes.
learn :: Scene -> Double -> Waiter -> State -> State
learn c now waiter s
  | sceneWaiting c /= Learning || b <= 0 = s
  | isAwake now waiter = s {stateLearned = Budget (min (budgets * sceneSpin c) (2 * b))}
  | otherwise = s {stateLearned = if b / 2 < least then Sleeps 64 else Budget (b / 2)}
  where
    b = waiterBudget waiter

-- | Wakes those whose turns have come near, two at most; how many.
wakeNear :: Scene -> Double -> State -> (Int, State)
wakeNear c now s
  | sceneWaiting c /= Turns = (0, s)
  | otherwise = (length woken, s {stateQueue = foldr wake (stateQueue s) (zip [1 ..] woken)})
  where
    near = Seq.take (reach c s) (stateQueue s)
    woken = take 2 [i | (i, w) <- zip [0 ..] (foldr (:) [] near), not (isAwake now w)]
    wake (k, i) = Seq.adjust' (\w -> let from = now + k * sceneWakeCall c + sceneWakeUp c in w {waiterFrom = from, waiterUntil = from + budgets * sceneSpin c}) i

-- ---- the lock ----------------------------------------------------------

-- | When the first of the queue begins to hold what is released now, and whether it had to be woken.
begins :: Scene -> Double -> Waiter -> State -> (Double, Bool, State)
begins c now waiter s
  | not (isAwake now waiter) = (now + sceneWakeCall c + sceneWakeUp c, True, s)
  | otherwise = (max (now + sceneHandOver c) (waiterFrom waiter) + off, False, drawn)
  where
    awake = sceneThreads c - length (filter (not . isAwake now) (foldr (:) [] (stateQueue s)))
    share = fromIntegral (awake - sceneCores c) / fromIntegral awake :: Double
    (u, next) = nextDouble (stateRandom s)
    (off, drawn)
      | awake > sceneCores c && u < share = draw (sceneOffCore c) s {stateRandom = next}
      | otherwise = (0, s {stateRandom = next})

-- | The holder, if it waited, releases now and goes on thinking after so many calls that wake.
leave :: Scene -> Double -> Maybe Waiter -> Int -> Int -> State -> State
leave c now waited thread calls s = think {stateThinking = Set.insert (now + fromIntegral (calls + more) * sceneWakeCall c + thought, thread) (stateThinking think)}
  where
    (more, woken) = maybe (0, s) (\w -> wakeNear c now s {stateTurn = turnAfter w, stateCrowd = max (stateCrowd s) (Seq.length (stateQueue s) + 2)}) waited
    (thought, think) = draw (sceneThink c) woken
    turnAfter w
      | stateTurn s <= 0 = took
      | otherwise = stateTurn s + (took - stateTurn s) / 4
      where
        took = (now - waiterArrived w) / fromIntegral (waiterBefore w + 1)

-- | From the time that a thread begins to hold.
operate :: Scene -> Double -> Int -> Maybe Waiter -> State -> State
operate c !begun thread waited s
  | begun > warmUp + sceneDuration c = s
  | otherwise = case Seq.viewl (stateQueue arrivedBy) of
    first :< others ->
      let (next, asleep, granted) = begins c end first (learn c end first arrivedBy) {stateQueue = others}
       in operate c next (waiterThread first) (Just first) (leave c end waited thread (if asleep then 1 else 0) granted)
    EmptyL ->
      let left = leave c end waited thread 0 arrivedBy
       in case Set.minView (stateThinking left) of
            Just ((time, next), others) -> operate c (max end time) next Nothing left {stateThinking = others}
            Nothing -> left
  where
    stalls = not (stateStalled s) && begun > warmUp / 2
    end = begun + sceneHold c + (if stalls then sceneStall c else 0)
    counted = s {stateStalled = stateStalled s || stalls, stateCounted = stateCounted s + (if begun > warmUp then 1 else 0)}
    arrivedBy = admit c end counted

warmUp :: Double
warmUp = 4e6

-- | Operations a second, after the holder's stall.
perSecond :: Scene -> Double
perSecond c = fromIntegral (stateCounted (operate c 0 0 Nothing start)) / sceneDuration c * 1e9
  where
    start = State (mkSMGen (fromIntegral (sceneSeed c))) thinking Seq.empty (Budget (sceneSpin c)) 0 0 False 0
    thinking = Set.fromList [(sceneThink c * fromIntegral i / fromIntegral (sceneThreads c), i) | i <- [1 .. sceneThreads c - 1]]

-- ---- what it is held to ------------------------------------------------

-- | Two states of one lock before it shows the cure, in thousands a second.
waitingChecks :: [Check]
waitingChecks =
  [ Check "spinning, 16 threads on 16 cores" Calibrated (Between 1700 2300) (kops Spinning 16 1e6) "1875",
    Check "spinning, 24 threads on 16 cores" Calibrated (Between 5 30) (kops Spinning 24 1e6) "13",
    Check "one learned budget, 16 threads, undisturbed" Predicted (AtLeast 1700) (kops Learning 16 0) "",
    Check "one learned budget, 16 threads, after a stall of 1 ms" Predicted (Between 100 200) (kops Learning 16 1e6) "140",
    Check "one learned budget, 24 threads" Predicted (Between 100 200) (kops Learning 24 1e6) "140",
    Check "a longer one (200 us), 16 threads, after a stall" Predicted (AtLeast 1700) (perSecond (scene Learning 16 16) {sceneSpin = 2e5} / 1000) "2260",
    Check "by turns, 8 threads, after a stall" Predicted (AtLeast 1700) (kops Turns 8 1e6) "",
    Check "by turns, 16 threads, after a stall" Predicted (AtLeast 1700) (kops Turns 16 1e6) "",
    Check "by turns, 24 threads" Predicted (AtLeast 350) (kops Turns 24 1e6) "",
    Check "by turns, 64 threads" Predicted (AtLeast 350) (kops Turns 64 1e6) ""
  ]
  where
    kops waiting threads stall = perSecond (scene waiting 16 threads) {sceneStall = stall} / 1000
