{-# LANGUAGE OverloadedStrings #-}

-- | Threads, or processes, that look up, insert and delete in a set, and what came of it.
module Maru.Bench.Stm.Load
  ( Structure (..),
    structures,
    Load (..),
    Outcome (..),
    runLoad,
    outcomeJson,
    outcomeSound,
  )
where

import Control.Concurrent (forkOn, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, evaluate, throwIO, try)
import Control.Monad (forM, forM_, replicateM, void, when)
import Data.Aeson (Value, object, (.=))
import qualified Data.IntSet as IntSet
import Data.List (foldl', sortOn)
import Maru (Backend (Shm), Chunking (Fixed), Options (..), Workers (Workers), defaultOptions, parMapWith)
import Maru.Bench.Meter
import Maru.Bench.Stm.List
import Maru.Bench.Stm.Mix (mixed)
import Maru.Bench.Stm.RedBlack
import Maru.Bench.Stm.Set
import Maru.Bench.Stm.SkipList
import Maru.Bench.Stm.Snapshot
import Maru.Bench.Stm.Tally
import Maru.Bench.Stm.Trie
import Maru.Bench.Stm.Versions
import System.Random.SplitMix (SMGen, bitmaskWithRejection64, mkSMGen)

-- | A name, and how a set is made for so many threads: each has its own face of it. Nothing: a
-- process each, with a part of the keys.
data Structure = Structure
  { structureName :: !String,
    structureMake :: !(Maybe (Int -> IO (Int -> Set)))
  }

structures :: [Structure]
structures =
  [ shared "list" newList,
    shared "redblack" newRedBlack,
    shared "skiplist" newSkipList,
    shared "trie" newTrie,
    Structure "versions" (Just newVersions),
    shared "snapshot" newSnapshot,
    Structure "processes" Nothing
  ]
  where
    shared name new = Structure name (Just (const (const <$> new)))

data Load = Load
  { loadThreads :: !Int,
    -- | Elements at the start; keys are below twice as much.
    loadSize :: !Int,
    -- | Percent of the operations that insert or delete, half of them each.
    loadUpdates :: !Int,
    -- | Operations of all threads.
    loadOperations :: !Int
  }
  deriving (Eq, Show)

data Outcome = Outcome
  { outcomeCounts :: ![(Count, Int)],
    -- | Elements at the end.
    outcomeSize :: !Int,
    outcomeInOrder :: !Bool,
    outcomeMeter :: !Meter
  }

-- | What the threads were told they did is what is there.
outcomeSound :: Load -> Outcome -> Bool
outcomeSound load o = outcomeInOrder o && outcomeSize o == loadSize load + count Grown - count Shrunk
  where
    count what = sum (lookup what (outcomeCounts o))

outcomeJson :: Load -> Outcome -> Value
outcomeJson load o =
  object
    [ "meter" .= meterJson (outcomeMeter o),
      "operations" .= loadOperations load,
      "attempts" .= count Attempts,
      "commits" .= count Commits,
      "reads" .= count Reads,
      "writes" .= count Writes,
      "top_writes" .= count TopWrites,
      "updates" .= (count Grown + count Shrunk),
      "size" .= outcomeSize o
    ]
  where
    count what = sum (lookup what (outcomeCounts o))

-- | The set is filled before anything is measured; @ready@ returns when measuring may begin.
runLoad :: IO () -> Structure -> Load -> IO Outcome
runLoad ready structure load = case structureMake structure of
  Just make -> do
    faces <- make (loadThreads load)
    filling <- newTally
    forM_ (initial load) (setInsert (faces 0) filling)
    tallies <- replicateM (loadThreads load) newTally
    ready
    (_, meter) <- metered (together (zipWith (\thread tally -> work load (faces thread) tally (draws thread) (share load thread)) [0 ..] tallies))
    found <- setElements (faces 0)
    counts <- forM [minBound ..] (\what -> (,) what . sum <$> mapM (`counted` what) tallies)
    pure (Outcome counts (length found) (and (zipWith (<) found (drop 1 found))) meter)
  Nothing -> do
    let parts = [foldl' (flip IntSet.insert) IntSet.empty (filter (ofPart load part) (initial load)) | part <- [0 .. loadThreads load - 1]]
    mapM_ evaluate parts
    ready
    (ended, meter) <- metered (evaluate (foldl' add (Ended 0 0 0 0 True) (parMapWith options (alone load) (zip [0 ..] parts))))
    pure (Outcome (zip [Attempts, Commits, Grown, Shrunk] (map ($ ended) [endedDone, endedDone, endedGrown, endedShrunk])) (endedLeft ended) (endedInPlace ended) meter)
  where
    options = defaultOptions {backend = Shm, workers = Workers (loadThreads load), chunking = Fixed 1}
    add (Ended a b c d e) (Ended a' b' c' d' e') = Ended (a + a') (b + b') (c + c') (d + d') (e && e')

-- | Every second key, in an order that is none.
initial :: Load -> [Int]
initial load = map (2 *) (sortOn mixed [0 .. loadSize load - 1])

-- | How many of the operations are this thread's.
share :: Load -> Int -> Int
share load thread = loadOperations load `div` loadThreads load + (if thread < loadOperations load `mod` loadThreads load then 1 else 0)

draws :: Int -> SMGen
draws thread = mkSMGen (fromIntegral (20261123 + 7919 * thread))

data Operation = Insert | Delete | Member

-- | What is done next, with which of so many keys.
draw :: Load -> Int -> SMGen -> (Operation, Int, SMGen)
draw load keys g0 = (operation, fromIntegral key, g2)
  where
    (percent, g1) = bitmaskWithRejection64 200 g0
    (key, g2) = bitmaskWithRejection64 (fromIntegral (max 1 keys)) g1
    operation
      | fromIntegral percent >= 2 * loadUpdates load = Member
      | even percent = Insert
      | otherwise = Delete

-- | Each on a capability of its own. One that fails fails all, when they have ended.
together :: [IO ()] -> IO ()
together acts = do
  ends <- forM (zip [0 ..] acts) $ \(capability, act) -> do
    end <- newEmptyMVar
    void (forkOn capability (try act >>= putMVar end))
    pure end
  outcomes <- mapM takeMVar ends
  forM_ outcomes (either (throwIO :: SomeException -> IO ()) pure)

work :: Load -> Set -> Tally -> SMGen -> Int -> IO ()
work load set tally = go
  where
    go g n = when (n > 0) $ do
      let (operation, key, g') = draw load (2 * loadSize load) g
      case operation of
        Member -> void (setMember set tally key)
        Insert -> setInsert set tally key >>= \new -> when new (bump tally Grown)
        Delete -> setDelete set tally key >>= \gone -> when gone (bump tally Shrunk)
      go g' (n - 1 :: Int)

-- Processes -----------------------------------------------------------------------------

-- | Keys of a part follow one after another.
ofPart :: Load -> Int -> Int -> Bool
ofPart load part key = key * loadThreads load `div` max 1 (2 * loadSize load) == part

-- | What came of a process's part of the set.
data Ended = Ended
  { endedDone :: !Int,
    endedGrown :: !Int,
    endedShrunk :: !Int,
    -- | Elements.
    endedLeft :: !Int,
    -- | All of them are of the part.
    endedInPlace :: !Bool
  }

-- | A process with its part of the set.
alone :: Load -> (Int, IntSet.IntSet) -> Ended
alone load (part, start) = go (draws part) 0 start 0 0
  where
    keys = [key | key <- [0 .. 2 * loadSize load - 1], ofPart load part key]
    (least, many) = (foldr const 0 keys, length keys)
    go g n set grown shrunk
      | n >= share load part = Ended n grown shrunk (IntSet.size set) (all (ofPart load part) (IntSet.elems set))
      | otherwise = case operation of
        Member -> (least + key) `IntSet.member` set `seq` go g' (n + 1) set grown shrunk
        Insert | IntSet.notMember (least + key) set -> go g' (n + 1) (IntSet.insert (least + key) set) (grown + 1) shrunk
        Delete | IntSet.member (least + key) set -> go g' (n + 1) (IntSet.delete (least + key) set) grown (shrunk + 1)
        _ -> go g' (n + 1) set grown shrunk
      where
        (operation, key, g') = draw load many g
