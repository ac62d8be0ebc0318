{-# LANGUAGE OverloadedStrings #-}

-- | The prices in "Maru.Backend.Auto.Model", fitted to what @maru bench many@ and
-- @maru bench map\/backends@ have measured; and what 'Maru.Auto' would have chosen there, beside
-- the best of ours.
--
-- Pure but for reading the files. What neither experiment measures of a workload stands here:
-- the share of an item that a second walk through its result takes, and what an item allocates.
module Maru.Bench.AutoFit
  ( Cell (..),
    readCells,
    refit,
    Choice (..),
    choices,
    fitJson,
  )
where

import Data.Aeson
import qualified Data.Aeson.Key as Key
import qualified Data.Aeson.KeyMap as KeyMap
import qualified Data.ByteString.Lazy as Lazy
import Data.List (sort, sortOn, stripPrefix)
import Data.Maybe (fromMaybe, listToMaybe, mapMaybe)
import qualified Data.Text as Text
import Maru.Backend.Auto.Model
import Text.Read (readMaybe)

-- | A workload by one way on one machine.
data Cell = Cell
  { cellMachine :: !Int,
    cellWork :: !String,
    -- | A mapper of @maru-bench-map@, its workers or capabilities, flags.
    cellWay :: !String,
    cellCount :: !Int,
    cellFlags :: ![String],
    -- | Median wall time by the number of items, in nanoseconds.
    cellNs :: !Double
  }
  deriving (Eq, Show)

-- | 'Left': why the file is none of theirs.
readCells :: FilePath -> IO (Either String [Cell])
readCells path = do
  read' <- eitherDecode <$> Lazy.readFile path
  pure $ do
    value <- read' :: Either String Value
    let cells = maybe [] (\n -> concatMap (cellsOf n) (tables value)) (machine value)
    if null cells then Left (path <> " holds no table of maru bench many or map/backends") else Right cells
  where
    machine v = path' ["machine", "cpus"] v >>= whole
    tables v =
      [(Nothing, rounds) | part <- list ["data", "parts"] v, path' ["part"] part == Just (String "map"), Just rounds <- [path' ["measured"] part]]
        ++ [(Just (name, size), rounds) | load <- list ["data", "workloads"] v, Just (String name) <- [path' ["workload"] load], Just size <- [path' ["size"] load >>= whole], Just rounds <- [path' ["measured"] load]]
    list keys v = case path' keys v of
      Just (Array items) -> foldr (:) [] items
      _ -> []

path' :: [Key.Key] -> Value -> Maybe Value
path' keys v = case (keys, v) of
  ([], _) -> Just v
  (k : rest, Object o) -> KeyMap.lookup k o >>= path' rest
  _ -> Nothing

whole :: Value -> Maybe Int
whole v = round <$> numberOf v

numberOf :: Value -> Maybe Double
numberOf v = case fromJSON v of
  Success x -> Just x
  Error _ -> Nothing

-- | Of one table: of a workload and its size, or of those of @many@, whose names begin with it.
cellsOf :: Int -> (Maybe (Text.Text, Int), Value) -> [Cell]
cellsOf cpus (load, measured) =
  [ Cell cpus work way count flags (median times / fromIntegral items)
    | name <- names,
      let times = [ns | sample <- samples, Just ns <- [KeyMap.lookup name sample >>= path' ["meter", "wall_ns"] >>= numberOf]],
      not (null times),
      (work, items, rest) <- place name,
      Just (way, count, flags) <- [wayOf cpus rest]
  ]
  where
    rounds = case path' ["rounds"] measured of
      Just (Array rs) -> foldr (:) [] rs
      _ -> []
    samples = [o | r <- rounds, Just (Object o) <- [path' ["samples"] r]]
    names = concatMap KeyMap.keys (take 1 samples)
    place name = case load of
      Just (work, size) -> [(Text.unpack work, itemsOf (Text.unpack work) size, Key.toString name)]
      Nothing -> [(work, itemsOf work size, rest) | (work, size) <- sizes, Just rest <- [stripPrefix (work <> ", ") (Key.toString name)]]
    -- Those of "ManyParts".
    sizes = [("build", 192), ("similar", 240), ("grain", 30000), ("ints", 512)]
    -- All pairs are compared by rows.
    itemsOf work size = if work == "similar" then size - 1 else size

-- | @shm 16@, @stm 16 -N16 -A64m -n4m@, @map@; and without a count, of a machine's whole.
wayOf :: Int -> String -> Maybe (String, Int, [String])
wayOf cpus name = case words name of
  way : count : flags | Just n <- readMaybe count, way `elem` known' -> Just (way, n, flags)
  way : flags | way `elem` known' -> Just (way, if way `elem` ["map", "sequential"] then 1 else cpus, flags)
  _ -> Nothing
  where
    known' = ["map", "sequential", "shm", "sockets", "sparks", "stm", "threads"]

median :: [Double] -> Double
median xs = case drop ((length xs - 1) `div` 2) (sort xs) of
  m : _ -> m
  [] -> 0

-- What is known of a workload ------------------------------------------------

-- | Share of an item's time that walking its result takes, and bytes that it allocates:
-- medians of 40 items with GHC 9.0.2, processor time.
knownOf :: String -> Maybe (Double, Double)
knownOf work = lookup work [("build", (0.0004, 26.0e6)), ("similar", (0, 8.7e6)), ("grain", (0, 0)), ("ints", (0.17, 1.92e6))]

-- | What measuring an item in the caller shows.
sampleIn :: [Cell] -> Int -> String -> Maybe Sample
sampleIn cells cpus work = do
  (share, bytes) <- knownOf work
  alone <- timeOf cells cpus work "map" 1 []
  pure (Sample [alone, alone] (share * alone) bytes 0)

timeOf :: [Cell] -> Int -> String -> String -> Int -> [String] -> Maybe Double
timeOf cells cpus work way count flags =
  case [cellNs c | c <- cells, cellMachine c == cpus, cellWork c == work, cellWay c == way, cellCount c == count, cellFlags c == flags] of
    ns : _ -> Just ns
    [] -> Nothing

-- | Bytes of a capability's allocation area; without a flag those of GHC 9.0.2, which measured.
areaOf :: [String] -> Double
areaOf flags = fromMaybe 1048576 (listToMaybe [1048576 * mib | flag <- flags, Just size <- [stripPrefix "-A" flag], Just mib <- [readMaybe (takeWhile (/= 'm') size)]])

-- The fit --------------------------------------------------------------------

-- | What the model says of a cell, where it says anything.
told :: [Cell] -> Prices -> Cell -> Maybe Double
told cells p c = do
  sample <- sampleIn cells (cellMachine c) (cellWork c)
  case cellWay c of
    "shm" -> Just (expectedBy p (Means (cellCount c) 1 area) sample OnWorkers)
    way | way `elem` ["stm", "threads"] -> Just (expectedBy p (Means 1 (cellCount c) area) sample OnCapabilities)
    _ -> Nothing
  where
    area = areaOf (cellFlags c)

-- | Squares of the logarithms of what the model says by what was measured, summed.
off :: [Cell] -> Prices -> Double
off cells p = sum [log (ns / cellNs c) ^ (2 :: Int) | c <- cells, Just ns <- [told cells p c]]

-- | The prices that are least off, by steps along one of them at a time. From the same start, so
-- the same for the same cells.
refit :: [Cell] -> Prices
refit cells = go 1.5 (Prices 10 2 2 5000 200000 16 0.01)
  where
    go step p
      | step < 1.002 = p
      | off cells q < off cells p - 1e-9 = go step q
      | otherwise = go (sqrt step) p
      where
        q = foldl try p [0 .. 6]
        try from k = case sortOn (off cells) [from, scaled k step from, scaled k (1 / step) from] of
          best : _ -> best
          [] -> from

scaled :: Int -> Double -> Prices -> Prices
scaled k by p = case k of
  0 -> p {priceCarry = by * priceCarry p}
  1 -> p {priceTake = by * priceTake p}
  2 -> p {priceRead = by * priceRead p}
  3 -> p {priceSpark = by * priceSpark p}
  4 -> p {priceStop = by * priceStop p}
  5 -> p {priceSurvivor = by * priceSurvivor p}
  _ -> p {priceCrowd = by * priceCrowd p}

-- What it would choose -------------------------------------------------------

-- | On all of a machine's cores, with these flags: what it takes, that by the best of ours (at
-- most 1), and which that is.
data Choice = Choice
  { choiceMachine :: !Int,
    choiceWork :: !String,
    choiceFlags :: ![String],
    choiceMade :: !Decision,
    choiceSpeed :: !Double,
    choiceBest :: !String
  }
  deriving (Eq, Show)

-- | As of a long list beside a small heap. 'Maru.Auto' takes 'Maru.Threads' for capabilities; where
-- these were not measured, 'Maru.Stm', which is no different. A program of one capability has no
-- flags; one of several may choose what needs none, too.
choices :: [Cell] -> [Choice]
choices cells =
  [ Choice cpus work flags made (best / took) name
    | cpus <- distinct (map cellMachine cells),
      work <- distinct [cellWork c | c <- cells, cellMachine c == cpus],
      flags <- [] : distinct [cellFlags c | c <- cells, cellMachine c == cpus, cellWay c `elem` ["stm", "threads"]],
      Just sample <- [sampleIn cells cpus work],
      let means = Means cpus (if null flags then 1 else cpus) (areaOf flags)
          made = decide means 760000 sample 100000
          alone = [("map", 1, []), ("sequential", 1, [])]
          ways = alone ++ [("shm", cpus, []), ("sockets", cpus, [])] ++ [(way, cpus, flags) | not (null flags), way <- ["sparks", "stm", "threads"]]
          times = [(ns, way) | (way, n, fs) <- ways, ns <- of' [(way, n, fs)]]
          of' = mapMaybe (\(way, n, fs) -> timeOf cells cpus work way n fs),
      (best, name) : _ <- [sort times],
      took : _ <- [of' (case made of InCaller -> [("map", 1, [])]; OnWorkers -> [("shm", cpus, [])]; OnCapabilities -> [("threads", cpus, flags), ("stm", cpus, flags)])]
  ]
  where
    distinct :: Eq a => [a] -> [a]
    distinct = foldr (\x seen -> if x `elem` seen then seen else x : seen) []

-- | The fit of these cells, what the model says of each by what was measured, and the choices.
fitJson :: [Cell] -> Value
fitJson cells =
  object
    [ "prices" .= pricesJson prices,
      "fitted" .= pricesJson found,
      "told_by_measured" .= object [Key.fromString (unwords ([show (cellMachine c), "CPUs:", cellWork c, cellWay c, show (cellCount c)] ++ cellFlags c)) .= (ns / cellNs c) | c <- cells, Just ns <- [told cells found c]],
      "choices"
        .= [ object ["cpus" .= choiceMachine c, "workload" .= choiceWork c, "flags" .= unwords (choiceFlags c), "chosen" .= show (choiceMade c), "speed_of_best" .= choiceSpeed c, "best" .= choiceBest c]
             | c <- choices cells
           ]
    ]
  where
    found = refit cells
    pricesJson p =
      object
        [ "carry" .= priceCarry p,
          "take" .= priceTake p,
          "read" .= priceRead p,
          "spark" .= priceSpark p,
          "stop" .= priceStop p,
          "survivor" .= priceSurvivor p,
          "crowd" .= priceCrowd p
        ]
