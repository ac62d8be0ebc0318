-- | The conformance suite on peers of the map: as between hosts, but that the peers are threads of
-- this process ("Door"). And the books of a call, pure.
module Cluster (tests) where

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
import Test.Tasty (TestTree, testGroup)

tests :: TestTree
tests = testGroup "cluster" (Ledgers.tests : Greetings.tests : Strangers.tests : Lines.tests : map ($ Mpi) [Law.tests, Laziness.tests, Failures.tests, Life.tests, Rivals.tests])
