{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

{- HLINT ignore "Redundant <$>" -}

-- | Results that nobody wants any more, or not yet.
module Abandoned (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.IORef
import Data.List (isInfixOf)
import Maru
import Maru.Internal.Dispatch (engineOf)
import Maru.Internal.Engine
import System.Mem (performMajorGC)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Tools

tests :: Backend -> TestTree
tests b =
  testGroup
    "abandoned results"
    [ testCase "take 10 of an endless list: gone after a major collection" . leavingNothing $ do
        within 20 (evaluate (sum (take 10 (parBuffer (onBackend b) 20 (working 10) [1 ..])))) >>= (@?= 65)
        void (eventually "the workers are gone" 2 (performMajorGC >> noChildren)),
      testCase "dropped by an exception in the consumer" . leavingNothing $ do
        got <- try (forM_ (parMapWith (onBackend b) (working 10) [1 ..]) $ \y -> when (y == 20) (throwIO (ErrorCall "enough")))
        got @?= Left (ErrorCall "enough")
        void (eventually "the workers are gone" 2 (performMajorGC >> noChildren)),
      testCase "never demanded: no worker is ever started" . leavingNothing $ do
        started <- newIORef False
        (ys, report') <- parMapReporting (onBackend b) (working 1) (effect (writeIORef started True) `seq` [1 .. 10])
        us <- parMapUnordered (onBackend b) (working 1) [1 .. 10]
        threadDelay 200000
        noChildren >>= assertBool "a worker was started"
        report' >>= (@?= 0) . reportWorkersStarted
        within 10 (evaluate (sum ys)) >>= (@?= 65)
        within 10 (evaluate (sum (map snd us))) >>= (@?= 65),
      testCase "kept but not demanded: gone after idleSeconds, and right when demanded later" . leavingNothing $ do
        let ys = parMapWith (onBackend b) {idleSeconds = 0.5} (working 10) [1 .. 500]
        within 10 (evaluate (sum (take 5 ys))) >>= (@?= 20)
        void (eventually "the workers are gone" 3 noChildren)
        threadDelay 200000
        noChildren >>= assertBool "a worker came back"
        within 20 (evaluate (sum ys)) >>= (@?= sum [2 .. 501]),
      testCase "a slow item is not idleness" . leavingNothing $ do
        let ys = parMapWith (onBackend b) {idleSeconds = 0.3, policy = Fail} (pausing 1500) [1 .. 3 :: Int]
        within 20 (evaluate (sum ys)) >>= (@?= 6),
      testCase "a window of one" . leavingNothing $
        within 20 (evaluate (sum (parBuffer (onBackend b) 1 (working 1) [1 .. 200]))) >>= (@?= sum [2 .. 201]),
      testCase "a fixed chunk larger than the input" . leavingNothing $
        within 20 (parMapM (onBackend b) {chunking = Fixed 1000000} (working 1) [1 .. 7]) >>= (@?= [2 .. 8]),
      testCase "a report that is kept keeps no crew" $ do
        before <- crews
        reports <- forM [1 .. 60 :: Int] $ \i -> do
          (ys, report') <- parMapReporting (onBackend b) (+ i) [1 .. 3]
          report' <$ (within 20 (evaluate (sum ys)) >>= (@?= 3 * i + 6))
        -- Each crew goes by a thread that its call leaves behind.
        after <- crews
        assertBool (show (after - before) <> " crews are mapped still") (after < before + 30)
        mapM_ (>>= assertBool "one worker at least" . (> 0) . reportWorkersStarted) reports,
      testCase "stop while another thread waits for a result, many times" . leavingNothing $
        replicateM_ (30 * scale) $ do
          running <- runOn b (pausing 1000 :: Int -> Int) [1 .. 4]
          waiter <- forkIO (void (try (evaluate (length (outcomes running))) :: IO (Either SomeException Int)))
          threadDelay 5000
          within 5 (stop running)
          -- What the waiter waits on must not go away under it.
          threadDelay 60000
          killThread waiter,
      testCase "stop while the input is being walked, many times" . leavingNothing $
        replicateM_ (30 * scale) $ do
          running <- runOn b id [if n < 0 then effect (threadDelay 1) `seq` n else n | n <- [1 :: Int ..]]
          length (take 3 (outcomes running)) @?= 3
          within 5 (stop running),
      testCase "after stop the rest throws, it does not hang" . leavingNothing $ do
        running <- runOn b (working 1) [1 ..]
        length (take 3 (outcomes running)) @?= 3
        stop running
        got <- try (within 5 (evaluate (length (take 100000 (outcomes running)))))
        either (const (pure ()) :: ErrorCall -> IO ()) (\n -> assertFailure (show n <> " results")) got,
      testCase "the progress callback's thread ends with the run" . leavingNothing $ do
        calls <- newIORef (0 :: Int)
        let options = (onBackend b) {onProgress = Just (\_ -> modifyIORef' calls (+ 1))}
        running <- runWith options b (pausing 30) [1 :: Int ..]
        length (take 20 (outcomes running)) @?= 20
        stop running
        threadDelay 150000
        before <- readIORef calls
        threadDelay 300000
        readIORef calls >>= (@?= before)
        reportNotes <$> report running >>= \notes -> filter (/= head (notes <> [""])) notes @?= drop 1 notes,
      testCase "200 maps in a row leave memory and descriptors as they were" $ flat b
    ]

runOn :: Backend -> (a -> b) -> [a] -> IO (Running b)
runOn b = runWith (onBackend b) b

runWith :: Options -> Backend -> (a -> b) -> [a] -> IO (Running b)
runWith options b f xs = case engineOf b of
  Just engine -> engine (Job options 3 Ordered Nothing f xs Nothing Nothing)
  Nothing -> assertFailure "no engine"

flat :: Backend -> Assertion
flat b = leavingNothing $ do
  replicateM_ 20 once
  performMajorGC
  before <- residentMiB
  fds <- descriptors
  replicateM_ (200 * scale) once
  -- What the last maps had is freed by finalizers, some time after a collection.
  void (eventually ("resident memory back at " <> show before <> " MiB") 5 (performMajorGC >> (< before + 30) <$> residentMiB))
  void (eventually ("back at " <> show fds <> " descriptors") 5 (performMajorGC >> (<= fds + 3) <$> descriptors))
  where
    once = within 10 (parMapM (onBackend b) (replicate 100) [1 .. 30 :: Int]) >>= \yss -> sum (map sum yss) @?= 100 * sum [1 .. 30]

-- | How many are mapped here.
crews :: IO Int
crews = length . filter ("memfd:maru-crew" `isInfixOf`) . lines <$> contents "/proc/self/maps"
