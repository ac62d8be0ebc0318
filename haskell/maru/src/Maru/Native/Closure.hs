-- | Heap objects that cannot leave their process, for people. /Internal/.
module Maru.Native.Closure
  ( closureName,
  )
where

import Data.Int (Int64)

-- | By closure type, as GHC 9.0 numbers them.
closureName :: Int64 -> String
closureName t
  | t >= 8 && t <= 14 || t == 25 = "a function"
  | t == 23 = "an interpreted function"
  | t == 39 || t == 40 = "an MVar"
  | t == 41 = "a TVar"
  | t `elem` [43, 44, 59, 60] = "a mutable array"
  | t == 47 || t == 48 = "an IORef or STRef"
  | t == 49 = "a weak pointer"
  | t == 50 || t == 51 = "a stable name or another run-time object"
  | t == 52 || t == 53 = "a thread"
  | t == 63 = "a compact region"
  | t == 64 = "foreign memory"
  | t == 65 = "a stable pointer"
  | t == 66 = "a foreign function made at run time"
  | otherwise = "a run-time object of type " <> show t
