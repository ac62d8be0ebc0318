-- | What an experiment is. Each has a folder of its own: what it asks, how it runs, its bar, its
-- programs. "Maru.Bench.Experiments" lists them all.
module Maru.Bench.Experiment
  ( Experiment (..),
    Effort (..),
  )
where

import Maru.Cli.Output (Figures)
import Maru.Cli.Reaper (Reaper)

-- | A measurement, for a figure or a table of its own.
data Experiment = Experiment
  { experimentName :: !String,
    experimentPurpose :: !String,
    -- | What it starts ends with us ("Maru.Cli.Reaper"); says lines of progress.
    experimentRun :: !(Reaper -> Effort -> (String -> IO ()) -> IO Figures)
  }

data Effort = Quick | Full
  deriving (Eq, Show)
