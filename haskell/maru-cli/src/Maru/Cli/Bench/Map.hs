-- | What the map room measures. The method is in @bench\/map\/README.md@: read it
-- before the figures.
module Maru.Cli.Bench.Map
  ( mapExperiments,
  )
where

import Maru.Cli.Bench.Map.Auto (autoExperiment)
import Maru.Cli.Bench.Map.Backends (backendsExperiment)
import Maru.Cli.Bench.Map.Channel (channelExperiment)
import Maru.Cli.Bench.Map.Dispatch (dispatchExperiment)
import Maru.Cli.Bench.Map.Seedlog (seedlogExperiment)
import Maru.Cli.Bench.Map.Transport (transportExperiment)
import Maru.Cli.Room (Experiment)

mapExperiments :: [Experiment]
mapExperiments =
  [ dispatchExperiment,
    channelExperiment,
    transportExperiment,
    backendsExperiment,
    autoExperiment,
    seedlogExperiment
  ]
