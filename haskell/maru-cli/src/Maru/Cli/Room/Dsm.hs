-- | The dsm room: shared memory over several nodes. It says what a node would work with here, and
-- what the nodes of a launch count.
module Maru.Cli.Room.Dsm
  ( dsmRoom,
    launchCommand,
    reportLaunch,

    -- * For tests
    accessFinding,
  )
where

import Control.Exception (IOException, try)
import Maru.Cli.Installed (helperAt)
import Maru.Cli.Room
import Maru.Cli.Room.Dsm.Launch (launchCommand, reportLaunch)
import Maru.Cli.Room.Dsm.Top (launchesPage)
import Maru.Native.Probe
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import System.Timeout (timeout)

dsmRoom :: Room
dsmRoom =
  (room "dsm" "the memory of one node, and its loss")
    { roomTop = Just (pure launchesPage),
      roomChecks =
        [ Check "access detection" (accessFinding <$> probeAccess ByUserfaultfd <*> probeAccess ByMprotect),
          Check "transports" (providersFinding <$> askProviders)
        ]
    }

-- | What @maru-launch --providers@ says: a list, or why there is none.
askProviders :: IO (Either String String)
askProviders = helperAt "maru-launch" >>= either missing ask
  where
    missing path = pure (Left ("there is no " ++ path))
    ask path = do
      -- A provider may look for hardware that does not answer.
      answered <- timeout 20000000 (try (readProcessWithExitCode path ["--providers"] ""))
      pure $ case answered of
        Just (Right (ExitSuccess, said, _)) -> Right (firstLine said)
        Just (Right (_, said, complaint)) -> Left (firstLine (said ++ complaint))
        Just (Left e) -> Left (show (e :: IOException))
        Nothing -> Left "its providers did not answer in 20 s"
    firstLine = concat . take 1 . lines

-- | TCP is always there.
providersFinding :: Either String String -> Finding
providersFinding (Right names) = Finding Good ("tcp; libfabric: " ++ names) ""
providersFinding (Left why) =
  Finding Good ("tcp; not libfabric: " ++ why) "only for 'maru launch --transport ofi:PROVIDER': install libfabric1 (and libfabric-dev to build maru)"

-- | From what trying userfaultfd and mprotect said.
accessFinding :: Answer () -> Answer () -> Finding
accessFinding (Right ()) _ = Finding Good "userfaultfd: any pattern of pages, faults in the thread that makes them" ""
accessFinding (Left why) (Right ()) =
  Finding
    Doubtful
    ("mprotect (userfaultfd: " ++ why ++ ")")
    "slower, and large heaps may exceed vm.max_map_count; userfaultfd needs Linux 6.4 and a sandbox that allows it"
accessFinding (Left why) (Left whyNot) =
  Finding Bad ("neither userfaultfd (" ++ why ++ ") nor mprotect (" ++ whyNot ++ ")") "shared memory over several nodes cannot work here"
