-- | The coordinator of forked workers, over any fabric. /Internal/.
--
-- The coordinator is whoever consumes the outcomes: each demand that is not
-- satisfied yet reads the workers' logs, looks for deaths, hands out chunks and
-- then sleeps on one doorbell. A second thread, the tender, does the same every
-- 20 ms while the consumer is busy elsewhere, and ends the workers when nobody
-- has asked for long.
--
-- All state is changed under one lock with asynchronous exceptions masked and
-- without exception handlers around anything that can be interrupted: the
-- consumer's side runs inside lazily evaluated thunks, which an asynchronous
-- exception must leave resumable.
module Maru.Backend.Process
  ( Style (..),
    engineOn,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, isNothing)
import Foreign (Ptr, Word64, castPtr, peekElemOff)
import Foreign.C (CInt)
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.Wire
import Maru.Backend.Process.Worker
import Maru.Codec (Codec (..))
import Maru.Failure
import Maru.Internal.Engine
import Maru.Internal.Feed
import Maru.Internal.Normal (normalised)
import Maru.Internal.Plan
import Maru.Internal.Progress (watch)
import Maru.Native.Channel (nowNs, observeWord)
import Maru.Native.Pen (sealHere)
import Maru.Native.Process
import Maru.Native.Region (Region, newRegion, regionGet, regionRelease, unpack, zeroCopy)
import Maru.Native.Rts (collapseHeap, forkHazard, forkWorker)
import Maru.Native.Totals
import Maru.Options
import System.IO.Unsafe (unsafeInterleaveIO)
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

-- Types ----------------------------------------------------------------------

-- | What tells one process back end from another.
data Style = Style
  { styleBackend :: !Backend,
    -- | Results may cross by address, where the run-time system allows it.
    styleByAddress :: !Bool,
    -- | For so many workers.
    styleFabric :: Int -> IO Fabric
  }

data Run a b = Run
  { -- | Without its inputs: whoever holds the run must not hold the whole list.
    runJob :: !(Job a b),
    runStyle :: !Style,
    runFabric :: !Fabric,
    runFeed :: !Feed,
    runSelf :: !ProcessID,
    runSelfPidfd :: !CInt,
    -- | Why results do not cross by address, if they do not.
    runByCopy :: !(Maybe String),
    -- | Tells about progress.
    runTeller :: !(IORef (Maybe ThreadId)),
    -- | When the consumer last asked.
    runAsked :: !(IORef Int64),
    -- | Guards everything below, and the crew's and the logs' memory.
    runLock :: !(MVar ()),
    runState :: !(IORef (State a b))
  }

data State a b = State
  { stWorkers :: !(IntMap Worker),
    -- | What was handed out and has not arrived, by first missing index.
    stMissing :: !(IntMap (Missing a)),
    -- | Keys of missing pieces that no worker has.
    stOrphans :: ![Int],
    -- | What arrived and was not delivered, by first index.
    stArrived :: !(IntMap (Batch b)),
    -- | The input from the first index that was not handed out.
    stNext :: !Int,
    stCells :: [a],
    -- | Ordered: the next index to deliver; unordered: how many were delivered.
    stDelivered :: !Int,
    -- | Of these, how many the consumer has certainly looked at: all but the
    -- last batch. The look-ahead counts from here.
    stTaken :: !Int,
    stTries :: !(IntMap Int),
    -- | Workers that ended since anything arrived.
    stBarren :: !Int,
    -- | When the first of them ended.
    stBarrenSince :: !Int64,
    -- | When a worker may be started again, after the system refused one.
    stHireFrom :: !Int64,
    -- | The planner's last chunk size.
    stSize :: !Int,
    stClosed :: !Bool,
    -- | Nothing more will come, because of this.
    stFatal :: !(Maybe SomeException),
    -- | Nobody has asked for long: no workers until somebody does.
    stDormant :: !Bool,
    stEnded :: !Bool,
    stLooked :: !Int64,
    stStarted :: !Int,
    stLost :: !Int,
    stChunks :: !Int,
    stInCaller :: !Int,
    stItems :: !Int,
    -- | What the board has been told.
    stTold :: !Totals,
    stCrossed :: !(Map.Map String Int),
    stNotes :: ![String]
  }

-- | Where the piece ends, and its cells.
data Missing a = Missing !Int [a]

-- | How many, and which.
data Batch b = Batch !Int [Outcome b]

