-- | What can go wrong around a map on processes does, and the result is right or
-- one clear error; nothing is left.
--
-- @MARU_TEST_SCALE=n@ does n times as much (200 kills at 1);
-- @MARU_TEST_BACKENDS=shm@ picks back ends.
module Main (main) where

import qualified Abandoned
import qualified Guests
import qualified Kills
import Maru (Backend, backendName, parMapM)
import Scenes (play)
import qualified Sizes
import qualified Stuck
import qualified Suicides
import System.Environment (getArgs, setEnv)
import Test.Tasty (TestTree, defaultMain, localOption, mkTimeout, testGroup)
import Tools
import qualified World

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    "--scene" : what -> play what
    _ -> do
      -- One at a time: they count this process's children and descriptors.
      setEnv "TASTY_NUM_THREADS" "1"
      backends <- chosenBackends
      -- The run-time system opens its own descriptors when they are first needed.
      mapM_ (\b -> parMapM (onBackend b) (pausing 1) [1 .. 3 :: Int]) backends
      defaultMain . localOption (mkTimeout (120000000 * fromIntegral scale)) $
        testGroup "faults" [testGroup (backendName b) (map ($ b) groups) | b <- backends]

groups :: [Backend -> TestTree]
groups = [Kills.tests, Suicides.tests, World.tests, Abandoned.tests, Sizes.tests, Stuck.tests, Guests.tests]
