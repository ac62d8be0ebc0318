-- | What the coordinator of forked workers knows and decides, without a process:
-- functions from what happened to the next state and to what is to be done.
-- /Internal/.
--
-- "Maru.Backend.Process" and its hands do it. What they may rely on, proved by the
-- suite @state@ for random events with deaths anywhere:
--
--   * no index is lost and none comes twice: each item is delivered exactly once,
--     by index where the job is ordered;
--   * an item becomes a typed hole only after workers died in it, more often than
--     the policy retries; a death that was announced, or that happened before the
--     first item, blames no item;
--   * an item that two workers, the second one fresh, left because they could not
--     evaluate it is the caller's; never one in which a worker has died;
--   * the run ends: workers that die again and again without a result are not
--     replaced for ever.
module Maru.Backend.Process.State
  ( State (..),
    Counts (..),
    atFirst,
    counted,

    -- * Results
    Batch (..),
    arrived,
    landed,

    -- * The consumer
    Demand (..),
    awake,
    asleep,
    demanded,
    isComplete,

    -- * Workers
    Duty (..),
    Stage (..),

    -- * Chunks
    Offer (..),
    offering,
    handedOut,

    -- * The run
    noted,
    notes,
    failed,
    ended,
  )
where

import Control.Applicative ((<|>))
import Control.Exception (ErrorCall (..), SomeException, toException)
import Data.Bifunctor (first)
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, isNothing)
import Maru.Backend.Process.Pieces
import Maru.Failure (Unavailable, WorkerLost)
import Maru.Internal.Engine
import Maru.Internal.Feed (End (..), Known (..))
import Maru.Internal.Plan (ItemCost (..), Seen (..), Settings (..), affordable, aim, blend, chunksAhead, largestChunk, lookAhead, nothingSeen, settingsOf)

-- | What happened is told to it under the coordinator's lock, in the order in which
-- it was seen.
data State a b = State
  { stPieces :: !(Pieces a),
    -- | Alive, by number.
    stDuties :: !(IntMap Duty),
    -- | What arrived and was not delivered, by first index.
    stArrived :: !(IntMap (Batch b)),
    -- | Ordered: the next index to deliver; unordered: how many were delivered.
    stDelivered :: !Int,
    -- | Of these, how many the consumer has certainly looked at: all but the
    -- last batch. The look-ahead counts from here.
    stTaken :: !Int,
    -- | The last death in an item, and how many there were, by its index.
    stLosses :: !(IntMap WorkerLost),
    -- | Items that a worker could not evaluate and left for.
    stSealed :: !IntSet,
    -- | Workers that ended since anything arrived.
    stBarren :: !Int,
    -- | When the first of them ended.
    stBarrenSince :: !Int64,
    -- | When the first worker since then ended because its initialiser could not be
    -- finished.
    stOwedSince :: !(Maybe Int64),
    -- | When a worker may be started again: the system refused one, or they end before
    -- their first item.
    stHireFrom :: !Int64,
    -- | The planner's last chunk size.
    stSize :: !Int,
    -- | Bytes that a result takes, of those that have crossed lately.
    stItemBytes :: !(Maybe Double),
    -- | All of the input is handed out.
    stClosed :: !Bool,
    -- | Nothing more will come, because of this.
    stFatal :: !(Maybe SomeException),
    -- | No worker can be had, because of this: the caller evaluates the rest, on demand.
    -- Nobody is on duty then.
    stAlone :: !(Maybe Unavailable),
    -- | Nobody has asked for long: no workers until somebody does.
    stDormant :: !Bool,
    stEnded :: !Bool,
    stCounts :: !Counts
  }

-- | For the report.
data Counts = Counts
  { countStarted :: !Int,
    countLost :: !Int,
    countChunks :: !Int,
    countInCaller :: !Int,
    countItems :: !Int,
    -- | Results by way of crossing.
    countCrossed :: !(Map.Map String Int),
    -- | The newest first.
    countNotes :: ![String]
  }

-- | How many, and which.
data Batch b = Batch !Int [Outcome b]

