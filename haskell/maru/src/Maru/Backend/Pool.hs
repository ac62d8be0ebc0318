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
    Called (..),
    Results,
    callOn,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (rtsSupportsBoundThreads)
import Control.Exception
import Control.Monad (filterM, foldM, unless, void)
import qualified Data.ByteString as Strict
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (isJust)
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
import Maru.Native.Channel (nowNs)
import Maru.Native.Letter (lettersRefused)
import Maru.Native.Process
import Maru.Native.Region (unpack)
import Maru.Native.Rts (forkHazard)
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
    staffCalls :: !(IORef Int)
  }

data Hand = Hand {handSlot :: !Int, handLink :: !Link, handProcess :: !Process}

-- | @hireStaff makeFabric options n environment@: so many workers that inherit the environment.
-- Throws 'Unavailable' where there are none to be had, or letters cannot be sent. Not
-- interruptible.
hireStaff :: (Int -> IO Fabric) -> Options -> Int -> e -> IO Staff
hireStaff makeFabric options n environment = uninterruptibleMask_ $ do
  hazard <- forkHazard
  refused <- lettersRefused
  for_ (hazard <|> refused) $ \why -> throwIO (Unavailable "a pool of workers" why "use parMapM")
  fabric <- makeFabric n
  box <- newBox `onException` freeFabric fabric
  self <- getProcessID
  pidfd <- openPidfd self
  open <- opener box
  hands <- newIORef []
  calls <- newIORef 0
  let staff = Staff fabric box pidfd (birth fabric self pidfd open) hands calls
  traverse_ (addHand staff) [0 .. n - 1] `catch` \e -> do
    -- With some of them it goes on, slower.
    some <- readIORef hands
    if null some then dismissStaff staff >> throwIO (refusal e) else pure ()
  pure staff
  where
    refusal e = case fromException e of
      Just why -> why
      Nothing -> Unavailable "another worker process" (displayException (e :: SomeException)) "look at `ulimit -u`, `ulimit -n`, memory limits and `maru doctor`"
    birth fabric self pidfd open slot = do
      link <- openLink fabric slot
      Hand slot link . fst <$> bear link (runWorker . assigned self pidfd open link)
    assigned self pidfd open link snapshot =
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
          assignedNursery = maybe id (\bytes -> min (bytes `div` 4)) memory (64 * 1024 * 1024),
          assignedMemory = memory,
          assignedSiblings = n,
          assignedLetters = Just (Letters (opening open) (round (idleSeconds options * 1e9)))
        }
    opening open chunk =
      fmap (\(f, xs) -> (unsafeCoerce (f :: Any) environment, xs)) <$> open chunk
    memory = (\mib -> mib * 1024 * 1024 `div` n) <$> memoryMiB options

addHand :: Staff -> Int -> IO ()
addHand staff slot = do
  hand <- staffBear staff slot
  modifyIORef' (staffHands staff) (hand :)

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
  unless (null hands) (awaitEnds (map handProcess hands) endsMs)
  for_ hands (\hand -> reapWait (handProcess hand) endsMs)
  void (discard staff hands)
  where
    endsMs = 5000

-- | They have ended and were waited for.
--
-- What they had claimed and not done.
discard :: Staff -> [Hand] -> IO [Chunk]
discard staff gone = do
  chunks <- for gone $ \hand -> do
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

-- | @callOn staff count sizes f xs n@: of @n@ items, for so many workers. An asynchronous exception leaves the staff
-- in the middle of a call: dismiss it then.
callOn :: Staff -> Int -> Chunking -> (e -> a -> b) -> [a] -> Int -> IO (Called b)
callOn staff count sizes f xs n = do
  replaceDead staff
  size <- chunkSize <$> itemCost (staffFabric staff)
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
    -- A chunk for each worker to wake up for is worth its while; no more than the crew holds.
    chunkSize cost = max (max 1 ((n + 4095) `quot` 4096)) $ case (sizes, cost) of
      (Fixed k, _) -> k
      (Guided, Just ns)
        | ns * fromIntegral n < 60000 -> n
        | otherwise -> max 1 (min (even' 1) (max (even' 8) (ceiling (20000 / ns))))
      (Guided, Nothing) -> even' 4
    even' k = (n + k * count - 1) `quot` (k * count)

-- | Those that have left since the last call.
replaceDead :: Staff -> IO ()
replaceDead staff = uninterruptibleMask_ $ do
  hands <- readIORef (staffHands staff)
  gone <- filterM ended hands
  _ <- discard staff gone
  traverse_ (addHand staff . handSlot) gone

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
      if IntMap.size got' >= n
        then pure (Done got')
        else case trouble of
          Just why -> pure (Broken got' why)
          Nothing
            | null hands -> pure (Broken got' "no worker is left")
            | now - looked < 20000000 -> wait first got' looked news now
            | otherwise -> do
              (got'', lost, gone) <- uninterruptibleMask_ $ do
                found@(_, lost, gone) <- lastWords got' hands
                found <$ unless (lost || not first) (traverse_ again gone)
              if lost then pure (Broken got'' "a worker died") else wait (first && null gone) got'' now news now
    wait first got looked news now = do
      awaitNews fabric news (now + slice)
      allowInterrupt
      loop first got looked
    -- One that cannot be born is not needed, unless none is left.
    again slot = addHand staff slot `catch` \e -> const (pure ()) (e :: SomeException)
    -- What the dead have written counts. One that had nothing to do is not missed.
    lastWords got hands = do
      dead <- filterM ended hands
      (got', _) <- foldM (readHand n) (got, Nothing) dead
      left <- discard staff dead
      pure (got', or [IntMap.notMember i got' | Chunk from count <- left, i <- [from .. from + count - 1]], map handSlot dead)
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
  Just _ -> Trouble . unpackText <$> copied
  Nothing -> pure (Trouble "a worker's channel holds a record of unknown kind")
  where
    i = recordIndex r
    copied = Unsafe.unsafePackCStringLen (castPtr (recordChunk r), recordLength r) >>= evaluate . Strict.copy
