{-# LANGUAGE OverloadedStrings #-}

-- | The profile of a run's mutexes as lines, as a table, and as data.
module Maru.View.Lock
  ( profileLines,
    profileTable,
    profileJson,
    unseen,
  )
where

import Data.Aeson (Value, object, (.=))
import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust)
import Data.Ord (Down (..))
import Data.Text (Text)
import Maru.Control.Histogram
import Maru.Control.LockProfile
import Maru.Control.LockProfile.Types
import Maru.View.Table (Align (..), Block (..), Table (..), plural, seconds)
import Numeric (showFFloat)

-- | Sentences: what is not in the profile.
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