-- | What a worker has to do.
data Duty = Duty
  { -- | Pieces that were given to it at birth: [first, end).
    dutyGiven :: ![(Int, Int)],
    -- | When it was forked, in nanoseconds.
    dutySince :: !Int64,
    dutyStage :: !Stage,
    -- | Since when.
    dutyStageSince :: !Int64,
    -- | It said that it leaves, or we ended it: its death is nobody's fault.
    dutyLeaving :: !Bool,
    -- | It leaves because its initialiser cannot be finished in it: why.
    dutyUnstarted :: !(Maybe String)
  }

-- | How far a worker has got: to its prologue, the user's initialiser, the items.
data Stage = Starting | Initialising | Working
  deriving (Eq, Show)

-- | Asleep until the first demand.
atFirst :: Job a b -> State a b
atFirst job =
  State
    { stPieces = noneOut (maybe (jobInputs job) (`arrivingFrom` 0) (jobArriving job)),
      stDuties = IntMap.empty,
      stArrived = IntMap.empty,
      stDelivered = 0,
      stTaken = 0,
      stLosses = IntMap.empty,
      stSealed = IntSet.empty,
      stBarren = 0,
      stBarrenSince = 0,
      stOwedSince = Nothing,
      stHireFrom = 0,
      stSize = 0,
      stItemBytes = Nothing,
      stClosed = False,
      stFatal = Nothing,
      stAlone = Nothing,
      stDormant = True,
      stEnded = False,
      stCounts = Counts 0 0 0 0 0 Map.empty []
    }

-- The run --------------------------------------------------------------------

-- | Changes what is counted.
counted :: (Counts -> Counts) -> State a b -> State a b
counted f s = s {stCounts = f (stCounts s)}

-- | Something for the report: each line once, and only so many, for a person
-- reads it.
noted :: String -> State a b -> State a b
noted line s
  | line `elem` before || length before >= 40 = s
  | otherwise = counted (\c -> c {countNotes = line : before}) s
  where
    before = countNotes (stCounts s)

-- | The report's notes, the oldest first.
notes :: State a b -> [String]
notes s = before <> [slow | isNothing (stAlone s), 10 * countInCaller counts > countItems counts, slow `notElem` before]
  where
    counts = stCounts s
    before = reverse (countNotes counts)
    slow =
      show (countInCaller counts) <> " of " <> show (countItems counts)
        <> " items were evaluated in the caller, one after the other: evaluate before the map what they share with other threads, read before it what they read, or use the Threads back end"

-- | The map ends with this, but for what has arrived. The first one counts.
failed :: SomeException -> State a b -> State a b
failed e s = s {stFatal = stFatal s <|> Just e}

-- | Nothing is held, nothing will come.
ended :: State a b -> State a b
ended s = s {stEnded = True, stPieces = noneOut [], stArrived = IntMap.empty}

-- Chunks ---------------------------------------------------------------------

-- | How much may be out.
data Offer = Offer
  { -- | So many cells of the input may be walked.
    offerWalk :: !Int,
    -- | So many known items may be handed out now.
    offerItems :: !Int,
    -- | So many chunks should wait to be claimed.
    offerChunks :: !Int
  }

-- | @offering settings cost seen@: enough to keep the workers busy until the next
-- round, bounded by the window; the cost is that of an item in nanoseconds.
offering :: Settings -> Maybe Double -> Known -> State a b -> Offer
offering settings cost seen s =
  Offer
    { offerWalk = stTaken s + ahead + 1,
      offerItems = min (knownCount seen) (stTaken s + ahead) - nextIndex (stPieces s),
      offerChunks = max (chunksAhead * count) (min most (supplied (fromIntegral (max 1 (stSize s)))))
    }
  where
    -- While chunks grow, few of them: the next are larger, and each costs its dispatch.
    most = if 2 * max 1 (stSize s) < ideal then 16 * count else 1024
    ideal = aim settings nothingSeen {seenItemNs = cost, seenSize = largestChunk}
    count = setWorkers settings
    ahead = affordable settings (stItemBytes s) (max (lookAhead settings (stSize s)) (fromMaybe (maybe 0 supply cost) (setWindow settings)))
    -- Items, and chunks, that keep all workers busy for a while.
    supply ns = count * min 2048 (ceiling (supplyNs / max 1 ns))
    supplied size = maybe 0 (\ns -> count * ceiling (supplyNs / max 1 (ns * size))) cost

