-- | A node's CPU: the threads that wake, sleep, preempt, are chosen; when something can change
-- there.
module Maru.Control.Sim.Boost.Scheduler
  ( wake,
    renew,
    preempts,
    sleep,
    wakePending,
    tickNode,
    choose,
    yield,
    lower,
    restore,
    plan,
    nextOf,
  )
where

import Control.Monad (when)
import Control.Monad.ST (ST)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Boost.Model
import Maru.Control.Sim.Boost.World
import Maru.Control.Sim.Tournament
import Maru.Wait.Policy (Policy (..))

-- | It may run. Like EEVDF: with the part that it had not had when it fell asleep.
wake :: World s -> Int -> Int -> Int -> ST s ()
wake w n thread what = do
  common <- average w n
  owed <- readPrimArray (lag w) thread
  v <- readPrimArray (virtual w) thread
  -- One that had had more than its part goes on with its old request until that is made good.
  when (owed >= 0 || v < common) $ do
    when (common < infinity) $ writePrimArray (virtual w) thread (common - max 0 owed)
    renew w thread
  takeTurn w thread
  writePrimArray (state w) thread what
  c <- readPrimArray (current w) n
  when (c >= 0) $ do
    takes <- preempts w n (n * width w + c) thread
    when takes $ writePrimArray (again w) n 1

-- | A new request: for a slice, or for a quantum of round robin.
renew :: World s -> Int -> ST s ()
renew w thread = do
  v <- readPrimArray (virtual w) thread
  weight <- weightOf w thread
  request <- requestOf w thread
  writePrimArray (deadline w) thread $ case modelScheduler (model w) of
    RoundRobin quantum | weight == 1 -> v + quantum
    _ -> v + request / weight

requestOf :: World s -> Int -> ST s Double
requestOf w thread = do
  asks <- readPrimArray (short w) thread
  pure (if asks == 1 || schemePolicy (modelScheme (model w)) == Dcs then 100 else sliceOf w)

-- | Whether one that wakes gets the CPU of the one that has it.
preempts :: World s -> Int -> Int -> Int -> ST s Bool
preempts w n holder thread = do
  mine <- classOf w thread
  its <- classOf w holder
  case modelScheduler (model w) of
    _ | mine /= its -> pure (mine < its)
    Fair (Fairness slice _ True) | mine == fairClass -> do
      safe <- (<) <$> readPrimArray (virtual w) holder <*> readPrimArray (safety w) n
      common <- average w n
      v <- readPrimArray (virtual w) thread
      sooner <- (<) <$> readPrimArray (deadline w) thread <*> readPrimArray (deadline w) holder
      what <- readPrimArray (state w) holder
      -- A shorter request than the holder's lifts its protection.
      request <- requestOf w thread
      let shorter = request < slice && what == Hog
      pure ((shorter || not safe) && v <= common + 1e-6 && sooner)
    _ -> pure False

-- | It sleeps, in that way, until then.
sleep :: World s -> Int -> Int -> Int -> Double -> Double -> ST s Double
sleep w n thread how end at = do
  common <- average w n
  v <- readPrimArray (virtual w) thread
  writePrimArray (lag w) thread (if common < infinity then min (sliceOf w) (common - v) else 0)
  writePrimArray (state w) thread how
  writePrimArray (limit w) thread end
  spend w n (costSleep (costs w)) at

-- | Wakes those of the node that sleep unknown and have a message. How many.
wakePending :: World s -> Int -> Double -> ST s (Int, Double)
wakePending w n = go 0 0
  where
    go k woken at
      | k >= modelJobs (model w) = pure (woken, at)
      | otherwise = do
        let thread = n * width w + k
        what <- readPrimArray (state w) thread
        arrived <- if what == Unknown then ready w thread else pure infinity
        if arrived > at
          then go (k + 1) woken at
          else do
            after <- spend w n (costWake (costs w)) at
            wake w n thread Looking
            go (k + 1) (woken + 1 :: Int) after

-- | The scheduler looks whether a time slice is over.
tickNode :: World s -> Int -> Double -> ST s ()
tickNode w n now = do
  let every = tickOf w
  was <- readPrimArray (tick w) n
  writePrimArray (tick w) n (was + every * fromIntegral (floor ((now - was) / every + 1e-9) + 1 :: Int))
  c <- readPrimArray (current w) n
  when (c >= 0) $ do
    let thread = n * width w + c
    level <- classOf w thread
    over <- (>=) . (+ 1e-6) <$> readPrimArray (virtual w) thread <*> readPrimArray (deadline w) thread
    when (over && level > 0) $ do
      renew w thread
      takeTurn w thread
      writePrimArray (again w) n 1

