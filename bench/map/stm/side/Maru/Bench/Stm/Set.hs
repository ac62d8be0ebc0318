-- | A set of numbers that threads share, whatever it is made of.
module Maru.Bench.Stm.Set
  ( Set (..),
    transactional,
  )
where

import Control.Concurrent.STM (STM)
import Maru.Bench.Stm.Tally

-- | Operations take effect at one instant each. The tally is the calling thread's.
data Set = Set
  { -- | Whether it was not there before.
    setInsert :: !(Tally -> Int -> IO Bool),
    -- | Whether it was there.
    setDelete :: !(Tally -> Int -> IO Bool),
    setMember :: !(Tally -> Int -> IO Bool),
    -- | In order; while nobody changes the set.
    setElements :: !(IO [Int])
  }

-- | A set whose operations are transactions: insert, delete, member.
transactional :: (Tally -> Int -> STM Bool) -> (Tally -> Int -> STM Bool) -> (Tally -> Int -> STM Bool) -> IO [Int] -> Set
transactional insert delete member = Set (by insert) (by delete) (by member)
  where
    by operation tally = attempt tally . operation tally
{-# INLINE transactional #-}