data Worker = Worker
  { workerProcess :: !Process,
    workerLink :: !Link,
    -- | A record of addresses that its worker is still filling.
    workerFilling :: !(IORef (Maybe Filling)),
    workerRegion :: !(Maybe Region),
    -- | Pieces that were given to it at birth: [first, end).
    workerGiven :: ![(Int, Int)],
    -- | When it was forked.
    workerHired :: !Int64,
    workerStage :: !Stage,
    -- | It said that it leaves, or we ended it: its death is nobody's fault.
    workerLeaving :: !Bool
  }

-- | How far a worker has got: to its prologue, the user's initialiser, the items.
data Stage = Starting | Initialising | Working
  deriving (Eq)

-- | The record, its first index, and how many of its addresses were taken.
data Filling = Filling !(Ptr Word64) !Int !Int

-- Engine ---------------------------------------------------------------------

-- | See 'Maru.Internal.Engine.Engine'. Throws 'Unavailable' where forked workers cannot be had.
--
-- Not interruptible: a run exists with the finalizer that ends it, or not at all.
engineOn :: Style -> Job a b -> IO (Running b)
engineOn style job = uninterruptibleMask_ $ do
  run <- newRun style job
  -- Only the list of outcomes holds the key: when it is garbage, so is the run.
  key <- newIORef ()
  _ <- mkWeakIORef key (endRun run)
  _ <- forkIOWithUnmask (\unmask -> unmask (tend run))
  for_ (onProgress (jobOptions job)) $ \callback -> do
    teller <- forkIOWithUnmask (\unmask -> unmask (tellProgress run callback))
    writeIORef (runTeller run) (Just teller)
  list <- unsafeInterleaveIO (consume run key)
  pure Running {outcomes = list, stop = endRun run, report = reportOf run}

newRun :: Style -> Job a b -> IO (Run a b)
newRun style job = do
  hazard <- forkHazard
  for_ hazard $ \why ->
    throwIO (Unavailable "a map on forked workers" why "leave that flag out, or use Threads or Sparks")
  byCopy <- if styleByAddress style then crossing (transport options) else pure (Just "sockets carry copies")
  collapsed <- if hugePages options then try collapseHeap else pure (Right 0)
  fabric <- styleFabric style (jobWorkers job)
  feed <- startFeed (jobInputs job) (ringNews fabric)
  self <- getProcessID
  now <- nowNs
  run <-
    Run job {jobInputs = []} style fabric feed self <$> openPidfd self <*> pure byCopy
      <*> newIORef Nothing
      <*> newIORef now
      <*> newMVar ()
      <*> newIORef (emptyState job)
  either (\e -> note run (displayException (e :: Unavailable))) (const (pure ())) collapsed
  traverse_ (\why -> note run ("results cross by copy: " <> why)) byCopy
  traverse_ (note run) (fabricNotes fabric)
  pure run
  where
    options = jobOptions job

crossing :: Transport -> IO (Maybe String)
crossing CompactCopy = pure (Just "asked for")
crossing wanted = do
  possible <- zeroCopy
  case possible of
    Right () -> pure Nothing
    Left why
      | wanted == ZeroCopy ->
        throwIO (Unavailable "zero-copy transport" why "use TransportAuto or CompactCopy")
      | otherwise -> pure (Just why)

emptyState :: Job a b -> State a b
emptyState job =
  State
    { stWorkers = IntMap.empty,
      stMissing = IntMap.empty,
      stOrphans = [],
      stArrived = IntMap.empty,
      stNext = 0,
      stCells = jobInputs job,
      stDelivered = 0,
      stTaken = 0,
      stTries = IntMap.empty,
      stBarren = 0,
      stBarrenSince = 0,
      stHireFrom = 0,
      stSize = 0,
      stClosed = False,
      stFatal = Nothing,
      -- Until the first demand.
      stDormant = True,
      stEnded = False,
      stLooked = 0,
      stStarted = 0,
      stLost = 0,
      stChunks = 0,
      stInCaller = 0,
      stItems = 0,
      stTold = noTotals,
      stCrossed = Map.empty,
      stNotes = []
    }

-- | Runs with the lock held and asynchronous exceptions masked, so that no
-- thunk is ever frozen while it holds the lock. Must take bounded time.
locked :: Run a b -> IO c -> IO c
locked run act = uninterruptibleMask_ $ do
  takeMVar (runLock run)
  result <- try act
  putMVar (runLock run) ()
  either (throwIO :: SomeException -> IO c) pure result

change :: Run a b -> (State a b -> State a b) -> IO ()
change run = modifyIORef' (runState run)

note :: Run a b -> String -> IO ()
note run line = do
  before <- stNotes <$> readIORef (runState run)
  unless (line `elem` before || length before >= mostNotes) $ do
    change run (\s -> s {stNotes = line : before})
    sayOnBoard line

