-- | A discrete-event simulator of threads at one set of transactional variables: a sorted linked list,
-- or a red-black tree.
--
-- = The model
--
-- * Each thread has a core and does one operation after another, on a key drawn evenly. Of the
--   operations a share updates, and half of these find nothing to change.
-- * A list's operation reads every link up to its key, a tree's the path from the root to it. An update
--   of a list writes its last link; one of a tree writes a link at the bottom, and each time climbs to
--   the one above with probability one half.
-- * A transaction costs 'stmFixed', and its n-th read 'stmRead' and n times 'stmFind': GHC looks for each
--   variable among those that the transaction has read.
-- * Where another thread has committed a write to what it read, it begins anew.
-- * Commits meet: if another core committed last, a commit takes 'stmShared' more, during which
--   nobody else commits.
--
-- Not in the model: the collector, memory, more threads than cores.
--
-- The same seed gives the same result on every machine. Costs O(operations · (log threads + writes
-- that are in flight)).
module Maru.Control.Sim.Stm
  ( Stm (..),
    Structure (..),
    structureName,
    measuredStm,
    Counts (..),
    simulateStm,
    perSecond,
    stmAblations,
  )
where

import Data.Bits (countLeadingZeros, finiteBitSize, shiftL, shiftR)
import qualified Data.Set as Set
import System.Random.SplitMix (SMGen, bitmaskWithRejection64, mkSMGen, nextDouble, splitSMGen)

-- | All times in nanoseconds.
data Stm = Stm
  { stmStructure :: !Structure,
    stmThreads :: !Int,
    -- | Elements.
    stmSize :: !Int,
    -- | Share of the operations that insert or delete, 0 to 1.
    stmUpdates :: !Double,
    stmOperations :: !Int,
    stmFixed :: !Double,
    stmRead :: !Double,
    stmFind :: !Double,
    stmShared :: !Double,
    -- | Does a transaction begin anew where it conflicts?
    stmConflicts :: !Bool,
    -- | Chance that a tree's write climbs one link further.
    stmClimb :: !Double,
    stmSeed :: !Int
  }
  deriving (Eq, Show)

data Structure = List | RedBlack
  deriving (Eq, Show, Enum, Bounded)

structureName :: Structure -> String
structureName List = "list"
structureName RedBlack = "redblack"

-- | Its costs are fitted to three cells of a measurement on two CPUs (docs\/sim.md): both structures
-- on one thread, and the tree on two.
measuredStm :: Structure -> Int -> Stm
measuredStm structure threads =
  Stm
    { stmStructure = structure,
      stmThreads = threads,
      stmSize = 256,
      stmUpdates = 0.2,
      stmOperations = 20000,
      stmFixed = 60,
      stmRead = 18,
      stmFind = 0.53,
      stmShared = 353,
      stmConflicts = True,
      stmClimb = 0.5,
      stmSeed = 1
    }

data Counts = Counts
  { countCommits :: !Int,
    -- | Attempts that were thrown away.
    countThrown :: !Int,
    -- | Variables that the committed operations read and wrote.
    countReads :: !Int,
    countWrites :: !Int,
    -- | Nanoseconds until the last commit.
    countEnd :: !Double
  }
  deriving (Eq, Show)

-- | Operations a second; 0 of none.
perSecond :: Counts -> Double
perSecond c = if countEnd c > 0 then fromIntegral (countCommits c) / countEnd c * 1e9 else 0

-- | What a thread is about: which place, and does it write there?
data Operation = Operation
  { opPlace :: !Int,
    -- | The variables that it writes.
    opWrites :: ![Int],
    opBegan :: !Double
  }

data State = State
  { -- | Threads by the time at which they want to commit.
    waiting :: !(Set.Set (Double, Int)),
    -- | Newest first, as far back as any transaction in flight began.
    written :: ![(Double, Int)],
    -- | When the next commit may begin, and who committed last.
    sharedUntil :: !Double,
    lastOne :: !Int,
    counts :: !Counts
  }

