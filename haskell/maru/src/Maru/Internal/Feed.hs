-- | Walks the spine of an input list ahead of its consumer, in a thread of its
-- own: a spine that blocks or throws late never delays a result that is ready.
-- /Internal/.
module Maru.Internal.Feed
  ( Feed,
    Known (..),
    End (..),
    startFeed,
    known,
    wantUpTo,
    leaveFeed,
    stopFeed,
    endSoon,
  )
where

import Control.Concurrent (MVar, ThreadId, forkIO, forkIOWithUnmask, killThread, newEmptyMVar, takeMVar, threadDelay, tryPutMVar)
import Control.Exception (SomeException, evaluate, try)
import Control.Monad (unless, void, when)
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import GHC.Conc (ThreadStatus (..), threadStatus)
import Maru.Native.Rts (fence)

-- | How the input ends.
data End
  = Complete
  | -- | Evaluating the rest of the spine threw this.
    Broken SomeException

-- | What has been seen of the input.
data Known = Known
  { -- | That many cells exist.
    knownCount :: !Int,
    -- | Set once there are no more.
    knownEnd :: !(Maybe End)
  }

data Feed = Feed
  { feedKnown :: !(IORef Known),
    feedGoal :: !(IORef Int),
    feedWake :: !(MVar ()),
    feedThread :: !ThreadId
  }

-- | @startFeed xs notify@: nothing is walked until 'wantUpTo'; @notify@ is
-- called after each step, when the step can be seen by whoever looks from then on.
startFeed :: [a] -> IO () -> IO Feed
startFeed xs notify = do
  seen <- newIORef (Known 0 Nothing)
  goal <- newIORef 0
  wake <- newEmptyMVar
  let walk n cells = do
        limit <- readIORef goal
        unless (limit < 0) $
          if n >= limit then takeMVar wake >> walk n cells else step n cells
      step n cells = do
        cell <- try (evaluate cells)
        case cell of
          Right (_ : rest) -> tell (Known (n + 1) Nothing) >> walk (n + 1) rest
          Right [] -> tell (Known n (Just Complete))
          Left e -> tell (Known n (Just (Broken e)))
      -- What @notify@ reads comes after it.
      tell now = writeIORef seen now >> fence >> notify
  thread <- forkIOWithUnmask (\unmask -> unmask (walk (0 :: Int) xs))
  pure (Feed seen goal wake thread)

known :: Feed -> IO Known
known = readIORef . feedKnown

-- | Walk until so many cells are known. Never lowers the goal.
wantUpTo :: Feed -> Int -> IO ()
wantUpTo feed n = do
  before <- readIORef (feedGoal feed)
  -- A goal below zero is the end.
  when (before >= 0 && n > before) $ do
    writeIORef (feedGoal feed) n
    void (tryPutMVar (feedWake feed) ())

-- | The walk ends with the cell that it is at; idempotent. Nothing is thrown there: a handler in what
-- computes the cell would throw it again, as an exception of the list, for all who hold it.
leaveFeed :: Feed -> IO ()
leaveFeed feed = do
  writeIORef (feedGoal feed) (-1)
  void (tryPutMVar (feedWake feed) ())

-- | 'leaveFeed', and 'endSoon' by a thread beside.
stopFeed :: Feed -> IO ()
stopFeed feed = do
  leaveFeed feed
  void (forkIO (endSoon (feedThread feed)))

-- | Ends a walker that was told to leave and computes a cell at one of ten looks, a second apart: it may do so for
-- ever. One that waits inside the input then (for a file, a socket, a clock) is not
-- interrupted but leaves afterwards. An exception thrown there could stay in the cell, which
-- others may hold too.
endSoon :: ThreadId -> IO ()
endSoon walker = look (10 :: Int)
  where
    look left = do
      status <- threadStatus walker
      unless (left == 0 || status == ThreadFinished || status == ThreadDied) $ do
        threadDelay 1000000
        late <- threadStatus walker
        if late == ThreadRunning then killThread walker else look (left - 1)
