-- | The steering controller: which cores serve input and output, as a function
-- from samples to actions.
--
-- = What it decides
--
-- Four items, system calls and interrupts of files and of the network, may each
-- have a set of cores. A period's sample says how much of each item's work was done for threads of
-- each node. It also says how busy each core was and how fast the program went. An item that has
-- had enough work for 'configGrowAfter' periods is worth a trial.
--
-- = What it promises
--
-- * The sets are disjoint, inside the CPUs allowed in this period and the nodes
--   of the policy, never more than 'budget' cores in all nor more than half of
--   any node. With fewer than four CPUs they are empty.
-- * A verdict is a sequential test over alternating slices, vetoed by any drop of the program's own
--   rate ("Maru.Control.Steer.Trial"). What is not proven to be faster is undone.
-- * What has no effect is ever kept with a probability of at most 'configError', in all trials
--   together, however many there are.
-- * What is kept is watched: once the rate falls it is let go at once, and is put on again only if the
--   rate does not come back without it. From time to time it is tried again, against nothing.
-- * After a trial 'configRest' times its length passes before the next, so that at most
--   a tenth of the time is spent on trials, and that of one; the pause doubles with each in vain.
--   A program that makes no progress is not tried on.
--
-- Pure. O((cores + nodes) · cores) a step, O(1) within a trial's slice.
module Maru.Control.Steer
  ( -- * The machine and what is steered
    module Maru.Control.Steer.Types,
    budget,
    policyNodes,

    -- * The controller
    State,
    start,
    startWith,
    step,
    stateSets,
    statePolicy,
    stateTrying,
    stateTally,
    Tally (..),
    Verdict (..),
  )
where

import Data.Bifunctor (first)
import qualified Data.IntSet as IntSet
import Data.List (tails)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, isNothing)
import Data.Word (Word64)
import Maru.Control.Steer.Evidence (allowance, pairs, ratio)
import Maru.Control.Steer.Level
import Maru.Control.Steer.Sets
import Maru.Control.Steer.Trial
import Maru.Control.Steer.Types

data State = State
  { stateSets_ :: !Sets,
    -- | Under which policy these sets were made; 'Nothing': there are none.
    statePolicy_ :: !(Maybe Policy),
    stateNow :: !Int,
    stateChanged :: !Int,
    -- | Periods for which an item has wanted to grow (positive) or shrink (negative).
    stateWishes :: !(Map Item Int),
    stateCourse :: !(Maybe Course),
    -- | Outside of trials: the usual rate with what is in force, how far it has fallen, and the
    -- last few rates.
    stateLevel :: !Level,
    stateDrop :: !Drop,
    stateLast :: ![Double],
    -- | What was let go since the rate had fallen to that, and is yet to be judged.
    stateFallen :: !(Maybe (Level, Maybe Policy, Sets)),
    -- | No trial before the first, one of what is kept at the second; and the last pause.
    stateTryFrom :: !Int,
    stateCheckAt :: !Int,
    statePause :: !Int,
    -- | Periods spent on trials; and the rate of what is kept fell, of itself as it seemed.
    stateSpent :: !Int,
    stateDoubted :: !Bool,
    stateTally :: !Tally,
    stateCoin :: !Word64
  }
  deriving (Eq, Show)

-- | Trials in a row, of which each meets what the one before has left in force.
data Course = Course
  { courseTrial :: !Trial,
    courseWithout :: !(Maybe Policy, Sets),
    courseWith :: !(Policy, Sets),
    -- | Policies yet to be tried, and what was tried.
    courseNext :: ![Policy],
    courseTried :: ![(Policy, Sets)],
    -- | What was seen before it, and the sets that were in force then: all policies are sized by
    -- the same.
    courseSample :: !Sample,
    courseBase :: !Sets,
    courseBegan :: !Int,
    -- | It tries what is kept; it has kept something that was not.
    courseRepeats :: !Bool,
    courseWon :: !Bool
  }
  deriving (Eq, Show)

