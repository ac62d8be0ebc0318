-- | The lock room: who gets a contended lock next.
module Maru.Cli.Room.Lock
  ( lockRoom,
  )
where

import Maru.Cli.Bench.Lock (lockExperiments)
import Maru.Cli.Room
import Maru.Cli.Sim.Lock (lockSimulator)

lockRoom :: Room
lockRoom =
  (room "lock" "hand-overs of a lock between sockets")
    { roomExperiments = lockExperiments,
      roomSimulators = [lockSimulator]
    }
