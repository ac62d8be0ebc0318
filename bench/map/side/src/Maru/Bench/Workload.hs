-- | What a workload is.
module Maru.Bench.Workload
  ( Work (..),
    Prepared (..),
  )
where

import Data.Int (Int64)
import Maru.Bench.Mapper (Mapper)

data Work = Work
  { workName :: !String,
    workPurpose :: !String,
    -- | Builds and evaluates the input. Size, then grain.
    workPrepare :: Int -> Int -> IO Prepared
  }

data Prepared = Prepared
  { -- | What the items cost, in a unit of their own.
    preparedCosts :: ![Double],
    -- | When there was what a program of its own would have on disk, and how long had been collected
    -- until then; nanoseconds.
    preparedSince :: !(Maybe (Int64, Int64)),
    -- | The checksum, and when the first result was there.
    preparedRun :: Mapper -> IO (Int, Int64)
  }
