module Main (main) where

import AdviseTest (advising)
import BoostTest (boosts)
import Control.Monad (forM_)
import Data.List (isInfixOf, nub, sortOn)
import Data.List.NonEmpty (NonEmpty (..))
import qualified Data.List.NonEmpty as NonEmpty
import qualified Data.Map.Strict as Map
import Data.String (fromString)
import Hedgehog (PropertyT, assert, forAll, property, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import LaunchTest (launches)
import LockTest (locks)
import qualified Maru.Control.Histogram as Histogram
import Maru.Control.Plot
import Maru.Control.Race
import Maru.Control.Ratio hiding (Verdict (Undecided))
import qualified Maru.Control.Ratio as Ratio
import Maru.Control.Sim.Map
import Maru.Control.Sim.Stm
import Maru.Control.Statistics
import MemoryTest (remembering)
import PlaceTest (placing)
import ScaleTest (scaling)
import SteerTest (steering)
import SwingTest (swinging)
import System.Environment (lookupEnv)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)
import TuneTest (tuning)

-- | @MARU_TEST_SCALE=n@ does n times as much of what is drawn about steering.
main :: IO ()
main = do
  scale <- maybe 1 read <$> lookupEnv "MARU_TEST_SCALE"
  defaultMain (testGroup "maru-control" [statistics, race, tuning, ratios, simulator, transactions, scaling, swinging, locks, boosts, steering scale, placing, launches, remembering, advising, histograms, plots])

law :: String -> PropertyT IO () -> TestTree
law name = testPropertyNamed name (fromString name) . property

statistics :: TestTree
statistics =
  testGroup
    "statistics"
    [ testCase "median of odd and even samples" $ do
        median (pure 3) @?= 3
        median (3 :| [1, 2]) @?= 2
        median (4 :| [1, 2, 3]) @?= 2.5,
      law "quantiles lie in the sample and grow" $ do
        sample <- forAll (Gen.nonEmpty (Range.linear 1 50) (Gen.double (Range.linearFrac (-9) 9)))
        p <- forAll (Gen.double (Range.linearFrac 0 1))
        q <- forAll (Gen.double (Range.linearFrac p 1))
        let s = summarise sample
        assert (quantile p sample <= quantile q sample + 1e-12)
        quantile 0 sample === summaryLeast s
        quantile 1 sample === summaryMost s
    ]

histograms :: TestTree
histograms =
  testGroup
    "histogram"
    [ testCase "classes have no gap" $
        and [Histogram.firstOf c + Histogram.widthOf c == Histogram.firstOf (c + 1) | c <- [0 .. Histogram.classes - 2]] @?= True,
      law "a class's middle is at most 1 % off" $ do
        value <- forAll (Gen.word64 (Range.exponential 1 (2 ^ (40 :: Int) - 1)))
        let at = Histogram.classOf value
        assert (Histogram.firstOf at <= value && value < Histogram.firstOf at + Histogram.widthOf at)
        assert (abs (Histogram.middleOf at - fromIntegral value) <= 0.01 * fromIntegral value),
      law "quantiles and worst means are at most 1 % off" $ do
        sample <- forAll (Gen.nonEmpty (Range.linear 1 200) (Gen.word64 (Range.exponential 1 1000000000)))
        p <- forAll (Gen.element [0.5, 0.9, 0.99, 0.999])
        let values = NonEmpty.toList (NonEmpty.sort sample)
            histogram = Histogram.fromClasses (maximum values) [(Histogram.classOf v, 1) | v <- values]
            exact = fromIntegral (values !! (min (length values) (max 1 (ceiling (p * fromIntegral (length values) :: Double))) - 1)) :: Double
            near a b = abs (a - b) <= 0.0101 * b
        assert (maybe False (`near` exact) (Histogram.quantile p histogram))
        assert (maybe False (near (sum (map fromIntegral values) / fromIntegral (length values))) (Histogram.worstMean 1 histogram)),
      testCase "zeros are values" $ do
        let histogram = Histogram.addZeros 99 (Histogram.fromClasses 1000 [(Histogram.classOf 1000, 1)])
        fmap round (Histogram.quantile 0.5 histogram) @?= Just (0 :: Int)
        fmap round (Histogram.quantile 1 histogram) @?= Just (1000 :: Int)
    ]

