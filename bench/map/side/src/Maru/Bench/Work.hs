{-# LANGUAGE ScopedTypeVariables #-}

-- | The workloads, fixed before anything was measured. Each is a map and a sum
-- over its results; the sum is the same whatever maps.
module Maru.Bench.Work
  ( Work (..),
    Prepared (..),
    allWorks,
    workFromName,
    liveHeap,
    fib,
    wholeList,
  )
where

import Control.DeepSeq (NFData, force, rnf)
import Control.Exception (evaluate)
import Data.List (find, foldl')
import qualified Data.Map.Strict as Map
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Maru.Bench.Items (items)
import Maru.Bench.Java (corpusAsked)
import Maru.Bench.Mapper (Mapper (..), Shared (..))
import Maru.Bench.Meter (collectedNs, nowNs)
import Maru.Bench.Programs (programs)
import Maru.Bench.Workload
import Maru.Similar (Config (..), Ready (..), prepare, seedConfig)
import qualified Maru.Similar as Similar
import Maru.Similar.Pairs (Row (..), compareAll)

allWorks :: [Work]
allWorks =
  [ Work "fib" "fib of 1..SIZE: the last item is two fifths of the work" (\n _ -> listWork [1 .. n] (1.618 ^^) fib fromInteger),
    Work "fibs" "SIZE times the whole list, fib of 1..GRAIN" (\n g -> listWork [1 .. n] (const 1) (wholeList g) id),
    Work "build" "SIZE maps of lists: allocates, collects garbage" (\n _ -> listWork [1 .. n] (const 1) build weight),
    Work "similar" "all pairs of SIZE disguised Java programs, or of those in MARU_BENCH_CORPUS" (\n _ -> similar n),
    Work "ints" "SIZE lists of 20 000 numbers: cheap to make, dear to carry" (\n _ -> listWork [1 .. n] (const 1) numbers (foldl' (+) 0)),
    Work "grain" "SIZE items of GRAIN loop turns each" (\n g -> listWork [1 .. n] (const 1) (turns g) id),
    Work "trivial" "SIZE additions: nothing but dispatch" (\n _ -> listWork [1 .. n] (const 1) (+ 1) id),
    Work "calls" "SIZE maps in a row, each of GRAIN additions" calls
  ]
    ++ programs
    ++ items

workFromName :: String -> Maybe Work
workFromName name = find ((== name) . workName) allWorks

listWork :: NFData b => [Int] -> (Int -> Double) -> (Int -> b) -> (b -> Int) -> IO Prepared
listWork xs cost f summary = do
  evaluate (rnf xs)
  pure (Prepared (map cost xs) Nothing run)
  where
    run m = do
      ys <- evaluate (mapDeep m f xs)
      mapM_ evaluate (take 1 ys)
      first <- nowNs
      total <- evaluate (foldl' (\s y -> s + summary y) 0 ys)
      pure (total, first)

-- | Each call's function captures what the one before it came to.
calls :: Int -> Int -> IO Prepared
calls n count = pure . Prepared [] Nothing $ \m -> do
  total <- evaluate (mapsOver m () (\shared -> foldl' (\sum' k -> sum' + sum (mapShared shared (\() i -> i + sum' `rem` 2) [k .. k + count - 1])) 0 [1 .. n]))
  (,) total <$> nowNs

fib :: Int -> Integer
fib n = if n < 2 then fromIntegral n else fib (n - 1) + fib (n - 2)
{-# NOINLINE fib #-}

-- | The sum begins with the item, so that no two items share it.
wholeList :: Int -> Int -> Int
wholeList n item = foldl' (\s i -> s + fromInteger (fib i)) item [1 .. n]
{-# NOINLINE wholeList #-}

build :: Int -> Map.Map Int [Int]
build k = Map.filter (\l -> sum l `mod` 97 == k `mod` 97) (foldl insert Map.empty [1 .. 40000])
  where
    insert m i = Map.insertWith (++) ((i * 7919 + k) `mod` 4001) [i] m
{-# NOINLINE build #-}

weight :: Map.Map Int [Int] -> Int
weight = Map.foldl' (\a l -> a + sum l) 0

numbers :: Int -> [Int]
numbers k = take 20000 (iterate (\x -> (x * 1103515245 + 12345) `mod` 2147483648) k)
{-# NOINLINE numbers #-}

-- Each turn needs the one before.
turns :: Int -> Int -> Int
turns = go
  where
    go 0 x = x
    go n x = go (n - 1) (x * 6364136223846793005 + 1442695040888963407)
{-# NOINLINE turns #-}

-- Lexing is preparation: what is timed is the comparison.
similar :: Int -> IO Prepared
similar n = do
  programs' <- corpusAsked n
  mapM_ evaluate (concatMap Similar.entrySources (Similar.corpusEntries programs'))
  since <- (,) <$> nowNs <*> collectedNs
  let codes = case Similar.preparedReady (prepare map seedConfig programs') of
        ReadyCodes c -> c
        ReadyWeighed {} -> V.empty -- not in this mode
  mapM_ evaluate (V.toList codes)
  let costs = [fromIntegral (n - i) | i <- [1 .. n - 1]]
      run m = do
        rows <- evaluate (compareAll (mapFlat m) (configMinMatch seedConfig) 0 Nothing codes)
        mapM_ (evaluate . rowCells) (take 1 rows)
        first <- nowNs
        total <- evaluate (foldl' (\s row -> s + fromIntegral (VU.sum (VU.map fromIntegral (rowCells row) :: VU.Vector Int))) 0 rows)
        pure (total, first)
  pure (Prepared costs (Just since) run)

-- | That many MiB that stay alive as long as the result is referenced.
liveHeap :: Int -> IO (Map.Map Int Int)
liveHeap mib = evaluate (force (Map.fromDistinctAscList [(i, i) | i <- [1 .. mib * 13107]]))
