-- | The rooms of this build, in the order in which they are shown. A new room
-- is a module below @Maru.Cli.Room@ and a name here.
module Maru.Cli.Rooms
  ( rooms,
  )
where

import Maru.Cli.Room (Room)
import Maru.Cli.Room.Dsm (dsmRoom)
import Maru.Cli.Room.Io (ioRoom)
import Maru.Cli.Room.Lock (lockRoom)
import Maru.Cli.Room.Map (mapRoom)
import Maru.Cli.Room.Steer (steerRoom)
import Maru.Cli.Room.Wait (waitRoom)

rooms :: [Room]
rooms = [mapRoom, lockRoom, steerRoom, ioRoom, waitRoom, dsmRoom]
