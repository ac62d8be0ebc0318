-- | On which nodes a program's memory is to be. Pure.
module Maru.Control.Memory
  ( Wish (..),
    wishOf,
    wishNames,
    Memory (..),
    memoryWords,
    memoryFor,
  )
where

import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (intercalate, nub, sort, stripPrefix)
import Data.Maybe (mapMaybe)
import Maru.Control.CpuList
import Maru.Control.Observe
import Maru.Control.Steer

-- | What is asked for.
data Wish
  = -- | Near the devices under 'SingleSocket', on all nodes under 'CrossSocket'; the others leave it
    -- where the kernel puts it.
    ByPolicy
  | -- | Near the device of this name.
    Near !String
  | -- | A page on each node in turn.
    Interleaved
  deriving (Eq, Show)

wishNames :: [String]
wishNames = ["policy", "near:DEVICE", "interleave"]

wishOf :: String -> Either String Wish
wishOf text
  | text == "policy" = Right ByPolicy
  | text == "interleave" = Right Interleaved
  | Just name <- stripPrefix "near:" text, not (null name) = Right (Near name)
  | otherwise = Left ("unknown place for memory '" ++ text ++ "'; known: " ++ intercalate ", " wishNames)

-- | What is to be set.
data Memory = Prefer !Node | Interleave !IntSet
  deriving (Eq, Show)

-- | As the supervisor reads it.
memoryWords :: Memory -> String
memoryWords memory = case memory of
  Prefer node -> "prefer:" ++ show node
  Interleave set -> "interleave:" ++ showCpuList set

-- | For a program that is steered by this policy ('Nothing': by none), on a machine where these
-- nodes have memory. 'Left': why nothing is set.
memoryFor :: Machine -> IntSet -> Maybe Policy -> Wish -> Either String Memory
memoryFor machine memory policy wish
  | IntSet.size memory < 2 = Left "it does nothing: one node has all the memory"
  | otherwise = case wish of
    Interleaved -> Right (Interleave memory)
    Near name -> nodeNear machine name >>= prefer
    ByPolicy -> case policy of
      Just CrossSocket -> Right (Interleave memory)
      Just SingleSocket -> case nub (mapMaybe hardwareNode (machineHardware machine)) of
        [node] -> prefer node
        [] -> Left "no device says at which node it is"
        _ -> Left ("devices are at several nodes (" ++ intercalate ", " (sort [hardwareName h ++ " at " ++ show n | h <- machineHardware machine, Just n <- [hardwareNode h]]) ++ "); say near:DEVICE")
      _ -> Left ("memory stays where the kernel puts it" ++ maybe "; there is no policy" ((" under " ++) . policyName) policy)
  where
    prefer node
      | IntSet.member node memory = Right (Prefer node)
      | otherwise = Left ("node " ++ show node ++ " has no memory")

-- | The node of a device.
nodeNear :: Machine -> String -> Either String Node
nodeNear machine name = case hardwareOf machine name of
  Nothing -> Left ("there is no device " ++ name ++ "; there are: " ++ unwords (sort (map hardwareName (machineHardware machine))))
  Just h -> maybe (Left ("firmware does not say at which node " ++ name ++ " is")) Right (hardwareNode h)
