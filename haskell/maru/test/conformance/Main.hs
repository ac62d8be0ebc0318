-- | One suite for every back end: each must be @map@, lazily, whatever fails.
--
-- @MARU_TEST_SCALE=n@ does n times as much; @MARU_TEST_BACKENDS=shm,threads@ picks
-- back ends.
module Main (main) where

import qualified Automatic
import qualified Cluster
import qualified Failures
import qualified Law
import qualified Laziness
import qualified Life
import Maru.Options (backendName)
import qualified Rivals
import qualified Shapes
import Subject (subjects)
import System.Environment (setEnv)
import Test.Tasty (defaultMain, localOption, mkTimeout, testGroup)

main :: IO ()
main = do
  -- One at a time: some tests count this process's children and descriptors.
  setEnv "TASTY_NUM_THREADS" "1"
  backends <- subjects
  defaultMain . localOption (mkTimeout 120000000) $
    testGroup
      "conformance"
      ( Cluster.tests :
        Automatic.tests :
          [ testGroup (backendName b) (map ($ b) [Law.tests, Laziness.tests, Failures.tests, Life.tests, Rivals.tests, Shapes.tests])
            | b <- backends
          ]
      )