-- A report is read by a person.
mostNotes :: Int
mostNotes = 40

-- The consumer ---------------------------------------------------------------

data Demand b = Deliver [Outcome b] | Finished | FailedWith SomeException | Wait

consume :: Run a b -> IORef () -> IO [Outcome b]
consume run key = do
  readIORef key
  -- Before the lock: in a forked process a thread that it lacks may hold it.
  ours <- isOurs run
  unless ours (sealHere "it demands a result of a map that the caller started" >> throwIO OnlyCaller)
  now <- nowNs
  writeIORef (runAsked run) now
  (seen, demanded) <- locked run $ do
    change run (\s -> s {stDormant = False, stTaken = stDelivered s})
    seen <- unlessEnded run 0 $ newsSeen (runFabric run) <* advance run now
    (,) seen <$> nextStep run
  case demanded of
    Deliver batch -> do
      rest <- unsafeInterleaveIO (consume run key)
      pure (batch ++ rest)
    Finished -> [] <$ forkIO (endRun run)
    FailedWith e -> forkIO (endRun run) >> throwIO e
    Wait -> do
      -- Without the threaded run-time system the call below stops every
      -- Haskell thread: let them run first, and keep it short.
      yield
      awaitNews (runFabric run) seen (now + slice)
      -- Waiting is interruptible, in a masked caller too.
      allowInterrupt
      consume run key
  where
    slice = if rtsSupportsBoundThreads then 50000000 else 2000000

-- | Is this the process that started the run? Else its lock and its workers must
-- be left alone.
isOurs :: Run a b -> IO Bool
isOurs run = (== runSelf run) <$> getProcessID

unlessEnded :: Run a b -> c -> IO c -> IO c
unlessEnded run instead act = do
  ended <- stEnded <$> readIORef (runState run)
  if ended then pure instead else act

nextStep :: Run a b -> IO (Demand b)
nextStep run = do
  s <- readIORef (runState run)
  seen <- known (runFeed run)
  let candidate = case jobOrder (runJob run) of
        Ordered -> (,) (stDelivered s) <$> IntMap.lookup (stDelivered s) (stArrived s)
        Unordered -> IntMap.lookupMin (stArrived s)
  case candidate of
    Just (at, Batch n os) -> do
      writeIORef (runState run) s {stArrived = IntMap.delete at (stArrived s), stDelivered = stDelivered s + n}
      pure (Deliver os)
    Nothing
      | Just e <- stFatal s -> pure (FailedWith e)
      | stDelivered s == knownCount seen,
        Just end <- knownEnd seen -> pure $ case end of
        Complete -> Finished
        Broken e -> FailedWith e
      | stEnded s -> pure (FailedWith (toException (ErrorCall "maru: the result of a parallel map was demanded after its scope ended")))
      | otherwise -> pure Wait

-- The tender -----------------------------------------------------------------

-- Looks after the run while the consumer is busy elsewhere; ends with it, or ends
-- it when all is delivered: the consumer may never look at the end of its list.
tend :: Run a b -> IO ()
tend run = do
  threadDelay 20000
  now <- nowNs
  asked <- readIORef (runAsked run)
  ended <- locked run $ do
    ended <- stEnded <$> readIORef (runState run)
    unless ended $
      if now - asked > idleNs then fallAsleep run else advance run now
    pure ended
  complete <- isComplete run
  unless ended (if complete then endRun run else tend run)
  where
    idleNs = round (idleSeconds (jobOptions (runJob run)) * 1e9) :: Int64

-- | The end of the input is known, and all before it was delivered.
isComplete :: Run a b -> IO Bool
isComplete run = do
  s <- readIORef (runState run)
  seen <- known (runFeed run)
  pure (isJust (knownEnd seen) && stDelivered s == knownCount seen)

fallAsleep :: Run a b -> IO ()
fallAsleep run = do
  change run (\s -> s {stDormant = True})
  awake <- IntMap.keys . stWorkers <$> readIORef (runState run)
  unless (null awake) $ do
    note run "workers were ended because no result was asked for"
    for_ awake (dismiss run)

-- | Tells about progress until the run ends.
tellProgress :: Run a b -> (Progress -> IO ()) -> IO ()
tellProgress run callback = do
  told <- watch callback (progressOf run)
  for_ (either Just (const Nothing) told) $ \e ->
    -- What 'endRun' throws is no fault of the callback.
    unless (fromException e == Just ThreadKilled) $
      locked run (note run ("the progress callback threw: " <> displayException e))

