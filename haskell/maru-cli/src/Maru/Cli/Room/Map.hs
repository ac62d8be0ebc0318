-- | The map room: parallel map on processes.
module Maru.Cli.Room.Map
  ( mapRoom,
  )
where

import Control.Exception (SomeException, fromException, try)
import Maru (parMapM)
import Maru.Cli.Room
import Maru.Cli.Room.Map.Gc (gcTuner)
import Maru.Cli.Room.Map.Page (mapPage)
import Maru.Cli.Room.Map.Sim (mapSimulator)
import Maru.Cli.Room.Map.StmSim (stmSimulator)
import Maru.Cluster.Machines (describeMachines)
import Maru.Failure (Unavailable (..))
import Maru.Native.Probe
import qualified Maru.Native.Region as Region
import Maru.Options
import System.Posix.Resource

mapRoom :: Room
mapRoom =
  (room "map" "one heap and one garbage collector for all cores")
    { roomTop = Just (pure mapPage),
      roomChecks = [Check "memfd and seals" memfd, Check "pidfd" pidfd, Check "forked workers" forked, Check "zero-copy results" zeroCopy, Check "micro-VMs" machines],
      roomSimulators = [mapSimulator, stmSimulator],
      roomTuners = [gcTuner]
    }

-- ---- doctor -------------------------------------------------------------

memfd :: IO Finding
memfd = either bad (const (Finding Good "shared memory without a name, sealed against resizing" "")) <$> probeMemfd
  where
    bad why = Finding Bad why "workers answer through memfd; a sandbox or an old kernel (before 3.17) refuses it"

pidfd :: IO Finding
pidfd = either bad (const (Finding Good "a worker's death is seen at once" "")) <$> probePidfd
  where
    bad why = Finding Doubtful why "deaths are looked for instead; pidfd_open needs Linux 5.3, a sandbox may forbid it"

-- | By doing it: many things may be refused to a process that has forked.
forked :: IO Finding
forked = either bad (const (Finding Good "a map on a worker process gave its result" "")) <$> try (parMapM oneWorker succ [1 :: Int])
  where
    bad :: SomeException -> Finding
    oneWorker = defaultOptions {backend = Shm, workers = Workers 1}
    bad e = Finding Bad (maybe (show e) unavailableWhy (fromException e)) "maps that choose by themselves go on in the caller, on one core; back ends of threads need -threaded and +RTS -N"

machines :: IO Finding
machines = either none (\what -> Finding Good ("MARU_VMS: " <> what) "") <$> try describeMachines
  where
    -- Few want them.
    none e = Finding Good ("not here: " <> unavailableWhy e <> "; " <> unavailableRemedy e) ""

zeroCopy :: IO Finding
zeroCopy = do
  possible <- Region.zeroCopy
  longest <- softLimit <$> getResourceLimit ResourceFileSize
  pure $ case (possible, longest) of
    (Left why, _) -> slower why
    (_, ResourceLimit bytes)
      | bytes < fromIntegral mib * 1024 * 1024 ->
        Finding Doubtful ("`ulimit -f` is below the " <> show mib <> " MiB of regionMiB") "a map's results cross as copies; everything works"
    _ -> Finding Good "results cross by address, and a pool's workers stay (in programs built like this command)" ""
  where
    mib = regionMiB defaultOptions
    slower why = Finding Doubtful why "results cross as copies, and a pool forks for each call; everything works"
