{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | Measures some of the items in the caller, and decides again and again
-- whether the rest is worth workers, or, where its results are dear to carry from
-- one process to another, the program's own capabilities (@+RTS -N@).
--
-- The bargain (Maru.Options.Auto): a list that takes 50 ms or more is at most
-- 5 % slower than @Sequential@, a shorter one at most 2 ms. So one item is
-- measured for every @stretchNs@ of work, and workers are started only for work
-- that is known to be there (cells already walked) and long enough to pay for
-- them. Only the latest measurements count: items may become dearer.
--
-- One of the first items may be so long that the workers should be at the rest already.
-- So these are watched ("Maru.Backend.Auto.Ahead"). What is begun beside an item is
-- judged once more when the item is done: by what it took, what its result costs to carry,
-- and what the workers' items took.
module Maru.Backend.Auto
  ( module Maru.Backend.Auto.Model,
    Begun (..),
    Machine (..),
    Ways (..),
    autoMap,
    forkCost,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad (unless, void)
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Maru.Backend.Auto.Ahead
import Maru.Backend.Auto.Model
import Maru.Internal.Feed
import Maru.Internal.Normal (normalised)
import Maru.Internal.Run (awaited)
import Maru.Native.Force (flatBytes, normalise)
import Maru.Native.Process (residentBytes)
import Maru.Native.Rts (lendArea, returnArea)
import System.IO.Unsafe (unsafeDupablePerformIO, unsafeInterleaveIO, unsafePerformIO)
import System.Mem (getAllocationCounter)

-- | One item is measured for so much work: measuring takes a microsecond.
stretchNs :: Double
stretchNs = 200000

-- | So many items from the first on are measured, each of them, and watched.
watchedItems :: Int
watchedItems = 4

-- | Nanoseconds of a map that are not measured while there is nothing but the caller; and between two
-- looks at what other maps leave, each of which is a system call for each core.
unmeasuredNs, lookAgainNs :: Word64
unmeasuredNs = 1000000
lookAgainNs = 1000000

-- | How to map the rest of a list elsewhere. Each is given what leads from an item's place in the
-- rest to that in the whole.
data Ways a b = Ways
  { -- | Nanoseconds.
    costOfFork :: IO Int64,
    onWorkers :: (Int -> Int) -> [a] -> IO [b],
    -- | On so many.
    onCapabilities :: Int -> (Int -> Int) -> [a] -> IO [b],
    -- | Begins it on workers beside the caller, which is busy for as long as the first argument
    -- says so. 'Nothing': not here.
    ahead :: Maybe (IO Bool -> (Int -> Int) -> [a] -> IO (Begun b))
  }

-- | What there is to map on.
data Machine
  = Whole !Means
  | -- | What other maps leave of it: now, and when it is asked again.
    Shared !Means (IO Means)

callerOnly :: Means -> Bool
callerOnly means = meansWorkers means < 2 && meansCapabilities means < 2

-- | Where the map is.
data Place a = Place
  { placeIndex :: !Int,
    placeSample :: !Sample,
    -- | Measurements so far.
    placeProbes :: !Int,
    -- | What a worker costs, as far as is known; 0: it was not asked yet.
    placeForkNs :: !Int64,
    -- | Items between the last two measurements.
    placeStretch :: !Int,
    -- | Cells below this index are known to exist; the list from there on.
    placeKnown :: !Int,
    placeBeyond :: [a],
    -- | There is no cell beyond.
    placeEnds :: !Bool,
    -- | Not before this index is it worth looking further ahead, and how long to
    -- wait after that: a slow spine is asked ever more rarely.
    placeLook :: !Int,
    placePatience :: !Int,
    -- | What there is to map on, and when that was looked at.
    placeMeans :: !Means,
    placeAsked :: !Word64
  }

-- | What there is to map on, how, and the function.
data Task a b = Task !Machine !(Ways a b) !(a -> b)

autoMap :: Machine -> Ways a b -> (a -> b) -> [a] -> IO [b]
autoMap machine ways f list = case machine of
  Whole means | callerOnly means -> pure (map (normalised f) list)
  Shared means _ | callerOnly means -> (\now -> unmeasured task now 0 1 list) <$> getMonotonicTimeNSec
  _ -> measuring task 0 list
  where
    task = Task machine ways f

-- | While other maps have all cores a short list is not measured. Where items take next to nothing
-- the clock is looked at more rarely.
unmeasured :: forall a b. Task a b -> Word64 -> Int -> Int -> [a] -> [b]
unmeasured task@(Task _ _ f) begun = go
  where
    go :: Int -> Int -> [a] -> [b]
    go !i !next cells
      | i == next = unsafeDupablePerformIO (pause i cells)
      | otherwise = on i next cells
    on _ _ [] = []
    on i later (c : rest) = normalised f c : go (i + 1) later rest
    -- Two threads may look at the clock; only one may go on from there.
    pause i cells = do
      took <- subtract begun <$> getMonotonicTimeNSec
      let few = max 1 (fromIntegral i * 20000 `div` max 1 took)
      pure (if took < unmeasuredNs then on i (i + min (min (4 * i) 64) (fromIntegral few)) cells else unsafePerformIO (measuring task i cells))

measuring :: Task a b -> Int -> [a] -> IO [b]
measuring task@(Task machine _ _) i xs = do
  watch <- newWatch
  now <- getMonotonicTimeNSec
  probe task watch (Place i (Sample [] 0 0 0) 0 0 0 0 [] False 0 8 (given machine) (if i == 0 then now else 0)) xs
  where
    given (Whole means) = means
    given (Shared means _) = means

-- | Measures the next item here, or hands it and the rest to others.
probe :: Task a b -> Watch -> Place a -> [a] -> IO [b]
probe _ _ _ [] = [] <$ returnArea
probe task@(Task machine ways f) watch place0 xs@(x : rest) = do
  placed <- asked machine lookAgainNs (reached xs place0)
  (decision, place) <- choose (costOfFork ways) placed
  case decision of
    -- Other maps may have taken cores meanwhile.
    OnWorkers -> asked machine 0 place >>= handed place
    OnCapabilities -> returnArea >> onCapabilities ways (meansCapabilities (placeMeans place)) (placeIndex place +) xs
    InCaller -> do
      let after = forgetful place {placeIndex = placeIndex place + 1, placeProbes = placeProbes place + 1}
      lendArea
      (watched, passing) <- watchedBy ways watch after rest
      (value, cost) <- measured watched (placeProbes place < 2 || placeProbes place `mod` 32 == 0) (f x)
      (value :) <$> unsafeInterleaveIO (goOn task watch after value cost passing rest)
  where
    handed before place
      | meansWorkers (placeMeans place) < meansWorkers (placeMeans before) = probe task watch place xs
      | otherwise = returnArea >> onWorkers ways (placeIndex place +) xs

-- | How the item before this place is to be evaluated, and what was begun meanwhile.
watchedBy :: Ways a b -> Watch -> Place a -> [a] -> IO (Stamp -> IO () -> IO (), IO (Maybe (Ahead b)))
watchedBy ways watch place rest
  | Just begin <- ahead ways,
    means <- placeMeans place,
    meansWorkers means > 1,
    placeIndex place <= watchedItems = do
    gate <- newGate
    found <- newIORef (0, 0)
    let begun b = uncurry (Ahead b (leaveGate gate)) <$> readIORef found
    pure (attended watch (longNs means bareForkNs) (consider begin gate found), forget watch >> pass gate >>= traverse begun)
  | otherwise = pure (const id, pure Nothing)
  where
    -- As if two items had taken so long.
    consider begin gate found took = do
      (decision, place') <- choose (costOfFork ways) (reached rest place) {placeSample = Sample [took, took] 0 0 0, placeForkNs = 0}
      if decision == OnWorkers && took >= longNs (placeMeans place) (placeForkNs place')
        then do
          writeIORef found (took, placeKnown place' - placeIndex place')
          True <$ open gate (begin (isBusy gate) (placeIndex place +) rest)
        else not <$> isBusy gate

-- | After a measured item: with what was begun beside it, if that still pays, or here.
goOn :: Task a b -> Watch -> Place a -> b -> IORef (Maybe Cost) -> IO (Maybe (Ahead b)) -> [a] -> IO [b]
goOn task watch place0 value cost passing xs = do
  place <- learn place0 value cost
  begun <- passing
  -- An item that threw has shown nothing.
  shown <- isJust <$> readIORef cost
  case begun of
    Nothing -> stretch task watch place xs
    Just there -> do
      elsewhere <- begunItemNs (aheadBegun there)
      if shown && worthIt place there elsewhere
        then begunList (aheadBegun there) <$ (aheadUsed there >> returnArea)
        else begunStop (aheadBegun there) >> aheadUsed there >> stretch task watch (told elsewhere place) xs

-- | The start is paid already. Of two measurements the lower one counts: the item's own, and
-- what the workers' took.
worthIt :: Place a -> Ahead b -> Maybe Double -> Bool
worthIt place there elsewhere = decide (placeMeans place) 0 sample (aheadKnown there) == OnWorkers
  where
    sample = (placeSample place) {sampleWork = maybe id (:) elsewhere [own]}
    own = case sampleWork (placeSample place) of
      latest : _ -> max (aheadTook there) latest
      [] -> aheadTook there

-- | Workers evaluated several items, most often: what they took outweighs the next measurement, too.
told :: Maybe Double -> Place a -> Place a
told elsewhere place = place {placeSample = (placeSample place) {sampleWork = maybe id (\ns -> take 3 . ([ns, ns] <>)) elsewhere (sampleWork (placeSample place))}}

-- | Maps some items here, on demand, without measuring each.
stretch :: forall a b. Task a b -> Watch -> Place a -> [a] -> IO [b]
stretch task@(Task _ _ f) watch place xs = do
  begun <- getMonotonicTimeNSec
  let !n = placeStretch place
      !apart = looksApart place
      !usual = typical (placeSample place)
      end = unsafeDupablePerformIO ([] <$ returnArea)
      -- From that place on to the next look. Counted down: an item has one comparison.
      from :: Int -> [a] -> [b]
      from k = items left
        where
          !left = min apart (n - k)
          items :: Int -> [a] -> [b]
          items 0 cells = unsafeDupablePerformIO (pause (k + left) cells)
          items _ [] = end
          items more (c : cells) = normalised f c : items (more - 1) cells
      -- Two threads may look at the clock; only one may go on from there.
      pause k cells = do
        took <- subtract begun <$> getMonotonicTimeNSec
        pure (if k == n || overdue usual k took then unsafePerformIO (probe task watch (paced took k place) cells) else from k cells)
  pure (from 0 xs)

-- | What was begun beside an item that had taken so long, with so many cells known behind it.
data Ahead b = Ahead
  { aheadBegun :: !(Begun b),
    -- | It is used, or was ended: the caller's core is free.
    aheadUsed :: !(IO ()),
    aheadTook :: !Double,
    aheadKnown :: !Int
  }

-- | After how many items the clock is looked at within a stretch: for every 5 us of work, which costs
-- a percent, and at least for every 32 items or a quarter of what has been seen, since they may
-- become dearer.
looksApart :: Place a -> Int
looksApart place = foldr const 32 (dropWhile tooOften [1, 2, 4, 8, 16])
  where
    tooOften apart = typical (placeSample place) * fromIntegral apart < 5000 && 4 * (apart - 1) < placeIndex place

-- | With what the measured item has shown. A consumer that walks the list before
-- it looks at the elements has not evaluated it: that is done now, and the next
-- time later, for it takes two switches between threads.
learn :: Place a -> b -> IORef (Maybe Cost) -> IO (Place a)
learn place value cost = do
  seen <- readIORef cost
  case seen of
    Just c -> pure (next stretchNs c)
    Nothing -> do
      beside value
      late <- readIORef cost
      pure (maybe place {placeStretch = 1} (next (25 * stretchNs)) late)
  where
    next ns c = let sample = with c (placeSample place) in place {placeSample = sample, placeStretch = upTo (ns / typical sample)}
    upTo
      | placeIndex place < watchedItems = const 0
      | otherwise = min (2 * placeStretch place + 1) . floor . min 10000
    with (Cost work carried bytes) (Sample before walk _ flat) = (\(Carried ns n) -> Sample (take 3 (work : before)) ns bytes n) (fromMaybe (Carried walk flat) carried)

-- | After a stretch of so many items that took so long. If it is overdue the next
-- measurements follow at once.
paced :: Word64 -> Int -> Place a -> Place a
paced took n place = place {placeIndex = placeIndex place + n, placeStretch = if overdue (typical (placeSample place)) n took then 0 else n}

-- | Items differ from those measured, or the consumer is slow: then measuring
-- costs next to nothing.
overdue :: Double -> Int -> Word64 -> Bool
overdue usual n took = fromIntegral took > min (4 * stretchNs) (50000 + 8 * usual * fromIntegral n)

-- | At the cells that begin at the place.
reached :: [a] -> Place a -> Place a
reached xs place
  | placeKnown place > placeIndex place = place
  | otherwise = place {placeKnown = placeIndex place, placeBeyond = xs}

-- | Nothing is held that the consumer leaves behind.
forgetful :: Place a -> Place a
forgetful place
  | placeKnown place > placeIndex place = place
  | otherwise = place {placeBeyond = []}

-- | Whether the rest is worth more than the caller. Looks ahead only where enough
-- cells would make it so.
choose :: IO Int64 -> Place a -> IO (Decision, Place a)
choose forkCosts place0
  | callerOnly means || not (believable sample) = pure (InCaller, place0)
  | otherwise = do
    place <- priced forkCosts place0
    let forkNs = placeForkNs place
        wanted = cellsWorth means forkNs sample
    if decide means forkNs sample wanted == InCaller
      then pure (InCaller, place)
      else do
        place' <- lookAhead wanted place
        pure (decide means forkNs sample (placeKnown place' - placeIndex place'), place')
  where
    means = placeMeans place0
    sample = placeSample place0

-- | Looks what other maps leave, unless that was looked at within so many nanoseconds.
asked :: Machine -> Word64 -> Place a -> IO (Place a)
asked (Whole _) _ place = pure place
asked (Shared _ look) ns place = do
  now <- getMonotonicTimeNSec
  if now - placeAsked place < ns then pure place else (\means -> place {placeMeans = means, placeAsked = now}) <$> look

-- | Knows what a worker costs. Asking takes some microseconds; the heap grows.
priced :: IO Int64 -> Place a -> IO (Place a)
priced forkCosts place
  | placeForkNs place > 0 && placeProbes place `mod` 16 /= 0 = pure place
  | otherwise = (\ns -> place {placeForkNs = max 1 ns}) <$> forkCosts

-- | Sees to it that so many cells from the place on are known, if they are there
-- soon.
lookAhead :: Int -> Place a -> IO (Place a)
lookAhead wanted place
  | missing <= 0 || placeEnds place || placeIndex place < placeLook place = pure place
  | otherwise = do
    (n, ends) <- walkAhead missing (placeBeyond place)
    let seen = place {placeKnown = placeKnown place + n, placeBeyond = drop n (placeBeyond place), placeEnds = ends}
    pure $
      if n < missing && not ends
        then seen {placeLook = placeIndex place + placePatience place, placePatience = 2 * placePatience place}
        else seen
  where
    missing = placeIndex place + wanted - placeKnown place

-- | Nanoseconds until one more worker works, for the heap as it is: page tables
-- are copied (20 us a MiB, measured).
forkCost :: IO Int64
forkCost = do
  resident <- residentBytes
  pure (bareForkNs + 20000 * fromIntegral (resident `div` 1048576))

bareForkNs :: Int64
bareForkNs = 700000

-- | How many cells follow, up to a number, and whether these are all; gives a
-- slow spine one millisecond.
--
-- The consumer waits for an 'MVar' and nothing else. 'threadDelay' would catch an
-- exception thrown at the consumer and throw it again as one of this computation:
-- it would stay in the list.
walkAhead :: Int -> [a] -> IO (Int, Bool)
walkAhead wanted xs = do
  news <- newEmptyMVar
  late <- newIORef False
  feed <- startFeed xs (void (tryPutMVar news ()))
  wantUpTo feed wanted
  let enough seen = knownCount seen >= wanted || isJust (knownEnd seen)
      look = do
        over <- readIORef late
        seen <- known feed
        if over || enough seen
          then (knownCount seen, isJust (knownEnd seen)) <$ leaveFeed feed
          else takeMVar news >> look
  -- It walks what is there before this thread runs again.
  yield
  atOnce <- enough <$> known feed
  unless atOnce . void . forkIO $ threadDelay 1000 >> writeIORef late True >> void (tryPutMVar news ())
  look

-- Measuring ------------------------------------------------------------------

-- | Nanoseconds to evaluate a result; how much there is to carry, if that was measured; bytes that
-- were allocated meanwhile.
data Cost = Cost !Double !(Maybe Carried) !Double

-- | Nanoseconds to walk a result once more, and bytes that a walk does not look at.
data Carried = Carried !Double !Double

-- | The value, which when it is looked at becomes evaluated to normal form, in that way,
-- and leaves its cost in the cell.
measured :: (Stamp -> IO () -> IO ()) -> Bool -> b -> IO (b, IORef (Maybe Cost))
measured evaluating walking y = do
  cell <- newIORef Nothing
  let value = unsafePerformIO $ do
        left <- getAllocationCounter
        work <- costing (\begun -> evaluating begun (normalise y))
        after <- getAllocationCounter
        carried <- if walking then Just <$> carrying y else pure Nothing
        writeIORef cell (Just (Cost work carried (fromIntegral (left - after))))
        pure y
  pure (value, cell)

-- | Of a result that is evaluated.
carrying :: b -> IO Carried
carrying y = do
  begun <- stamp
  flat <- flatBytes y
  ns <- passed begun
  pure (Carried ns (fromIntegral flat))

-- | What it takes, in nanoseconds.
costing :: (Stamp -> IO ()) -> IO Double
costing act = do
  begun <- stamp
  act begun
  passed begun

-- | Evaluates in a thread beside the consumer: what evaluation throws must not
-- be mistaken for an exception thrown at the consumer. It stays in the value.
beside :: b -> IO ()
beside value = do
  done <- newEmptyMVar
  helper <- mask_ (forkIOWithUnmask (\unmask -> attempt (unmask (void (evaluate value))) >>= putMVar done))
  -- When nobody waits any more the thread ends too.
  waiting <- newIORef ()
  _ <- mkWeakIORef waiting (killThread helper)
  _ <- awaited (readMVar done)
  readIORef waiting
  where
    attempt :: IO () -> IO (Either SomeException ())
    attempt = try