-- | Runs rounds in which each setting takes what the function says.
rounds :: Int -> (Int -> Char -> Maybe Double) -> Race Char -> Race Char
rounds n cost r0 = foldl step r0 [1 .. n]
  where
    step r i = record (Map.fromList [(c, t) | c <- entrants r, Just t <- [cost i c]]) r

race :: TestTree
race =
  testGroup
    "race"
    [ testCase "a clear winner is a gain" $
        verdict (rounds 3 (\_ c -> Just (if c == 'b' then 1 else 2)) (start 'a' "bc")) @?= Gain 'b' 2,
      testCase "equal settings are no gain" $
        verdict (rounds 6 (\_ _ -> Just 1) (start 'a' "b")) @?= NoGain (Just ('b', 1)),
      testCase "a lead that one round contradicts is no gain" $
        verdict (rounds 4 (\i c -> Just (if c == 'b' && i /= 2 then 1 else 1.5)) (start 'a' "bc"))
          @?= NoGain (Just ('b', 1.5)),
      testCase "of two, one round of twelve does not hide a gain; of more it does" $ do
        let cost i c = Just (if c == 'b' && i /= (2 :: Int) then 1 else 1.5)
        verdict (rounds 12 cost (start 'a' "b")) @?= Gain 'b' 1.5
        verdict (rounds 12 cost (start 'a' "bc")) @?= NoGain (Just ('b', 1.5)),
      testCase "a gain below the threshold is none" $
        verdict (rounds 6 (\_ c -> Just (if c == 'b' then 0.99 else 1)) (start 'a' "b"))
          @?= NoGain (Just ('b', 1 / 0.99)),
      testCase "two rounds are not enough" $
        verdict (rounds 2 (\_ c -> Just (if c == 'b' then 1 else 2)) (start 'a' "bc"))
          @?= Undecided 2 3,
      testCase "of two no five rounds are enough: by chance one is ahead in each" $ do
        let r = rounds 5 (\_ c -> Just (if c == 'b' then 1 else 2)) (start 'a' "b")
        verdict r @?= Undecided 5 6
        decided r @?= False,
      testCase "of two it goes on until the interval of their ratios decides" $ do
        let clear = rounds 6 (\_ c -> Just (if c == 'b' then 1 else 2)) (start 'a' "b")
            swings i c = Just (if c == 'b' && even (i :: Int) then 1 else 1.5)
            unclear n = rounds n swings (start 'a' "b")
        (decided clear, verdict clear) @?= (True, Gain 'b' 2)
        map (decided . unclear) [6, 20, 39, 40] @?= [False, False, False, True]
        decided (rounds 6 swings (start 'a' "bc")) @?= False,
      testCase "two that differ by too little to matter are not raced on" $ do
        let r = rounds 6 (\i c -> Just (if c == 'b' && odd i then 0.99 else 1)) (start 'a' "b")
        (decided r, verdict r) @?= (True, NoGain (Just ('b', 1 / 0.995))),
      testCase "a hopeless setting is dropped, the baseline never" $
        entrants (rounds 3 (\_ c -> Just (if c == 'c' then 1 else 9)) (start 'a' "bc")) @?= "ca",
      testCase "a setting that fails leaves the race" $
        entrants (rounds 1 (\_ c -> if c == 'b' then Nothing else Just 1) (start 'a' "bc")) @?= "ca",
      testCase "a baseline that fails makes no gain of one round" $
        verdict (rounds 2 (\i c -> if c == 'a' && i == 2 then Nothing else Just (if c == 'b' then 1 else 2)) (start 'a' "b")) @?= NoGain (Just ('b', 2)),
      testCase "without rivals there is nothing to decide" $ do
        decided (start 'a' "") @?= True
        verdict (rounds 3 (\_ _ -> Just 1) (start 'a' "")) @?= NoGain Nothing
    ]