-- | Threads, size and operations below 1 count as 1.
simulateStm :: Stm -> Counts
simulateStm model = go begin [(draw 0 g, h) | (g, h) <- map splitSMGen seeds]
  where
    threads = max 1 (stmThreads model)
    size = max 1 (stmSize model)
    seeds = take threads (generators (mkSMGen (fromIntegral (stmSeed model))))
    begin = State (Set.fromList [(cost (draw 0 g), i) | (i, (g, _)) <- zip [0 ..] (map splitSMGen seeds)]) [] 0 (-1) (Counts 0 0 0 0 0)

    go state ops = case Set.minView (waiting state) of
      Just ((now, i), others)
        | countCommits (counts state) < max 1 (stmOperations model) -> uncurry go (turn state {waiting = others} now i ops)
      _ -> counts state

    turn state now i ops
      | stmConflicts model && any (hits op) (takeWhile ((> opBegan op) . fst) (written state)) =
        (again op now state {counts = seen {countThrown = countThrown seen + 1}}, put i (op {opBegan = now}, rest) ops)
      | otherwise =
        let moved = lastOne state /= i && lastOne state >= 0
            start = if moved then max now (sharedUntil state) else now
            end = if moved then start + stmShared model else start
            (g, h) = splitSMGen rest
            next = draw end g
            state' =
              state
                { written = takeWhile ((>= oldest) . fst) ([(end, w) | w <- opWrites op] ++ written state),
                  sharedUntil = max end (sharedUntil state),
                  lastOne = i,
                  counts =
                    seen
                      { countCommits = countCommits seen + 1,
                        countReads = countReads seen + length (readsOf op),
                        countWrites = countWrites seen + length (opWrites op),
                        countEnd = max end (countEnd seen)
                      }
                }
         in (again next end state', put i (next, h) ops)
      where
        (op, rest) = ops !! i
        seen = counts state
        oldest = minimum (map (opBegan . fst) ops)
        again o at s = s {waiting = Set.insert (at + cost o, i) (waiting s)}

    put i x xs = let (before, after) = splitAt i xs in before ++ x : drop 1 after
    cost op = let n = fromIntegral (length (readsOf op)) in stmFixed model + n * stmRead model + n * n / 2 * stmFind model

    readsOf op = case stmStructure model of
      List -> [1 .. opPlace op]
      RedBlack -> takeWhile (>= 1) (iterate (`shiftR` 1) (opPlace op))
    hits op (_, w) = case stmStructure model of
      List -> w <= opPlace op
      RedBlack -> let up = depth (opPlace op) - depth w in up >= 0 && opPlace op `shiftR` up == w
    depth :: Int -> Int
    depth n = finiteBitSize n - countLeadingZeros n

    draw at g0 = Operation place writes at
      where
        (key, g1) = below size g0
        (u, g2) = nextDouble g1
        -- Half of the updates find nothing to change.
        changes = u < stmUpdates model / 2
        place = case stmStructure model of
          List -> 1 + key
          -- A leaf of the tree that has so many nodes.
          RedBlack -> let leaves = 1 `shiftL` max 0 (depth size - 1) in leaves + key `mod` leaves
        writes
          | not changes = []
          | otherwise = case stmStructure model of
            List -> [place]
            RedBlack -> take (climbs g2) (takeWhile (>= 1) (iterate (`shiftR` 1) place))
    climbs g = let (u, g') = nextDouble g in if u < stmClimb model then 1 + climbs g' else 1 :: Int

below :: Int -> SMGen -> (Int, SMGen)
below n g = let (k, g') = bitmaskWithRejection64 (fromIntegral n) g in (fromIntegral k, g')

generators :: SMGen -> [SMGen]
generators g = let (a, b) = splitSMGen g in a : generators b

-- | The model without each of its parts. The whole model comes first.
stmAblations :: Stm -> [(String, Stm)]
stmAblations model =
  [ ("whole model", model),
    ("no transaction begins anew", model {stmConflicts = False}),
    ("commits never meet", model {stmShared = 0}),
    ("variables are found at once", model {stmFind = 0}),
    ("no write climbs", model {stmClimb = 0})
  ]
