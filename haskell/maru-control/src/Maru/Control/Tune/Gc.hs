-- | What @maru tune gc@ searches, what it counts, and what its findings mean: flags of GHC's run-time
-- system, what that system says of a run, and the advice that follows.
module Maru.Control.Tune.Gc
  ( -- * What is searched
    Settings,
    Scope (..),
    axes,
    axisNames,
    rtsFlags,
    variables,
    shown,
    sizeOf,

    -- * What is counted
    Statistics,
    parseStatistics,
    Objective (..),
    objectives,
    objectiveName,
    cost,

    -- * What it means
    changes,
    advice,
  )
where

import Data.Char (isDigit)
import Data.List (isPrefixOf, nub, stripPrefix)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import Maru.Control.Halving (Axis (..))
import Numeric (showFFloat)
import Text.Read (readMaybe)

-- | A value of each axis; empty: as it is.
type Settings = Map String String

data Scope = Scope
  { -- | Cores that the program may use.
    scopeCores :: !Int,
    -- | Memory nodes of the machine.
    scopeNodes :: !Int,
    -- | Bytes that the allocation areas of all cores may have together.
    scopeRoom :: !Double,
    -- | The program maps with maru: its back end and its workers, too.
    scopeMaru :: !Bool,
    -- | Only these axes, if any are named.
    scopeOnly :: ![String]
  }
  deriving (Eq, Show)

-- | In the order of what they may change. The first value is none: as it is.
axes :: Scope -> [Axis String String]
axes scope = filter wanted (map asItIs everything)
  where
    wanted axis = null (scopeOnly scope) || axisName axis `elem` scopeOnly scope
    asItIs (name, values) = Axis name ("" : nub values)
    maru = scopeMaru scope || any isVariable (scopeOnly scope)
    cores = scopeCores scope
    powers = takeWhile (< cores) (iterate (* 2) 1) ++ [cores]
    everything =
      [("MARU_BACKEND", ["shm", "threads", "auto"]) | maru]
        ++ [("MARU_WORKERS", map show powers) | maru]
        ++ [("capabilities", map (("-N" ++) . show) powers) | cores > 1]
        ++ [("allocation", ["-A" ++ text | (text, kib) <- [("256k", 256), ("1m", 1024), ("4m", 4096), ("16m", 16384), ("64m", 65536), ("256m", 262144)], 1024 * kib * fromIntegral cores <= scopeRoom scope])]
        ++ [("parallel", ["-qg", "-qb"] ++ ["-qn" ++ show n | n <- powers, n > 1, n < cores]) | cores > 1]
        ++ [ ("chunks", ["-n4m"]),
             ("old", ["-F1.5", "-F4"]),
             ("collector", ["-c", "--nonmoving-gc"]),
             ("large", ["-AL256m"]),
             ("generations", ["-G3"]),
             ("hint", ["-H256m"]),
             ("idle", ["-I0"])
           ]
        ++ [("numa", ["--numa"]) | scopeNodes scope > 1]

-- | Of all axes that there are anywhere.
axisNames :: [String]
axisNames = map axisName (axes (Scope 2 2 (1 / 0) True []))

isVariable :: String -> Bool
isVariable = ("MARU_" `isPrefixOf`)

-- | For @GHCRTS@.
rtsFlags :: Settings -> [String]
rtsFlags settings = [v | (axis, v) <- Map.toList settings, not (isVariable axis), not (null v)]

-- | For the program's environment.
variables :: Settings -> [(String, String)]
variables settings = [(axis, v) | (axis, v) <- Map.toList settings, isVariable axis, not (null v)]

shown :: Settings -> String
shown settings = case map (\(axis, v) -> axis ++ "=" ++ v) (variables settings) ++ rtsFlags settings of
  [] -> "(as it is)"
  words' -> unwords words'

-- | Bytes, of a flag that begins so: @-A16m@, @-H256m@.
sizeOf :: String -> String -> Maybe Double
sizeOf prefix flag = do
  (digits, unit) <- span isDigit <$> stripPrefix prefix flag
  n <- readMaybe digits
  (n *) <$> lookup unit [("k", 1024), ("m", 1048576)]

-- Counting ------------------------------------------------------------------------

-- | What the run-time system says of a run.
type Statistics = Map String Double

-- | What it writes for @-tFILE --machine-readable@: the command line, which may have line ends of its own, then
-- a Haskell list of pairs of strings. Empty if it is something else.
parseStatistics :: String -> Statistics
parseStatistics text = case readMaybe (unlines (dropWhile (not . isPrefixOf "[(" . dropWhile (== ' ')) (lines text))) of
  Just pairs -> Map.mapMaybe readMaybe (Map.fromList (pairs :: [(String, String)]))
  Nothing -> Map.empty

-- | Of which there shall be less.
data Objective
  = -- | Seconds from start to end.
    LeastTime
  | -- | Seconds of processor time of the process itself: other work on the machine hardly changes them.
    LeastWork
  | -- | Seconds of the longest pause for a collection.
    LeastPause
  | -- | Bytes that the run-time system had from the kernel at most.
    LeastMemory
  | -- | Their product, time and memory: a tenth less of one is worth a tenth more of the other.
    LeastBoth
  deriving (Eq, Show, Enum, Bounded)

