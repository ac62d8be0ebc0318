-- | What the steering controller's verdicts are worth. The plant is a program whose rate depends on
-- its placement alone, seen through noise, in a closed loop with the controller.
--
-- = The model
--
-- A machine of two nodes of four CPUs. The program asks for a core and a fifth of calls
-- throughout. A period's rate is 100, times the effect of what is in force
-- ('Effect'), times 1 + noise. The noise's standard deviation, over all periods, is the level that
-- is said, whatever its kind:
--
-- * 'Gaussian': each period by itself.
-- * 'Heavy': so, of Student's t with three degrees of freedom.
-- * 'Drifting': a walk that forgets half of where it was in 40 s, with a tenth of the variance from
--   period to period.
-- * 'Periodic': a sine of 1 to 60 s, with as much.
-- * 'Stalling': Gaussian with half the variance; the other half are periods of which nine tenths
--   are lost.
--
-- A rate is never below a twentieth of what it would be without noise.
--
-- Pure: the same seed gives the same run.
module Maru.Control.Sim.Verdict
  ( Noise (..),
    allNoises,
    noiseName,
    Effect (..),
    Seen (..),
    periodSeconds,

    -- * Of many runs
    Question (..),
    questions,
    Answer (..),
    answer,
  )
where

import qualified Data.IntMap.Strict as IntMap
import Data.List (findIndex, mapAccumL, sort)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust)
import Maru.Control.Sim.Io (machine)
import Maru.Control.Steer
import System.Random.SplitMix (SMGen, mkSMGen, nextDouble, nextWord64, splitSMGen)

data Noise = Gaussian | Heavy | Drifting | Periodic | Stalling
  deriving (Eq, Show, Enum, Bounded)

allNoises :: [Noise]
allNoises = [minBound ..]

noiseName :: Noise -> String
noiseName noise = case noise of
  Gaussian -> "gaussian"
  Heavy -> "heavy-tailed"
  Drifting -> "drifting"
  Periodic -> "periodic"
  Stalling -> "stalling"

-- | The rate over that without a placement, in a period, under the policy in force.
newtype Effect = Effect (Int -> Policy -> Double)

-- | Of the controller's in @maru run --io@.
periodSeconds :: Double
periodSeconds = 0.5

-- | A period: its rate, what was in force in it, and what the controller made of it.
data Seen = Seen
  { seenRate :: !Double,
    seenPolicy :: !(Maybe Policy),
    seenTally :: !Tally
  }
  deriving (Eq, Show)

-- | So many periods.
observe :: Config -> Noise -> Double -> Effect -> Int -> Int -> [Seen]
observe config noise level (Effect effect) seed periods = snd (mapAccumL period (startWith coins) (zip [0 ..] (take periods (noises noise level generator))))
  where
    (coins, generator) = nextWord64 (mkSMGen (fromIntegral seed))
    topology = machine 2 8
    cpus = IntMap.keysSet (topologyCpus topology)
    sampleAt = Sample cpus (Map.singleton (Item File Call) (IntMap.singleton 0 1.2)) (IntMap.fromSet (const 0.6) cpus)
    period state (p, scatter) = (next, Seen rate (statePolicy state) (stateTally next))
      where
        rate = 100 * maybe 1 (effect p) (statePolicy state) * max 0.05 (1 + scatter)
        (next, _) = step config topology state (sampleAt rate)

-- ---- noise -------------------------------------------------------------

