{-# LANGUAGE OverloadedStrings #-}

-- | @maru sim map --collector@: a heap that threads share, its collector, and the first seed's study
-- of its flags. Its tables and plots stand beside measurements of the same, too.
module Maru.Cli.Room.Map.CollectorSim
  ( collectorFigures,
    seedMachines,

    -- * Its parts
    simulatedTables,
    simulatedPlots,
    simulatedJson,
    less,
  )
where

import Data.Aeson (Value, object, (.=))
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Maru.Cli.Checks
import Maru.Cli.Output
import Maru.Control.Plot
import Maru.Control.Sim.Map.Collector
import Maru.Control.Swing
import Maru.Control.Tune.Gc (shown)

-- | As measured on one core and on two, and as the seed's machine may have been.
collectorFigures :: Figures
collectorFigures =
  Figures
    { figuresLine = checkLine checks,
      figuresTables = simulatedTables studied ++ [("What is published, and what the model has", checkTable checks), ablations],
      figuresPlots = simulatedPlots studied,
      figuresData = object ["simulated" .= simulatedJson studied, "checks" .= checksJson checks]
    }
  where
    checks = collectorChecks measuredCollector
    studied = [(name, study c) | (name, c) <- ("measured", measuredCollector) : seedMachines measuredCollector]
    ablations =
      ( "Simulated, " ++ blameName ByCollector ++ ": without each part of the model",
        Table
          [(L, "model"), (R, "times as fast with 32 cores"), (R, "swing")]
          [[name, maybe "-" (fixed 2) (lookup studyCores (curveOf AsItIs s)), maybe "-" (fixed 2) (lookup AsItIs (studySwings s))] | (name, c) <- collectorAblations (seedCollector ByCollector measuredCollector), let s = study c]
      )

-- | The two readings of the seed's text.
seedMachines :: Collector -> [(String, Collector)]
seedMachines base = [(blameName blame, seedCollector blame base) | blame <- [minBound ..]]

-- | What a series is called: the word is in each.
simulatedName :: Tuning -> String
simulatedName tuning = "simulated " ++ tuningName tuning

curveOf :: Tuning -> Study -> [(Int, Double)]
curveOf tuning s = zip [1 ..] (fromMaybe [] (lookup tuning (studyCurves s)))

simulatedTables :: [(String, Study)] -> [(String, Table)]
simulatedTables studied =
  [ ( "Simulated: times as fast as one core as it is, by cores; means of " ++ show seedRuns ++ " runs",
      Table
        ([(L, "machine"), (L, "series")] ++ [(R, show n) | n <- someCores])
        [[name, simulatedName tuning] ++ [speedUpOn n tuning s | n <- someCores] | (name, s) <- studied, tuning <- tunings]
    ),
    ( "Simulated: swing from 1 to " ++ show studyCores ++ " cores, and by what share it is less; published 34 % less",
      Table
        ((L, "machine") : [(R, simulatedName tuning) | tuning <- tunings])
        [name : [maybe "-" (fixed 2) (lookup tuning (studySwings s)) ++ (if tuning == AsItIs then "" else less (lessSwing s tuning)) | tuning <- tunings] | (name, s) <- studied]
    ),
    ( "Simulated: predicted with the flags of the next fewer cores that were searched; published: alike",
      Table
        [(L, "machine"), (R, "cores"), (R, "as it is"), (R, "predicted"), (L, "flags")]
        [ [name, show n, speedUpOn n AsItIs s, speedUpOn n AndPredicted s, maybe "-" shown (flagsFor (studyFound s) AndPredicted n)]
          | (name, s) <- studied,
            n <- seedPredicted
        ]
    ),
    ( "Simulated: what the search finds, by cores",
      Table
        ((L, "machine") : [(L, show n) | n <- seedTraining])
        [name : [maybe "-" shown (Map.lookup n (studyFound s)) | n <- seedTraining] | (name, s) <- studied]
    )
  ]
  where
    speedUpOn n tuning s = maybe "-" (fixed 2) (lookup n (curveOf tuning s))
    someCores = [1, 2, 4, 8, 10, 11, 13, 14, 15, 16, 20, 23, studyCores]

-- | A change of swing, in brackets.
less :: Maybe Double -> String
less = maybe "" (\share -> " (" ++ said share ++ ")")
  where
    said share
      | share > 0 = "-" ++ percent 0 share
      | share > -1 = "+" ++ percent 0 (abs share)
      | otherwise = fixed 0 (1 - share) ++ " times"

simulatedPlots :: [(String, Study)] -> [Plot]
simulatedPlots studied = [Plot ("Simulated: " ++ name) (Axis "cores" Linear) (Axis "times as fast as one core" Linear) [series tuning s | tuning <- tunings] | (name, s) <- studied]
  where
    series tuning s = Series (simulatedName tuning) [Point (fromIntegral n) v v v | (n, v) <- curveOf tuning s]

simulatedJson :: [(String, Study)] -> [Value]
simulatedJson studied =
  [ object
      [ "machine" .= name,
        "series" .= simulatedName tuning,
        "simulated" .= True,
        "speedups" .= map snd (curveOf tuning s),
        "swing" .= lookup tuning (studySwings s),
        "less" .= lessSwing s tuning,
        "published_less" .= (0.34 :: Double),
        "flags" .= Map.map shown (studyFound s)
      ]
    | (name, s) <- studied,
      tuning <- tunings
  ]

tunings :: [Tuning]
tunings = [minBound ..]
