-- | Which deadline of a lock has the highest throughput among those that hold an objective for the
-- tail. It is the search as a pure plan of measuring windows.
--
-- Only deadlines up to the objective's own limit are tried. A percentile alone would ask for none
-- at all. A lock that hardly ever leaves a socket starves so few operations, for so long, that
-- p99.9 does not show them. A deadline within the limit keeps what no percentile keeps.
--
-- What the search relies on: the longer a lock may stay in a socket, the higher
-- its throughput. It relies on nothing about the tail, which has a hump between short and long
-- deadlines, so no hill is climbed. The search comes down from the limit in steps of two and stops
-- at the first deadline that holds the objective. It refines between it and the one before, and
-- confirms. FIFO stands beside it and wins where it is faster, as on a lock that is hardly
-- contended.
--
-- At most 'mostWindows' windows, whatever they say. Pure; the caller measures.
module Maru.Control.Tune.Lock
  ( Objective (..),
    Setting (..),
    settingName,
    Window (..),
    Verdict (..),
    verdictLine,
    percentileName,
    Plan (..),
    search,
    follow,
    mostWindows,
    deadlines,
  )
where

import Control.Monad (ap, (>=>))
import Data.List.NonEmpty (NonEmpty (..))
import Maru.Control.Statistics (median)
import Numeric (showFFloat)

-- | At most 1 - share of the operations may take longer than the limit.
data Objective = Objective
  { -- | 0.999 for p99.9.
    objectiveShare :: !Double,
    -- | Nanoseconds.
    objectiveLimit :: !Double
  }
  deriving (Eq, Show)

-- | How waiters are admitted.
data Setting
  = InOrder
  | -- | CNA that gives way after so many nanoseconds.
    Within !Double
  deriving (Eq, Ord, Show)

-- | As @--lock@ takes it.
settingName :: Setting -> String
settingName setting = case setting of
  InOrder -> "fifo"
  Within d -> "cna:deadline=" ++ show (round d :: Int) ++ "ns"

-- | What was seen in one window.
data Window = Window
  { -- | Operations a second.
    windowThroughput :: !Double,
    -- | The objective's percentile, in nanoseconds.
    windowTail :: !Double
  }
  deriving (Eq, Show)

data Verdict
  = -- | Medians of the windows at that setting.
    Use !Setting !Window
  | -- | No setting holds the objective; FIFO, whose window this is, neither.
    Infeasible !Window
  deriving (Eq, Show)

-- | One line for the user.
verdictLine :: Objective -> Verdict -> String
verdictLine objective verdict = case verdict of
  Use setting w -> settingName setting ++ ": " ++ name ++ " " ++ micro (windowTail w) ++ " of " ++ limit ++ " allowed"
  Infeasible w -> "infeasible: FIFO already misses it (" ++ name ++ " " ++ micro (windowTail w) ++ ", " ++ limit ++ " allowed)"
  where
    name = percentileName objective
    limit = micro (objectiveLimit objective)
    micro ns = showFFloat (Just 1) (ns / 1000) " µs"

-- | @p99.9@; thousandths of a percent are the least that is shown.
percentileName :: Objective -> String
percentileName objective = 'p' : showFFloat Nothing (fromIntegral (round (objectiveShare objective * 1e5) :: Int) / 1000 :: Double) ""

-- | What to do next.
data Plan
  = Measure !Setting (Window -> Plan)
  | Decided !Verdict

-- | Carries a plan out; the verdict and every window, oldest first.
follow :: Monad m => (Setting -> m Window) -> Plan -> m (Verdict, [(Setting, Window)])
follow measure = go []
  where
    go seen plan = case plan of
      Decided verdict -> pure (verdict, reverse seen)
      Measure setting next -> measure setting >>= \w -> go ((setting, w) : seen) (next w)

mostWindows :: Int
mostWindows = 50

-- | The steps down, in nanoseconds: from the limit, but at most 16 ms, to half a
-- microsecond.
deadlines :: Objective -> [Double]
deadlines objective = takeWhile (>= shortest) (iterate (/ 2) (min 1.6e7 (objectiveLimit objective)))

-- | Shorter than any hand-over worth keeping local.
shortest :: Double
shortest = 500

-- | The whole search.
search :: Objective -> Plan
search objective = runTrial (descent objective) mostWindows (\verdict _ -> Decided verdict)

