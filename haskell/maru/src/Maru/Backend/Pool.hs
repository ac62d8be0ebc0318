-- | Workers that stay between calls: the caller's side. /Internal/.
--
-- A call sends the function and the items as they are ("Maru.Backend.Pool.Letter") to workers
-- that were forked before, which claim chunks of them as those of a map do, and write results
-- to their logs as copies.
--
-- This coordinator knows the good case alone. Whatever is out of the ordinary (a worker that
-- dies, an item that cannot be finished there, a letter that cannot be sent) ends the workers
-- concerned and leaves the missing items to a map on fresh forks, with all that it promises.
module Maru.Backend.Pool
  ( Staff,
    hireStaff,
    dismissStaff,
    Terms (..),
    Called (..),
    Results,
    callOn,
    buryLeft,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (rtsSupportsBoundThreads)
import Control.Exception
import Control.Monad (filterM, foldM, void, when)
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import qualified Data.IntSet as IntSet
import Data.Maybe (fromMaybe, isJust)
import Data.Traversable (for)
import Foreign (castPtr)
import Foreign.C (CInt)
import GHC.Exts (Any)
import Maru.Backend.Pool.Letter
import Maru.Backend.Process.Assignment
import Maru.Backend.Process.Birth (bear)
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.Wire
import Maru.Backend.Process.Worker (runWorker)
import Maru.Failure
import Maru.Internal.Engine (idleNs)
import Maru.Native.Channel (nowNs)
import Maru.Native.Letter (codeOf, lettersRefused)
import Maru.Native.Process
import Maru.Native.Region (unpack)
import Maru.Native.Rts (forkHazard, haveWorkers)
import Maru.Options
import System.Posix.Process (getProcessID)
import Unsafe.Coerce (unsafeCoerce)

-- | Workers of one pool, and what they share. Used by one thread at a time.
data Staff = Staff
  { staffFabric :: !Fabric,
    staffBox :: !Box,
    staffSelfPidfd :: !CInt,
    -- | Forks a worker of that number.
    staffBear :: !(Int -> IO Hand),
    staffHands :: !(IORef [Hand]),
    staffCalls :: !(IORef Int),
    staffBefore :: !(IORef Before),
    staffTerms :: !Terms
  }

data Hand = Hand
  { handSlot :: !Int,
    handLink :: !Link,
    handProcess :: !Process,
    handBorn :: !Int64,
    -- | It got through its start.
    handReady :: !(IORef Bool)
  }

-- | What a staff is hired on.
data Terms = Terms
  { termsOptions :: !Options,
    termsWorkers :: !Int,
    -- | Told how it is less than it should be.
    termsNote :: String -> IO (),
    -- | The pool's end has begun: a call that still runs is to be given up.
    termsOver :: IO Bool
  }

-- | When the last call began: what all workers had done. And what it was (the function's code, how
-- many items), and what an item of its like had cost before, where that was measured.
data Before = Before !Work !(Maybe (Word, Int)) !(Maybe Double)

-- | @hireStaff makeFabric terms environment@: workers that inherit the environment.
-- Throws 'Unavailable' where there are none to be had, or letters cannot be sent. Not
-- interruptible.
hireStaff :: (Int -> IO Fabric) -> Terms -> e -> IO Staff
hireStaff makeFabric terms environment = uninterruptibleMask_ $ do
  hazard <- forkHazard
  refused <- lettersRefused
  for_ (hazard <|> refused) $ \why -> throwIO (Unavailable "a pool of workers" why "use parMapM")
  fabric <- makeFabric n
  box <- newBox `onException` freeFabric fabric
  self <- getProcessID
  pidfd <- openPidfd self `onException` (freeBox box >> freeFabric fabric)
  open <- opener box
  hands <- newIORef []
  calls <- newIORef 0
  before <- newIORef (Before (Work 0 0) Nothing Nothing)
  traverse_ (termsNote terms) (fabricNotes fabric)
  let staff = Staff fabric box pidfd (birth fabric box self pidfd open) hands calls before terms
  addHands staff `onException` dismissStaff staff
  pure staff
  where
    options = termsOptions terms
    n = termsWorkers terms
    birth fabric box self pidfd open slot = do
      link <- openLink fabric slot
      (process, less) <- bear (keptOpen link) (runWorker . assigned box self pidfd open link) `onException` closeLink link
      traverse_ (termsNote terms) (linkNotes link <> less)
      haveWorkers 1
      Hand slot link process <$> nowNs <*> newIORef False
    assigned box self pidfd open link snapshot =
      Assignment
        { assignedParent = self,
          assignedParentPidfd = pidfd,
          assignedSnapshot = snapshot,
          assignedLink = link,
          assignedRegion = Nothing,
          assignedSharing = sharing options,
          assignedCodec = Nothing,
          assignedFunction = id :: Any -> Any,
          assignedInitialiser = initialise options,
          assignedSegments = [],
          assignedCursor = Cursor 0 [],
          assignedKnown = 0,
          assignedFrom = Nothing,
          assignedNursery = maybe id (\bytes -> min (bytes `div` 4)) memory (64 * 1024 * 1024),
          assignedMemory = memory,
          assignedSiblings = n,
          assignedLetters = Just (Letters (opening open) (callNumber box) (idleNs options))
        }
    opening open chunk =
      fmap (\(f, xs) -> (unsafeCoerce (f :: Any) environment, xs)) <$> open chunk
    memory = (\mib -> mib * 1024 * 1024 `div` n) <$> memoryMiB options

-- | Workers for the numbers that have none. Where one is refused it goes on with those that there
-- are, and says so. Throws 'Unavailable' where there is none.
addHands :: Staff -> IO ()
addHands staff = uninterruptibleMask_ $ do
  present <- IntSet.fromList . map handSlot <$> readIORef (staffHands staff)
  refused <- adding (filter (`IntSet.notMember` present) [0 .. termsWorkers (staffTerms staff) - 1])
  some <- not . null <$> readIORef (staffHands staff)
  for_ (refusal <$> refused) $ \why ->
    if some then termsNote (staffTerms staff) ("it goes on with fewer workers: " <> show why) else throwIO why
  where
    adding [] = pure Nothing
    adding (slot : more) =
      try (staffBear staff slot) >>= either (pure . Just) (\hand -> modifyIORef' (staffHands staff) (hand :) >> adding more)
    refusal e = fromMaybe (none (e :: SomeException)) (fromException e)
    none e = Unavailable "another worker process" (exceptionText e) "look at `ulimit -u`, `ulimit -n`, memory limits and `maru doctor`"

-- | Ends all of them; nothing is left.
dismissStaff :: Staff -> IO ()
dismissStaff staff = do
  hands <- readIORef (staffHands staff)
  dismissHands staff hands
  freeFabric (staffFabric staff)
  freeBox (staffBox staff)
  closePidfd (staffSelfPidfd staff)

dismissHands :: Staff -> [Hand] -> IO ()
dismissHands staff hands = do
  for_ hands (killNow . handProcess)
  awaitEnds (map handProcess hands)
  for_ hands (endNow . handProcess)
  void (discard staff hands)

-- | They have ended, or will not run again, and were waited for. What they had claimed and not done.
discard :: Staff -> [Hand] -> IO [Chunk]
discard staff gone = do
  chunks <- for gone $ \hand -> do
    haveWorkers (-1)
    (claimed, _) <- unfinished (handLink hand)
    closeLink (handLink hand)
    claimed <$ forget (handProcess hand)
  modifyIORef' (staffHands staff) (filter (\h -> handSlot h `notElem` map handSlot gone))
  pure (concat chunks)

-- | What became of a call.
data Called b
  = -- | All results, by place.
    Done !(Results b)
  | -- | It has not begun, because of this.
    NotSent !String
  | -- | So many results came, then this. The staff is to be dismissed.
    Broken !(Results b) !String

type Results b = IntMap (Either SomeException b)

-- | @callOn staff f xs n@: of @n@ items. An asynchronous exception leaves the staff in the middle
-- of a call: dismiss it then.
callOn :: Staff -> (e -> a -> b) -> [a] -> Int -> IO (Called b)
callOn staff f xs n = do
  manned <- try (replaceDead staff)
  either (\why -> pure (NotSent (show (why :: Unavailable)))) (\() -> callThem staff f xs n) manned

callThem :: Staff -> (e -> a -> b) -> [a] -> Int -> IO (Called b)
callThem staff f xs n = do
  size <- chunkSize <$> foreseen staff f n
  packed <- letter size f xs
  case packed of
    Left why -> pure (NotSent ("it could not be sent: " <> why))
    Right sent -> do
      call <- atomicModifyIORef' (staffCalls staff) (\k -> (k + 1, k + 1))
      posted <- post (staffBox staff) call sent
      case posted of
        Nothing -> pure (NotSent "it could not be sent: more than 64 MiB")
        Just bytes -> do
          taken <- traverse (\first -> publishChunk (staffFabric staff) (Chunk first (min size (n - first)))) [0, size .. n - 1]
          called <- if and taken then collect staff n else pure (Broken IntMap.empty "there was no slot for a chunk")
          called <$ clear (staffBox staff) bytes
  where
    count = termsWorkers (staffTerms staff)
    -- A chunk for each worker to wake up for is worth its while; no more than the crew holds. One
    -- for all only where the last call was the same: else it might be as long as all of them.
    chunkSize (cost, again) = max (max 1 ((n + 4095) `quot` 4096)) $ case (chunking (termsOptions (staffTerms staff)), cost) of
      (Fixed k, _) -> k
      (Guided, Just ns)
        | again && ns * fromIntegral n < 60000 -> n
        | otherwise -> max 1 (min (even' 1) (max (even' 8) (ceiling (20000 / ns))))
      (Guided, Nothing) -> even' 4
    even' k = (n + k * count - 1) `quot` (k * count)

-- | What an item of such a call may cost, by the last call's, and whether that was such a one.
foreseen :: Staff -> f -> Int -> IO (Maybe Double, Bool)
foreseen staff f n = do
  Before (Work items ns) last' cost <- readIORef (staffBefore staff)
  now@(Work items' ns') <- workDone (staffFabric staff)
  code <- codeOf f
  let again = last' == Just (code, n)
      -- What was done last may not be counted yet.
      known = meanCost (Work (items' - items) (ns' - ns)) <|> cost
  writeIORef (staffBefore staff) (Before now (Just (code, n)) (if again then known else Nothing))
  pure (known, again)

-- | Those that have left since the last call, and those that were refused before it. Throws
-- 'Unavailable' where none is left.
replaceDead :: Staff -> IO ()
replaceDead staff = uninterruptibleMask_ (buryLeft staff >> addHands staff)

-- | Those that have left are reaped, and what is held of them goes. How many stay. Between two calls; not
-- interruptible.
buryLeft :: Staff -> IO Int
buryLeft staff = uninterruptibleMask_ $ do
  gone <- readIORef (staffHands staff) >>= filterM ended
  _ <- discard staff gone
  length <$> readIORef (staffHands staff)

-- | It has, and was waited for.
ended :: Hand -> IO Bool
ended hand = isJust <$> reap (handProcess hand)

-- | Waits until all results are there, or something goes wrong. Workers that were leaving for want of
-- calls when this one came are replaced, once.
collect :: Staff -> Int -> IO (Called b)
collect staff n = nowNs >>= loop True IntMap.empty
  where
    fabric = staffFabric staff
    loop first got looked = do
      news <- newsSeen fabric
      hands <- readIORef (staffHands staff)
      (got', trouble) <- foldM (readHand n) (got, Nothing) hands
      now <- nowNs
      over <- termsOver (staffTerms staff)
      stuck <- filterM (unstarted now) hands
      if IntMap.size got' >= n
        then pure (Done got')
        else case trouble of
          Just why -> pure (Broken got' why)
          Nothing
            | over -> pure (Broken got' "the pool's scope ended during a call")
            | null hands -> pure (Broken got' "no worker is left")
            | not (null stuck) -> do
              -- They have claimed nothing yet: the others do it all.
              uninterruptibleMask_ (dismissHands staff stuck)
              termsNote (staffTerms staff) "a worker did not get through its start within 10 s and was ended"
              loop first got' looked
            | now - looked < 20000000 -> wait first got' looked news now
            | otherwise -> do
              (got'', why, gone) <- uninterruptibleMask_ $ do
                (got'', why, gone) <- lastWords got' hands
                refused <- if isJust why || null gone || not first then pure Nothing else again
                pure (got'', why <|> refused, gone)
              maybe (wait (first && null gone) got'' now news now) (pure . Broken got'') why
    wait first got looked news now = do
      awaitNews fabric news (now + slice)
      allowInterrupt
      loop first got looked
    again = either (\e -> Just (show (e :: Unavailable))) (const Nothing) <$> try (addHands staff)
    -- It may have inherited a lock that a thread held which is not there.
    unstarted now hand
      | now - handBorn hand < 10000000000 = pure False
      | otherwise = not <$> readIORef (handReady hand)
    -- What the dead have written counts. One that had nothing to do is not missed.
    lastWords got hands = do
      dead <- filterM ended hands
      (got', trouble) <- foldM (readHand n) (got, Nothing) dead
      left <- discard staff dead
      let lost = or [IntMap.notMember i got' | Chunk from count <- left, i <- [from .. from + count - 1]]
      pure (got', trouble <|> (if lost then Just "a worker died" else Nothing), dead)
    slice = if rtsSupportsBoundThreads then 50000000 else 2000000 :: Int64

-- | All that it has written.
readHand :: Int -> (Results b, Maybe String) -> Hand -> IO (Results b, Maybe String)
readHand n before hand = go before False
  where
    go (got, trouble) some = do
      next <- nextRecordOf (handLink hand)
      case next of
        Nothing -> (got, trouble) <$ if some then recordsRead (handLink hand) else pure ()
        Just r -> do
          when (kindOf (recordKind r) == Just Ready) (writeIORef (handReady hand) True)
          said <- heard (handSlot hand) r
          let i = recordIndex r
          go
            ( case said of
                Result result | i >= 0 && i < n -> (IntMap.insert i result got, trouble)
                Result _ -> (got, Just "a worker sent a result of no item")
                Other -> (got, trouble)
                Trouble why -> (got, Just why)
            )
            True

data Said b = Result !(Either SomeException b) | Other | Trouble !String

heard :: Int -> Record -> IO (Said b)
heard slot r = case kindOf (recordKind r) of
  Just Compacted -> do
    value <- unpack (castPtr (recordChunk r)) (recordLength r)
    pure (maybe (Trouble "a result could not be relocated") (Result . Right) value)
  Just Threw -> Result . Left <$> (copied >>= unpackException i slot)
  Just Refused -> Result . Left . toException . Untransferable i . unpackText <$> copied
  Just Ready -> pure Other
  Just Initialised -> pure Other
  Just InitialiserThrew -> pure (Trouble "a worker's initialiser threw")
  Just Retired -> Trouble . ("a worker left: " <>) . unpackText <$> copied
  Just _ -> Trouble . unpackText <$> copied
  Nothing -> pure (Trouble "a worker's channel holds a record of unknown kind")
  where
    i = recordIndex r
    copied = Unsafe.unsafePackCStringLen (castPtr (recordChunk r), recordLength r) >>= evaluate . Strict.copy