objectives :: [Objective]
objectives = [minBound ..]

objectiveName :: Objective -> String
objectiveName o = case o of
  LeastTime -> "time"
  LeastWork -> "cpu"
  LeastPause -> "pause"
  LeastMemory -> "memory"
  LeastBoth -> "both"

-- | From the seconds of a run and what the run-time system says of it.
cost :: Objective -> Double -> Statistics -> Maybe Double
cost o wall statistics = case o of
  LeastTime -> Just wall
  LeastWork -> Map.lookup "total_cpu_seconds" statistics
  LeastPause -> longestPause statistics
  LeastMemory -> memory
  LeastBoth -> (wall *) <$> memory
  where
    memory = Map.lookup "max_mem_in_use_bytes" statistics

-- | A program that never collects has none: a microsecond stands for that.
longestPause :: Statistics -> Maybe Double
longestPause statistics
  | Map.null statistics = Nothing
  | otherwise = Just (maximum (1e-6 : [v | (name, v) <- Map.toList statistics, "gen_" `isPrefixOf` name, "max_pause_seconds" `elem` suffixes name]))
  where
    suffixes name = [drop n name | n <- [0 .. length name]]

-- Meaning --------------------------------------------------------------------------

collectorShare :: Statistics -> Maybe Double
collectorShare s = do
  collecting <- Map.lookup "GC_wall_seconds" s
  whole <- Map.lookup "total_wall_seconds" s
  if whole > 0 then Just (collecting / whole) else Nothing

-- | What the collector did as it is, and with the setting that was found, in a few words.
changes :: Statistics -> Maybe Statistics -> String
changes before after = commas (mapMaybe one figures)
  where
    figures =
      [ ("collections", fmap whole . Map.lookup "num_GCs"),
        ("collector's share of the time", fmap percent . collectorShare),
        ("longest pause", fmap pause . longestPause),
        ("peak memory", fmap mebibytes . Map.lookup "max_mem_in_use_bytes")
      ]
    one (name, figure) = (\b -> name ++ " " ++ b ++ maybe "" (" -> " ++) (after >>= figure)) <$> figure before
    whole v = show (round v :: Int)
    percent v = show (round (100 * v) :: Int) ++ " %"
    pause v = showFFloat (Just 1) (1e3 * v) " ms"
    mebibytes v = show (ceiling (v / 1048576) :: Int) ++ " MiB"
    commas [] = ""
    commas (x : xs) = foldl (\a b -> a ++ ", " ++ b) x xs

-- | Sentences about what won; of nothing, about why nothing can.
advice :: Objective -> Statistics -> Maybe Settings -> [String]
advice objective before won = mapMaybe (`lookup` reasons) (concatMap families (maybe [] rtsFlags won)) ++ little ++ short
  where
    families flag = [name | (name, _) <- reasons, name `isPrefixOf` flag, longest name flag]
    -- -AL is not -A, --numa is not -n.
    longest name flag = name == maximumOn length [n | (n, _) <- reasons, n `isPrefixOf` flag]
    maximumOn f = foldr1 (\a b -> if f a >= f b then a else b)
    little = case collectorShare before of
      Just share | share < 0.02, objective == LeastTime, null won -> ["The collector takes less than 2 % of the time: none of its flags can gain more."]
      _ -> []
    -- Programs of 50 ms were seen to end at multiples of a tick.
    short = case Map.lookup "total_wall_seconds" before of
      Just whole
        | whole < 0.3,
          objective `elem` [LeastTime, LeastBoth] ->
          ["A run takes " ++ showFFloat (Just 0) (1000 * whole) " ms, and a tick of GHC's clock 10 ms: what gains less than a tick may not be seen. Give the program more work."]
      _ -> []
    reasons =
      [ ("-A", "-A: the size of a core's allocation area. A larger one is collected less often; a smaller one needs less memory and stays in the cache."),
        ("-AL", "-AL: large objects do not cause collections of the young generation."),
        ("-n", "-n: a core that has used its part up takes another chunk, so that none waits with room left."),
        ("-N", "-N: cores that run Haskell at once. More of them stop together at each collection."),
        ("-qg", "-qg: one core collects. Waking the others for it costs more than they help."),
        ("-qb", "-qb: collecting cores do not balance their work, which costs more than it helps."),
        ("-qn", "-qn: so many cores collect; the others rest meanwhile."),
        ("-F", "-F: how much larger than its live data the old generation may become: memory against time."),
        ("-c", "-c: the old generation is compacted in place: less memory, longer pauses."),
        ("--nonmoving-gc", "--nonmoving-gc: the old generation is collected beside the program: short pauses. maru's forked workers refuse it."),
        ("-G", "-G: one generation more keeps what lives a little longer out of the old one."),
        ("-H", "-H: memory that is there anyway is used for allocation."),
        ("-I", "-I0: no collection while the program waits."),
        ("--numa", "--numa: each memory node has allocation areas of its own.")
      ]
