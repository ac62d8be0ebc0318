-- | When each of a fixed number of parties acts next: a tree of minima in unboxed
-- memory. Unlike a calendar it forgets a time that was replaced.
--
-- O(log n) for a change, O(log n) for the earliest.
module Maru.Control.Sim.Tournament
  ( Tournament,
    newTournament,
    due,
    next,
  )
where

import Control.Monad.ST (ST)
import Data.Bits (shiftR)
import Data.Primitive.PrimArray

-- | How many leaves, and the tree: a node's children are at 2i and 2i + 1.
data Tournament s = Tournament !Int !(MutablePrimArray s Double)

-- | So many parties; none of them ever acts until 'due' says when.
newTournament :: Int -> ST s (Tournament s)
newTournament parties = do
  let leaves = until (>= max 1 parties) (* 2) 1
  tree <- newPrimArray (2 * leaves)
  setPrimArray tree 0 (2 * leaves) (1 / 0)
  pure (Tournament leaves tree)

-- | This party acts next at that time.
due :: Tournament s -> Int -> Double -> ST s ()
due (Tournament leaves tree) party time = do
  writePrimArray tree (leaves + party) time
  rise ((leaves + party) `shiftR` 1)
  where
    rise 0 = pure ()
    rise i = do
      least <- min <$> readPrimArray tree (2 * i) <*> readPrimArray tree (2 * i + 1)
      before <- readPrimArray tree i
      if before == least then pure () else writePrimArray tree i least >> rise (i `shiftR` 1)

-- | The earliest time, and whose it is: of several the first. Infinity where none acts.
next :: Tournament s -> ST s (Double, Int)
next (Tournament leaves tree) = do
  time <- readPrimArray tree 1
  let sink i
        | i >= leaves = pure (time, i - leaves)
        | otherwise = do
          left <- readPrimArray tree (2 * i)
          sink (if left == time then 2 * i else 2 * i + 1)
  sink 1
