module BoostTest (boosts) where

import Control.Monad.ST (runST)
import Data.List (sort)
import Data.String (fromString)
import Hedgehog (Gen, PropertyT, assert, evalMaybe, forAll, property, withTests, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.Sim.Boost
import Maru.Control.Sim.Tournament
import Maru.Wait.Policy (Policy (..))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

boosts :: TestTree
boosts =
  testGroup
    "boost"
    [ testCase "every policy is simulated, by its own name" $
        length schemes @?= length [minBound .. maxBound :: Policy] + 2,
      testCase "the daemon goes beside any policy, but not beside another daemon" $ do
        schemeNamed "coop+auto" @?= Just (Scheme Coop Auto)
        schemeNamed "pb+auto" @?= Nothing
        schemeNamed "nothing" @?= Nothing,
      law 500 "all is computed, once, and no CPU time is lost or made" $ do
        m <- forAll models
        let o = simulate m
            total = fromIntegral (modelNodes m) * outcomeWall o
            spent = outcomeComputed o + outcomeBurnt o + outcomeCosts o + outcomeHogs o + outcomeIdle o
        -- Costs that are under way at the end were counted whole, and some of them are long.
        assert (spent >= total - 1e-6 * total)
        assert (spent <= total + 1e-6 * total + fromIntegral (modelNodes m) * longest m)
        if outcomeDone o
          then do
            outcomePhases o === modelNodes m * modelJobs m * phases m
            assert (abs (outcomeComputed o - outcomeAsked o) <= 1e-3 * fromIntegral (outcomePhases o))
          else assert (outcomeComputed o <= outcomeAsked o + 1e-3),
      testCase "lowered and restored again and again, nobody is ever owed more than the kernel keeps" $ do
        let o = simulate defaultModel {modelNodes = 3, modelJobs = 3, modelWork = 5000, modelLatency = 0, modelSkew = 0, modelScheduler = longQuantum, modelScheme = Scheme LowerYield Auto, modelLimit = 15, modelSeed = 5031}
        assertBool (show (outcomeSlowdown o)) (outcomeSlowdown o < 3)
        assertBool (show (outcomeCosts o)) (outcomeCosts o < 3 * outcomeWall o),
      testCase "what a barrier's messages cost their receivers is CPU time, also of the last to come" $ do
        let o = simulate defaultModel {modelWork = 20000, modelCompute = 10, modelPattern = Barrier, modelCosts = underCard}
            spent = outcomeComputed o + outcomeBurnt o + outcomeCosts o + outcomeHogs o + outcomeIdle o
        assertBool (show (spent / outcomeWall o)) (spent <= 2 * outcomeWall o * 1.001),
      law 20 "the same seed gives the same result" $ do
        m <- forAll models
        simulate m === simulate m,
      law 40 "no policy is faster than the CPUs" $ do
        m <- forAll models
        let o = simulate m
        assert (outcomeWall o * fromIntegral (modelNodes m) >= outcomeComputed o - 1e-3),
      law 20 "alone on free nodes, every policy that stays awake is within the jitter of the ideal" $ do
        policy <- forAll (Gen.element [Spin, Yield, Adaptive, Coop])
        seed <- forAll (Gen.int (Range.linear 0 1000))
        let m = free {modelJobs = 1, modelScheme = Scheme policy NoDaemon, modelSeed = seed}
        -- The slower of two that vary by ten per cent: 1.033 on average.
        assert (outcomeSlowdown (simulate m) < 1.09),
      law 20 "spinning on one node waits for nobody" $ do
        jobs <- forAll (Gen.int (Range.linear 1 8))
        let o = simulate free {modelNodes = 1, modelJobs = jobs, modelScheme = Scheme Spin NoDaemon}
        outcomeBurnt o === 0
        assert (outcomeSlowdown o < 1.03),
      testCase "spinning is worst, worse with nodes; who sleeps stays near the ideal" $ do
        let at nodes name = maybe 0 (\s -> outcomeSlowdown (simulate defaultModel {modelNodes = nodes, modelWork = 20000, modelScheme = s, modelLimit = 12})) (schemeNamed name)
        assertBool "2 nodes" (at 2 "spin" > 2 * at 2 "block")
        assertBool "64 nodes" (at 64 "spin" > 2 * at 2 "spin")
        assertBool "block" (at 64 "block" < 1.7),
      testCase "beside a hog, spinning loses most and a lowered thread starves" $ do
        let hogs name = maybe 0 (\s -> outcomeSlowdown (simulate defaultModel {modelJobs = 3, modelHogs = 1, modelWork = 20000, modelScheme = s, modelLimit = 15})) (schemeNamed name)
        assertBool "spin" (hogs "spin" > 1.2 * hogs "block")
        assertBool "lowered" (hogs "lower-yield" > 2 * hogs "adaptive"),
      testCase "the published order: boost beats LOCAL, lowering beats neither sleeping nor giving way" $ do
        let seed name = maybe 0 (\s -> outcomeSlowdown (simulate defaultModel {modelScheduler = longQuantum, modelWork = 100000, modelLatency = 1000, modelCompute = 2000, modelCosts = underCard, modelScheme = s, modelLimit = 10})) (schemeNamed name)
        assertBool "boost" (seed "pb" < seed "spin")
        assertBool "block" (seed "block" < seed "pb+lower"),
      law 20 "a limit ends a run" $ do
        m <- forAll models
        let o = simulate m {modelLimit = 1.01}
        assert (outcomeDone o || outcomeWall o <= 1.01 * ideal m + 1e-3),
      law 50 "a tournament gives the earliest, whatever was replaced" $ do
        parties <- forAll (Gen.int (Range.linear 1 20))
        changes <- forAll (Gen.list (Range.linear 0 60) ((,) <$> Gen.int (Range.constant 0 (parties - 1)) <*> Gen.double (Range.linearFrac 0 9)))
        let found = runST $ do
              t <- newTournament parties
              mapM_ (uncurry (due t)) changes
              next t
            last' = [(time, p) | p <- [0 .. parties - 1], Just time <- [lookup p (reverse changes)]]
        if null last' then fst found === 1 / 0 else evalMaybe (firstOf (sort last')) >>= (===) found
    ]
  where
    longest m = 5 * costOthers (modelCosts m) + 10 * (costTick (modelCosts m) + costArrival (modelCosts m))
    free = defaultModel {modelCosts = freeOfCost, modelStagger = 0, modelLatency = 0, modelWork = 20000}
    phases m = max 1 (floor (modelWork m / modelCompute m + 1e-9)) :: Int
    firstOf list = case list of
      a : _ -> Just a
      [] -> Nothing

