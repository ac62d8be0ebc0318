-- | The profile of a run's mutexes as a part of a page.
module Maru.View.Lock.Page
  ( lockSection,
  )
where

import Data.List (sortOn)
import Data.Ord (Down (..))
import Data.Word (Word64)
import Maru.Control.Histogram
import Maru.Control.LockProfile
import Maru.Control.LockProfile.Types
import Maru.Control.Plot (escape)
import Maru.View.Page
import Maru.View.Table (seconds)
import Numeric (showFFloat)

-- | So many rows, and so many mutexes over time.
rowsShown, cardsShown :: Int
rowsShown = 400
cardsShown = 12

-- | What the overlay says of itself, then the profile.
lockSection :: [String] -> LockReport -> [String]
lockSection overlay r =
  [element "h2" "Locks"]
    ++ ["<p class=\"note\">" ++ escape line ++ "</p>" | line <- overlay]
    ++ figures r
    ++ siteTable r
    ++ cards r
    ++ notSeen r

-- ---- the whole ----------------------------------------------------------------

figures :: LockReport -> [String]
figures r =
  tiles
    ( [ (short acquisitions, "acquisitions"),
        (percent contended acquisitions, "found it taken"),
        (time (fromIntegral waits), "waited, all threads together"),
        (show (length (lockMutexes r)), "mutexes"),
        (show (length (lockProcesses r)), if length (lockProcesses r) == 1 then "process" else "processes")
      ]
        ++ cost
    )
  where
    all' = map reportCounts (lockMutexes r)
    acquisitions = sum (map countAcquisitions all')
    contended = sum (map countContended all')
    waits = sum (map waited all')
    cost = case [processCost p | p <- lockProcesses r, snd (processCost p) > 0] of
      (plain, profiled) : _ -> [(ns plain ++ " → " ++ ns profiled ++ " ns", "lock and unlock of a free mutex, without and with the profile")]
      [] -> []
    ns x = showFFloat (Just 1) x ""

-- ---- a row for each mutex and site ---------------------------------------------

siteTable :: LockReport -> [String]
siteTable r =
  [ element "h2" "Who waits where",
    "<p class=\"note\">A row for each mutex and place that takes it, most time waited first; click on a head to sort. All acquisitions are counted and all waits timed; of holds as many as it says were timed, and stand for all. Waits are those of all acquisitions, a free mutex counting as 0 ns; the small pictures are of those that waited, and of holds, from "
      ++ time (fromIntegral low)
      ++ " to "
      ++ time (fromIntegral high)
      ++ ", both axes logarithmic. Worst 1 %: the mean of the longest hundredth. Passed by: by how many later arrivals, at least.</p>",
    "<div class=\"scroll\"><table class=\"sort wide\"><thead><tr><th></th><th colspan=\"2\"></th><th class=\"w\" colspan=\"9\">waited</th><th class=\"h\" colspan=\"9\">held</th><th colspan=\"3\"></th></tr><tr>"
  ]
    ++ zipWith headOf [0 :: Int ..] heads
    ++ ["</tr></thead><tbody>"]
    ++ map row (take rowsShown rows)
    ++ ["</tbody></table></div>"]
    ++ ["<p class=\"note\">" ++ show (length rows - rowsShown) ++ " more rows are in the JSON report.</p>" | length rows > rowsShown]
  where
    rows = sortOn (Down . waited . siteCounts . snd) [(m, s) | m <- lockMutexes r, s <- reportSites m]
    heads = ["place and mutex", "acquired", "found taken"] ++ times ++ times ++ ["passed by", "other socket", "by condition"]
    times = ["in all", "timed", "", "p50", "p99", "p99.9", "p99.99", "max", "worst 1 %"]
    headOf i text
      | null text = "<th></th>"
      | otherwise = "<th" ++ (if i == 3 then " aria-sort=\"descending\"" else "") ++ "><button type=\"button\">" ++ escape text ++ "</button></th>"
    several = length (lockProcesses r) > 1
    (low, high) = range [timesHistogram (get (siteCounts s)) | (_, s) <- rows, get <- [countWait, countHold]]
    row (m, s) =
      concat $
        [ "<tr><td>" ++ escape (placeText (sitePlace s)) ++ "<small>" ++ escape (mutexLine several m) ++ "</small></td>",
          number (fromIntegral (countAcquisitions c)) (short (countAcquisitions c)),
          number (ratio (countContended c) (countAcquisitions c)) (percent (countContended c) (countAcquisitions c))
        ]
          ++ cells "wait" (countWait c) (waitsOf c)
          ++ cells "hold" (countHold c) (timesHistogram (countHold c))
          ++ [ number (fromIntegral (countBypass c)) (if countBypass c == 0 then "" else short (countBypass c)),
               number (ratio (countFar c) (countNear c + countFar c)) (if countNear c + countFar c == 0 then "" else percent (countFar c) (countNear c + countFar c)),
               number (fromIntegral (countReacquired c)) (if countReacquired c == 0 then "" else short (countReacquired c)),
               "</tr>"
             ]
      where
        c = siteCounts s
    cells kind timed all' =
      let some = timesHistogram timed
          in' = fromIntegral (timesSum timed)
       in number in' (if total some == 0 then "" else time in') :
          number (fromIntegral (timesSamples timed)) (if total some == 0 then "" else short (timesSamples timed)) :
          ("<td>" ++ spark kind (low, high) some ++ "</td>") :
            [maybe (number (-1) "") (\v -> number v (time v)) value | value <- [quantile q all' | q <- [0.5, 0.99, 0.999, 0.9999]] ++ [longest some, worstMean 0.01 all']]
    longest h = if total h == 0 then Nothing else Just (fromIntegral (histogramLongest h))

mutexLine :: Bool -> MutexReport -> String
mutexLine several m =
  maybe "other mutexes" called (reportName m)
    ++ (if reportKind m `elem` ["", "normal"] then "" else ", " ++ reportKind m)
    ++ (if several then ", " ++ processName (reportProcess m) ++ " " ++ show (processPid (reportProcess m)) else "")
  where
    called name = if take 2 name == "0x" then "mutex " ++ name else name

number :: Double -> String -> String
number v text = "<td data-v=\"" ++ showFFloat (Just 4) v "" ++ "\">" ++ escape text ++ "</td>"

-- | From the smallest to the largest value of any; powers of two.
range :: [Histogram] -> (Word64, Word64)
range hs = case concatMap (map fst . octaves) hs of
  [] -> (1, 1000000000)
  values -> (max 1 (minimum values), 2 * maximum values + 2)

-- | Bars a quarter octave wide, as high as the logarithm of their number.
spark :: String -> (Word64, Word64) -> Histogram -> String
spark kind (low, high) h
  | total h == 0 = ""
  | otherwise =
    "<svg width=\"110\" height=\"24\" viewBox=\"0 0 110 24\" role=\"img\" aria-label=\"distribution\"><line class=\"axis\" x1=\"0\" y1=\"23.5\" x2=\"110\" y2=\"23.5\"/>"
      ++ concat ["<rect class=\"" ++ kind ++ "\" x=\"" ++ place (at v) ++ "\" y=\"" ++ place (23 - tall n) ++ "\" width=\"" ++ place (max 1.5 width) ++ "\" height=\"" ++ place (tall n) ++ "\"/>" | (v, n) <- bars]
      ++ "</svg>"
  where
    bars = octaves h
    most = maximum (1 : map snd bars)
    span' = max 1 (logBase 2 (fromIntegral high) - logBase 2 (fromIntegral low)) :: Double
    width = 110 / (span' * 4) * 0.9
    at v = min 108 (110 * (logBase 2 (fromIntegral (max low v)) - logBase 2 (fromIntegral low)) / span')
    tall n = max 1.5 (21 * log (1 + fromIntegral n) / log (1 + fromIntegral most)) :: Double

place :: Double -> String
place v = showFFloat (Just 1) v ""

-- ---- a card for each mutex -------------------------------------------------------

cards :: LockReport -> [String]
cards r
  | null shown = []
  | otherwise =
    [ element "h2" "Shares over time",
      "<p class=\"note\">Acquisitions a second (blue) and Jain's index among the threads that wanted the mutex in the same 100 ms (orange, 0 to 1; 1: equal shares). A thread that waits all through a window counts in it.</p>",
      "<div class=\"cards\">"
    ]
      ++ map card (take cardsShown shown)
      ++ ["</div>"]
  where
    several = length (lockProcesses r) > 1
    shown = [m | m <- lockMutexes r, any ((> 0) . sharesWindows) (reportShares m)]
    card m =
      "<div class=\"card\">" ++ element "h3" (mutexLine several m) ++ chart (reportSeries m)
        ++ "<table><tr><th>window</th><th>windows</th><th>Jain, mean</th><th>least</th></tr>"
        ++ concat ["<tr><td>" ++ show (sharesWindow s) ++ " ms</td><td>" ++ short (sharesWindows s) ++ "</td><td>" ++ three (sharesMean s) ++ "</td><td>" ++ three (sharesLeast s) ++ "</td></tr>" | s <- reportShares m]
        ++ "</table></div>"
    three v = showFFloat (Just 3) v ""

chart :: [(Double, Double, Maybe Double)] -> String
chart points
  | length points < 2 = "<p class=\"note\">too short for a course over time</p>"
  | otherwise =
    "<svg viewBox=\"0 0 460 130\" role=\"img\" aria-label=\"acquisitions and fairness over time\"><line class=\"axis\" x1=\"0\" y1=\"110\" x2=\"460\" y2=\"110\"/><line class=\"axis\" x1=\"0\" y1=\"14\" x2=\"460\" y2=\"14\"/>"
      ++ ("<path class=\"rate\" d=\"M0,110 " ++ concat ["L" ++ place (x t) ++ "," ++ place (110 - 96 * v / top) ++ " " | (t, v, _) <- points] ++ "L460,110 Z\"/>")
      ++ ("<polyline class=\"jain\" points=\"" ++ unwords [place (x t) ++ "," ++ place (110 - 96 * j) | (t, _, Just j) <- points] ++ "\"/>")
      ++ ("<text x=\"0\" y=\"10\">" ++ escape (short (round top :: Word64)) ++ "/s</text><text x=\"460\" y=\"10\" text-anchor=\"end\">1</text>")
      ++ ("<text x=\"0\" y=\"125\">0</text><text x=\"460\" y=\"125\" text-anchor=\"end\">" ++ escape (seconds end) ++ "</text></svg>")
  where
    top = maximum (1 : [v | (_, v, _) <- points])
    end = maximum (0.1 : [t | (t, _, _) <- points])
    x t = 460 * t / end

-- ---- what is missing ----------------------------------------------------------------

notSeen :: LockReport -> [String]
notSeen r =
  [element "h2" "What is not in here", "<ul>"]
    ++ map
      (element "li")
      ( lockUnseen r
          ++ [ "How long a thread waits for its mutex after a condition variable has woken it: libc does that inside. That it did is counted, and the holds are timed as those of free mutexes are.",
               "Of acquisitions that found the mutex free, 1 hold in n is timed, at random, and counts for n; n follows the thread's pace, from 1 to 64. The first 64 at each place and thread are all timed. All waits are timed, and the holds after them.",
               "When a free mutex was taken is known by the thread's last look at the clock, up to 64 of its acquisitions before on average: a course over time and Jain's index may have as many in an earlier window.",
               "C11's mtx_lock, locks inside of libc, read-write locks, spin locks, and what a program builds on futexes itself.",
               "A mutex is its address: what was made anew there counts as the same.",
               "A place is the code that calls pthread_mutex_lock: where that is a library's wrapper, it is the wrapper."
             ]
      )
    ++ ["</ul>"]

-- ---- figures -------------------------------------------------------------------------

time :: Double -> String
time ns
  | ns <= 0 = "0"
  | ns < 1000 = show (round ns :: Int) ++ " ns"
  | otherwise = seconds (ns * 1e-9)

short :: Word64 -> String
short n
  | n < 10000 = show n
  | n < 1000000 = showFFloat (Just 1) (fromIntegral n / 1e3 :: Double) " k"
  | otherwise = showFFloat (Just 2) (fromIntegral n / 1e6 :: Double) " M"

ratio :: Word64 -> Word64 -> Double
ratio _ 0 = 0
ratio a b = fromIntegral a / fromIntegral b

percent :: Word64 -> Word64 -> String
percent a b
  | a == 0 = "0 %"
  | ratio a b < 0.0001 = "< 0.01 %"
  | otherwise = showFFloat (Just (if ratio a b < 0.1 then 2 else 1)) (100 * ratio a b) " %"
