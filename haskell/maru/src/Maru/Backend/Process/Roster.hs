-- | Forked workers in the coordinator's state: when one is wanted, how far it has
-- got, and what its death means. Pure; see "Maru.Backend.Process.State".
-- /Internal/.
module Maru.Backend.Process.Roster
  ( -- * Starting
    wanting,
    hiring,
    lone,
    hired,
    refused,

    -- * At work
    reached,
    leaves,
    sealed,
    unstarted,
    late,

    -- * Without workers
    standIn,

    -- * Deaths
    Exit (..),
    died,
  )
where

import Control.Applicative ((<|>))
import Control.Exception (toException)
import Data.Int (Int64)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Data.List (foldl', partition)
import Data.Maybe (isJust, isNothing)
import Maru.Backend.Process.Pieces
import Maru.Backend.Process.State
import Maru.Failure
import Maru.Internal.Engine
import Maru.Internal.Normal (normalised)
import Maru.Options (Backend (..), Options (..), Policy (..))

-- | @wanting job spared waiting now@: how many workers to fork: as many as there is work for that
-- nobody has or is about to take; so many fewer than the job may have are spared.
wanting :: Job a b -> Int -> Int -> Int64 -> State a b -> Int
wanting job spared waiting now s
  | stDormant s || isJust (stAlone s) || now < stHireFrom s || isJust (stFatal s) = 0
  | isJust (lone job now s) = 0
  | brief job s && countStarted (stCounts s) == 0 = min 1 free
  | otherwise = free
  where
    free = max 0 (min (jobWorkers job - spared - IntMap.size (stDuties s)) work)
    work = max 0 (length (orphans (stPieces s)) + waiting - coming)
    -- Each takes what waits once it has started. One that is slow to start may never.
    coming = length [() | d <- IntMap.elems (stDuties s), dutyStage d /= Working, null (dutyGiven d), not (dutyLeaving d), now - dutySince d < 100000000]

-- | @hiring job n@: so many, at least 1 where any are wanted: which, and the orphans that
-- each is given at birth. To be answered by 'hired' or 'refused' for each.
hiring :: Job a b -> Int -> State a b -> ([(Int, [Int])], State a b)
hiring job wanted s
  | wanted <= 0 = ([], s)
  | otherwise = (zip free (shares wanted stuck others), s {stPieces = adopted (stPieces s)})
  where
    free = [slot | slot <- [0 .. jobWorkers job - 1], IntMap.notMember slot (stDuties s)]
    left = orphans (stPieces s)
    (stuck, others) = partition (`IntSet.member` stSealed s) left

-- | Until when the run's first worker is left alone, if it is: what there is in all are a
-- few items. If they are trivial it does them faster than a second one is born. So half a
-- millisecond once it is at work, about what a birth takes; until then 10 ms.
lone :: Job a b -> Int64 -> State a b -> Maybe Int64
lone job now s = case IntMap.elems (stDuties s) of
  [first] | brief job s && countStarted (stCounts s) == 1 && now < until' first -> Just (until' first)
  _ -> Nothing
  where
    until' d = dutyStageSince d + (if dutyStage d == Working then 500000 else 10000000)

-- | All of the input is handed out, and it was little.
brief :: Job a b -> State a b -> Bool
brief job s = stClosed s && nextIndex (stPieces s) <= 2 * jobWorkers job

-- | @shares n sealed others@: what each of @n@ workers is given. An item that was
-- sealed may hold up what comes behind it: it gets a worker alone, or, where there
-- are too few, comes last.
shares :: Int -> [Int] -> [Int] -> [[Int]]
shares n stuck others = zipWith (<>) (deal open others <> map pure (take alone stuck)) (deal n (drop alone stuck))
  where
    open = max (min 1 (length others)) (n - length stuck)
    alone = n - open

-- | Deals a list round robin to so many hands.
deal :: Int -> [x] -> [[x]]
deal n xs = [every (drop k xs) | k <- [0 .. n - 1]]
  where
    every [] = []
    every (y : ys) = y : every (drop (n - 1) ys)

-- | That worker was forked, with these pieces, now: so workers can be had.
hired :: Int -> [(Int, Int)] -> Int64 -> State a b -> State a b
hired slot given now s =
  counted
    (\c -> c {countStarted = countStarted c + 1})
    s {stDuties = IntMap.insert slot (Duty given now Starting now False Nothing) (stDuties s), stAlone = Nothing}

-- | It could not be: its share is dealt again, in a second. With some workers alive
-- the run goes on, slower; with none it cannot. Those alive leave where nothing is theirs: they may
-- hold the place that is lacking, and would wait for ever.
refused :: Job a b -> [Int] -> Int64 -> Unavailable -> State a b -> State a b
refused job share now why s
  | IntMap.null (stDuties s) = without job now why later
  | otherwise = noted (show why) (if idle then foldr leaves later (IntMap.keys (stDuties s)) else later)
  where
    idle = all (`elem` orphans (stPieces later)) (within (0, nextIndex (stPieces later)) (stPieces later))
    later = s {stPieces = orphan share (stPieces s), stHireFrom = now + 1000000000}