progressOf :: Run a b -> IO (Int, Maybe Int, Int)
progressOf run = do
  s <- readIORef (runState run)
  seen <- known (runFeed run)
  let waiting = sum [n | Batch n _ <- IntMap.elems (stArrived s)]
  pure (stDelivered s + waiting, knownCount seen <$ knownEnd seen, IntMap.size (stWorkers s))

-- One round ------------------------------------------------------------------

-- | What goes wrong in it ends the map, not the thread that happened to look.
advance :: Run a b -> Int64 -> IO ()
advance run now =
  try (oneRound run now) >>= either failed pure
  where
    failed e = change run (\s -> s {stFatal = Just (fromMaybe (e :: SomeException) (stFatal s))})

oneRound :: Run a b -> Int64 -> IO ()
oneRound run now = do
  workers0 <- stWorkers <$> readIORef (runState run)
  for_ (IntMap.toList workers0) (uncurry (readLog run))
  s <- readIORef (runState run)
  when (now - stLooked s > 20000000) $ do
    change run (\st -> st {stLooked = now})
    for_ (IntMap.toList (stWorkers s)) $ \(slot, w) -> do
      ended <- reap (workerProcess w)
      case ended of
        Just death -> bury run slot w death
        Nothing -> unless (workerStage w /= Starting || now - workerHired w < startNs) $ do
          note run "a worker did not get through its start within 10 s and was replaced"
          dismiss run slot
  handOut run
  hire run now
  tellBoard run

-- | A start takes milliseconds, and no code of the user's. A child of a process
-- with many threads can inherit a lock that nobody will open.
startNs :: Int64
startNs = 10000000000

tellBoard :: Run a b -> IO ()
tellBoard run = do
  s <- readIORef (runState run)
  let now = Totals 1 (IntMap.size (stWorkers s)) (stStarted s) (stLost s) (stItems s) (stInCaller s)
  addTotals (stTold s) now
  writeIORef (runState run) s {stTold = now}

-- Records --------------------------------------------------------------------

readLog :: Run a b -> Int -> Worker -> IO ()
readLog run slot w = do
  resumed <- takeFilled run slot w
  when resumed (loop False)
  where
    loop some = do
      next <- nextRecordOf (workerLink w)
      case next of
        Nothing -> when some (recordsRead (workerLink w))
        Just r
          | kindOf (recordKind r) == Just Addresses -> do
            writeIORef (workerFilling w) (Just (Filling (recordChunk r) (recordIndex r) 0))
            complete <- takeFilled run slot w
            when complete (loop True)
          | otherwise -> accept run slot r >> loop True

-- | Takes what has been filled in since; 'True': the record, if any, is done.
takeFilled :: Run a b -> Int -> Worker -> IO Bool
takeFilled run slot w = do
  filling <- readIORef (workerFilling w)
  case filling of
    Nothing -> pure True
    Just (Filling record index taken) -> do
      (n, full) <- isFull <$> observeWord record
      when (n > taken) $ do
        values <- forM [taken + 1 .. n] (peekElemOff record >=> regionGet)
        arrive run (index + taken) (n - taken) (zipWith (\k v -> Outcome k slot (Right v)) [index + taken ..] values)
        crossed run "zero-copy" (n - taken)
      writeIORef (workerFilling w) (if full then Nothing else Just (Filling record index n))
      pure full

crossed :: Run a b -> String -> Int -> IO ()
crossed run way n = change run (\s -> s {stCrossed = Map.insertWith (+) way n (stCrossed s)})

