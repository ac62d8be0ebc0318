-- | A discrete-event simulator of the map room.
--
-- = The model
--
-- * Workers are started one after another, each 'modelStart' seconds after the
--   one before.
-- * A worker that is free claims the next chunk of consecutive items. Claims
--   meet in one word of memory: each takes 'modelClaim' seconds during which no
--   other worker can claim, then 'modelDispatch' seconds of the worker's own.
-- * It evaluates the chunk's items, each of a cost drawn from 'modelCosts'.
-- * The caller takes the chunks in the order of their completion and spends
--   'modelCollect' seconds on each item's result. It never slows the workers
--   down (the logs are longer than what is in flight).
-- * The map has ended when the caller has taken the last result.
--
-- Not in the model: memory bandwidth, garbage collection, cores shared with
-- other programs, workers that die. What it says about chunk sizes is therefore
-- an upper bound of what a machine does.
--
-- The same seed gives the same item costs and so the same result, on every
-- machine. O(n + chunks · log workers) for n items.
module Maru.Control.Sim.Map
  ( Model (..),
    defaultModel,
    Costs (..),
    costsName,
    allCosts,
    Chunking (..),
    chunkingName,
    Outcome (..),
    simulate,
    speedup,
    efficiency,
    ablations,
  )
where

import Data.Array.Unboxed (UArray, listArray, (!))
import Data.List (foldl', sortOn)
import qualified Data.Set as Set
import Maru.Internal.Plan (Seen (..), Settings (..), nextChunk, nothingSeen)
import qualified Maru.Options as Options
import System.Random.SplitMix (SMGen, mkSMGen, nextDouble)

-- | All times in seconds.
data Model = Model
  { modelItems :: !Int,
    modelWorkers :: !Int,
    -- | Mean cost of an item.
    modelItem :: !Double,
    modelCosts :: !Costs,
    modelChunking :: !Chunking,
    modelStart :: !Double,
    modelClaim :: !Double,
    modelDispatch :: !Double,
    modelCollect :: !Double,
    modelSeed :: !Int
  }
  deriving (Eq, Show)

-- | 10 000 items of 100 µs on 4 workers, with costs of starting, claiming and
-- collecting of the order that a current machine has.
defaultModel :: Model
defaultModel =
  Model
    { modelItems = 10000,
      modelWorkers = 4,
      modelItem = 1e-4,
      modelCosts = Exponential,
      modelChunking = Guided,
      modelStart = 5e-4,
      modelClaim = 1e-7,
      modelDispatch = 1e-6,
      modelCollect = 2e-7,
      modelSeed = 1
    }

-- | How the costs of items are distributed around their mean.
data Costs
  = -- | All equal.
    Constant
  | -- | Between 0 and twice the mean.
    Uniform
  | Exponential
  | -- | One item in a hundred costs fifty times as much as the others.
    Bimodal
  | -- | Growing from nothing to twice the mean over the list.
    Rising
  | -- | Shrinking from twice the mean to nothing: the rows of a triangle, as those of all pairs.
    Falling
  deriving (Eq, Show, Enum, Bounded)

costsName :: Costs -> String
costsName costs = case costs of
  Constant -> "constant"
  Uniform -> "uniform"
  Exponential -> "exponential"
  Bimodal -> "bimodal"
  Rising -> "rising"
  Falling -> "falling"

allCosts :: [Costs]
allCosts = [minBound .. maxBound]

-- | How many items a claim takes.
data Chunking
  = -- | One equal chunk per worker, fixed before the start.
    Static
  | -- | Always so many (at least 1).
    Fixed !Int
  | -- | The library's own rule ("Maru.Internal.Plan"), which learns what an item
    -- costs when the first chunk ends.
    Guided
  deriving (Eq, Show)

chunkingName :: Chunking -> String
chunkingName chunking = case chunking of
  Static -> "static"
  Fixed size -> "fixed:" ++ show size
  Guided -> "guided"

data Outcome = Outcome
  { -- | Seconds from the first start to the last result taken.
    outcomeMakespan :: !Double,
    -- | Sum of the items' costs: what one worker without any cost of its own needs.
    outcomeWork :: !Double,
    outcomeChunks :: !Int,
    -- | Seconds between the first and the last worker's end.
    outcomeTail :: !Double
  }
  deriving (Eq, Show)

-- | Work over makespan; 0 for an empty map.
speedup :: Outcome -> Double
speedup o = if outcomeMakespan o > 0 then outcomeWork o / outcomeMakespan o else 0

-- | Speed-up per worker.
efficiency :: Model -> Outcome -> Double
efficiency model o = speedup o / fromIntegral (max 1 (modelWorkers model))

-- | Runs the model. Item and worker numbers below 1 count as 0 items, 1 worker.
simulate :: Model -> Outcome
simulate model = finish (go initial 0 0 (Planned 0 (1 / 0)) [])
  where
    count = max 0 (modelItems model)
    workers = max 1 (modelWorkers model)
    prefix = prefixSums model {modelItems = count}
    initial = Set.fromList [(modelStart model * fromIntegral (w + 1), w) | w <- [0 .. workers - 1]]

    -- Worker-free times, time at which the claim word is free, next item, what
    -- the planner knows, completed chunks.
    go free claimable next (Planned before known) done
      | next >= count = (free, done)
      | otherwise = case Set.minView free of
        Nothing -> (free, done)
        Just ((now, w), others) ->
          go (Set.insert (ended, w) others) claimed (next + size) (Planned aimed (min known ended)) ((ended, size) : done)
          where
            (size, aimed) = chunkSize model workers next (known <= now) before
            claimed = max now claimable + modelClaim model
            cost = prefix ! (next + size) - prefix ! next
            ended = claimed + modelDispatch model + cost

    finish (free, done) =
      Outcome
        { outcomeMakespan = foldl' collect 0 (sortOn fst done),
          outcomeWork = prefix ! count,
          outcomeChunks = length done,
          outcomeTail = spread (map fst (Set.toList free))
        }
    collect callerFree (ended, size) =
      max callerFree ended + modelCollect model * fromIntegral size
    spread ends = if null ends then 0 else maximum ends - minimum ends

-- | The size that the planner aimed at last, and when the first chunk ended.
data Planned = Planned !Int !Double

-- | Items of the chunk that starts at an index (at least 1, never past the end),
-- given whether an item's cost is known and what was aimed at before. And what is aimed at now.
chunkSize :: Model -> Int -> Int -> Bool -> Int -> (Int, Int)
chunkSize model workers next known before = case modelChunking model of
  Static -> always ((modelItems model + workers - 1) `div` workers)
  Fixed n -> always n
  Guided -> nextChunk (Settings Options.Guided workers Nothing) seen
  where
    left = modelItems model - next
    always n = (max 1 (min left n), before)
    nanoseconds = Just . (* 1e9)
    seen =
      nothingSeen
        { seenItemNs = if known then nanoseconds (modelItem model) else Nothing,
          seenAvailable = left,
          seenEnded = True,
          seenSize = before
        }

-- | Cost of the items before each index.
prefixSums :: Model -> UArray Int Double
prefixSums model = listArray (0, n) (scanl (+) 0 (take n costs))
  where
    n = modelItems model
    costs = zipWith (draw model) [0 ..] (uniforms (mkSMGen (fromIntegral (modelSeed model))))

uniforms :: SMGen -> [Double]
uniforms generator = let (u, rest) = nextDouble generator in u : uniforms rest

-- | Cost of one item from its index and a number in [0, 1).
draw :: Model -> Int -> Double -> Double
draw model index u = modelItem model * factor
  where
    factor = case modelCosts model of
      Constant -> 1
      Uniform -> 2 * u
      Exponential -> negate (log (1 - u))
      Bimodal -> (if u < 0.01 then 50 else 1) / 1.49
      Rising -> place
      Falling -> 2 - place
    place = 2 * fromIntegral index / fromIntegral (max 1 (modelItems model - 1))

-- | The model without each of its parts, one at a time: what each part costs
-- the map. The whole model comes first.
ablations :: Model -> [(String, Model)]
ablations model =
  [ ("whole model", model),
    ("workers start at once", model {modelStart = 0}),
    ("claims never meet", model {modelClaim = 0}),
    ("dispatch is free", model {modelDispatch = 0}),
    ("collecting is free", model {modelCollect = 0}),
    ("all items cost the same", model {modelCosts = Constant}),
    ("static chunks", model {modelChunking = Static}),
    ("chunks of one item", model {modelChunking = Fixed 1})
  ]
