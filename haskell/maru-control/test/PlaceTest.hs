module PlaceTest (placing) where

import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import qualified Data.Map.Strict as Map
import Data.String (fromString)
import Hedgehog (Gen, PropertyT, annotateShow, assert, forAll, property, withTests, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.CpuList
import Maru.Control.Observe
import Maru.Control.Place
import Maru.Control.Steer
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

law :: String -> PropertyT IO () -> TestTree
law name = testPropertyNamed name (fromString name) . withTests 500 . property

genSet :: Gen IntSet
genSet = IntSet.fromList <$> Gen.list (Range.linear 0 20) (Gen.frequency [(9, Gen.int (Range.linear 0 200)), (1, Gen.int (Range.linear 0 8191))])

placing :: TestTree
placing =
  testGroup
    "place"
    [ law "lists and masks of CPUs come back as they were" $ do
        set <- forAll genSet
        parseCpuList (showCpuList set ++ "\n") === Just set
        parseCpuMask (showCpuMask set ++ "\n") === Just set,
      testCase "lists and masks as the kernel writes them" $ do
        showCpuList (IntSet.fromList [0, 1, 2, 5, 7, 8]) @?= "0-2,5,7-8"
        showCpuMask (IntSet.fromList [0, 33]) @?= "2,00000001"
        parseCpuMask "00000000,00000003" @?= Just (IntSet.fromList [0, 1])
        map parseCpuList ["", "x", "3-1", "1-", "-1", "99999", "1,,2"] @?= [Just IntSet.empty, Nothing, Nothing, Nothing, Nothing, Nothing, Nothing]
        map parseCpuMask ["", "g", "123456789", ","] @?= [Nothing, Nothing, Nothing, Nothing],
      law "no text makes a parser fail" $ do
        text <- forAll (Gen.string (Range.linear 0 200) (Gen.element "cpu0123456789 ():-\nabc"))
        annotateShow (IntMap.size (parseCores text), length (parseInterrupts text), IntMap.size (parseSoftirqs text), parseStat text, parseCounts text, parseAllowed text, Map.size (parseTraffic text))
        assert True,
      law "a thread of the program runs where the program may, and only threads are set that nobody placed" $ do
        sets <- forAll (Gen.map (Range.linear 0 4) ((,) <$> Gen.element allItems <*> genCpus))
        masks <- forAll (Gen.list (Range.linear 0 8) (Gen.frequency [(3, pure base), (1, genCpus)]))
        policy <- forAll (Gen.maybe (Gen.element allPolicies))
        kind <- forAll (Gen.maybe (Gen.element [File, Net]))
        let threads = [used tid kind mask | (tid, mask) <- zip [1 ..] masks]
            wanted = settings machine base base [] policy (disjoint sets) (blank {observedThreads = threads})
        annotateShow wanted
        sequence_ [assert (maybe False (\cpus -> not (IntSet.null cpus) && cpus `IntSet.isSubsetOf` base) (parseCpuList value)) | (OfThread _ _, value) <- Map.toList wanted]
        assert (and [mask == base | (tid, mask) <- zip [1 ..] masks, Map.member (OfThread tid 0) wanted]),
      testCase "CPUs in its mask that are offline make no difference" $ do
        let mask = IntSet.fromList [0 .. 127]
            sets = Map.singleton (Item File Call) (IntSet.singleton 0)
        settings machine base base [] Nothing sets (blank {observedThreads = [used 1 (Just File) mask]}) @?= Map.singleton (OfThread 1 0) "0",
      law "orders lead from what is set to what is wanted" $ do
        [have, want] <- forAll (Gen.list (Range.singleton 2) (Gen.map (Range.linear 0 6) ((,) <$> (OfFile <$> Gen.element ["a", "b", "c", "d"]) <*> Gen.element ["1", "2"])))
        let follow m order = case order of
              Set target value -> Map.insert target value m
              Back target -> Map.delete target m
        foldl follow have (orders have want) === want
        orders want want === []
    ]
  where
    base = IntSet.fromList [0 .. 7]
    machine = Machine (IntMap.fromSet (`div` 4) base) Map.empty []
    genCpus = IntSet.fromList <$> Gen.list (Range.linear 1 4) (Gen.int (Range.linear 0 7))
    -- As the controller promises.
    disjoint = Map.filter (not . IntSet.null) . snd . Map.mapAccum (\seen set -> (IntSet.union seen set, IntSet.difference set seen)) IntSet.empty
    blank = Observation 1 IntMap.empty IntMap.empty [] Map.empty 0 0 Nothing Nothing
    used tid kind mask = ThreadUse (Thread tid 1 (Stat "t" 1 0 0 0 0 0) Nothing mask [] False) 0.5 0.5 0 0 0 (Just 0) kind [] Nothing Map.empty