-- | What has been tried so far.
data Tally = Tally
  { tallyTrials :: !Int,
    -- | Trials that ended 'Faster', and how often something was undone.
    tallyKept :: !Int,
    tallyUndone :: !Int,
    -- | The last verdict, its pairs, and the rate with over that without.
    tallyLast :: !(Maybe (Verdict, Int, Double))
  }
  deriving (Eq, Show)

-- | No sets; the same coins each time.
start :: State
start = startWith 1

-- | With coins of its own: two controllers on one machine must not turn in step.
startWith :: Word64 -> State
startWith = State Map.empty Nothing 0 0 Map.empty Nothing noLevel noDrop [] Nothing 0 0 0 0 False (Tally 0 0 0 Nothing)

stateSets :: State -> Sets
stateSets = stateSets_

-- | The policy in force; 'Nothing' when it is off.
statePolicy :: State -> Maybe Policy
statePolicy = statePolicy_

-- | A trial is running.
stateTrying :: State -> Bool
stateTrying = isJust . stateCourse

-- ---- one period --------------------------------------------------------

-- | The controller. Call it once a period.
step :: Config -> Topology -> State -> Sample -> (State, [Action])
step config topology before sample
  | not (all fits inUse) =
    -- What was found out held for another machine; what may still be wrong did not.
    change later {stateCourse = Nothing, stateFallen = Nothing, stateDoubted = False, stateTryFrom = 0, statePause = 0} Map.empty Nothing Lost
  | otherwise = case stateCourse later of
    Just course -> onTrial config topology sample later course
    Nothing -> consider config topology sample (wish config topology sample (usual sample later))
  where
    later = before {stateNow = stateNow before + 1}
    -- Of a trial both sides, and what may be put on again.
    inUse = maybe [stateSets_ before] (\course -> [snd (courseWith course), snd (courseWithout course)]) (stateCourse before) ++ [sets | Just (_, _, sets) <- [stateFallen before]]
    fits sets = fitting config topology (sampleAllowed sample) sets == sets

-- | Learns the rate of what is in force, once it has settled.
usual :: Sample -> State -> State
usual sample state
  | stateNow state <= stateChanged state + 1 = state
  | otherwise =
    state
      { stateLevel = learn long rate (stateLevel state),
        stateDrop = watch 0 (stateLevel state) rate (stateDrop state),
        stateLast = take 2 (rate : stateLast state)
      }
  where
    rate = sampleRate sample

-- | Which items want to grow or shrink, and for how long they have. Where nothing gets done there
-- is nothing to be gained.
wish :: Config -> Topology -> Sample -> State -> State
wish config topology sample state
  -- A load that begins has a level of its own.
  | Map.null (stateSets_ state) && isNothing (stateFallen state) && maximum (0 : Map.elems wishes) == 1 = wishing {stateLevel = learn long (sampleRate sample) noLevel, stateDrop = noDrop}
  | otherwise = wishing
  where
    wishing = state {stateWishes = wishes}
    wishes = Map.fromList [(item, counted item) | item <- allItems]
    counted item = case compare (wanted config topology sample (stateSets_ state) item) (sizeOf (stateSets_ state) item) of
      GT | sampleRate sample > 0 -> max 0 already + 1
      LT -> min 0 already - 1
      _ -> 0
      where
        already = Map.findWithDefault 0 item (stateWishes state)

