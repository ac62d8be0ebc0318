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
    -- | The checksum, and when the first result was there.
    preparedRun :: Mapper -> IO (Int, Int64)
  }
