-- | Parallel map on processes.
--
-- > import Maru
-- >
-- > main :: IO ()
-- > main = print (sum (parMap (+ 1) [1 .. 100 :: Int]))
--
-- 'parMap' is 'map', and this module keeps two properties whatever happens to a
-- worker:
--
--   * __nothing is lost__: the result is the one of 'map', in order, or an
--     exception that names the item. A worker that is killed is noticed within
--     100 ms and its items are evaluated again;
--   * __nothing is left__: when the result has been consumed, is dropped, or its
--     consumer dies, every worker ends.
--
-- Two differences to 'map' remain. Results are evaluated to normal form, in
-- parallel and somewhat ahead of their consumer; and @f@ may be evaluated more
-- than once, in a process that shares memory contents but no open files with the
-- caller: it must be pure. @docs/when-not-to-use.md@ says when all this does not
-- pay.
--
-- __Failure__, for all functions here. What @f@ throws is thrown at its element,
-- in its own type where the exception can cross, else as 'RemoteException'; that
-- includes stack and heap overflow and @exitWith@. Besides: 'WorkerLost',
-- 'Untransferable' at an element; 'BadOptions' and 'Unavailable' (a back end that
-- this program, its flags or a sandbox do not allow) where the list is first
-- looked at. A spine that throws does so at its place.
--
-- __Laziness__: nothing starts before the list is looked at; the first result
-- needs no later input.
--
-- __Cost__: starting a forked worker copies the caller's page tables, so it grows
-- with the heap; @maru bench map\/dispatch@ prints what beginning and an item
-- cost, by back end.
--
-- The design is that of three models of parallel Haskell on many cores, here the
-- back ends 'Sockets' (SAMSoc), 'Stm' (SAMSTM) and 'Shm' (SAMShm); their figures,
-- beside ours, are in @docs\/experiments.md@.
module Maru
  ( -- * Mapping
    parMap,
    parMapWith,
    parFor,
    parFold,
    parTree,
    parBuffer,
    procList,

    -- * Other shapes
    parFmap,
    parMapReduce,

    -- * Mapping in 'IO'
    parMapM,
    parMapUnordered,
    parMapReporting,

    -- * Items with effects, a state, a time limit, chance
    parMapIO,
    parMapState,
    parMapWithin,
    itemSeeds,

    -- * Results that say how they cross
    parMapVia,
    Codec,
    binary,
    rawBytes,
    storable,
    showRead,

    -- * Failures as values
    parMapTry,
    ItemFailed (..),

    -- * Large inputs
    withInput,

    -- * Progress
    Progress (..),
    progressBar,

    -- * Options
    Options (..),
    defaultOptions,
    Backend (..),
    backendName,
    backendFromName,
    allBackends,
    Workers (..),
    Chunking (..),
    Policy (..),
    Transport (..),

    -- * What maru throws
    WorkerLost (..),
    Death (..),
    RemoteException (..),
    Untransferable (..),
    Unavailable (..),
    BadOptions (..),
    Report (..),
  )
where

import Control.Exception (CompactionFailed (..), evaluate, throw, throwIO, try)
import Control.Parallel.Strategies (Strategy)
import Data.Foldable (toList)
import Data.List (foldl')
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, listToMaybe)
import Data.Traversable (mapAccumL)
import Data.Tuple (swap)
import qualified GHC.Compact as Compact
import Maru.Codec
import Maru.Effects
import Maru.Failure
import Maru.Internal.Engine
import Maru.Internal.Start
import Maru.Options
import Maru.Progress (progressBar)
import System.IO.Unsafe (unsafePerformIO)

-- | @parMap f xs == map f xs@, on all cores this process may use.
--
-- Ordered; lazy in both directions: the first result is there before the last
-- input is demanded, and the look-ahead is bounded. O(1) memory per item that is
-- under way. Throws at an element what @f@ throws there.
--
-- The back end is 'Auto': short lists never leave the caller.
--
-- >>> parMap (+ 1) [1 .. 5 :: Int]
-- [2,3,4,5,6]
parMap :: (a -> b) -> [a] -> [b]
parMap = parMapWith defaultOptions

-- | 'parMap' with 'Options'. Throws 'BadOptions' for options out of range.
--
-- Items that 'Auto' or 'Sequential' evaluates in the caller are evaluated on
-- demand, as by 'map', but to normal form; for them 'initialise' is not run and
-- 'onProgress' is not told. Name another back end where these matter.
--
-- >>> parMapWith defaultOptions {backend = Shm, workers = Workers 2} (* 2) [1 .. 5 :: Int]
-- [2,4,6,8,10]
parMapWith :: Options -> (a -> b) -> [a] -> [b]
parMapWith = mapWith

-- | @parFor xs f = parMap f xs@.
--
-- >>> parFor [1 .. 3 :: Int] (* 10)
-- [10,20,30]
parFor :: [a] -> (a -> b) -> [b]
parFor = flip parMap

