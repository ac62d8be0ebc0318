{-# LANGUAGE RankNTypes #-}

-- | The simple actor model: actors that share nothing and send each other messages.
--
-- > import Maru
-- > import Maru.Actor
-- >
-- > main :: IO ()
-- > main = withMailbox $ \answers ->
-- >   withActor Shm (squares (address answers)) $ \actor -> do
-- >     mapM_ (send (actorAddress actor)) [1 .. 10 :: Int]
-- >     monitor actor (address answers) (Left . show)
-- >     mapM_ (\_ -> receive answers >>= print) [1 .. 10 :: Int]
-- >   where
-- >     squares to inbox = receive inbox >>= \n -> send to (Right (n * n) :: Either String Int) >> squares to inbox
--
-- An actor is a thread ('Stm') or a forked process ('Shm', 'Sockets') with a mailbox. It is
-- spawned with all that its behaviour has captured, addresses of mailboxes included. An address
-- can be a message, or part of one. A process and its descendants reach each other.
--
-- __Law.__ A program has the same behaviours on each of the three. Messages of one thread to one
-- mailbox arrive in the order in which they were sent, each once, and whole. Those to a mailbox
-- that is gone are dropped. A message is evaluated by 'send': what evaluation throws, 'send'
-- throws.
--
-- __Death is a message.__ A 'receive' waits as long as it takes: a sender may always come. So ask
-- for the end of an actor as a message to the same mailbox ('monitor'). It arrives after all that
-- the actor itself had sent there. Where no other process is left, and no thread that could go on,
-- the collector sees that, and 'receive' throws 'Unavailable'. Where an actor ends by that, who waits
-- for its end gets it.
--
-- __Processes.__ A process actor has what the program had in memory when it was spawned; later
-- changes on one side do not show on the other. Evaluate what its behaviour captures before
-- 'spawn': where it waits for what a thread of the parent was computing just then, in a foreign
-- call or asleep, it ends as 'Stuck'. Descriptors and Handles that were open cannot be read there,
-- but 'System.IO.stdout' and 'System.IO.stderr' can be written. It needs @-threaded@. Interrupts of
-- the terminal are its parent's to handle. It dies with its parent, however that dies.
--
-- __Cost.__ Mailboxes have no bound. 'Shm' copies a message into shared memory once, and once out
-- of it; its logs have room for 64 GiB each way, all later messages go through a socket. Between
-- two children of one process, messages pass through that process.
module Maru.Actor
  ( -- * Mailboxes
    Mailbox,
    Address,
    withMailbox,
    address,
    send,
    receive,
    receiveWithin,

    -- * Actors
    Actor,
    actorAddress,
    withActor,
    spawn,
    stop,

    -- * Endings
    Ending (..),
    awaitEnding,
    monitor,
  )
where

import Control.Concurrent
import Control.Concurrent.STM
import Control.Exception
import Control.Monad
import Data.Binary (Binary (..))
import qualified Data.Binary as Binary
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import Data.Foldable (for_, traverse_)
import Data.IORef
import Maru.Actor.Node
import Maru.Actor.Process
import Maru.Codec (Codec (..), binary)
import Maru.Failure
import Maru.Internal.Attempt (textOf)
import Maru.Internal.Normal (normalised)
import Maru.Options (Backend (..))
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

-- Mailboxes --------------------------------------------------------------------

-- | Messages that have arrived, oldest first. Of the process that made it. Any thread of that
-- may receive.
data Mailbox a = Mailbox !(Address a) !(Queue a)

-- | What a mailbox holds.
data Queue a = Queue
  { -- | 'Nothing': the mailbox is gone. An address that is still held does not keep what was in it.
    queueArrived :: !(TVar (Maybe (TQueue (Arrived a)))),
    -- | How many monitors will send there.
    queueMonitors :: !(IORef Int)
  }

-- | Where others send. O(1).
address :: Mailbox a -> Address a
address (Mailbox to _) = to

-- | From this process, or from another one.
data Arrived a = Here a | Sent !Bytes.ByteString

-- | Of one mailbox, in any process. It means nothing outside of the program's own run.
data Address a = Address !Path !Int !(Maybe (Queue a))

instance Eq (Address a) where
  Address p n _ == Address q m _ = (p, n) == (q, m)

instance Ord (Address a) where
  compare (Address p n _) (Address q m _) = compare (p, n) (q, m)

instance Show (Address a) where
  showsPrec _ (Address path n _) = showString "mailbox " . shows n . showString " of process " . shows path

instance Binary (Address a) where
  put (Address path n _) = put (path, n)
  get = (\(path, n) -> Address path n Nothing) <$> get

-- | A mailbox for as long as the action takes.
withMailbox :: (Mailbox a -> IO r) -> IO r
withMailbox act = do
  node <- self
  bracket (freshNumber node >>= newMailbox node) (closeMailbox node) act

newMailbox :: Node -> Int -> IO (Mailbox a)
newMailbox node number = do
  queue <- Queue <$> (newTQueueIO >>= newTVarIO . Just) <*> newIORef 0
  openBox node number (deliver queue . Sent)
  pure (Mailbox (Address (nodePath node) number (Just queue)) queue)

closeMailbox :: Node -> Mailbox a -> IO ()
closeMailbox node (Mailbox (Address _ number _) queue) = closeBox node number >> atomically (writeTVar (queueArrived queue) Nothing)

-- | Drops it where the mailbox is gone.
deliver :: Queue a -> Arrived a -> IO ()
deliver queue message = atomically (readTVar (queueArrived queue) >>= traverse_ (`writeTQueue` message))

-- | Returns when the message is on its way: in the mailbox, if that is this process's. It waits
-- for room only where a process on the way is stopped (@kill -STOP@), and not interruptibly.
-- Throws 'Unavailable' where no way leads to the mailbox: in a process that was forked otherwise
-- than by 'spawn'.
send :: Binary a => Address a -> a -> IO ()
send (Address path number queue) message = do
  node <- self
  case queue of
    Just q | path == nodePath node -> evaluate (normalised id message) >>= deliver q . Here
    _ -> evaluate (Lazy.toStrict (Binary.encode message)) >>= route node path number

-- | Waits for a message. In another process than the mailbox's, where the mailbox is gone, and where
-- nobody is left who could send: throws 'Unavailable'. An asynchronous exception (@timeout@, @killThread@)
-- that ends the wait, or the decoding of a message, leaves that message in the mailbox. Take
-- 'receiveWithin' for a time limit: @timeout@ may still come between the message and its receiver.
receive :: Binary a => Mailbox a -> IO a
receive mailbox = do
  queue <- queueOf mailbox
  mask $ \restore -> (waitFor (patience queue) (arrivals queue >>= readTQueue) `catch` deserted) >>= opened queue restore
  where
    patience queue = (\monitors -> if monitors > 0 then 2 else 0) <$> readIORef (queueMonitors queue)
    deserted BlockedIndefinitelyOnSTM = do
      self >>= step
      throwIO (Unavailable "a message" "nobody is left who could send one" "keep an address of the mailbox where messages come from, or ask for an ending by monitor")

-- | The same; waits so many seconds at most. 0: takes what is there.
receiveWithin :: Binary a => Double -> Mailbox a -> IO (Maybe a)
receiveWithin limit mailbox = do
  queue <- queueOf mailbox
  mask $ \restore -> do
    there <- atomically (arrivals queue >>= tryReadTQueue)
    arrived <- maybe (if limit > 0 then waiting queue else pure Nothing) (pure . Just) there
    traverse (opened queue restore) arrived
  where
    -- Looks at the end of the time, and once more at the queue, in one transaction: a message that
    -- is taken is not lost.
    waiting queue = do
      over <- newTVarIO False
      let micros = ceiling (min 1e12 (limit * 1e6))
      bracket (forkIO (threadDelay micros >> atomically (writeTVar over True))) killThread $ \_ ->
        atomically ((Just <$> (arrivals queue >>= readTQueue)) `orElse` (Nothing <$ (readTVar over >>= check)))

arrivals :: Queue a -> STM (TQueue (Arrived a))
arrivals queue = readTVar (queueArrived queue) >>= maybe (throwSTM gone) pure
  where
    gone = Unavailable "this mailbox" "its withMailbox, or the behaviour that had it, has ended" "receive before that"

-- | The collector tells all who wait for each other at once that they wait in vain. Yet one of them may go
-- on for that, and others for what it does. So this one waits on, until it was told so many times more
-- without a step between. A step may be counted only after the next look: two make sure. On a busy machine
-- it runs long after it was told: what it waits for may be there by then.
waitFor :: IO Int -> STM a -> IO a
waitFor patience look = go 0 (-1)
  where
    go vain before = try (atomically look) >>= either (\BlockedIndefinitelyOnSTM -> told vain before) pure
    told vain before = do
      now <- self >>= steps
      most <- patience
      there <- atomically ((Just <$> look) `orElse` pure Nothing)
      let again = if now == before then vain else 0
          goOn = if again >= most then throwIO BlockedIndefinitelyOnSTM else go (again + 1) now
      maybe goOn pure there

queueOf :: Mailbox a -> IO (Queue a)
queueOf (Mailbox (Address path _ _) queue) = do
  node <- self
  unless (path == nodePath node) . throwIO $
    Unavailable "this mailbox" "it belongs to the process that made it" "receive there, or make one here"
  pure queue

-- | Masked; decoding can be interrupted. A message that was taken, and is not decoded for that, comes first again.
opened :: Binary a => Queue a -> (forall r. IO r -> IO r) -> Arrived a -> IO a
opened _ _ (Here message) = pure message
opened queue restore arrived@(Sent bytes) = (restore (evaluate (decode binary bytes)) `catch` back) >>= either damaged pure
  where
    back e = do
      -- What its instance throws is no interruption: it would throw again, for ever.
      for_ (fromException e) $ \SomeAsyncException {} ->
        atomically (readTVar (queueArrived queue) >>= traverse_ (`unGetTQueue` arrived))
      throwIO (e :: SomeException)
    damaged why = throwIO (Unavailable "a message" ("its bytes are not what its type encodes to: " <> why) "mend its Binary instance")

-- Actors -----------------------------------------------------------------------

-- | Belongs to the process that spawned it.
data Actor a = Actor
  { -- | Of the mailbox that its behaviour gets.
    actorAddress :: !(Address a),
    actorParent :: !ProcessID,
    actorEnding :: !(TMVar Ending),
    actorStop :: !(IO ())
  }

-- | An actor that is stopped when the action ends.
withActor :: Binary a => Backend -> (Mailbox a -> IO ()) -> (Actor a -> IO r) -> IO r
withActor medium behaviour = bracket (spawn medium behaviour) stop

-- | A new actor: a thread ('Stm'), or a process that is reached through shared memory ('Shm') or a
-- socket ('Sockets'). Throws 'BadOptions' for another back end, and 'Unavailable' where no process
-- can be had: see 'Maru.Pool' and @maru doctor@.
spawn :: Binary a => Backend -> (Mailbox a -> IO ()) -> IO (Actor a)
spawn medium behaviour = case medium of
  Stm -> inThread behaviour
  Shm -> inProcess True behaviour
  Sockets -> inProcess False behaviour
  _ -> throwIO (BadOptions ("an actor cannot live on " <> show medium <> "; give Stm, Shm or Sockets"))

inThread :: (Mailbox a -> IO ()) -> IO (Actor a)
inThread behaviour = mask_ $ do
  node <- self
  end <- newEmptyTMVarIO
  mailbox <- freshNumber node >>= newMailbox node
  thread <- forkIOWithUnmask $ \unmask -> do
    result <- try (unmask (behaviour mailbox))
    closeMailbox node mailbox
    either endedBy (const (pure Returned)) result >>= atomically . putTMVar end
    step node
  pure (Actor (address mailbox) (nodeProcess node) end (throwTo thread StopActor))

inProcess :: Bool -> (Mailbox a -> IO ()) -> IO (Actor a)
inProcess shared behaviour = mask_ $ do
  node <- self
  end <- newEmptyTMVarIO
  child <- startProcess shared node (atomically . putTMVar end) $ \inner ->
    behaviour <$> (freshNumber inner >>= newMailbox inner)
  pure (Actor (Address (childPath child) 0 Nothing) (nodeProcess node) end (stopProcess child))

data StopActor = StopActor
  deriving (Show)

instance Exception StopActor where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

endedBy :: SomeException -> IO Ending
endedBy e = case fromException e of
  Just StopActor -> pure Stopped
  Nothing -> Threw <$> textOf e

-- | Ends it where it is, and waits for that: a process is killed, a thread gets an asynchronous
-- exception, and holds up 'stop' until it has handled it. Messages that it has sent arrive. One that
-- has ended by itself is told as such. In another process than its parent: throws 'Unavailable'.
stop :: Actor a -> IO ()
stop actor = do
  ended <- atomically . (not <$>) . isEmptyTMVar =<< endingOf actor
  unless ended (actorStop actor >> void (awaitEnding actor))

-- | How it ended; waits until it has. In another process than its parent: throws 'Unavailable'.
awaitEnding :: Actor a -> IO Ending
awaitEnding actor = endingOf actor >>= ending

-- | It outlasts a 'receive': an actor that gives up there ends.
ending :: TMVar Ending -> IO Ending
ending = waitFor (pure 3) . readTMVar

-- | When the actor ends, or if it has, that message is sent there.
monitor :: Binary m => Actor a -> Address m -> (Ending -> m) -> IO ()
monitor actor to@(Address _ _ queue) message = do
  end <- endingOf actor
  count 1
  void . forkIO $ (ending end >>= send to . message) `finally` count (-1)
  where
    count n = for_ queue $ \q -> atomicModifyIORef' (queueMonitors q) (\m -> (m + n, ()))

endingOf :: Actor a -> IO (TMVar Ending)
endingOf actor = do
  pid <- getProcessID
  unless (pid == actorParent actor) . throwIO $
    Unavailable "the end of an actor" "another process has spawned it" "ask there, and send the answer"
  pure (actorEnding actor)
