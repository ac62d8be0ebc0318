-- | @squares N@ prints the squares of 1 to N, computed by forked workers.
module Main (main) where

import Maru
import System.Environment (getArgs)
import System.Exit (die)
import Text.Read (readMaybe)

main :: IO ()
main = do
  arguments <- getArgs
  case traverse readMaybe arguments of
    Just [n] -> print (parMapWith options square [1 .. n])
    _ -> die "usage: squares N"
  where
    options = defaultOptions {backend = Shm}

square :: Integer -> Integer
square n = n * n
