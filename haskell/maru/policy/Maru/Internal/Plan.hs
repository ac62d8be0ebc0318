-- | How many items go into the next chunks: a pure function from what has been
-- measured to sizes. /Internal/: may change without a major version.
--
-- The rules, each a property of the test suite:
--
--   * The first chunks hold one item, until the cost of an item is known.
--   * Then a chunk should take 'targetRatio' times what its dispatch costs, or
--     'sharedRatio' times for each worker: shorter wastes time on dispatching, or
--     makes the workers wait for their coordinator; longer unbalances them.
--   * A chunk is at most twice as large as the one before, so that one
--     misleading measurement makes no giant.
--   * Once the end of the input is known, a chunk is at most
--     @remaining / (2 * workers)@ items, so the last ones hold one item each and
--     no worker is left alone with a long rest.
--   * A fixed size is kept, but for a rest that is spread evenly: once the end is
--     known, sizes differ by at most one.
--   * A chunk holds only items that are there already: no item ever waits for a
--     later input.
--   * About 'chunksAhead' chunks per worker are published and unclaimed; more of them
--     only if they are full ones. The input is walked a bounded distance ahead.
--   * Once it is known how large results are, no more items are ahead than
--     'resultBudget' holds, but for 'chunksAhead' chunks per worker.
module Maru.Internal.Plan
  ( -- * Deciding
    Settings (..),
    settingsOf,
    Seen (..),
    nothingSeen,
    publishing,
    nextChunk,
    furtherChunk,
    aim,
    lookAhead,
    affordable,

    -- * Measuring
    ItemCost (..),
    blend,

    -- * Constants
    targetRatio,
    sharedRatio,
    chunksAhead,
    largestChunk,
    smallestWindow,
    resultBudget,
  )
where

import Data.Bifunctor (first)
import Maru.Options (Chunking (..), Options (chunking, window))

-- | What stays the same during a run.
data Settings = Settings
  { setChunking :: !Chunking,
    -- | At least 1.
    setWorkers :: !Int,
    -- | The user's bound on the look-ahead, in items.
    setWindow :: !(Maybe Int)
  }
  deriving (Eq, Show)

-- | Of a run on so many workers. A chunk and a window are at most a number of items that no
-- run has. So no count overflows that is added to or multiplied here, nor the crew's of a
-- chunk, of 32 bits.
settingsOf :: Options -> Int -> Settings
settingsOf options count =
  Settings
    { setChunking = case chunking options of
        Fixed n -> Fixed (min mostItems n)
        Guided -> Guided,
      setWorkers = count,
      setWindow = min mostItems <$> window options
    }

mostItems :: Int
mostItems = 2 ^ (30 :: Int)

-- | What is known now.
data Seen = Seen
  { -- | Measured nanoseconds per item.
    seenItemNs :: !(Maybe Double),
    -- | Measured nanoseconds per dispatch of a chunk; else @defaultDispatchNs@.
    seenDispatchNs :: !(Maybe Double),
    -- | Items that have been walked and are in no chunk yet.
    seenAvailable :: !Int,
    -- | No item will follow the available ones.
    seenEnded :: !Bool,
    -- | Chunks published and not yet claimed.
    seenUnclaimed :: !Int,
    -- | The size of the decision before; 0: there was none.
    seenSize :: !Int
  }
  deriving (Eq, Show)

-- | Before anything happened.
nothingSeen :: Seen
nothingSeen =
  Seen
    { seenItemNs = Nothing,
      seenDispatchNs = Nothing,
      seenAvailable = 0,
      seenEnded = False,
      seenUnclaimed = 0,
      seenSize = 0
    }

-- | A chunk's evaluation should take so many times its dispatch: the middle of
-- 20 to 50, where dispatch costs 2 to 5 percent.
targetRatio :: Double
targetRatio = 30

-- | While each of the workers evaluates one chunk, the coordinator dispatches one for
-- each of them: an eighth of its time, for it has results to deliver, too. From four
-- workers on that is the longer one. (With 'targetRatio' alone 16 workers on items of
-- 78 us kept it busy for 0.77 of the time, and waited for it.)
sharedRatio :: Double
sharedRatio = 8

-- | Nanoseconds; assumed where nothing was measured.
defaultDispatchNs :: Double
defaultDispatchNs = 5000

-- | Chunks per worker that are published and unclaimed: one to take at once, one
-- more while the coordinator sleeps.
chunksAhead :: Int
chunksAhead = 2

-- | Items; bounds buffering where items cost next to nothing.
largestChunk :: Int
largestChunk = 4096

-- | Items that may be walked ahead where chunks are small.
smallestWindow :: Int
smallestWindow = 64

