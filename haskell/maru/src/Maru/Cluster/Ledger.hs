-- | Which items of a call are where: pure. /Internal/.
--
-- Proved by the suite @cluster@ for random events with deaths anywhere: no item is lost and none is
-- taken twice; an item is given up only after it was at more lost peers than are allowed.
module Maru.Cluster.Ledger
  ( Ledger,
    Entry (..),
    noEntries,
    offer,
    close,
    waiting,
    atPeer,
    take',
    done,
    lost,
    drain,
    isOver,
  )
where

import Data.Foldable (toList)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (partition)
import Data.Sequence (Seq, (><))
import qualified Data.Sequence as Seq

-- | An item, and at how many peers it was that were lost.
data Entry i = Entry
  { entryIndex :: !Int,
    entryLosses :: !Int,
    entryItem :: !i
  }

-- | Items that have no result yet: those that wait, and those that peers have.
data Ledger i = Ledger
  { ledgerWaiting :: !(Seq (Entry i)),
    -- | By peer, by index.
    ledgerOut :: !(IntMap (IntMap (Entry i))),
    ledgerClosed :: !Bool
  }

-- | There may come some.
noEntries :: Ledger i
noEntries = Ledger Seq.empty IntMap.empty False

-- | More items, with indices that did not come before.
offer :: [(Int, i)] -> Ledger i -> Ledger i
offer items l = l {ledgerWaiting = ledgerWaiting l >< Seq.fromList [Entry i 0 x | (i, x) <- items]}

-- | No more will be offered.
close :: Ledger i -> Ledger i
close l = l {ledgerClosed = True}

-- | How many nobody has.
waiting :: Ledger i -> Int
waiting = Seq.length . ledgerWaiting

-- | How many that peer has. O(1) in practice.
atPeer :: Int -> Ledger i -> Int
atPeer peer = maybe 0 IntMap.size . IntMap.lookup peer . ledgerOut

-- | At most so many of those that wait are that peer's now.
take' :: Int -> Int -> Ledger i -> ([Entry i], Ledger i)
take' peer n l = (toList now, l {ledgerWaiting = later, ledgerOut = if null now then ledgerOut l else IntMap.insertWith IntMap.union peer has (ledgerOut l)})
  where
    (now, later) = Seq.splitAt n (ledgerWaiting l)
    has = IntMap.fromList [(entryIndex e, e) | e <- toList now]

-- | A result of that peer came: its entry, or 'Nothing' where it has no such item.
done :: Int -> Int -> Ledger i -> (Maybe (Entry i), Ledger i)
done peer i l = case IntMap.lookup peer (ledgerOut l) >>= IntMap.lookup i of
  Nothing -> (Nothing, l)
  entry -> (entry, l {ledgerOut = IntMap.adjust (IntMap.delete i) peer (ledgerOut l)})

-- | That peer is lost. What it had waits again, before all others; but for what was at more than so
-- many lost peers, which is given up.
lost :: Int -> Int -> Ledger i -> ([Entry i], Ledger i)
lost limit peer l =
  (hopeless, l {ledgerWaiting = Seq.fromList again >< ledgerWaiting l, ledgerOut = IntMap.delete peer (ledgerOut l)})
  where
    had = maybe [] IntMap.elems (IntMap.lookup peer (ledgerOut l))
    (hopeless, again) = partition ((> limit) . entryLosses) [e {entryLosses = entryLosses e + 1} | e <- had]

-- | All that has no result, wherever it is.
drain :: Ledger i -> ([Entry i], Ledger i)
drain l = (toList (ledgerWaiting l) <> concatMap IntMap.elems (IntMap.elems (ledgerOut l)), l {ledgerWaiting = Seq.empty, ledgerOut = IntMap.empty})

-- | Every item has its result, and no more come.
isOver :: Ledger i -> Bool
isOver l = ledgerClosed l && Seq.null (ledgerWaiting l) && all IntMap.null (ledgerOut l)
