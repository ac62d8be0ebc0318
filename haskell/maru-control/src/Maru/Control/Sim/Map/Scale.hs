-- | How a map's time goes on with cores: a law with two costs, fitted to few cores and held to
-- more.
--
-- = The law
--
-- On @n@ cores a map takes @w \/ n * (1 + a (n - 1) + b n (n - 1))@. The work is @w@. Each core
-- disturbs the others by the share @a@: memory, caches, waiting at the end. Where all meet at one place,
-- as for a collection of one heap, each pair of them costs the share @b@. It is N. Gunther's universal
-- scalability law (A Simple Capacity Model of Massively Parallel Transaction Systems, 1993).
--
-- Not in the law: a caller that cannot take results as fast as workers make them, cores that share an
-- arithmetic unit, and a step where a second socket begins.
--
-- Pure; a fit is O(points).
module Maru.Control.Sim.Map.Scale
  ( -- * The law
    Law (..),
    time,
    speedupOn,
    bestCores,

    -- * Fits
    Timing (..),
    fitted,
    sharing,
    meeting,

    -- * The study
    Curve (..),
    measuredCurves,
    seedLaws,
    scaleChecks,
  )
where

import Data.List (minimumBy)
import Data.Ord (comparing)
import Maru.Control.Sim.Check

-- | Times in one unit.
data Law = Law
  { lawWork :: !Double,
    lawShared :: !Double,
    lawMet :: !Double
  }
  deriving (Eq, Show)

time :: Law -> Int -> Double
time law cores = lawWork law / n * (1 + lawShared law * (n - 1) + lawMet law * n * (n - 1))
  where
    n = fromIntegral (max 1 cores)

-- | Over one core.
speedupOn :: Law -> Int -> Double
speedupOn law cores = lawWork law / time law cores

-- | Up to so many cores, the number with the shortest time; of several the least.
bestCores :: Int -> Law -> Int
bestCores most law = minimumBy (comparing (time law)) [1 .. max 1 most]

-- ---- fits --------------------------------------------------------------

-- | A measured time on so many cores.
data Timing = Timing {timingCores :: !Int, timingTaken :: !Double}
  deriving (Eq, Show)

-- | The law of processes, from times on few cores: @w@ and @a@ by least
-- squares of the relative error, @b@ nothing. From one point: no disturbance.
fitted :: [Timing] -> Law
fitted points = Law w (if w > 0 then slope / w else 0) 0
  where
    -- Cores times time is w + w a (n - 1).
    rows = [(fromIntegral (timingCores p - 1), fromIntegral (timingCores p) * timingTaken p) | p <- points, timingTaken p > 0]
    weighed f = sum [f x y / (y * y) | (x, y) <- rows]
    s = weighed (\_ _ -> 1)
    sx = weighed const
    sy = weighed (\_ y -> y)
    sxx = weighed (\x _ -> x * x)
    sxy = weighed (*)
    determinant = s * sxx - sx * sx
    line = (s * sxy - sx * sy) / determinant
    meets = (sy - line * sx) / s
    -- No law of this kind has less than no work, or less than no disturbance: work alone, then.
    (w, slope)
      | s <= 0 = (0, 0)
      | determinant > 1e-12 * s * sxx && line > 0 && meets > 0 = (meets, line)
      | otherwise = (sy / s, 0)

-- | Processes, or one heap, with that speed-up on so many cores.
sharing, meeting :: Int -> Double -> Law
sharing cores speedup = Law 1 (max 0 ((n / speedup - 1) / (n - 1))) 0
  where
    n = fromIntegral cores
meeting cores speedup = Law 1 0 (max 0 ((n / speedup - 1) / (n * (n - 1))))
  where
    n = fromIntegral cores

-- ---- the study ---------------------------------------------------------

-- | Times of a workload by 'Maru.Options.Shm', in milliseconds.
data Curve = Curve
  { curveName :: !String,
    curveTimings :: ![Timing]
  }
  deriving (Eq, Show)

-- | One round of @maru bench many@ on 16 cores of one socket, 2026-11-23
-- (bench\/results\/many\/2026-11-23-16cpu.json; a test compares).
measuredCurves :: [Curve]
measuredCurves =
  [ Curve "build" (zipWith Timing cores [3166.4, 1251.3, 724.6, 461.1, 290.5]),
    Curve "similar" (zipWith Timing cores [3236.2, 1737.7, 927.7, 461.9, 301.0]),
    Curve "grain" (zipWith Timing cores [3257.8, 1583.6, 909.4, 396.6, 229.1]),
    Curve "ints" (zipWith Timing cores [1282.6, 510.5, 304.2, 133.8, 100.0])
  ]
  where
    cores = [1, 2, 4, 8, 16]

-- | By name: a law with one cost, through the seed's point at 72 cores (seed 1, fig 15).
seedLaws :: [(String, Law)]
seedLaws = [("SAMShm", sharing 72 20), ("SAMSoc", sharing 72 13), ("SAMSTM", meeting 72 5), ("Eval", meeting 72 5)]

-- | What the fits say of more cores, and what the seed's points at 72 cores say of fewer.
scaleChecks :: [Check]
scaleChecks = concatMap predicted measuredCurves ++ calibrated ++ crossing
  where
    -- By what fewer cores took.
    predicted c =
      [ Check (curveName c ++ " on " ++ show (timingCores p) ++ " cores, over what was measured") Predicted (Between 0.85 1.15) (time (fitted few) (timingCores p) / timingTaken p) ""
        | let (few, many) = span ((<= 8) . timingCores) (curveTimings c),
          p <- many
      ]
    calibrated = [Check (name ++ " on 72 cores, speed-up") Calibrated (Between (0.99 * at) (1.01 * at)) (speedupOn law 72) (show at) | ((name, law), at) <- zip seedLaws [20, 13, 5, 5]]
    crossing = case (lookup "Eval" seedLaws, lookup "SAMSoc" seedLaws) of
      (Just eval, Just soc) ->
        [ Check "Eval is best on so many cores" Predicted (Between 10 32) (fromIntegral (bestCores 72 eval)) "a bottleneck from about 10 on",
          Check "Eval on 32 cores of the other machine" Predicted (Between (0.85 * 7.63) (1.15 * 7.63)) (speedupOn eval 32) "7.63",
          Check "SAMSoc on 32 cores of the other machine" Predicted (Between (0.85 * 5.99) (1.15 * 5.99)) (speedupOn soc 32) "5.99"
        ]
      _ -> []