accept :: Run a b -> Int -> Record -> IO ()
accept run slot r = case kindOf (recordKind r) of
  Just Compacted -> do
    value <- unpack (castPtr (recordChunk r)) (recordLength r)
    one (maybe (Left damaged) Right value)
    crossed run "compact copy" 1
  Just Coded -> do
    bytes <- copied
    -- By the consumer, outside of the lock.
    one (decoded bytes)
    crossed run "codec" 1
  Just Threw -> do
    e <- copied >>= unpackException i slot
    one (Left e)
    crossed run "exception" 1
  Just Sealed -> do
    change run (\s -> s {stInCaller = stInCaller s + 1})
    note run "items that need what only the caller has (an open file, another thread) were evaluated there"
    cells <- maybe [] (\(Missing _ xs) -> xs) . IntMap.lookup i . stMissing <$> readIORef (runState run)
    case cells of
      (x : _) -> arrive run i 1 [Outcome i (-1) (Right (normalised (jobFunction job x)))]
      [] -> pure ()
  Just Refused -> do
    what <- unpackText <$> copied
    one (Left (toException (Untransferable i what)))
  Just Retired -> do
    why <- unpackText <$> copied
    note run ("a worker was replaced: " <> why)
    leaving run slot
  Just Ready -> reached Initialising
  Just Initialised -> reached Working
  Just InitialiserThrew -> do
    e <- copied >>= unpackException i slot
    leaving run slot
    change run (\s -> s {stFatal = Just (fromMaybe e (stFatal s))})
  _ -> throwIO (ErrorCall ("maru: a worker's channel holds a record of unknown kind " <> show (recordKind r)))
  where
    job = runJob run
    i = recordIndex r
    reached stage = changeWorker run (\w -> w {workerStage = stage}) slot
    outcome k = Outcome k slot
    one result = arrive run i 1 [outcome i result]
    -- The log's pages are given back; what is kept must be copied.
    copied = Unsafe.unsafePackCStringLen (castPtr (recordChunk r), recordLength r) >>= evaluate . Strict.copy
    damaged = toException (RemoteException i slot "a result" "could not be relocated")
    decoded bytes = case jobCodec job of
      Nothing -> Left damaged
      Just codec -> either (Left . toException . RemoteException i slot "a decoding error") Right (decode codec bytes)

leaving :: Run a b -> Int -> IO ()
leaving run = changeWorker run (\w -> w {workerLeaving = True})

changeWorker :: Run a b -> (Worker -> Worker) -> Int -> IO ()
changeWorker run f slot = change run (\s -> s {stWorkers = IntMap.adjust f slot (stWorkers s)})

-- Results of one piece arrive in order, so a batch starts where one is missing.
arrive :: Run a b -> Int -> Int -> [Outcome b] -> IO ()
arrive run i n os = change run $ \s -> case IntMap.lookup i (stMissing s) of
  Nothing -> s -- a second copy of what has arrived: not even a retry makes one
  Just (Missing end cells) ->
    let without = IntMap.delete i (stMissing s)
        rest
          | i + n < end = case after n cells of
            Rest later -> IntMap.insert (i + n) (Missing end later) without
          | otherwise = without
     in s {stMissing = rest, stArrived = IntMap.insert i (Batch n os) (stArrived s), stItems = stItems s + n, stBarren = 0}

-- | A list whose cells so far are known, behind a constructor: it can be taken
-- out of another list now, without evaluating a cell that is not known yet.
-- (A newtype would have no such moment.)

{- HLINT ignore Rest "Use newtype instead of data" -}
data Rest a = Rest [a]

-- | 'drop', at once. A lazy one would keep the list's beginning, or the state
-- that it was in, for as long as nobody looks.
after :: Int -> [a] -> Rest a
after 0 xs = Rest xs
after n (_ : xs) = after (n - 1) xs
after _ [] = Rest []

-- Deaths ---------------------------------------------------------------------

-- The worker is gone and reaped. What it wrote is read, what it had is orphaned.
bury :: Run a b -> Int -> Worker -> Death -> IO ()
bury run slot w0 death = do
  readLog run slot w0
  s <- readIORef (runState run)
  let w = IntMap.findWithDefault w0 slot (stWorkers s)
  (claimed, current) <- unfinished (workerLink w)
  -- First of all, so that nothing is freed twice should something throw below.
  change run (\st -> st {stWorkers = IntMap.delete slot (stWorkers st)})
  closeLink (workerLink w)
  closePidfd (processPidfd (workerProcess w))
  traverse_ regionRelease (workerRegion w)
  -- In the order in which it worked on them: the first may be the cause.
  let ranges = workerGiven w ++ [(f, f + n) | Chunk f n <- claimed]
      left = concatMap (missingIn s) ranges
  change run (\st -> st {stOrphans = left ++ stOrphans st})
  blamed <-
    if workerLeaving w || workerStage w /= Working || death == Exited logUsedUp || isJust (lookup death startFailures) || (null left && death `elem` [Exited 0, Vanished])
      then pure False
      else lose run slot death (maybe (firstOf left) pure current)
  unless (workerStage w == Working || workerLeaving w) $ do
    change run (\st -> st {stLost = stLost st + 1})
    note run ("a worker " <> deathText death <> " before its first item")
  unless blamed (giveUpBarren run slot (workerStage w) death)
  where
    firstOf = foldr (\k _ -> Just k) Nothing

