-- | Forks workers, and puts chunks on offer for them. /Internal/. Under the run's
-- lock.
module Maru.Backend.Process.Hire
  ( handOutMore,
    hire,
    callersCore,
  )
where

import Control.Exception
import Control.Monad
import Data.Either (isLeft)
import Data.Foldable (traverse_)
import Data.IORef
import Data.Int (Int64)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe, isJust, isNothing)
import Maru.Backend.Process.Assignment
import Maru.Backend.Process.Birth (bear)
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.Pieces (earliest, nextIndex, pieceAt)
import Maru.Backend.Process.Roster
import Maru.Backend.Process.Run
import Maru.Backend.Process.State
import Maru.Backend.Process.Worker (runWorker)
import Maru.Failure
import Maru.Internal.Cores (takeCores)
import Maru.Internal.Engine
import Maru.Internal.Feed
import Maru.Internal.Plan
import Maru.Native.Channel (nowNs)
import Maru.Native.Process (Snapshot)
import Maru.Native.Region (Region, newRegion, regionRelease, regionRoom)
import Maru.Native.Rts (haveWorkers)
import Maru.Options

-- Chunks ---------------------------------------------------------------------

-- | Hands out chunks, see 'offering'; to the caller where there is nobody else.
handOutMore :: Run a b -> IO ()
handOutMore run = do
  s <- look run
  unless (stDormant s || stClosed s && isNothing (stAlone s)) $ do
    cost <- itemCost (runFabric run)
    seen <- known (runFeed run)
    waiting <- unclaimed (runFabric run)
    let offer = offering settings cost seen s
    wantUpTo (runFeed run) (offerWalk offer)
    if isJust (stAlone s)
      then change run (standIn (runJob run) (offerItems offer))
      else publishMore settings cost (isJust (knownEnd seen)) run offer waiting
    next <- nextIndex . stPieces <$> look run
    when (Just next == (knownCount seen <$ knownEnd seen) && not (stClosed s)) $ do
      closeFabric (runFabric run)
      change run (\st -> st {stClosed = True})
  where
    settings = settingsOf (jobOptions (runJob run)) (jobWorkers (runJob run))

publishMore :: Settings -> Maybe Double -> Bool -> Run a b -> Offer -> Int -> IO ()
publishMore settings cost over run offer waiting = do
  size0 <- stSize <$> look run
  let (chunks, size) = publishing settings (offerChunks offer) (Seen cost Nothing (offerItems offer) over waiting size0)
      handOutAll [] = pure ()
      handOutAll (n : more) = do
        taken <- handOutOne run n
        when taken $ do
          change run (\s -> s {stSize = size})
          handOutAll more
  handOutAll chunks

-- | 'False': no slot is free now.
handOutOne :: Run a b -> Int -> IO Bool
handOutOne run n = do
  first <- nextIndex . stPieces <$> look run
  taken <- publishChunk (runFabric run) (Chunk first n)
  -- Its results are read under the lock that is held now.
  when taken (change run (handedOut n))
  pure taken

-- Workers --------------------------------------------------------------------

-- | Starts as many workers as there is work for that nobody has. The pages of all of
-- them are mapped before the first is forked: while new processes copy pages, start
-- threads and map memory, their parent is slow at the same. Where a birth is refused
-- meanwhile, those pages may hold what it lacks, a descriptor or address space: they are
-- released, it is tried once more, and from then on each maps its own.
--
-- With a large heap a fork takes long: workers that are there already get more to do
-- meanwhile. Not so after a fork that was refused: without any worker the caller would
-- stand in, and what it evaluates would still be on offer to the next worker.
hire :: Run a b -> Int64 -> IO ()
hire run now = do
  holdCores run now
  waiting <- unclaimed (runFabric run)
  busy <- fromMaybe (pure False) (jobBeside (runJob run))
  (count, cores) <- allowed run busy now . wanting (runJob run) (if busy then 1 else 0) waiting now =<< look run
  wanted <- decide run (hiring (runJob run) count)
  modifyIORef' (runCores run) (IntMap.union (IntMap.fromList (zip (drop (length wanted - length cores) (map fst wanted)) cores)))
  ahead <- if takesPages run then regionsFor (length wanted) else pure []
  inTurn (zip wanted (map Just ahead ++ repeat Nothing))
  where
    -- As many as there are to be had.
    regionsFor 0 = pure []
    regionsFor n = do
      region <- try (newRegion (regionMiB (jobOptions (runJob run))))
      either (\e -> [] <$ pure (e :: Unavailable)) (\r -> (r :) <$> regionsFor (n - 1 :: Int)) region
    inTurn [] = pure ()
    inTurn ((worker, pages) : others) = do
      before <- nowNs
      born <- maybe (try (newPages run)) (pure . Right . Just) pages >>= attempted worker
      after <- nowNs
      case born of
        Left _ | any (isJust . snd) others -> do
          released others
          inTurn ((worker, Nothing) : [(later, Nothing) | (later, _) <- others])
        Left e -> leaveCore run (fst worker) >> change run (refused (runJob run) (snd worker) now (why e)) >> inTurn others
        Right () -> do
          when (after - before > longBirth) (handOutMore run) `onException` released others
          inTurn others
    attempted _ (Left e) = pure (Left e)
    attempted (slot, share) (Right region) = do
      born <- try (hireOne run slot share region)
      born <$ when (isLeft born) (traverse_ regionRelease region)
    released others = sequence_ [regionRelease region | (_, Just region) <- others]
    longBirth = 2000000
    why e = fromMaybe (none (e :: SomeException)) (fromException e)
    none e = Unavailable "another worker process" (exceptionText e) "look at `ulimit -u`, `ulimit -n`, memory limits and `maru doctor`"

