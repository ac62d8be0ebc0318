module SteerTest (steering) where

import Control.Monad (foldM_, forM_, when)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (nub)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust)
import Data.String (fromString)
import Hedgehog (Gen, PropertyT, TestLimit, annotateShow, assert, forAll, property, withTests, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.Sim.Io
import Maru.Control.Sim.Verdict
import Maru.Control.Steer
import Maru.Control.Steer.Evidence
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

-- | So many times as much.
steering :: Int -> TestTree
steering scale = testGroup "steer" [controllers law, bets law, worth scale, loops law]
  where
    law n name = testPropertyNamed name (fromString name) . withTests (n * fromIntegral scale) . property

type Law = TestLimit -> String -> PropertyT IO () -> TestTree

-- ---- any sample at all -------------------------------------------------

genTopology :: Gen Topology
genTopology = do
  sockets <- Gen.int (Range.linear 1 4)
  each <- Gen.int (Range.linear 0 6)
  extra <- Gen.int (Range.linear 1 4)
  file <- Gen.maybe (Gen.int (Range.linear 0 sockets))
  net <- Gen.maybe (Gen.int (Range.linear 0 sockets))
  far <- Gen.int (Range.linear 11 40)
  let m = machine sockets (sockets * each + extra)
  -- A device may be at a node without CPUs.
  pure m {topologyFile = file, topologyNet = net, topologyDistances = Map.map (const far) (topologyDistances m)}

genSample :: Topology -> Gen Sample
genSample topology = do
  gone <- Gen.frequency [(6, pure []), (1, Gen.subsequence cpus)]
  strangers <- Gen.frequency [(9, pure []), (1, pure [1000])]
  work <- traverse (const works) (Map.fromList [(item, ()) | item <- allItems])
  use <- Gen.list (Range.singleton (length cpus)) (Gen.double (Range.linearFrac 0 1))
  Sample (IntSet.fromList (strangers ++ filter (`notElem` gone) cpus)) work (IntMap.fromList (zip cpus use)) <$> Gen.double (Range.linearFrac 0 1000)
  where
    cpus = IntMap.keys (topologyCpus topology)
    works = IntMap.fromList <$> traverse (\node -> (,) node <$> Gen.frequency [(1, pure 0), (2, Gen.double (Range.linearFrac 0 8))]) (nodes topology)

controllers :: Law -> TestTree
controllers law =
  testGroup
    "controller"
    [ law 1000 "sets are disjoint, allowed, of the policy's nodes, within the budget; actions say all; no ping-pong" $ do
        topology <- forAll genTopology
        policy <- forAll (Gen.element allPolicies)
        most <- forAll (Gen.int (Range.linear 0 12))
        samples <- forAll (Gen.list (Range.linear 1 20) (genSample topology))
        let config = (defaultConfig policy) {configBudget = most, configBackoff = 10}
        foldM_ (period config topology) (start, Map.empty) samples
        noPingPong config (decisions config topology samples),
      law 500 "what is tried is not dropped for want of work, nor the other way, within the dwell" $ do
        topology <- forAll genTopology
        policy <- forAll (Gen.element allPolicies)
        samples <- forAll (Gen.list (Range.linear 1 80) (genSample topology))
        let config = (defaultConfig policy) {configBackoff = 10}
        noPingPong config (decisions config topology samples),
      testCase "three CPUs are left alone" $
        IntSet.unions (concatMap (Map.elems . periodSets) (run (seedPlant (machine 1 3)) (Just (defaultConfig CrossSocket)) (steady mapReduce) 1 100)) @?= IntSet.empty,
      testCase "single-socket stays next to the device, cross-socket goes on" $ do
        policyNodes (machine 4 8) SingleSocket File @?= [0]
        policyNodes (machine 4 8) {topologyFile = Just 2} CrossSocket File @?= [2, 0, 1, 3]
        policyNodes (machine 2 8) {topologyFile = Nothing} SingleSocket File @?= [0, 1]
    ]
  where
    period config topology (state, known) sample = do
      let (next, actions) = step config topology state sample
          sets = stateSets next
          all' = IntSet.unions (Map.elems sets)
          inNode set node = length [() | cpu <- IntSet.toList set, IntMap.lookup cpu (topologyCpus topology) == Just node]
          usable = IntSet.filter (`IntMap.member` topologyCpus topology) (sampleAllowed sample)
      annotateShow (next, actions)
      sum (map IntSet.size (Map.elems sets)) === IntSet.size all'
      assert (all' `IntSet.isSubsetOf` usable)
      assert (IntSet.size all' <= budget config (sampleAllowed sample))
      forM_ (nodes topology) $ \node -> assert (2 * inNode all' node <= inNode usable node)
      forM_ (Map.toList sets) $ \(item, set) ->
        assert (all (`elem` policyNodes topology (fromMaybe (configPolicy config) (statePolicy next)) (itemDevice item)) (nodesOf topology set))
      let told = foldl (\m a -> Map.filter (not . IntSet.null) (Map.insert (actionItem a) (actionCpus a) m)) known actions
      told === sets
      pure (next, told)

nodesOf :: Topology -> IntSet -> [Node]
nodesOf topology set = nub [node | cpu <- IntSet.toList set, Just node <- [IntMap.lookup cpu (topologyCpus topology)]]

-- | What is tried is not dropped for want of work, nor the other way, within the dwell.
noPingPong :: Config -> [(Int, Reason)] -> PropertyT IO ()
noPingPong config made = do
  let turns = [(t, reason == Shrunk) | (t, reason) <- made, begins reason || reason == Shrunk]
  annotateShow turns
  assert (and [b - a >= configDwell config | ((a, x), (b, y)) <- zip turns (drop 1 turns), x /= y])
  where
    begins reason = case reason of
      Probed _ -> True
      _ -> reason `elem` [Grown, Repeated]

-- | When anything was decided, and why.
decisions :: Config -> Topology -> [Sample] -> [(Int, Reason)]
decisions config topology samples = concat (snd (foldl go (start, []) (zip [0 ..] samples)))
  where
    go (state, done) (t, sample) =
      let (next, actions) = step config topology state sample
       in (next, done ++ [take 1 [(t, actionReason a) | a <- actions]])

-- ---- verdicts ----------------------------------------------------------

bets :: Law -> TestTree
bets law =
  testGroup
    "evidence"
    [ law 1000 "is a fair game: a pair and the same pair with its slices exchanged leave as much as there was" $ do
        before <- forAll (Gen.list (Range.linear 0 20) genPair)
        (n, d) <- forAll genPair
        let evidence = foldr (uncurry pair) noEvidence before
            after = [capitalFor (pair n x evidence) | x <- [d, negate d]]
        annotateShow (capitalFor evidence, after)
        assert (abs (sum after / 2 - capitalFor evidence) <= 1e-9 * max 1e-9 (sum after)),
      testCase "what all trials may get wrong is what one may" $ do
        let spent = sum (map (allowance 0.04) [1 .. 100000])
        assertBool (show spent) (spent <= 0.04 && spent > 0.0399),
      testCase "says what it has seen" $ do
        let evidence = iterate (pair 3 (log 1.1)) noEvidence !! 30
        assertBool (show (ratio evidence)) (abs (ratio evidence - 1.1) < 1e-9)
        [gained 0.01 evidence, refuted 0.01 evidence] @?= [True, False]
        let loss = iterate (pair 3 (log 0.95)) noEvidence !! 30
        [gained 0.5 loss, refuted 0.01 loss] @?= [False, True]
    ]
  where
    pair n d = weigh 0.03 n (exp d) 1
    genPair = (,) <$> Gen.int (Range.linear 1 8) <*> Gen.frequency [(4, Gen.double (Range.linearFracFrom 0 (-0.5) 0.5)), (1, Gen.double (Range.linearFracFrom 0 (-30) 30))]

-- | The bars of docs/steer.md. Of 200 runs a level, all kinds of noise together; seeded, so the
-- same each time. @MARU_TEST_SCALE@ takes more of them.
worth :: Int -> TestTree
worth scale =
  testGroup
    "what a verdict is worth"
    [ testCase (questionName q ++ ", at " ++ show (round (100 * level) :: Int) ++ " % of noise") $ do
        let n = runs * scale
            answers = [(noiseName noise, answer (defaultConfig SingleSocket) q noise level 1 n) | noise <- kinds]
            count f = sum (map (f . snd) answers)
            all' = length kinds * n
        case questionWithin q level of
          Nothing -> assertBool (show answers) (20 * count answerCame <= all')
          -- Of what turns later, nine in ten: alarms of a load that drifts may have used up the
          -- time for trials.
          Just _ -> assertBool (show answers) (20 * count answerTimely >= (if questionTurns q then 18 else 19) * all')
      | (q, runs) <- zip questions [40, 10, 40, 40, 20, 40, 20],
        level <- [0.02, 0.05, 0.2],
        -- What turns at a fifth of noise is tried again on schedule alone.
        not (questionTurns q) || level < 0.2,
        -- A swing of a fifth in step with the slices, or stalls, may leave a gain undecided: then
        -- it is off.
        let kinds = if level > 0.1 && isJust (questionWithin q level) then [Gaussian, Heavy, Drifting] else allNoises
    ]

-- ---- on a plant --------------------------------------------------------

steady :: Task -> Load
steady task = Load "steady" "" (\t _ -> ([task], IntMap.keysSet (topologyCpus t)))

-- | Nothing for fifty periods, then this.
afterwards :: Task -> Load
afterwards task = Load "step" "" (\t p -> ([if p < 50 then task {taskOffered = 0} else task], IntMap.keysSet (topologyCpus t)))

genTask :: Gen Task
genTask =
  Task <$> Gen.element [File, Net] <*> Gen.frequency [(1, pure 1e9), (2, Gen.double (Range.linearFrac 0 500000))]
    <*> Gen.double (Range.linearFrac 1 200)
    <*> Gen.double (Range.linearFrac 1 100)
    <*> Gen.double (Range.linearFrac 0 20)
    <*> Gen.double (Range.linearFrac 0 128)

changed :: [Period] -> [Int]
changed periods = [t | (t, p) <- zip [0 ..] periods, not (null (periodActions p))]

loops :: Law -> TestTree
loops law =
  testGroup
    "on the plant"
    [ testCase "a step of the load is answered by a trial within ten periods, or not at all" $ do
        let steps =
              [ (make, sockets, each, policy, task, take 1 (changed (run (make' (machine sockets (sockets * each))) (Just (defaultConfig policy)) (afterwards task) 1 100)))
                | (make, make') <- [("seed", seedPlant), ("losing", losingPlant)],
                  sockets <- [1, 2, 4],
                  each <- [1, 4, 8, 16],
                  policy <- [SingleSocket, PerSocket, CrossSocket],
                  base <- [mapReduce, httpd],
                  offered <- [1e4, 5e4, 2e5, 1e9],
                  let task = base {taskOffered = offered}
              ]
            late = [(make, sockets, each, policy, task, ts) | (make, sockets, each, policy, task, ts) <- steps, any (\t -> t < 50 || t >= 60) ts]
        assertBool ("no step of the load was answered: " ++ show (length steps)) (2 * length (filter (\(_, _, _, _, _, ts) -> not (null ts)) steps) > length steps)
        assertBool (unlines (map show late)) (null late),
      law 100 "a square wave never has anything tried and dropped within the dwell" $ do
        (plant, policy) <- forAll genPlant
        task <- forAll genTask
        half <- forAll (Gen.int (Range.linear 1 12))
        let load = Load "square" "" (\t p -> ([if even (p `div` half) then task else task {taskOffered = 0}], IntMap.keysSet (topologyCpus t)))
        noPingPong (defaultConfig policy) [(t, r) | (t, p) <- zip [0 ..] (run plant (Just (defaultConfig policy)) load 1 300), r <- nub (map actionReason (periodActions p))],
      law 20 "trials take a tenth of the time at most, and that of two" $ do
        (plant, policy) <- forAll genPlant
        auto <- forAll Gen.bool
        task <- forAll genTask
        half <- forAll (Gen.int (Range.linear 1 300))
        let config = defaultConfig (if auto then Auto else policy)
            load = Load "square" "" (\t p -> ([if even (p `div` half) then task else task {taskOffered = 0.3 * taskOffered task}], IntMap.keysSet (topologyCpus t)))
            tried = length (filter periodTrying (run plant (Just config) load 1 6000))
        annotateShow tried
        assert (tried <= 6000 `div` 10 + (if auto then 3 else 1) * 2 * configTrial config),
      testCase "where delegation loses it is undone, and stays so for longer each time" $
        forM_ allPolicies $ \policy -> do
          let periods = run (losingPlant (machine 2 24)) (Just (defaultConfig policy)) (steady mapReduce) 1 4000
              trying = map periodTrying periods
              ends = [t | (t, True, False) <- zip3 [0 :: Int ..] trying (drop 1 trying)]
              gaps = zipWith (-) (drop 1 ends) ends
          assertBool (policyName policy ++ " was not undone") (length ends >= 3)
          assertBool (show ends) (and (zipWith (<) gaps (drop 1 gaps)))
          map periodSets (drop 3990 periods) @?= replicate 10 Map.empty
          summaryUndone (summarise periods) >= length ends @?= True,
      testCase "under a lasting load auto costs at most 3 % from the fifth second on" $
        forM_ [seedPlant (machine 2 24), seedPlant (machine 4 48), losingPlant (machine 1 8), losingPlant (machine 2 24)] $ \plant ->
          forM_ [l | l <- loads, loadName l `elem` ["hdfs", "httpd", "idle", "unplugged"]] $ \load -> do
            let rate c = sum (map periodRate (drop 50 (run plant c load 1 1000)))
            assertBool (loadName load) (rate (Just (defaultConfig Auto)) >= 0.97 * rate Nothing),
      testCase "where nothing gets done nothing is tried, however busy it is" $ do
        let cpus = IntSet.fromList [0 .. 7]
            sample = Sample cpus (Map.fromList [(item, IntMap.singleton 0 2) | item <- allItems]) (IntMap.fromSet (const 1) cpus) 0
        decisions (defaultConfig Auto) (machine 2 8) (replicate 500 sample) @?= [],
      testCase "the seed's order: cross-socket for the map-reduce, per-socket for the web server" $ do
        let gain task policy = summaryRate (summarise (run (seedPlant (machine 2 24)) (Just (defaultConfig policy)) (steady task) 1 300))
            best task = snd (maximum [(gain task policy, policyName policy) | policy <- [SingleSocket, PerSocket, CrossSocket]])
        best mapReduce @?= "cross-socket"
        best httpd @?= "per-socket",
      testCase "a device at its cap is the limit" $ do
        let slow = (seedPlant (machine 2 24)) {plantDevice = 64 * 1000, plantNoise = 0}
            s = summarise (run slow (Just (defaultConfig CrossSocket)) (steady mapReduce) 1 100)
        -- A thousand operations of 64 KiB a second.
        assertBool (show (summaryRate s)) (abs (summaryRate s - 1000) < 1),
      testCase "what was recorded: the same work, look by look, and then anew" $ do
        let looks = [Look 1 2 [(File, Flow 1000 65536000 0.5 0.25)], Look 0.5 1 [(Net, Flow 200 0 0.125 0)], Look 0.1 1 []]
            plant = (losingPlant (machine 2 8)) {plantNoise = 0}
            load = replayed plant looks
        -- The plant's own 0.1 us for each of 64 KiB is taken off.
        fst (loadAt load (machine 2 8) 9) @?= [Task File 1000 2000 (500 - 6.4) 250 64]
        map periodRate (run plant Nothing load 1 40) @?= take 40 (cycle (replicate 10 1000 ++ replicate 5 200 ++ [0]))
        map periodRate (run plant Nothing (replayed plant []) 1 3) @?= [0, 0, 0],
      testCase "CPUs that go away leave the sets at once" $ do
        let Load {loadAt = at} = fromMaybe (steady httpd) (lookup "unplugged" [(loadName l, l) | l <- loads])
            topology = machine 2 24
            periods = run (seedPlant topology) (Just (defaultConfig CrossSocket)) (Load "" "" at) 1 150
        foldM_ (\t p -> when (t > 100) (assertBool (show t) (all (`IntSet.isSubsetOf` snd (at topology t)) (Map.elems (periodSets p)))) >> pure (t + 1)) (0 :: Int) periods
    ]
  where
    genPlant = do
      sockets <- Gen.int (Range.linear 1 4)
      each <- Gen.int (Range.linear 1 16)
      make <- Gen.element [seedPlant, losingPlant]
      policy <- Gen.element [SingleSocket, PerSocket, CrossSocket]
      pure (make (machine sockets (sockets * each)), policy)