law :: Int -> String -> PropertyT IO () -> TestTree
law runs name = testPropertyNamed name (fromString name) . withTests (fromIntegral runs) . property

models :: Gen Model
models = do
  (_, scheme) <- Gen.element (schemes ++ [(name, s) | name <- ["adaptive+auto", "lower-yield+auto", "coop+auto", "spin+auto"], Just s <- [schemeNamed name]])
  nodes <- Gen.element [1, 2, 3, 8]
  jobs <- Gen.int (Range.linear 1 5)
  hogs <- Gen.element [0, 0, 1]
  compute <- Gen.element [10, 100, 1000]
  latency <- Gen.element [0, 2, 100]
  what <- Gen.enumBounded
  scheduler <- Gen.element [Fair fair, Fair fair {fairPreempts = False}, longQuantum, RoundRobin 5000]
  machine <- Gen.element [thisMachine, quietMachine, underCard, freeOfCost]
  skew <- Gen.element [0, 50, 5000]
  seed <- Gen.int (Range.linear 0 10000)
  pure
    defaultModel
      { modelNodes = nodes,
        modelJobs = jobs,
        modelHogs = hogs,
        modelWork = 100 * min 50 compute,
        modelCompute = compute,
        modelLatency = latency,
        modelPattern = what,
        modelScheduler = scheduler,
        modelScheme = scheme,
        modelCosts = machine,
        modelSkew = skew,
        modelLimit = 15,
        modelSeed = seed
      }
