-- | What happens next in a simulation: a binary heap of times with a number
-- each, in unboxed memory. Of equal times any may come first, but always the
-- same one.
--
-- Capacity is fixed; 'schedule' beyond it is the caller's defect and not
-- checked. O(log n) each.
module Maru.Control.Sim.Calendar
  ( Calendar,
    newCalendar,
    schedule,
    earliest,
    takeEarliest,
  )
where

import Control.Monad.ST (ST)
import Data.Primitive.PrimArray

-- | Times, events, and their number in one cell.
data Calendar s = Calendar !(MutablePrimArray s Double) !(MutablePrimArray s Int) !(MutablePrimArray s Int)

-- | Room for so many events at once.
newCalendar :: Int -> ST s (Calendar s)
newCalendar capacity = do
  size <- newPrimArray 1
  writePrimArray size 0 0
  Calendar <$> newPrimArray (max 1 capacity) <*> newPrimArray (max 1 capacity) <*> pure size

schedule :: Calendar s -> Double -> Int -> ST s ()
schedule (Calendar times events size) time event = do
  n <- readPrimArray size 0
  writePrimArray size 0 (n + 1)
  rise n
  where
    rise 0 = settle 0
    rise i = do
      let parent = (i - 1) `quot` 2
      above <- readPrimArray times parent
      if above > time then copy parent i >> rise parent else settle i
    copy from to = do
      readPrimArray times from >>= writePrimArray times to
      readPrimArray events from >>= writePrimArray events to
    settle i = writePrimArray times i time >> writePrimArray events i event

-- | Time of the next event; infinity when there is none.
earliest :: Calendar s -> ST s Double
earliest (Calendar times _ size) = do
  n <- readPrimArray size 0
  if n == 0 then pure (1 / 0) else readPrimArray times 0
{-# INLINE earliest #-}

-- | The next event leaves. Only when there is one.
takeEarliest :: Calendar s -> ST s Int
takeEarliest (Calendar times events size) = do
  event <- readPrimArray events 0
  n <- subtract 1 <$> readPrimArray size 0
  writePrimArray size 0 n
  time <- readPrimArray times n
  moved <- readPrimArray events n
  let sink i
        | left >= n = settle i
        | otherwise = do
          leftTime <- readPrimArray times left
          rightTime <- if left + 1 < n then readPrimArray times (left + 1) else pure (1 / 0)
          let child = if rightTime < leftTime then left + 1 else left
          if min leftTime rightTime < time then copy child i >> sink child else settle i
        where
          left = 2 * i + 1
      settle i = writePrimArray times i time >> writePrimArray events i moved
  sink 0
  pure event
  where
    copy from to = do
      readPrimArray times from >>= writePrimArray times to
      readPrimArray events from >>= writePrimArray events to
