-- | A discrete-event simulator of the wait room. Processes of jobs lie on several nodes and wait
-- for each other's messages. The nodes have one CPU each, which the processes share.
--
-- = The model
--
-- * /Jobs./ Each has one process on each node. A process repeats: send, receive,
--   compute (± 10 %). It sends to both neighbours in a ring and needs a message of
--   each, or meets all others at a barrier. A message needs 'modelLatency'.
-- * /The scheduler./ By default EEVDF: virtual times by weight, the earliest virtual
--   deadline of those that have not had more than their part, one that was picked is
--   safe for a slice, requests end at ticks. Or round robin with a long quantum. Above
--   both are raised threads. Hogs compute without end.
-- * /Waiting/ by all policies of "Maru.Wait" and the daemons of @maru boost@, to the
--   letter where time is spent: when each looks, what pays for a wake-up, what happens to
--   priorities. Spinning and giving way are not stepped through: between two things that change
--   anything, they are an interval.
-- * /Costs/ of switches, wake-ups, looks and ticks stop the node's CPU.
--
-- Not in the model: caches, several CPUs a node, other users of the machine, real-time throttling,
-- interrupts (but 'costArrival'), control groups. Nor is it that two waiters of one machine could
-- see each other's boards.
--
-- All times are microseconds. The same model gives the same result on every machine.
-- A message costs O(jobs + hogs + log nodes).
module Maru.Control.Sim.Boost
  ( Model (..),
    defaultModel,
    Pattern (..),
    Scheduler (..),
    Fairness (..),
    fair,
    longQuantum,
    Scheme (..),
    Daemon (..),
    schemes,
    schemeNamed,
    withPeriod,
    Costs (..),
    thisMachine,
    underCard,
    quietMachine,
    freeOfCost,
    Outcome (..),
    simulate,
    ideal,
    ablations,
  )
where

import Control.Monad (void, when)
import Control.Monad.ST (ST, runST)
import Data.Primitive.PrimArray
import Maru.Control.Sim.Boost.Daemon
import Maru.Control.Sim.Boost.Model
import Maru.Control.Sim.Boost.Scheduler
import Maru.Control.Sim.Boost.Waiting
import Maru.Control.Sim.Boost.World
import Maru.Control.Sim.Random
import Maru.Control.Sim.Tournament

newWorld :: Model -> ST s (World s)
newWorld m = do
  let nodes = modelNodes m
      wide = modelJobs m + modelHogs m
      threads = nodes * wide
  w <-
    World m wide (phasesOf m)
      <$> newSource (modelSeed m)
      <*> newTournament nodes
      <*> filled threads Hog
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads infinity
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads (1000 * costSpin (modelCosts m))
      <*> filled threads 0
      <*> filled threads infinity
      <*> filled threads 0
      <*> filled threads 0
      <*> filled threads 0
      <*> filled (4 * threads) infinity
      <*> filled nodes (-1)
      <*> filled nodes 0
      <*> filled nodes (-1)
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled nodes infinity
      <*> filled nodes 0
      <*> filled nodes infinity
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled nodes 0
      <*> filled (2 * modelJobs m) 0
      <*> filled 7 0
      <*> filled 4 0
  each nodes (newNode w)
  pure w

newNode :: World s -> Int -> ST s ()
newNode w n = do
  let m = model w
      jobs = modelJobs m
  order <- newPrimArray (max 1 jobs)
  each jobs $ \k -> writePrimArray order k k
  -- Every order is as likely.
  each (jobs - 1) $ \i -> do
    let last' = jobs - 1 - i
    k <- (\u -> min last' (floor (u * fromIntegral (last' + 1)))) <$> uniform (source w)
    a <- readPrimArray order last'
    readPrimArray order k >>= writePrimArray order last'
    writePrimArray order k (a :: Int)
  each (width w) $ \k -> do
    let thread = n * width w + k
    renew w thread
    takeTurn w thread
    when (k < jobs) $ do
      position <- readPrimArray order k
      writePrimArray (state w) thread Unborn
      writePrimArray (limit w) thread (100 + modelStagger m * fromIntegral position)
  offset <- (\u -> modelSkew m * (2 * u - 1)) <$> uniform (source w)
  writePrimArray (skew w) n offset
  phase <- uniform (source w)
  writePrimArray (tick w) n (phase * tickOf w)
  beginning <- uniform (source w)
  let first p = writePrimArray (period w) n p >> writePrimArray (daemonAt w) n (beginning * p)
  case schemeDaemon (modelScheme m) of
    NoDaemon -> pure ()
    Auto -> first longest
    Pb p -> first p
    PbLower p -> first p
    Slots p -> writePrimArray (period w) n p >> writePrimArray (daemonAt w) n 0
  othersNext w n 0
  due (agenda w) n 0

othersNext :: World s -> Int -> Double -> ST s ()
othersNext w n now = do
  let every = costOthersEvery (costs w)
  when (every < infinity) $ exponential every (source w) >>= writePrimArray (othersAt w) n . (now +)

simulate :: Model -> Outcome
simulate m = runST $ do
  w <- newWorld m
  let ends = modelLimit m * ideal m
      everybody = modelNodes m * modelJobs m
      loop = do
        (time, n) <- next (agenda w)
        finished <- readPrimArray (counts w) CountDone
        if finished == everybody
          then readPrimArray (sums w) SumEnd
          else
            if time > ends
              then pure ends
              else do
                _ <- bump (counts w) CountEvents
                visit w n time
                loop
  wall <- loop
  each (modelNodes m) $ \n -> elapse w n wall
  finished <- (== everybody) <$> readPrimArray (counts w) CountDone
  let summed = readPrimArray (sums w)
  Outcome (wall / ideal m) finished wall
    <$> summed SumComputed
    <*> summed SumBurnt
    <*> summed SumCosts
    <*> summed SumHogs
    <*> summed SumIdle
    <*> summed SumAsked
    <*> readPrimArray (counts w) CountPhases
    <*> readPrimArray (counts w) CountEvents

-- | Everything that happens on a node at this time.
visit :: World s -> Int -> Double -> ST s ()
visit w n now = do
  elapse w n now
  heartbeat <- readPrimArray (tick w) n
  when (now >= heartbeat) $ tickNode w n now
  each (modelJobs (model w)) (arise w n now)
  daemon <- readPrimArray (daemonAt w) n
  when (now >= daemon) $ daemonTick w n now
  others <- readPrimArray (othersAt w) n
  when (now >= others) $ do
    held <- max now <$> readPrimArray (stolen w) n
    _ <- spend w n (costOthers (costs w)) held
    writePrimArray (again w) n 1
    othersNext w n now
  at <- max now <$> readPrimArray (stolen w) n
  decide w n at
  plan w n now

-- | The processes that begin, and those whose sleep is over.
arise :: World s -> Int -> Double -> Int -> ST s ()
arise w n now k = do
  let thread = n * width w + k
  what <- readPrimArray (state w) thread
  case what of
    Unborn -> onTime thread (wake w n thread Computing)
    Armed -> do
      arrived <- ready w thread
      when (arrived <= now) $ do
        when (modelLatency (model w) > 0) $ held (costWake (costs w))
        wake w n thread Looking
    Unknown -> onTime thread (wake w n thread Looking)
    Polling -> onTime thread (wake w n thread Looking)
    _ -> pure ()
  where
    onTime thread act = do
      end <- readPrimArray (limit w) thread
      when (end <= now) act
    held cost = do
      at <- max now <$> readPrimArray (stolen w) n
      void (spend w n cost at)