-- | @parFold op z f xs == foldr op z (map f xs)@ for an associative @op@ with
-- unit @z@. Workers fold, so that one value per segment crosses: of one item at
-- the list's begin, of 64 from item 4032 on. The whole list is consumed, in
-- constant memory; a segment counts as one item in 'chunking', 'window' and
-- exceptions. What @f@ throws, the fold throws.
--
-- >>> parFold defaultOptions (+) 0 (* 2) [1 .. 100 :: Int]
-- 10100
parFold :: Options -> (b -> b -> b) -> b -> (a -> b) -> [a] -> b
parFold options op z f = foldl' op z . parMapWith options (foldl' op z . map f) . segments

-- | Short lists are spread, too; of long ones few values cross.
segments :: [a] -> [[a]]
segments = go (concatMap (replicate 64) (takeWhile (< 64) (iterate (* 2) 1)))
  where
    go _ [] = []
    go sizes xs = now : go (drop 1 sizes) later
      where
        (now, later) = splitAt (fromMaybe 64 (listToMaybe sizes)) xs

-- | @parTree options n split join@: divide and conquer. @split@ gives a problem's parts, none
-- for the smallest; @join@ makes its result of the results of its parts:
--
-- > parTree options n split join == tree where tree p = join p (map tree (split p))
--
-- The caller splits, level by level, until there are @n@ parts or more, at most 64 levels
-- deep. Workers do each of these parts with all below it, also those that could not be split;
-- the caller joins. 16 parts or more for each worker even out what parts differ in. What @split@
-- throws on these levels, the result throws. A list of parts must have an end.
--
-- >>> parTree defaultOptions {workers = Workers 2} 4 (\n -> [n - 1 | n > 0] ++ [n - 2 | n > 1]) (\n rs -> if n < 2 then n else sum rs) (10 :: Int)
-- 55
parTree :: Options -> Int -> (p -> [p]) -> (p -> [r] -> r) -> p -> r
parTree options n split join root = fst (joined depth top (parMapWith options whole (cut depth top)))
  where
    whole p = join p (map whole (split p))
    top = unfolded root
    unfolded p = Parts p (map unfolded (split p))
    depth = length (takeWhile few [0 .. 63])
    few d = inner d top && length (cut d top) < n
    joined d (Parts p ps) results
      | d == 0 || null ps = (foldr const (whole p) results, drop 1 results)
      | otherwise =
        let (rest, rs) = mapAccumL (\left part -> swap (joined (d - 1) part left)) results ps
         in (join p rs, rest)

-- | A problem, and its parts.
data Parts p = Parts p [Parts p]

-- | The problems at that depth, and those above it that have no parts.
cut :: Int -> Parts p -> [p]
cut d (Parts p ps)
  | d == 0 || null ps = [p]
  | otherwise = concatMap (cut (d - 1)) ps

-- | Is there one with parts at that depth?
inner :: Int -> Parts p -> Bool
inner 0 (Parts _ ps) = not (null ps)
inner d (Parts _ ps) = any (inner (d - 1)) ps

-- | 'parMapWith' that works at most so many items (1 or more) ahead of its
-- consumer; for infinite lists too. What 'window' says is overruled.
--
-- >>> take 3 (parBuffer defaultOptions {workers = Workers 2} 8 (* 2) [1 :: Int ..])
-- [2,4,6]
parBuffer :: Options -> Int -> (a -> b) -> [a] -> [b]
parBuffer options n = parMapWith options {window = Just n}

