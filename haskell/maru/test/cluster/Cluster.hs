-- | The conformance suite on peers of the map: as between hosts, but that the peers are threads of
-- this process ("Door"). And the books of a call, pure.
module Main (main) where

import qualified Failures
import qualified Greetings
import qualified Law
import qualified Laziness
import qualified Ledgers
import qualified Life
import qualified Lines
import Maru.Options (Backend (..))
import qualified Rivals
import qualified Strangers
import System.Environment (setEnv)
import Test.Tasty (defaultMain, localOption, mkTimeout, testGroup)

main :: IO ()
main = do
  -- One at a time: some tests count this process's children and descriptors.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain . localOption (mkTimeout 120000000) $
    testGroup "cluster" (Ledgers.tests : Greetings.tests : Strangers.tests : Lines.tests : map ($ Mpi) [Law.tests, Laziness.tests, Failures.tests, Life.tests, Rivals.tests])
