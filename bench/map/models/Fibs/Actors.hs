-- | The Fibonacci numbers of 1..20.
module Fibs.Actors (main) where

import Control.Monad (forM_, replicateM, zipWithM_)
import Data.List (sort)
import Maru (Backend (Shm))
import Maru.Actor

main :: IO ()
main = withMailbox $ \answers -> do
  slaves <- replicateM 4 (spawn Shm (slave (address answers)))
  zipWithM_ (\(i, x) to -> send (actorAddress to) (Just (i, x))) (zip [0 :: Int ..] [1 .. 20]) (cycle slaves)
  results <- replicateM 20 (receive answers)
  forM_ slaves $ \actor -> send (actorAddress actor) Nothing
  print (map snd (sort results))

slave :: Address (Int, Int) -> Mailbox (Maybe (Int, Int)) -> IO ()
slave to inbox = receive inbox >>= maybe (pure ()) (\(i, x) -> send to (i, fib x) >> slave to inbox)

fib :: Int -> Int
fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
