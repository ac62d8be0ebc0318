-- | What a process does when it has the CPU: it computes, sends, and waits by its policy.
module Maru.Control.Sim.Boost.Waiting
  ( decide,
  )
where

import Control.Monad (void, when)
import Control.Monad.ST (ST)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Boost.Model
import Maru.Control.Sim.Boost.Scheduler
import Maru.Control.Sim.Boost.World
import Maru.Control.Sim.Random
import Maru.Control.Sim.Tournament
import Maru.Wait.Policy (Policy (..))

-- | The message of this iteration; the time after it.
send :: World s -> Int -> Int -> Double -> Double -> ST s Double
send w n k now at0 = do
  at <- spend w n (costSend (costs w)) at0
  i <- readPrimArray (iteration w) (n * width w + k)
  let m = model w
      nodes = modelNodes m
      arrival = at + modelLatency m + costArrival (costs w)
      to other side = post w now at (other * width w + k) other (4 * (other * width w + k) + 2 * side + i `rem` 2)
      -- The sender wakes a process that waits asleep, unless the message takes time.
      pay woken = if woken && modelLatency m == 0 then spend w n (costWake (costs w)) else pure
  case modelPattern m of
    _ | nodes < 2 -> pure at
    Ring
      | nodes == 2 -> to (1 - n) 0 arrival >>= (`pay` at)
      | otherwise -> do
        right <- to ((n + 1) `rem` nodes) 0 arrival
        after <- pay right at
        toLeft <- to ((n + nodes - 1) `rem` nodes) 1 arrival
        pay toLeft after
    Barrier -> do
      let place = 2 * k + i `rem` 2
      there <- bump (come w) place
      if there < nodes
        then pure at
        else do
          writePrimArray (come w) place 0
          let steps = ceiling (logBase 2 (fromIntegral nodes :: Double)) :: Int
          each nodes $ \other -> void (to other 0 (at + fromIntegral steps * (modelLatency m + costArrival (costs w))))
          -- One of them was for this node, whose CPU it may have cost.
          max at <$> readPrimArray (stolen w) n

-- | Into an inbox. Whether its owner must be woken for it.
post :: World s -> Double -> Double -> Int -> Int -> Int -> Double -> ST s Bool
post w now at thread n place arrival = do
  writePrimArray (inbox w) place arrival
  let cost = costArrival (costs w)
  when (cost > 0) $ do
    elapse w n now
    held <- max now <$> readPrimArray (stolen w) n
    _ <- spend w n cost held
    writePrimArray (again w) n 1
    due (agenda w) n now
  what <- readPrimArray (state w) thread
  complete <- ready w thread
  when (waits what && complete < infinity && cost == 0) $ do
    known <- nextOf w n
    due (agenda w) n (min known (max complete at))
  pure (what == Armed && complete < infinity)

-- | Until somebody runs who does something that lasts.
decide :: World s -> Int -> Double -> ST s ()
decide w n at = do
  c <- readPrimArray (current w) n
  anew <- readPrimArray (again w) n
  ran <- if c >= 0 then runs <$> readPrimArray (state w) (n * width w + c) else pure False
  if anew == 0 && ran then proceed w n c at else pick w n c at

pick :: World s -> Int -> Int -> Double -> ST s ()
pick w n before at = do
  writePrimArray (again w) n 0
  k <- choose w n
  if k < 0
    then writePrimArray (current w) n (-1) >> writePrimArray (stolen w) n at
    else do
      after <-
        if k == before
          then pure at
          else spend w n ((if before < 0 then costIdle else costSwitch) (costs w)) at
      writePrimArray (current w) n k
      readPrimArray (deadline w) (n * width w + k) >>= writePrimArray (safety w) n
      proceed w n k after

-- | It has the CPU.
proceed :: World s -> Int -> Int -> Double -> ST s ()
proceed w n k at = do
  let thread = n * width w + k
  what <- readPrimArray (state w) thread
  when (what == Yielding) $ noteCrowd w n k at
  arrived <- if waits what then ready w thread else pure infinity
  case what of
    _ | arrived <= at -> begin w n k at
    Computing -> do
      more <- readPrimArray (left w) thread
      if more > 1e-6 then settled else finish w n k at
    Spinning -> do
      end <- readPrimArray (limit w) thread
      if end <= at then spunInVain w n k at else settled
    Looking -> lookedInVain w n k at
    Yielding -> giveWay w n k at
    _ -> settled
  where
    settled = writePrimArray (stolen w) n at

