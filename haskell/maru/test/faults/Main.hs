-- | What can go wrong around a map on processes does, and the result is right or
-- one clear error; nothing is left.
--
-- @MARU_TEST_SCALE=n@ does n times as much (200 kills at 1);
-- @MARU_TEST_BACKENDS=shm@ picks back ends.
module Main (main) where

import qualified Abandoned
import Control.Concurrent (threadDelay)
import Control.Exception (bracket_, try)
import Data.List (isInfixOf)
import GHC.Clock (getMonotonicTime)
import qualified Guests
import qualified Kills
import Maru (Backend, backendName, parMapM)
import Scenes (play)
import qualified Sizes
import qualified Stuck
import qualified Suicides
import System.Environment (getArgs, lookupEnv, setEnv, unsetEnv)
import Test.Tasty (TestTree, defaultMain, localOption, testGroup)
import Test.Tasty.HUnit
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
      limit <- testLimit 120
      defaultMain . localOption limit $
        testGroup "faults" (waits : [testGroup (backendName b) (map ($ b) groups) | b <- backends])

-- | How the others wait.
waits :: TestTree
waits =
  testGroup
    "waiting"
    [ testCase "seconds are those of an idle machine" $ do
        slower "10" $ do
          within 0.2 (threadDelay 300000)
          start <- getMonotonicTime
          took <- eventually "a third of a second is over" 0.2 ((> start + 0.3) <$> getMonotonicTime)
          assertBool (show took) (took > 0.2),
      testCase "what is not so in its time is said" . slower "1" $ do
        said (within 0.01 (threadDelay 10000000)) >>= (@?= True) . isInfixOf "not done after 1.0e-2 s"
        said (eventually "never" 0.01 (pure False)) >>= (@?= True) . isInfixOf "never: not so after 1.0e-2 s"
    ]
  where
    slower :: String -> IO a -> IO a
    slower n action = do
      before <- lookupEnv "MARU_TEST_SLOW"
      bracket_ (setEnv "MARU_TEST_SLOW" n) (maybe (unsetEnv "MARU_TEST_SLOW") (setEnv "MARU_TEST_SLOW") before) action
    said :: IO a -> IO String
    said action = either (\e -> show (e :: HUnitFailure)) (const "") <$> try action

groups :: [Backend -> TestTree]
groups = [Kills.tests, Suicides.tests, World.tests, Abandoned.tests, Sizes.tests, Stuck.tests, Guests.tests]
