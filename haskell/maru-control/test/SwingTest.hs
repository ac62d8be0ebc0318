-- | The swing of a curve, and the model of the collector.
module SwingTest (swinging) where

import qualified Data.Map.Strict as Map
import Data.String (fromString)
import Hedgehog (Gen, PropertyT, assert, forAll, property, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.Sim.Map (Costs (..))
import Maru.Control.Sim.Map.Collector
import Maru.Control.Swing
import System.Random.SplitMix (mkSMGen)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

swinging :: TestTree
swinging = testGroup "swing" [curves, collector]

law :: String -> PropertyT IO () -> TestTree
law name = testPropertyNamed name (fromString name) . property

real :: Double -> Double -> Gen Double
real low high = Gen.double (Range.linearFrac low high)

curves :: TestTree
curves =
  testGroup
    "of a curve"
    [ testCase "is the sum of its falls, and of nothing else" $ do
        falls [1, 2, 1.5, 3, 2, 1] @?= [0.5, 1, 1]
        map swing [[], [1], [1, 2, 3], [1, 1], [3, 1, 2, 1]] @?= [0, 0, 0, 0, 3],
      law "a curve that does not fall has none; one read backwards falls by what it rises" $ do
        speeds <- forAll (Gen.list (Range.linear 0 40) (real 0 30))
        (swing speeds == 0) === and (zipWith (<=) speeds (drop 1 speeds))
        let ends = case speeds of
              [] -> 0
              s : more -> s - foldl (const id) s more
        assert (abs (swing speeds - swing (reverse speeds) - ends) < 1e-9),
      testCase "less by a share; from nothing, by none" $ do
        lessBy 2 1.5 @?= Just 0.25
        lessBy 2 3 @?= Just (-0.5)
        lessBy 0 1 @?= Nothing,
      testCase "flags: where it was searched, what is predicted, everywhere" $ do
        let found = Map.fromList [(10, "a"), (13, "b"), (17, "c")]
            given tuning = map (flagsFor found tuning) [1, 10, 11, 12, 14, 16, 17, 32]
        map given [minBound ..]
          @?= [ replicate 8 Nothing,
                [Nothing, Just "a", Nothing, Nothing, Nothing, Nothing, Just "c", Nothing],
                [Nothing, Just "a", Just "a", Nothing, Just "b", Just "b", Just "c", Nothing],
                map Just ["a", "a", "a", "a", "b", "b", "c", "c"]
              ],
      testCase "searched are the seed's numbers of cores that a machine has, or all its cores" $
        map trainingOn [1, 2, 9, 10, 16, 64] @?= [[1], [2], [9], [10], [10, 13, 15], seedTraining]
    ]

collector :: TestTree
collector =
  testGroup
    "by the collector's model"
    [ testCase "flags as the run-time system reads them" $ do
        let of' cores = young measuredCollector cores . Map.fromList
        of' 4 [] @?= Young 1048576 4
        of' 4 [("allocation", "-A64m"), ("parallel", "-qg")] @?= Young 67108864 1
        of' 4 [("allocation", "-A256k"), ("hint", "-H256m"), ("parallel", "-qn8")] @?= Young 67108864 4
        of' 4 [("parallel", "-qn2"), ("large", "-AL256m")] @?= Young 1048576 2,
      law "without stalls a run takes what its parts do; with them, not less" $ do
        c <- forAll anyCollector
        (cores, y) <- forAll anyYoung
        seed <- forAll (Gen.word64 (Range.linear 0 1000))
        let run m = runTime m cores y (mkSMGen seed)
        assert (near 1e-9 (quietTime c cores y) (run c {collectorStalls = 0}))
        assert (run c >= quietTime c cores y * (1 - 1e-9))
        run c === run c,
      law "a larger area is collected less often; more cores, no more often" $ do
        c <- forAll anyCollector
        (cores, y) <- forAll anyYoung
        assert (collections c cores y {youngArea = 2 * youngArea y} <= collections c cores y)
        assert (collections c (cores + 1) y <= collections c cores y),
      law "a calibration finds the model that was observed" $ do
        c <- forAll anyCollector
        let found = calibrated c {collectorWork = 0, collectorFixed = 0, collectorKeep = 0, collectorStop = 0, collectorMeet = 0, collectorSpill = 0, collectorSerial = 0, collectorFill = 0} (seenOf c)
            costs = [collectorWork, collectorFixed, collectorKeep, collectorLive, collectorStop, collectorMeet]
        mapM_ (\part -> assert (near 2e-3 (part c) (part found))) costs
        -- The map's own costs of claims are in these, too.
        mapM_ (\part -> assert (abs (part c - part found) < 2e-3)) [collectorSerial, collectorFill, collectorSpill],
      law "a calibration has no cost below none, whatever was observed" $ do
        let anyRun = Observed <$> real 1e-3 10 <*> real 0 10 <*> Gen.element [0, 1, 300] <*> real 1 1e10
        seen <- forAll (Observations <$> anyRun <*> anyRun <*> anyRun <*> Gen.maybe ((,) <$> anyRun <*> anyRun))
        let c = calibrated measuredCollector seen
        assert (all (\part -> part c >= 0) [collectorWork, collectorSerial, collectorFill, collectorFixed, collectorKeep, collectorLive, collectorStop, collectorMeet, collectorSpill]),
      testCase "on the seed's machine 32 cores are 7.63 times as fast, by either cost" $
        mapM_ (\blame -> let c = seedCollector blame measuredCollector in assertBool (blameName blame) (near 1e-3 7.63 (quiet c 1 / quiet c 32))) [minBound ..],
      testCase "the search finds a larger area where collections are dear, and nothing where there are none" $ do
        let dear = seedCollector ByCollector measuredCollector
        assertBool (show (tunedOn dear 16)) (quietTime dear 16 (young dear 16 (tunedOn dear 16)) < 0.5 * quiet dear 16)
        tunedOn dear {collectorAllocated = 0, collectorSpill = 0, collectorStalls = 0} 16 @?= Map.empty
    ]
  where
    quiet c n = quietTime c n (young c n Map.empty)
    near most a b = abs (a - b) <= most * max 1e-12 (abs a)

anyYoung :: Gen (Int, Young)
anyYoung = do
  cores <- Gen.int (Range.linear 1 40)
  (,) cores <$> (Young <$> real 262144 1e8 <*> Gen.int (Range.linear 1 cores))

-- | Of a few hundred collections.
anyCollector :: Gen Collector
anyCollector = do
  (work, serial, fixed, keep) <- (,,,) <$> real 0.1 2 <*> real 0 0.9 <*> real 1e-5 1e-3 <*> real 1e-11 1e-9
  (live, stop, meet, spill) <- (,,,) <$> real 2e6 5e7 <*> real 1e-6 1e-3 <*> real 1e-6 1e-3 <*> real 0 0.1
  pure
    measuredCollector
      { collectorWork = work,
        collectorItems = 48,
        collectorCosts = Constant,
        collectorSerial = serial,
        collectorAllocated = 4e8,
        collectorFill = 1,
        collectorFixed = fixed,
        collectorKeep = keep,
        collectorLive = live,
        collectorStop = stop,
        collectorMeet = meet,
        collectorSpill = spill
      }

-- | What a run-time system would say of runs of the model.
seenOf :: Collector -> Observations
seenOf c = Observations (on 1 as) (on 1 as {youngArea = 262144}) (on 1 as {youngArea = 67108864}) (Just (on 2 as {youngThreads = 2}, on 2 as))
  where
    as = Young (collectorArea c) 1
    on cores y = Observed (quietTime c {collectorAllocated = 0} cores y) (count * pause c cores y) count (collectorAllocated c)
      where
        count = fromIntegral (collections c cores y)
