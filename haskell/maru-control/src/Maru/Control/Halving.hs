-- | A search for the best setting of several axes, with few measurements.
--
-- One axis at a time: its values are tried with the best of the others. Values are halved
-- successively (Jamieson and Talwalkar, AISTATS 2016): all are measured once, the better half of
-- them twice more, and so on, until one is left. What is compared was measured in the same rounds,
-- in turn, so a machine that becomes slower during the search slows all of it. After the last axis
-- the search begins again at the first, until nothing changes, or each axis had its turn twice. The
-- second time an axis has the three values that did best the first time.
--
-- The caller measures: 'proposal' says what, 'record' takes what it found. Less is better. The
-- search only proposes: whether the best setting beats the present one is decided by a race of
-- these two afterwards ("Maru.Control.Race").
module Maru.Control.Halving
  ( Search,
    Axis (..),
    search,
    proposal,
    record,
    close,
    leader,
    underway,
    Heat (..),
    heats,
  )
where

import Data.List (sortOn)
import Data.List.NonEmpty (nonEmpty)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import Maru.Control.Statistics (median)

-- | The values that are tried of something. The first is what it has at the start.
data Axis a v = Axis
  { axisName :: !a,
    axisValues :: ![v]
  }
  deriving (Eq, Show)

-- | What was measured of one axis.
data Heat a v = Heat
  { heatAxis :: !a,
    -- | Of each setting that was tried, oldest first.
    heatFound :: !(Map (Map a v) [Double])
  }
  deriving (Eq, Show)

-- | A search under way.
data Search a v = Search
  { -- | Those to come in this pass, the one under way first.
    searchLeft :: ![Axis a v],
    searchAll :: ![Axis a v],
    -- | The best so far, of every axis.
    searchLeader :: !(Map a v),
    -- | Axes whose best value is known with these others.
    searchSettled :: !(Map a (Map a v)),
    -- | Settings of the axis under way that are left, and which stage this is: 1, 2, …
    searchField :: ![Map a v],
    searchStage :: !Int,
    -- | Rounds of this stage that were measured.
    searchRounds :: !Int,
    searchFound :: !(Map (Map a v) [Double]),
    -- | Newest first.
    searchDone :: ![Heat a v]
  }

-- | Axes with a single value are left out.
search :: (Ord a, Ord v) => [Axis a v] -> Search a v
search axes = onto (Search axes' axes' start Map.empty [] 1 0 Map.empty [])
  where
    axes' = filter ((> 1) . length . axisValues) axes
    start = Map.fromList [(axisName axis, v) | axis <- axes', v : _ <- [axisValues axis]]

-- | What to measure next, once each; empty: the search is over. In rotated order, so that nobody always runs behind the
-- same neighbour.
proposal :: Search a v -> [Map a v]
proposal s = drop turn field ++ take turn field
  where
    field = searchField s
    turn = searchRounds s `mod` max 1 (length field)

-- | The best of what was measured; of every axis.
leader :: Search a v -> Map a v
leader = searchLeader

-- | The axis that the proposal is about.
underway :: Search a v -> Maybe a
underway s = case searchLeft s of
  axis : _ | not (null (searchField s)) -> Just (axisName axis)
  _ -> Nothing

-- | All that was measured, in order. The axis under way is the last.
heats :: Search a v -> [Heat a v]
heats s = reverse ([Heat (axisName axis) (Map.map reverse (searchFound s)) | not (Map.null (searchFound s)), axis <- take 1 (searchLeft s)] ++ searchDone s)

-- | What the settings of a 'proposal' came to. One that is missing has failed, and is tried no more.
record :: (Ord a, Ord v) => Map (Map a v) Double -> Search a v -> Search a v
record found s
  | length field <= 1 = settle standing next
  | searchRounds next < searchStage next = next
  | length kept <= 1 = settle kept next
  | otherwise = next {searchField = kept, searchStage = searchStage next + 1, searchRounds = 0}
  where
    field = filter (`Map.member` found) (searchField s)
    next =
      s
        { searchField = field,
          searchRounds = searchRounds s + 1,
          searchFound = Map.foldrWithKey (\c v -> Map.insertWith (++) c [v]) (searchFound s) found
        }
    standing = ordered next
    -- Two are told apart by three rounds at least.
    kept
      | length standing == 2 && searchStage next < 2 = standing
      | otherwise = take ((length standing + 1) `div` 2) standing

-- | The search ends here: what was found of the axis under way counts as it stands.
close :: (Ord a, Ord v) => Search a v -> Search a v
close s = (if null (ordered s) then s else settle (ordered s) s) {searchLeft = [], searchField = []}

-- | What is left of the axis under way and was measured, the best first.
ordered :: (Ord a, Ord v) => Search a v -> [Map a v]
ordered s = map fst (sortOn snd (mapMaybe (\c -> (,) c . median <$> (Map.lookup c (searchFound s) >>= nonEmpty)) (searchField s)))

-- | The axis under way is done, and this is the order of its settings.
settle :: (Ord a, Ord v) => [Map a v] -> Search a v -> Search a v
settle order s = case searchLeft s of
  [] -> s
  axis : rest ->
    let best = case order of
          c : _ -> c
          [] -> searchLeader s
     in onto
          s
            { searchLeft = rest,
              searchLeader = best,
              searchSettled = Map.insert (axisName axis) (Map.delete (axisName axis) best) (searchSettled s),
              searchFound = Map.empty,
              searchDone = Heat (axisName axis) (Map.map reverse (searchFound s)) : searchDone s
            }

-- | Onto the next axis whose best value is not known with the others as they are.
onto :: (Ord a, Ord v) => Search a v -> Search a v
onto s = case break open (searchLeft s) of
  (_, axis : rest) -> s {searchLeft = axis : rest, searchField = field axis, searchStage = 1, searchRounds = 0}
  (_, [])
    | any open (searchAll s) -> onto s {searchLeft = searchAll s}
    | otherwise -> s {searchLeft = [], searchField = []}
  where
    open axis = turns axis < 2 && Map.lookup (axisName axis) (searchSettled s) /= Just (Map.delete (axisName axis) (searchLeader s))
    turns axis = length (filter ((== axisName axis) . heatAxis) (searchDone s))
    -- What leads now is the first: of two that are equal it stays.
    field axis = searchLeader s : [c | v <- promising axis, let c = Map.insert (axisName axis) v (searchLeader s), c /= searchLeader s]
    promising axis = case [heatFound heat | heat <- searchDone s, heatAxis heat == axisName axis] of
      found : _ -> take 3 (mapMaybe (Map.lookup (axisName axis) . fst) (sortOn standing (Map.toList found)))
      [] -> axisValues axis
    -- What stayed longer was better; of these, by what it took.
    standing (_, costs) = (negate (length costs), median <$> nonEmpty costs)
