-- | The seeds' figures, seed by seed.
module Maru.Bench.Evidence.All (seeds) where

import Maru.Bench.Evidence (Seed)
import Maru.Bench.Evidence.Dsm (dsm)
import Maru.Bench.Evidence.Lock (lock)
import Maru.Bench.Evidence.Map (map')
import Maru.Bench.Evidence.Steer (steer)
import Maru.Bench.Evidence.Wait (wait)

seeds :: [Seed]
seeds = [map', steer, dsm, wait, lock]
