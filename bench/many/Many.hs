{-# LANGUAGE OverloadedStrings #-}

-- | @many@: one machine from one to all of its cores, in ten minutes: what each room does with them,
-- and which bars hold. The parts are in "ManyParts".
module Many
  ( manyExperiment,
  )
where

import Control.Exception (SomeException)
import Data.Aeson (object, (.=))
import Data.Bifunctor (first)
import Data.List (tails)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import GHC.Clock (getMonotonicTime)
import GHC.Conc (getNumProcessors)
import ManyParts
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)

manyExperiment :: Experiment
manyExperiment =
  Experiment
    { experimentName = "many",
      experimentPurpose = "This machine from one to all of its cores, every room, in ten minutes: the map, a large heap, locks, MPI, shared memory, the cost of maru run",
      experimentRun = run
    }

-- | Each part has its share of the time that those before it have left. One that the machine cannot
-- run is said and leaves the others alone; none is begun after one that was interrupted.
run :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
run reaper effort say = do
  cores <- getNumProcessors
  begin <- getMonotonicTime
  let total = sum (map partSeconds (parts cores)) `div` (if effort == Quick then 4 else 1)
      inShare (part, after) = do
        spent <- subtract begin <$> getMonotonicTime
        measurePart reaper (shareOfTime (total - round spent) (partSeconds part) after) say part
  (found, cut) <- inTurn inShare (zip (parts cores) (map (map partSeconds) (drop 1 (tails (parts cores)))))
  let measured = [(part, sides, rounds) | ((part, _), Just (sides, rounds)) <- found]
      judged = [judgeClaim rounds claim | (part, sides, rounds) <- measured, claim <- partClaims part rounds, all (`elem` sides) (claimSides claim)]
      missing = [partName part | part <- parts cores, partName part `notElem` [partName p | (p, _, _) <- measured]]
  unlessMeasured [rounds | (_, _, rounds) <- measured] cut
  pure
    Figures
      { figuresLine = plural cores "CPU" ++ ": " ++ countsLine judged ++ concatMap ("; not measured: " ++) missing,
        figuresTables = concat [partTables part rounds | (part, _, rounds) <- measured] ++ [("Bars", claimsTable judged)],
        figuresPlots = concat [partPlots part rounds | (part, _, rounds) <- measured],
        figuresData =
          object
            [ "cpus" .= cores,
              "not_measured" .= missing,
              "parts" .= [object ["part" .= partName part, "measured" .= roundsJson rounds] | (part, _, rounds) <- measured],
              "claims" .= map claimJson judged
            ]
      }

-- | Until one was interrupted; with what that was.
inTurn :: (a -> IO (b, Maybe e)) -> [a] -> IO ([(a, b)], Maybe e)
inTurn _ [] = pure ([], Nothing)
inTurn act (x : xs) = do
  (y, cut) <- act x
  case cut of
    Just _ -> pure ([(x, y)], cut)
    Nothing -> first ((x, y) :) <$> inTurn act xs

-- | In so many seconds: the names of its sides and what they did, unless this machine cannot.
measurePart :: Reaper -> Int -> (String -> IO ()) -> Part -> IO (Maybe ([String], Rounds), Maybe SomeException)
measurePart reaper share say part = do
  readied <- partReady part reaper
  case readied of
    Left why -> (Nothing, Nothing) <$ say (partName part ++ " is not measured: " ++ why)
    Right runs -> do
      let actions = Map.fromList runs
          measure side = sparing (fromMaybe (problem internal ("no side " ++ sideName side)) (Map.lookup (sideName side) actions))
      (rounds, cut) <- runRoundsFor share (say . ((partName part ++ ": ") ++)) measure [Side name [] | (name, _) <- runs]
      pure (Just (map fst runs, rounds), cut)

-- | One side that cannot be run costs its own cells only; the line has been said.
sparing :: IO Sample -> IO Sample
sparing act = orProblem act >>= either (\why -> object ["failed" .= why] <$ warn why) pure
