{-# LANGUAGE OverloadedStrings #-}

-- | @map\/channel@: what a message between two processes costs, beside a pipe
-- between the same two.
module MapChannel
  ( channelExperiment,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.List.NonEmpty (nonEmpty)
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Text (Text)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics

channelExperiment :: Experiment
channelExperiment =
  Experiment
    { experimentName = "map/channel",
      experimentPurpose = "A message of 64 bytes between two pinned processes: round trips spinning and parked, beside a pipe; records a second",
      experimentRun = run
    }

-- One run of the program is seven rounds of its own.
run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "bench_channel"
  rounds <- runRounds effort say (const (runTool reaper program [])) [Side "channel" []] claims
  let judged = map (judgeClaim rounds) (claims rounds)
      row name values = case nonEmpty values of
        Nothing -> [name, "-", "-", "-"]
        Just vs -> let s = summarise vs in name : map (seconds . (* 1e-9)) [summaryMedian s, summaryLeast s, summaryMost s]
      every path = concatMap (series path) (samplesOf rounds "channel")
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ( "Round trip of 64 bytes",
              Table
                [(L, "way"), (R, "median"), (R, "least"), (R, "most")]
                [ row "log, spinning" (every ("spinning_ns", "median")),
                  row "log, parked" (every ("parked_ns", "channel")),
                  row "pipe" (every ("parked_ns", "pipe"))
                ]
            ),
            ("Claims", claimsTable judged)
          ],
        figuresPlots =
          [ Plot
              "Round trip by round"
              (Axis "round" Linear)
              (Axis "ns" Logarithmic)
              [Series name [Point x v v v | (x, v) <- zip [1 ..] (every path)] | (name, path) <- [("spinning", ("spinning_ns", "median")), ("parked", ("parked_ns", "channel")), ("pipe", ("parked_ns", "pipe"))]]
          ],
        figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }

claims :: Rounds -> [Claim]
claims _ =
  [ single "spinning round trip, ns" (AtMost 500) (series ("spinning_ns", "median")) "channel",
    single "parked round trip / pipe's" (AtMost 1.25) (series ("parked_ns", "ratio")) "channel",
    single "records a second" (AtLeast 2e6) (fromMaybe [] . at ["records_per_second"]) "channel"
  ]

-- | A field of each of the program's own rounds.
series :: (Text, Text) -> Sample -> [Double]
series (list, field) sample = mapMaybe (number [field]) (fromMaybe [] (at [list] sample) :: [Value])
