-- | The profile of a run's mutexes: what its threads recorded, merged and judged.
module Maru.Control.LockProfile
  ( LockReport (..),
    MutexReport (..),
    SiteReport (..),
    Counts (..),
    Shares (..),
    mergeProfile,
    mutexReport,
    sharesOf,
    seriesOf,
    waited,
    waitsOf,
    handoffRatio,
  )
where

import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Ord (Down (..))
import Data.Word (Word32, Word64)
import Maru.Control.Histogram
import Maru.Control.LockProfile.Types
import Numeric (showHex)

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

-- | Given the profile alone, it indexes that once for all its mutexes, which may be thousands.
mutexReport :: LockProfile -> ((Int, Word64) -> Place) -> ((Int, Word64) -> Place) -> (Process, Maybe Mutex, [(Maybe (Int, Word64), Counts)]) -> MutexReport
mutexReport profile = \site thing (process, mutex, rows) ->
  let fairness = fairnessOf =<< mutex
      counts = case map snd rows of
        [] -> [countsOf (Row Nothing Nothing 0 0 0 0 0 0 0 0 0 mempty mempty)]
        some -> some
   in MutexReport
        { reportProcess = process,
          reportName = nameOf thing <$> mutex,
          reportKind = maybe "" (kindName . mutexKind) mutex,
          reportCounts = foldr1 (<>) counts,
          reportShares = maybe [] sharesOf fairness,
          reportSeries = maybe [] seriesOf fairness,
          reportSites = sortOn (Down . waited . siteCounts) [SiteReport (maybe others site at) c | (at, c) <- rows]
        }
  where
    others = Place Nothing 0 (Just "other sites") Nothing
    nameOf thing m = case mutexPlace m of
      (0, _) -> "0x" ++ showHex (mutexAddress m) ""
      at -> placeText (thing at)
    fairnessOf m = do
      number <- Map.lookup (mutexProcess m, mutexAddress m) numbers
      fairness <- IntMap.lookup number byMutex
      Just (fairness, IntMap.findWithDefault [] number paces)
    numbers = Map.fromList [((mutexProcess m, mutexAddress m), n) | (n, m) <- IntMap.toList (profileMutexes profile)]
    byMutex = IntMap.fromListWith busier [(fairnessMutex f, f) | f <- IntMap.elems (profileFairness profile)]
    paces = IntMap.fromListWith (++) [(paceMutex p, [p]) | p <- profilePaces profile]
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

-- | Threads, acquisitions and the sum of their squares of the windows of a scale that are not
-- closed, by number. With what threads have not handed in.
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

-- | Of all acquisitions whose wait is known: the free ones waited for 0 ns.
waitsOf :: Counts -> Histogram
waitsOf c = addZeros (minus (minus (countAcquisitions c) (countReacquired c)) (total h)) h
  where
    h = timesHistogram (countWait c)
    minus a b = if a > b then a - b else 0

-- | Of contended acquisitions whose last holder's socket is known: the share that came from
-- another.
handoffRatio :: Counts -> Maybe Double
handoffRatio c
  | countNear c + countFar c == 0 = Nothing
  | otherwise = Just (fromIntegral (countFar c) / fromIntegral (countNear c + countFar c))
