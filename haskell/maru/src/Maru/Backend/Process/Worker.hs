-- | What a forked worker does from its first instruction to its last.
-- /Internal/.
--
-- A worker never returns: it ends by @_exit@, so that no finalizer, no exit
-- handler and no last collection of the inherited heap runs in it. Whatever it
-- has to say, exceptions included, goes through its log.
module Maru.Backend.Process.Worker
  ( runWorker,
    logClosers,
    startFailures,
  )
where

import Control.Exception (SomeException (..), catch, evaluate, try)
import Control.Monad (unless, when)
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_)
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Data.Word (Word64, Word8)
import Foreign (Ptr, castPtr, copyBytes, nullPtr, pokeElemOff)
import GHC.IO (unsafeUnmask)
import Maru.Backend.Process.Assignment
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.Wire
import Maru.Codec (Codec (..))
import Maru.Failure (Death (..))
import Maru.Internal.Area
import Maru.Internal.Attempt (textOf)
import Maru.Internal.Budget (enterWorker)
import Maru.Native.Channel (nowNs)
import Maru.Native.Letter (letterReceiver, letterStale)
import Maru.Native.Log (publishWord)
import Maru.Native.Pen
import Maru.Native.Process
import Maru.Native.Region (movePrivate, regionAdd, regionRoom)
import qualified Maru.Native.Region as Region
import Maru.Native.Rts
import System.Timeout (timeout)

-- | Never returns.
runWorker :: Assignment a b -> IO ()
runWorker a = do
  prologue a
  started <- nowNs
  fresh <- newIORef True
  woken <- newIORef started
  outcome <- try $ do
    end <- workerEnd (assignedLink a)
    sealing <- newPen logUsedUp (kindWord Retired) (kindWord Unstarted)
    writtenWith end sealing
    noted <- noteOwn sealing
    unless noted (exitNow blind)
    built <- buildWall sealing
    unless built (exitNow unwalled)
    tell end Ready
    room <- maybe (pure 0) regionRoom (assignedRegion a)
    unsafeUnmask (work (Worker a end sealing started woken fresh room)) `catch` stray
  case outcome of
    Right () -> exitNow 0
    Left SomeException {} -> exitNow lost
  where
    -- Thrown between two items, by our own machinery or by a thread that an item has left behind.
    stray e = textOf e >>= \why -> endHere ("it could not go on: " <> why) lost

-- | What the worker says of itself, besides results.
tell :: WorkerEnd -> Kind -> IO ()
tell end kind = reserveRecord end 0 >> commitRecord end 0 0 (kindWord kind) >> wake end

-- The order matters: nothing may run before the inherited finalizers are
-- neutered, and the watch on the parent duplicates its descriptor before the
-- inherited ones are sealed.
prologue :: Assignment a b -> IO ()
prologue a = do
  prepareChild
  for_ (assignedLetters a) (const letterReceiver)
  watched <- dieWith (assignedParent a) (assignedParentPidfd a)
  unless watched (exitNow unwatched)
  sealed <- sealSnapshot (assignedSnapshot a)
  unless sealed (exitNow unsealed)
  workerSignals >> hearSignals
  for_ (assignedMemory a) $ \bytes -> do
    inherited <- residentBytes
    limitHeap (inherited + bytes)
  enterWorker (assignedSiblings a)

data Worker a b = Worker
  { assignment :: !(Assignment a b),
    link :: !WorkerEnd,
    pen :: !Pen,
    startedNs :: !Int64,
    -- | When it last woke the coordinator for results.
    wokenNs :: !(IORef Int64),
    -- | Nothing has been committed yet.
    freshLog :: !(IORef Bool),
    -- | Room for results at birth.
    freshRoom :: !Int
  }

work :: Worker a b -> IO ()
work w = do
  watchOver (pen w)
  -- Of no item: no look at it is taken for one at an item.
  penDown (pen w) (kindWord Unstarted) maxBound
  -- An exception's text, too, may need what is not here.
  threw <- try (assignedInitialiser a) >>= either (fmap Just . packException) (\() -> pure Nothing)
  initialised
  penUp (pen w)
  for_ threw $ \e -> send w InitialiserThrew 0 e >> wake (link w) >> exitNow 0
  lockHandles
  walled <- raiseWall (pen w) (assignedSnapshot a)
  unless walled (exitNow blind)
  tell (link w) Initialised
  for_ (assignedSegments a) $ \s ->
    runItems w (assignedFunction a) (segmentFirst s) (segmentCount s) (segmentCells s)
  nursery <- newNursery w
  maybe (claimLoop w nursery (assignedCursor a)) (receive w nursery) (assignedLetters a)
  where
    a = assignment w

