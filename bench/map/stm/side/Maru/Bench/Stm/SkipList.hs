-- | A skip list of transactional variables. Nothing is balanced: how high an element's tower is
-- follows from its key alone, so an update writes the links at its own tower and nothing above.
module Maru.Bench.Stm.SkipList (newSkipList) where

import Control.Concurrent.STM
import Control.Monad (zipWithM_, (>=>))
import Data.Bits (countTrailingZeros)
import qualified Data.Vector as V
import Maru.Bench.Stm.Mix (mixed)
import Maru.Bench.Stm.Set
import Maru.Bench.Stm.Tally

-- | The links of an element, the lowest first.
type Tower = V.Vector (TVar Node)

data Node = End | Node !Int !Tower

highest :: Int
highest = 12

-- | A quarter of the elements of each level are in the next.
heightOf :: Int -> Int
heightOf key = min highest (1 + countTrailingZeros (mixed key) `div` 2)

newSkipList :: IO Set
newSkipList = do
  start <- V.replicateM highest (newTVarIO End)
  pure (transactional (insert start) (delete start) (member start) (elements start))

-- | The link of each level that passes the key's place, the lowest first, and what the lowest one leads to.
seek :: Tally -> Int -> Tower -> STM ([TVar Node], Node)
seek tally key = go (highest - 1) []
  where
    go level above tower = do
      let link = tower V.! level
      next <- readT tally link
      case next of
        Node x further | x < key -> go level above further
        _ | level == 0 -> pure (link : above, next)
        _ -> go (level - 1) (link : above) tower

-- | How many levels lie above: an operation begins at the highest.
depthOf :: Int -> Int
depthOf level = highest - 1 - level

insert, delete, member :: Tower -> Tally -> Int -> STM Bool
insert start tally key = do
  (links, next) <- seek tally key start
  case next of
    Node x _ | x == key -> pure False
    _ -> do
      let mine = take (heightOf key) links
      tower <- V.fromList <$> mapM (readT tally >=> newTVar) mine
      True <$ zipWithM_ (\level link -> writeT tally (depthOf level) link (Node key tower)) [0 ..] mine
delete start tally key = do
  (links, next) <- seek tally key start
  case next of
    Node x tower | x == key -> True <$ zipWithM_ unlink [0 ..] (zip links (V.toList tower))
    _ -> pure False
  where
    unlink level (link, further) = readT tally further >>= writeT tally (depthOf level) link
member start tally key = do
  (_, next) <- seek tally key start
  pure $ case next of
    Node x _ -> x == key
    End -> False

elements :: Tower -> IO [Int]
elements tower = do
  next <- readTVarIO (V.head tower)
  case next of
    End -> pure []
    Node x further -> (x :) <$> elements further
