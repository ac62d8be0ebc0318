-- | Add 1 to each of 1..100, print the sum.
module Sum.Actors (main) where

import Control.Monad (forM_, replicateM, zipWithM_)
import Data.List (sort)
import Maru (Backend (Shm))
import Maru.Actor

main :: IO ()
main = withMailbox $ \answers -> do
  slaves <- replicateM 4 (spawn Shm (slave (address answers)))
  zipWithM_ (\(i, x) to -> send (actorAddress to) (Just (i, x))) (zip [0 :: Int ..] [1 .. 100 :: Int]) (cycle slaves)
  results <- replicateM 100 (receive answers)
  forM_ slaves $ \actor -> send (actorAddress actor) Nothing
  print (sum (map snd (sort results)))

slave :: Address (Int, Int) -> Mailbox (Maybe (Int, Int)) -> IO ()
slave to inbox = receive inbox >>= maybe (pure ()) (\(i, x) -> send to (i, (+ 1) x) >> slave to inbox)
