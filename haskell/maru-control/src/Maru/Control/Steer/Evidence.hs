-- | The sequential test behind a verdict: is a program faster with a placement
-- than without?
--
-- = The test
--
-- Slices of time with and without come in pairs, and a coin says which of a pair
-- comes first. A pair gives the logarithm of the ratio of its two rates. Where the placement
-- has no effect, the coin alone decides that number's sign, whatever the rates do. They may drift,
-- swing in step with the slices, or have any tails. So a bettor who stakes on "faster" before each
-- pair, and whose capital is multiplied by @2 \/ (1 + exp (-2 y))@ at a ratio of @y@ stakes, plays
-- a fair game: the factors of @y@ and @-y@ add up to 2. Capital of @1 \/ alpha@ is reached at any
-- time at all with a probability of at most @alpha@ (Ville's inequality). So one may look after
-- each pair and stop when one likes.
--
-- The capital is divided between a few stakes, since the best one depends on the noise: a
-- mixture. No variance is estimated. A second bettor stakes against "faster by the
-- least gain that matters": the capital of that one says that going on is of no use.
--
-- Sources: Ville 1939; for symmetric increments de la Peña 1999; mixtures and
-- inference that is valid at any time: Howard, Ramdas, McAuliffe and Sekhon 2021; betting:
-- Waudby-Smith and Ramdas 2024.
--
-- Pure. O(stakes) a pair.
module Maru.Control.Steer.Evidence
  ( Evidence,
    noEvidence,
    weigh,
    gained,
    refuted,
    pairs,
    ratio,
    allowance,

    -- * For tests
    capitalFor,
  )
where

import Data.List (foldl')

-- | What the pairs so far say.
data Evidence = Evidence
  { -- | Logarithms of the two bettors' capital, by stake.
    evidenceFor :: ![Double],
    evidenceAgainst :: ![Double],
    evidencePairs :: !Int,
    -- | Periods counted in each of the slices, and the sum of log ratios by periods.
    evidenceWeight :: !Double,
    evidenceSum :: !Double
  }
  deriving (Eq, Show)

-- | Per counted period of a slice. The best for a gain of 10 % under Gaussian noise of 22, 11, 5
-- and 3 % a period. Twice too much or too little costs a quarter of the speed.
stakes :: [Double]
stakes = [1, 4, 16, 64]

noEvidence :: Evidence
noEvidence = Evidence even' even' 0 0 0
  where
    even' = map (const (negate (log (fromIntegral (length stakes))))) stakes

-- | One pair: the least gain that matters (a share), the periods counted in each slice, the rates
-- with and without. A pair of two rates of 0 says nothing.
weigh :: Double -> Int -> Double -> Double -> Evidence -> Evidence
weigh least counted with without evidence
  | with <= 0 && without <= 0 = evidence
  | otherwise =
    Evidence
      { evidenceFor = bet d (evidenceFor evidence),
        evidenceAgainst = bet (log (1 + least) - d) (evidenceAgainst evidence),
        evidencePairs = evidencePairs evidence + 1,
        evidenceWeight = evidenceWeight evidence + weight,
        evidenceSum = evidenceSum evidence + weight * d
      }
  where
    weight = fromIntegral counted
    -- Symmetric, so the game stays fair; a rate of 0 is a small one.
    d = max (-3) (min 3 (log (max tiny with) - log (max tiny without)))
    tiny = 1e-9 * max with without
    bet y = zipWith (\stake owned -> owned + factor (stake * weight * y)) stakes

-- | Logarithm of @2 \/ (1 + exp (-2 y))@.
factor :: Double -> Double
factor y
  | y < -300 = log 2 + 2 * y
  | otherwise = log 2 - log (1 + exp (-2 * y))

capital :: [Double] -> Double
capital parts = most + log (foldl' (\s p -> s + exp (p - most)) 0 parts)
  where
    most = maximum (-1e300 : parts)

-- | Of the bettor for the placement, as a factor of the 1 at the start.
capitalFor :: Evidence -> Double
capitalFor = exp . capital . evidenceFor

-- | It is faster with: wrong with at most that probability.
gained :: Double -> Evidence -> Bool
gained alpha = (>= negate (log alpha)) . capital . evidenceFor

-- | It is not faster by what matters.
refuted :: Double -> Evidence -> Bool
refuted alpha = (>= negate (log alpha)) . capital . evidenceAgainst

pairs :: Evidence -> Int
pairs = evidencePairs

-- | Estimate of the rate with over that without; 1 where nothing is known.
ratio :: Evidence -> Double
ratio evidence
  | evidenceWeight evidence <= 0 = 1
  | otherwise = exp (evidenceSum evidence / evidenceWeight evidence)

-- | The error that a controller's n-th trial may make, from 1 on, so that all that it
-- ever makes come to at most that much.
allowance :: Double -> Int -> Double
allowance whole n = whole / (k * (k + 1))
  where
    k = fromIntegral (max 1 n)