-- | @reached slot stage now@: it said that it has got so far.
reached :: Int -> Stage -> Int64 -> State a b -> State a b
reached slot stage now = onDuty slot (\d -> d {dutyStage = stage, dutyStageSince = now})

-- | It said that it leaves, or is about to be ended.
leaves :: Int -> State a b -> State a b
leaves slot = onDuty slot (\d -> d {dutyLeaving = True})

onDuty :: Int -> (Duty -> Duty) -> State a b -> State a b
onDuty slot f s = s {stDuties = IntMap.adjust f slot (stDuties s)}

-- | @sealed job slot i why@: it cannot evaluate item @i@ and leaves. The first time the
-- item goes to a fresh worker, the second time to the caller, on demand. An item in
-- which a worker has died would take the caller along: its last death is its result.
sealed :: Job a b -> Int -> Int -> String -> State a b -> State a b
sealed job slot i why s0 = case pieceAt i (stPieces s) of
  Just (_, x : _)
    | i `IntSet.notMember` stSealed s -> noted ("an item was given to a fresh worker: " <> why) again
    | Just lost <- IntMap.lookup i (stLosses s) -> landed i 1 [Judged i slot (Left (toException lost))] s
    | otherwise ->
      counted (\c -> c {countInCaller = countInCaller c + 1})
        . noted ("items were evaluated in the caller: " <> why)
        $ landed i 1 [Outcome i (-1) (Right (normalised (jobFunction job) x))] s
  _ -> s
  where
    s = leaves slot s0
    again = s {stSealed = IntSet.insert i (stSealed s), stPieces = apart i (stPieces s), stBarren = 0}

-- | @unstarted slot why@: the initialiser cannot be finished in it, and it leaves. What it
-- waits for may come about in the caller: others try it, see @barren@.
unstarted :: Int -> String -> State a b -> State a b
unstarted slot why s = noted ("a worker's initialiser could not be finished and was tried again: " <> why) (onDuty slot (\d -> d {dutyLeaving = True, dutyUnstarted = Just why}) s)

-- | Workers that are to be ended by now: they have not got through their start, or
-- have said that they leave and are still there.
--
-- A start takes milliseconds, and no code of the user's; but a child of a process
-- with many threads can inherit a lock that nobody will open.
late :: Int64 -> State a b -> ([Int], State a b)
late now s = (stuck <> [slot | (slot, d) <- duties, dutyLeaving d], (if null stuck then id else noted "a worker did not get through its start within 10 s and was replaced") s)
  where
    duties = IntMap.toList (stDuties s)
    stuck = [slot | (slot, d) <- duties, dutyStage d == Starting, not (dutyLeaving d), now - dutySince d >= 10000000000]

-- Without workers ------------------------------------------------------------

-- | None can be had. A map that chose workers by itself goes on with those that it has, or
-- without any.
without :: Job a b -> Int64 -> Unavailable -> State a b -> State a b
without job now why s
  | backend (jobOptions job) /= Auto = failed (toException why) s
  | IntMap.null (stDuties s) = s {stAlone = Just why}
  | otherwise = noted (show why) s {stHireFrom = now + 1000000000}

-- | @standIn job n@: where no worker can be had and none is left, what they had and
-- the next @n@ items are the caller's, but for items in which a worker has died.
standIn :: Job a b -> Int -> State a b -> State a b
standIn job n s0
  | Just why <- stAlone s0,
    isNothing (stFatal s0) =
    foldl' inCaller (noted ("the rest was evaluated in the caller: " <> show why) s) (within (0, nextIndex (stPieces s)) (stPieces s))
  | otherwise = s0
  where
    s = if n > 0 then handedOut n s0 else s0
    inCaller st key = case pieceAt key (stPieces st) of
      Nothing -> st
      Just (end, cells) ->
        let left = end - key - IntMap.size (IntMap.filterWithKey (\i _ -> key <= i && i < end) (stLosses st))
         in counted (\c -> c {countInCaller = countInCaller c + left}) $
              landed key (end - key) (zipWith outcome [key .. end - 1] cells) st
    outcome i x = case IntMap.lookup i (stLosses s) of
      Just lost -> Judged i (-1) (Left (toException lost))
      Nothing -> Outcome i (-1) (Right (normalised (jobFunction job) x))

-- Deaths ---------------------------------------------------------------------

-- | How a worker ended, once all that it wrote has been read.
data Exit = Exit
  { exitDeath :: !Death,
    -- | What it had claimed: [first, end).
    exitClaims :: ![(Int, Int)],
    -- | The last item that it has begun, if any.
    exitCurrent :: !(Maybe Int),
    -- | It could not start, because of this.
    exitUnstarted :: !(Maybe String),
    -- | It had no room for results any more.
    exitFull :: !Bool
  }

