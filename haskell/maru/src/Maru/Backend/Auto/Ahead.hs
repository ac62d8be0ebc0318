-- | Workers begun ahead. While the caller evaluates an item that turns out long, a watch begins the
-- rest of the list on other cores. /Internal/.
--
-- The watch of a map that goes on for some milliseconds is a thread for as long as items are
-- measured. It ends when it has begun something, and soon after the last measured item. Between its
-- looks it holds nothing of the map: a consumer that is stuck in an item must be found so by the
-- collector.
--
-- Whether what was begun is used, the consumer decides when it comes to the next cell: the 'Gate'
-- is passed by one of the two. Nothing is thrown, and no handler is around what the consumer
-- waits for.
module Maru.Backend.Auto.Ahead
  ( Begun (..),

    -- * The watch
    Watch,
    newWatch,
    Stamp (..),
    stamp,
    passed,
    attended,
    forget,

    -- * Between watch and consumer
    Gate,
    newGate,
    isBusy,
    open,
    pass,
    leaveGate,
  )
where

import Control.Concurrent
import Control.Exception (SomeException, try)
import Control.Monad (unless, void, when)
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.Maybe (isJust)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Maru.Internal.Within (Mark, enter, leave, settled)
import Maru.Native.Rts (shortSlices)
import System.CPUTime (getCPUTime)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem.Weak (Weak, deRefWeak)
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

-- | The rest of a list on workers.
data Begun b = Begun
  { begunList :: [b],
    -- | Ends them. The list must not be demanded afterwards.
    begunStop :: IO (),
    -- | What an item takes there, where one is known.
    begunItemNs :: IO (Maybe Double)
  }

-- The gate -------------------------------------------------------------------

-- | Behind an item that the caller evaluates.
data Gate b = Gate
  { gateBusy :: !(IORef Bool),
    gatePassed :: !(IORef (Passed b))
  }

data Passed b
  = ByNobody
  | -- | In that process; what it begins is there soon. 'Nothing': it could not.
    ByWatch !ProcessID !(MVar (Maybe (Begun b)))
  | ByConsumer

newGate :: IO (Gate b)
newGate = Gate <$> newIORef True <*> newIORef ByNobody

-- | The consumer has not come, or has not decided about what was begun: no worker takes its core.
isBusy :: Gate b -> IO Bool
isBusy = readIORef . gateBusy

-- | The watch begins this, if the consumer has not come. Where it throws nothing was begun: what
-- is wrong, the consumer meets by itself.
open :: Gate b -> IO (Begun b) -> IO ()
open gate begin = do
  there <- newEmptyMVar
  self <- getProcessID
  mine <- atomicModifyIORef' (gatePassed gate) $ \before -> case before of
    ByNobody -> (ByWatch self there, True)
    _ -> (before, False)
  if mine then try begin >>= putMVar there . either nothing Just else pure ()
  where
    nothing :: SomeException -> Maybe c
    nothing _ = Nothing

-- | The consumer has come: with what was begun meanwhile, until 'leaveGate', it goes on. In a process that
-- was forked from here it goes on alone. Afterwards the gate, which the run holds, leads to no result.
pass :: Gate b -> IO (Maybe (Begun b))
pass gate = do
  before <- atomicModifyIORef' (gatePassed gate) $ \before -> case before of
    ByNobody -> (ByConsumer, before)
    _ -> (before, before)
  case before of
    ByWatch process there -> do
      self <- getProcessID
      begun <- if self == process then readMVar there <* writeIORef (gatePassed gate) ByConsumer else pure Nothing
      begun <$ unless (isJust begun) (leaveGate gate)
    _ -> Nothing <$ leaveGate gate

-- | It uses what was begun, or has ended it.
leaveGate :: Gate b -> IO ()
leaveGate gate = writeIORef (gateBusy gate) False

-- The watch ------------------------------------------------------------------

newtype Watch = Watch (IORef Now)

data Now = Now
  { -- | Somebody looks, or will.
    nowWatched :: !Bool,
    -- | Items so far.
    nowItems :: !Int,
    nowItem :: !(Maybe Item)
  }

-- | Since when, what is to be done when it has taken so long ('True' when that was all), and what
-- tells maps inside it of it.
data Item = Item !Stamp (Double -> IO Bool) !(Maybe Mark)

newWatch :: IO Watch
newWatch = Watch <$> newIORef (Now False 0 Nothing)

-- | Of the processor and of the clock.
data Stamp = Stamp !Integer !Word64

stamp :: IO Stamp
stamp = Stamp <$> getCPUTime <*> getMonotonicTimeNSec

-- | Nanoseconds since then, of the clock or of the processor, whichever are fewer: time in
-- which somebody else had the core is not the item's.
passed :: Stamp -> IO Double
passed (Stamp cpu clock) = do
  now <- getMonotonicTimeNSec
  used <- getCPUTime
  pure (min (fromIntegral (now - clock)) (fromIntegral (used - cpu) / 1000))

