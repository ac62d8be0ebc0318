-- | What @maru boost@ does on a node in one period.
module Maru.Control.Sim.Boost.Daemon
  ( daemonTick,
    longest,
  )
where

import Control.Monad (when)
import Control.Monad.ST (ST)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Boost.Model
import Maru.Control.Sim.Boost.Scheduler
import Maru.Control.Sim.Boost.World

longest, shortest :: Double
longest = 5000
shortest = 250

daemonTick :: World s -> Int -> Double -> ST s ()
daemonTick w n now = do
  held <- max now <$> readPrimArray (stolen w) n
  _ <- spend w n (costTick (costs w)) held
  every <- readPrimArray (period w) n
  let jobs = modelJobs (model w)
      onAgain p = writePrimArray (period w) n p >> writePrimArray (daemonAt w) n (now + p)
  unfinished <- countJobs w n (/= Done)
  case schemeDaemon (modelScheme (model w)) of
    _ | unfinished == 0 -> writePrimArray (daemonAt w) n infinity
    NoDaemon -> writePrimArray (daemonAt w) n infinity
    Slots slot -> giveSlot w n now slot unfinished
    Pb p -> observe w n now >> raiseOne w n now p 0 >> onAgain p
    PbLower p -> observe w n now >> each jobs (help w n now) >> raiseOne w n now p 0 >> onAgain p
    Auto -> do
      observe w n now
      each jobs (help w n now)
      raiseOne w n now every every
      stuck <- countPending w n (now - every)
      lying <- countPending w n infinity
      onAgain (max shortest (min longest (if stuck > 0 then every / 2 else if lying == 0 then every * 1.125 else every)))

countJobs :: World s -> Int -> (Int -> Bool) -> ST s Int
countJobs w n holds = go 0 0
  where
    go k found
      | k >= modelJobs (model w) = pure (found :: Int)
      | otherwise = do
        what <- readPrimArray (state w) (n * width w + k)
        go (k + 1) (if holds what then found + 1 else found)

countPending :: World s -> Int -> Double -> ST s Int
countPending w n before = go 0 0
  where
    go k found
      | k >= modelJobs (model w) = pure (found :: Int)
      | otherwise = do
        begun <- readPrimArray (pending w) (n * width w + k)
        go (k + 1) (if begun <= before && begun < infinity then found + 1 else found)

-- | The waiters whose message is there, and those whose raise is over.
observe :: World s -> Int -> Double -> ST s ()
observe w n now = each (modelJobs (model w)) $ \k -> do
  let thread = n * width w + k
  what <- readPrimArray (state w) thread
  arrived <- if waits what then ready w thread else pure infinity
  begun <- readPrimArray (pending w) thread
  let lies = arrived <= now
  writePrimArray (pending w) thread (if lies then min begun now else infinity)
  up <- readPrimArray (raised w) thread
  every <- readPrimArray (period w) n
  when (up > 0 && (not lies || now >= up)) $ do
    writePrimArray (raised w) thread 0
    writePrimArray (again w) n 1
    when lies $ writePrimArray (rests w) thread (now + 2 * every)

-- | Wakes a sleeper that has a message, restores one that is lowered.
help :: World s -> Int -> Double -> Int -> ST s ()
help w n now k = do
  let thread = n * width w + k
  begun <- readPrimArray (pending w) thread
  when (begun < infinity) $ do
    what <- readPrimArray (state w) thread
    low <- readPrimArray (lowered w) thread
    held <- max now <$> readPrimArray (stolen w) n
    when (what == Unknown) $ spend w n (costWake (costs w)) held >> wake w n thread Looking
    when (low == 1) $ do
      _ <- restore w n thread held
      c <- readPrimArray (current w) n
      when (c >= 0 && runs what) $ do
        takes <- preempts w n (n * width w + c) thread
        when takes $ writePrimArray (again w) n 1

-- | One a CPU, the one whose turn is first; only what has been pending for so long.
raiseOne :: World s -> Int -> Double -> Double -> Double -> ST s ()
raiseOne w n now every patience = go 0 (-1) infinity
  where
    go k best key
      | k >= modelJobs (model w) = when (best >= 0) $ do
        writePrimArray (raised w) (n * width w + best) (now + 2 * every)
        writePrimArray (again w) n 1
      | otherwise = do
        let thread = n * width w + k
        up <- readPrimArray (raised w) thread
        begun <- readPrimArray (pending w) thread
        rest <- readPrimArray (rests w) thread
        mine <- readPrimArray (turn w) thread
        if up > 0
          then pure ()
          else
            if begun < infinity && now - begun >= patience && now >= rest && mine < key
              then go (k + 1) k mine
              else go (k + 1) best key

-- | By the node's own clock, one unfinished job after the other.
giveSlot :: World s -> Int -> Double -> Double -> Int -> ST s ()
giveSlot w n now slot unfinished = do
  offset <- readPrimArray (skew w) n
  let number = floor ((now + offset) / slot + 1e-9) :: Int
      chosen = number `mod` unfinished
      go k seen
        | k >= modelJobs (model w) = pure ()
        | otherwise = do
          let thread = n * width w + k
          what <- readPrimArray (state w) thread
          up <- readPrimArray (raised w) thread
          if what == Done
            then writePrimArray (raised w) thread 0 >> go (k + 1) seen
            else do
              let on = seen == chosen
              writePrimArray (raised w) thread (if on then infinity else 0)
              when (on && what == Armed) $ wake w n thread Looking
              when (up > 0 && not on && what == Spinning) $ writePrimArray (limit w) thread now
              go (k + 1) (seen + 1)
  go 0 (0 :: Int)
  writePrimArray (again w) n 1
  writePrimArray (daemonAt w) n (max (now + 1e-3) (fromIntegral (number + 1) * slot - offset))