-- | @allowed run busy now n@: how many of @n@ workers may be born, with a core for each as far as
-- there are any. In the program itself all of them, unless the caller is busy: then it has a core,
-- and those that are left are the workers'. Inside an item of another map the first one needs none
-- where it was left to choose: it has that of its coordinator, which waits for it.
allowed :: Run a b -> Bool -> Int64 -> Int -> IO (Int, [Int])
allowed run busy now n = do
  callersCore run busy
  if n == 0 then pure (0, []) else allowedSome run busy now n

allowedSome :: Run a b -> Bool -> Int64 -> Int -> IO (Int, [Int])
allowedSome run busy now n = do
  crowded <- readIORef (runCrowded run)
  none <- IntMap.null . stDuties <$> look run
  without <- withoutCore run
  let bound = busy || runBounded run
      own = if bound && null without && not busy then 1 else 0
  cores <- if bound && not none && now - crowded < lookAgain then pure [] else takeCores (n - own)
  when (bound && length cores < n - own) (writeIORef (runCrowded run) now)
  pure (if bound then own + length cores else n, cores)

-- | Nanoseconds until idle cores are looked for again: a look costs a system call for each core.
lookAgain :: Int64
lookAgain = 5000000

-- | Workers that were born while other maps had all cores get theirs when these are done: else maps
-- inside them would take those for idle.
holdCores :: Run a b -> Int64 -> IO ()
holdCores run now = do
  -- One has its coordinator's.
  without <- drop (if runBounded run then 1 else 0) <$> withoutCore run
  crowded <- readIORef (runCrowded run)
  unless (null without || now - crowded < lookAgain) $ do
    cores <- takeCores (length without)
    modifyIORef' (runCores run) (IntMap.union (IntMap.fromList (zip without cores)))
    when (length cores < length without) (writeIORef (runCrowded run) now)

-- | The workers that no core is held for. One that is leaving needs none.
withoutCore :: Run a b -> IO [Int]
withoutCore run = do
  held <- readIORef (runCores run)
  filter (`IntMap.notMember` held) . IntMap.keys . IntMap.filter (not . dutyLeaving) . stDuties <$> look run

-- | Held while the caller is busy, as a worker's that has no number.
callersCore :: Run a b -> Bool -> IO ()
callersCore run busy = do
  held <- IntMap.member caller <$> readIORef (runCores run)
  when (busy && not held) $ takeCores 1 >>= traverse_ (modifyIORef' (runCores run) . IntMap.insert caller)
  when (held && not busy) $ leaveCore run caller
  where
    caller = -1

-- | With pages of its own for results; where it is refused they are still there.
hireOne :: Run a b -> Int -> [Int] -> Maybe Region -> IO ()
hireOne run slot share region = do
  pieces <- stPieces <$> look run
  seen <- known (runFeed run)
  link <- openLink (runFabric run) slot
  traverse_ (note run) (linkNotes link)
  let segments = [Segment key (end - key) cells | key <- share, Just (end, cells) <- [pieceAt key pieces]]
      assigned snapshot = assignment run link region snapshot segments (uncurry Cursor (earliest pieces)) (knownCount seen)
  (process, less) <- bear (keptOpen link) (runWorker . assigned) `onException` closeLink link
  traverse_ (note run) less
  filling <- newIORef Nothing
  room <- maybe (pure 0) regionRoom region >>= newIORef
  born <- nowNs
  haveWorkers 1
  modifyIORef' (runWorkers run) (IntMap.insert slot (Worker process link filling region room))
  change run (hired slot [(segmentFirst g, segmentFirst g + segmentCount g) | g <- segments] born)

assignment :: Run a b -> Link -> Maybe Region -> Snapshot -> [Segment a] -> Cursor a -> Int -> Assignment a b
assignment run link region snapshot segments cursor seen =
  Assignment
    { assignedParent = runSelf run,
      assignedParentPidfd = runSelfPidfd run,
      assignedSnapshot = snapshot,
      assignedLink = link,
      assignedRegion = region,
      assignedSharing = sharing options,
      assignedCodec = jobCodec job,
      assignedFunction = jobFunction job,
      assignedLetters = Nothing,
      assignedInitialiser = initialise options,
      assignedSegments = segments,
      assignedCursor = cursor,
      assignedKnown = seen,
      assignedFrom = arrivingFrom <$> jobArriving job,
      assignedNursery = maybe id (\bytes -> min (bytes `div` 4)) memory (64 * 1024 * 1024),
      assignedMemory = memory,
      assignedSiblings = jobWorkers job
    }
  where
    job = runJob run
    options = jobOptions job
    memory = (\mib -> mib * 1024 * 1024 `div` jobWorkers job) <$> memoryMiB options

-- | Whether results are to cross by address.
takesPages :: Run a b -> Bool
takesPages run = isNothing (runByCopy run) && isNothing (jobCodec (runJob run))

-- | Pages for results by address; where they cannot be had, results are copied.
newPages :: Run a b -> IO (Maybe Region)
newPages run
  | not (takesPages run) = pure Nothing
  | otherwise = try (newRegion (regionMiB options)) >>= either refusedPages (pure . Just)
  where
    options = jobOptions (runJob run)
    refusedPages e
      | transport options == ZeroCopy = throwIO (e :: Unavailable)
      | otherwise = Nothing <$ note run ("results cross by copy: " <> show e)
