-- | Waiting from Haskell: the list of policies is C's, every policy sees a ring,
-- its deadline and an asynchronous exception, across a fork too.
module Main (main) where

import Control.Concurrent
import Control.Exception (try)
import Control.Monad
import Data.IORef
import Data.Word (Word32)
import Maru.Failure (Unavailable)
import Maru.Native.Channel (newCrew, seat)
import Maru.Wait
import System.Environment (setEnv)
import System.Exit (ExitCode (..))
import System.Posix.Process (ProcessStatus (..), exitImmediately, forkProcess, getProcessStatus)
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit

main :: IO ()
main = do
  hall <- newHall
  defaultMain . testGroup "Maru.Wait" $
    [ testCase "every policy has one name" $
        map (policyNamed . policyName) policies @?= map Just policies,
      testCase "an unknown name is none" $ policyNamed "fast" @?= Nothing,
      testCase "a full board is refused" $ do
        full <- newHall
        made <- try (replicateM 1025 (newChannel full))
        either (const (pure ())) (const (assertFailure "1025 channels")) (made :: Either Unavailable [Channel]),
      testCase "an unbound thread is refused: the channel would name another one" $ do
        channel <- newChannel hall
        got <- runInUnboundThread (try (attach Block channel))
        either (const (pure ())) (const (assertFailure "attached")) (got :: Either Unavailable Waiter),
      testCase "another thread than the one that attached is refused" $ do
        waiter <- runInBoundThread (newChannel hall >>= attach Block)
        got <- runInUnboundThread (try (awaitAfter waiter 1 (seconds 1)))
        either (const (pure ())) (const (assertFailure "waited")) (got :: Either Unavailable (Maybe Word32)),
      testCase "who attaches anew is not put off by the end of who did before" . runInBoundThread $ do
        channel <- newChannel hall
        before <- attach Coop channel
        later <- attach Coop channel
        release before
        runsAs later >>= (@?= (Coop, "")),
      testCase "maps that have ended give their seats back to the next ones" $ do
        setEnv "MARU_WAIT" "coop" -- a board of this process
        notes <- replicateM 12 (newCrew 250 16 >>= seat)
        notes @?= replicate 12 Nothing,
      testCase "they do so behind slow finalizers of the program" $ do
        setEnv "MARU_WAIT" "coop"
        notes <- replicateM 12 $ do
          _ <- newIORef () >>= (`mkWeakIORef` threadDelay 25000)
          newCrew 250 16 >>= seat
        notes @?= replicate 12 Nothing
    ]
      ++ map (policyTests hall) policies

policies :: [Policy]
policies = [minBound .. maxBound]

policyTests :: Hall -> Policy -> TestTree
policyTests hall policy =
  testGroup
    (policyName policy)
    [ bound "what runs is said, with a reason if it is another" $ do
        (runs, why) <- newChannel hall >>= attach policy >>= runsAs
        (runs == policy) @?= null why,
      bound "a ring is seen" $ do
        channel <- newChannel hall
        waiter <- attach policy channel
        _ <- forkIO (threadDelay 5000 >> ring channel)
        awaitAfter waiter 0 patience >>= (@?= Just 1)
        rung channel >>= (@?= 1),
      bound "a ring from a child is seen" $ do
        channel <- newChannel hall
        waiter <- attach policy channel
        child <- forkProcess (replicateM_ 3 (ring channel) >> exitImmediately ExitSuccess)
        counts <- until' (== Just 3) (\seen -> awaitAfter waiter seen patience)
        counts @?= Just 3
        getProcessStatus True False child >>= (@?= Just (Exited ExitSuccess)),
      bound "the time ends it" $ do
        waiter <- newChannel hall >>= attach policy
        awaitAfter waiter 0 (seconds 0.002) >>= (@?= Nothing),
      bound "an exception ends it" $ do
        waiter <- newChannel hall >>= attach policy
        timeout 5000 (awaitAfter waiter 0 patience) >>= (@?= Nothing),
      bound "a released waiter is no channel's" $ do
        waiter <- newChannel hall >>= attach policy
        release waiter
        release waiter
        runsAs waiter >>= \(runs, _) -> assertBool (show runs) (runs `notElem` [Coop, Gang])
    ]
  where
    bound name = testCase name . runInBoundThread
    patience = seconds 20
    until' done step = loop 0
      where
        loop seen = do
          r <- step seen
          if done r then pure r else maybe (pure Nothing) loop r
