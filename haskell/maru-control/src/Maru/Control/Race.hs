-- | Which of several settings is the fastest, found by measuring them in interleaved rounds. So a
-- machine that gets slower during the measurement slows all of them.
--
-- A setting is dropped as soon as its best run is slower than the leader's
-- worst one. The verdict is a gain only if the leader beats the baseline by
-- more than @worthwhile@ /and/ surely. Of many that is in every round that both ran: the best was chosen, so no
-- interval is true of it. Of two alone it is the whole 95 % interval of their ratios ("Maru.Control.Ratio"), and
-- the race goes on until that decides. Noise does not become a recommendation, and one disturbed round does not
-- hide a gain.
module Maru.Control.Race
  ( Race,
    raceBaseline,
    Verdict (..),
    start,
    entrants,
    record,
    decided,
    verdict,
    times,
    ratiosTo,
    fewestRounds,
  )
where

import Data.List (sortOn)
import Data.List.NonEmpty (NonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import Maru.Control.Ratio (Bar (..), estimate, fewestPairs, judge, settled)
import qualified Maru.Control.Ratio as Ratio
import Maru.Control.Statistics (median)

-- | A race under way.
data Race c = Race
  { raceBaseline :: !c,
    raceRunning :: ![c],
    -- | Seconds, newest first; a setting is absent until its first run.
    raceTimes :: !(Map c (NonEmpty Double)),
    raceRounds :: !Int
  }

data Verdict c
  = -- | The setting, and the baseline's median divided by its median.
    Gain !c !Double
  | -- | The baseline stays; the best rival and the same ratio, if any ran.
    NoGain !(Maybe (c, Double))
  | -- | So many rounds were run, of so many that are needed.
    Undecided !Int !Int
  deriving (Eq, Show)

-- | The least ratio that is worth a change of settings.
worthwhile :: Double
worthwhile = 1.02

-- | Rounds before anything is dropped, or decided of more than two.
fewestRounds :: Int
fewestRounds = 3

-- | The baseline and its rivals.
start :: Eq c => c -> [c] -> Race c
start baseline rivals =
  Race
    { raceBaseline = baseline,
      raceRunning = baseline : filter (/= baseline) rivals,
      raceTimes = Map.empty,
      raceRounds = 0
    }

-- | The sides of the next round, in that order: rotated, so that nobody always
-- runs behind the same neighbour.
entrants :: Race c -> [c]
entrants race = drop turn (raceRunning race) ++ take turn (raceRunning race)
  where
    turn = raceRounds race `mod` max 1 (length (raceRunning race))

-- | A round's seconds. A setting without a time (it failed) leaves the race.
record :: Ord c => Map c Double -> Race c -> Race c
record results race = next {raceRunning = filter (stays next) (raceRunning next)}
  where
    next =
      race
        { raceRunning = filter (`Map.member` results) (raceRunning race),
          raceTimes = Map.foldrWithKey add (raceTimes race) results,
          raceRounds = raceRounds race + 1
        }
    add c seconds = Map.insertWith (<>) c (pure seconds)

stays :: Ord c => Race c -> c -> Bool
stays race c = c == raceBaseline race || raceRounds race < fewestRounds || not beaten
  where
    beaten = case (Map.lookup c (raceTimes race), standings race) of
      (Just own, (_, leading) : _) -> minimum own > maximum leading
      _ -> False

-- | Those still in the race, fastest median first.
standings :: Ord c => Race c -> [(c, NonEmpty Double)]
standings race = sortOn (median . snd) (mapMaybe measured (raceRunning race))
  where
    measured c = (,) c <$> Map.lookup c (raceTimes race)

-- | Only one setting is left, or the ratios of two have decided: nothing to compare any more.
decided :: Ord c => Race c -> Bool
decided race = over race || maybe False (settled noFaster . estimate) (duel race)

over :: Race c -> Bool
over race = length (raceRunning race) <= 1

-- | What is claimed of the ratios of two, and refuted by a gain.
noFaster :: Bar
noFaster = AtMost 1

-- | Of a race of two, and no more.
duel :: Ord c => Race c -> Maybe (NonEmpty Double)
duel race = case filter (/= raceBaseline race) (Map.keys (raceTimes race)) of
  [rival] -> ratiosTo race rival
  _ -> Nothing

-- | Of each round that both ran: the baseline by that setting, oldest first.
ratiosTo :: Ord c => Race c -> c -> Maybe (NonEmpty Double)
ratiosTo race c = NonEmpty.zipWith (/) <$> ran (raceBaseline race) <*> ran c
  where
    ran = fmap NonEmpty.reverse . (`Map.lookup` raceTimes race)

-- | The answer after the rounds so far.
verdict :: Ord c => Race c -> Verdict c
verdict race
  | raceRounds race < needed && not (over race) = Undecided (raceRounds race) needed
  | otherwise = standing race
  where
    needed = maybe fewestRounds (const fewestPairs) (duel race)

standing :: Ord c => Race c -> Verdict c
standing race = case (Map.lookup (raceBaseline race) (raceTimes race), rivals) of
  (Just base, (c, own) : _)
    | ratio >= worthwhile && surely c -> Gain c ratio
    | otherwise -> NoGain (Just (c, ratio))
    where
      ratio = median base / median own
  _ -> NoGain Nothing
  where
    rivals = filter ((/= raceBaseline race) . fst) (standings race)
    surely c = case duel race of
      Just of' -> judge noFaster (estimate of') == Ratio.Fails
      Nothing -> maybe False (\of' -> length of' >= fewestRounds && all (> 1) of') (ratiosTo race c)

-- | Everything that was measured, oldest first.
times :: Race c -> Map c [Double]
times = Map.map (reverse . NonEmpty.toList) . raceTimes
