{-# LANGUAGE OverloadedStrings #-}

-- | The ledger in the section @poll@ of a board (layout:
-- @native\/preload\/poll\/section.h@): what threads have cost that ask again and
-- again without waiting.
module Maru.Cli.PollSection
  ( PollCost (..),
    pollCost,
    decodePoll,
    pollLine,
    pollJson,
  )
where

import Control.Monad (replicateM)
import Data.Aeson
import Data.Binary.Get
import Data.ByteString (ByteString)
import qualified Data.ByteString.Lazy as Lazy
import Data.List (find)
import Data.Word (Word64)
import Maru.Cli.Output (plural, seconds)
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
pollCost board = find ((== ("poll", 1)) . key) (boardSections board) >>= decodePoll . sectionBytes
  where
    key s = (sectionName s, sectionVersion s)

decodePoll :: ByteString -> Maybe PollCost
decodePoll bytes = case runGetOrFail (replicateM 8 getWord64host) (Lazy.fromStrict bytes) of
  Right (_, _, [loads, processes, spins, waited, cpu, sleeps, slept, yields])
    | loads > 0 -> Just (PollCost loads processes spins (time waited) (time cpu) sleeps (time slept) yields)
  _ -> Nothing
  where
    time ns = fromIntegral ns / 1e9

-- | One line, of what was measured.
pollLine :: PollCost -> String
pollLine c
  | pollProcesses c == 0 = "polls: none of " ++ plural (fromIntegral (pollLoads c)) "program" ++ " asked again and again without working in between; nothing was changed"
  | otherwise =
    "polls: " ++ plural (fromIntegral (pollProcesses c)) "process" ++ " waited " ++ seconds (pollWaited c) ++ " in loops of empty calls, " ++ percent
      ++ " of that on a CPU"
  where
    percent
      | pollWaited c > 0 = show (round (100 * pollCpu c / pollWaited c) :: Int) ++ " %"
      | otherwise = "0 %"

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
