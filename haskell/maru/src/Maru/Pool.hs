-- | Workers that stay between calls.
--
-- > import Maru
-- > import Maru.Pool
-- >
-- > kmeans :: Array Int [Point] -> Centroids -> IO Centroids
-- > kmeans chunks start = withPool defaultOptions chunks (\pool -> rounds pool 100 start)
-- >   where
-- >     rounds _ 0 centroids = pure centroids
-- >     rounds pool n centroids = do
-- >       parts <- poolMap pool (\cs i -> assign centroids (cs ! i)) (indices chunks)
-- >       rounds pool (n - 1) $!! update parts
--
-- A call of 'Maru.parMapM' forks its workers. A pool forks them once; a call sends them what
-- they lack: the function with what it has captured, and the items. What all calls share, and
-- is large, is the pool's /environment/: workers inherit it, and it is never sent.
--
-- __Law.__ @poolMap pool f xs@ has the value and the exceptions of
-- @'Maru.parMapM' options (f environment) xs@.
--
-- __What is sent__ is sent as it is, without evaluating it: data, functions with their captured
-- variables, unevaluated thunks. A thunk that several workers demand is evaluated by each:
-- evaluate what a function captures before the call. Not sent is what means nothing in
-- another process: an 'Data.IORef.IORef', an 'Control.Concurrent.MVar.MVar', memory from
-- @malloc@; what a thread is evaluating just now; a function or a chunk of items above
-- 16 MiB. Such a call is made by freshly forked workers, as by 'Maru.parMapM', and
-- 'poolReport' says so. So is every call of a program whose results cross by copy: one built
-- with a GHC that is not listed, for profiling, or with a shared run-time system.
--
-- __What a worker sees.__ The program as it was when the worker was born. A global variable
-- (an @IORef@ at top level, by @unsafePerformIO@) that the caller has changed since has its old
-- value there. A function that is pure cannot tell. For one that is not, use 'Maru.parMapM'.
--
-- __Life.__ Workers are born at the first call. They wait without spinning and leave after
-- 'idleSeconds' without a call; the next call forks them again. All of them are gone when
-- 'withPool' returns or throws, and when the caller dies, however it does. Those that have left are
-- reaped within seconds, calls or not. A worker that has
-- made a major collection leaves too, after its chunk: a later function might mean what was
-- freed there. So an initialiser must not make one (@performMajorGC@, gigabytes of garbage): all
-- calls would be made by freshly forked workers, and 'poolReport' would say so.
--
-- __Failure.__ When a worker dies, or an item cannot be finished in one (see
-- "Maru", 'Policy'), the items without a result are mapped by freshly forked workers. There
-- the policy decides. An exception thrown at the caller ends the workers. Where the system
-- refuses a worker, calls go on with fewer; the next call asks again.
module Maru.Pool
  ( Pool,
    withPool,
    poolMap,
    poolReport,
    PoolReport (..),
  )
where

import Control.Concurrent (ThreadId, forkIOWithUnmask, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forever, unless, when)
import Data.IORef
import Data.Int (Int64)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe)
import Maru.Backend.Pool
import qualified Maru.Backend.Shm as Shm
import Maru.Failure
import Maru.Internal.Budget (insideWorker, resolveWorkers, shareMachine)
import Maru.Internal.Cores (giveCores, takeCores)
import Maru.Internal.Engine
import Maru.Internal.Start (checkOptions)
import Maru.Native.Channel (nowNs)
import Maru.Options
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

-- | Workers that have an @e@. Calls of several threads follow each other.
data Pool e = Pool
  { poolOptions :: !Options,
    poolSize :: !Int,
    -- | Cores that a call takes, as far as they are idle.
    poolCores :: !Int,
    poolEnvironment :: e,
    poolOwner :: !ProcessID,
    poolSeat :: !(MVar Seat),
    -- | When the last call ended. Full: there may be workers that nobody looks after.
    poolCalled :: !(MVar Int64),
    -- | Looks after workers between calls.
    poolKeeper :: !ThreadId,
    -- | The end of the scope has begun.
    poolOver :: !(IORef Bool),
    poolCounts :: !(IORef PoolReport)
  }

