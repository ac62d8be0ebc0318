{-# LANGUAGE OverloadedStrings #-}

-- | The coordinator's accounting, without a process: whatever happens to workers,
-- wherever, no index is lost and none comes twice.
module Main (main) where

import Control.Exception (fromException)
import Control.Monad (forM_, when)
import qualified Data.IntMap.Strict as IntMap
import Data.List (foldl', isInfixOf, scanl', sort)
import Data.Maybe (isJust, isNothing)
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Backend.Process.Pieces (nextIndex)
import Maru.Backend.Process.State
import Maru.Backend.Process.Worker (startFailures)
import Maru.Failure
import Maru.Internal.Engine
import Maru.Options (Policy (..))
import System.Environment (lookupEnv)
import Test.Tasty (defaultMain, localOption, testGroup)
import Test.Tasty.Hedgehog (HedgehogTestLimit (..), testPropertyNamed)
import World

main :: IO ()
main = do
  scale <- maybe 1 read <$> lookupEnv "MARU_TEST_SCALE"
  defaultMain . localOption (HedgehogTestLimit (Just (fromIntegral (500 * scale :: Int)))) $
    testGroup
      "the coordinator's books"
      [ testPropertyNamed "each index is in one place, whatever happens" "places" everywhere,
        testPropertyNamed "each item is delivered once, in order, and the run ends" "delivered" delivered,
        testPropertyNamed "an item is a hole only after the deaths that the policy bears, and says so" "holes" holes,
        testPropertyNamed "an item that is stuck goes to a fresh worker, then to the caller" "stuck" stuck,
        testPropertyNamed "a map fails only for a reason" "reasons" reasons,
        testPropertyNamed "no more is out than the window" "window" windowed,
        testPropertyNamed "no more is out than the budget holds, once it is known how large results are" "budget" budgeted,
        testPropertyNamed "what is there is delivered at once, to a quarter of the window" "at once" atOnce,
        testPropertyNamed "workers that never get to an item end the run" "barren" endless,
        testPropertyNamed "an initialiser that waits for the caller is tried for 5 s, ever more rarely" "owing" owing,
        testPropertyNamed "an initialiser that waits is tried for as long as a worker is in an item" "beside" besideWork,
        testPropertyNamed "a worker with nothing to do makes room for the one that is refused" "crowded" crowded,
        testPropertyNamed "a few trivial items take one worker, others not for long" "few" few,
        testPropertyNamed "counts of the report agree with what happened" "counts" counts
      ]

-- Generators ------------------------------------------------------------------

settingGen :: Gen Setting
settingGen = do
  items <- Gen.int (Range.linear 0 60)
  Setting items
    <$> Gen.int (Range.linear 1 6)
    <*> Gen.element [Ordered, Unordered]
    <*> Gen.choice [Retry <$> Gen.int (Range.linear 0 3), pure Skip, pure Fail]
    <*> Gen.bool
    <*> Gen.maybe (Gen.int (Range.linear 1 40))
    <*> Gen.int (Range.linear 1 7)
    <*> Gen.element [0, 100, 16000000, 300000000]
    <*> Gen.list (Range.linear 0 3) (index items)
    <*> Gen.list (Range.linear 0 5) ((,) <$> index items <*> Gen.int (Range.linear 1 3))
  where
    index items = Gen.int (Range.linear 0 (max 0 (items - 1)))

happeningGen :: Gen Happening
happeningGen =
  Gen.frequency
    [ (10, pure Ask),
      (10, Round <$> Gen.element [0, 1, 25, 1500, 11000]),
      (1, pure Sleep),
      (40, Work <$> which),
      (4, Die <$> which <*> Gen.element [Killed 9, Killed 11, Exited 0, Exited 1, Exited 70, Exited 71, Exited 72, Exited 74, Vanished]),
      (1, Fill <$> which),
      (2, Retire <$> which),
      (1, Owe <$> which),
      (1, pure Refuse)
    ]
  where
    which = Gen.int (Range.linear 0 5)

happeningsGen :: Gen [Happening]
happeningsGen = Gen.list (Range.linear 0 400) happeningGen

storm :: PropertyT IO (Setting, [World])
storm = do
  s <- forAll settingGen
  events <- forAll happeningsGen
  pure (s, scanl' happen (begin s) events)

-- | After the storm, to the end.
toEnd :: PropertyT IO (Setting, World)
toEnd = do
  (s, worlds) <- storm
  pure (s, calm 2000 (last worlds))

-- Properties ------------------------------------------------------------------

everywhere :: Property
everywhere = property $ do
  (_, worlds) <- storm
  mapM_ (\w -> sort (places w) === [0 .. nextIndex (stPieces (state w)) - 1]) worlds

delivered :: Property
delivered = property $ do
  (s, w) <- toEnd
  let got = map outcomeIndex (reverse (out w))
  assert (isJust (over w))
  case over w of
    Just Nothing -> (if settingOrder s == Ordered then id else sort) got === [0 .. settingItems s - 1]
    _ -> when (settingOrder s == Ordered) (got === [0 .. length got - 1])

holes :: Property
holes = property $ do
  (s, w) <- toEnd
  mapM_ (judge s w) (out w)
  where
    judge s w o =
      let (i, worker) = (outcomeIndex o, outcomeWorker o)
       in case outcomeResult o of
            Right y -> do
              y === negate i
              diff (deaths w i) (<=) (borne (settingPolicy s))
              when (worker == -1) $ (deaths w i, isJust (stAlone (state w)) || seals' w i == 2) === (0, True)
            Left e -> case fromException e of
              Nothing -> annotateShow e >> failure
              Just lost -> do
                (lostIndex lost, lostTries lost) === (i, deaths w i)
                assert (deaths w i == 1 + borne (settingPolicy s) || deaths w i > 0 && (isJust (stAlone (state w)) || seals' w i == 2))
    borne policy = case policy of
      Retry n -> n
      _ -> 0
    deaths w i = IntMap.findWithDefault 0 i (deathsIn w)
    seals' w i = IntMap.findWithDefault 0 i (seals w)

-- | An item that two workers left for is in its end, in the caller or a hole: no
-- third worker gets it. Before, it comes behind all that is not sealed, and alone
-- where workers suffice.
stuck :: Property
stuck = property $ do
  (_, w) <- toEnd
  mapM_ (\n -> diff n (<=) 2) (IntMap.elems (seals w))
  -- A map that has failed may end before the last of what was said is read.
  let finished = maybe False isNothing (over w)
  when (finished && isNothing (stAlone (state w))) $ countInCaller (stCounts (state w)) === length [() | (i, 2) <- IntMap.toList (seals w), IntMap.notMember i (deathsIn w)]
  mapM_ last' (concat (births w))
  mapM_ alone (births w)
  where
    last' (share, late) = drop (length share - length late) share === late
    alone batch = when (length batch > length (concatMap snd batch)) $ mapM_ (\(share, late) -> when (late /= []) (share === late)) batch

reasons :: Property
reasons = property $ do
  (s, w) <- toEnd
  case over w of
    Just (Just e) -> do
      annotateShow e
      assert (any (const (settingPolicy s == Fail)) (IntMap.toList (deathsIn w)) || mostFruitless w > 8 + 4 * settingWorkers s || wasRefused w || maybe False ((> 5000000000) . (clock w -)) (owedSince w))
    _ -> when (settingPolicy s == Fail) (IntMap.toList (deathsIn w) === [])

windowed :: Property
windowed = property $ do
  (s, worlds) <- storm
  forM_ (settingWindow s) $ \most -> mapM_ (\w -> diff (handed w - taken w) (<=) most) worlds

-- | From when it is known how large results are, and where the user says nothing: no more than the
-- budget holds, or than two chunks for each worker.
budgeted :: Property
budgeted = property $ do
  (s, worlds) <- storm
  let room = max (2 * settingWorkers s * settingChunk s) (256 * 1024 * 1024 `div` max 1 (settingBytes s))
  forM_ [(before, after) | isNothing (settingWindow s), (before, after) <- zip worlds (drop 1 worlds), countItems (stCounts (state before)) > 0] $ \(before, after) ->
    diff (handed after) (<=) (max (handed before) (taken after + room))

handed :: World -> Int
handed = nextIndex . stPieces . state

atOnce :: Property
atOnce = property $ do
  (s, worlds) <- storm
  forM_ [w | w <- worlds, isNothing (over w)] $ \w -> do
    let asked = happen w Ask
        more = if settingOrder s == Ordered then IntMap.member (stDelivered (state asked)) (stArrived (state asked)) else not (IntMap.null (stArrived (state asked)))
    when more $ diff (length (out asked) - length (out w)) (>=) (max 1 (maybe 1 (`div` 4) (settingWindow s)))

endless :: Property
endless = property $ do
  s <- forAll settingGen
  death <- forAll (Gen.element [Killed 9, Killed 11, Exited 1, Exited 71, Exited 72, Exited 74, Vanished])
  steps <- forAll (Gen.int (Range.linear 0 1))
  let dying = concatMap (\n -> replicate steps (Work n) <> [Die n death]) (reverse [0 .. settingWorkers s - 1])
      w = calm 2000 (foldl' happen (begin s) (concat (replicate 60 (Ask : Round 100 : dying)) <> [Ask]))
  case over w of
    Just (Just e) -> do
      (unavailableWhat <$> fromException e) === Just "a map on forked workers"
      -- What was killed may have been so from outside; what could not start says why.
      case lookup death startFailures of
        Just why | steps == 0 -> (unavailableWhy <$> fromException e) === Just why
        _ -> assert (exited death && steps == 1 || not ("initialise" `isInfixOf` show e))
      assert (not (settingAuto s && steps == 0))
    Just Nothing -> assert (settingItems s == 0 || settingAuto s && isJust (stAlone (state w)))
    _ -> failure

owing :: Property
owing = property $ do
  s <- (\s -> s {settingPoison = [], settingStuck = []}) <$> forAll settingGen
  seconds <- forAll (Gen.element [1, 4, 6, 20])
  -- Other ends, and long pauses, are not counted against it.
  before <- forAll (Gen.list (Range.linear 0 3) (Gen.element [Retire 0, Die 0 (Killed 9), Round 50, Round 9000]))
  let owes = map Owe (reverse [0 .. settingWorkers s - 1])
      tries = foldl' happen (begin s) (Ask : Round 50 : before <> concat (replicate (20 * seconds) (Round 50 : owes)))
      w = calm 2000 (happen tries Ask)
      started = countStarted (stCounts (state tries))
  -- 10, 20, ... 250 ms, and then four times a second at most.
  diff started (<=) (settingWorkers s * (7 + length before + 4 * min 6 seconds))
  case over w of
    Just (Just e) -> do
      assert (seconds > 5 && not (settingAuto s))
      fmap unavailableWhy (fromException e) === Just "the action given as `initialise` cannot be finished in a worker: test"
    Just Nothing -> assert (settingItems s == 0 || seconds <= 5 || settingAuto s && isJust (stAlone (state w)))
    Nothing -> failure

-- | One worker finished its initialiser before the others could not: in a long item it is
-- waited for. An item that only a fresh worker would take is not waited for for ever.
besideWork :: Property
besideWork = property $ do
  s <- (\s -> s {settingItems = 60, settingWorkers = max 2 (settingWorkers s), settingAuto = False, settingWindow = Just 40, settingPoison = [], settingStuck = []}) <$> forAll settingGen
  lost <- forAll Gen.bool
  let begun n = replicate 4 (Work n)
      start = foldl' happen (begin s) (Ask : Round 50 : begun 0 <> concat [begun 1 <> [Owe 1] | lost])
      tries = foldl' (\x _ -> happen (foldl' happen (othersOwe x) [Work 0 | lost]) (Round 50)) start [1 .. 400 :: Int]
      w = happen tries Ask
  if lost
    then assert (maybe False isJust (over (asking w)))
    else do
      assert (isNothing (over w) && isNothing (stFatal (state w)))
      assert (maybe False isNothing (over (calm 2000 w)))
  where
    asking w = foldl' happen w (replicate 100 Ask)
    othersOwe w = foldl' (\x _ -> if alive x > 1 then happen x (Owe 1) else x) w [2 .. settingWorkers (setting w)]
    alive x = length [() | W {wDead = Nothing} <- IntMap.elems (crew x)]

-- | While a run's first worker does all there is, no second one is born; where it does not,
-- the others are there within 11 ms.
few :: Property
few = property $ do
  s0 <- forAll settingGen
  n <- forAll (Gen.int (Range.linear 2 6))
  items <- forAll (Gen.int (Range.linear 2 (2 * n)))
  let s = s0 {settingItems = items, settingWorkers = n, settingWindow = Just 40, settingChunk = 1, settingPoison = [], settingStuck = []}
      born = foldl' happen (begin s) [Ask, Round 0]
      trivial = foldl' happen born (replicate (4 * items + 8) (Work 0) <> [Ask])
      started = countStarted . stCounts . state
  started born === 1
  started trivial === 1
  -- One that is about to begin takes an item: there are no more workers than items.
  started (happen born (Round 11)) === min n items
  -- Of one that has begun nobody knows here whether it has: one more may be born.
  assert (started (foldl' happen born [Work 0, Work 0, Round 0, Round 1]) `elem` [min n items, min n (items + 1)])

-- | The system has room for one worker: what another had is done all the same.
crowded :: Property
crowded = property $ do
  s <- (\s -> s {settingItems = 60, settingWorkers = 2, settingWindow = Just 40, settingPolicy = Retry 3, settingPoison = [], settingStuck = []}) <$> forAll settingGen
  let start = foldl' happen (begin s) ([Ask, Round 50] <> concat (replicate 4 [Work 0, Work 1]) <> [Die 1 (Killed 9)])
      next w = foldl' happen w {refusing = not (IntMap.null (crew w))} ([Round 50, Ask] <> replicate 8 (Work 0))
  assert (maybe False isNothing (over (iterate next start !! 400)))

exited :: Death -> Bool
exited death = case death of
  Exited _ -> True
  _ -> False

counts :: Property
counts = property $ do
  (s, w) <- toEnd
  let c = stCounts (state w)
      here = length (out w) + sum [n | Batch n _ <- IntMap.elems (stArrived (state w))]
  countItems c === here
  diff (sum (IntMap.elems (deathsIn w))) (<=) (countLost c)
  diff (countLost c) (<=) (countStarted c)
  assert (isJust (stAlone (state w)) || countChunks c * settingChunk s >= nextIndex (stPieces (state w)))
