-- | A simulator of the map on many hosts.
--
-- = The model
--
-- * One coordinator serves one thing at a time, in the order in which it is asked: it sends each host
--   the call and its environment, then blocks of items, and it takes results.
-- * A host asks for its next block when it begins one. It evaluates a block with all its cores, and
--   'hostsCrowd' more slowly for each core beside another, as "Maru.Control.Sim.Map.Scale" has it.
-- * A block is worth 'hostsBlock' seconds of a host, but at most a host's fair share of what is left.
-- * What is sent takes the link's latency, and its bytes the coordinator's link. Results of a block
--   are on their way when it ends.
--
-- 'Counter' takes blocks from the coordinator: a host adds to a word there by the network's own means,
-- and knows items by their number. 'SubMasters' puts the square root of the hosts below a coordinator
-- of their own, which takes items for all of them and hands their results on.
--
-- Not in the model: hosts that differ, hosts that are lost, items that differ in cost, a network that
-- others use.
--
-- Deterministic. O(b log h) for b blocks and h hosts.
module Maru.Control.Sim.Map.Hosts
  ( Hosts (..),
    defaultHosts,
    Organisation (..),
    organisationName,
    allOrganisations,
    Spread (..),
    spread,
    hostsSpeedup,
    greatestSpeedup,
    hostsAblations,
  )
where

import qualified Data.Set as Set

-- | Times in seconds.
data Hosts = Hosts
  { hostsCount :: !Int,
    hostsCores :: !Int,
    hostsItems :: !Int,
    -- | An item's cost on one core.
    hostsItem :: !Double,
    -- | How much longer an item takes for each core that works beside its own.
    hostsCrowd :: !Double,
    -- | A block, as the planner aims at it.
    hostsBlock :: !Double,
    -- | What the coordinator spends on a frame, and on an item with its result.
    hostsFrame :: !Double,
    hostsResult :: !Double,
    -- | Bytes of the environment, and of an item with its result.
    hostsEnvironment :: !Double,
    hostsBytes :: !Double,
    -- | Bytes a second of the coordinator's link, and one way through it.
    hostsRate :: !Double,
    hostsLatency :: !Double,
    -- | A host's workers are forked for a block.
    hostsStart :: !Double,
    hostsOrganisation :: !Organisation
  }
  deriving (Eq, Show)

-- | 64 hosts of 16 cores, ten items of 100 ms for each core, a link of 10 Gb/s. What a result costs
-- the coordinator was measured: 6.5 us of its processor time, 100 000 items that add one, on two and
-- three ranks of MPICH on one host of two CPUs, beside other work (2026-11-23).
defaultHosts :: Hosts
defaultHosts =
  Hosts
    { hostsCount = 64,
      hostsCores = 16,
      hostsItems = 10240,
      hostsItem = 0.1,
      hostsCrowd = 0.02,
      hostsBlock = 0.3,
      hostsFrame = 2e-5,
      hostsResult = 6.5e-6,
      hostsEnvironment = 1e6,
      hostsBytes = 1000,
      hostsRate = 1.25e9,
      hostsLatency = 3e-5,
      hostsStart = 1e-2,
      hostsOrganisation = Master
    }

-- | Who hands out.
data Organisation
  = -- | One coordinator for all hosts: what "Maru.Cluster" does.
    Master
  | SubMasters
  | Counter
  deriving (Eq, Show, Enum, Bounded)

organisationName :: Organisation -> String
organisationName o = case o of
  Master -> "master"
  SubMasters -> "sub-masters"
  Counter -> "counter"

allOrganisations :: [Organisation]
allOrganisations = [minBound ..]

-- | What came of it.
data Spread = Spread
  { spreadMakespan :: !Double,
    -- | Share of the time in which the coordinator is busy.
    spreadBusy :: !Double,
    spreadBlocks :: !Int
  }
  deriving (Eq, Show)

-- | Over one core that evaluates everything.
hostsSpeedup :: Hosts -> Spread -> Double
hostsSpeedup h s = fromIntegral (hostsItems h) * hostsItem h / max 1e-12 (spreadMakespan s)

-- | The speed-up that no number of cores exceeds: results alone keep the coordinator busy.
greatestSpeedup :: Hosts -> Double
greatestSpeedup h = hostsItem h / perItem h

