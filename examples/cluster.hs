{-# LANGUAGE StaticPointers #-}

-- | One source on one machine and on many: how far each number goes before it meets 1.
--
-- > ./cluster                                 workers of this machine
-- > MARU_BACKEND=sequential ./cluster         in this process
-- > mpirun -n 4 ./cluster                     four ranks
-- > MARU_HOSTS=hosts ./cluster                an agent on each host of a file
-- > MARU_VMS=2 ./cluster                      two micro-VMs
module Main (main) where

import Maru
import Maru.Cluster

-- | Steps of Collatz's rule from a number to 1.
steps :: Int -> Int
steps = length . takeWhile (/= 1) . iterate (\n -> if even n then n `div` 2 else 3 * n + 1)

-- | The longest way from any number of a block; what a block is, is its environment.
longest :: Remote Int Int (Int, Int)
longest = remoteWith (\size k -> maximum [(steps n, n) | n <- [k * size + 1 .. (k + 1) * size]])

main :: IO ()
main = withCluster $ do
  let blocks = parMapOnWith defaultOptions (static longest) 1000 [0 .. 99]
  print (sum (map snd blocks))
  print (maximum blocks)
