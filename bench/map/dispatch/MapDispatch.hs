{-# LANGUAGE OverloadedStrings #-}

-- | @map\/dispatch@: what a back end costs when the items cost nothing, and how
-- long it takes to begin, with a small and a large live heap.
module MapDispatch
  ( dispatchExperiment,
  )
where

import Data.Aeson (object, (.=))
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Statistics

dispatchExperiment :: Experiment
dispatchExperiment =
  Experiment
    { experimentName = "map/dispatch",
      experimentPurpose = "Cost of an item that does nothing, and of beginning, for each back end",
      experimentRun = run
    }

-- | Those that ran in one process get two capabilities.
ways :: [(String, [String])]
ways =
  [ ("map", []),
    ("sequential", []),
    ("auto", []),
    ("shm", []),
    ("sockets", [])
  ]
    ++ [(w, ["+RTS", "-N2"]) | w <- ["sparks", "threads", "bound-threads", "stm", "parallel", "async"]]

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  rounds <- runRounds effort say (runSide reaper program) sides (const [])
  let cell metric name = maybe "-" (spread . scaled 1e-9) (summaryOf metric rounds name)
      perItem name = maybe "-" (seconds . (/ fromIntegral items) . (* 1e-9) . summaryMedian) (summaryOf wallNs rounds name)
  pure
    Figures
      { figuresLine = "an item by shm costs " ++ perItem (bulk "shm" "guided") ++ " in guided chunks, " ++ perItem (bulk "shm" "1") ++ " in chunks of one; without a library " ++ perItem (bulk "map" "guided"),
        figuresTables =
          [ ( show items ++ " additions: time for one item (two workers)",
              Table
                [(L, "back end"), (R, "guided"), (R, "chunks of 1")]
                [[w, perItem (bulk w "guided"), if chunked w then perItem (bulk w "1") else "-"] | (w, _) <- ways]
            ),
            ( "A list of one item: until its result is there",
              Table
                ((L, "back end") : [(R, show heap ++ " MiB live") | heap <- heaps])
                [w : [cell (number ["first_ns"]) (begin w heap) | heap <- heaps] | (w, _) <- ways]
            )
          ],
        figuresPlots =
          [ Plot
              "Until the first result"
              (Axis "live heap of the caller, MiB" Logarithmic)
              (Axis "ms" Logarithmic)
              [Series w [point (fromIntegral heap) (scaled 1e-6 s) | heap <- heaps, Just s <- [summaryOf (number ["first_ns"]) rounds (begin w heap)]] | (w, _) <- ways]
          ],
        figuresData = object ["measured" .= roundsJson rounds, "items" .= items]
      }
  where
    heaps = heapsFor effort
    items = if effort == Quick then 20000 else 100000 :: Int
    sides =
      concat
        [ Side (bulk w "guided") [["map", "trivial", w, show items] ++ rts] :
          [Side (bulk w "1") [["map", "trivial", w, show items, "--chunk", "1"] ++ rts] | chunked w]
            ++ [Side (begin w heap) [["map", "trivial", w, "1", "--heap", show heap] ++ rts] | heap <- heaps]
          | (w, rts) <- ways
        ]
    chunked w = w `notElem` ["map", "sequential", "auto", "parallel", "async"]
    bulk w chunk = w ++ " " ++ chunk
    begin :: String -> Int -> String
    begin w heap = w ++ " first " ++ show heap

-- | MiB. Making the large one takes a second for each side.
heapsFor :: Effort -> [Int]
heapsFor Quick = [10, 100]
heapsFor Full = [10, 500]

scaled :: Double -> Summary -> Summary
scaled k s = s {summaryMedian = k * summaryMedian s, summaryLeast = k * summaryLeast s, summaryMost = k * summaryMost s}

-- | Seconds: the median, and the range.
spread :: Summary -> String
spread s = seconds (summaryMedian s) ++ " (" ++ seconds (summaryLeast s) ++ "…" ++ seconds (summaryMost s) ++ ")"
