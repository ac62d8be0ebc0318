-- | One trial: slices of time with a placement and without, by turns, until a verdict.
--
-- = What happens in it
--
-- First the placement is set for a few periods, after which its sizes may be corrected
-- once. Then come pairs of slices, one with and one without; a coin says which is first.
-- The first period of a slice settles and is not counted; three are, and eight
-- each from the thirteenth pair on. After each pair "Maru.Control.Steer.Evidence" is asked.
--
-- = How it ends
--
-- * 'Faster': proven. Only then is a placement kept.
-- * 'NotFaster': a gain that matters is refuted.
-- * 'Slower': the rate fell with the placement ("Maru.Control.Steer.Level"): the veto, in
--   any period.
-- * 'Undecided': the time is up.
-- * 'Idle': both slices of a pair saw no progress at all: nothing can be told.
--
-- Pure. O(1) a period.
module Maru.Control.Steer.Trial
  ( Side (..),
    Trial,
    begin,
    repeated,
    trialSide,
    trialAge,
    trialCoin,
    trialEvidence,
    trialLevel,
    Turn (..),
    Verdict (..),
    period,
  )
where

import Data.Bits (testBit)
import Data.Word (Word64)
import Maru.Control.Steer.Evidence
import Maru.Control.Steer.Level
import Maru.Control.Steer.Types
import System.Random.SplitMix (mkSMGen, nextWord64)

data Side = Without | With
  deriving (Eq, Show)

data Phase
  = -- | The first slice with the placement, which is not counted.
    Fitting
  | First
  | -- | The other side's mean rate.
    Second !Double
  deriving (Eq, Show)

data Trial = Trial
  { trialSide :: !Side,
    trialPhase :: !Phase,
    -- | Periods of this slice so far, and the sum of the rates that count.
    trialSliceAge :: !Int,
    trialSliceSum :: !Double,
    trialAge :: !Int,
    trialEvidence :: !Evidence,
    -- | Of each side, and how far the rate has fallen with the placement.
    trialWithout :: !Level,
    trialWith :: !Level,
    trialDrop :: !Drop,
    -- | Where the next coins come from.
    trialCoin :: !Word64
  }
  deriving (Eq, Show)

-- | What the program does without is known so far; the coins' source. The placement is set now.
begin :: Level -> Word64 -> Trial
begin without = Trial With Fitting 0 0 0 noEvidence without noLevel noDrop

-- | Of a placement that is in force, whose sizes need no correction. May begin without it.
repeated :: Word64 -> Trial
repeated coin = toss (Trial With First 0 0 0 noEvidence noLevel noLevel noDrop coin)

-- | What is usual on a side.
trialLevel :: Side -> Trial -> Level
trialLevel side = if side == With then trialWith else trialWithout

data Verdict = Faster | NotFaster | Slower | Undecided | Idle
  deriving (Eq, Ord, Show)

data Turn
  = -- | Goes on, on 'trialSide'.
    Goes
  | -- | Goes on after the sizes were looked at once.
    Fitted
  | Ends !Verdict
  deriving (Eq, Show)

-- | Periods of a slice that are not counted, and those that are after so many pairs.
settling :: Int
settling = 1

counted :: Int -> Int
counted n = if n < 12 then 3 else 8

-- | After a period on 'trialSide' with that rate. The share that matters, and the errors
-- allowed of 'Faster' and of 'NotFaster'.
period :: Config -> Double -> Double -> Trial -> (Trial, Turn)
period config alpha rate before
  | alarmed (trialDrop seen) = (seen, Ends Slower)
  | trialSliceAge seen < settling + counted (pairs (trialEvidence seen)) = (seen, spent Goes)
  | otherwise = case trialPhase seen of
    Fitting -> (toss seen, Fitted)
    First -> (fresh seen {trialPhase = Second mean, trialSide = other (trialSide seen)}, spent Goes)
    Second first
      | first <= 0 && mean <= 0 -> (seen, Ends Idle)
      | gained alpha evidence -> (judged, Ends Faster)
      | refuted (configMiss config) evidence -> (judged, Ends NotFaster)
      | otherwise -> (toss judged, spent Goes)
      where
        (with, without) = if trialSide seen == With then (mean, first) else (first, mean)
        evidence = weigh (configGain config) (trialSliceAge seen - settling) with without (trialEvidence seen)
        judged = seen {trialEvidence = evidence}
  where
    seen = observed rate before
    mean = trialSliceSum seen / fromIntegral (max 1 (trialSliceAge seen - settling))
    spent turn = if trialAge seen >= configTrial config then Ends Undecided else turn
    other side = if side == With then Without else With

fresh :: Trial -> Trial
fresh trial = trial {trialSliceAge = 0, trialSliceSum = 0}

-- | The next pair.
toss :: Trial -> Trial
toss trial = (fresh trial) {trialPhase = First, trialSide = if testBit coin 63 then With else Without, trialCoin = coin}
  where
    coin = fst (nextWord64 (mkSMGen (trialCoin trial)))

observed :: Double -> Trial -> Trial
observed rate trial
  | trialSliceAge trial < settling = older
  | trialSide trial == With = summed {trialWith = learn briefly rate (trialWith trial), trialDrop = watch large (trialWithout trial) rate (trialDrop trial)}
  | otherwise = summed {trialWithout = learn briefly rate (trialWithout trial)}
  where
    older = trial {trialSliceAge = trialSliceAge trial + 1, trialAge = trialAge trial + 1}
    summed = older {trialSliceSum = trialSliceSum trial + rate}

-- | The veto is for drops by more than that (of the logarithm); smaller ones take pairs to tell
-- from a load that swings.
large :: Double
large = 0.15