-- | Evaluates an item that is watched from now on. Once it has taken so many nanoseconds the last
-- action is asked, and again after as long. An item that throws is watched until it is forgotten.
attended :: Watch -> Double -> (Double -> IO Bool) -> Stamp -> IO () -> IO ()
attended (Watch ref) long considered begun@(Stamp _ clock) item = do
  mark <- enter (8 * ceiling long)
  watched <- atomicModifyIORef' ref $ \before ->
    (Now True (nowItems before + 1) (Just (Item begun considered mark)), nowWatched before)
  unless watched $ do
    weak <- mkWeakIORef ref (pure ())
    enlist (Fresh weak long clock)
  item
  forget (Watch ref)

-- | The consumer is past its item, or the item threw.
forget :: Watch -> IO ()
forget (Watch ref) = do
  before <- atomicModifyIORef' ref (\now -> (now {nowItem = Nothing}, nowItem now))
  for_ before $ \(Item _ _ mark) -> traverse_ leave mark

-- | A map that begins: how long its items may take, and since when it is there.
data Fresh = Fresh !(Weak (IORef Now)) !Double !Word64

-- | Maps that nobody has looked at yet, and when somebody last looked for such. Where that is long
-- ago nobody looks, as in a process that was forked from here.
--
-- Most maps are over by then. A thread for each would take several times as long as they do.
fresh :: IORef (Word64, [Fresh])
fresh = unsafePerformIO (newIORef (0, []))
{-# NOINLINE fresh #-}

enlist :: Fresh -> IO ()
enlist map'@(Fresh _ long clock) = do
  alone <- atomicModifyIORef' fresh $ \(looked, others) ->
    let alone = clock > looked + 100000000
     in ((if alone then clock else looked, map' : others), alone)
  when alone . void $ forkIO (receiving long)

-- | Looks for maps that have begun, until there were none.
receiving :: Double -> IO ()
receiving long = do
  sleep long True
  now <- getMonotonicTimeNSec
  maps <- atomicModifyIORef' fresh $ \(_, maps) -> ((if null maps then 0 else now, []), maps)
  unless (null maps) $ do
    for_ maps $ \(Fresh weak its clock) -> do
      goesOn <- deRefWeak weak >>= maybe (pure False) (fmap (isJust . nowItem) . readIORef)
      if goesOn
        then void (forkIO (watching weak its (Seen 0 (max 0 (its - fromIntegral (now - clock))) True)))
        else deRefWeak weak >>= traverse_ unwatched
    receiving long

-- | What a look has shown: items so far, nanoseconds to the next look, and whether the item may be
-- about to be begun beside.
data Seen = Seen !Int !Double !Bool

watching :: Weak (IORef Now) -> Double -> Seen -> IO ()
watching weak long seen@(Seen _ pause short) = do
  when (pause > 0) (sleep pause short)
  next <- deRefWeak weak >>= maybe (pure Nothing) (glance long seen)
  for_ next (watching weak long)

-- | So many nanoseconds; and whether to have a slice soon after them, of a thread that computes. Of
-- a long sleep a slice's length is next to nothing.
sleep :: Double -> Bool -> IO ()
sleep ns short = do
  let micros = max 100 (ceiling (ns / 1000))
  when (short && micros < 20000) (shortSlices (micros + 5000))
  threadDelay micros

-- | 'Nothing': no more. Not inlined: nothing of the map is held between two looks.
glance :: Double -> Seen -> IORef Now -> IO (Maybe Seen)
glance long (Seen items _ _) ref = do
  now <- readIORef ref
  case nowItem now of
    Nothing
      | nowItems now == items ->
        -- Unless the next one has begun since.
        atomicModifyIORef' ref $ \later ->
          if nowItems later == items then (later {nowWatched = False}, Nothing) else (later, Just (Seen items long False))
      | otherwise -> pure (Just (Seen (nowItems now) long False))
    Just (Item begun@(Stamp _ clock) considered mark) -> do
      took <- passed begun
      if took < long
        then do
          -- It may wait for something, for ever.
          waited <- subtract clock <$> getMonotonicTimeNSec
          pure (Just (Seen (nowItems now) (max (long - took) (fromIntegral waited / 4)) (nowItems now /= items)))
        else do
          done <- considered took
          traverse_ (settled (if done then Just birthNs else Nothing)) mark
          if done then Nothing <$ unwatched ref else pure (Just (Seen (nowItems now) took True))
{-# NOINLINE glance #-}

-- | What was begun holds its cores by then: its first look at the input, and the pages of its workers.
birthNs :: Word64
birthNs = 4000000

unwatched :: IORef Now -> IO ()
unwatched ref = atomicModifyIORef' ref (\now -> (now {nowWatched = False}, ()))