-- | Outside of trials.
consider :: Config -> Topology -> Sample -> State -> (State, [Action])
consider config topology sample state
  | Map.null (stateSets_ state) = case stateFallen state of
    Just (fallen, policy', sets)
      | known (stateLevel state) < 6 -> (state, [])
      -- The rate has come back: it was the placement.
      | clearlyAbove (stateLevel state) fallen -> (pausing config 0 (undid state) {stateFallen = Nothing, statePause = 0}, [])
      | not (any (> 0) wishes) -> (state {stateFallen = Nothing}, [])
      -- It was the load, as far as can be seen so soon: a trial says, when one may be.
      | otherwise -> change state {stateFallen = Nothing, stateDoubted = True} sets policy' Restored
    Nothing | grows && rested -> try (course arms)
    _ -> (state, [])
  | alarmed (stateDrop state) = change state {stateFallen = Just (foldr (learn long) noLevel (stateLast state), statePolicy_ state, stateSets_ state)} Map.empty Nothing Fallen
  | (shrinks || due) && Map.null refitted = change state {stateDoubted = False} Map.empty Nothing Shrunk
  | due = again state (repeating refitted)
  | grows && rested = try (course [policy])
  | otherwise = (state, [])
  where
    wishes = Map.elems (stateWishes state)
    grows = any (>= configGrowAfter config) wishes
    shrinks = any (<= negate (configShrinkAfter config)) wishes
    rested = stateNow state >= stateTryFrom state && stateNow state >= stateChanged state + configDwell config
    due = rested && (shrinks || stateNow state >= stateCheckAt state) || stateDoubted state && affordable config state
    policy = fromMaybe (configPolicy config) (statePolicy_ state)
    arms = if configPolicy config == Auto then [SingleSocket, PerSocket, CrossSocket] else [configPolicy config]
    refitted = arranged config topology sample (stateSets_ state) policy
    try plan = fromMaybe (state, []) (attempt config topology sample state plan)
    trial = begin (stateLevel state) (stateCoin state)
    course policies = Course trial (statePolicy_ state, stateSets_ state) (policy, stateSets_ state) policies [] sample (stateSets_ state) (stateNow state) False False
    repeating sets = (course []) {courseTrial = repeated (stateCoin state), courseWithout = (Nothing, Map.empty), courseWith = (policy, sets), courseRepeats = True}

-- ---- trials ------------------------------------------------------------

-- | Tries the next policy of a course that asks for anything new, if one does.
attempt :: Config -> Topology -> Sample -> State -> Course -> Maybe (State, [Action])
attempt config topology sample state course = case candidates of
  [] -> Nothing
  (policy, sets, next) : _ ->
    Just (change (counting state) {stateCourse = Just course {courseWith = (policy, sets), courseNext = next, courseTried = (policy, sets) : courseTried course}} sets (Just policy) (if Map.null (courseBase course) then Probed policy else Grown))
  where
    candidates =
      [ (policy, sets, next)
        | policy : next <- tails (courseNext course),
          let sets = arranged config topology (courseSample course) {sampleAllowed = sampleAllowed sample} (courseBase course) policy,
          not (Map.null sets),
          not (any (alike topology (policy, sets)) (inForce ++ courseTried course))
      ]
    inForce = [(policy, sets) | (Just policy, sets) <- [courseWithout course]]

-- | The same cores, used in the same way: 'PerSocket' keeps threads to cores of their own node.
alike :: Topology -> (Policy, Sets) -> (Policy, Sets) -> Bool
alike topology (p, a) (q, b) = a == b && ((p == PerSocket) == (q == PerSocket) || length (nodes topology) < 2)

-- | Tries what is kept.
again :: State -> Course -> (State, [Action])
again state course = turned (counting state) {stateCourse = Just course, stateDoubted = False} course Repeated

-- | Trials have not taken more than their share of the time, and that of one more.
affordable :: Config -> State -> Bool
affordable config state = stateSpent state <= configTrial config + stateNow state `div` (configRest config + 1)

counting :: State -> State
counting state = state {stateTally = (stateTally state) {tallyTrials = tallyTrials (stateTally state) + 1}}

undid :: State -> State
undid state = state {stateTally = (stateTally state) {tallyUndone = tallyUndone (stateTally state) + 1}}

-- | What the trial's side asks for.
turned :: State -> Course -> Reason -> (State, [Action])
turned state course = case trialSide (courseTrial course) of
  With -> change state (snd (courseWith course)) (Just (fst (courseWith course)))
  Without -> change state (snd (courseWithout course)) (fst (courseWithout course))

-- | One period of a trial.
onTrial :: Config -> Topology -> Sample -> State -> Course -> (State, [Action])
onTrial config topology sample state course = case turn of
  Goes -> going course {courseTrial = trial} Turned
  Fitted
    | Map.null fitted -> concluded Idle
    | any (alike topology (policy, fitted)) [(p, sets) | (Just p, sets) <- [courseWithout course]] -> concluded Undecided
    | otherwise -> going course {courseTrial = trial, courseWith = (policy, fitted)} Corrected
  Ends verdict -> concluded verdict
  where
    (trial, turn) = period config (allowance (configError config) (tallyTrials (stateTally state))) (sampleRate sample) (courseTrial course)
    (policy, _) = courseWith course
    fitted = arranged config topology sample (stateSets_ state) policy
    going c = turned state {stateCourse = Just c} c
    concluded = conclude config topology sample state course {courseTrial = trial}

-- | What is faster takes the place of what it was held against; then the next policy.
conclude :: Config -> Topology -> Sample -> State -> Course -> Verdict -> (State, [Action])
conclude config topology sample state course verdict =
  fromMaybe ended (if verdict == Idle then Nothing else attempt config topology sample told after {courseTrial = begin level (stateCoin told)})
  where
    trial = courseTrial course
    won = verdict == Faster
    after
      | won = course {courseWithout = first Just (courseWith course), courseWon = courseWon course || not (courseRepeats course)}
      | otherwise = course
    level = trialLevel (if won then With else Without) trial
    evidence = trialEvidence trial
    tally = stateTally state
    told =
      state
        { stateCoin = trialCoin trial,
          stateSpent = stateSpent state + trialAge trial,
          stateTally =
            tally
              { tallyKept = tallyKept tally + fromEnum won,
                tallyUndone = tallyUndone tally + fromEnum (not won),
                tallyLast = Just (verdict, pairs evidence, ratio evidence)
              }
        }
    (policy, sets) = courseWithout after
    ended = (settled {stateLevel = level, stateWishes = Map.empty}, actions)
    (settled, actions) = change (resting config verdict after told {stateCourse = Nothing}) sets policy (if won then Kept else Undone)

-- | After the last trial of a course.
resting :: Config -> Verdict -> Course -> State -> State
resting config verdict course state
  | Map.null (snd (courseWithout course)) =
    if verdict == Idle
      then state {stateTryFrom = now + rest}
      else pausing config rest state {statePause = if courseRepeats course then 0 else statePause state}
  | courseRepeats course = checked (min (configBackoffMost config) (max rest (2 * statePause state)))
  | courseWon course = checked (max (configBackoff config) rest)
  | otherwise = state {stateTryFrom = now + rest, stateCheckAt = max (now + rest) (stateCheckAt state)}
  where
    now = stateNow state
    rest = configRest config * (now - courseBegan course)
    checked pause = state {stateTryFrom = now + rest, stateCheckAt = now + pause, statePause = pause}

-- | No trial for twice as long as the last time, and for so long at least.
pausing :: Config -> Int -> State -> State
pausing config rest state = state {stateTryFrom = stateNow state + pause, statePause = pause}
  where
    pause = min (configBackoffMost config) (maximum [configBackoff config, rest, 2 * statePause state])

-- | New sets, and an action for each item whose set differs.
change :: State -> Sets -> Maybe Policy -> Reason -> (State, [Action])
change state sets policy reason = (if null actions then state {statePolicy_ = known'} else changed, actions)
  where
    known' = if Map.null sets then Nothing else policy
    changed =
      state
        { stateSets_ = sets,
          statePolicy_ = known',
          stateChanged = stateNow state,
          stateWishes = Map.empty,
          stateLevel = noLevel,
          stateDrop = noDrop,
          stateLast = []
        }
    actions =
      [ Action item new reason
        | item <- allItems,
          let new = Map.findWithDefault IntSet.empty item sets,
          new /= Map.findWithDefault IntSet.empty item (stateSets_ state)
      ]
