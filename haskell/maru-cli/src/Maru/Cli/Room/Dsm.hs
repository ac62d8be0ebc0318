-- | The dsm room: shared memory over several nodes. So far it says what a node
-- would work with here.
module Maru.Cli.Room.Dsm
  ( dsmRoom,

    -- * For tests
    accessFinding,
  )
where

import Maru.Cli.Bench.Dsm (dsmExperiments)
import Maru.Cli.Room
import Maru.Native.Probe

dsmRoom :: Room
dsmRoom =
  (room "dsm" "the memory of one node, and its loss")
    { roomExperiments = dsmExperiments,
      roomChecks = [Check "access detection" (accessFinding <$> probeAccess ByUserfaultfd <*> probeAccess ByMprotect)]
    }

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
