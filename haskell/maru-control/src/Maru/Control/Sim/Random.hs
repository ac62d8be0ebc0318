-- | Random numbers for simulators: one state in mutable memory, the same
-- numbers for the same seed on every machine.
module Maru.Control.Sim.Random
  ( Source,
    newSource,
    uniform,
    chance,
    exponential,
  )
where

import Control.Monad.ST (ST)
import Data.Primitive.PrimArray
import Data.Word (Word64)
import System.Random.SplitMix (mkSMGen, nextDouble, seedSMGen', unseedSMGen)

-- | State and increment of SplitMix.
newtype Source s = Source (MutablePrimArray s Word64)

newSource :: Int -> ST s (Source s)
newSource seed = do
  cells <- newPrimArray 2
  let (state, increment) = unseedSMGen (mkSMGen (fromIntegral seed))
  writePrimArray cells 0 state
  writePrimArray cells 1 increment
  pure (Source cells)

-- | In [0, 1).
uniform :: Source s -> ST s Double
uniform (Source cells) = do
  state <- readPrimArray cells 0
  increment <- readPrimArray cells 1
  let (u, next) = nextDouble (seedSMGen' (state, increment))
  writePrimArray cells 0 (fst (unseedSMGen next))
  pure u
{-# INLINE uniform #-}

-- | True with that probability.
chance :: Double -> Source s -> ST s Bool
chance p source = (< p) <$> uniform source
{-# INLINE chance #-}

-- | Of that mean.
exponential :: Double -> Source s -> ST s Double
exponential mean source = (\u -> negate mean * log (1 - u)) <$> uniform source
{-# INLINE exponential #-}