ratios :: TestTree
ratios =
  testGroup
    "ratio"
    [ law "the interval holds the median and lies in the sample" $ do
        sample <- forAll sampled
        let e = estimate sample
        assert (minimum sample <= estimateLow e && estimateHigh e <= maximum sample)
        assert (estimateLow e <= estimateMedian e + 1e-12 && estimateMedian e <= estimateHigh e + 1e-12),
      law "the same ratios give the same interval, in any order" $ do
        sample <- forAll sampled
        shuffled <- forAll (Gen.shuffle (NonEmpty.toList sample))
        Just (estimate sample) === fmap estimate (NonEmpty.nonEmpty shuffled),
      law "scaled ratios give a scaled interval" $ do
        sample <- forAll sampled
        let near x y = abs (x - y) < 1e-9
        assert (near (2 * estimateLow (estimate sample)) (estimateLow (estimate (fmap (* 2) sample)))),
      testCase "95 % of the intervals hold the true median" $ do
        let trials = [estimate (lognormal seed) | seed <- [1 .. 300]]
            inside = length [() | e <- trials, estimateLow e <= 1, 1 <= estimateHigh e]
        assertBool (show inside ++ " of 300") (inside >= 270 && inside <= 298),
      testCase "so few ratios hold the true median outside of their interval in 5 of 100 samples at most" $
        forM_ [fewestPairs .. mostPairs] $ \n -> do
          let sample = 1 :| map fromIntegral [2 .. n]
              e = estimate sample
              -- The chance that of all values no more than those beyond an end lie on that side of the true median.
              missed end = sum [choose k | k <- [0 .. length (NonEmpty.filter end sample)]] / 2 ^ n
              choose k = product [fromIntegral (n - i) / fromIntegral (i + 1) | i <- [0 .. k - 1 :: Int]]
              outside = missed (< estimateLow e) + missed (> estimateHigh e) :: Double
          assertBool (show (n, e, outside)) (outside <= 0.05),
      testCase "an interval above the bar holds, below it fails" $ do
        judge (AtLeast 0.95) (Estimate 1 0.96 1.1 6) @?= Holds
        judge (AtLeast 0.95) (Estimate 0.9 0.8 0.94 6) @?= Fails
        judge (AtMost 0.95) (Estimate 0.9 0.8 0.94 6) @?= Holds
        judge (AtMost 0.95) (Estimate 1 0.96 1.1 6) @?= Fails,
      testCase "a narrow interval may hold the bar, a wide one decides nothing" $ do
        judge (AtLeast 1) (Estimate 1 0.98 1.03 6) @?= Holds
        judge (AtLeast 1) (Estimate 1 0.9 1.1 6) @?= Ratio.Undecided,
      testCase "narrow is relative to the bar" $
        judge (AtMost 0.01) (Estimate 0.01 0.005 0.02 6) @?= Ratio.Undecided,
      testCase "few pairs decide nothing; after the most there are no more" $ do
        judge (AtLeast 1) (Estimate 2 2 2 (fewestPairs - 1)) @?= Ratio.Undecided
        assertBool "settled too early" (not (settled (AtLeast 1) (Estimate 1 0.9 1.1 (mostPairs - 1))))
        assertBool "never settled" (settled (AtLeast 1) (Estimate 1 0.9 1.1 mostPairs))
    ]
  where
    sampled = Gen.nonEmpty (Range.linear 1 40) (Gen.double (Range.linearFrac 0.5 2))
    -- Twenty ratios around 1: the sum of twelve uniform draws is nearly normal.
    lognormal seed =
      let draws = map ((/ 4294967296) . fromIntegral) (drop 1 (iterate lcg (seed * 7919))) :: [Double]
          one ds = exp (0.2 * (sum (take 12 ds) - 6))
       in one draws :| [one (drop (12 * k) draws) | k <- [1 .. 19]]
    lcg :: Int -> Int
    lcg s = (s * 1664525 + 1013904223) `mod` 4294967296

