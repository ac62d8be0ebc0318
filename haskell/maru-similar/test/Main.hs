module Main (main) where

import qualified ArchiveTest
import qualified CorpusTest
import qualified GrammarTest
import qualified IndexTest
import qualified LanguageTest
import qualified LexerTest
import qualified MutateTest
import qualified OutputTest
import qualified PairsTest
import qualified RealTest
import qualified StandingTest
import qualified StructureTest
import Test.Tasty (defaultMain, testGroup)
import qualified TilingTest
import qualified WeighTest

main :: IO ()
main = do
  real <- RealTest.tests
  archives <- ArchiveTest.tests
  defaultMain $
    testGroup
      "maru-similar"
      [LexerTest.tests, TilingTest.tests, StructureTest.tests, WeighTest.tests, StandingTest.tests, PairsTest.tests, MutateTest.tests, CorpusTest.tests, GrammarTest.tests, LanguageTest.tests, archives, IndexTest.tests, OutputTest.tests, real]