noises :: Noise -> Double -> SMGen -> [Double]
noises noise level generator = case noise of
  Gaussian -> map (level *) white
  Heavy -> map (level *) (student (normals (fst (splitSMGen generator))))
  Drifting -> zipWith (mixed level) (walk white) others
  Periodic -> zipWith (mixed level) [sqrt 2 * sin (2 * pi * (phase + p / cycle')) | p <- [0 ..]] white
  Stalling -> zipWith (\u z -> if u < stalls then -0.9 else sqrt 0.5 * level * z) (uniforms (snd (splitSMGen generator))) white
  where
    white = normals generator
    stalls = 0.5 * level * level / 0.81
    others = normals (snd (splitSMGen generator))
    mixed l slow fast = l * (sqrt 0.9 * slow + sqrt 0.1 * fast)
    -- Two periods to 120, all octaves alike.
    (cycle', phase) = case uniforms (fst (splitSMGen generator)) of
      a : b : _ -> (2 * 60 ** a, b)
      _ -> (2, 0)
    walk = scanl1 (\x z -> keep * x + sqrt (1 - keep * keep) * z)
    keep = 0.5 ** (1 / 80) :: Double

-- | Of variance 1, from four normal numbers each.
student :: [Double] -> [Double]
student (z : a : b : c : rest) = z / sqrt (a * a + b * b + c * c) : student rest
student _ = []

uniforms :: SMGen -> [Double]
uniforms generator = let (u, next) = nextDouble generator in u : uniforms next

-- | Box and Muller's.
normals :: SMGen -> [Double]
normals = pairs . uniforms
  where
    pairs (u : v : rest) = let r = sqrt (-2 * log (1 - u)) in r * cos (2 * pi * v) : r * sin (2 * pi * v) : pairs rest
    pairs _ = []

-- ---- questions ---------------------------------------------------------

-- | What is asked of many runs: each says after how many periods it came, if it did.
data Question = Question
  { questionName :: !String,
    questionEffect :: !Effect,
    -- | Periods to run at a level of noise, and those within which it must come; 'Nothing': it must
    -- not.
    questionPeriods :: !(Double -> Int),
    questionWithin :: !(Double -> Maybe Int),
    questionCame :: !([Seen] -> Maybe Int),
    -- | The effect changes while it is kept.
    questionTurns :: !Bool
  }

-- | Those of docs\/steer.md. A minute up to 5 % of noise, else five.
questions :: [Question]
questions =
  [ Question "no effect: kept within an hour" (always 1) (const 7200) (const Nothing) kept False,
    Question "a loss of 5 %: kept within an hour" (always 0.95) (const 7200) (const Nothing) kept False,
    Question "a gain of 10 %: found" (always 1.1) time (Just . time) kept False,
    Question "a loss of 5 %: undone" (always 0.95) time (Just . time) undone False,
    Question "a gain that turns into that loss: undone" (turning 0.95) ((+ turn) . time) (Just . time) (undone . drop turn) True,
    Question "a rate that halves: let go" (always 0.5) (const 60) (Just . const 10) lastPlaced False,
    Question "a gain that turns into half: let go" (turning 0.5) (const (turn + 60)) (Just . const 10) (lastPlaced . drop turn) True
  ]
  where
    always share = Effect (\_ _ -> share)
    turning share = Effect (\p _ -> if p < turn then 1.1 else share)
    -- Ten minutes.
    turn = 1200
    time level = if level <= 0.05 then 120 else 600
    kept seen = fmap (+ 1) (findIndex ((> 0) . tallyKept . seenTally) seen)
    undone seen = (+ 1) <$> findIndex ((> before) . tallyUndone . seenTally) seen
      where
        before = maximum (0 : map (tallyUndone . seenTally) (take 1 seen))
    lastPlaced seen = case [p | (p, s) <- zip [0 ..] seen, isJust (seenPolicy s)] of
      [] -> Nothing
      first : more -> Just (last (first : more) - first + 1)

data Answer = Answer
  { answerRuns :: !Int,
    -- | Runs in which it came, and in time.
    answerCame :: !Int,
    answerTimely :: !Int,
    -- | Of those in which it came: seconds, the median and what 95 of 100 stay below.
    answerMedian :: !Double,
    answerMost :: !Double,
    -- | Share of all periods with a placement in force.
    answerPlaced :: !Double
  }
  deriving (Eq, Show)

-- | So many runs, from that seed on.
answer :: Config -> Question -> Noise -> Double -> Int -> Int -> Answer
answer config question noise level seed runs =
  Answer
    { answerRuns = runs,
      answerCame = length came,
      answerTimely = length (filter (\t -> maybe False (t <=) (questionWithin question level)) came),
      answerMedian = quantile' 0.5,
      answerMost = quantile' 0.95,
      answerPlaced = fromIntegral (sum (map fst each)) / fromIntegral (max 1 (runs * questionPeriods question level))
    }
  where
    each = [one (observe config noise level (questionEffect question) (seed + 7919 * n) (questionPeriods question level)) | n <- [1 .. runs]]
    one seen = (length (filter (isJust . seenPolicy) seen), questionCame question seen)
    came = sort [t | (_, Just t) <- each]
    quantile' :: Double -> Double
    quantile' q = case drop (min (length came - 1) (floor (q * fromIntegral (length came)))) came of
      t : _ -> periodSeconds * fromIntegral t
      [] -> 0