transactions :: TestTree
transactions =
  testGroup
    "transactions' simulator"
    [ testCase "the same seed gives the same counts, another one others" $ do
        let one seed = simulateStm (few List 4) {stmSeed = seed}
        one 1 @?= one 1
        assertBool "seed has no effect" (one 1 /= one 2),
      testCase "one thread never begins anew, and meets nobody" $
        forM_ [List, RedBlack] $ \s -> do
          let c = simulateStm (few s 1)
          (countCommits c, countThrown c) @?= (2000, 0)
          perSecond c @?= perSecond (simulateStm (few s 1) {stmShared = 1000}),
      testCase "what shares nothing is as fast as its threads are many" $
        forM_ [List, RedBlack] $ \s -> do
          let alone = (few s 1) {stmShared = 0, stmConflicts = False, stmOperations = 20000}
              gain = perSecond (simulateStm alone {stmThreads = 8}) / perSecond (simulateStm alone)
          assertBool (structureName s ++ ": " ++ show gain) (abs (gain - 8) < 0.4),
      testCase "without updates nothing is written or thrown away" $
        forM_ [List, RedBlack] $ \s -> do
          let c = simulateStm (few s 8) {stmUpdates = 0}
          (countWrites c, countThrown c) @?= (0, 0),
      testCase "no more commits than the shared part allows" $ do
        let m = (few RedBlack 64) {stmOperations = 5000}
        assertBool "too many" (perSecond (simulateStm m) <= 1.02e9 / stmShared m),
      testCase "the measured shape: the list gains by a second thread, the tree loses" $ do
        let second s = perSecond (simulateStm (measuredStm s 2)) / perSecond (simulateStm (measuredStm s 1))
        assertBool "list" (second List > 1.5)
        assertBool "tree" (second RedBlack < 0.8),
      testCase "ablations begin with the whole model" $
        lookup "whole model" (stmAblations (measuredStm List 2)) @?= Just (measuredStm List 2)
    ]
  where
    few s n = (measuredStm s n) {stmOperations = 2000}

simulator :: TestTree
simulator =
  testGroup
    "map simulator"
    [ testCase "the same seed gives the same outcome, another one another" $ do
        simulate defaultModel @?= simulate defaultModel
        assertBool "seed has no effect" (simulate defaultModel /= simulate defaultModel {modelSeed = 2}),
      testCase "a free machine with equal items scales perfectly" $
        speedup (simulate (free {modelWorkers = 8, modelItems = 8000})) `near` 8,
      testCase "no items take no time" $
        outcomeMakespan (simulate defaultModel {modelItems = 0}) @?= 0,
      testCase "the model by hand: two workers, three items, chunks of one" $
        -- Starts at 1 and 2; claims cost 0.5, dispatch 0.25, items 4, collecting 0.125.
        outcomeMakespan
          ( simulate
              Model
                { modelItems = 3,
                  modelWorkers = 2,
                  modelItem = 4,
                  modelCosts = Constant,
                  modelChunking = Fixed 1,
                  modelStart = 1,
                  modelClaim = 0.5,
                  modelDispatch = 0.25,
                  modelCollect = 0.125,
                  modelSeed = 0
                }
          )
          @?= 1 + 2 * (0.5 + 0.25 + 4) + 0.125,
      testCase "means of the distributions are what they say" $
        mapM_
          ( \costs ->
              let n = 200000
                  o = simulate defaultModel {modelItems = n, modelCosts = costs, modelItem = 1}
               in assertBool (costsName costs) (abs (outcomeWork o / fromIntegral n - 1) < 0.03)
          )
          allCosts,
      testCase "guided chunks beat static ones where costs rise" $
        assertBool
          "guided is not faster"
          (makespan Guided < 0.9 * makespan Static),
      law "no schedule beats the work bound or loses an item" $ do
        model <- forAll genModel
        let o = simulate model
        assert (efficiency model o <= 1 + 1e-9)
        assert (outcomeChunks o <= modelItems model),
      testCase "ablations begin with the whole model" $
        lookup "whole model" (ablations defaultModel) @?= Just defaultModel
    ]
  where
    free = defaultModel {modelStart = 0, modelClaim = 0, modelDispatch = 0, modelCollect = 0, modelCosts = Constant}
    makespan c = outcomeMakespan (simulate defaultModel {modelCosts = Rising, modelChunking = c})
    near a b = assertBool (show a ++ " is not near " ++ show b) (abs (a - b :: Double) < 1e-3 * b)
    genModel = do
      n <- Gen.int (Range.linear 0 300)
      w <- Gen.int (Range.linear 1 9)
      costs <- Gen.element allCosts
      size <- Gen.int (Range.linear 1 40)
      chunking <- Gen.element [Static, Guided, Fixed size]
      pure defaultModel {modelItems = n, modelWorkers = w, modelCosts = costs, modelChunking = chunking}

