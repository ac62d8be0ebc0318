{-# LANGUAGE OverloadedStrings #-}

-- | The ledger in the section @poll@ of a board (layout:
-- @native\/preload\/poll\/section.h@): what threads have cost that ask again and
-- again without waiting.
module Maru.Cli.Room.Wait.PollSection
  ( PollCost (..),
    pollCost,
    decodePoll,
    pollLine,
    pollJson,
  )
where

import Control.Monad (mfilter)
import Data.Aeson
import Data.Binary.Get
import Data.ByteString (ByteString)
import Data.Word (Word64)
import Maru.Cli.Output (plural, seconds, shareOf)
import Maru.Cli.Section
import Maru.Native.BoardView

-- | Sums over the threads of a run; seconds.
data PollCost = PollCost
  { -- | Programs that loaded the library.
    pollLoads :: !Word64,
    -- | Processes that had a row of empty calls; forked ones, too, which load nothing.
    pollProcesses :: !Word64,
    pollSpins :: !Word64,
    -- | Time in such rows.
    pollWaited :: !Double,
    -- | CPU time of it.
    pollCpu :: !Double,
    pollSleeps :: !Word64,
    pollSlept :: !Double,
    pollYields :: !Word64
  }
  deriving (Eq, Show)

-- | 'Nothing' where no process loaded the library.
pollCost :: Board -> Maybe PollCost
pollCost = sectionOf "poll" decodePoll

decodePoll :: ByteString -> Maybe PollCost
decodePoll = mfilter ((> 0) . pollLoads) . decoded fields
  where
    fields = PollCost <$> count <*> count <*> count <*> nanoseconds <*> nanoseconds <*> count <*> nanoseconds <*> count
    count = getWord64host

-- | One line, of what was measured.
pollLine :: PollCost -> String
pollLine c
  | pollProcesses c == 0 = "polls: none of " ++ plural (fromIntegral (pollLoads c)) "program" ++ " asked again and again without working in between; nothing was changed"
  | otherwise =
    "polls: " ++ plural (fromIntegral (pollProcesses c)) "process" ++ " waited " ++ seconds (pollWaited c) ++ " in loops of empty calls, "
      ++ shareOf (pollCpu c) (pollWaited c)
      ++ " of that on a CPU"

pollJson :: PollCost -> Value
pollJson c =
  object
    [ "loads" .= pollLoads c,
      "processes" .= pollProcesses c,
      "spins" .= pollSpins c,
      "waited_s" .= pollWaited c,
      "waited_cpu_s" .= pollCpu c,
      "sleeps" .= pollSleeps c,
      "slept_s" .= pollSlept c,
      "yields" .= pollYields c
    ]
