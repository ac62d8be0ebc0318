{-# LANGUAGE RankNTypes #-}

-- | Every way to map a list that is measured: no library at all, maru's back
-- ends, its pool, and the peers @parallel@ and @async@.
module Maru.Bench.Mapper
  ( Way (..),
    wayName,
    allWays,
    Mapper (..),
    Shared (..),
    mapper,
    halves,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Concurrent.Async (mapConcurrently)
import Control.DeepSeq (NFData, force)
import Control.Exception (evaluate)
import Control.Parallel.Strategies (Strategy, parMap, rdeepseq, rseq, usingIO)
import Data.IORef (IORef, modifyIORef')
import qualified Data.IntSet as IntSet
import Data.List (foldl', sortOn)
import Data.Ord (Down (..))
import Maru (Backend, Options (..), Report, allBackends, backendName, parMapReporting, parMapWith)
import qualified Maru
import Maru.Pool (poolMap, withPool)
import System.IO.Unsafe (unsafePerformIO)

data Way
  = -- | 'map' of the Prelude.
    Plain
  | -- | A back end of maru.
    Ours !Backend
  | -- | Workers of maru's that stay between maps.
    Pool
  | -- | @parMap@ of the package parallel.
    Parallel
  | -- | @mapConcurrently@ of the package async, over four chunks a capability:
    -- a thread an item would only show what threads cost.
    Async
  deriving (Eq, Show)

wayName :: Way -> String
wayName way = case way of
  Plain -> "map"
  Ours b -> backendName b
  Pool -> "pool"
  Parallel -> "parallel"
  Async -> "async"

allWays :: [Way]
allWays = Plain : map Ours allBackends ++ [Pool, Parallel, Async]

-- | Both equal 'map'.
data Mapper = Mapper
  { -- | Results are evaluated to normal form.
    mapDeep :: forall a b. NFData b => (a -> b) -> [a] -> [b],
    -- | For results that are in normal form once they are evaluated at all.
    mapFlat :: forall a b. (a -> b) -> [a] -> [b],
    -- | For several maps over something large. What is made of them is evaluated, not deeply.
    mapsOver :: forall e r. e -> (Shared e -> r) -> r
  }

newtype Shared e = Shared {mapShared :: forall a b. NFData b => (e -> a -> b) -> [a] -> [b]}

-- | A map is all that it knows.
single :: (forall a b. NFData b => (a -> b) -> [a] -> [b]) -> (forall a b. (a -> b) -> [a] -> [b]) -> Mapper
single deep flat = Mapper deep flat (\e use -> use (Shared (\f -> deep (f e))))

-- | maru's back ends put a look at their report into the cell.
mapper :: IORef [IO Report] -> Way -> Options -> Mapper
mapper reports way options = case way of
  Plain -> single (\f xs -> map (force . f) xs) map
  -- By this face, because the reporting one never stays in the caller.
  Ours b | b `elem` [Maru.Auto, Maru.Sequential] -> single (parMapWith options {backend = b}) (parMapWith options {backend = b})
  Ours b -> single (reporting b) (reporting b)
  Pool -> Mapper alone alone staying
  Parallel -> single (parMap rdeepseq) (parMap rseq)
  Async -> single (concurrently rdeepseq) (concurrently rseq)
  where
    alone :: (a -> b) -> [a] -> [b]
    alone f xs = unsafePerformIO (withPool options () (\pool -> poolMap pool (const f) xs))
    staying :: e -> (Shared e -> r) -> r
    staying e use = unsafePerformIO (withPool options e (\pool -> evaluate (use (Shared (\f xs -> unsafePerformIO (poolMap pool f xs))))))
    reporting :: Backend -> (a -> b) -> [a] -> [b]
    reporting b f xs = unsafePerformIO $ do
      (ys, look) <- parMapReporting options {backend = b} f xs
      ys <$ modifyIORef' reports (look :)

concurrently :: Strategy b -> (a -> b) -> [a] -> [b]
concurrently strategy f xs = unsafePerformIO $ do
  capabilities <- getNumCapabilities
  let size = max 1 ((length xs + 4 * capabilities - 1) `div` (4 * capabilities))
  concat <$> mapConcurrently (mapM (\x -> (f x `usingIO` strategy) >>= evaluate)) (pieces size xs)
  where
    pieces _ [] = []
    pieces n ys = let (now, later) = splitAt n ys in now : pieces n later

-- | Half of the items, such that both halves cost the same as nearly as can be. The dearest come
-- first, each to the half that is behind: @halves costs part@ maps only these, in the caller. What
-- it returns lacks the others.
halves :: [Double] -> Int -> Mapper
halves costs part = single (\f xs -> map (force . f) (mine xs)) (\f xs -> map f (mine xs))
  where
    mine xs = [x | (i, x) <- zip [0 ..] xs, IntSet.member i chosen]
    chosen = if part == 0 then fst split else snd split
    split = let (_, a, _, b) = foldl' deal (0, IntSet.empty, 0, IntSet.empty) byCost in (a, b)
    byCost = sortOn (Down . snd) (zip [0 ..] costs)
    deal :: (Double, IntSet.IntSet, Double, IntSet.IntSet) -> (Int, Double) -> (Double, IntSet.IntSet, Double, IntSet.IntSet)
    deal (x, a, y, b) (i, c)
      | x <= y = (x + c, IntSet.insert i a, y, b)
      | otherwise = (x, a, y + c, IntSet.insert i b)