-- Workers that end again and again without a result, and not because of an item,
-- would do so for ever: something in their start is wrong.
giveUpBarren :: Run a b -> Int -> Stage -> Death -> IO ()
giveUpBarren run slot stage death = do
  now <- nowNs
  change run (\st -> st {stBarren = stBarren st + 1, stBarrenSince = if stBarren st == 0 then now else stBarrenSince st})
  s <- readIORef (runState run)
  -- Somebody who kills workers from outside may go on for a while.
  let lasting = death /= Killed 9 || now - stBarrenSince s > 3000000000
  when (stBarren s > 8 + 4 * jobWorkers (runJob run) && lasting && not (stDormant s)) $
    change run (\st -> st {stFatal = Just (fromMaybe (why s) (stFatal st))})
  where
    why s = case lookup death startFailures of
      Just reason -> toException (Unavailable "a map on forked workers" reason "look at `maru doctor`, or use the Threads back end")
      Nothing | stage == Starting -> toException (Unavailable "a map on forked workers" ("each worker " <> deathText death <> " before it had started, or did not start within 10 s") "look at `maru doctor`, or use the Threads back end")
      Nothing | stage == Initialising -> toException (Unavailable "a map on forked workers" ("each worker " <> deathText death <> " in the initialiser") "mend the action given as `initialise`")
      Nothing -> toException (WorkerLost (maybe (stNext s) fst (IntMap.lookupMin (stMissing s))) slot death (stBarren s))

missingIn :: State a b -> (Int, Int) -> [Int]
missingIn s (first, end) = takeWhile (< end) (IntMap.keys (snd (IntMap.split (first - 1) (stMissing s))))

-- A death that was not announced: the item that was being evaluated may be
-- the cause. 'False': it was in none.
lose :: Run a b -> Int -> Death -> Maybe Int -> IO Bool
lose run slot death suspect = do
  s <- readIORef (runState run)
  writeIORef (runState run) s {stLost = stLost s + 1}
  let found = suspect >>= culprit s
  for_ found $ \(key, i) -> do
    let tries = 1 + IntMap.findWithDefault 0 i (stTries s)
        lost = WorkerLost i slot death tries
    note run (show lost)
    change run (\st -> st {stTries = IntMap.insert i tries (stTries st)})
    case policy (jobOptions (runJob run)) of
      Retry n | tries <= n -> pure ()
      Fail -> change run (\st -> st {stFatal = Just (toException lost)})
      _ -> giveUp run key i lost
  pure (isJust found)
  where
    culprit s i = do
      (key, Missing end _) <- IntMap.lookupLE i (stMissing s)
      if i < end && key `elem` stOrphans s then Just (key, i) else Nothing

-- Cuts the item out of its piece and leaves a typed hole.
giveUp :: Run a b -> Int -> Int -> WorkerLost -> IO ()
giveUp run key i lost = do
  change run $ \s -> case IntMap.lookup key (stMissing s) of
    Nothing -> s
    Just (Missing end cells) ->
      let here = drop (i - key) cells
          pieces =
            [(key, Missing i cells) | key < i]
              ++ [(i, Missing (i + 1) here)]
              ++ [(i + 1, Missing end (drop 1 here)) | i + 1 < end]
       in s
            { stMissing = foldr (uncurry IntMap.insert) (IntMap.delete key (stMissing s)) pieces,
              stOrphans = filter (/= i) (map fst pieces) ++ filter (/= key) (stOrphans s)
            }
  arrive run i 1 [Outcome i (lostWorker lost) (Left (toException lost))]

-- | Ends one worker and takes over what it had.
dismiss :: Run a b -> Int -> IO ()
dismiss run slot = do
  worker <- IntMap.lookup slot . stWorkers <$> readIORef (runState run)
  for_ worker $ \w -> do
    leaving run slot
    killNow (workerProcess w)
    ended <- reapWait (workerProcess w) 5000
    -- Killed, it runs no instruction of ours any more; but the kernel may hold it
    -- for long (a disk that does not answer).
    when (isNothing ended) . void . forkIO $ reapLater (workerProcess w)
    bury run slot w (fromMaybe Vanished ended)

-- No zombie stays.
reapLater :: Process -> IO ()
reapLater process = do
  threadDelay 100000
  ended <- reap process
  when (isNothing ended) (reapLater process)

-- Work -----------------------------------------------------------------------

