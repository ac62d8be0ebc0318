{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Streaming both ways: nothing is demanded too early, nothing arrives too late.
module Laziness (tests) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Exception (evaluate)
import Control.Monad (foldM_, forM_, when)
import Data.IORef
import Data.Maybe (fromMaybe)
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import Maru.Internal.Engine
import Maru.Internal.Plan (smallestWindow)
import Maru.Options
import Subject
import System.Mem (performMajorGC)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: Backend -> TestTree
tests b =
  named
    ["laziness"]
    [ testCase "the outcomes before an undefined end of the input are there" $
        withRun b (job (* 2) (1 : 2 : 3 : undefined)) $ \running ->
          within 5 (mapM value (take 3 (outcomes running))) >>= (@?= [2, 4, 6 :: Int]),
      testCase "an input that blocks delays no outcome before it, and goes on later" $ do
        gate <- newEmptyMVar
        rest <- lazily (takeMVar gate)
        withRun b (job (* 2) (1 : 2 : rest)) $ \running -> do
          within 5 (mapM value (take 2 (outcomes running))) >>= (@?= [2, 4 :: Int])
          putMVar gate [3, 4]
          within 5 (mapM value (outcomes running)) >>= (@?= [2, 4, 6, 8]),
      testCase "a conversation: each input is made from the outcome before it" $ do
        line <- newEmptyMVar
        let asked = lazily $ do
              said <- takeMVar line
              maybe (pure []) (\x -> (x :) <$> asked) said
        inputs <- asked
        withRun b (job (+ 1) inputs) $ \running -> within 10 $ do
          putMVar line (Just (0 :: Int))
          foldM_
            ( \os n -> do
                let (o, os') = split os
                value o >>= (@?= n)
                putMVar line (if n < 20 then Just n else Nothing)
                pure os'
            )
            (outcomes running)
            [1 .. 20]
          length (outcomes running) @?= 20,
      -- Others evaluate the item where f does.
      testCase "an item that cannot be sent yet delays no item before it" . when (b == Mpi) $ do
        gate <- newEmptyMVar
        late <- lazily (takeMVar gate)
        withRun b (job (* 2) [1, 2, 3, late]) $ \running -> do
          within 5 (mapM value (take 3 (outcomes running))) >>= (@?= [2, 4, 6 :: Int])
          putMVar gate 4
          within 5 (mapM value (outcomes running)) >>= (@?= [2, 4, 6, 8]),
      testCase "an undefined input that f ignores does no harm" $
        valuesOf b (job (const 'x') [undefined, 1 :: Int, undefined]) >>= (@?= "xxx"),
      testCase "an endless loop in one item delays no item before it" $
        withRun b (job (\n -> if n == 5 then endless n else n) [0 :: Int ..]) $ \running ->
          within 5 (mapM value (take 5 (outcomes running))) >>= (@?= [0 .. 4]),
      testCase "take 10 of an endless input ends" $
        withRun b (job (+ 1) [0 :: Int ..]) $ \running ->
          within 5 (mapM value (take 10 (outcomes running))) >>= (@?= [1 .. 10]),
      testCase "take 10 of an endless input, in any order, ends" $
        withRun b (job (+ 1) [0 :: Int ..]) {jobOrder = Unordered} $ \running ->
          within 5 (length <$> mapM value (take 10 (outcomes running))) >>= (@?= 10),
      named
        ["the input is walked a bounded distance ahead"]
        [ testCase (show order' <> ", " <> show chunks <> ", window " <> show size) $
            bounded b order' chunks size
          | (order', chunks, size) <-
              [ (Ordered, Guided, Just 1),
                (Ordered, Guided, Just 10),
                (Unordered, Fixed 3, Just 10),
                (Unordered, Guided, Just 100),
                (Ordered, Fixed 1, Nothing)
              ]
        ],
      testCase "an endless input takes constant memory" $ do
        -- Forty bytes an item would show.
        let n = times b (if b `elem` [Shm, Sockets] then 1000000 else if b == Mpi then 25000 else 100000)
        -- Not withRun: it would hold the list's beginning.
        Running list end _ <- runJob b (job (+ 1) [0 :: Int ..]) {jobOptions = defaultOptions {window = Just 1000, regionMiB = 1}}
        before <- live
        rest <- evaluate (drop n list)
        after <- live
        _ <- evaluate rest
        end
        -- All outcomes in memory would be 100 bytes each and more; a worker's pages
        -- for results count as live, 1 MiB each here.
        assertBool (show (before, after)) (after - before < 12000000)
    ]

bounded :: Backend -> Order -> Chunking -> Maybe Int -> IO ()
bounded b order' chunks size = do
  walked <- newIORef 0
  inputs <- countedFrom walked 0
  let options = defaultOptions {chunking = chunks, window = size}
      bound = fromMaybe (if b `elem` [Shm, Sockets, Mpi] then 8 * 2048 else smallestWindow) size
  withRun b (job (+ 1) inputs) {jobOrder = order', jobOptions = options} $ \running ->
    forM_ [1, 2, 50, 51] $ \k -> do
      _ <- within 10 (evaluate (length (take k (outcomes running))))
      threadDelay 30000
      n <- readIORef walked
      assertBool (show k <> " demanded, " <> show n <> " walked") (n >= k && n <= k + bound + 1)
      if b == Sequential then n @?= k else pure ()

value :: Outcome b -> IO b
value = either (fail . show) pure . outcomeResult

split :: [a] -> (a, [a])
split xs = case xs of
  x : rest -> (x, rest)
  [] -> error "the outcomes have ended too early"

live :: IO Int
live = do
  performMajorGC
  fromIntegral . gcdetails_live_bytes . gc <$> getRTSStats
