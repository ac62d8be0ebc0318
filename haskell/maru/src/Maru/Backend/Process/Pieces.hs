-- | Which items of the input are where: the coordinator's books, pure.
-- /Internal/.
--
-- Each index is in exactly one place: not handed out ('nextIndex' and above), or
-- in one /missing/ piece (handed out, its results not there yet), or arrived, and
-- then no longer here. A missing piece is a worker's, or on offer, or an orphan:
-- the worker that had it is gone.
--
-- A piece is known by its first missing index. Its results arrive in order, so the
-- piece shrinks from its front. All operations cost @O(log n)@ in the number of
-- pieces, and what their comment says besides.
module Maru.Backend.Process.Pieces
  ( Pieces,
    nextIndex,
    orphans,
    noneOut,

    -- * Out and back
    handOut,
    arrive,

    -- * Orphans
    orphan,
    adopted,
    orphanWith,
    apart,
    isolate,

    -- * Looking
    within,
    pieceAt,
    earliest,
  )
where

import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap

data Pieces a = Pieces
  { -- | By first missing index.
    missing :: !(IntMap (Missing a)),
    -- | Keys of missing pieces that no worker has, in the order in which they are
    -- dealt out.
    orphans :: ![Int],
    -- | The first index that was not handed out.
    nextIndex :: !Int,
    -- | The input from there.
    nextCells :: [a]
  }

-- | Where the piece ends, and its cells.
data Missing a = Missing !Int [a]

-- | Of this input.
noneOut :: [a] -> Pieces a
noneOut = Pieces IntMap.empty [] 0

-- | The next so many items, whose cells are known to exist, are out. @O(n)@ in them.
handOut :: Int -> Pieces a -> Pieces a
handOut n p = case after n cells of
  Rest rest -> p {missing = IntMap.insert first (Missing (first + n) cells) (missing p), nextIndex = first + n, nextCells = rest}
  where
    first = nextIndex p
    cells = nextCells p

-- | @arrive i n@: results of @n@ items from @i@ on. 'Nothing': a second copy of what
-- has arrived. @O(n)@.
arrive :: Int -> Int -> Pieces a -> Maybe (Pieces a)
arrive i n p = shrunk <$> IntMap.lookup i (missing p)
  where
    others = IntMap.delete i (missing p)
    shrunk (Missing end cells)
      | i + n < end = case after n cells of
        Rest later -> p {missing = IntMap.insert (i + n) (Missing end later) others}
      | otherwise = p {missing = others}

-- | Their workers are gone; these are dealt out first.
orphan :: [Int] -> Pieces a -> Pieces a
orphan keys p = p {orphans = keys ++ orphans p}

-- | All orphans have been dealt out.
adopted :: Pieces a -> Pieces a
adopted p = p {orphans = []}

-- | The orphan that holds this item.
orphanWith :: Int -> Pieces a -> Maybe Int
orphanWith i p = do
  (key, Missing end _) <- IntMap.lookupLE i (missing p)
  if i < end && key `elem` orphans p then Just key else Nothing

-- | Cuts the item at the front of the piece of that key out of it: the rest becomes
-- a piece of its own. Both stay whose the piece was, which is no orphan.
apart :: Int -> Pieces a -> Pieces a
apart key = snd . cut key key

-- | @isolate key i@: cuts item @i@ out of the orphan @key@. It becomes a piece of its
-- own that nobody has and that is no orphan; what is before and behind it stays
-- one.
isolate :: Int -> Int -> Pieces a -> Pieces a
isolate key i p = case cut key i p of
  (parts, p') -> p' {orphans = filter (/= i) parts ++ filter (/= key) (orphans p)}

-- | @cut key i@: item @i@ of the piece @key@ alone, and the keys of what has become of
-- the piece. @O(i - key)@.
cut :: Int -> Int -> Pieces a -> ([Int], Pieces a)
cut key i p = case IntMap.lookup key (missing p) of
  Just (Missing end cells) | key <= i && i < end -> case after (i - key) cells of
    Rest here -> case after 1 here of
      Rest behind ->
        let parts =
              [(key, Missing i cells) | key < i]
                ++ [(i, Missing (i + 1) here)]
                ++ [(i + 1, Missing end behind) | i + 1 < end]
         in (map fst parts, p {missing = foldr (uncurry IntMap.insert) (missing p) parts})
  _ -> ([key], p)

-- | The missing pieces that begin in @[first, end)@.
within :: (Int, Int) -> Pieces a -> [Int]
within (first, end) p = takeWhile (< end) (IntMap.keys (snd (IntMap.split (first - 1) (missing p))))

-- | Where the piece of that key ends, and its cells.
pieceAt :: Int -> Pieces a -> Maybe (Int, [a])
pieceAt key p = (\(Missing end cells) -> (end, cells)) <$> IntMap.lookup key (missing p)

-- | The first item without a result, and the input from there.
earliest :: Pieces a -> (Int, [a])
earliest p = case IntMap.lookupMin (missing p) of
  Just (at, Missing _ cells) -> (at, cells)
  Nothing -> (nextIndex p, nextCells p)

-- | A list whose cells so far are known, behind a constructor: it can be taken
-- out of another list now, without evaluating a cell that is not known yet.
-- (A newtype would have no such moment.)

{- HLINT ignore Rest "Use newtype instead of data" -}
data Rest a = Rest [a]

-- | 'drop', at once. A lazy one would keep the list's beginning, or the state
-- that it was in, for as long as nobody looks.
after :: Int -> [a] -> Rest a
after 0 xs = Rest xs
after n (_ : xs) = after (n - 1) xs
after _ [] = Rest []
