{-# LANGUAGE RankNTypes #-}

-- | The way of the items of one run through a heap that all share: a list of cells
-- that the feeder appends to, workers claim from and the consumer follows.
-- /Internal/: may change without a major version.
--
-- A cell that nobody can reach any more is garbage, so a run over an endless input
-- takes constant space.
module Maru.Internal.Belt
  ( Belt,
    newBelt,
    offer,
    finish,
    Item,
    itemIndex,
    itemInput,
    claim,
    evaluateChunk,
    settle,
    follow,
  )
where

import Control.Concurrent.MVar
import Control.Exception (SomeException, throwIO)
import Control.Monad (when)
import Data.IORef
import Maru.Internal.Engine
import Maru.Internal.Evaluate
import Maru.Internal.Patience (patiently)
import Maru.Internal.Run

data Cell a b
  = Cell !(Item a b) !(Link a b)
  | -- | The end, and what the spine of the input threw there.
    Last !(Maybe SomeException)

-- | Empty until the feeder has come there; then only read.
type Link a b = MVar (Cell a b)

-- | An input and where its outcome goes.
data Item a b = Item
  { itemIndex :: !Int,
    itemInput :: a,
    itemOutcome :: !(MVar (Outcome b))
  }

data Belt a b = Belt
  { -- | Where the feeder appends. Its own.
    beltTail :: !(IORef (Link a b)),
    -- | How many the feeder has appended. Written by the feeder alone.
    beltFed :: !(IORef Int),
    -- | What no worker has claimed, and how many were.
    beltUnclaimed :: !(MVar (Link a b, Int)),
    -- | Where the next outcome goes when any order will do. 'Nothing': outcomes
    -- go to their own items, and this must not hold the first one for ever.
    beltUnfilled :: !(Maybe (MVar (Link a b)))
  }

-- | A belt and its first link, for the consumer.
newBelt :: Order -> IO (Belt a b, Link a b)
newBelt order = do
  first <- newEmptyMVar
  unfilled <- if order == Ordered then pure Nothing else Just <$> newMVar first
  belt <- Belt <$> newIORef first <*> newIORef 0 <*> newMVar (first, 0) <*> pure unfilled
  pure (belt, first)

-- | For the feeder: one more item.
offer :: Belt a b -> Int -> a -> IO ()
offer belt n x = do
  item <- Item n x <$> newEmptyMVar
  next <- newEmptyMVar
  append belt (Cell item next)
  writeIORef (beltTail belt) next
  atomicWriteIORef (beltFed belt) (n + 1)

-- | For the feeder: no more items.
finish :: Belt a b -> Maybe SomeException -> IO ()
finish belt = append belt . Last

append :: Belt a b -> Cell a b -> IO ()
append belt cell = readIORef (beltTail belt) >>= (`putMVar` cell)

-- | Waits for an item, then claims as many of those available as the function
-- says; none at the end of the input. Takes turns: workers claim in the order in
-- which they asked.
claim :: Belt a b -> (Int -> IO Int) -> IO [Item a b]
claim belt choose = patiently . modifyMVar (beltUnclaimed belt) $ \(link, claimed) -> do
  cell <- readMVar link
  case cell of
    Last _ -> pure ((link, claimed), [])
    Cell _ _ -> do
      fed <- readIORef (beltFed belt)
      -- The feeder appends before it counts.
      n <- max 1 <$> choose (max 1 (fed - claimed))
      (link', items) <- take' n link
      pure ((link', claimed + n), items)
  where
    -- The first n cells are there: this does not block.
    take' :: Int -> Link a b -> IO (Link a b, [Item a b])
    take' 0 link = pure (link, [])
    take' n link = do
      cell <- readMVar link
      case cell of
        Last _ -> pure (link, [])
        Cell item next -> fmap (item :) <$> take' (n - 1) next

-- | Evaluates the items of one chunk, each delivered when it is done: the next one
-- may take for ever.
evaluateChunk :: Run -> Belt a b -> (a -> IO b) -> Int -> Restore -> [Item a b] -> IO ()
evaluateChunk run belt evaluateOne worker restore = go
  where
    go [] = pure ()
    go (item : items) =
      capture run restore (evaluateOne (itemInput item))
        >>= maybe (pure ()) (\result -> settle run belt worker item result >> go items)

-- | What came of an item, in that worker. Once an item.
settle :: Run -> Belt a b -> Int -> Item a b -> Either SomeException b -> IO ()
settle run belt worker item result = do
  slot <- maybe (pure (itemOutcome item)) (`modifyMVar` nextSlot) (beltUnfilled belt)
  arrived run
  putMVar slot (Outcome (itemIndex item) worker result)
  where
    -- As many cells as outcomes: this does not block.
    nextSlot link = do
      cell <- readMVar link
      case cell of
        Cell cell' next -> pure (next, itemOutcome cell')
        Last _ -> fail "maru: more outcomes than items (a bug in maru)"

-- | For the consumer: the next outcome.
follow :: Run -> Link a b -> IO (Maybe (Outcome b, Link a b))
follow run link = do
  cell <- awaited (readMVar link)
  case cell of
    Last e -> Nothing <$ mapM_ throwIO e
    Cell item next -> do
      when (itemIndex item == 0) $ awaitWorkers run
      outcome <- awaited (readMVar (itemOutcome item))
      pure (Just (outcome, next))
