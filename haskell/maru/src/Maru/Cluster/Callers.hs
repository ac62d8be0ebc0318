-- | Connections to rank 0 of which nobody knows yet whose they are. /Internal/.
--
-- Any process that reaches the listener may open some. Each takes a descriptor until it is greeted or
-- closed. So only so many are held: then, and where no descriptor is left, the oldest goes.
module Maru.Cluster.Callers
  ( Callers,
    newCallers,
    greetNext,
    sendAway,
    whyNone,
  )
where

import Control.Concurrent (forkIOWithUnmask, threadDelay, threadWaitRead)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Word (Word64)
import Foreign.C (CInt)
import GHC.Clock (getMonotonicTimeNSec)
import Maru.Cluster.Frame
import Maru.Native.Ranks (acceptRank)
import System.Timeout (timeout)

-- | Of one listener.
data Callers = Callers
  { callersListener :: !CInt,
    -- | So many are held at most.
    callersMost :: !Int,
    -- | Those that are there, the oldest first, and since when. A thread that holds the table may hang
    -- up on one. The one's own thread takes it out and closes it.
    callersThere :: !(MVar (IntMap (Word64, Wire))),
    callersCame :: !(IORef Int),
    callersRefused :: !(IORef (Maybe String))
  }

-- | Nobody yet, at that listener. So many are wanted: there is room for them beside as many strangers as the nodes of a
-- job hold (@native/dsm/join.h@).
newCallers :: CInt -> Int -> IO Callers
newCallers listener wanted = Callers listener (wanted + 256) <$> newMVar IntMap.empty <*> newIORef 0 <*> newIORef Nothing

-- | Why one could not be taken, if that happened.
whyNone :: Callers -> IO (Maybe String)
whyNone = readIORef . callersRefused

-- | Waits for one, which a thread of its own greets. The wire of one that is greeted is the second
-- action's; any other's is closed.
greetNext :: Callers -> (Wire -> IO (Maybe a)) -> (Wire -> a -> IO ()) -> IO ()
greetNext callers greet use = do
  threadWaitRead (fromIntegral (callersListener callers))
  full <- (>= callersMost callers) . IntMap.size <$> readMVar (callersThere callers)
  if full then closeOldest callers >> later else mask_ (acceptRank (callersListener callers) >>= either refused begin)
  where
    -- Another try does not come at once.
    later = threadDelay 10000
    -- Nobody after all, or no descriptor is left.
    refused why = do
      for_ why $ \text -> writeIORef (callersRefused callers) (Just text) >> closeOldest callers
      later
    begin fd = do
      writeIORef (callersRefused callers) Nothing
      wire <- wireOn fd
      number <- come callers wire
      void $
        forkIOWithUnmask $ \unmask -> do
          greeted <- either nobody id <$> try (unmask (greet wire))
          go callers number (maybe (closeWire wire) (const (pure ())) greeted)
          traverse_ (unmask . use wire) greeted
    nobody :: SomeException -> Maybe a
    nobody _ = Nothing

-- | One more; its number.
come :: Callers -> Wire -> IO Int
come callers wire = do
  number <- atomicModifyIORef' (callersCame callers) (\n -> (n + 1, n))
  now <- getMonotonicTimeNSec
  number <$ modifyMVar_ (callersThere callers) (pure . IntMap.insert number (now, wire))

-- | That one is none of them any more. Nobody hangs up on it while the action is run.
go :: Callers -> Int -> IO () -> IO ()
go callers number act = modifyMVar_ (callersThere callers) (\there -> IntMap.delete number there <$ act)

-- | Unless it came just now: one that is wanted has spoken in that time.
closeOldest :: Callers -> IO ()
closeOldest callers = do
  now <- getMonotonicTimeNSec
  withMVar (callersThere callers) $ \there ->
    for_ (IntMap.lookupMin there) $ \(_, (since, wire)) -> when (now - since >= youngNs) (hangUp wire)

-- | All of them, before it returns.
sendAway :: Callers -> IO ()
sendAway callers = do
  withMVar (callersThere callers) (traverse_ (hangUp . snd))
  void (timeout 2000000 none)
  where
    none = do
      left <- readMVar (callersThere callers)
      unless (IntMap.null left) (threadDelay 1000 >> none)

youngNs :: Word64
youngNs = 2000000000
