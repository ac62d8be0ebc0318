-- | A sorted linked list of transactional variables: the seed's first structure. An operation reads
-- every link before its place, and writes one.
module Maru.Bench.Stm.List (newList) where

import Control.Concurrent.STM
import Maru.Bench.Stm.Set
import Maru.Bench.Stm.Tally

data Node = End | Node !Int !(TVar Node)

newList :: IO Set
newList = do
  first <- newTVarIO End
  pure (transactional (insert first) (delete first) (member first) (elements first))

-- | The link that leads to the first element that is not smaller, how many links lie before it, and
-- what it leads to.
seek :: Tally -> Int -> TVar Node -> STM (TVar Node, Int, Node)
seek tally key = go 0
  where
    go depth link = do
      node <- readT tally link
      case node of
        Node x next | x < key -> go (depth + 1) next
        _ -> pure (link, depth :: Int, node)

insert, delete, member :: TVar Node -> Tally -> Int -> STM Bool
insert first tally key = do
  (link, depth, node) <- seek tally key first
  case node of
    Node x _ | x == key -> pure False
    _ -> do
      next <- newTVar node
      True <$ writeT tally depth link (Node key next)
delete first tally key = do
  (link, depth, node) <- seek tally key first
  case node of
    Node x next | x == key -> readT tally next >>= \after -> True <$ writeT tally depth link after
    _ -> pure False
member first tally key = do
  (_, _, node) <- seek tally key first
  pure $ case node of
    Node x _ -> x == key
    End -> False

elements :: TVar Node -> IO [Int]
elements link = do
  node <- readTVarIO link
  case node of
    End -> pure []
    Node x next -> (x :) <$> elements next
