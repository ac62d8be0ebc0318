{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | 'Auto' is no engine: it goes from the caller to another back end within one list. The laws hold
-- across that place, too.
module Automatic (tests) where

import Control.Concurrent (newMVar, withMVar)
import Control.Exception (ErrorCall (..), SomeException, evaluate, throw, try)
import Maru (parMapWith)
import Maru.Failure
import Maru.Options
import Subject
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  named
    ["auto"]
    [ testCase "an outcome needs no later item where costs rise" $ do
        let f n = if n > 8 then endless n else rising 8 n
        got <- within 30 (evaluate' (take 9 (auto f [0 .. 20])))
        got @?= [0 .. 8],
      testCase "a spine that throws costs no item before it where costs rise" $ do
        let ys = auto (rising 6) ([0 .. 11] <> errorWithoutStackTrace "spine")
        got <- within 30 (evaluate' (take 12 ys))
        got @?= [0 .. 11]
        end <- try (evaluate (length ys))
        end @?= Left (ErrorCall "spine"),
      testCase "a look ahead leaves no exception in the caller's input" $ do
        lock <- newMVar ()
        let xs = [0 .. 9] <> effect (withMVar lock (\() -> [10 .. 19] <$ burn 0.1))
        got <- within 30 (evaluate' (take 10 (auto (\n -> effect (n <$ burn 0.005)) xs)))
        got @?= [0 .. 9]
        xs @?= [0 .. 19],
      testCase "what f throws itself keeps its index, maru's own types, too" $ do
        let f n
              | n < 18 = effect (n <$ burn 0.005)
              | otherwise = if even n then throw (Untransferable 3 "mine") else throw (WorkerLost 4 0 Vanished 1)
        got <- within 30 (mapM (try . evaluate) (auto f [0 .. 19]))
        [show e | Left e <- got :: [Either SomeException Int]]
          @?= [show (Untransferable 3 "mine"), show (WorkerLost 4 0 Vanished 1)]
    ]

auto :: (Int -> b) -> [Int] -> [b]
auto = parMapWith defaultOptions {backend = Auto, workers = Workers 8}

evaluate' :: [Int] -> IO [Int]
evaluate' ys = ys <$ evaluate (sum ys)

-- | The argument, after 1 ms, 2 ms, 4 ms and so on up to that one's.
rising :: Int -> Int -> Int
rising most n = effect (n <$ burn (0.001 * 2 ^ min most n))
{-# NOINLINE rising #-}
