-- | A hash trie of transactional variables, 16 to a node. An update writes one of them, at the place
-- that its key's hash says; nothing is balanced, and the way down is short.
module Maru.Bench.Stm.Trie (newTrie) where

import Control.Concurrent.STM
import Data.Bits (shiftR, (.&.))
import Data.List (sort)
import Data.Maybe (fromMaybe)
import qualified Data.Vector as V
import Maru.Bench.Stm.Mix (mixed)
import Maru.Bench.Stm.Set
import Maru.Bench.Stm.Tally

type Branch = V.Vector (TVar Slot)

-- | An emptied node stays: it is not worth a conflict.
data Slot = Empty | Key !Int | Deeper !Branch

newTrie :: IO Set
newTrie = do
  root <- V.replicateM 16 (newTVarIO Empty)
  pure (transactional (insert root) (delete root) (member root) (sort <$> elements root))

-- | The hashes of two keys differ, so a level that tells them apart comes.
place :: Int -> Int -> Int
place depth key = (mixed key `shiftR` (4 * depth)) .&. 15

-- | The variable at which the way down ends, how deep it is, and what it holds.
seek :: Tally -> Int -> Branch -> STM (TVar Slot, Int, Slot)
seek tally key = go 0
  where
    go depth branch = do
      let variable = branch V.! place depth key
      slot <- readT tally variable
      case slot of
        Deeper next -> go (depth + 1) next
        _ -> pure (variable, depth, slot)

insert, delete, member :: Branch -> Tally -> Int -> STM Bool
insert root tally key = do
  (variable, depth, slot) <- seek tally key root
  case slot of
    Key x | x == key -> pure False
    Key x -> True <$ (apart (depth + 1) x key >>= writeT tally depth variable . Deeper)
    _ -> True <$ writeT tally depth variable (Key key)
delete root tally key = do
  (variable, depth, slot) <- seek tally key root
  case slot of
    Key x | x == key -> True <$ writeT tally depth variable Empty
    _ -> pure False
member root tally key = do
  (_, _, slot) <- seek tally key root
  pure $ case slot of
    Key x -> x == key
    _ -> False

-- | A node with two keys.
apart :: Int -> Int -> Int -> STM Branch
apart depth a b
  | place depth a == place depth b = apart (depth + 1) a b >>= with . (\deeper -> [(place depth a, Deeper deeper)])
  | otherwise = with [(place depth a, Key a), (place depth b, Key b)]
  where
    with slots = V.generateM 16 (\i -> newTVar (fromMaybe Empty (lookup i slots)))

elements :: Branch -> IO [Int]
elements branch = concat <$> mapM inside (V.toList branch)
  where
    inside variable = do
      slot <- readTVarIO variable
      case slot of
        Empty -> pure []
        Key x -> pure [x]
        Deeper next -> elements next
