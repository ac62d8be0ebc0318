{-# LANGUAGE OverloadedStrings #-}

-- | How a simulator shows what it is held to. Every miss is printed.
module Maru.Cli.Checks
  ( checkTable,
    checkLine,
    checksJson,
  )
where

import Data.Aeson (Value, object, toJSON, (.=))
import Maru.Cli.Output
import Maru.Control.Sim.Check

checkTable :: [Check] -> Table
checkTable = Table [(L, "figure"), (L, "origin"), (R, "published"), (L, "bar"), (R, "model"), (L, "")] . map row
  where
    row c = [checkName c, origin c, checkPublished c, bar (checkBound c), fixed 3 (checkValue c), if holds c then "holds" else "MISS"]

-- | How many hold, and which miss.
checkLine :: [Check] -> String
checkLine checks =
  show (length checks - length misses) ++ " of " ++ show (length checks) ++ " hold" ++ concatMap (("; misses: " ++) . checkName) misses
  where
    misses = filter (not . holds) checks

checksJson :: [Check] -> Value
checksJson checks =
  toJSON
    [ object
        [ "figure" .= checkName c,
          "origin" .= origin c,
          "published" .= checkPublished c,
          "bar" .= bar (checkBound c),
          "value" .= checkValue c,
          "holds" .= holds c
        ]
      | c <- checks
    ]

origin :: Check -> String
origin c = case checkKind c of
  Calibrated -> "calibrated"
  Assumed -> "assumed"
  Predicted -> "predicted"

bar :: Bound -> String
bar bound = case bound of
  Between low high -> fixed 3 low ++ " ... " ++ fixed 3 high
  AtLeast low -> ">= " ++ fixed 3 low
  AtMost high -> "<= " ++ fixed 3 high
