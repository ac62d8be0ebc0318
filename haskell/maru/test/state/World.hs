-- | A world for the coordinator's books: workers that claim, evaluate, write and die,
-- without a process. What it does to the state is what the hands do; what it
-- knows of each item it has kept count of by itself.
module World
  ( World (..),
    W (..),
    Happening (..),
    Setting (..),
    begin,
    happen,
    calm,
    places,
  )
where

import Control.Applicative ((<|>))
import Control.Exception (SomeException, toException)
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Data.List (foldl', groupBy)
import Data.Maybe (isJust, isNothing, listToMaybe)
import Maru.Backend.Process.Pieces (nextIndex, orphans, pieceAt)
import Maru.Backend.Process.Roster
import Maru.Backend.Process.State
import Maru.Backend.Process.Worker (startFailures)
import Maru.Failure
import Maru.Internal.Engine
import Maru.Internal.Feed (End (..), Known (..))
import Maru.Internal.Plan (Settings (..))
import Maru.Options

-- | What a run is of.
data Setting = Setting
  { settingItems :: !Int,
    settingWorkers :: !Int,
    settingOrder :: !Order,
    settingPolicy :: !Policy,
    -- | The map chose workers by itself.
    settingAuto :: !Bool,
    settingWindow :: !(Maybe Int),
    settingChunk :: !Int,
    -- | What each result takes.
    settingBytes :: !Int,
    -- | Workers die in these items.
    settingPoison :: ![Int],
    -- | Items that so many workers cannot evaluate and leave for.
    settingStuck :: ![(Int, Int)]
  }
  deriving (Show)

data Happening
  = -- | The consumer asks once.
    Ask
  | -- | So many milliseconds later, somebody looks after the run.
    Round !Int
  | -- | Nobody has asked for long.
    Sleep
  | -- | A worker does the next thing that it has to do.
    Work !Int
  | -- | A worker dies where it is.
    Die !Int !Death
  | -- | A worker's log is full.
    Fill !Int
  | -- | A worker says that it leaves, and does.
    Retire !Int
  | -- | A worker says that its initialiser cannot be finished in it, or that a thread of
    -- it waits for ever, and leaves.
    Owe !Int
  | -- | The system refuses the next fork.
    Refuse
  deriving (Show)

data W = W
  { wTodo :: ![(Int, Int)],
    -- | What is left of its chunk, and the whole chunk: the crew knows only that.
    wClaim :: ![(Int, Int)],
    wChunk :: ![(Int, Int)],
    -- | Evaluating, or the last that it evaluated.
    wCurrent :: !(Maybe Int),
    -- | What it has written and nobody has read, the newest first.
    wSaid :: ![Saying],
    wStage :: !Stage,
    wLeaving :: !Bool,
    -- | Its initialiser cannot be finished in it.
    wOwes :: !Bool,
    wDead :: !(Maybe (Death, Bool))
  }

data Saying
  = SaidStage !Stage
  | SaidLeave
  | SaidUnstarted
  | SaidSeal !Int
  | -- | A result, and the end of its piece.
    SaidResult !Int !Int

data World = World
  { setting :: !Setting,
    job :: !(Job Int Int),
    state :: !(State Int Int),
    clock :: !Int64,
    crew :: !(IntMap W),
    queue :: ![(Int, Int)],
    refusing :: !Bool,
    -- | The newest first.
    out :: ![Outcome Int],
    -- | So many had come when the consumer asked last: at these it has looked.
    taken :: !Int,
    over :: !(Maybe (Maybe SomeException)),
    -- | Workers that left for an item, by index.
    seals :: !(IntMap Int),
    -- | What the workers of each hiring are given at birth, and what of it was sealed.
    births :: ![[([Int], [Int])]],
    -- | Deaths in an item, by index.
    deathsIn :: !(IntMap Int),
    -- | Ends of workers since a result arrived, at the most.
    fruitless :: !Int,
    mostFruitless :: !Int,
    wasRefused :: !Bool,
    -- | When a worker first ended because of its initialiser since a result arrived.
    owedSince :: !(Maybe Int64)
  }

begin :: Setting -> World
begin s = World s theJob (atFirst theJob) 0 IntMap.empty [] False [] 0 Nothing IntMap.empty [] IntMap.empty 0 0 False Nothing
  where
    theJob =
      Job
        { jobOptions = defaultOptions {backend = if settingAuto s then Auto else Shm, policy = settingPolicy s, window = settingWindow s},
          jobWorkers = settingWorkers s,
          jobOrder = settingOrder s,
          jobCodec = Nothing,
          jobFunction = negate,
          jobInputs = [0 .. settingItems s - 1],
          jobArriving = Nothing,
          jobBeside = Nothing
        }

seen :: World -> Known
seen w = Known (settingItems (setting w)) (Just Complete)

changed :: (State Int Int -> State Int Int) -> World -> World
changed f w = w {state = f (state w)}

happen :: World -> Happening -> World
happen w0 what = case what of
  Ask -> deliver (advance (changed awake w0 {taken = length (out w0)}))
  Round ms -> advance w0 {clock = clock w0 + fromIntegral ms * 1000000}
  Sleep ->
    let (slots, s) = asleep (state w0)
     in foldl' dismissed w0 {state = s} slots
  Work n -> maybe w0 (`work` w0) (pick n)
  Die n death -> maybe w0 (\slot -> kill slot (death, False) w0) (pick n)
  Fill n -> maybe w0 (\slot -> kill slot (Exited 73, True) w0) (pick n)
  Retire n -> maybe w0 (\slot -> leaving slot SaidLeave w0) (pick n)
  Owe n -> maybe w0 (`owes` w0) (pick n)
  Refuse -> w0 {refusing = True}
  where
    owes slot w
      | fmap wStage (IntMap.lookup slot (crew w)) == Just Starting = owes slot (work slot w)
      | otherwise = leaving slot SaidUnstarted (onW slot (\x -> x {wOwes = True}) w)
    pick n =
      let alive = [slot | (slot, x) <- IntMap.toList (crew w0), isNothing (wDead x)]
       in if null alive then Nothing else listToMaybe (drop (n `mod` length alive) alive)

onW :: Int -> (W -> W) -> World -> World
onW slot f w = w {crew = IntMap.adjust f slot (crew w)}

kill :: Int -> (Death, Bool) -> World -> World
kill slot death = onW slot (\x -> x {wDead = Just death})

-- | One thing that a worker does.
work :: Int -> World -> World
work slot w = case IntMap.lookup slot (crew w) of
  Nothing -> w
  Just x -> case wStage x of
    Starting -> say Initialising
    Initialising -> say Working
    Working
      | ((i, end) : rest) <- wTodo x -> onItem x i end (\y -> y {wTodo = [(i + 1, end) | i + 1 < end] ++ rest})
      | ((i, end) : rest) <- wClaim x -> onItem x i end (\y -> y {wClaim = [(i + 1, end) | i + 1 < end] ++ rest})
      | (chunk : others) <- queue w -> onW slot (\y -> y {wClaim = [chunk], wChunk = [chunk]}) w {queue = others}
      | stClosed (state w) -> kill slot (Exited 0, False) w
      | otherwise -> w
  where
    say stage = onW slot (\y -> y {wStage = stage, wSaid = SaidStage stage : wSaid y}) w
    onItem x i end finish
      | wCurrent x /= Just i = onW slot (\y -> y {wCurrent = Just i}) w
      | i `elem` settingPoison (setting w) && (left i == 0 || times i (deathsIn w) == 0) = kill slot (Killed 11, False) w
      | left i > 0 = leaving slot (SaidSeal i) w {seals = IntMap.insertWith (+) i 1 (seals w)}
      | otherwise = onW slot (\y -> finish y {wSaid = SaidResult i end : wSaid y}) w
    left i = sum (map snd (filter ((== i) . fst) (settingStuck (setting w)))) - times i (seals w)

times :: Int -> IntMap Int -> Int
times = IntMap.findWithDefault 0

leaving :: Int -> Saying -> World -> World
leaving slot said = onW slot (\x -> x {wSaid = said : wSaid x, wLeaving = True, wDead = Just (Exited 0, False)})

-- | One round of the coordinator.
advance :: World -> World
advance = hiringNow . handingOut . lateNow . buryDead . readAll
  where
    readAll w = foldl' (flip readOne) w (IntMap.keys (crew w))
    buryDead w = foldl' bury w [(slot, d) | (slot, W {wDead = Just d}) <- IntMap.toList (crew w)]
    lateNow w = let (slots, s) = late (clock w) (state w) in foldl' dismissed w {state = s} slots

readOne :: Int -> World -> World
readOne slot w = case IntMap.lookup slot (crew w) of
  Nothing -> w
  Just x ->
    let heard = foldl' hear (state w) (groupBy together (reverse (wSaid x)))
     in w
          { state = heard,
            crew = IntMap.insert slot x {wSaid = []} (crew w),
            fruitless = if any progress (wSaid x) then 0 else fruitless w,
            -- Not by a result that was there before, nor once the map has failed for that.
            owedSince = if isNothing (stFatal (state w)) && items heard > items (state w) then Nothing else owedSince w
          }
  where
    hear s said = case said of
      SaidResult i _ : more -> arrived "test" (settingBytes (setting w) * (1 + length more)) i (1 + length more) [Outcome k slot (Right (negate k)) | k <- [i .. i + length more]] s
      SaidStage stage : _ -> reached slot stage (clock w) s
      SaidSeal i : _ -> sealed (job w) slot i "test" s
      SaidUnstarted : _ -> unstarted slot "test" s
      _ -> leaves slot s
    items = countItems . stCounts
    progress said = case said of
      SaidResult _ _ -> True
      SaidSeal _ -> True
      _ -> False

-- | Consecutive results of a piece are one record.
together :: Saying -> Saying -> Bool
together (SaidResult _ a) (SaidResult _ b) = a == b
together _ _ = False

dismissed :: World -> Int -> World
dismissed w slot = bury (changed (leaves slot) (onW slot (\x -> x {wLeaving = True}) w)) (slot, (Killed 9, False))

bury :: World -> (Int, (Death, Bool)) -> World
bury w0 (slot, (death, full)) = case IntMap.lookup slot (crew w) of
  Nothing -> w
  Just x ->
    let left = concatMap (\(a, b) -> [a .. b - 1]) (wTodo x ++ wClaim x)
        innocent = wLeaving x || wStage x /= Working || full || (null left && death `elem` [Exited 0, Vanished])
        culprit = if innocent then Nothing else wCurrent x >>= \i -> if i `elem` left then Just i else Nothing
        count = maybe (fruitless w + 1) (const (fruitless w)) culprit
     in (changed (died (job w) (clock w) slot (Exit death (wChunk x) (wCurrent x) (lookup death startFailures) full)) w)
          { crew = IntMap.delete slot (crew w),
            deathsIn = maybe id (\i -> IntMap.insertWith (+) i 1) culprit (deathsIn w),
            owedSince = owedSince w <|> (if wOwes x then Just (clock w) else Nothing),
            fruitless = count,
            mostFruitless = max count (mostFruitless w)
          }
  where
    w = readOne slot w0

handingOut :: World -> World
handingOut w
  | stDormant s = w
  | isJust (stAlone s) = changed (standIn (job w) (offerItems offer)) w {queue = if isNothing (stFatal s) then [] else queue w}
  | stClosed s = w
  | otherwise = go (offerItems offer) w
  where
    s = state w
    settings = Settings (Fixed (settingChunk (setting w))) (settingWorkers (setting w)) (settingWindow (setting w))
    offer = offering settings Nothing (seen w) s
    go room x
      | nextIndex (stPieces (state x)) == settingItems (setting x) = changed (\st -> st {stClosed = True}) x
      | room <= 0 || length (queue x) >= offerChunks offer = x
      | otherwise =
        let n = min room (settingChunk (setting x))
            first = nextIndex (stPieces (state x))
         in go (room - n) (changed (handedOut n) x {queue = queue x ++ [(first, first + n)]})

hiringNow :: World -> World
hiringNow w = foldl' fork w {state = s, births = [(share, filter (`IntSet.member` stSealed s) share) | (_, share) <- wanted] : births w} wanted
  where
    (wanted, s) = hiring (job w) (wanting (job w) 0 (length (queue w)) (clock w) (state w)) (state w)
    fork x (slot, share)
      | refusing x = (changed (refused (job x) share (clock x) (Unavailable "a fork" "refused" "")) x) {refusing = False, wasRefused = True}
      | otherwise =
        let given = [(key, end) | key <- share, Just (end, _) <- [pieceAt key (stPieces (state x))]]
         in changed (hired slot given (clock x)) x {crew = IntMap.insert slot (W given [] [] Nothing [] Starting False False Nothing) (crew x)}

deliver :: World -> World
deliver w = case over w of
  Just _ -> w
  Nothing -> case demanded (job w) (seen w) (state w) of
    (Deliver os, s) -> w {state = s, out = reverse (concat os) ++ out w}
    (Finished, s) -> w {state = s, over = Just Nothing}
    (FailedWith e, s) -> w {state = s, over = Just (Just (toException e))}
    (Wait, s) -> w {state = s}

-- | Nothing bad happens any more, but for what is in the items: to the end, or so
-- many rounds.
calm :: Int -> World -> World
calm 0 w = w
calm n w
  | Just _ <- over w = w
  | otherwise = calm (n - 1) (foldl' happen w {refusing = False} (Round 1001 : Ask : concat (replicate 8 (map Work [0 .. settingWorkers (setting w) - 1]))))

-- | Where each index below 'nextIndex' is.
places :: World -> [Int]
places w =
  concat
    [ map outcomeIndex (out w),
      concat [map outcomeIndex os | Batch _ os <- IntMap.elems (stArrived s)],
      [i | x <- IntMap.elems (crew w), SaidResult i _ <- wSaid x],
      concatMap (concatMap range . (\x -> wTodo x ++ wClaim x)) (IntMap.elems (crew w)),
      concatMap range (queue w),
      concat [[key .. end - 1] | key <- orphans (stPieces s), Just (end, _) <- [pieceAt key (stPieces s)]]
    ]
  where
    s = state w
    range (a, b) = [a .. b - 1]