-- | For @xs \`using\` procList options@: the elements are evaluated on workers.
-- Unlike with @parList rdeepseq@ the original elements stay as they are: use the
-- list that comes back. Elements must be unevaluated to be worth it, and come back
-- as copies.
--
-- >>> import Control.Parallel.Strategies (using)
-- >>> map (+ 1) [1 .. 3 :: Int] `using` procList defaultOptions
-- [2,3,4]
procList :: Options -> Strategy [a]
procList options xs = pure (parMapWith options id xs)

-- | @parFmap options f == fmap f@: the elements of a tree, a @Map@, a @Seq@, an
-- @Array@, a boxed @Vector@. The structure itself stays in the caller. Elements
-- are lazy, as with 'parMapWith'; one that is demanded far from its place waits
-- for those before it. For unboxed vectors: "Maru.Vector".
--
-- >>> import qualified Data.Map as Map
-- >>> parFmap defaultOptions (+ 1) (Map.fromList [('a', 1), ('b', 2 :: Int)])
-- fromList [('a',2),('b',3)]
parFmap :: Traversable t => Options -> (a -> b) -> t a -> t b
parFmap options f t = snd (mapAccumL next (parMapWith options f (toList t)) t)
  where
    next ys x = case ys of
      y : rest -> (rest, y)
      [] -> ([], f x)

-- | @parMapReduce options op f xs == Map.fromListWith (flip op) (concatMap f xs)@
-- for an associative @op@: @f@ gives keys and values, @op@ joins the values of one
-- key, earlier items on its left. Workers join within segments as in 'parFold';
-- the caller merges one map per segment, in time O(its keys · log all keys). Keys
-- and values are evaluated to normal form.
--
-- >>> parMapReduce defaultOptions (+) (\line -> [(w, 1 :: Int) | w <- words line]) ["to be", "or not to be"]
-- fromList [("be",2),("not",1),("or",1),("to",2)]
parMapReduce :: Ord k => Options -> (v -> v -> v) -> (a -> [(k, v)]) -> [a] -> Map k v
parMapReduce options op f =
  foldl' (Map.unionWith op) Map.empty . parMapWith options (Map.fromListWith (flip op) . concatMap f) . segments

-- | 'parMapWith' whose results cross in a coding of yours: for results that hold
-- functions or foreign memory, or whose coded form is much smaller.
--
-- > parMapVia binary defaultOptions f xs
--
-- A coding of your own is a @Codec@ of "Maru.Codec". Back ends that share the
-- caller's heap code and decode all the same. An element
-- whose bytes cannot be decoded throws. With the back end 'Auto': 'Shm'.
--
-- >>> parMapVia showRead defaultOptions {workers = Workers 2} even [1, 2, 3 :: Int]
-- [False,True,False]
parMapVia :: Codec b -> Options -> (a -> b) -> [a] -> [b]
parMapVia codec options f xs = unsafePerformIO (values <$> startedOn options Ordered (Just codec) f xs)

-- | Scoped: when it returns or throws (also an asynchronous exception), the
-- workers are gone. A worker that is a thread of the caller is waited for 150 ms.
-- In a foreign call, or in a loop that does not allocate, it may go on after that.
--
-- Throws the first exception by index. O(length) memory: all results are there
-- when it returns. With the back end 'Auto': 'Shm'.
--
-- >>> parMapM defaultOptions {workers = Workers 2} (* 2) [1 .. 3 :: Int]
-- [2,4,6]
parMapM :: Options -> (a -> b) -> [a] -> IO [b]
parMapM options f xs =
  scoped options Ordered Nothing f xs $
    mapM (either throwIO evaluate . outcomeResult) . outcomes

-- | Results with their index, as they come, so one slow item delays no other.
-- The list is produced lazily; an element of which @f@ threw throws when its value
-- is looked at, its index does not. With the back end 'Auto': 'Shm'.
--
-- >>> import Data.List (sort)
-- >>> fmap sort (parMapUnordered defaultOptions {workers = Workers 2} (* 2) [1 .. 3 :: Int])
-- [(0,2),(1,4),(2,6)]
parMapUnordered :: Options -> (a -> b) -> [a] -> IO [(Int, b)]
parMapUnordered options f xs = do
  running <- startedOn options Unordered Nothing f xs
  pure [(outcomeIndex o, either throw id (outcomeResult o)) | o <- outcomes running]

-- | 'parMapWith', and a look at what has happened so far: which back end ran,
-- how results crossed and why, which workers died. The second action may be run at any
-- time and again; it counts what has happened by then. With the back end 'Auto':
-- 'Shm'.
--
-- >>> (xs, look) <- parMapReporting defaultOptions {workers = Workers 2} (* 2) [1 .. 3 :: Int]
-- >>> sum xs
-- 12
-- >>> fmap reportBackend look
-- Shm
parMapReporting :: Options -> (a -> b) -> [a] -> IO ([b], IO Report)
parMapReporting options f xs = do
  running <- startedOn options Ordered Nothing f xs
  pure (values running, report running)

-- | A failed item as a value, the others undisturbed: 'Left' for what @f@ threw,
-- for a lost worker and for a result that cannot cross. Under the policy 'Fail' a
-- lost worker still ends the list. With the back end 'Auto': 'Shm'.
--
-- An item that forked workers cannot finish, the caller evaluates when you look at
-- it. Such an item is a 'Right', whose value throws what @f@ throws.
--
-- >>> map (either (const "failed") show) (parMapTry defaultOptions {workers = Workers 2} (10 `div`) [2, 0, 5 :: Int])
-- ["5","failed","2"]
parMapTry :: Options -> (a -> b) -> [a] -> [Either ItemFailed b]
parMapTry options f xs = unsafePerformIO $ do
  running <- startedOn options Ordered Nothing f xs
  pure (map item (outcomes running))
  where
    item o = either (Left . ItemFailed (outcomeIndex o) (outcomeWorker o)) Right (outcomeResult o)

-- | Puts a large input where no worker's garbage collector copies it: reading it
-- in a worker costs no memory, however much the worker collects. The value is
-- evaluated to normal form and copied once, keeping its sharing, in time and
-- memory O(its size). What cannot be moved (functions, mutable objects, pinned
-- memory such as a strict @ByteString@) makes it an ordinary value again, silently:
-- correct, but not protected. Throws what evaluating the value throws.
--
-- >>> withInput [1 .. 1000 :: Int] (\xs -> parMapM defaultOptions {workers = Workers 2} (\n -> sum (take n xs)) [1, 2, 3])
-- [1,3,6]
withInput :: a -> (a -> IO r) -> IO r
withInput x use = do
  compacted <- try (Compact.compactWithSharing x)
  case compacted of
    Right c -> use (Compact.getCompact c)
    Left CompactionFailed {} -> use x