data Seat = Vacant | Taken !Staff | Gone

-- | What has happened so far.
data PoolReport = PoolReport
  { -- | Calls that the pool's workers have done.
    poolCalls :: !Int,
    -- | Items of other calls, which freshly forked workers got.
    poolForked :: !Int,
    -- | Why, and how the workers are less than they should be; one line each, the newest first.
    poolNotes :: ![String]
  }
  deriving (Eq, Show)

-- | A pool of as many workers as the options say, for as long as the action takes. Of the
-- options 'backend' and 'transport' have no effect: workers are forked and results cross as
-- copies. 'window', 'onProgress', 'hugePages' and 'regionMiB' matter to forked calls alone.
-- 'initialise' runs once in each worker. Left to choose, a pool that is made in a worker has as
-- many as there are idle cores, and one. Throws 'BadOptions'.
--
-- A call of another thread that still runs at the end is made by freshly forked workers from then
-- on.
withPool :: Options -> e -> (Pool e -> IO r) -> IO r
withPool options environment = bracket open close
  where
    open = do
      checkOptions options
      n <- resolveWorkers options Auto
      nested <- insideWorker
      -- In a worker: the core of the calling one is there already, it waits meanwhile.
      let own = if nested && workers options == WorkersAuto then 1 else 0
      seat <- newMVar Vacant
      called <- newEmptyMVar
      keeper <- forkIOWithUnmask (\unmask -> unmask (unless nested (keep (idleNs options) seat called)))
      self <- getProcessID
      Pool options {backend = Shm} n (n - own) environment self seat called keeper <$> newIORef False <*> newIORef (PoolReport 0 0 [])

-- | Nothing is left. In a process that was forked meanwhile: nothing is done.
--
-- Not interruptible, and bounded: a call that has the seat sees within some 50 ms that it is over
-- ('termsOver'), and ends the workers.
close :: Pool e -> IO ()
close pool = do
  self <- getProcessID
  when (self == poolOwner pool) . uninterruptibleMask_ $ do
    writeIORef (poolOver pool) True
    killThread (poolKeeper pool)
    seat <- takeMVar (poolSeat pool)
    vacate seat `finally` putMVar (poolSeat pool) Gone

-- | Workers leave when there was no call for long. They are reaped then, for the next call may never
-- come; and from that on the caller collects with all its threads again. It looks when they should
-- have left, and ever more rarely where some have not. Not earlier: a program at rest that is woken
-- collects its heap. In a worker nobody looks: an item that is stuck is not noticed while a timer runs.
keep :: Int64 -> MVar Seat -> MVar Int64 -> IO ()
keep idle seat called = forever (takeMVar called >>= look)
  where
    look since = do
      now <- nowNs
      threadDelay (fromIntegral (min hour (grace + abs (idle - (now - since))) `div` 1000))
      -- Another call has begun a new time, or is at it.
      again <- tryTakeMVar called
      left <- maybe (modifyMVar seat buried) (const (pure 1)) again
      when (left > 0) (look (fromMaybe since again))
    buried there = case there of
      Taken staff -> (,) there <$> buryLeft staff
      _ -> pure (there, 0)
    -- A worker looks at the time once a second.
    grace = 1500000000
    hour = 3600000000000

vacate :: Seat -> IO ()
vacate (Taken staff) = uninterruptibleMask_ (dismissStaff staff)
vacate _ = pure ()

-- | See 'PoolReport'.
poolReport :: Pool e -> IO PoolReport
poolReport = readIORef . poolCounts