-- | The tender looks every 20 ms: twice that much work is handed out ahead.
supplyNs :: Double
supplyNs = 4e7

-- | The next so many items are on offer as one chunk.
handedOut :: Int -> State a b -> State a b
handedOut n s = counted (\c -> c {countChunks = countChunks c + 1}) s {stPieces = handOut n (stPieces s)}

-- Results --------------------------------------------------------------------

-- | @arrived way bytes i n outcomes@: of @n@ items from @i@ on, which crossed that way as so many
-- bytes in all. Results of one piece arrive in order, so @i@ is where one is missing; else it is
-- a second copy and is dropped.
arrived :: String -> Int -> Int -> Int -> [Outcome b] -> State a b -> State a b
arrived way bytes i n os s = counted crossed (landed i n os s) {stItemBytes = blend (stItemBytes s) (ItemCost n (fromIntegral bytes))}
  where
    crossed c = c {countCrossed = Map.insertWith (+) way n (countCrossed c)}

-- | As 'arrived', for what did not cross.
landed :: Int -> Int -> [Outcome b] -> State a b -> State a b
landed i n os s = case arrive i n (stPieces s) of
  Nothing -> s
  Just pieces ->
    counted
      (\c -> c {countItems = countItems c + n})
      s {stPieces = pieces, stArrived = IntMap.insert i (Batch n os) (stArrived s), stBarren = 0, stOwedSince = Nothing}

-- The consumer ---------------------------------------------------------------

-- | What it gets.
data Demand b = Deliver [[Outcome b]] | Finished | FailedWith SomeException | Wait

-- | It asks: what was delivered before, it has looked at.
awake :: State a b -> State a b
awake s = s {stDormant = False, stTaken = stDelivered s}

-- | It has not asked for long: which workers are to be ended.
asleep :: State a b -> ([Int], State a b)
asleep s = (slots, (if null slots then id else noted "workers were ended because no result was asked for") s {stDormant = True})
  where
    slots = IntMap.keys (stDuties s)

-- | Given what is known of the input. All that is there is delivered at once, for each round costs
-- a look at each worker; but no more than a quarter of the look-ahead, which goes on only when the
-- consumer has taken that.
demanded :: Job a b -> Known -> State a b -> (Demand b, State a b)
demanded job seen s = case taking (affordable settings (stItemBytes s) (lookAhead settings (stSize s)) `div` 4) s of
  (batches@(_ : _), rest) -> (Deliver batches, rest)
  ([], _)
    | Just e <- stFatal s -> (FailedWith e, s)
    | stDelivered s == knownCount seen,
      Just end <- knownEnd seen -> case end of
      Complete -> (Finished, s)
      Broken e -> (FailedWith e, s)
    | stEnded s -> (FailedWith tooLate, s)
    | otherwise -> (Wait, s)
  where
    settings = settingsOf (jobOptions job) (jobWorkers job)
    taking room st = case candidate st of
      Just (at, Batch n os) ->
        let st' = st {stArrived = IntMap.delete at (stArrived st), stDelivered = stDelivered st + n}
         in first (os :) (if n < room then taking (room - n) st' else ([], st'))
      Nothing -> ([], st)
    candidate st = case jobOrder job of
      Ordered -> (,) (stDelivered st) <$> IntMap.lookup (stDelivered st) (stArrived st)
      Unordered -> IntMap.lookupMin (stArrived st)
    tooLate = toException (ErrorCall "maru: the result of a parallel map was demanded after its scope ended")

-- | The end of the input is known, and all before it was delivered.
isComplete :: Known -> State a b -> Bool
isComplete seen s = isJust (knownEnd seen) && stDelivered s == knownCount seen
