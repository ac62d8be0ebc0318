module Main (main) where

import qualified Maru.Bench.Main

main :: IO ()
main = Maru.Bench.Main.main