-- | All results, each in normal form; or the first exception by index. In a worker, and once
-- 'withPool' has returned, calls are made by freshly forked workers.
--
-- >>> import Maru.Pool
-- >>> withPool defaultOptions {workers = Workers 2} [10, 20, 30 :: Int] (\pool -> poolMap pool (\e i -> e !! i) [2, 0])
-- [30,10]
poolMap :: Pool e -> (e -> a -> b) -> [a] -> IO [b]
poolMap pool f xs = do
  n <- evaluate (length xs)
  self <- getProcessID
  if n == 0
    then pure []
    else do
      called <- if self == poolOwner pool then onSeat pool f xs n else pure (NotSent "it was made in another process than the pool's")
      results <- case called of
        Done got -> got <$ counted pool (\r -> r {poolCalls = poolCalls r + 1})
        NotSent why -> instead why IntMap.empty
        Broken got why -> instead why got
      traverse (either throwIO evaluate) (IntMap.elems results)
  where
    instead why got = do
      let missing = [(i, x) | (i, x) <- zip [0 ..] xs, IntMap.notMember i got]
      counted pool $ \r -> r {poolForked = poolForked r + length missing}
      note pool why
      IntMap.union got <$> forked pool f missing

counted :: Pool e -> (PoolReport -> PoolReport) -> IO ()
counted pool change = atomicModifyIORef' (poolCounts pool) (\r -> (change r, ()))

note :: Pool e -> String -> IO ()
note pool why = counted pool (\r -> r {poolNotes = take 40 (why : filter (/= why) (poolNotes r))})

-- | On the pool's workers, as far as it goes.
onSeat :: Pool e -> (e -> a -> b) -> [a] -> Int -> IO (Called b)
onSeat pool f xs n = mask $ \restore -> do
  seat <- takeMVar (poolSeat pool)
  over <- readIORef (poolOver pool)
  manned <- try (if over then pure Nothing else staffOf seat) `onException` putMVar (poolSeat pool) seat
  case manned of
    Left why -> NotSent (show (why :: Unavailable)) <$ putMVar (poolSeat pool) seat
    Right Nothing -> NotSent "the pool's scope has ended" <$ putMVar (poolSeat pool) seat
    Right (Just staff) -> do
      -- The workers are there already: where fewer cores are idle they share those of others.
      outcome <- try (bracket (takeCores (poolCores pool)) (uninterruptibleMask_ . giveCores) (\_ -> restore (callOn staff f xs n)))
      case outcome of
        Right called@(Broken _ _) -> called <$ renew staff
        Right called -> do
          callEnded
          called <$ putMVar (poolSeat pool) (Taken staff)
        Left e -> renew staff >> throwIO (e :: SomeException)
  where
    staffOf Vacant = shareMachine >> Just <$> hireStaff Shm.sharedMemory terms (poolEnvironment pool)
    staffOf (Taken staff) = pure (Just staff)
    staffOf Gone = pure Nothing
    terms = Terms (poolOptions pool) (poolSize pool) (note pool) (readIORef (poolOver pool))
    -- The caller has the seat: nobody else fills it.
    callEnded = tryTakeMVar (poolCalled pool) >> nowNs >>= putMVar (poolCalled pool)
    renew staff = vacate (Taken staff) `finally` putMVar (poolSeat pool) Vacant

-- | By a map on fresh forks.
forked :: Pool e -> (e -> a -> b) -> [(Int, a)] -> IO (Results b)
forked pool f missing = bracket (Shm.engine job) stop $ \running ->
  pure $! foldr outcome IntMap.empty (outcomes running)
  where
    job = Job (poolOptions pool) (poolSize pool) Ordered Nothing (f (poolEnvironment pool) . snd) missing Nothing Nothing
    places = IntMap.fromList (zip [0 ..] (map fst missing))
    place i = IntMap.findWithDefault i i places
    outcome o = let o' = renumbered place o in IntMap.insert (outcomeIndex o') (outcomeResult o')
