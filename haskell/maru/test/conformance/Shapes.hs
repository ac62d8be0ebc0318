{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | The laws of what is built on the map: other shapes than lists, items with
-- effects, state, limits of time.
module Shapes (tests) where

import Control.Concurrent (threadDelay)
import Control.Exception (ErrorCall (..), evaluate, try)
import Control.Monad (replicateM_)
import Control.Monad.IO.Class (liftIO)
import Data.Array (listArray)
import Data.IORef
import Data.List (nub)
import qualified Data.Map.Strict as Map
import qualified Data.Vector as Boxed
import qualified Data.Vector.Storable as Storable
import qualified Data.Vector.Unboxed as Unboxed
import Foreign.C.Types (CUInt (..))
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru
import Maru.Vector
import Subject
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (hClose, openTempFile)
import System.Posix.Process (getProcessID)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

foreign import capi unsafe "unistd.h sleep" uninterruptibly :: CUInt -> IO CUInt

tests :: Backend -> TestTree
tests b =
  named ["shapes, effects, state, time"] $
    [ law "parFmap is fmap on a map" $ \xs ->
        let m = Map.fromList (zip [0 :: Int ..] xs) in (parFmap on show m, fmap show m),
      law "parFmap is fmap on an array" $ \xs ->
        let a = listArray (0, length xs - 1) xs in (parFmap on (* 2) a, fmap (* 2) a),
      law "parFold is foldr, not commutative" $ \xs -> (parFold on (<>) [] show xs, concatMap show xs),
      law "parMapReduce is fromListWith, values of a key in order" $ \xs ->
        let keyed x = [(x `mod` 7, [x]), (x `div` 100, [-x])]
         in (parMapReduce on (<>) keyed xs, Map.fromListWith (flip (<>)) (concatMap keyed xs)),
      law "parMapVector is map, storable to unboxed" $ \xs ->
        (parMapVector on even (Storable.fromList xs), Unboxed.fromList (map even xs)),
      law "parMapVector is map, unboxed to boxed" $ \xs ->
        (parMapVector on show (Unboxed.fromList xs), Boxed.fromList (map show xs)),
      testCase "parFmap throws at an element what its function throws" $ do
        let xs = parFmap on (\n -> if n == 2 then throwing else n) (Map.fromList (zip "abc" [1, 2, 3 :: Int]))
        got <- mapM (try . evaluate) (Map.elems xs)
        map (either (\(ErrorCall e) -> e) show) got @?= ["1", "two", "3"],
      testCase "parMapIO gives each action's result" $
        parMapIO on (\n -> n * 2 <$ threadDelay 100) [1 .. 50] >>= (@?= map (* 2) [1 .. 50 :: Int]),
      testCase "effects on memory stay in forked workers" $ do
        seen <- newIORef (0 :: Int)
        _ <- parMapIO on (\n -> atomicModifyIORef' seen (\s -> (s + n, ()))) [1 .. 10]
        readIORef seen >>= (@?= if inProcess b then 55 else 0),
      testCase "a state is made once a process" $
        withCounter $ \count made -> do
          pids <- parMapState on (count >> getProcessID) (\s n -> (,) s <$> (threadDelay (1000 + 0 * n) >> getProcessID)) [1 .. 60 :: Int]
          map fst pids @?= map snd pids
          made >>= (@?= length (nub (map fst pids))),
      testCase "a state that no item looks at is not made" $
        parMapState on (pure (throwing :: Int)) (\_ n -> pure (n + 1)) [1 .. 20 :: Int] >>= (@?= [2 .. 21]),
      testCase "what making a state throws, its items throw" $ do
        got <- try (parMapState on (throwing :: IO Int) (\s n -> pure (s + n)) [1, 2])
        either (\(ErrorCall e) -> e) show got @?= "two",
      testCase "what an item throws within its limit is thrown" $ do
        got <- try (evaluate' (parMapWithin on 60 (\n -> if n == 2 then throwing else n) [1, 2, 3 :: Int]))
        either (\(ErrorCall e) -> e) show got @?= "two",
      testCase "a limit that is none is refused" $ do
        got <- try (evaluate' (parMapWithin on 0 id [1 :: Int]))
        assertBool (show got) (either (\BadOptions {} -> True) (const False) got),
      testCase "an item's seed is its place's" $
        parMapWith on {workers = Workers 3} (uncurry (+)) (zip (itemSeeds 7) [1 .. 100]) @?= zipWith (+) (itemSeeds 7) [1 .. 100]
    ]
      <> [ testCase "an item above its limit is Nothing" $ do
             let f n = if n == 3 then endless n else slowly 1 n
             within 60 (evaluate' (parMapWithin on 1 f [1 .. 5 :: Int])) >>= (@?= [Just 1, Just 2, Nothing, Just 4, Just 5])
           | b `elem` [Threads, Sockets, Shm]
         ]
      <> [ testCase "an item that cannot be interrupted is Nothing, and its worker's end no other's" $ do
             let f n = if n == 2 then effect (n <$ replicateM_ 60 (uninterruptibly 1)) else n
             within 60 (evaluate' (parMapWithin on {policy = Skip, chunking = Fixed 1} 0.5 f [1 .. 4 :: Int]))
               >>= (@?= [Just 1, Nothing, Just 3, Just 4])
           | not (inProcess b)
         ]
  where
    on = defaultOptions {backend = b, workers = Workers 2}
    evaluate' xs = foldr seq () xs `seq` pure xs
    throwing = errorWithoutStackTrace "two"
    law :: (Eq r, Show r) => String -> ([Int] -> (r, r)) -> TestTree
    law name sides = testPropertyNamed name "sides" . withTests (fromIntegral (times b 20)) . property $ do
      xs <- forAll (Gen.list (Range.linear 0 300) (Gen.int (Range.linear (-1000) 1000)))
      (got, want) <- liftIO (pure (sides xs))
      got === want

-- | Counts in a file: workers add to it.
withCounter :: (IO () -> IO Int -> IO a) -> IO a
withCounter use = do
  (path, handle) <- getTemporaryDirectory >>= (`openTempFile` "made")
  hClose handle
  use (appendFile path "x") (length <$> readFile path) <* removeFile path