-- | The message is there: it computes.
begin :: World s -> Int -> Int -> Double -> ST s ()
begin w n k at0 = do
  let thread = n * width w + k
      m = model w
  what <- readPrimArray (state w) thread
  when (what == Spinning && schemePolicy (modelScheme m) == Adaptive) $ adaptiveLearn w n thread at0 True
  at <- restore w n thread at0 >>= spend w n (costLook (costs w))
  held <- readPrimArray (watcher w) n
  when (held == k) $ writePrimArray (watcher w) n (-1)
  i <- readPrimArray (iteration w) thread
  writePrimArray (inbox w) (4 * thread + i `rem` 2) infinity
  writePrimArray (inbox w) (4 * thread + 2 + i `rem` 2) infinity
  u <- uniform (source w)
  let asked = modelCompute m * (0.9 + 0.2 * u)
  add (sums w) SumAsked asked
  _ <- bump (counts w) CountPhases
  writePrimArray (left w) thread asked
  writePrimArray (state w) thread Computing
  writePrimArray (stolen w) n at

-- | Its phase is over: it sends and waits.
finish :: World s -> Int -> Int -> Double -> ST s ()
finish w n k at0 = do
  let thread = n * width w + k
  i <- bump (iteration w) thread
  if i > phases w
    then do
      writePrimArray (state w) thread Done
      _ <- bump (counts w) CountDone
      end <- readPrimArray (sums w) SumEnd
      writePrimArray (sums w) SumEnd (max end at0)
      pick w n k at0
    else do
      now <- readPrimArray (since w) n
      at <- send w n k now at0
      arrived <- ready w thread
      if arrived <= at then begin w n k at else await w n k at

-- | It begins to wait.
await :: World s -> Int -> Int -> Double -> ST s ()
await w n k at = do
  let thread = n * width w + k
      spinning end = do
        writePrimArray (state w) thread Spinning
        writePrimArray (limit w) thread end
        proceed w n k at
      spinFor time = spinning (at + time)
  case schemePolicy (modelScheme (model w)) of
    Spin -> spinning infinity
    Block -> armed w n k at
    Dcs -> armed w n k at
    Gang -> do
      up <- readPrimArray (raised w) thread
      if up > 0 then spinning infinity else armed w n k at
    Coop -> spinFor (min coopSpin (costSpin (costs w)))
    Adaptive -> do
      time <- adaptiveBudget w n thread at
      writePrimArray (budget w) thread time
      if time > 0 then spinFor (time / 1000) else coop w n k at
    _ -> spinFor (costSpin (costs w))

armed :: World s -> Int -> Int -> Double -> ST s ()
armed w n k at = sleep w n (n * width w + k) Armed infinity at >>= pick w n k

spunInVain :: World s -> Int -> Int -> Double -> ST s ()
spunInVain w n k at = do
  let thread = n * width w + k
      on what end = do
        writePrimArray (state w) thread what
        writePrimArray (limit w) thread end
      low what = do
        on what infinity
        lower w n thread at >>= pick w n k
  case schemePolicy (modelScheme (model w)) of
    Yield -> on Yielding infinity >> proceed w n k at
    SpinLower -> low Spinning
    LowerYield -> low Yielding
    SleepPoll -> poll w n k at
    Coop -> coop w n k at
    Adaptive -> adaptiveLearn w n thread at False >> coop w n k at
    _ -> armed w n k at

-- | Awake, but for nothing.
lookedInVain :: World s -> Int -> Int -> Double -> ST s ()
lookedInVain w n k at = case schemePolicy (modelScheme (model w)) of
  SleepPoll -> poll w n k at
  Coop -> coop w n k at
  Adaptive -> coop w n k at
  Gang -> await w n k at
  _ -> armed w n k at

poll :: World s -> Int -> Int -> Double -> ST s ()
poll w n k at = sleep w n (n * width w + k) Polling (at + pollEvery) at >>= pick w n k

-- | Looks for the others; stays awake if nobody else of this node does.
coop :: World s -> Int -> Int -> Double -> ST s ()
coop w n k at0 = do
  let thread = n * width w + k
  (_, at) <- wakePending w n at0
  held <- readPrimArray (watcher w) n
  slow <- avoidsCrowd w n at
  if slow
    then outOfCrowd w n k at
    else
      if held < 0 || held == k
        then do
          writePrimArray (watcher w) n k
          writePrimArray (state w) thread Yielding
          writePrimArray (limit w) thread (at + watchFor)
          proceed w n k at
        else sleep w n thread Unknown (at + coopSlice) at >>= pick w n k