-- | Of the coordinator, for each item.
perItem :: Hosts -> Double
perItem h = hostsResult h + hostsBytes h / hostsRate h

-- | Items a second of one host.
hostRate :: Hosts -> Double
hostRate h = n / (hostsItem h * (1 + hostsCrowd h * (n - 1)))
  where
    n = fromIntegral (max 1 (hostsCores h))

spread :: Hosts -> Spread
spread h = case hostsOrganisation h of
  SubMasters | groups > 1 -> run h {hostsOrganisation = Master} groups (grouped inner) (fromIntegral below * hostsBlock h)
  _ -> run h (max 1 (hostsCount h)) (hostRate h) (hostsBlock h)
  where
    groups = max 1 (floor (sqrt (fromIntegral (hostsCount h) :: Double)))
    below = (max 1 (hostsCount h) + groups - 1) `div` groups
    -- A group by itself, with its share of the items.
    inner = h {hostsCount = below, hostsItems = max 1 (hostsItems h `div` groups), hostsOrganisation = Master}
    -- Groups are as large as each other: where hosts do not divide so, each counts as less.
    grouped g = fromIntegral (hostsCount h) / fromIntegral (groups * below) * fromIntegral (hostsItems g) / max 1e-12 (spreadMakespan (spread g))

-- | What a host does next: it asks, busy until then; or so many results come.
data Event = Asks !Double | Delivers !Int
  deriving (Eq, Ord)

data State = State
  { stateEvents :: !(Set.Set (Double, Int, Event)),
    -- | Tells events of one time apart.
    stateNumber :: !Int,
    stateLeft :: !Int,
    -- | When the coordinator is free, and how long it was busy.
    stateFree :: !Double,
    stateBusy :: !Double,
    stateBlocks :: !Int
  }

-- | So many units, each of so many items a second, and blocks of so many seconds.
run :: Hosts -> Int -> Double -> Double -> Spread
run h units rate block = finish (go begun)
  where
    begun = foldl announce (State Set.empty 0 (max 0 (hostsItems h)) 0 0 0) [0 .. units - 1]
    -- The call and its environment, one unit after the other.
    announce s _ = at (stateFree s') (Asks 0) s'
      where
        s' = busy 0 (hostsFrame h + hostsEnvironment h / hostsRate h) s
    go s = case Set.minView (stateEvents s) of
      Nothing -> s
      Just ((time, _, event), later) -> go (act time event s {stateEvents = later})
    act time (Delivers n) s = busy time (fromIntegral n * perItem h) s
    act time (Asks busyUntil) s
      | stateLeft s == 0 = s
      | otherwise =
        at (ended + hostsLatency h) (Delivers n) . at (began + hostsLatency h) (Asks ended) $
          served
            { stateLeft = stateLeft s - n,
              stateBlocks = stateBlocks s + 1
            }
      where
        n = max 1 (min (stateLeft s) (min (ceiling (rate * block)) (fair (stateLeft s))))
        served = if hostsOrganisation h == Counter then s else busy time (hostsFrame h) s
        -- A word at the coordinator's network card, there and back.
        granted = if hostsOrganisation h == Counter then time + 2 * hostsLatency h else stateFree served
        began = max busyUntil (granted + hostsLatency h)
        ended = began + hostsStart h + fromIntegral n / rate
    fair left = (left + units - 1) `div` units
    busy time cost s = s {stateFree = max time (stateFree s) + cost, stateBusy = stateBusy s + cost}
    at time event s = s {stateEvents = Set.insert (time, stateNumber s, event) (stateEvents s), stateNumber = stateNumber s + 1}
    finish s = Spread (stateFree s) (stateBusy s / max 1e-12 (stateFree s)) (stateBlocks s)

-- | The model without each of its parts; the whole comes first.
hostsAblations :: Hosts -> [(String, Hosts)]
hostsAblations h =
  [ ("whole model", h),
    ("the environment is nothing", h {hostsEnvironment = 0}),
    ("frames cost nothing", h {hostsFrame = 0}),
    ("results cost nothing", h {hostsResult = 0, hostsBytes = 0}),
    ("no latency", h {hostsLatency = 0}),
    ("workers are there", h {hostsStart = 0}),
    ("cores do not disturb each other", h {hostsCrowd = 0})
  ]
