-- | The conformance suite on peers of the map: as between hosts, but that the peers are threads of
-- this process ("Door"). And the books of a call, pure.
module Cluster (tests) where

import Data.List (isInfixOf)
import qualified Failures
import qualified Greetings
import qualified Law
import qualified Laziness
import qualified Ledgers
import qualified Life
import qualified Lines
import Maru.Cluster.Machines (bootSeconds)
import Maru.Native.Vm (sharedObjects)
import Maru.Options (Backend (..))
import qualified Rivals
import qualified Shelves
import qualified Strangers
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = testGroup "cluster" (Ledgers.tests : Shelves.tests : guestsLibraries : bootTimes : Greetings.tests : Strangers.tests : Lines.tests : map ($ Mpi) [Law.tests, Laziness.tests, Failures.tests, Life.tests, Rivals.tests])

-- | This program is not linked with it; glibc opens it when a thread ends by @pthread_exit@.
guestsLibraries :: TestTree
guestsLibraries = testCase "a guest has the library that the end of a thread needs" $ do
  objects <- sharedObjects
  assertBool (show objects) (any ("libgcc_s.so" `isInfixOf`) objects)

-- | Sixty-four that are emulated by two CPUs need more than the two minutes of one.
bootTimes :: TestTree
bootTimes =
  testCase "VMs that boot at once are given the time of those that share a CPU" $
    map (uncurry bootSeconds) [(1, 2), (2, 2), (3, 2), (8, 2), (64, 2), (4, 16)] @?= [120, 120, 240, 480, 1200, 120]
