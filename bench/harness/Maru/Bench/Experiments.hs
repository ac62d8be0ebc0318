-- | Every experiment, in the order in which they are listed. A new one is a folder with a module
-- of its own, and a name here.
module Maru.Bench.Experiments
  ( experiments,
  )
where

import BoostContainers (containerExperiment)
import BoostDaemon (daemonExperiment)
import BoostJobs (jobsExperiments)
import BoostMpi (mpiExperiments)
import BoostPolls (pollsExperiments)
import DsmCheckpoint (checkpointExperiment)
import DsmCore (coreExperiments)
import DsmFetch (fetchExperiment)
import DsmNetns (netnsExperiment)
import DsmPeer (peerExperiment)
import DsmSplash (splashExperiment)
import DsmWall (wallExperiment)
import IoOverlap (overlapExperiments)
import IoReal (realExperiments)
import LockCrowd (crowdExperiment)
import LockMwrl (mwrlExperiment)
import LockOverlay (overlayExperiment)
import LockProfile (profileExperiments)
import LockPrograms (programsExperiments)
import Many (manyExperiment)
import MapAuto (autoExperiment)
import MapBackends (backendsExperiment)
import MapCalls (callsExperiment)
import MapChannel (channelExperiment)
import MapCluster (clusterExperiment)
import MapCurves (curvesExperiment)
import MapDispatch (dispatchExperiment)
import MapFib (fibExperiment)
import MapHeap (heapExperiment)
import MapPeers (peersExperiment)
import MapPrograms (programsMapExperiment)
import MapSeedlog (seedlogExperiment)
import MapStm (stmExperiment)
import MapSwing (swingExperiment)
import MapTransport (transportExperiment)
import MapTuner (tunerExperiment)
import Maru.Bench.Experiment (Experiment)
import WaitHandover (handoverExperiment)

experiments :: [Experiment]
experiments =
  concat
    [ [curvesExperiment, dispatchExperiment, callsExperiment, clusterExperiment, heapExperiment, channelExperiment, transportExperiment, backendsExperiment, autoExperiment, peersExperiment, programsMapExperiment, seedlogExperiment, fibExperiment, stmExperiment, tunerExperiment, swingExperiment],
      [crowdExperiment, mwrlExperiment, overlayExperiment],
      profileExperiments,
      programsExperiments,
      overlapExperiments,
      realExperiments,
      [handoverExperiment],
      jobsExperiments,
      [daemonExperiment],
      mpiExperiments,
      [containerExperiment],
      pollsExperiments,
      coreExperiments,
      [fetchExperiment, peerExperiment, wallExperiment, netnsExperiment, splashExperiment, checkpointExperiment],
      [manyExperiment]
    ]
