-- | Forked workers in the coordinator's state: when one is wanted, how far it has
-- got, and what its death means. Pure; see "Maru.Backend.Process.State".
-- /Internal/.
module Maru.Backend.Process.Roster
  ( -- * Starting
    hiring,
    hired,
    refused,

    -- * At work
    reached,
    leaves,
    late,

    -- * Deaths
    Exit (..),
    died,
  )
where

import Control.Applicative ((<|>))
import Control.Exception (toException)
import Data.Int (Int64)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (isJust, listToMaybe)
import Maru.Backend.Process.Pieces
import Maru.Backend.Process.State
import Maru.Failure
import Maru.Internal.Engine
import Maru.Options (Options (..), Policy (..))

-- | @hiring job waiting now@: which workers to fork, as many as there is work for
-- that nobody has, and the orphans that each is given at birth. To be answered by
-- 'hired' or 'refused' for each.
hiring :: Job a b -> Int -> Int64 -> State a b -> ([(Int, [Int])], State a b)
hiring job waiting now s
  | stDormant s || now < stHireFrom s || wanted == 0 || isJust (stFatal s) = ([], s)
  | otherwise = (zip free (deal wanted left), s {stPieces = adopted (stPieces s)})
  where
    free = [slot | slot <- [0 .. jobWorkers job - 1], IntMap.notMember slot (stDuties s)]
    left = orphans (stPieces s)
    wanted = min (length free) (length left + waiting)

-- | Deals a list round robin to so many hands.
deal :: Int -> [x] -> [[x]]
deal n xs = [every (drop k xs) | k <- [0 .. n - 1]]
  where
    every [] = []
    every (y : ys) = y : every (drop (n - 1) ys)

-- | That worker was forked, with these pieces, now.
hired :: Int -> [(Int, Int)] -> Int64 -> State a b -> State a b
hired slot given now s =
  counted
    (\c -> c {countStarted = countStarted c + 1})
    s {stDuties = IntMap.insert slot (Duty given now Starting False) (stDuties s)}

-- | It could not be: its share is dealt again, in a second. With some workers alive
-- the run goes on, slower; with none it cannot.
refused :: [Int] -> Int64 -> Unavailable -> State a b -> State a b
refused share now why s
  | IntMap.null (stDuties s) = failed (toException why) later
  | otherwise = noted (show why) later
  where
    later = s {stPieces = orphan share (stPieces s), stHireFrom = now + 1000000000}

-- | It said that it has got so far.
reached :: Int -> Stage -> State a b -> State a b
reached slot stage = onDuty slot (\d -> d {dutyStage = stage})

-- | It said that it leaves, or is about to be ended.
leaves :: Int -> State a b -> State a b
leaves slot = onDuty slot (\d -> d {dutyLeaving = True})

onDuty :: Int -> (Duty -> Duty) -> State a b -> State a b
onDuty slot f s = s {stDuties = IntMap.adjust f slot (stDuties s)}

-- | Workers that have not got through their start by now: to be ended.
--
-- A start takes milliseconds, and no code of the user's; but a child of a process
-- with many threads can inherit a lock that nobody will open.
late :: Int64 -> State a b -> ([Int], State a b)
late now s = (slots, (if null slots then id else noted "a worker did not get through its start within 10 s and was replaced") s)
  where
    slots = [slot | (slot, d) <- IntMap.toList (stDuties s), dutyStage d == Starting, now - dutySince d >= 10000000000]

-- Deaths ---------------------------------------------------------------------

-- | How a worker ended, once all that it wrote has been read.
data Exit = Exit
  { exitDeath :: !Death,
    -- | What it had claimed: [first, end).
    exitClaims :: ![(Int, Int)],
    -- | The item that it was evaluating, where that is known.
    exitCurrent :: !(Maybe Int),
    -- | It could not start, because of this.
    exitUnstarted :: !(Maybe String),
    -- | It had no room for results any more.
    exitFull :: !Bool
  }

-- | What it had is orphaned. An item may be to blame: the one that it was evaluating,
-- else the first that it had.
died :: Job a b -> Int64 -> Int -> Exit -> State a b -> State a b
died job now slot exit s = maybe s gone (IntMap.lookup slot (stDuties s))
  where
    gone duty
      | dutyLeaving duty || working && (exitFull exit || isJust (exitUnstarted exit) || idle) = fruitless rest
      | not working = fruitless (noted ("a worker " <> deathText (exitDeath exit) <> " before its first item") (lost rest))
      | Just (key, i) <- culprit = blamed job slot (exitDeath exit) key i (lost rest)
      | otherwise = fruitless (lost rest)
      where
        -- In the order in which it worked on them: the first may be the cause.
        left = concatMap (`within` stPieces s) (dutyGiven duty <> exitClaims exit)
        rest = s {stPieces = orphan left (stPieces s), stDuties = IntMap.delete slot (stDuties s)}
        working = dutyStage duty == Working
        idle = null left && exitDeath exit `elem` [Exited 0, Vanished]
        culprit = do
          i <- exitCurrent exit <|> listToMaybe left
          key <- orphanWith i (stPieces rest)
          pure (key, i)
        fruitless = barren job now slot (dutyStage duty) exit
    lost = counted (\c -> c {countLost = countLost c + 1})

-- | A death in that item of that piece.
blamed :: Job a b -> Int -> Death -> Int -> Int -> State a b -> State a b
blamed job slot death key i s0 = case policy (jobOptions job) of
  Retry n | tries <= n -> s
  Fail -> failed (toException why) s
  _ -> landed i 1 [Outcome i slot (Left (toException why))] s {stPieces = isolate key i (stPieces s)}
  where
    tries = 1 + IntMap.findWithDefault 0 i (stTries s0)
    why = WorkerLost i slot death tries
    s = noted (show why) s0 {stTries = IntMap.insert i tries (stTries s0)}

-- | A worker ended without a result, and not because of an item. When that happens
-- again and again it would do so for ever: something in their start is wrong.
barren :: Job a b -> Int64 -> Int -> Stage -> Exit -> State a b -> State a b
barren job now slot stage exit s0
  | stBarren s > 8 + 4 * jobWorkers job && lasting && not (stDormant s) = failed why s
  | otherwise = s
  where
    s = s0 {stBarren = stBarren s0 + 1, stBarrenSince = if stBarren s0 == 0 then now else stBarrenSince s0}
    death = exitDeath exit
    -- Somebody who kills workers from outside may go on for a while.
    lasting = death /= Killed 9 || now - stBarrenSince s > 3000000000
    why = case (exitUnstarted exit, stage) of
      (Just reason, _) -> unavailable reason "look at `maru doctor`, or use the Threads back end"
      (_, Starting) -> unavailable ("each worker " <> deathText death <> " before it had started, or did not start within 10 s") "look at `maru doctor`, or use the Threads back end"
      (_, Initialising) -> unavailable ("each worker " <> deathText death <> " in the initialiser") "mend the action given as `initialise`"
      (_, Working) -> toException (WorkerLost (fst (earliest (stPieces s))) slot death (stBarren s))
    unavailable reason remedy = toException (Unavailable "a map on forked workers" reason remedy)
