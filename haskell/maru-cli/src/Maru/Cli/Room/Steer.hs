-- | The steer room: which cores serve input and output.
module Maru.Cli.Room.Steer
  ( steerRoom,
  )
where

import Maru.Cli.Room
import Maru.Cli.Sim.Io (ioSimulator)
import Maru.Cli.Steer.Page (ioPage)

steerRoom :: Room
steerRoom = (room "steer" "the path of input and output") {roomSimulators = [ioSimulator], roomTop = Just ioPage}
