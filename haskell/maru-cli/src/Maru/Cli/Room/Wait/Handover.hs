-- | How long it takes from the change of a word to the return of the wait for it, measured here.
module Maru.Cli.Room.Wait.Handover
  ( handoversOf,
    nanoseconds,
  )
where

import Data.List.NonEmpty (NonEmpty, nonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Maru.Control.Statistics
import Maru.Native.Probe (handover)
import Numeric (showFFloat)

-- | Policies by number, waits of so many nanoseconds, that many rounds.
handoversOf :: [(Int, String)] -> Int -> Int -> IO [(String, Summary)]
handoversOf policies' pause rounds = concat <$> mapM one policies'
  where
    one (number, name) = either (const []) (named name) <$> handover number pause rounds
    named name latencies = [(name, summary sample) | Just sample <- [nonEmpty latencies]]

-- | Median with the range of the middle nine tenths: single interruptions by
-- the machine's other work are not the policy's.
summary :: NonEmpty Double -> Summary
summary sample = Summary (median sample) (quantile 0.05 sample) (quantile 0.95 sample) (NonEmpty.length sample)

nanoseconds :: Double -> String
nanoseconds ns
  | ns >= 1e6 = showFFloat (Just 1) (ns / 1e6) " ms"
  | ns >= 1e3 = showFFloat (Just 1) (ns / 1e3) " µs"
  | otherwise = showFFloat (Just 0) ns " ns"
