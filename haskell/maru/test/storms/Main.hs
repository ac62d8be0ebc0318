-- | Kills, stops and crashes of workers and of coordinators, drawn from seeds: no
-- result is wrong, nothing is left.
--
-- @MARU_TEST_SCALE=n@ does n times as much: 40 faults at 1, 2 000 in @make soak@.
-- @MARU_TEST_SEED@ takes other seeds; @MARU_TEST_BACKENDS=shm@ picks back ends.
module Main (main) where

import qualified Coordinators
import Left (ownFolders)
import Maru (backendName, parMapM)
import System.Environment (getArgs, setEnv)
import System.Posix.Resource
import Test.Tasty (defaultMain, localOption, testGroup)
import Tools
import qualified Workers

main :: IO ()
main = do
  arguments <- getArgs
  setResourceLimit ResourceCoreFileSize (ResourceLimits (ResourceLimit 0) (ResourceLimit 0))
  case arguments of
    "--scene" : what -> Coordinators.play what
    _ -> do
      -- One at a time: they count this process's children and descriptors.
      setEnv "TASTY_NUM_THREADS" "1"
      backends <- chosenBackends
      -- The run-time system opens its own descriptors when they are first needed.
      mapM_ (\b -> parMapM (onBackend b) (pausing 1) [1 .. 3 :: Int]) backends
      limit <- testLimit 60
      ownFolders . defaultMain . localOption limit $
        testGroup "storms" [testGroup (backendName b) [Workers.tests b, Coordinators.tests b] | b <- backends]