-- Hands out chunks: enough to keep the workers busy until the next round,
-- bounded by the window.
handOut :: Run a b -> IO ()
handOut run = do
  s <- readIORef (runState run)
  unless (stClosed s || stDormant s) $ do
    cost <- itemCost (runFabric run)
    seen <- known (runFeed run)
    waiting <- unclaimed (runFabric run)
    let ahead = max (lookAhead settings (stSize s)) (fromMaybe (supply cost) (window options))
        plan = publishMore settings cost (isJust (knownEnd seen)) (wantedChunks settings cost (stSize s))
    wantUpTo (runFeed run) (stTaken s + ahead + 1)
    plan run (min (knownCount seen) (stTaken s + ahead) - stNext s) waiting
    handed <- readIORef (runState run)
    when (Just (stNext handed) == (knownCount seen <$ knownEnd seen)) $ do
      closeFabric (runFabric run)
      change run (\st -> st {stClosed = True})
  where
    options = jobOptions (runJob run)
    workerCount = jobWorkers (runJob run)
    settings = Settings (chunking options) workerCount (window options)
    -- Items that keep all workers busy for a while.
    supply = maybe 0 (\ns -> workerCount * min 2048 (ceiling (supplyNs / max 1 ns)))

-- | The tender looks every 20 ms: twice that much work is handed out ahead.
supplyNs :: Double
supplyNs = 4e7

-- | How many chunks should be waiting to be claimed.
wantedChunks :: Settings -> Maybe Double -> Int -> Int
wantedChunks settings cost size = max (chunksAhead * setWorkers settings) (min 1024 supplied)
  where
    supplied = case cost of
      Just ns -> setWorkers settings * ceiling (supplyNs / max 1 (ns * fromIntegral (max 1 size)))
      Nothing -> 0

-- Repeats the planner's step with the same measurement until enough waits.
publishMore :: Settings -> Maybe Double -> Bool -> Int -> Run a b -> Int -> Int -> IO ()
publishMore settings cost ended wanted run available0 waiting0 = do
  size0 <- stSize <$> readIORef (runState run)
  let go available waiting
        | available <= 0 || waiting >= wanted = pure ()
        | otherwise = do
          let decision = step settings (Seen cost Nothing available ended 0 size0)
          taken <- takeWhileM (handOutOne run) (stepChunks decision)
          change run (\s -> s {stSize = stepSize decision})
          unless (null taken) (go (available - sum taken) (waiting + length taken))
  go available0 waiting0

takeWhileM :: (x -> IO Bool) -> [x] -> IO [x]
takeWhileM _ [] = pure []
takeWhileM act (x : xs) = do
  continue <- act x
  if continue then (x :) <$> takeWhileM act xs else pure []

-- | 'False': no slot is free now.
handOutOne :: Run a b -> Int -> IO Bool
handOutOne run n = do
  s <- readIORef (runState run)
  let first = stNext s
  -- The piece is known before anybody can claim it.
  taken <- publishChunk (runFabric run) (Chunk first n)
  let cells = stCells s
  when taken $ case after n cells of
    Rest rest ->
      writeIORef (runState run)
        $! s
          { stMissing = IntMap.insert first (Missing (first + n) cells) (stMissing s),
            stNext = first + n,
            stCells = rest,
            stChunks = stChunks s + 1
          }
  pure taken

-- Workers --------------------------------------------------------------------

-- Starts as many workers as there is work for that nobody has.
hire :: Run a b -> Int64 -> IO ()
hire run now = do
  s <- readIORef (runState run)
  waiting <- unclaimed (runFabric run)
  let free = [slot | slot <- [0 .. jobWorkers (runJob run) - 1], IntMap.notMember slot (stWorkers s)]
      orphans = stOrphans s
      wanted = min (length free) (length orphans + waiting)
  unless (stDormant s || now < stHireFrom s || wanted == 0 || isJust (stFatal s)) $ do
    let shares = deal wanted orphans
    change run (\st -> st {stOrphans = []})
    for_ (zip free shares) $ \(slot, share) -> do
      hired <- try (hireOne run slot share)
      case hired of
        Right () -> pure ()
        Left e -> do
          change run (\st -> st {stOrphans = share ++ stOrphans st, stHireFrom = now + 1000000000})
          unhireable run (e :: SomeException)

-- | Deals a list round robin to so many hands.
deal :: Int -> [x] -> [[x]]
deal n xs = [every (drop k xs) | k <- [0 .. n - 1]]
  where
    every [] = []
    every (y : ys) = y : every (drop (n - 1) ys)

-- With some workers alive the run goes on, slower; with none it cannot.
unhireable :: Run a b -> SomeException -> IO ()
unhireable run e = do
  alive <- IntMap.size . stWorkers <$> readIORef (runState run)
  let why = fromMaybe (Unavailable "another worker process" (displayException e) "look at `ulimit -u`, `ulimit -n`, memory limits and `maru doctor`") (fromException e)
  if alive > 0
    then note run (show why)
    else change run (\s -> s {stFatal = Just (toException why)})

