-- | From the text of files below @\/proc@ and @\/sys@ to what they say. What does not
-- look as it should is left out.
--
-- Pure. O(text).
module Maru.Control.Observe.Parse
  ( parseCores,
    parseInterrupts,
    parseSoftirqs,
    parseStat,
    parseCounts,
    parseAllowed,
    parseTraffic,
    parseMounts,
    parseMountOf,
    parseDistances,
  )
where

import Data.Char (isDigit, isSpace)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import Data.List (stripPrefix)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (listToMaybe, mapMaybe)
import Maru.Control.CpuList (parseCpuList)
import Maru.Control.Observe.Types
import Maru.Control.Steer (Node)
import Text.Read (readMaybe)

-- | @\/proc\/stat@: the cores' lines.
parseCores :: String -> IntMap Ticks
parseCores text = IntMap.fromList (mapMaybe (core . words) (lines text))
  where
    core (name : values)
      | Just digits <- stripPrefix "cpu" name,
        Just cpu <- readMaybe digits,
        Just (user : nice : system : idle : waits : irq : softirq : _) <- traverse readMaybe values =
        Just (cpu, Ticks (user + nice) system irq softirq (idle + waits))
    core _ = Nothing

-- | @\/proc\/interrupts@: the numbered ones.
parseInterrupts :: String -> [IrqLine]
parseInterrupts text = case lines text of
  heads : rows | cpus <- mapMaybe cpuOf (words heads) -> mapMaybe (interrupt cpus) rows
  _ -> []
  where
    cpuOf word = stripPrefix "CPU" word >>= readMaybe
    interrupt cpus row = case break (== ':') (dropWhile isSpace row) of
      (digits, ':' : rest)
        | not (null digits),
          all isDigit digits,
          Just number <- readMaybe digits,
          (values, what) <- splitAt (length cpus) (words rest),
          Just counts <- traverse readMaybe values,
          length counts == length cpus ->
          Just (IrqLine number (IntMap.fromList (zip cpus counts)) (unwords what))
      _ -> Nothing

-- | @\/proc\/softirqs@: runs for the network and for disks on each core.
parseSoftirqs :: String -> IntMap (Double, Double)
parseSoftirqs text = case lines text of
  heads : rows ->
    IntMap.unionsWith
      add
      [ IntMap.fromList (zip (mapMaybe cpuOf (words heads)) (map kind counts))
        | name : values <- map words rows,
          Just kind <- [lookup name kinds],
          Just counts <- [traverse readMaybe values]
      ]
  [] -> IntMap.empty
  where
    cpuOf word = stripPrefix "CPU" word >>= readMaybe
    kinds = [("NET_RX:", net), ("NET_TX:", net), ("BLOCK:", disk), ("IRQ_POLL:", disk)]
    net n = (n, 0)
    disk n = (0, n)
    add (a, b) (c, d) = (a + c, b + d)

-- | The name is in parentheses and may hold anything, parentheses too.
parseStat :: String -> Maybe Stat
parseStat text = case break (== '(') text of
  (_, '(' : rest)
    | (reversed, ')' : name) <- break (== ')') (reverse rest),
      fields <- words (reverse reversed),
      parent : _ <- drop 1 fields,
      user : system : endedUser : endedSystem : _ <- drop 11 fields,
      start : _ <- drop 19 fields,
      cpu : _ <- drop 36 fields ->
      Stat (reverse name) <$> readMaybe parent <*> readMaybe user <*> readMaybe system <*> ((+) <$> readMaybe endedUser <*> readMaybe endedSystem) <*> readMaybe start <*> readMaybe cpu
  _ -> Nothing

-- | @\/proc\/PID\/task\/TID\/io@.
parseCounts :: String -> Maybe Counts
parseCounts text = Counts <$> field "rchar:" <*> field "wchar:" <*> ((+) <$> field "syscr:" <*> field "syscw:")
  where
    field name = listToMaybe [v | [n, value] <- map words (lines text), n == name, Just v <- [readMaybe value]]

-- | Of a @status@: where it may run.
parseAllowed :: String -> Maybe IntSet
parseAllowed text = listToMaybe (mapMaybe (stripPrefix "Cpus_allowed_list:") (lines text)) >>= parseCpuList

-- | @\/proc\/net\/dev@.
parseTraffic :: String -> Map String Double
parseTraffic text = Map.fromList (mapMaybe interface (lines text))
  where
    interface line = case break (== ':') (dropWhile isSpace line) of
      (name, ':' : rest)
        | Just values <- traverse readMaybe (words rest),
          received : _ <- values,
          sent : _ <- drop 8 values ->
          Just (name, received + sent)
      _ -> Nothing

-- | A @mountinfo@: the device, @major:minor@, of each mount.
parseMounts :: String -> IntMap String
parseMounts text = IntMap.fromList [(mount, device) | number : _ : device : _ <- map words (lines text), Just mount <- [readMaybe number]]

-- | A file's @fdinfo@: its mount.
parseMountOf :: String -> Maybe Int
parseMountOf text = listToMaybe [n | ["mnt_id:", value] <- map words (lines text), Just n <- [readMaybe value]]

-- | A node's @distance@: to the nodes of the machine in ascending order.
parseDistances :: [Node] -> Node -> String -> Map (Node, Node) Int
parseDistances known node text = maybe Map.empty (Map.fromList . zip [(node, other) | other <- known]) (traverse readMaybe (words text))