-- | Bytes of results that may wait for the consumer, or be under way to it.
resultBudget :: Double
resultBudget = 256 * 1024 * 1024

-- | The chunks to publish now, in order, until so many are unclaimed, and the next
-- 'seenSize'. All of them by one measurement and the one size before them.
publishing :: Settings -> Int -> Seen -> ([Int], Int)
publishing settings most seen = go (seenUnclaimed seen) (seenAvailable seen) (seenSize seen)
  where
    go waiting available size
      | waiting < most, (n, size') <- chunk settings seen {seenAvailable = available}, n > 0 = first (n :) (go (waiting + 1) (available - n) size')
      | otherwise = ([], size)
      where
        chunk = if waiting < chunksAhead * setWorkers settings then nextChunk else furtherChunk

-- | One chunk for a worker that asks for it now: its size (0: nothing is
-- available) and the next 'seenSize'.
nextChunk :: Settings -> Seen -> (Int, Int)
nextChunk settings seen
  | n == 0 = (0, seenSize seen)
  | otherwise = (n, size)
  where
    size = aim settings seen
    n = fit settings (seenEnded seen) size (seenAvailable seen)

-- | One chunk more where every worker finds 'chunksAhead' already: as 'nextChunk',
-- but nobody needs it now, so it is a full one or, until there are the items for it,
-- none. (The window moves on with each item that is consumed; published at once,
-- these were chunks of one item.)
furtherChunk :: Settings -> Seen -> (Int, Int)
furtherChunk settings seen
  | seenEnded seen = nextChunk settings seen
  | seenAvailable seen < size = (0, seenSize seen)
  | otherwise = (size, size)
  where
    size = aim settings seen

-- | The size wanted, before it is fitted to what is there.
aim :: Settings -> Seen -> Int
aim settings seen = case setChunking settings of
  Fixed n -> max 1 n
  Guided -> maybe 1 grown (seenItemNs seen)
  where
    grown itemNs = minimum [ideal itemNs, 2 * max 1 (seenSize seen), share]
    ideal itemNs =
      let dispatch = maybe defaultDispatchNs (max 1) (seenDispatchNs seen)
       in max 1 (round (min (fromIntegral largestChunk) (ratio * dispatch / max 1 itemNs)))
    ratio = max targetRatio (sharedRatio * fromIntegral (setWorkers settings))
    -- A small window must still feed every worker.
    share = case setWindow settings of
      Nothing -> largestChunk
      Just w -> max 1 (w `div` (chunksAhead * setWorkers settings))

-- | The size of the next chunk of @left@ available items.
fit :: Settings -> Bool -> Int -> Int -> Int
fit settings ended size left
  | left <= 0 = 0
  | otherwise = case setChunking settings of
    Fixed _
      | ended -> left `upBy` (left `upBy` size)
      | otherwise -> min left size
    Guided
      | ended -> within (left `div` (2 * setWorkers settings))
      -- More may come, but nobody knows: what is there is shared out.
      | otherwise -> within (left `upBy` setWorkers settings)
  where
    within bound = max 1 (min size bound)
    a `upBy` b = (a + b - 1) `div` b

-- | Items that may have been walked beyond the consumer: for every worker the
-- chunk it works on, those published for it and one whose results wait; the
-- user's window where there is one.
lookAhead :: Settings -> Int -> Int
lookAhead settings size = case setWindow settings of
  Just w -> max 1 w
  Nothing -> max smallestWindow ((chunksAhead + 2) * setWorkers settings * size)

-- | Of so many items ahead, those for whose results there is room where one takes so many bytes. No
-- fewer than keep each worker busy. The user's window is obeyed, whatever results take.
affordable :: Settings -> Maybe Double -> Int -> Int
affordable settings itemBytes ahead = case (setWindow settings, itemBytes) of
  (Nothing, Just bytes) | bytes * fromIntegral ahead > resultBudget -> min ahead (max busy (floor (resultBudget / bytes)))
  _ -> ahead
  where
    busy = chunksAhead * setWorkers settings * smallest
    smallest = case setChunking settings of
      Fixed n -> n
      Guided -> 1

-- | Items evaluated together, and the nanoseconds, or bytes, they took.
data ItemCost = ItemCost {costItems :: !Int, costTook :: !Double}
  deriving (Eq, Show)

-- | Running mean of what an item takes; recent chunks weigh more.
blend :: Maybe Double -> ItemCost -> Maybe Double
blend before (ItemCost items took)
  | items <= 0 = before
  | otherwise = Just $! maybe now (\old -> 0.7 * old + 0.3 * now) before
  where
    now = took / fromIntegral items
