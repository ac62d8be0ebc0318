module StandingTest (tests) where

import Data.Maybe (fromMaybe, isNothing)
import qualified Data.Vector.Unboxed as VU
import Maru.Similar.Standing
import Snippets
import Test.QuickCheck hiding (property)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Standing"
    [ testCase "the sample is everybody in a small collection, evenly spaced in a large one" $ do
        sampleOf 5 @?= [0 .. 4]
        length (sampleOf 100000) @?= sampleSize
        take 3 (sampleOf (2 * sampleSize)) @?= [0, 2, 4],
      testCase "a small collection has none" $ isNothing (standing always (rows 9 (const 0.3))) @?= True,
      testCase "one pair that stands out" $ do
        -- All at 0.10 to 0.14, but 3 and 7 at 0.9.
        let s = of' (standing always (rows 20 (\d -> if d == (3, 7) then 0.9 else 0.10 + 0.01 * fromIntegral (uncurry (+) d `mod` 5))))
        assertBool (show (z s 3 7 0.9)) (z s 3 7 0.9 > 10)
        assertBool (show (z s 3 8 0.12)) (abs (z s 3 8 0.12) < 2)
        assertBool (show (innocentAbove s 190 0.9)) (innocentAbove s 190 0.9 < 0.01),
      testCase "a pair stands out for both sides, or not at all" $ do
        -- 0 is alike to everybody; 0.6 is nothing special for it.
        let s = of' (standing always (rows 20 (\(i, j) -> if i == 0 then 0.55 + 0.01 * fromIntegral (j `mod` 3) else 0.1)))
        assertBool (show (z s 0 1 0.6)) (z s 0 1 0.6 < 5)
        z s 0 1 0.6 @?= z s 1 0 0.6
        assertBool (show (z s 1 2 0.6)) (z s 1 2 0.6 > 20),
      property "fewer innocent pairs the higher the similarity, all of them at 0" 300 monotonic
    ]
  where
    of' = fromMaybe (error "no standing")
    z s i j = fromMaybe (error "no z") . zScore s i j

always :: Int -> Int -> Bool
always _ _ = True

-- | All pairs of so many; the similarity by (lesser, greater).
rows :: Int -> ((Int, Int) -> Float) -> [(Int, VU.Vector Float)]
rows n f = [(i, VU.generate n (\j -> if i == j then 1 else f (min i j, max i j))) | i <- [0 .. n - 1]]

monotonic :: Property
monotonic = forAll (vectorOf 190 (choose (0, 1))) $ \values -> forAll (vectorOf 8 (choose (0, 1))) $ \at ->
  case standing always (rows 20 (\(i, j) -> values !! (i * (39 - i) `div` 2 + j - i - 1))) of
    Nothing -> counterexample "none" False
    Just s ->
      conjoin $
        [counterexample (show (a, b)) (innocentAbove s 190 (min a b) + 1e-9 >= innocentAbove s 190 (max a b)) | (a, b) <- zip at (drop 1 at)] ++ [innocentAbove s 190 0 === 190]