-- | What it had is orphaned. An item may be to blame: the one that it was evaluating, and none
-- that it had only been handed.
died :: Job a b -> Int64 -> Int -> Exit -> State a b -> State a b
died job now slot exit s = maybe s gone (IntMap.lookup slot (stDuties s))
  where
    gone duty
      | dutyLeaving duty || working && (exitFull exit || idle) = fruitless rest
      -- An item may exit with the status of a start that failed: once at work it is to blame.
      | not working = fruitless (noted loss (lost rest))
      | Just (key, i) <- culprit = blamed job slot (exitDeath exit) key i (lost rest)
      | otherwise = fruitless (lost rest)
      where
        -- In the order in which it worked on them: the first may be the cause.
        left = concatMap (`within` stPieces s) (dutyGiven duty <> exitClaims exit)
        rest = s {stPieces = orphan left (stPieces s), stDuties = IntMap.delete slot (stDuties s)}
        working = dutyStage duty == Working
        loss = case (dutyStage duty, exitUnstarted exit) of
          (Starting, Just why) -> why
          (stage, _) -> "a worker " <> deathText (exitDeath exit) <> " before its first item" <> (if stage == Initialising then ", the next is started after a pause" else "")
        idle = null left && exitDeath exit `elem` [Exited 0, Vanished]
        culprit = do
          i <- exitCurrent exit
          key <- orphanWith i (stPieces rest)
          pure (key, i)
        fruitless = barren job now slot duty exit
    lost = counted (\c -> c {countLost = countLost c + 1})

-- | A death in that item of that piece.
blamed :: Job a b -> Int -> Death -> Int -> Int -> State a b -> State a b
blamed job slot death key i s0 = case policy (jobOptions job) of
  Retry n | lostTries lost <= n -> s
  Fail -> failed (toException lost) s
  _ -> landed i 1 [Judged i slot (Left (toException lost))] s {stPieces = isolate key i (stPieces s)}
  where
    lost = WorkerLost i slot death (1 + maybe 0 lostTries (IntMap.lookup i (stLosses s0)))
    s = noted (show lost) s0 {stLosses = IntMap.insert i lost (stLosses s0)}

-- | A worker ended without a result, and not because of an item. When that happens
-- again and again it would do so for ever: something in their start is wrong. Where that
-- is the initialiser the next ones are started ever more rarely.
barren :: Job a b -> Int64 -> Int -> Duty -> Exit -> State a b -> State a b
barren job now slot duty exit s0
  | hopeless && not (stDormant s) = verdict s
  | dutyStage duty == Initialising || isJust owing = s {stHireFrom = max (stHireFrom s) (now + restNs (stBarren s `div` jobWorkers job))}
  | otherwise = s
  where
    s =
      s0
        { stBarren = stBarren s0 + 1,
          stBarrenSince = if stBarren s0 == 0 then now else stBarrenSince s0,
          stOwedSince = stOwedSince s0 <|> (now <$ owing)
        }
    death = exitDeath exit
    since = now - stBarrenSince s
    owing = dutyUnstarted duty
    hopeless = case (owing, death) of
      (Just _, _) -> maybe False (\first -> now - first > 5000000000 && not (busySince first s)) (stOwedSince s)
      -- Somebody who kills workers from outside, by whatever signal, may go on for a while.
      (_, Killed _) -> often && since > 3000000000
      _ -> often
    often = stBarren s > 8 + 4 * jobWorkers job
    verdict = case (exitUnstarted exit, dutyStage duty) of
      _ | Just why <- owing -> without job now (unavailable ("the action given as `initialise` cannot be finished in a worker: " <> why) "evaluate before the map what it needs, or use the Threads back end")
      (Just reason, Starting) -> without job now (unavailable reason "look at `maru doctor`, or use the Threads back end")
      (_, Starting) -> without job now (unavailable ("each worker " <> deathText death <> " before it had started, or did not start within 10 s") "look at `maru doctor`, or use the Threads back end")
      -- It cannot be told from outside what ended it: that action, or somebody else.
      (_, Initialising) -> failed (toException (unavailable ("each worker " <> deathText death <> " before its first item") (suspects death)))
      (_, Working) -> failed (toException (WorkerLost (fst (earliest (stPieces s))) slot death (stBarren s)))
    unavailable = Unavailable "a map on forked workers"
    suspects (Exited _) = "look for what exits in the action given as `initialise`"
    suspects _ = "look for what kills them: another process, a limit, or a crash"

-- | Is a worker that was at work before then likely to deliver something? It has, or may
-- claim, what is neither an orphan nor was given to a later worker. Those that start
-- later may owe as well, however far they get.
busySince :: Int64 -> State a b -> Bool
busySince first s = not (null early) && any theirs (within (0, nextIndex pieces) pieces)
  where
    pieces = stPieces s
    (early, later) = partition (\d -> dutyStage d == Working && dutySince d <= first) (IntMap.elems (stDuties s))
    theirs key = key `notElem` orphans pieces && not (any (\(from, to) -> from <= key && key < to) (concatMap dutyGiven later))

-- | Nanoseconds until the next worker, after so many rounds of them: 10 ms to 250 ms.
restNs :: Int -> Int64
restNs rounds = min 250000000 (10000000 * 2 ^ min 5 rounds)
