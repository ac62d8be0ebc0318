-- | The picture of pages by node.
module HeatMapTest (heatMaps) where

import Data.List (isInfixOf)
import Data.String (fromString)
import Hedgehog (assert, forAll, property, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Control.Launch.Heat (Told (..))
import Maru.View.HeatMap
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

heatMaps :: TestTree
heatMaps =
  testGroup
    "heat map of pages by node"
    [ testPropertyNamed "no fault is lost, no column too many" (fromString "cells") $
        property $ do
          most <- forAll (Gen.int (Range.linear 1 20))
          let figure = Gen.int . Range.linear 0
          told <- forAll (Gen.list (Range.linear 0 60) (ToldPage <$> figure 5 <*> figure 100 <*> figure 9 <*> figure 9 <*> pure 0))
          let shown = cells most told
          sum (map cellFaults shown) === sum [r + w | ToldPage _ _ r w _ <- told]
          assert (all ((< most) . cellColumn) shown && all (\c -> cellFrom c <= cellTo c) shown),
      testCase "pages in a row of columns" $
        cells 2 [ToldPage 1 9 1 0 0, ToldPage 0 4 0 2 0, ToldPage 0 5 1 1 0]
          @?= [Cell 0 0 4 5 4, Cell 1 1 9 9 1],
      testCase "nothing asked for, no picture" $ heatMap (const []) [ToldNode 0 1 1 0 0 0] @?= [],
      testCase "what a site is called is escaped" $
        assertBool "escaped" (not ("<b>" `isInfixOf` unlines (heatMap (const ["<b>"]) [ToldPage 0 1 1 0 0])))
    ]
