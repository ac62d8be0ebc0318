{-# LANGUAGE OverloadedStrings #-}

-- | @map\/auto@: the default back end against 'Maru.Sequential', from items of a
-- tenth of a microsecond to a tenth of a second: it may lose 5 % of a list that
-- takes 50 ms or more, and 2 ms of a shorter one.
module MapAuto
  ( autoExperiment,
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
import Numeric (showFFloat)

autoExperiment :: Experiment
autoExperiment =
  Experiment
    { experimentName = "map/auto",
      experimentPurpose = "The default back end against the sequential one, at every grain",
      experimentRun = run
    }

-- | Nominal nanoseconds of an item, and items.
data Cell = Cell !Double !Int

-- | Items of 0.1 µs to 100 ms, lists of 0.1 ms to 1 s.
cells :: Effort -> [Cell]
cells effort =
  [ Cell item n
    | item <- grains,
      total <- totals,
      let n = round (total / item),
      n >= 1
  ]
  where
    grains = if effort == Quick then [1e2, 1e5, 1e7] else [1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8]
    totals = if effort == Quick then [1e6, 1e8] else [1e5, 1e6, 1e7, 5e7, 1e8, 1e9]

-- | A loop turn takes about so many nanoseconds (a multiplication and an addition, each waiting for
-- the one before). What it took is in the data.
turnNs :: Double
turnNs = 1.2

run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  program <- helperPath "maru-bench-map"
  rounds <- runRounds effort say (runSide reaper program) sides claims
  let judged = map (judgeClaim rounds) (claims rounds)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ( "Median time of a list",
              Table
                [(R, "item"), (R, "items"), (R, "sequential"), (R, "auto"), (R, "times as fast"), (L, "ran")]
                [row rounds c | c <- cells effort]
            ),
            ("Claims", claimsTable judged)
          ],
        figuresPlots =
          [ Plot
              "Auto against Sequential"
              (Axis "time of the list, ms" Logarithmic)
              (Axis "times as fast" Linear)
              [ Series
                  (seconds (1e-9 * item) ++ " items")
                  [ Point (1e-6 * summaryMedian s) v v v
                    | c@(Cell item' _) <- cells effort,
                      item' == item,
                      Just s <- [summaryOf wallNs rounds (sideOf "sequential" c)],
                      Just a <- [summaryOf wallNs rounds (sideOf "auto" c)],
                      let v = summaryMedian s / summaryMedian a
                  ]
                | item <- distinct [i | Cell i _ <- cells effort]
              ]
          ],
        figuresData = object ["measured" .= roundsJson rounds, "claims" .= map claimJson judged]
      }
  where
    sides = concat [[Side (sideOf w c) [arguments w c] | w <- ["sequential", "auto"]] | c <- cells effort]
    arguments w (Cell item n) = ["map", "grain", w, show n, "--grain", show (max 1 (round (item / turnNs)) :: Int)]
    claims rounds = map (claim rounds) (cells effort)
    distinct = foldr (\x seen -> if x `elem` seen then seen else x : seen) []

sideOf :: String -> Cell -> String
sideOf way (Cell item n) = way ++ " " ++ show n ++ " × " ++ seconds (1e-9 * item)

-- | Which promise applies follows from what 'Sequential' took.
claim :: Rounds -> Cell -> Claim
claim rounds c@(Cell item n)
  | maybe 0 summaryMedian (summaryOf wallNs rounds (sideOf "sequential" c)) >= 5e7 =
    ratio (text ++ ", times sequential") (AtMost 1.05) wallNs auto sequential
  | otherwise = paired (text ++ ", ms lost") (AtMost 2) (\a s -> Just (1e-6 * (a - s))) wallNs wallNs auto sequential
  where
    text = show n ++ " items of " ++ seconds (1e-9 * item)
    auto = sideOf "auto" c
    sequential = sideOf "sequential" c

row :: Rounds -> Cell -> [String]
row rounds c@(Cell item n) =
  [ seconds (1e-9 * item),
    show n,
    time sequential,
    time auto,
    maybe "-" (\v -> showFFloat (Just 2) v "") ((\s a -> summaryMedian s / summaryMedian a) <$> sequential <*> auto),
    maybe "-" (\s -> if summaryMedian s > 0 then "on workers" else "in the caller") (summaryOf (number ["meter", "cpu_children_ns"]) rounds (sideOf "auto" c))
  ]
  where
    sequential = summaryOf wallNs rounds (sideOf "sequential" c)
    auto = summaryOf wallNs rounds (sideOf "auto" c)
    time = maybe "-" (seconds . (* 1e-9) . summaryMedian)
