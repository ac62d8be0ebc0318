module MemoryTest (remembering) where

import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Data.List (isInfixOf)
import qualified Data.Map.Strict as Map
import Maru.Control.Memory
import Maru.Control.Observe
import Maru.Control.Steer
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, testCase, (@?=))

remembering :: TestTree
remembering =
  testGroup
    "memory"
    [ testCase "one node: it does nothing, and says so" $
        mapM_ (refused "one node has all the memory" . memoryFor (machine [("disk", Just 0)]) (IntSet.fromList [0]) (Just CrossSocket)) [ByPolicy, Near "disk", Interleaved],
      testCase "single-socket prefers the node of the devices" $
        by SingleSocket [("disk", Just 1), ("eth0", Just 1), ("loop", Nothing)] @?= Right (Prefer 1),
      testCase "where devices are at several nodes one must be named" $ do
        refused "disk at 1, eth0 at 0); say near:DEVICE" (by SingleSocket [("disk", Just 1), ("eth0", Just 0)])
        memoryFor (machine [("disk", Just 1), ("eth0", Just 0)]) two (Just SingleSocket) (Near "eth0") @?= Right (Prefer 0),
      testCase "cross-socket takes all nodes" $
        by CrossSocket [] @?= Right (Interleave two),
      testCase "the other policies leave it to the kernel" $
        mapM_ (\policy -> refused ("under " ++ policyName policy) (by policy [("disk", Just 1)])) [PerSocket, Auto],
      testCase "what cannot be is said" $ do
        refused "there is no device disk; there are: eth0" (memoryFor (machine [("eth0", Just 0)]) two Nothing (Near "disk"))
        refused "firmware does not say" (memoryFor (machine [("disk", Nothing)]) two Nothing (Near "disk"))
        refused "no device says" (by SingleSocket [("disk", Nothing)])
        refused "node 2 has no memory" (memoryFor (machine [("disk", Just 2)]) two Nothing (Near "disk")),
      testCase "wishes by name" $ do
        map wishOf ["policy", "near:sda", "interleave"] @?= [Right ByPolicy, Right (Near "sda"), Right Interleaved]
        refused "unknown place" (wishOf "near:"),
      testCase "as the supervisor reads it" $
        map memoryWords [Prefer 3, Interleave (IntSet.fromList [0, 1, 3])] @?= ["prefer:3", "interleave:0-1,3"]
    ]
  where
    two = IntSet.fromList [0, 1]
    by policy devices = memoryFor (machine devices) two (Just policy) ByPolicy

machine :: [(String, Maybe Node)] -> Machine
machine devices = Machine (IntMap.fromList [(0, 0), (1, 1)]) Map.empty [Hardware name File node IntSet.empty [] | (name, node) <- devices]

refused :: String -> Either String a -> Assertion
refused part answer = case answer of
  Left why -> assertBool why (part `isInfixOf` why)
  Right _ -> assertBool "it was not refused" False
