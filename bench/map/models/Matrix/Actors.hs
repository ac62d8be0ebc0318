-- | The product of two matrices, a row an item; prints the sum of its diagonal.
module Matrix.Actors (main) where

import Control.Monad (forM_, replicateM, zipWithM_)
import Data.List (sort, transpose)
import Maru (Backend (Shm))
import Maru.Actor

main :: IO ()
main = withMailbox $ \answers -> do
  slaves <- replicateM 4 (spawn Shm (slave (address answers)))
  zipWithM_ (\(i, x) to -> send (actorAddress to) (Just (i, x))) (zip [0 :: Int ..] matrix) (cycle slaves)
  results <- replicateM (length matrix) (receive answers)
  forM_ slaves $ \actor -> send (actorAddress actor) Nothing
  print ((sum . zipWith (flip (!!)) [0 ..]) (map snd (sort results)))

slave :: Address (Int, [Int]) -> Mailbox (Maybe (Int, [Int])) -> IO ()
slave to inbox = receive inbox >>= maybe (pure ()) (\(i, x) -> send to (i, row x) >> slave to inbox)

matrix :: [[Int]]
matrix = [[(i * j) `mod` 7 | j <- [1 .. 40]] | i <- [1 .. 40]]

row :: [Int] -> [Int]
row xs = [sum (zipWith (*) xs ys) | ys <- transpose matrix]