plots :: TestTree
plots =
  testGroup
    "plot"
    [ law "ticks enclose the interval and are few" $ do
        low <- forAll (Gen.double (Range.linearFrac (-1e3) 1e3))
        width <- (10 **) <$> forAll (Gen.double (Range.linearFrac (-3) 6))
        let ts = ticks Linear (low, low + width)
        assert (minimum ts <= low + 1e-6 * width && maximum ts >= low + width - 1e-6 * width)
        assert (length ts >= 3 && length ts <= 11),
      law "logarithmic ticks enclose the interval" $ do
        low <- (10 **) <$> forAll (Gen.double (Range.linearFrac (-6) 3))
        factor <- (10 **) <$> forAll (Gen.double (Range.linearFrac 0.2 6))
        let ts = ticks Logarithmic (low, low * factor)
        assert (minimum ts <= low * 1.0001 && maximum ts >= low * factor * 0.9999),
      testCase "text is escaped" $ do
        escape "<a & 'b'>\0" @?= "&lt;a &amp; &#39;b&#39;&gt;?"
        assertBool "title" ("x &lt; y" `isInfixOf` svg (plot "x < y" [])),
      testCase "points that cannot be drawn are counted" $
        assertBool "note" $
          "1 point cannot be drawn" `isInfixOf` svg (plot "t" [Point 1 1 1 1, Point 2 (0 / 0) 1 1]),
      testCase "named kinds are named, and not joined" $ do
        let kinds = svg (Plot "t" (Axis "x" (Named ["fib", "build"])) (Axis "y" Linear) [Series name [Point 1 1 1 1, Point 2 2 2 2] | name <- ["s", "t"]])
        mapM_ (\name -> assertBool name ((">" ++ name ++ "<") `isInfixOf` kinds)) ["fib", "build"]
        assertBool "joined" (not ("polyline" `isInfixOf` kinds)),
      testCase "forty series have forty looks" $ length (nub (take 40 allLooks)) @?= 40,
      testCase "at one place of the x axis each series is a bar with its name" $ do
        let bars = svg (Plot "t" (Axis "x" Linear) (Axis "y" Linear) [Series name [Point 16 2 1 3] | name <- ["s", "t"]])
        mapM_ (\name -> assertBool name ((">" ++ name ++ "<") `isInfixOf` bars)) ["s", "t", "16"]
        assertBool "no bars" ("<rect x=" `isInfixOf` bars && not ("polyline" `isInfixOf` bars)),
      testCase "few places of the data are ticks; an axis has one unit" $ do
        let text = svg (plot "t" [Point x (1.4e6 / x) 0 1.4e6 | x <- [1, 2, 4, 8, 16, 32]])
            far = svg (Plot "t" (Axis "x" Logarithmic) (Axis "y" Logarithmic) [Series "s" [Point x x x x | x <- [1, 2, 1e5]]])
            says it = map (\name -> (">" ++ name ++ "<") `isInfixOf` it)
        says text ["0.8M", "1.4M", "800000", "0"] @?= [True, True, False, True]
        says (svg (Plot "t" (Axis "x" Logarithmic) (Axis "y" Linear) [Series "s" [Point x 1 1 1 | x <- [1, 4, 32]]])) ["1", "4", "32", "5", "10"] @?= [True, True, True, False, False]
        says far ["1", "100k", "1000"] @?= [True, True, True],
      law "labels keep their order, and their distance where there is room" $ do
        ys <- forAll (Gen.list (Range.linear 0 19) (Gen.double (Range.linearFrac 0 320)))
        let moved = apart (0, 320) ys
            inOrder = map snd (sortOn fst (zip (zip ys [0 :: Int ..]) moved))
        length moved === length ys
        assert (all (\y -> y >= -1e-6 && y <= 320 + 1e-6) moved)
        assert (and (zipWith (\a b -> b - a >= 16 - 1e-6) inOrder (drop 1 inOrder))),
      testCase "no coordinate is ever not a number" $
        mapM_
          (\ps -> assertBool (show ps) (not ("NaN" `isInfixOf` svg (plot "t" ps))))
          [[], [Point 0 0 0 0], [Point 5 5 5 5], [Point 1 2 1 3, Point 10 20 15 22]]
    ]
  where
    plot title ps = Plot title (Axis "x" Linear) (Axis "y" Linear) [Series "s" ps]