-- ---- the search --------------------------------------------------------

-- | A search with a number of windows left.
newtype Trial a = Trial {runTrial :: Int -> (a -> Int -> Plan) -> Plan}

instance Functor Trial where
  fmap f (Trial run) = Trial (\left next -> run left (next . f))

instance Applicative Trial where
  pure a = Trial (\left next -> next a left)
  (<*>) = ap

instance Monad Trial where
  Trial run >>= f = Trial (\left next -> run left (\a left' -> runTrial (f a) left' next))

-- | 'Nothing' when there is none left.
window :: Setting -> Trial (Maybe Window)
window setting = Trial $ \left next ->
  if left <= 0 then next Nothing left else Measure setting (\w -> next (Just w) (left - 1))

descent :: Objective -> Trial Verdict
descent objective = do
  fifo <- windows 3 InOrder
  held <- firstHolding objective Nothing (deadlines objective)
  chosen <- maybe (pure Nothing) (refine objective >=> settle objective) held
  pure (decide objective fifo chosen)

-- | FIFO unless something else holds the objective and is faster, or FIFO does not
-- hold it.
decide :: Objective -> Maybe (NonEmpty Window) -> Maybe (Setting, Window) -> Verdict
decide objective fifo chosen = case (summary <$> fifo, chosen) of
  (Just plain, Just (setting, w))
    | windowThroughput w > windowThroughput plain || not (within objective plain) -> Use setting w
  (Nothing, Just (setting, w)) -> Use setting w
  (Just plain, _)
    | within objective plain -> Use InOrder plain
    | otherwise -> Infeasible plain
  -- Not one window could be measured.
  (Nothing, Nothing) -> Infeasible (Window 0 (1 / 0))

within :: Objective -> Window -> Bool
within objective w = windowTail w <= objectiveLimit objective

summary :: NonEmpty Window -> Window
summary ws = Window (median (fmap windowThroughput ws)) (median (fmap windowTail ws))

-- | So many windows of a setting, as far as there are any left.
windows :: Int -> Setting -> Trial (Maybe (NonEmpty Window))
windows n setting = gather n []
  where
    gather :: Int -> [Window] -> Trial (Maybe (NonEmpty Window))
    gather 0 seen = pure (some seen)
    gather k seen = window setting >>= maybe (pure (some seen)) (gather (k - 1) . (: seen))
    some seen = case seen of
      [] -> Nothing
      w : ws -> Just (w :| ws)

-- | The best of two out of three windows; a clear miss counts at once.
holds :: Objective -> Setting -> Trial Bool
holds objective setting = vote (0 :: Int) (0 :: Int)
  where
    vote 2 _ = pure True
    vote _ 2 = pure False
    vote yes no = window setting >>= maybe (pure False) (judge yes no)
    judge yes no w
      | windowTail w > 1.5 * objectiveLimit objective = pure False
      | within objective w = vote (yes + 1) no
      | otherwise = vote yes (no + 1)

-- | The first deadline that holds the objective, and the one that was tried and
-- missed before it.
firstHolding :: Objective -> Maybe Double -> [Double] -> Trial (Maybe (Maybe Double, Double))
firstHolding _ _ [] = pure Nothing
firstHolding objective missed (deadline : shorter) = do
  good <- holds objective (Within deadline)
  if good then pure (Just (missed, deadline)) else firstHolding objective (Just deadline) shorter

-- | Two halvings of the gap, on a scale of ratios.
refine :: Objective -> (Maybe Double, Double) -> Trial Double
refine _ (Nothing, held) = pure held
refine objective (Just missed, held) = halve (2 :: Int) held missed
  where
    halve 0 low _ = pure low
    halve k low high = do
      let middle = sqrt (low * high)
      better <- holds objective (Within middle)
      if better then halve (k - 1) middle high else halve (k - 1) low middle

-- | Five more windows, of which the median must hold the objective; else a
-- shorter deadline.
settle :: Objective -> Double -> Trial (Maybe (Setting, Window))
settle objective deadline = do
  seen <- windows 5 (Within deadline)
  case summary <$> seen of
    Just w | within objective w -> pure (Just (Within deadline, w))
    Just _ | deadline > shortest -> settle objective (deadline / sqrt 2)
    _ -> pure Nothing
