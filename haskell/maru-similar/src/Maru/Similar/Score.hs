-- | How similar two submissions are, from what their tiles cover.
module Maru.Similar.Score
  ( Score (..),
    score,
    similarity,
  )
where

-- | Each in [0, 1]; all 0 where a side is empty.
data Score = Score
  { -- | The share of both that is common: @2 m \/ (l + r)@. High for whole
    -- copies.
    scoreAverage :: !Double,
    -- | The share of the smaller that is common: @m \/ min l r@. High where one
    -- is a part of the other.
    scoreMaximum :: !Double
  }
  deriving (Eq, Show)

-- | From the tokens covered, and those of the left and of the right side.
score :: Int -> Int -> Int -> Score
score matched left right
  | left == 0 || right == 0 = Score 0 0
  | otherwise = Score (m * 2 / fromIntegral (left + right)) (m / fromIntegral (min left right))
  where
    m = fromIntegral matched :: Double

-- | What pairs are ranked by: the mean of both.
similarity :: Score -> Double
similarity (Score average greatest) = (average + greatest) / 2
