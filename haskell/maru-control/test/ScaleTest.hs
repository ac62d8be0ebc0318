-- | The map's laws and its model of hosts.
module ScaleTest (scaling) where

import Data.String (fromString)
import Hedgehog (PropertyT, annotateShow, assert, forAll, property, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.Sim.Map.Hosts
import Maru.Control.Sim.Map.Scale
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

scaling :: TestTree
scaling =
  testGroup
    "sim map: laws, hosts"
    [ law "a fit finds the law that made the times" $ do
        l <- Law <$> forAll (real 1 1000) <*> forAll (real 0 0.2) <*> pure 0
        let found = fitted [Timing n (time l n) | n <- [1, 2, 4, 8]]
        mapM_ (\n -> assert (near 1e-6 (time l n) (time found n))) [1, 12, 16, 1024]
        near 1e-6 (lawWork l) (lawWork found) === True,
      law "times that get better than they may: no disturbance, never a negative one" $ do
        taken <- forAll (Gen.list (Range.singleton 3) (real 0.1 10))
        let l = fitted (zipWith Timing [1, 2, 4] taken)
        assert (lawShared l >= 0 && lawWork l >= 0)
        assert (time l 8 > 0),
      testCase "nothing measured: nothing said" $ lawWork (fitted []) @?= 0,
      law "a law goes through its point; where pairs meet there is a best number" $ do
        n <- forAll (Gen.int (Range.linear 2 200))
        s <- forAll (real 1.1 (fromIntegral n))
        assert (near 1e-9 s (speedupOn (sharing n s) n))
        assert (near 1e-9 s (speedupOn (meeting n s) n))
        bestCores 500 (sharing n s) === 500,
      testCase "of four workloads three are within 15 % on 16 cores; ints, whose caller is busy, is not" $ do
        let at c = time (fitted (take 4 (curveTimings c))) 16 / sum [timingTaken t | t <- drop 4 (curveTimings c)]
        [curveName c | c <- measuredCurves, abs (at c - 1) > 0.15] @?= ["ints"],
      law "hosts: never faster than all cores, nor than the coordinator's results; all is handed out" $ do
        h <- forAll anyHosts
        let s = spread h
            items = fromIntegral (hostsItems h)
            cores = fromIntegral (hostsCount h * hostsCores h)
        annotateShow s
        assert (spreadMakespan s * 1.000001 >= items * hostsItem h / cores)
        assert (hostsOrganisation h == SubMasters || spreadMakespan s * 1.000001 >= items * hostsItem h / greatestSpeedup h)
        assert (spreadBusy s >= 0 && spreadBusy s <= 1.000001)
        assert (spreadBlocks s <= hostsItems h && (spreadBlocks s > 0 || hostsItems h == 0))
        assert (hostsSpeedup h s <= 1.000001 * cores),
      law "each part of the model costs time" $ do
        h <- forAll anyHosts
        let free = h {hostsEnvironment = 0, hostsFrame = 0, hostsResult = 0, hostsBytes = 0, hostsLatency = 0, hostsStart = 0, hostsCrowd = 0}
        assert (spreadMakespan (spread free) <= spreadMakespan (spread h) * 1.000001),
      testCase "one master keeps 64 hosts busy and not 4096; sub-masters keep more" $ do
        let reached o n = let h = defaultHosts {hostsCount = n, hostsItems = 160 * n, hostsOrganisation = o} in hostsSpeedup h (spread h) / fromIntegral (16 * n)
        assertBool "64" (reached Master 64 > 0.6)
        assertBool "4096" (reached Master 4096 < 0.2)
        assertBool "sub-masters" (reached SubMasters 4096 > reached Master 4096)
    ]
  where
    law :: String -> PropertyT IO () -> TestTree
    law name = testPropertyNamed name (fromString name) . property
    real low high = Gen.double (Range.linearFrac low high)
    near :: Double -> Double -> Double -> Bool
    near most a b = abs (a - b) <= most * max 1e-9 (abs a)
    anyHosts = do
      count <- Gen.int (Range.linear 1 60)
      cores <- Gen.int (Range.linear 1 32)
      items <- Gen.int (Range.linear 1 3000)
      item <- real 1e-5 0.5
      block <- real 1e-3 1
      result <- real 0 1e-3
      environment <- real 0 1e8
      organisation <- Gen.element allOrganisations
      pure defaultHosts {hostsCount = count, hostsCores = cores, hostsItems = items, hostsItem = item, hostsBlock = block, hostsResult = result, hostsEnvironment = environment, hostsOrganisation = organisation}
