{-# LANGUAGE OverloadedStrings #-}

-- | The page of @maru top@ that shows input and output: cores, threads and their
-- devices, interrupts, and what is far from what.
module Maru.Cli.Room.Steer.Page
  ( ioPage,
    observationJson,
  )
where

import Data.Aeson (Value, object, (.=))
import qualified Data.IntMap.Strict as IntMap
import Data.List (intercalate, sortOn)
import qualified Data.Map.Strict as Map
import Data.Ord (Down (..))
import Maru.Cli.Machine
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Room.Steer.Watch
import Maru.Cli.RunSection
import Maru.Control.Observe
import Maru.Control.Steer (Device (..))
import Maru.Native.BoardView
import Maru.View.Plain
import Numeric (showFFloat)

ioPage :: IO TopPage
ioPage = pageWith <$> newWatch

pageWith :: Watch -> TopPage
pageWith watch =
  TopPage
    { pageKeys = [('i', "input and output: all lines")],
      pageStart = False,
      pageKey = const not,
      pageTurn = \_ _ -> pure (),
      pageSee = see watch,
      pageDraw = \every before now -> draw every (fst now) (observed before now),
      pageJson = \before now -> if null (snapshotThreads (snd now)) then Nothing else Just (observationJson (fst now) (observed before now))
    }
  where
    observed before (machine, now) = case before of
      Just (_, (_, old)) -> between machine old now
      Nothing -> sinceStart machine now

-- | The processes of a board's run; its owner and those below where there is none.
see :: Watch -> Board -> IO (Machine, Snapshot)
see watch board = do
  roots <- ownRoots
  machine <- readMachine (rootMachine roots)
  parentOf <- parents roots
  let owner = boardOwner board
      -- The supervisor adopts the run's orphans.
      tree = case runSection board of
        Just _ -> filter (/= owner) (treeOf parentOf [] owner)
        Nothing -> treeOf parentOf [] owner
  now <- snapshotOf watch roots tree
  pure (machine, now)

sourceLine :: Observation -> String
sourceLine seen = case observedUncounted seen of
  Nothing -> "from /proc, /sys and BPF"
  Just why -> "from /proc and /sys (BPF not used: " ++ why ++ ")"

draw :: Bool -> Machine -> Observation -> [Block]
draw every machine seen
  | null (observedThreads seen) = []
  | otherwise =
    [ Line ("io " ++ sourceLine seen ++ ": " ++ intercalate ", " facts),
      Tabular (Table [(R, "core"), (R, "node"), (R, "user"), (R, "system"), (R, "irq"), (R, "softirq")] (map core cores)),
      Tabular (Table [(R, "thread"), (L, "name"), (R, "core"), (R, "node"), (R, "user"), (R, "system"), (R, "read/s"), (R, "written/s"), (R, "calls/s"), (L, "device"), (R, "its node")] (map thread threads))
    ]
      ++ [Tabular (Table [(L, "interrupts"), (R, "node"), (R, "core"), (R, "a second")] interrupts) | not (null interrupts)]
  where
    few n list = if every then list else take n list
    facts =
      [ maybe "what is remote is not known" (\r -> percent 0 r ++ " of the placed bytes are remote") (observedRemote seen),
        maybe "no gain predicted" (\g -> "predicted gain " ++ percent 0 g) (predictedGain machine seen)
      ]
    cores = sortOn fst (few 8 (sortOn (Down . busy . snd) (IntMap.toList (observedCores seen))))
    busy u = useUser u + useSystem u + useIrq u + useSoftirq u
    core (cpu, u) = [show cpu, node (machineNode machine cpu)] ++ map (percent 0) [useUser u, useSystem u, useIrq u, useSoftirq u]
    threads = few 10 (sortOn (\u -> Down (usedUser u + usedSystem u, usedRead u + usedWritten u)) (observedThreads seen))
    thread u =
      [show (threadId t), plain (statName (threadStat t)), show (statCpu (threadStat t)), node (usedNode u), percent 0 (usedUser u), percent 0 (usedSystem u)]
        ++ map bytes [usedRead u, usedWritten u]
        ++ [maybe "?" (const (showFFloat (Just 0) (usedCalls u) "")) (threadCounts t), deviceText u, node (usedDeviceNode u)]
      where
        t = usedThread u
    interrupts = few 8 (sortOn (\row -> Down (length (last' row), last' row)) [[name, node (hardwareOf machine name >>= hardwareNode), show cpu, showFFloat (Just 0) n ""] | (name, rates) <- Map.toList (observedInterrupts seen), (cpu, n) <- IntMap.toList rates, n >= 0.5])
    last' = concat . drop 3
    node = maybe "?" show

deviceText :: ThreadUse -> String
deviceText u = case (usedDevice u, usedHardware u) of
  (Nothing, _) -> "-"
  (Just device, []) -> kindName device
  (Just Net, _) -> kindName Net
  (Just File, names) -> intercalate "," names

kindName :: Device -> String
kindName device = if device == File then "file" else "network"

bytes :: Double -> String
bytes n
  | n >= 1e9 = showFFloat (Just 1) (n / 1e9) " GB"
  | n >= 1e6 = showFFloat (Just 1) (n / 1e6) " MB"
  | n >= 1e3 = showFFloat (Just 1) (n / 1e3) " kB"
  | otherwise = showFFloat (Just 0) n " B"

observationJson :: Machine -> Observation -> Value
observationJson machine seen =
  object
    [ "source" .= maybe "procfs and bpf" (const ("procfs" :: String)) (observedUncounted seen),
      "bpf" .= maybe "used" ("not used: " ++) (observedUncounted seen),
      "seconds" .= observedSeconds seen,
      "cores" .= [object ["core" .= cpu, "node" .= machineNode machine cpu, "user" .= useUser u, "system" .= useSystem u, "irq" .= useIrq u, "softirq" .= useSoftirq u] | (cpu, u) <- IntMap.toList (observedCores seen)],
      "threads"
        .= [ object
               [ "tid" .= threadId t,
                 "pid" .= threadProcess t,
                 "name" .= statName (threadStat t),
                 "core" .= statCpu (threadStat t),
                 "node" .= usedNode u,
                 "user" .= usedUser u,
                 "system" .= usedSystem u,
                 "read_bytes_per_s" .= usedRead u,
                 "written_bytes_per_s" .= usedWritten u,
                 "calls_per_s" .= (usedCalls u <$ threadCounts t),
                 "kind" .= fmap kindName (usedDevice u),
                 "devices" .= usedHardware u,
                 "device_node" .= usedDeviceNode u,
                 "counted_bytes_per_s" .= usedMoved u
               ]
             | u <- observedThreads seen,
               let t = usedThread u
           ],
      "interrupts" .= [object ["device" .= name, "core" .= cpu, "per_s" .= n] | (name, rates) <- Map.toList (observedInterrupts seen), (cpu, n) <- IntMap.toList rates],
      "network_bytes_per_s" .= observedTraffic seen,
      "remote_share" .= observedRemote seen,
      "predicted_gain" .= predictedGain machine seen
    ]
