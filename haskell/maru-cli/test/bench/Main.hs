{-# LANGUAGE OverloadedStrings #-}

-- | Rounds and claims, with sides that measure nothing.
module Main (main) where

import Control.Concurrent (forkIO, myThreadId, threadDelay, throwTo, yield)
import Control.Exception (AsyncException (..), IOException, bracket_, mask_, throwIO, toException, try)
import Control.Monad (forM_, replicateM_, void, when)
import Data.Aeson (Value, object, (.=))
import Data.IORef
import Data.List (isPrefixOf, sort)
import qualified Data.Map.Strict as Map
import Data.Maybe (isNothing)
import Maru.Cli.Bench (chosen, untilEnded)
import Maru.Cli.Bench.Interrupt
import Maru.Cli.Bench.Lock (againstTail)
import Maru.Cli.Bench.Map (mapExperiments)
import Maru.Cli.Bench.Rounds
import Maru.Cli.Bench.Side
import Maru.Cli.Output (Table (..))
import Maru.Cli.Room (Effort (..), Experiment (..))
import Maru.Control.Plot (Plot (..), Series (..))
import Maru.Control.Ratio
import System.Posix.Signals (Handler (Default), installHandler, raiseSignal, sigHUP, sigINT, sigTERM)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

main :: IO ()
main = defaultMain (testGroup "bench" [running, interrupting, claiming, reading, naming, drawing])

sampleOf :: Double -> Value
sampleOf wall = object ["meter" .= object ["wall_ns" .= wall]]

sides :: [Side]
sides = [Side name [] | name <- ["a", "b", "c"]]

-- | The n-th measurement of a side takes what the function says; also which
-- sides were measured, in order.
play :: Effort -> (String -> Int -> Double) -> [Claim] -> IO (Rounds, [String])
play effort cost claims = do
  counts <- newIORef Map.empty
  order <- newIORef []
  let measure side = do
        let name = sideName side
        n <- Map.findWithDefault 0 name <$> readIORef counts
        modifyIORef' counts (Map.insert name (n + 1))
        modifyIORef' order (name :)
        pure (sampleOf (cost name n))
  rounds <- runRounds effort (const (pure ())) measure sides (const claims)
  (,) rounds . reverse <$> readIORef order

running :: TestTree
running =
  testGroup
    "rounds"
    [ testCase "every side in every round, in rotated order" $ do
        (_, order) <- play Quick (\_ _ -> 1) []
        order @?= ["a", "b", "c", "b", "c", "a", "c", "a", "b"],
      testCase "rotation keeps everybody" $
        forM_ [0 .. 7] $ \k -> sort (rotated k [1 .. 3 :: Int]) @?= [1, 2, 3],
      testCase "what is clear takes the fewest rounds" $ do
        (rounds, _) <- play Full (\name _ -> if name == "a" then 2 else 1) [faster]
        length (samplesOf rounds "c") @?= fewestPairs,
      testCase "what is not takes more, of its own sides, up to the most" $ do
        (rounds, _) <- play Full (\name n -> if name == "a" && even n then 0.5 else 1) [faster]
        length (samplesOf rounds "a") @?= mostPairs
        length (samplesOf rounds "b") @?= mostPairs
        length (samplesOf rounds "c") @?= fewestPairs
        judgedVerdict (judgeClaim rounds faster) @?= Undecided,
      testCase "it stops when it has become clear" $ do
        (rounds, _) <- play Full (\name n -> if name == "a" && n < 3 then 0.5 else if name == "a" then 2 else 1) [faster]
        let n = length (samplesOf rounds "a")
        assertBool (show n) (n > fewestPairs && n < mostPairs)
        judgedVerdict (judgeClaim rounds faster) @?= Holds
    ]
  where
    faster = ratio "a / b" (AtLeast 1) wallNs "a" "b"

-- | As 'play' without claims; the n-th measurement of all does the action before. Also what was said
-- last.
playUntil :: Int -> IO () -> ((Side -> IO Value) -> (String -> IO ()) -> IO a) -> IO (a, String)
playUntil last' end run = do
  count <- newIORef (0 :: Int)
  said <- newIORef ""
  let measure _ = do
        modifyIORef' count (+ 1)
        n <- readIORef count
        when (n == last') end
        pure (sampleOf 1)
  found <- run measure (writeIORef said)
  (,) found <$> readIORef said

interrupting :: TestTree
interrupting =
  testGroup
    "interruptions"
    [ testCase "keep the rounds that there are, and what there is of the last" $ do
        (rounds, said) <- playUntil 8 (throwIO UserInterrupt) three
        map (length . samplesOf rounds) ["a", "b", "c"] @?= [2, 2, 3]
        said @?= "interrupted after 2 rounds"
        fmap estimatePairs (judgedEstimate (judgeClaim rounds same)) @?= Just 2
        judgedVerdict (judgeClaim rounds same) @?= Undecided,
      testCase "are found, too, where what was measured has ended of them first" $ do
        self <- myThreadId
        let gone = forkIO (threadDelay 50000 >> throwTo self UserInterrupt) >> throwIO (userError "killed")
        (rounds, said) <- playUntil 4 gone three
        length (samplesOf rounds "a") @?= 1
        said @?= "interrupted after 1 round",
      testCase "are kept where nobody hears of them" $ do
        let deaf measure say = runRounds Quick (\line -> say line >> when ("interrupted" `isPrefixOf` line) (throwIO (userError "hung up"))) measure sides (const [same])
        (rounds, said) <- playUntil 8 (throwIO UserInterrupt) deaf
        length (samplesOf rounds "c") @?= 3
        said @?= "interrupted after 2 rounds",
      testCase "are not what a failure is" $ do
        failed <- try (playUntil 4 (throwIO (userError "broken")) three)
        either (const True) (const False) (void failed :: Either IOException ()) @?= True,
      testCase "before anything was measured leave nothing to write" $ do
        ended <- try (playUntil 1 (throwIO UserInterrupt) three)
        either (== UserInterrupt) (const False) (void ended :: Either AsyncException ()) @?= True,
      testCase "of one thing end those behind it" $ do
        (found, said) <- playUntil 11 (throwIO UserInterrupt) (\measure say -> runRoundsOfEach Quick say measure [(name, sides, const []) | name <- ["x", "y", "z"]])
        [sum (map (length . samplesOf rounds) ["a", "b", "c"]) | rounds <- found] @?= [9, 1, 0]
        said @?= "y: interrupted after 0 rounds",
      testCase "of an experiment end those behind it, and what was measured is written" $ do
        let act n = if n == (4 :: Int) then throwIO UserInterrupt else pure (n, if n == 3 then Just (toException UserInterrupt) else Nothing)
        (written, _) <- untilEnded act [1, 2, 3, 5]
        written @?= [1, 2, 3]
        (before, _) <- untilEnded act [1, 4, 5]
        before @?= [1]
        (all', end) <- untilEnded act [1, 2]
        (all', null end) @?= ([1, 2], True),
      testCase "say of whom nothing is kept" $ do
        let act n = if n == (4 :: Int) then throwIO UserInterrupt else pure (n, if n == 3 then Just (toException UserInterrupt) else Nothing)
        ends <- mapM (fmap (fmap snd . snd) . untilEnded act) [[1, 4, 5], [1, 3, 5], [1, 2]]
        ends @?= [Just (Just 4), Just Nothing, Nothing],
      testCase "that come when all is measured, and before it is written, lose nothing" $ do
        written <- newIORef False
        ended <- try . bracket_ (pure ()) restored . mask_ $ do
          interrupts <- catchInterrupts
          raiseSignal sigINT
          seen interrupts
          replicateM_ 100 yield
          sparing interrupts (writeIORef written True)
        kept <- readIORef written
        (kept, either (== UserInterrupt) (const True) ended) @?= (True, True)
    ]
  where
    seen interrupts = interrupted interrupts >>= \end -> when (isNothing end) (yield >> seen interrupts)
    restored = mapM_ (\signal -> installHandler signal Default Nothing) [sigINT, sigTERM, sigHUP]
    three measure say = runRounds Quick say measure sides (const [same])
    same = ratio "a / b" (AtLeast 1) wallNs "a" "b"

claiming :: TestTree
claiming =
  testGroup
    "claims"
    [ testCase "a ratio pairs the runs of one round" $ do
        (rounds, _) <- play Quick (\name n -> fromIntegral (n + 1) * (if name == "a" then 3 else 1)) []
        claimValues (ratio "" (AtLeast 1) wallNs "a" "b") rounds @?= [3, 3, 3],
      testCase "a side that was not measured gives no verdict" $ do
        (rounds, _) <- play Quick (\_ _ -> 1) []
        let judged = judgeClaim rounds (ratio "" (AtLeast 1) wallNs "a" "nobody")
        judgedVerdict judged @?= Undecided
        judgedEstimate judged @?= Nothing,
      testCase "the table has a row a claim, the line names the losses" $ do
        (rounds, _) <- play Full (\name _ -> if name == "a" then 2 else 1) []
        let judged = map (judgeClaim rounds) [ratio "won" (AtLeast 1) wallNs "a" "b", ratio "lost" (AtMost 1) wallNs "a" "b"]
        map last (tableRows (claimsTable judged)) @?= ["holds", "FAILS"]
        claimsLine judged @?= "1 of 2 claims hold; FAIL: lost"
    ]

reading :: TestTree
reading =
  testGroup
    "samples"
    [ testCase "two processes take from the first start to the last end" $
        wallNs (object ["together" .= [span' 10 50, span' 12 90]]) @?= Just 80,
      testCase "one process takes what it says" $ wallNs (sampleOf 7) @?= Just 7,
      testCase "what is not there is not a number" $ number ["meter", "gc_ns"] (sampleOf 7) @?= Nothing
    ]
  where
    span' :: Double -> Double -> Value
    span' start end = object ["meter" .= object ["start_ns" .= start, "end_ns" .= end]]

naming :: TestTree
naming =
  testGroup
    "names"
    [ testCase "a room's name stands for all of its experiments" $
        fmap (map experimentName) (chosen mapExperiments ["map"]) @?= Right (map experimentName mapExperiments),
      testCase "an experiment's for itself" $
        fmap (map experimentName) (chosen mapExperiments ["map/channel"]) @?= Right ["map/channel"],
      testCase "a part of a name for nothing" $
        either (const True) (const False) (chosen mapExperiments ["map/chan"]) @?= True
    ]

drawing :: TestTree
drawing =
  testGroup
    "plots"
    [ testCase "every knob of a lock that was measured is a series" $
        [(name, length points) | Series name points <- plotSeries (againstTail "" (map measured names))]
          @?= [("cna, 0x10000 to 0x100", 2), ("the same, shuffle 1/128", 1), ("cna, deadline 1 ms to 25 us", 1), ("mcs", 1), ("pthread", 1)],
      testCase "what did not come to an end is no point" $
        length (plotSeries (againstTail "" [object ["lock" .= ("mcs" :: String), "finished" .= False]])) @?= 0
    ]
  where
    -- As maru-bench-lock calls them.
    names = ["pthread", "ttas", "mcs", "cna:handoff_range=0x10000", "cna:handoff_range=0x100", "cna:shuffle_reduction=128,handoff_range=0x100", "cna:deadline=25us", "mcs:wait=spin"]
    measured :: String -> Value
    measured name = object ["lock" .= name, "per_second" .= (1e6 :: Double), "wait_ns" .= object ["cvar_1" .= (1e3 :: Double)]]
