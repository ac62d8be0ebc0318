-- | Heat spreads over a plate with one hot edge (Jacobi's method) until no point changes by more
-- than a millionth. Each node has a band of rows, and reads one row of each neighbour. What a node
-- does depends on the previous plate alone, so the result is the same, to the bit, on any
-- number of nodes.
--
-- > maru launch -n 4 -- ./heat [SIDE]
module Main (main) where

import Control.Monad (when)
import qualified Data.Vector.Storable as Vector
import Maru.Dsm
import System.Environment (getArgs)

main :: IO ()
main = do
  arguments <- getArgs
  let side = case arguments of
        [text] -> read text
        _ -> 34
  withDsm $ \dsm -> do
    plates <- (,) <$> newShared dsm (side * side) <*> newShared dsm (side * side)
    biggest <- newReduction dsm
    when (node dsm == 0) $ do
      let hot = Vector.replicate side 100
      writeRange (fst plates) 0 hot
      writeRange (snd plates) 0 hot
    barrier dsm
    (steps, plate) <- spread dsm side biggest plates 0
    when (node dsm == 0) $ do
      heat <- withRange plate 0 (side * side) (pure . Vector.sum)
      putStrLn ("side " ++ show side ++ ": " ++ show steps ++ " steps, heat " ++ show heat)

-- | Steps until nothing changes: how many, and the last plate.
spread :: Dsm -> Int -> Reduction Double -> (Shared Double, Shared Double) -> Int -> IO (Int, Shared Double)
spread dsm side biggest (old, new) steps = do
  let (first, rows) = part dsm (side - 2)
  change <- step side old new (first + 1) rows
  -- Also the barrier after which this plate may be read, and the other one overwritten.
  most <- reduce biggest max change
  if most < 1e-6
    then pure (steps + 1, new)
    else spread dsm side biggest (new, old) (steps + 1)

-- | Computes so many rows from one on; the greatest change.
step :: Int -> Shared Double -> Shared Double -> Int -> Int -> IO Double
step _ _ _ _ 0 = pure 0
step side old new first rows = do
  (band, change) <- withRange old ((first - 1) * side) ((rows + 2) * side) $ \plate -> do
    let next i
          | column == 0 || column == side - 1 = plate Vector.! i
          | otherwise = (plate Vector.! (i - 1) + plate Vector.! (i + 1) + plate Vector.! (i - side) + plate Vector.! (i + side)) / 4
          where
            column = i `mod` side
        band = Vector.generate (rows * side) (next . (+ side))
    pure (band, Vector.maximum (Vector.zipWith (\a b -> abs (a - b)) band (Vector.drop side plate)))
  writeRange new (first * side) band
  pure change