hireOne :: Run a b -> Int -> [Int] -> IO ()
hireOne run slot share = do
  s <- readIORef (runState run)
  seen <- known (runFeed run)
  link <- openLink (runFabric run) slot
  region <- newPages run `onException` closeLink link
  snapshot <- takeSnapshot
  for_ (keptOpen link) (spare snapshot)
  let segments =
        [ Segment key (end - key) cells
          | key <- share,
            Just (Missing end cells) <- [IntMap.lookup key (stMissing s)]
        ]
  -- The run-time system keeps what it was given for as long as the child lives;
  -- what only f leads to must become garbage there, or no wait for it ever ends.
  body <- newIORef (runWorker (assignment s link region snapshot segments (knownCount seen)))
  pid <-
    forkWorker (join (readIORef body <* writeIORef body (pure ())))
      `onException` (closeLink link >> traverse_ regionRelease region >> freeSnapshot snapshot)
  freeSnapshot snapshot
  pidfd <- openPidfd pid
  filling <- newIORef Nothing
  hired <- nowNs
  let w = Worker (Process pid pidfd) link filling region [(segmentFirst g, segmentFirst g + segmentCount g) | g <- segments] hired Starting False
  change run (\st -> st {stWorkers = IntMap.insert slot w (stWorkers st), stStarted = stStarted st + 1})
  where
    job = runJob run
    options = jobOptions job
    memory = (\mib -> mib * 1024 * 1024 `div` jobWorkers job) <$> memoryMiB options
    assignment s link region snapshot segments seen =
      Assignment
        { assignedParent = runSelf run,
          assignedParentPidfd = runSelfPidfd run,
          assignedSnapshot = snapshot,
          assignedLink = link,
          assignedRegion = region,
          assignedSharing = sharing options,
          assignedCodec = jobCodec job,
          assignedFunction = jobFunction job,
          assignedInitialiser = initialise options,
          assignedSegments = segments,
          assignedCursor = case IntMap.lookupMin (stMissing s) of
            Just (at, Missing _ cells) -> Cursor at cells
            Nothing -> Cursor (stNext s) (stCells s),
          assignedKnown = seen,
          assignedNursery = maybe id (\bytes -> min (bytes `div` 4)) memory (64 * 1024 * 1024),
          assignedMemory = memory,
          assignedSiblings = jobWorkers job
        }

-- | Pages for results by address; where they cannot be had, results are copied.
newPages :: Run a b -> IO (Maybe Region)
newPages run
  | isJust (runByCopy run) || isJust (jobCodec (runJob run)) = pure Nothing
  | otherwise = try (newRegion (regionMiB options)) >>= either refusedPages (pure . Just)
  where
    options = jobOptions (runJob run)
    refusedPages e
      | transport options == ZeroCopy = throwIO (e :: Unavailable)
      | otherwise = Nothing <$ note run ("results cross by copy: " <> show e)

-- The end --------------------------------------------------------------------

-- | Idempotent; may be called from any thread, a finalizer too. In a process that
-- was forked meanwhile it does nothing: the workers are its parent's.
endRun :: Run a b -> IO ()
endRun run = do
  ours <- isOurs run
  when ours $ do
    first <- locked run (unlessEnded run False (True <$ release run))
    complete <- isComplete run
    -- Not waited for: a spine that never allocates cannot be interrupted.
    when first . void . forkIO $ do
      -- The teller of a complete run ends by itself, with its last call.
      unless complete (readIORef (runTeller run) >>= traverse_ killThread)
      stopFeed (runFeed run)

release :: Run a b -> IO ()
release run = do
  alive <- stWorkers <$> readIORef (runState run)
  for_ alive (killNow . workerProcess)
  refusals <- forM (IntMap.keys alive) (try . dismiss run)
  for_ refusals (either (\e -> note run (displayException (e :: SomeException))) pure)
  tellBoard run
  change run $ \st ->
    st {stEnded = True, stMissing = IntMap.empty, stArrived = IntMap.empty, stCells = []}
  freeFabric (runFabric run)
  closePidfd (runSelfPidfd run)

reportOf :: Run a b -> IO Report
reportOf run = do
  s <- readIORef (runState run)
  pure
    Report
      { reportBackend = styleBackend (runStyle run),
        reportWorkersStarted = stStarted s,
        reportWorkersLost = stLost s,
        reportChunks = stChunks s,
        reportTransports = Map.toList (stCrossed s),
        reportInCaller = stInCaller s,
        reportNotes = reverse (stNotes s)
      }
