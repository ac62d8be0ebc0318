{-# LANGUAGE OverloadedStrings #-}

-- | Rounds: in each, every side is measured once, in rotated order, so that what
-- slows the machine slows all of them. Claims (mostly about the ratio of two
-- sides) are judged from the rounds that their sides ran in. Where that does not decide, further
-- rounds are run with these sides alone. An interrupt leaves the rounds that there are.
module Maru.Bench.Rounds
  ( -- * Running
    Rounds (..),
    runRounds,
    runRoundsFrom,
    runRoundsBetween,
    runRoundsWithin,
    runRoundsFor,
    shareOfTime,
    unlessMeasured,
    runRoundsOfEach,
    runRoundsOfEachWithin,
    rotated,

    -- * Looking
    samplesOf,
    summaryOf,
    spreadOf,

    -- * Claims
    Claim (..),
    ratio,
    paired,
    single,
    Judged (..),
    judgeClaim,
    claimsTable,
    claimsLine,
    countsLine,
    claimJson,
    roundsJson,
  )
where

import Control.Exception (SomeException, throwIO)
import Control.Monad (foldM, when)
import Data.Aeson (Value, object, (.=))
import Data.Bifunctor (first)
import Data.IORef
import Data.List (intercalate, nub)
import Data.List.NonEmpty (nonEmpty)
import qualified Data.Map.Strict as Map
import Data.Maybe (mapMaybe)
import GHC.Clock (getMonotonicTime)
import Maru.Bench.Experiment (Effort (..))
import Maru.Bench.Interrupt (finding)
import Maru.Bench.Side (Sample, Side (..))
import Maru.Cli.Exit (orNothing)
import Maru.Cli.Host (readText)
import Maru.Cli.Output
import Maru.Cli.Progress (leftOf)
import Maru.Control.Ratio
import Maru.Control.Statistics
import Numeric (showFFloat)

-- | What was measured, the oldest round first; with the load average before it.
newtype Rounds = Rounds [(String, Map.Map String Sample)]

-- | @runRounds effort say measure sides claims@: rounds of all sides, then more
-- of those that undecided claims are about.
runRounds :: Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [Side] -> (Rounds -> [Claim]) -> IO Rounds
runRounds = runRoundsFrom fewestPairs

-- | The same; no round beyond 'fewestPairs' begins after so many seconds.
runRoundsWithin :: Int -> Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [Side] -> (Rounds -> [Claim]) -> IO Rounds
runRoundsWithin limit = runRoundsUntil (Just limit) (fewestPairs, mostPairs)

-- | The same with so many rounds at least ('fewestPairs' or more), where that number is part
-- of what is claimed; 'Quick' is three rounds all the same.
runRoundsFrom :: Int -> Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [Side] -> (Rounds -> [Claim]) -> IO Rounds
runRoundsFrom fewest = runRoundsUntil Nothing (fewest, mostPairs)

-- | The same with so many rounds at least, at most.
runRoundsBetween :: (Int, Int) -> Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [Side] -> (Rounds -> [Claim]) -> IO Rounds
runRoundsBetween = runRoundsUntil Nothing

-- | Rounds of all sides, one at least and 'fewestPairs' at most, as many as so many seconds hold. Also
-- what interrupted it, if that happened.
runRoundsFor :: Int -> (String -> IO ()) -> (Side -> IO Sample) -> [Side] -> IO (Rounds, Maybe SomeException)
runRoundsFor limit say measure sides = roundsBy next say measure
  where
    -- A round is expected to take as long as those before.
    next spent n _
      | n < 1 || (n < fewestPairs && spent * fromIntegral (n + 1) <= fromIntegral limit * fromIntegral n) = Just (sides, leftOf (spent / fromIntegral (max 1 limit)) spent)
      | otherwise = Nothing

-- | @shareOfTime left own after@: of the seconds that are left to one part and those after it, the part's,
-- by what each was given: where others took longer, all have as much less.
shareOfTime :: Int -> Int -> [Int] -> Int
shareOfTime left own after = max 0 (left * own `div` max 1 (own + sum after))

runRoundsUntil :: Maybe Int -> (Int, Int) -> Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [Side] -> (Rounds -> [Claim]) -> IO Rounds
runRoundsUntil limit between effort say measure sides claims = do
  (rounds, cut) <- roundsUntil limit between effort say measure sides claims
  rounds <$ unlessMeasured [rounds] cut

-- | 'runRounds' of several things in turn, with what the lines of progress call them. None is begun
-- after one that was interrupted.
runRoundsOfEach :: Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [(String, [Side], Rounds -> [Claim])] -> IO [Rounds]
runRoundsOfEach = roundsOfEach Nothing

-- | The same; of each thing no round beyond 'fewestPairs' begins after so many seconds.
runRoundsOfEachWithin :: Int -> Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [(String, [Side], Rounds -> [Claim])] -> IO [Rounds]
runRoundsOfEachWithin = roundsOfEach . Just

roundsOfEach :: Maybe Int -> Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [(String, [Side], Rounds -> [Claim])] -> IO [Rounds]
roundsOfEach limit effort say measure things = do
  (found, cut) <- inTurn things
  found <$ unlessMeasured found cut
  where
    inTurn [] = pure ([], Nothing)
    inTurn ((name, sides, claims) : rest) = do
      (rounds, cut) <- roundsUntil limit (fewestPairs, mostPairs) effort (say . ((name ++ ": ") ++)) measure sides claims
      first (rounds :) <$> maybe (inTurn rest) (\e -> pure (map (const (Rounds [])) rest, Just e)) cut

-- | Nothing is written about nothing: it might be written over something.
unlessMeasured :: [Rounds] -> Maybe SomeException -> IO ()
unlessMeasured found cut = when (and [null rounds | Rounds rounds <- found]) (mapM_ throwIO cut)

-- | Rounds of all sides, then of those that undecided claims are about.
roundsUntil :: Maybe Int -> (Int, Int) -> Effort -> (String -> IO ()) -> (Side -> IO Sample) -> [Side] -> (Rounds -> [Claim]) -> IO (Rounds, Maybe SomeException)
roundsUntil limit (fewest, mostOf) effort say measure sides claims = roundsBy next say measure
  where
    next spent n rounds
      | n < atLeast = Just (sides, " of " ++ show atLeast ++ leftOf (fromIntegral n / fromIntegral atLeast) spent)
      | n >= most || null open || maybe False ((spent >) . fromIntegral) limit = Nothing
      | otherwise = Just (these, " for what is undecided: " ++ someOf these)
      where
        open = nub (concat [claimSides c | c <- claims rounds, unsettled (judgeClaim rounds c)])
        these = [s | s <- sides, sideName s `elem` open]
    -- A line is read at a glance.
    someOf these = intercalate ", " (map sideName (take 3 these)) ++ (if length these > 3 then " and " ++ show (length these - 3) ++ " more" else "")
    (atLeast, most) = case effort of
      Quick -> (3, 3)
      Full -> (fewest, mostOf)
    unsettled judged = maybe False (not . settled (claimBar (judgedClaim judged))) (judgedEstimate judged)

-- | Rounds as the first argument has it: from the seconds spent, how many rounds there are and what
-- they measured, to the sides of the next and what is said of it. Also what interrupted it, if that
-- happened: then with what was measured until then, of the last round perhaps of some sides only.
roundsBy :: (Double -> Int -> Rounds -> Maybe ([Side], String)) -> (String -> IO ()) -> (Side -> IO Sample) -> IO (Rounds, Maybe SomeException)
roundsBy next say measure = do
  begin <- getMonotonicTime
  done <- newIORef (0, Rounds [])
  outcome <- finding (loop begin done)
  (n, rounds) <- readIORef done
  case outcome of
    Right () -> pure (rounds, Nothing)
    -- A terminal that has hung up hears nothing.
    Left e -> (rounds, Just e) <$ orNothing (say ("interrupted after " ++ plural n "round"))
  where
    loop begin done = do
      (n, rounds) <- readIORef done
      now <- getMonotonicTime
      case next (now - begin) n rounds of
        Nothing -> pure ()
        Just (these, why) -> one done n these why >> loop begin done
    one done n these why = do
      say ("round " ++ show (n + 1) ++ why)
      load <- either id (unwords . take 3 . words) <$> readText "/proc/loadavg"
      (_, Rounds before) <- readIORef done
      let add measured side = do
            sample <- measure side
            let those = Map.insert (sideName side) sample measured
            those <$ writeIORef done (n, Rounds (before ++ [(load, those)]))
      measured <- foldM add Map.empty (rotated n these)
      writeIORef done (n + 1, Rounds (before ++ [(load, measured)]))

-- | Nobody always runs behind the same neighbour.
rotated :: Int -> [a] -> [a]
rotated k xs = drop turn xs ++ take turn xs
  where
    turn = k `mod` max 1 (length xs)

samplesOf :: Rounds -> String -> [Sample]
samplesOf (Rounds rounds) side = mapMaybe (Map.lookup side . snd) rounds

summaryOf :: (Sample -> Maybe Double) -> Rounds -> String -> Maybe Summary
summaryOf metric rounds side = summarise <$> nonEmpty (mapMaybe metric (samplesOf rounds side))

-- | Median (least…most) for a table, two decimals; a dash where nothing was measured.
spreadOf :: (Sample -> Maybe Double) -> Rounds -> String -> String
spreadOf metric rounds = maybe "-" shown . summaryOf metric rounds
  where
    shown s = two (summaryMedian s) ++ " (" ++ two (summaryLeast s) ++ "…" ++ two (summaryMost s) ++ ")"
    two v = showFFloat (Just 2) v ""

-- | Something that is said of a figure, and its bar.
data Claim = Claim
  { claimText :: !String,
    -- | Which sides must run once more for one more value.
    claimSides :: ![String],
    claimValues :: Rounds -> [Double],
    claimBar :: !Bar
  }

-- | @ratio text bar metric left right@: left / right, paired by rounds.
ratio :: String -> Bar -> (Sample -> Maybe Double) -> String -> String -> Claim
ratio text bar metric = paired text bar (\l r -> if r > 0 then Just (l / r) else Nothing) metric metric

-- | @paired text bar combine of1 of2 left right@: any value of two samples of one
-- round.
paired :: String -> Bar -> (Double -> Double -> Maybe Double) -> (Sample -> Maybe Double) -> (Sample -> Maybe Double) -> String -> String -> Claim
paired text bar combine ofLeft ofRight left right = Claim text (nub [left, right]) values bar
  where
    values (Rounds rounds) = mapMaybe (value . snd) rounds
    value samples = do
      l <- Map.lookup left samples >>= ofLeft
      r <- Map.lookup right samples >>= ofRight
      combine l r

-- | @single text bar metric side@: values of one side.
single :: String -> Bar -> (Sample -> [Double]) -> String -> Claim
single text bar metric side = Claim text [side] (\rounds -> concatMap metric (samplesOf rounds side)) bar

data Judged = Judged
  { judgedClaim :: !Claim,
    -- | 'Nothing': there is no value.
    judgedEstimate :: !(Maybe Estimate),
    judgedVerdict :: !Verdict
  }

judgeClaim :: Rounds -> Claim -> Judged
judgeClaim rounds claim = Judged claim found (maybe Undecided (judge (claimBar claim)) found)
  where
    found = estimate <$> nonEmpty (claimValues claim rounds)

claimsTable :: [Judged] -> Table
claimsTable judged =
  Table
    [(L, "claim"), (R, "bar"), (R, "measured"), (R, "95 % interval"), (R, "pairs"), (L, "verdict")]
    [ [claimText (judgedClaim j), bar (claimBar (judgedClaim j))] ++ found (judgedEstimate j) ++ [verdictName (judgedVerdict j)]
      | j <- judged
    ]
  where
    bar (AtLeast b) = "≥ " ++ figure b
    bar (AtMost b) = "≤ " ++ figure b
    found Nothing = ["-", "-", "0"]
    found (Just e) = [figure (estimateMedian e), figure (estimateLow e) ++ " … " ++ figure (estimateHigh e), show (estimatePairs e)]

-- Three or four digits, from shares of a percent to millions.
figure :: Double -> String
figure v
  | abs v >= 1e6 = showFFloat (Just 2) (v / 1e6) " M"
  | abs v >= 100 = showFFloat (Just 0) v ""
  | abs v < 0.1 = showFFloat (Just 4) v ""
  | otherwise = showFFloat (Just 3) v ""

-- | One line that hides no loss.
claimsLine :: [Judged] -> String
claimsLine judged =
  intercalate
    "; "
    ( (show (length (having Holds)) ++ " of " ++ show (length judged) ++ " claims hold") :
        [word ++ ": " ++ intercalate ", " (map (claimText . judgedClaim) some) | (word, v) <- [("FAIL", Fails), ("undecided", Undecided)], let some = having v, not (null some)]
    )
  where
    having v = filter ((== v) . judgedVerdict) judged

-- | The same of many claims, which their table names.
countsLine :: [Judged] -> String
countsLine judged = intercalate ", " [show (length (filter ((== v) . judgedVerdict) judged)) ++ " " ++ word | (v, word) <- [(Holds, "of " ++ show (length judged) ++ " claims hold"), (Fails, "FAIL"), (Undecided, "undecided")]]

claimJson :: Judged -> Value
claimJson j =
  object
    [ "claim" .= claimText c,
      "sides" .= claimSides c,
      "bar" .= show (claimBar c),
      "median" .= fmap estimateMedian (judgedEstimate j),
      "low" .= fmap estimateLow (judgedEstimate j),
      "high" .= fmap estimateHigh (judgedEstimate j),
      "pairs" .= maybe 0 estimatePairs (judgedEstimate j),
      "verdict" .= verdictName (judgedVerdict j)
    ]
  where
    c = judgedClaim j

-- | Every run.
roundsJson :: Rounds -> Value
roundsJson (Rounds rounds) = object ["rounds" .= [object ["load" .= load, "samples" .= samples] | (load, samples) <- rounds]]
