-- | The first seed's study of the collector: how much a speed-up curve swings before and after the
-- collector's flags were tuned at some numbers of cores.
--
-- The seed looks at falls only: where the speed-up is less than on one core fewer. Its speed-ups are
-- of means of ten runs. It gives one number, 34 % less swing, and no formula. Here the swing is the
-- sum of all falls.
module Maru.Control.Swing
  ( -- * Swing
    mean,
    falls,
    swing,
    lessBy,

    -- * The study
    seedRuns,
    seedTraining,
    seedPredicted,
    trainingOn,
    Tuning (..),
    tuningName,
    flagsFor,
  )
where

import Control.Applicative ((<|>))
import Data.List.NonEmpty (NonEmpty)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map

-- | As the seed has it. Everything else in maru that is said of timings is a median.
mean :: NonEmpty Double -> Double
mean sample = sum sample / fromIntegral (length sample)

-- | How far the speed-up falls, wherever it does, from one core to the next.
falls :: [Double] -> [Double]
falls speedUps = [before - after | (before, after) <- zip speedUps (drop 1 speedUps), after < before]

swing :: [Double] -> Double
swing = sum . falls

-- | The share by which the second is less than the first; of a curve that swings less than two decimals
-- show, none.
lessBy :: Double -> Double -> Maybe Double
lessBy before after
  | before >= 0.005 = Just (1 - after / before)
  | otherwise = Nothing

-- | Runs behind each mean.
seedRuns :: Int
seedRuns = 10

-- | Where the seed tuned, and where it predicted that tuning helps alike.
seedTraining, seedPredicted :: [Int]
seedTraining = [10, 13, 15, 17, 18, 19, 20, 23]
seedPredicted = [11, 14, 16]

-- | Of so many cores: the seed's numbers that they have. Fewer than ten have none, and take all.
trainingOn :: Int -> [Int]
trainingOn cores = case filter (<= cores) seedTraining of
  [] -> [cores]
  some -> some

-- | Which numbers of cores get flags.
data Tuning
  = AsItIs
  | -- | Those where flags were searched for: what the seed measured.
    AtTraining
  | -- | Those that the seed predicted, too. They get the flags of the next fewer.
    AndPredicted
  | -- | All, each the flags of the next fewer, or of the fewest.
    Everywhere
  deriving (Eq, Ord, Show, Enum, Bounded)

tuningName :: Tuning -> String
tuningName tuning = case tuning of
  AsItIs -> "as it is"
  AtTraining -> "tuned"
  AndPredicted -> "predicted"
  Everywhere -> "everywhere"

-- | From what was found at the numbers that were searched, to the flags at any number.
flagsFor :: Map Int flags -> Tuning -> Int -> Maybe flags
flagsFor found tuning cores = case tuning of
  AsItIs -> Nothing
  AtTraining -> own
  AndPredicted -> if cores `elem` seedPredicted then own <|> fewer else own
  Everywhere -> fewer <|> (snd <$> Map.lookupMin found)
  where
    own = Map.lookup cores found
    fewer = snd <$> Map.lookupLE cores found
