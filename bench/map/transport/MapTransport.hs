{-# LANGUAGE OverloadedStrings #-}

-- | @map\/transport@: what a large result costs the worker and the caller, by
-- each way of crossing.
module MapTransport
  ( transportExperiment,
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
import Maru.Control.Ratio
import Maru.Control.Statistics

transportExperiment :: Experiment
transportExperiment =
  Experiment
    { experimentName = "map/transport",
      experimentPurpose = "Processor time for one large result, in the worker and in the caller, by each way of crossing",
      experimentRun = run
    }

kinds :: [(String, String)]
kinds =
  [ ("ints", "1e6 Ints"),
    ("map", "Map of 2.5e5"),
    ("tree", "tree of 1e6 nodes"),
    ("text", "1e5 Texts"),
    ("bytes", "ByteString of 20 MB")
  ]

transits :: [String]
transits = ["zero-copy", "compact", "binary", "store"]

sideOf :: String -> String -> String
sideOf kind transit = kind ++ " " ++ transit

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  rounds <- runRounds effort say (runSide reaper program) sides claims
  let judged = map (judgeClaim rounds) (claims rounds)
      cell metric side = maybe "-" (seconds . (* 1e-9) . max 0 . summaryMedian) (summaryOf metric rounds side)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ( "Processor time a result (first touch: what the first look at all of it costs the caller beyond a second one)",
              Table
                [(L, "result"), (L, "crosses by"), (R, "worker"), (R, "caller, until usable"), (R, "first touch")]
                [ [what, t, cell (number ["worker_ns"]) side, cell (usable t) side, cell firstTouch side]
                  | (k, what) <- kinds,
                    t <- transits,
                    let side = sideOf k t
                ]
            ),
            ("Claims: the caller's cost of zero-copy / of binary", claimsTable judged)
          ],
        figuresPlots =
          [ Plot
              "Caller's cost until usable"
              (Axis "kind of result" (Named (map fst kinds)))
              (Axis "ms" Logarithmic)
              [Series t [point x (milli s) | (x, (k, _)) <- zip [1 ..] kinds, Just s <- [summaryOf (usable t) rounds (sideOf k t)]] | t <- transits]
          ],
        figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }
  where
    divide = if effort == Quick then 10 else 1 :: Int
    sides = [Side (sideOf k t) [["carry", k, t, "--divide", show divide]] | (k, _) <- kinds, t <- transits]
    milli s = Summary (1e-6 * summaryMedian s) (1e-6 * summaryLeast s) (1e-6 * summaryMost s) (summaryCount s)

-- | What arrives by address or as a compact copy is in normal form; what a
-- decoder leaves unevaluated is its cost too.
usable :: String -> Sample -> Maybe Double
usable transit sample
  | transit `elem` ["binary", "store"] = (+) <$> receive <*> (max 0 <$> firstTouch sample)
  | otherwise = receive
  where
    receive = number ["receive_ns"] sample

firstTouch :: Sample -> Maybe Double
firstTouch sample = (-) <$> number ["first_walk_ns"] sample <*> number ["second_walk_ns"] sample

claims :: Rounds -> [Claim]
claims _ = [paired what (AtMost 0.01) share (usable "zero-copy") (usable "binary") (sideOf k "zero-copy") (sideOf k "binary") | (k, what) <- kinds]
  where
    share l r = if r > 0 then Just (l / r) else Nothing