-- | The thread that is to run; -1: none.
choose :: World s -> Int -> ST s Int
choose w n = do
  common <- average w n
  let go k best level key
        | k >= width w = pure best
        | otherwise = do
          let thread = n * width w + k
          what <- readPrimArray (state w) thread
          if not (runs what)
            then go (k + 1) best level key
            else do
              mine <- classOf w thread
              v <- readPrimArray (virtual w) thread
              own <- readPrimArray (if mine == fairClass then deadline w else turn w) thread
              let entitled = mine /= fairClass || v <= common + 1e-6
              if entitled && (mine < level || (mine == level && own < key))
                then go (k + 1) k mine own
                else go (k + 1) best level key
  go 0 (-1) (3 :: Int) infinity

-- | Behind the others: it forfeits the rest of its request.
yield :: World s -> Int -> Int -> ST s ()
yield w n thread = do
  takeTurn w thread
  common <- average w n
  v <- readPrimArray (virtual w) thread
  end <- readPrimArray (deadline w) thread
  when (v <= common + 1e-6) $ writePrimArray (virtual w) thread (max v end)
  renew w thread

-- | Another weight, the same part still to come; no more than the kernel lets anybody keep: two
-- slices or a tick.
reweigh :: World s -> Int -> Int -> Int -> ST s ()
reweigh w n thread low = do
  before <- weightOf w thread
  common <- average w n
  writePrimArray (lowered w) thread low
  after <- weightOf w thread
  v <- readPrimArray (virtual w) thread
  let most = max (2 * sliceOf w) (tickOf w)
      owed = max (negate most) (min most ((common - v) * before))
  when (common < infinity) $ writePrimArray (virtual w) thread (common - owed / after)
  takeTurn w thread
  renew w thread

-- | It gives up its place, also one that the daemon gave it.
lower :: World s -> Int -> Int -> Double -> ST s Double
lower w n thread at = do
  writePrimArray (raised w) thread 0
  writePrimArray (again w) n 1
  reweigh w n thread 1
  spend w n (costPriority (costs w)) at

restore :: World s -> Int -> Int -> Double -> ST s Double
restore w n thread at = do
  low <- readPrimArray (lowered w) thread
  if low == 0 then pure at else reweigh w n thread 0 >> spend w n (costPriority (costs w)) at

-- | The node is visited again when something there can change.
plan :: World s -> Int -> Double -> ST s ()
plan w n now = do
  time <- nextOf w n
  due (agenda w) n (max time (now + 1e-3))

nextOf :: World s -> Int -> ST s Double
nextOf w n = do
  c <- readPrimArray (current w) n
  daemon <- min <$> readPrimArray (daemonAt w) n <*> readPrimArray (othersAt w) n
  heartbeat <- readPrimArray (tick w) n
  held <- readPrimArray (stolen w) n
  watches <- readPrimArray (watcher w) n
  running <- if c < 0 then pure Done else readPrimArray (state w) (n * width w + c)
  own <- if c < 0 then pure infinity else ownNext (n * width w + c) running held
  let go k least others
        | k >= width w = pure (if others && c >= 0 && running /= Yielding then min least heartbeat else least)
        | otherwise = do
          let thread = n * width w + k
          what <- readPrimArray (state w) thread
          time <- case what of
            Unborn -> readPrimArray (limit w) thread
            Armed -> ready w thread
            Polling -> readPrimArray (limit w) thread
            Unknown
              | watches == c && running == Yielding -> min <$> readPrimArray (limit w) thread <*> (max held <$> ready w thread)
              | otherwise -> readPrimArray (limit w) thread
            Yielding | running == Yielding -> max held <$> ready w thread
            _ -> pure infinity
          go (k + 1) (min least time) (others || (k /= c && runs what))
  go 0 (min daemon own) False
  where
    ownNext thread running held = case running of
      Computing -> (held +) <$> readPrimArray (left w) thread
      Hog -> pure infinity
      _ -> do
        end <- readPrimArray (limit w) thread
        arrived <- ready w thread
        pure (min end (max held arrived))
