module Main (main) where

import Maru.Cli.Main (maru)
import Maru.Cli.Rooms (rooms)

main :: IO ()
main = maru rooms