-- Claims until the coordinator has closed the fabric and nothing is left.
claimLoop :: Worker a b -> Nursery -> Cursor a -> IO ()
claimLoop w nursery cursor = do
  now <- nowNs
  nursery' <- growNursery w now nursery
  claimed <- claimChunk (link w) (now + 1000000000)
  case claimed of
    -- Before the end is seen by itself a map inside a brother's item may need the core.
    Closed -> tell (link w) Leaving
    NotYet -> claimLoop w nursery' cursor
    Claimed (Chunk first count) -> do
      before <- nowNs
      cells <- reach w cursor first count
      rest <- runItems w (assignedFunction (assignment w)) first count cells
      after <- nowNs
      chunkDone (link w) count (after - before)
      claimLoop w nursery' (Cursor (first + count) rest)

-- Its initialiser may have made it useless, and each successor, too.
receive :: Worker a b -> Nursery -> Letters a b -> IO ()
receive w nursery letters = do
  stale <- letterStale
  when stale (retire w 0 "its initialiser made a major collection")
  called <- lettersCall letters
  serve w nursery (Served (startedNs w) called) letters

-- | When a call was last seen, and its number.
data Served = Served !Int64 !Word64

-- Serves one call after the other. It leaves when there was none for long, and when it has
-- made a major collection: some of what it inherited, and a letter may mean, is gone then.
serve :: Worker a b -> Nursery -> Served -> Letters a b -> IO ()
serve w nursery served@(Served since known) letters = do
  now <- nowNs
  nursery' <- growNursery w now nursery
  stale <- letterStale
  unless stale $ do
    claimed <- claimChunk (link w) (now + min 1000000000 (lettersIdle letters))
    case claimed of
      Closed -> pure ()
      NotYet -> do
        -- Other workers may have done it all.
        called <- lettersCall letters
        let served' = if called == known then served else Served now called
        unless (called == known && now - since > lettersIdle letters) (serve w nursery' served' letters)
      Claimed chunk@(Chunk first count) -> do
        before <- nowNs
        called <- lettersCall letters
        sent <- openLetter letters chunk
        case sent of
          Nothing -> retire w first "it could not read what it was sent"
          Just (f, cells) -> do
            _ <- runItems w f first count cells
            after <- nowNs
            chunkDone (link w) count (after - before)
            serve w nursery' (Served after called) letters

-- | When the collector was last looked at, and what is known of the allocation area. 'Nothing': it is
-- the user's.
newtype Nursery = Nursery (Maybe (Int64, Area))

newNursery :: Worker a b -> IO Nursery
newNursery w = do
  ours <- areaIsOurs
  Nursery <$> if ours then Just . (,) (startedNs w) . newArea <$> collectorLook else pure Nothing