-- | Back from giving way: when that was slow, nobody does it there for a while.
noteCrowd :: World s -> Int -> Int -> Double -> ST s ()
noteCrowd w n k at = do
  held <- readPrimArray (watcher w) n
  since' <- readPrimArray (gaveWay w) n
  when (held == k && since' > 0) $ do
    writePrimArray (gaveWay w) n 0
    when (at - since' > slowTurn) $ writePrimArray (crowded w) n (at + tryEvery * (at - since'))

avoidsCrowd :: World s -> Int -> Double -> ST s Bool
avoidsCrowd w n at
  | schemePolicy (modelScheme (model w)) == Adaptive = (at <) <$> readPrimArray (crowded w) n
  | otherwise = pure False

-- | It sleeps, with short time slices from now on.
outOfCrowd :: World s -> Int -> Int -> Double -> ST s ()
outOfCrowd w n k at = do
  held <- readPrimArray (watcher w) n
  when (held == k) $ writePrimArray (watcher w) n (-1)
  writePrimArray (short w) (n * width w + k) 1
  armed w n k at

-- | Between two looks: lets others go first, if any of them has something to do.
giveWay :: World s -> Int -> Int -> Double -> ST s ()
giveWay w n k at0 = do
  let thread = n * width w + k
  held <- readPrimArray (watcher w) n
  (woken, at) <- if held == k then wakePending w n at0 else pure (0, at0)
  when (woken > 0) $ writePrimArray (limit w) thread (at + watchFor)
  end <- readPrimArray (limit w) thread
  worth <- anyUseful w n k at
  slow <- avoidsCrowd w n at
  if held == k && (slow || end <= at)
    then if slow then outOfCrowd w n k at else writePrimArray (watcher w) n (-1) >> armed w n k at
    else
      if not worth
        then writePrimArray (stolen w) n at
        else do
          when (held == k) $ writePrimArray (gaveWay w) n at
          after <- spend w n (costYield (costs w)) at
          yield w n thread
          pick w n k after

-- | Whether one that may run instead would do more than give way as well.
anyUseful :: World s -> Int -> Int -> Double -> ST s Bool
anyUseful w n k at = do
  mine <- classOf w (n * width w + k)
  let go i
        | i >= width w = pure False
        | i == k = go (i + 1)
        | otherwise = do
          let thread = n * width w + i
          what <- readPrimArray (state w) thread
          level <- classOf w thread
          useful <-
            if not (runs what) || level > mine
              then pure False
              else if what == Yielding then (<= at) <$> ready w thread else pure True
          if useful then pure True else go (i + 1)
  go 0

-- As in native/wait.
coopSpin, coopSlice, watchFor, pollEvery, slowTurn, tryEvery :: Double
coopSpin = 2.5
coopSlice = 4000
watchFor = 12000
pollEvery = 50
slowTurn = 2000
tryEvery = 50

-- | Nanoseconds. Where it will sleep a message costs a wake-up, else a switch.
adaptiveBase :: World s -> Int -> Double -> ST s Double
adaptiveBase w n at = do
  slow <- avoidsCrowd w n at
  pure (1000 * if slow then costSpin (costs w) else min coopSpin (costSpin (costs w)))

-- | In nanoseconds, like what is learned: below 512 it counts waits without spinning.
adaptiveBudget :: World s -> Int -> Int -> Double -> ST s Double
adaptiveBudget w n thread at = do
  base <- adaptiveBase w n at
  known <- readPrimArray (learned w) thread
  if known > 0 && known < leastSpin
    then 0 <$ writePrimArray (learned w) thread (known - 1)
    else do
      let now = if known <= 0 then base else known
      writePrimArray (learned w) thread now
      pure (min now (4 * base))

adaptiveLearn :: World s -> Int -> Int -> Double -> Bool -> ST s ()
adaptiveLearn w n thread at paid = do
  spun <- readPrimArray (budget w) thread
  base <- adaptiveBase w n at
  writePrimArray (learned w) thread $
    if paid
      then min (2 * spun) (4 * base)
      else if spun / 2 < leastSpin then 64 else spun / 2

leastSpin :: Double
leastSpin = 512
