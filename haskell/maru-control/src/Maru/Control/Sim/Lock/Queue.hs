{-# LANGUAGE BangPatterns #-}

-- | The waiters, and the one that gets the lock next: the algorithms.
module Maru.Control.Sim.Lock.Queue
  ( admit,
    successor,
  )
where

import Control.Monad (unless, when)
import Control.Monad.ST (ST)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Calendar
import Maru.Control.Sim.Lock.Model
import Maru.Control.Sim.Lock.World
import Maru.Control.Sim.Random

-- | Those whose think part has ended by now queue up, in that order.
admit :: World s -> Double -> ST s ()
admit world now = do
  next <- earliest (worldThinkers world)
  when (next <= now) $ do
    thread <- takeEarliest (worldThinkers world)
    writePrimArray (worldArrival world) thread next
    writePrimArray (worldBypassed world) thread 0
    let list = listOf thread
    first <- readPrimArray (worldHead world) list
    when (first == nobody) (inLine list next)
    enqueue world list thread
    readPrimArray (worldInts world) regLength >>= writePrimArray (worldInts world) regLength . (+ 1)
    admit world now
  where
    listOf thread = case modelAlgorithm (worldModel world) of
      Hmcs _ -> socketOf world thread
      _ -> mainQueue
    inLine list time = case modelAlgorithm (worldModel world) of
      Hmcs _ -> writePrimArray (worldDoubles world) (regSince + list) time
      _ -> pure ()

mainQueue, aside :: Int
mainQueue = 0
aside = 1

enqueue :: World s -> Int -> Int -> ST s ()
enqueue world list thread = do
  writePrimArray (worldNext world) thread nobody
  last' <- readPrimArray (worldTail world) list
  if last' == nobody
    then writePrimArray (worldHead world) list thread
    else writePrimArray (worldNext world) last' thread
  writePrimArray (worldTail world) list thread

-- | The head of a list that is not empty leaves.
dequeue :: World s -> Int -> ST s Int
dequeue world list = do
  thread <- readPrimArray (worldHead world) list
  next <- readPrimArray (worldNext world) thread
  writePrimArray (worldHead world) list next
  when (next == nobody) (writePrimArray (worldTail world) list nobody)
  pure thread

-- | The one that gets the lock next, of at least one waiter.
successor :: World s -> Double -> Int -> ST s Int
successor world now before = do
  waiting <- readPrimArray (worldInts world) regLength
  writePrimArray (worldInts world) regLength (waiting - 1)
  let path = when (waiting > 1) (writePrimArray (worldDoubles world) regScan (machinePath (modelMachine (worldModel world))))
  case modelAlgorithm (worldModel world) of
    Fifo -> dequeue world mainQueue
    Hmcs passes -> path >> nextCohort world passes now before
    Cna c -> path >> nextCna world c now before

-- | Stays in the socket for so many hand-overs, then goes to the socket that has
-- been in line longest. One that gives the lock up gets in line again.
nextCohort :: World s -> Int -> Double -> Int -> ST s Int
nextCohort world passes now before = do
  used <- readPrimArray (worldInts world) regPasses
  own <- readPrimArray (worldHead world) here
  if own /= nobody && used < passes
    then writePrimArray (worldInts world) regPasses (used + 1) >> dequeue world here
    else do
      writePrimArray (worldInts world) regPasses 0
      writePrimArray (worldDoubles world) (regSince + here) now
      longest 0 here (1 / 0) >>= dequeue world
  where
    here = if before == nobody then 0 else socketOf world before
    longest !s !best !since
      | s == modelSockets (worldModel world) = pure best
      | otherwise = do
        waiter <- readPrimArray (worldHead world) s
        inLine <- readPrimArray (worldDoubles world) (regSince + s)
        if waiter /= nobody && inLine < since then longest (s + 1) s inLine else longest (s + 1) best since

-- | CNA. Those set aside came before everybody in the main queue, so its head,
-- or else the main queue's head, has waited longest of all.
nextCna :: World s -> CnaKnobs -> Double -> Int -> ST s Int
nextCna world c now before = do
  setAside <- readPrimArray (worldHead world) aside
  keep <- keeps world c now setAside
  look <- if setAside == nobody && cnaReduction c > 1 then chance (1 / fromIntegral (cnaReduction c)) (worldRandom world) else pure True
  local <- if keep && look then findLocal world now before else pure False
  unless (local || (keep && not look)) (putBack world)
  stillAside <- readPrimArray (worldHead world) aside
  when (stillAside /= nobody) (bump world regPassed)
  dequeue world mainQueue

-- | Whether a waiter of this socket may go first.
keeps :: World s -> CnaKnobs -> Double -> Int -> ST s Bool
keeps world c now setAside = do
  byChance <- maybe (pure False) (\r -> chance (1 / fromIntegral r) (worldRandom world)) (cnaRange c)
  late <- case cnaDeadline c of
    Just limit | setAside /= nobody -> (\since -> now - since >= limit) <$> readPrimArray (worldAside world) setAside
    _ -> pure False
  passed <- maybe (pure False) exhausted (cnaBypass c)
  pure (not (byChance || late || passed))
  where
    exhausted limit
      | setAside /= nobody = (>= limit) <$> bypassed setAside True
      | otherwise = do
        first <- readPrimArray (worldHead world) mainQueue
        if first == nobody then pure False else (>= limit) <$> bypassed first False
    bypassed thread there = (\before more -> if there then before + more else before) <$> readPrimArray (worldBypassed world) thread <*> sinceAside world thread

sinceAside :: World s -> Int -> ST s Int
sinceAside world thread = (-) <$> readPrimArray (worldInts world) regPassed <*> readPrimArray (worldEntered world) thread

-- | Looks for the first waiter of the holder's socket in the main queue. If there is
-- one, those before it are set aside and it is the head.
findLocal :: World s -> Double -> Int -> ST s Bool
findLocal world now before = do
  first <- readPrimArray (worldHead world) mainQueue
  look first 0
  where
    machine = modelMachine (worldModel world)
    isLocal thread = before == nobody || socketOf world thread == socketOf world before
    look !thread !cost
      | thread == nobody = charge cost >> pure False
      | isLocal thread = charge (cost + machineScanLocal machine) >> setAsideBefore thread >> pure True
      | otherwise = do
        next <- readPrimArray (worldNext world) thread
        look next (cost + machineScanRemote machine)
    charge cost = do
      known <- readPrimArray (worldDoubles world) regScan
      writePrimArray (worldDoubles world) regScan (known + cost)
    setAsideBefore thread = do
      first <- readPrimArray (worldHead world) mainQueue
      when (first /= thread) $ do
        moved <- dequeue world mainQueue
        enqueue world aside moved
        writePrimArray (worldAside world) moved now
        readPrimArray (worldInts world) regPassed >>= writePrimArray (worldEntered world) moved
        setAsideBefore thread

-- | Those set aside return in front of the main queue.
putBack :: World s -> ST s ()
putBack world = do
  first <- readPrimArray (worldHead world) aside
  unless (first == nobody) $ do
    settle first
    last' <- readPrimArray (worldTail world) aside
    others <- readPrimArray (worldHead world) mainQueue
    writePrimArray (worldNext world) last' others
    writePrimArray (worldHead world) mainQueue first
    when (others == nobody) (writePrimArray (worldTail world) mainQueue last')
    writePrimArray (worldHead world) aside nobody
    writePrimArray (worldTail world) aside nobody
  where
    settle thread = unless (thread == nobody) $ do
      more <- sinceAside world thread
      before <- readPrimArray (worldBypassed world) thread
      writePrimArray (worldBypassed world) thread (before + more)
      readPrimArray (worldNext world) thread >>= settle