-- Enlarged or made smaller between two chunks, see "Maru.Internal.Area".
growNursery :: Worker a b -> Int64 -> Nursery -> IO Nursery
growNursery w now nursery@(Nursery known) = case known of
  Just (looked, area) | now - looked >= 5000000 -> do
    seen <- collectorLook
    let (wanted, area') = stepArea (assignedNursery (assignment w)) seen area
    for_ wanted $ \size ->
      if size < lookArea seen then setAllocArea size else roomForArea >>= growTo (lookArea seen) . min size
    pure (Nursery (Just (now, area')))
  _ -> pure nursery
  where
    growTo before size = when (size > before) (setAllocArea size)
    -- As of the bound of its heap: a quarter of the worker's share.
    roomForArea = min . (`div` (4 * max 1 (assignedSiblings (assignment w)))) <$> memoryLeft <*> areaBound

-- | The cells from @first@ on, at least @count@ of them evaluated. A spine
-- that this process cannot walk by itself (it comes from a file, or from
-- another thread of the coordinator) makes the worker leave; its successor
-- inherits what the coordinator has walked by then. What lies before its copy
-- would be other items under these indices.
reach :: Worker a b -> Cursor a -> Int -> Int -> IO [a]
reach w (Cursor at cells) first count
  | Just inputs <- assignedFrom (assignment w) = pure (inputs first)
  | first < at = leave "its copy of the input begins later"
  | first + count <= assignedKnown (assignment w) = pure from
  | otherwise = do
    penDown (pen w) (kindWord Retired) first
    walked <- try (timeout spineMicros (evaluate (hasCells count from)))
    penUp (pen w)
    case walked of
      Right (Just True) -> pure from
      Right (Just False) -> leave "its copy of the input ended early"
      Right Nothing -> leave "its copy of the input took too long to walk"
      Left SomeException {} -> leave "its copy of the input could not be walked"
  where
    from = drop (first - at) cells
    leave why = retire w first why >> pure from
    spineMicros = 100000

hasCells :: Int -> [a] -> Bool
hasCells 0 _ = True
hasCells _ [] = False
hasCells n (_ : rest) = hasCells (n - 1) rest

-- A record of addresses that is being filled: where, how many, and its room.
data Batch = NoBatch | Batch !(Ptr Word64) !Int !Int

-- Addresses in one record.
largestBatch :: Int
largestBatch = 64

-- | The coordinator sees each result as soon as it is there, even while the next
-- item runs for ever; 'hint' says when it is woken for that.
runItems :: Worker a b -> (a -> b) -> Int -> Int -> [a] -> IO [a]
runItems w f first count cells0 = go first cells0 NoBatch
  where
    a = assignment w
    end = first + count
    go i cells batch
      | i >= end = cells <$ fill w batch
      | otherwise = case cells of
        [] -> do
          fill w batch
          retire w i "its copy of the input ended early"
          pure []
        (x : rest) -> do
          evaluating (link w) i
          penDown (pen w) (kindWord Sealed) i
          placed <- place w (f x)
          penUp (pen w)
          case placed of
            ByAddress address -> add i address batch >>= go (i + 1) rest
            Otherwise say -> do
              fill w batch
              say i
              hint w
              go (i + 1) rest NoBatch
    add i address NoBatch = do
      let room = min largestBatch (end - i)
      record <- reserveRoom w i (8 * (room + 1))
      publishWord record (filled 0 False)
      publishRecord w (8 * (room + 1)) i Addresses
      penFilling (pen w) record
      add i address (Batch record 0 room)
    add i address (Batch record n room) = do
      pokeElemOff record (n + 1) address
      publishWord record (filled (n + 1) (n + 1 == room))
      hint w
      if n + 1 < room
        then pure (Batch record (n + 1) room)
        else do
          penFilling (pen w) nullPtr
          crowded <- nearlyFull
          when (crowded && i + 1 < end) (retire w (i + 1) "its pages for results are used up")
          pure NoBatch
    nearlyFull = maybe (pure False) (fmap (< 262144) . regionRoom) (assignedRegion a)

-- | There is a result. A wake-up costs the coordinator several switches between threads. So all
-- workers together wake it at most every 100 us. Later they do every hundredth of the run's age, but
-- every 2 ms. It looks by itself every 20 ms.
hint :: Worker a b -> IO ()
hint w = do
  now <- nowNs
  woken <- readIORef (wokenNs w)
  let apart = max 100000 (min 2000000 ((now - startedNs w) `div` 100))
  when (now - woken > apart * fromIntegral (max 2 (assignedSiblings (assignment w)))) $ do
    writeIORef (wokenNs w) now
    wake (link w)

-- Nothing more will be filled in.
fill :: Worker a b -> Batch -> IO ()
fill _ NoBatch = pure ()
fill w (Batch record n _) = do
  publishWord record (filled n True)
  penFilling (pen w) nullPtr

data Placed = ByAddress !Word64 | Otherwise (Int -> IO ())

-- Evaluates the result and decides how it crosses.
place :: Worker a b -> b -> IO Placed
place w y = do
  tried <- try $ case (assignedCodec a, assignedRegion a) of
    (Just codec, _) -> do
      bytes <- evaluate (Lazy.toStrict (encode codec y))
      pure (Otherwise (\i -> send w Coded i bytes))
    (Nothing, Just region) -> do
      added <- regionAdd region (assignedSharing a) y
      case added of
        Region.Added address -> pure (ByAddress address)
        Region.Full -> do
          room <- regionRoom region
          -- A successor would have no more room than a fresh one.
          byCopy (room < freshRoom w)
        Region.Refused what -> pure (refused what)
    (Nothing, Nothing) -> byCopy False
  case tried of
    Right placed -> pure placed
    -- While the item may be sealed still: its text may need what is not here.
    Left e -> (\bytes -> Otherwise (\i -> send w Threw i bytes)) <$> packException e
  where
    a = assignment w
    refused what = Otherwise (\i -> send w Refused i (packText what))
    byCopy thenLeave = do
      packed <- packBytes (assignedSharing a) y
      pure $ case packed of
        Left what -> refused what
        Right bytes -> Otherwise $ \i -> do
          sendBy moved w Compacted i bytes
          when thenLeave (retire w (i + 1) "its pages for results are used up")

-- | To, from, how many.
type Copying = Ptr Word64 -> Ptr Word8 -> Int -> IO ()

send :: Worker a b -> Kind -> Int -> Strict.ByteString -> IO ()
send = sendBy (copyBytes . castPtr)

-- | The bytes are ours and not read again: of a large value their pages go at once.
moved :: Copying
moved to from n = movePrivate to from (fromIntegral n)

sendBy :: Copying -> Worker a b -> Kind -> Int -> Strict.ByteString -> IO ()
sendBy copy w kind i bytes = do
  room <- reserveRoom w i (Strict.length bytes)
  Unsafe.unsafeUseAsCStringLen bytes $ \(from, n) -> copy room (castPtr from) n
  publishRecord w (Strict.length bytes) i kind

publishRecord :: Worker a b -> Int -> Int -> Kind -> IO ()
publishRecord w bytes i kind = do
  commitRecord (link w) bytes i (kindWord kind)
  writeIORef (freshLog w) False

-- Exit status of a worker that could not go on.
lost :: Int
lost = 70

-- Exit statuses of a worker that could not start.
unwatched, unsealed, blind, unwalled :: Int
unwatched = 71
unsealed = 72
blind = 74
unwalled = 75

-- | What they mean.
startFailures :: [(Death, String)]
startFailures =
  [ (Exited unwatched, "a worker could not start a thread to watch the caller (see `ulimit -u` and `ulimit -n`)"),
    (Exited unsealed, "a worker could not seal the descriptors that it inherited (is /proc mounted?)"),
    (Exited blind, "a worker cannot see what its own threads wait for (/proc/self/task/*/syscall, process_vm_readv: does a sandbox refuse them, is /proc that of another PID namespace, or has this process changed its user, and is not dumpable?)"),
    (Exited unwalled, "a worker could not have a socket pair (does a sandbox refuse it? see `ulimit -n`)")
  ]

-- Exit status of a worker whose log is full, which says so by 'usedUp' too: an item may
-- exit with any status.
logUsedUp :: Int
logUsedUp = 73

-- | Deaths for which no item is to blame where the log was closed before. It is full; or
-- between two items a thread was refused, or something was thrown.
logClosers :: [Death]
logClosers = [Exited logUsedUp, Exited unwatched, Exited lost]

-- A log that is full ends its worker; a successor gets a new one. What does
-- not even fit a new one is refused, or its item would go round for ever.
reserveRoom :: Worker a b -> Int -> Int -> IO (Ptr Word64)
reserveRoom w i bytes = do
  room <- reserveRecord (link w) bytes
  case room of
    Reserved p -> pure p
    LogFull -> do
      fresh <- readIORef (freshLog w)
      when fresh $
        send w Refused i (packText ("more bytes (" <> show bytes <> ") than a channel holds here")) >> wake (link w)
      usedUp (link w)
      exitNow logUsedUp
      reserveRoom w i bytes

-- | Leaves; items from @i@ on are given to a successor.
retire :: Worker a b -> Int -> String -> IO ()
retire w i why = do
  send w Retired i (packText why)
  wake (link w)
  exitNow 0
