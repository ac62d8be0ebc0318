module LockTest (locks) where

import Data.List (sort)
import Data.String (fromString)
import Hedgehog (PropertyT, annotateShow, assert, evalEither, forAll, property, withTests, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.Sim.Check
import Maru.Control.Sim.Lock
import Maru.Control.Sim.Lock.Study
import Maru.Control.Sim.Lock.Tuning
import Maru.Control.Sim.Lock.Waiting
import Maru.Control.Sim.Tally
import Maru.Control.Tune.Lock hiding (Setting (..))
import qualified Maru.Control.Tune.Lock as Tune
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

locks :: TestTree
locks = testGroup "lock" [models, tails, studies, waits, tuners]

law :: String -> PropertyT IO () -> TestTree
law name = testPropertyNamed name (fromString name) . withTests 200 . property

-- | Without noise and without chance in hold and think.
exact :: Model
exact =
  seedModel
    { modelMachine = seedMachine {machineTickRate = 0, machineStallRate = 0},
      modelLoad = seedLoad {loadHoldSpread = 0, loadThinkSpread = 0},
      modelDuration = 1e7
    }

models :: TestTree
models =
  testGroup
    "simulator"
    [ testCase "the same seed gives the same outcome, another one another" $ do
        simulate small @?= simulate small
        assertBool "seed has no effect" (simulate small /= simulate small {modelSeed = 2}),
      testCase "one thread by hand: think, take it again, hold" $ do
        let o = simulate exact {modelThreads = 1}
        -- 1100 + 20 + 150 ns an operation.
        assertNear (throughput o) (1e9 / 1270)
        outcomeFree o @?= outcomeOperations o,
      testCase "one socket, saturated, by hand: hold and local hand-over" $
        assertNear (throughput (simulate exact {modelSockets = 1})) (1e9 / (150 + 80)),
      testCase "two threads of two sockets, saturated, by hand" $
        -- No think time: they alternate, so each grant is remote.
        assertNear
          (throughput (simulate exact {modelThreads = 2, modelLoad = (modelLoad exact) {loadThink = 0}}))
          (1e9 / (150 + machineRemoteData seedMachine + 200)),
      testCase "on one socket CNA admits as FIFO does" $
        outcomeBypass (simulate small {modelSockets = 1, modelAlgorithm = seedCna 0x10000}) @?= Just 0,
      testCase "FIFO passes over nobody" $
        outcomeBypass (simulate small) @?= Just 0,
      law "nobody is passed over more often than max_bypass allows" $ do
        bypass <- forAll (Gen.int (Range.linear 0 300))
        sockets <- forAll (Gen.int (Range.linear 1 6))
        threads <- forAll (Gen.int (Range.linear 1 40))
        seed <- forAll (Gen.int (Range.linear 0 1000))
        algorithm <- evalEither (algorithmFromName ("cna:shuffle_reduction=1,max_bypass=" ++ show bypass))
        let o = simulate small {modelAlgorithm = algorithm, modelSockets = sockets, modelThreads = threads, modelSeed = seed, modelDuration = 1e6}
        annotateShow (outcomeBypass o)
        assert (maybe False (<= bypass) (outcomeBypass o)),
      law "every model ends, counts what it did, and is fair in the end where it is FIFO" $ do
        algorithm <- forAll (Gen.element [Fifo, seedCna 2, seedCna 0x100, deadlineCna 1000, Hmcs 1, Hmcs 64])
        sockets <- forAll (Gen.int (Range.linear 1 5))
        threads <- forAll (Gen.int (Range.linear 1 50))
        think <- forAll (Gen.double (Range.linearFrac 0 20000))
        let o = simulate small {modelAlgorithm = algorithm, modelSockets = sockets, modelThreads = threads, modelLoad = seedLoad {loadThink = think}, modelDuration = 1e6}
        total (outcomeResponse o) === outcomeOperations o
        total (outcomeWait o) === outcomeOperations o
        assert (outcomeOperations o > 0 && outcomeTime o >= 1e6)
        assert (outcomeRemote o <= outcomeOperations o && outcomeFree o <= outcomeOperations o)
        assert (outcomeJain o <= 1 + 1e-9 && outcomeJain o >= 1 / fromIntegral threads - 1e-9)
        assert (most (outcomeWait o) <= most (outcomeResponse o)),
      testCase "names are read as they are written" $
        mapM_
          (\a -> algorithmFromName (algorithmName a) @?= Right a)
          ([Fifo, Hmcs 7, deadlineCna 25000] ++ map seedCna (0x20 : ranges)),
      testCase "what the model cannot tell apart, or cannot mean, is refused" $
        mapM_
          (\t -> either (const (pure ())) (const (assertFailure t)) (algorithmFromName t))
          ["ttas", "cna:", "cna:x=1", "cna:deadline=soon", "cna:deadline=0us", "fifo:x=1", "hmcs:passes=0", "cna:max_bypass=-1", "cna:shuffle_reduction=0", "cna:handoff_range=3", "cna:handoff_range=131072", "cna:shuffle_reduction=3", "cna:deadline=25us,deadline=30us"],
      testCase "a model without time or threads is refused" $
        mapM_
          (assertBool "accepted" . (/= Nothing) . problemOf)
          [exact {modelThreads = 0}, exact {modelSockets = 0}, exact {modelDuration = 0}, exact {modelLoad = Load 0 0 0 0}, exact {modelMachine = seedMachine {machineLocal = -1}}, exact {modelMachine = seedMachine {machineWaiters = 2}}],
      testCase "waiters that are interrupted, too, hold everybody up when their turn comes" $ do
        let waiters share m = m {modelMachine = (modelMachine m) {machineWaiters = share}}
            longer = seedModel {modelDuration = 5e7}
            worst = worstMean 0.01 . outcomeResponse . simulate
        simulate (waiters 1 exact) @?= simulate exact
        assertBool "no slower" (throughput (simulate (waiters 1 longer)) < 0.95 * throughput (simulate longer))
        assertBool "no longer" (worst (waiters 1 longer) > 1.2 * worst longer)
    ]
  where
    small = seedModel {modelDuration = 5e6}
    assertNear a b = assertBool (show a ++ " is not near " ++ show b) (abs (a - b :: Double) < 2e-3 * b)

tails :: TestTree
tails =
  testGroup
    "tally"
    [ law "quantiles and the worst mean are the sample's, within a cell" $ do
        sample <- forAll (Gen.list (Range.linear 1 200) (Gen.double (Range.exponentialFloat 1 1e12)))
        share <- forAll (Gen.double (Range.linearFrac 0.001 1))
        let t = tally sample
            ordered = sort sample
            n = length sample
            -- As the tally has it: the value that leaves at most that many above.
            above = floor (fromIntegral n * (1 - share) :: Double) :: Int
            expected = last (take (n - above) ordered)
        total t === n
        most t === maximum sample
        annotateShow (quantile share t, expected)
        assert (abs (quantile share t - expected) <= 0.008 * expected + 0.5)
        assert (abs (mean t - sum sample / fromIntegral n) <= 0.008 * mean t + 0.5)
        assert (worstMean share t >= mean t * (1 - 1e-9) && worstMean share t <= most t * (1 + 1e-9)),
      testCase "without values all figures are 0" $
        [f (tally []) | f <- [mean, quantile 0.5, worstMean 0.01, most]] @?= [0, 0, 0, 0]
    ]

studies :: TestTree
studies =
  testGroup
    "study"
    [ testCase "the shipped machine has the two points it was calibrated on" $
        mapM_ (\c -> assertBool (show c) (holds c)) calibrated,
      testCase "throughput falls with the range, and to about FIFO's at 0x100" $
        mapM_ (\c -> assertBool (show c) (holds c)) [c | c <- checks, take 10 (checkName c) == "throughput"],
      testCase "a deadline keeps the throughput and the tail" $
        mapM_ (\c -> assertBool (show c) (holds c)) (deadlineChecks s),
      testCase "machines are found for points that can be, and refused for others" $ do
        let wanted = pointsOf brief {modelMachine = quiet {machineRemoteData = 300, machinePath = 110}}
        found <- either assertFailure pure (calibrate brief {modelMachine = quiet} wanted)
        let Points gain loss = pointsOf brief {modelMachine = found}
        assertBool (show (gain, loss)) (abs (gain - pointsGain wanted) < 0.005 && abs (loss - pointsDrop wanted) < 0.005)
        either (const (pure ())) (assertFailure . show) (calibrate brief {modelMachine = quiet} (Points 3 0)),
      testCase "the kernel's table: nothing at one and two threads, a gain at many" $
        mapM_
          (\c -> assertBool (show c) (holds c))
          (kernelChecks [(n, throughput (simulate m {modelAlgorithm = kernelCna}) / throughput (simulate m)) | n <- [1, 2, 16, 72, 142], let m = kernelModel n])
    ]
  where
    s = study seedModel {modelDuration = 5e8}
    checks = seedChecks s
    calibrated = [c | c <- checks, checkKind c == Calibrated]
    quiet = assumedMachine {machineTickRate = 0, machineStallRate = 0}
    brief = seedModel {modelDuration = 2e8}

waits :: TestTree
waits =
  testGroup
    "sleep and spin"
    [ testCase "it has both states, and what was measured" $
        [checkName c ++ ": " ++ show (checkValue c) | c <- waitingChecks, not (holds c)] @?= [],
      testCase "the same seed gives the same, another one another" $ do
        perSecond (scene Turns 16 2) @?= perSecond (scene Turns 16 2)
        assertBool "seed has no effect" (perSecond (scene Turns 16 2) /= perSecond (scene Turns 16 2) {sceneSeed = 2}),
      testCase "one thread by hand: think and hold" $ do
        let rate = perSecond (scene Turns 2 1) {sceneStall = 0}
        assertBool (show rate) (abs (rate * 1250 / 1e9 - 1) < 0.05),
      law "by turns, no more threads than cores carry what spinning ones do" $ do
        cores <- forAll (Gen.int (Range.linear 2 40))
        threads <- forAll (Gen.int (Range.linear 1 cores))
        let at waiting = perSecond (scene waiting cores threads) {sceneDuration = 2e6}
        assert (at Turns >= 0.9 * at Spinning),
      law "by turns, a crowd is never slower than one that sleeps at each hand-over" $ do
        cores <- forAll (Gen.int (Range.linear 4 40))
        threads <- forAll (Gen.int (Range.linear (cores + 1) 100))
        let c = (scene Turns cores threads) {sceneDuration = 2e6}
        assert (perSecond c >= 0.95e9 / (sceneHold c + sceneWakeCall c + sceneWakeUp c))
    ]

tuners :: TestTree
tuners =
  testGroup
    "tuner"
    [ testCase "20 loads and objectives: held within 10 %, at 95 % of the oracle, in 50 windows" $ do
        let tried = concatMap trials workloads
        length tried @?= 20
        [verdictLine (trialObjective t) (trialVerdict t) | t <- tried, not (succeeded t)] @?= [],
      law "never more windows than it may, whatever they say" $ do
        seen <- forAll (Gen.list (Range.singleton mostWindows) (Window <$> Gen.double (Range.linearFrac 0 1e7) <*> Gen.double (Range.exponentialFloat 1 1e9)))
        limit <- forAll (Gen.double (Range.exponentialFloat 1 1e10))
        used <- countWindows (search (Objective 0.999 limit)) seen
        assert (used <= mostWindows),
      testCase "what FIFO holds and nothing beats is FIFO" $
        fst (runTuner (\_ -> Window 100 10) (Objective 0.99 20)) @?= Use Tune.InOrder (Window 100 10),
      testCase "what nothing holds is infeasible, with FIFO's figure" $ do
        let (verdict, used) = runTuner (\_ -> Window 100 30) (Objective 0.99 20)
        verdict @?= Infeasible (Window 100 30)
        assertBool (show used) (used <= mostWindows),
      testCase "what only FIFO misses is used" $
        case fst (runTuner (\s -> if s == Tune.InOrder then Window 100 30000 else Window 90 10000) (Objective 0.99 20000)) of
          Use (Tune.Within d) _ -> assertBool (show d) (d <= 20000)
          other -> assertFailure (show other)
    ]
  where
    runTuner f objective = case follow (Just . f) (search objective) of
      Just (verdict, seen) -> (verdict, length seen)
      Nothing -> error "a plan without an end"
    countWindows plan seen = go (0 :: Int) plan (cycle seen)
      where
        go n (Decided _) _ = pure n
        go n (Measure _ next) (w : ws) = go (n + 1) (next w) ws
        go n _ [] = pure n
