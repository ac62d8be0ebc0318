-- | What a person sees: text that does no harm, and the screen of @maru top@.
module Main (main) where

import HeatMapTest (heatMaps)
import Maru.View.Plain (plain)
import SimilarTest (comparisons)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import TopTest (screens)

main :: IO ()
main = defaultMain $ testGroup "maru-view" [texts, comparisons, heatMaps, screens]

texts :: TestTree
texts =
  testGroup
    "plain text"
    [ testCase "a command cannot turn a screen around, by any character that a terminal obeys" $ do
        plain "a\x9b\&31m \x202e\&evil\x202c \x200b\x2066\xfeff\xad\x2028|\xdc9b|\xe0021" @?= "a?31m ?evil? ?????|?|?"
        plain "grün, 마루, \x1f3e0" @?= "grün, 마루, \x1f3e0"
    ]
