{-# LANGUAGE OverloadedStrings #-}

-- | The profile of a run's mutexes: what its threads recorded, merged, named and judged.
module Maru.Cli.Room.Lock.Profile
  ( LockReport (..),
    MutexReport (..),
    SiteReport (..),
    Counts (..),
    Shares (..),
    readReport,
    profileLines,
    profileTable,
    profileJson,

    -- * Pure parts
    mergeProfile,
    sharesOf,
    seriesOf,
    waitsOf,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, mapMaybe)
import Data.Ord (Down (..))
import Data.Text (Text)
import Data.Word (Word32, Word64)
import Maru.Cli.Output (Align (..), Table (..), plural, seconds)
import Maru.Cli.Room (Block (..))
import Maru.Cli.Room.Lock.Symbols
import Maru.Control.Histogram
import Maru.Native.LockProfile
import Numeric (showFFloat, showHex)

-- | Of a mutex, or of a mutex and a site.
data Counts = Counts
  { countAcquisitions, countContended, countReacquired, countReentered, countRefused, countTimedOut :: !Word64,
    countNear, countFar, countBypass :: !Word64,
    -- | The waits are of those that waited.
    countWait, countHold :: !Times,
    -- | Threads at a time.
    countThreads :: !Int
  }
  deriving (Eq, Show)

instance Semigroup Counts where
  Counts a b c d e f g h i w1 h1 t <> Counts a' b' c' d' e' f' g' h' i' w2 h2 t' =
    Counts (a + a') (b + b') (c + c') (d + d') (e + e') (f + f') (g + g') (h + h') (max i i') (w1 <> w2) (h1 <> h2) (t + t')

-- | How acquisitions were shared among the threads that wanted the mutex at the same time.
data Shares = Shares
  { -- | Milliseconds.
    sharesWindow :: !Int,
    sharesWindows :: !Word64,
    -- | Jain's index: mean and least.
    sharesMean, sharesLeast :: !Double,
    sharesLate :: !Word64
  }
  deriving (Eq, Show)

data SiteReport = SiteReport {sitePlace :: !Place, siteCounts :: !Counts}
  deriving (Eq, Show)

data MutexReport = MutexReport
  { reportProcess :: !Process,
    -- | 'Nothing': others, all that found no row of their own.
    reportName :: !(Maybe String),
    reportKind :: !String,
    reportCounts :: !Counts,
    reportShares :: ![Shares],
    -- | Over time: seconds since the first, acquisitions a second, Jain's index.
    reportSeries :: ![(Double, Double, Maybe Double)],
    -- | Most time waited first.
    reportSites :: ![SiteReport]
  }
  deriving (Eq, Show)

data LockReport = LockReport
  { lockProcesses :: ![Process],
    -- | Most time waited first, then most often acquired.
    lockMutexes :: ![MutexReport],
    -- | Sentences: what is not in it.
    lockUnseen :: ![String]
  }
  deriving (Eq, Show)

-- ---- reading ---------------------------------------------------------------------

-- | Of the board at a path; 'Nothing': it has no profile. Names are looked up for as many mutexes
-- and sites as have waited most, and asked for lines if so told.
readReport :: Bool -> FilePath -> IO (Maybe LockReport)
readReport named path = readLockProfile path >>= traverse (report named)

report :: Bool -> LockProfile -> IO LockReport
report named profile = do
  let merged = mergeProfile profile
      file (m, o) = do
        path <- IntMap.lookup m (profileModules profile)
        Just (path, o)
      sites = mapMaybe file [site | (_, _, rows) <- merged, (Just site, _) <- rows]
      objects = mapMaybe (\(_, m, _) -> m >>= file . mutexPlace) merged
  (code, lined) <- if named then resolvePlaces True sites else pure (Map.empty, True)
  (things, _) <- if named then resolvePlaces False objects else pure (Map.empty, True)
  let look known at@(_, o) = case file at of
        Just f -> fromMaybe (Place (Just (fst f)) o Nothing Nothing) (Map.lookup f known)
        Nothing -> Place Nothing o Nothing Nothing
  pure
    LockReport
      { lockProcesses = IntMap.elems (profileProcesses profile),
        lockMutexes = sortOn order (map (mutexReport profile (look code) (look things)) merged),
        lockUnseen = unseen profile (map (\(_, m, _) -> m) merged) ++ ["addr2line is not installed: sites are named by symbols alone, without files and lines" | not lined]
      }
  where
    order m = (Down (waited (reportCounts m)), Down (countAcquisitions (reportCounts m)))

-- | Nanoseconds in all.
waited :: Counts -> Word64
waited = timesSum . countWait

-- | A process, a mutex, and the counts of each site; threads are merged.
mergeProfile :: LockProfile -> [(Process, Maybe Mutex, [(Maybe (Int, Word64), Counts)])]
mergeProfile profile =
  [ (process, mutex =<< at, Map.toList sites)
    | ((owner, at), sites) <- Map.toList (Map.fromListWith (Map.unionWith (<>)) rows),
      Just process <- [IntMap.lookup owner (profileProcesses profile)]
  ]
  where
    mutex n = IntMap.lookup n (profileMutexes profile)
    canonical = sameFile (profileModules profile)
    rows =
      [ ((slotProcess s, rowMutex r), Map.singleton (canonical . snd <$> rowOf r) (countsOf r))
        | s <- profileSlots profile,
          r <- slotRows s
      ]

countsOf :: Row -> Counts
countsOf r =
  Counts (rowAcquisitions r) (rowContended r) (rowReacquired r) (rowReentered r) (rowRefused r) (rowTimedOut r) (rowNear r) (rowFar r) (rowBypass r) (rowWait r) (rowHold r) 1

-- | Two threads at once may have given a file two numbers: the first stands for both.
sameFile :: IntMap FilePath -> (Int, Word64) -> (Int, Word64)
sameFile modules (m, o) = (IntMap.findWithDefault m m numbers, o)
  where
    firsts = Map.fromListWith min [(path, n) | (n, path) <- IntMap.toList modules]
    numbers = IntMap.mapMaybe (`Map.lookup` firsts) modules

mutexReport :: LockProfile -> ((Int, Word64) -> Place) -> ((Int, Word64) -> Place) -> (Process, Maybe Mutex, [(Maybe (Int, Word64), Counts)]) -> MutexReport
mutexReport profile site thing (process, mutex, rows) =
  MutexReport
    { reportProcess = process,
      reportName = nameOf <$> mutex,
      reportKind = maybe "" (kindName . mutexKind) mutex,
      reportCounts = foldr1 (<>) counts,
      reportShares = maybe [] sharesOf found,
      reportSeries = maybe [] seriesOf found,
      reportSites = sortOn (Down . waited . siteCounts) [SiteReport (maybe others site at) c | (at, c) <- rows]
    }
  where
    counts = case map snd rows of
      [] -> [countsOf (Row Nothing Nothing 0 0 0 0 0 0 0 0 0 mempty mempty)]
      some -> some
    others = Place Nothing 0 (Just "other sites") Nothing
    nameOf m = case mutexPlace m of
      (0, _) -> "0x" ++ showHex (mutexAddress m) ""
      at -> placeText (thing at)
    found = do
      m <- mutex
      number <- Map.lookup (mutexProcess m, mutexAddress m) numbers
      fairness <- IntMap.lookup number byMutex
      Just (fairness, [p | p <- profilePaces profile, paceMutex p == number])
    numbers = Map.fromList [((mutexProcess m, mutexAddress m), n) | (n, m) <- IntMap.toList (profileMutexes profile)]
    byMutex = IntMap.fromListWith busier [(fairnessMutex f, f) | f <- IntMap.elems (profileFairness profile)]
    -- Of two that were begun at the same time one was never used.
    busier a b = if map scaleWindows (fairnessScales a) >= map scaleWindows (fairnessScales b) then a else b

kindName :: Int -> String
kindName kind
  | kind `div` 16 `mod` 2 == 1 = "robust"
  | kind `div` 32 `mod` 2 == 1 = "inherits priorities"
  | kind `div` 64 `mod` 2 == 1 = "with a priority"
  | kind `div` 128 `mod` 2 == 1 = "shared between processes"
  | otherwise = case kind `mod` 4 of
    1 -> "recursive"
    2 -> "error checking"
    3 -> "adaptive"
    _ -> "normal"

-- | Threads, acquisitions and the sum of their squares of the windows of a scale that are not closed,
-- by number, with what threads have not handed in.
openWindows :: Int -> (Fairness, [Pace]) -> Map.Map Word64 (Word64, Word64, Word64)
openWindows at (fairness, paces) = Map.unionWith plus open pending
  where
    open = Map.fromList [(windowNumber w, (windowThreads w, windowSum w, windowSquares w)) | s : _ <- [drop at (fairnessScales fairness)], w <- scaleOpen s]
    pending = Map.fromListWith plus [(w, (1, c, c * c)) | p <- paces, (w, c) : _ <- [drop at (paceOpen p)]]
    plus (a, b, c) (a', b', c') = (a + a', b + b', c + c')

-- | 'Nothing' where no two wanted it.
jain :: (Word64, Word64, Word64) -> Maybe Double
jain (n, x, xx)
  | n > 1 && x > 0 = Just (fromIntegral x * fromIntegral x / (fromIntegral n * fromIntegral xx))
  | otherwise = Nothing

-- | With the windows that are still open.
sharesOf :: (Fairness, [Pace]) -> [Shares]
sharesOf (fairness, paces) = zipWith3 shares [1, 10, 100] [0 ..] (fairnessScales fairness)
  where
    shares ms at s =
      let jains = mapMaybe jain (Map.elems (openWindows at (fairness, paces)))
          windows = scaleWindows s + fromIntegral (length jains)
       in Shares ms windows (if windows == 0 then 1 else (scaleJain s + sum jains) / fromIntegral windows) (minimum (1 : [scaleLeast s | scaleWindows s > 0] ++ jains)) (scaleLate s)

-- | From the first window on; those still open are added.
seriesOf :: (Fairness, [Pace]) -> [(Double, Double, Maybe Double)]
seriesOf (f, paces) =
  [ (fromIntegral (i * step) / 10, fromIntegral count * 10 / fromIntegral step, if windows > 0 then Just (sum' / fromIntegral windows) else Nothing)
    | i <- if Map.null points then [] else [0 .. fst (Map.findMax points)],
      let (count, windows, sum') = Map.findWithDefault (0, 0, 0) i points
  ]
  where
    open = [(n, x, jain w) | (n, w@(_, x, _)) <- Map.toAscList (openWindows 2 (f, paces)), x > 0]
    step = max 1 (fairnessStep f)
    first = if fairnessStep f > 0 then fairnessFirst f else minimum (maxBound : [n | (n, _, _) <- open])
    points =
      Map.fromListWith
        plus
        ( [(i, (fromIntegral c, w, j)) | (i, (c, w, j)) <- zip [0 ..] (fairnessSeries f), c > 0]
            ++ [((n - first) `div` step, (x, maybe 0 (const 1) j, fromMaybe 0 j)) | (n, x, j) <- open, n >= first, (n - first) `div` step < 1024]
        )
    plus (a, b, c) (a', b', c') = (a + a', b + b', c + c') :: (Word64, Word32, Double)

unseen :: LockProfile -> [Maybe Mutex] -> [String]
unseen p merged =
  concat
    [ [plural' (profileLost p) "acquisition" ++ " by threads for which there was no room" | profileLost p > 0],
      [plural' (profileLostProcesses p) "process" ++ " for which there was no room" | profileLostProcesses p > 0],
      [plural' unmatched "timed hold" ++ " whose end was not seen (by another thread, or of more than 16 at once)" | unmatched > 0],
      ["no room for all " ++ name ++ ": what is missing is among 'others', or without a distribution" | (name, _) <- profileFull p],
      ["no process has a function of --lock-profile-skip (a file without symbols names none)" | profileNoneSkipped p],
      ["some mutexes are among 'others', by their sites as far as there was room: a thread has room for 12288 pairs of a mutex and a site, if it is not beyond the first 64 with more than 384" | Nothing `elem` merged]
    ]
  where
    unmatched = sum (map slotUnmatched (profileSlots p))
    plural' n = plural (fromIntegral n)

-- ---- saying -------------------------------------------------------------------------

-- | Of all acquisitions whose wait is known: the free ones waited for 0 ns.
waitsOf :: Counts -> Histogram
waitsOf c = addZeros (minus (minus (countAcquisitions c) (countReacquired c)) (total h)) h
  where
    h = timesHistogram (countWait c)
    minus a b = if a > b then a - b else 0

profileLines :: LockReport -> [String]
profileLines r =
  ("profile of " ++ plural (length (lockMutexes r)) "mutex" ++ " in " ++ plural (length (lockProcesses r)) "process" ++ cost) :
  [line m | m <- take 3 (lockMutexes r), waited (reportCounts m) > 0]
    ++ ["not seen: " ++ u | u <- lockUnseen r]
  where
    cost = case [processCost p | p <- lockProcesses r, snd (processCost p) > 0] of
      (plain, profiled) : _ -> "; lock and unlock of a free mutex: " ++ nanoseconds plain ++ ", profiled " ++ nanoseconds profiled
      [] -> ""
    line m =
      let c = reportCounts m
          site = case reportSites m of
            s : _ -> ", most at " ++ placeText (sitePlace s)
            [] -> ""
       in fromMaybe "others" (reportName m) ++ ": " ++ seconds (fromIntegral (waited c) * 1e-9) ++ " waited in " ++ show (countContended c)
            ++ " of "
            ++ show (countAcquisitions c)
            ++ " acquisitions, p99.9 "
            ++ maybe "-" (seconds . (* 1e-9)) (quantile 0.999 (waitsOf c))
            ++ site

nanoseconds :: Double -> String
nanoseconds ns = showFFloat (Just 1) ns " ns"

-- | Where most was waited since what was seen so many seconds ago, else since the start.
profileTable :: Maybe (Double, Maybe LockReport) -> LockReport -> [Block]
profileTable before now =
  [Tabular (Table heads (map row (take 8 (sortOn (Down . waitedSince) changed)))) | not (null changed)]
  where
    heads = [(L, "place"), (L, "mutex"), (R, if isJust elapsed then "acquired/s" else "acquired"), (R, "found taken"), (R, if isJust elapsed then "waiting" else "waited"), (R, "wait p99.9"), (R, "hold p99")]
    earlier = Map.fromList [(key m s, siteCounts s) | Just (_, Just old) <- [before], m <- lockMutexes old, s <- reportSites m]
    elapsed = case before of
      Just (s, Just _) -> Just s
      _ -> Nothing
    key m s = (processPid (reportProcess m), reportName m, sitePlace s)
    changed = [(m, s, Map.lookup (key m s) earlier) | m <- lockMutexes now, isJust (reportName m), s <- reportSites m]
    since get (_, s, old) = get (siteCounts s) - maybe 0 get old
    waitedSince = since waited
    row it@(m, s, _) =
      let c = siteCounts s
          got = since countAcquisitions it
       in [ placeText (sitePlace s),
            fromMaybe "others" (reportName m),
            maybe (show got) (\t -> show (round (fromIntegral got / t) :: Integer)) elapsed,
            if got == 0 then "-" else showFFloat (Just 1) (100 * fromIntegral (since countContended it) / fromIntegral got :: Double) " %",
            maybe (seconds (fromIntegral (waitedSince it) * 1e-9)) (\t -> showFFloat (Just 2) (fromIntegral (waitedSince it) * 1e-9 / t) "") elapsed,
            maybe "-" (seconds . (* 1e-9)) (quantile 0.999 (waitsOf c)),
            maybe "-" (seconds . (* 1e-9)) (quantile 0.99 (timesHistogram (countHold c)))
          ]

-- | Schema: docs/lock.md. Of a run that goes on without histograms and course over time.
profileJson :: Bool -> LockReport -> Value
profileJson whole r =
  object
    [ "schema" .= ("maru-lock-profile/1" :: Text),
      "processes" .= map processJson (lockProcesses r),
      "mutexes" .= map mutexJson (lockMutexes r),
      "not_seen" .= lockUnseen r
    ]
  where
    processJson p =
      object
        [ "pid" .= processPid p,
          "name" .= processName p,
          "sockets" .= processSockets p,
          "clock" .= (if processCpuClock p then "cpu" else "system" :: Text),
          "uncontended_ns" .= object ["plain" .= known (fst (processCost p)), "profiled" .= known (snd (processCost p))]
        ]
    known ns = if ns > 0 then Just ns else Nothing
    mutexJson m =
      object $
        [ "pid" .= processPid (reportProcess m),
          "process" .= processName (reportProcess m),
          "mutex" .= fromMaybe "others" (reportName m),
          "kind" .= reportKind m,
          "jain" .= [object ["window_ms" .= sharesWindow s, "windows" .= sharesWindows s, "mean" .= sharesMean s, "least" .= sharesLeast s, "late" .= sharesLate s] | s <- reportShares m],
          "over_time" .= [object ["second" .= t, "per_second" .= x, "jain" .= j] | whole, (t, x, j) <- reportSeries m],
          "sites" .= map siteJson (reportSites m)
        ]
          ++ countsJson (reportCounts m)
    siteJson s =
      object $
        [ "site" .= placeText (sitePlace s),
          "file" .= placeFile (sitePlace s),
          "offset" .= placeOffset (sitePlace s),
          "symbol" .= placeSymbol (sitePlace s),
          "line" .= placeLine (sitePlace s)
        ]
          ++ countsJson (siteCounts s)
    countsJson c =
      [ "threads" .= countThreads c,
        "acquisitions" .= countAcquisitions c,
        "contended" .= countContended c,
        "reacquired_after_condition" .= countReacquired c,
        "reentered" .= countReentered c,
        "refused_trylocks" .= countRefused c,
        "timed_out" .= countTimedOut c,
        "longest_bypass" .= countBypass c,
        "socket_handoff_ratio" .= handoffRatio c,
        "wait_ns" .= timesJson (waitsOf c) (countWait c),
        "hold_ns" .= timesJson (timesHistogram (countHold c)) (countHold c)
      ]
    timesJson all' some =
      object
        [ "count" .= total all',
          "samples" .= timesSamples some,
          "sum" .= timesSum some,
          "p50" .= quantile 0.5 all',
          "p99" .= quantile 0.99 all',
          "p99_9" .= quantile 0.999 all',
          "p99_99" .= quantile 0.9999 all',
          "max" .= histogramLongest all',
          "cvar_1" .= worstMean 0.01 all',
          "without_class" .= timesLost some,
          "histogram" .= [(firstOf at, firstOf at + widthOf at - 1, n) | whole, (at, n) <- IntMap.toAscList (histogramCounts (timesHistogram some))]
        ]

-- | Of contended acquisitions whose last holder's socket is known: the share that came from another.
handoffRatio :: Counts -> Maybe Double
handoffRatio c
  | countNear c + countFar c == 0 = Nothing
  | otherwise = Just (fromIntegral (countFar c) / fromIntegral (countNear c + countFar c))
