{-# LANGUAGE CPP #-}
{-# LANGUAGE ConstraintKinds #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE KindSignatures #-}
{-# LANGUAGE OverloadedStrings #-}

-- | What a large result costs on its way from a worker to the caller.
--
-- The value exists before the worker is forked, so the worker only carries it.
-- It carries one small result first (both sides are up then), then so many large
-- ones while the caller sleeps. The caller's processor time until all of them
-- are there is the cost of receiving. What the caller uses while nothing happens, measured for as
-- long, is taken off.
--
-- Then the results are walked to normal form twice. The first walk finds what a
-- decoder has left unevaluated, and the pages that this process has not touched yet. The second one
-- shows what the walk itself costs.
module Maru.Bench.Transport
  ( Carried (..),
    allCarried,
    Transit (..),
    allTransits,
    transitName,
    Crossing (..),
    carry,
    crossingJson,
    Tree (..),
  )
where

import Control.Concurrent (threadDelay)
import Control.DeepSeq (NFData (..))
import Control.Exception (evaluate)
import Control.Monad (unless)
import Data.Aeson (Value, object, (.=))
import Data.Binary (Binary (..))
import qualified Data.ByteString as Strict
import Data.IORef
import Data.Int (Int64)
import qualified Data.Map.Strict as Map
import qualified Data.Text as Text
import GHC.Generics (Generic)
import Maru
import Maru.Bench.Meter
import System.Mem (performMajorGC)
#ifdef WITH_STORE
import Control.Exception (displayException)
import qualified Data.ByteString.Lazy as Lazy
import Data.Store (Store)
import qualified Data.Store as Store
import Maru.Codec (Codec (..))
#else
import Data.Kind (Constraint)
#endif

-- | How a result crosses.
data Transit = ByAddress | ByCompactCopy | ByBinary | ByStore
  deriving (Eq, Show, Enum, Bounded)

-- | Those that were compiled in.
allTransits :: [Transit]
#ifdef WITH_STORE
allTransits = [minBound .. maxBound]
#else
allTransits = [ByAddress, ByCompactCopy, ByBinary]
#endif

transitName :: Transit -> String
transitName t = case t of
  ByAddress -> "zero-copy"
  ByCompactCopy -> "compact"
  ByBinary -> "binary"
  ByStore -> "store"

#ifndef WITH_STORE
type Store a = (() :: Constraint)
#endif

-- | A kind of result: how large the whole one is, and how to make a part of it.
data Carried = forall b.
  (NFData b, Binary b, Store b) =>
  Carried
  { carriedName :: !String,
    carriedSize :: !Int,
    carriedMake :: !(Int -> b)
  }

allCarried :: [Carried]
allCarried =
  [ Carried "ints" 1000000 (\n -> [1 .. n]),
    Carried "map" 250000 (\n -> Map.fromDistinctAscList [(i, i) | i <- [1 .. n]]),
    Carried "tree" 1000000 fullTree,
    Carried "text" 100000 (\n -> [Text.pack ("some text of no. " ++ show i) | i <- [1 .. n]]),
    Carried "bytes" 20000000 (`Strict.replicate` 7)
  ]

data Tree = Leaf | Node !Tree !Int !Tree
  deriving (Eq, Show, Generic)

instance NFData Tree where
  rnf Leaf = ()
  rnf (Node l _ r) = rnf l `seq` rnf r

-- Written by hand: the generic instance is several times slower.
instance Binary Tree where
  put Leaf = put False
  put (Node l x r) = put True >> put l >> put x >> put r
  get = do
    inner <- get
    if inner then Node <$> get <*> get <*> get else pure Leaf

#ifdef WITH_STORE
instance Store Tree
#endif

-- | So many inner nodes, as balanced as can be.
fullTree :: Int -> Tree
fullTree n
  | n <= 0 = Leaf
  | otherwise = Node (fullTree left) n (fullTree (n - 1 - left))
  where
    left = (n - 1) `div` 2

-- | For one large result, in nanoseconds of processor time.
data Crossing = Crossing
  { crossingReceive :: !Double,
    crossingFirstWalk :: !Double,
    crossingSecondWalk :: !Double,
    -- | The worker's whole life divided by the results.
    crossingWorker :: !Double,
    crossingResults :: !Int
  }
  deriving (Eq, Show)

crossingJson :: Crossing -> Value
crossingJson c =
  object
    [ "receive_ns" .= crossingReceive c,
      "first_walk_ns" .= crossingFirstWalk c,
      "second_walk_ns" .= crossingSecondWalk c,
      "worker_ns" .= crossingWorker c,
      "results" .= crossingResults c
    ]

-- | @carry transit kind size results@.
carry :: Transit -> Carried -> Int -> Int -> IO Crossing
carry transit (Carried _ _ make) size count = do
  large <- evaluate (make size)
  evaluate (rnf large)
  performMajorGC
  children0 <- childrenCpuNs
  arrived <- newIORef 0
  let choose i = if i == 0 then make 0 else large
      results = mapping transit (options arrived) choose [0 .. count]
  evaluate (rnf (take 1 results))
  (receive, (firstWalk, secondWalk)) <- observe arrived (drop 1 results)
  threadDelay 100000
  children1 <- childrenCpuNs
  each <- evaluate (rnf large) >> pure (\ns -> fromIntegral ns / fromIntegral count)
  pure (Crossing (each receive) (each firstWalk) (each secondWalk) (each (children1 - children0)) count)
  where
    options arrived =
      defaultOptions
        { backend = Shm,
          workers = Workers 1,
          chunking = Fixed 1,
          window = Just (2 * count + 2),
          regionMiB = 2048,
          onProgress = Just (writeIORef arrived . progressDone)
        }
    observe arrived results = do
      begun <- nowNs
      (spent, ()) <- costing (awaitAll arrived)
      waited <- subtract begun <$> nowNs
      (idle, ()) <- costing (threadDelay 200000)
      (more, ()) <- costing (mapM_ evaluate results)
      (firstWalk, ()) <- costing (evaluate (rnf results))
      (secondWalk, ()) <- costing (evaluate (rnf results))
      pure (max 0 (spent + more - idle * waited `div` 200000000), (firstWalk, secondWalk))
    awaitAll arrived = do
      done <- readIORef arrived
      unless (done > count) (threadDelay 20000 >> awaitAll arrived)

mapping :: (Binary b, Store b) => Transit -> Options -> (a -> b) -> [a] -> [b]
mapping transit options = case transit of
  ByAddress -> parMapWith options {transport = ZeroCopy}
  ByCompactCopy -> parMapWith options {transport = CompactCopy}
  ByBinary -> parMapVia binary options
#ifdef WITH_STORE
  ByStore -> parMapVia stored options

stored :: Store b => Codec b
stored = Codec (Lazy.fromStrict . Store.encode) (either (Left . displayException) Right . Store.decode)
#else
  ByStore -> parMapVia binary options
#endif

costing :: IO a -> IO (Int64, a)
costing act = do
  before <- processCpuNs
  result <- act
  after <- processCpuNs
  pure (after - before, result)
