-- | Clusters of points by Lloyd's algorithm: a map an iteration, over the same points and with
-- new centres each time.
module Maru.Bench.Program.Kmeans (points, kmeans) where

import Control.DeepSeq (NFData (..), ($!!))
import qualified Data.IntMap.Strict as IntMap
import Data.List (foldl', minimumBy)
import Data.Ord (comparing)
import Maru (itemSeeds)
import Maru.Bench.Mapper (Mapper (..), Shared (..))

data Point = Point !Double !Double

data Sums = Sums !Int !Double !Double

instance NFData Point where rnf p = p `seq` ()

instance NFData Sums where rnf s = s `seq` ()

-- | In 64 chunks.
points :: Int -> [[Point]]
points n = chunks (max 1 (n `div` 64)) [Point (part seed 1000) (part (seed `div` 65536) 1000) | seed <- take n (itemSeeds 4)]
  where
    part seed width = fromIntegral (seed `mod` 100000) * width / 100000
    chunks size xs = case splitAt size xs of
      (now, []) -> [now]
      (now, later) -> now : chunks size later

-- | Centres, iterations; where the centres are in the end, in thousandths.
kmeans :: Int -> Int -> [[Point]] -> Mapper -> Int
kmeans k iterations chunks m = mapsOver m (IntMap.fromList (zip [0 ..] chunks)) $ \shared ->
  round (1000 * sum [x + 2 * y | Point x y <- go shared iterations $!! begin])
  where
    begin = take k (concat chunks)
    places = [0 .. length chunks - 1]
    -- Centres that are no numbers yet would be computed by each worker.
    go _ 0 centres = centres
    go shared n centres = go shared (n - 1 :: Int) $!! IntMap.elems (IntMap.mapWithKey (middle centres) (joined (mapShared shared (\all' i -> assign centres (all' IntMap.! i)) places)))
    joined = foldl' (IntMap.unionWith plus) (IntMap.fromList [(i, Sums 0 0 0) | i <- [0 .. k - 1]])
    middle centres i (Sums n x y)
      | n > 0 = Point (x / fromIntegral n) (y / fromIntegral n)
      | otherwise = centres !! i

assign :: [Point] -> [Point] -> IntMap.IntMap Sums
assign centres = foldl' (\m p@(Point x y) -> IntMap.insertWith plus (nearest p) (Sums 1 x y) m) IntMap.empty
  where
    nearest p = fst (minimumBy (comparing snd) (zip [0 ..] (map (distance p) centres)))
    distance (Point x y) (Point cx cy) = (x - cx) * (x - cx) + (y - cy) * (y - cy)

plus :: Sums -> Sums -> Sums
plus (Sums n x y) (Sums n' x' y') = Sums (n + n') (x + x') (y + y')
