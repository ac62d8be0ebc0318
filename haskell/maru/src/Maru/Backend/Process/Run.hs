-- | One run of forked workers: what its hands share. /Internal/.
--
-- All state is changed under one lock with asynchronous exceptions masked and
-- without exception handlers around anything that can be interrupted: the
-- consumer's side runs inside lazily evaluated thunks, which an asynchronous
-- exception must leave resumable.
module Maru.Backend.Process.Run
  ( Style (..),
    Run (..),
    Worker (..),
    Filling (..),
    newRun,
    isOurs,

    -- * Its state
    locked,
    unlessEnded,
    change,
    decide,
    look,
    note,
    leaveCore,
    leaveCores,
    tellBoard,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad (unless, when)
import Data.Foldable (traverse_)
import Data.IORef
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (isJust)
import Foreign (Ptr, Word64)
import Foreign.C (CInt)
import Maru.Backend.Process.Fabric
import Maru.Backend.Process.State
import Maru.Failure
import Maru.Internal.Budget (coresInside, shareMachine)
import Maru.Internal.Cores (giveCores)
import Maru.Internal.Engine
import Maru.Internal.Feed
import Maru.Internal.Progress (Teller)
import Maru.Native.Channel (nowNs)
import Maru.Native.Process
import Maru.Native.Region (Region, zeroCopy)
import Maru.Native.Rts (collapseHeap, forkHazard)
import Maru.Native.Totals
import Maru.Options
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

-- | What tells one process back end from another.
data Style = Style
  { styleBackend :: !Backend,
    -- | Results may cross by address, where the run-time system allows it.
    styleByAddress :: !Bool,
    -- | For so many workers.
    styleFabric :: Int -> IO Fabric
  }

data Run a b = Run
  { -- | Without its inputs: a holder of the run must not hold the whole list.
    runJob :: !(Job a b),
    runStyle :: !Style,
    runFabric :: !Fabric,
    runFeed :: !Feed,
    runSelf :: !ProcessID,
    runSelfPidfd :: !CInt,
    -- | Why results do not cross by address, if they do not.
    runByCopy :: !(Maybe String),
    -- | Results that are here and workers alive, for those who must not hold the run.
    runHere :: !(IORef (Int, Int)),
    -- | Tells about progress.
    runTeller :: !(IORef (Maybe (ThreadId, Teller))),
    -- | The consumer looks what is known of the input, or sleeps: new cells ring. Rung once, for a
    -- ring costs more than the walk of a cell.
    runListens :: !(IORef Bool),
    -- | When the consumer last asked.
    runAsked :: !(IORef Int64),
    -- | When deaths were last looked for.
    runLooked :: !(IORef Int64),
    -- | Other maps have cores of the machine: it takes those that are idle, beside that of its
    -- coordinator, which waits.
    runBounded :: !Bool,
    -- | Of the machine, held for workers by number; and when there last were too few.
    runCores :: !(IORef (IntMap Int)),
    runCrowded :: !(IORef Int64),
    -- | What the board has been told: counts, and how many notes.
    runTold :: !(IORef (Totals, Int)),
    -- | Guards everything below, and the crew's and the logs' memory.
    runLock :: !(MVar ()),
    -- | By number: exactly those with a 'Duty'.
    runWorkers :: !(IORef (IntMap Worker)),
    runState :: !(IORef (State a b))
  }

-- | What is held of a worker that lives.
data Worker = Worker
  { workerProcess :: !Process,
    workerLink :: !Link,
    -- | A record of addresses that its worker is still filling.
    workerFilling :: !(IORef (Maybe Filling)),
    workerRegion :: !(Maybe Region),
    -- | Bytes that its pages had left at the last look.
    workerRoom :: !(IORef Int)
  }

-- | The record, its first index, and how many of its addresses were taken.
data Filling = Filling !(Ptr Word64) !Int !Int

-- | Throws 'Unavailable' where forked workers cannot be had.
newRun :: Style -> Job a b -> IO (Run a b)
newRun style job = do
  hazard <- forkHazard
  traverse_ (\why -> throwIO (Unavailable "a map on forked workers" why "use Threads or Sparks")) hazard
  byCopy <- if styleByAddress style then crossing (transport options) else pure (Just "sockets carry copies")
  collapsed <- if hugePages options then try collapseHeap else pure (Right 0)
  shareMachine
  fabric <- styleFabric style (jobWorkers job)
  listens <- newIORef False
  let ring = do
        listening <- readIORef listens
        when listening (writeIORef listens False >> ringNews fabric)
  feed <- maybe (startFeed (jobInputs job) ring) (\there -> startFeed (arrivingSpine there) ring) (jobArriving job)
  arriving <- traverse (\there -> evaluate there {arrivingSpine = []}) (jobArriving job)
  inside <- isJust <$> coresInside
  self <- getProcessID
  now <- nowNs
  run <-
    Run job {jobInputs = [], jobArriving = arriving} style fabric feed self <$> openPidfd self <*> pure byCopy
      <*> newIORef (0, 0)
      <*> newIORef Nothing
      <*> pure listens
      <*> newIORef now
      <*> newIORef 0
      <*> pure (inside && workers options == WorkersAuto)
      <*> newIORef IntMap.empty
      <*> newIORef 0
      <*> newIORef (noTotals, 0)
      <*> newMVar ()
      <*> newIORef IntMap.empty
      <*> newIORef (atFirst job)
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

-- | Is this the process that started the run? Else its lock and its workers must
-- be left alone.
isOurs :: Run a b -> IO Bool
isOurs run = (== runSelf run) <$> getProcessID

-- | Runs with the lock held and asynchronous exceptions masked, so that no
-- thunk is ever frozen while it holds the lock. Must take bounded time.
locked :: Run a b -> IO c -> IO c
locked run act = uninterruptibleMask_ $ do
  takeMVar (runLock run)
  result <- try act
  putMVar (runLock run) ()
  either (throwIO :: SomeException -> IO c) pure result

unlessEnded :: Run a b -> c -> IO c -> IO c
unlessEnded run instead act = do
  over <- stEnded <$> look run
  if over then pure instead else act

look :: Run a b -> IO (State a b)
look = readIORef . runState

change :: Run a b -> (State a b -> State a b) -> IO ()
change run = modifyIORef' (runState run)

-- | A change that says what is to be done.
decide :: Run a b -> (State a b -> (c, State a b)) -> IO c
decide run f = do
  (what, after) <- f <$> look run
  writeIORef (runState run) $! after
  pure what

note :: Run a b -> String -> IO ()
note run = change run . noted

-- | The worker of that number needs its core no longer.
leaveCore :: Run a b -> Int -> IO ()
leaveCore run slot = do
  held <- IntMap.lookup slot <$> readIORef (runCores run)
  modifyIORef' (runCores run) (IntMap.delete slot)
  giveCores (maybe [] pure held)

-- | Nor does any.
leaveCores :: Run a b -> IO ()
leaveCores run = readIORef (runCores run) >>= traverse_ (leaveCore run) . IntMap.keys

-- | What is new since it was last told, to the board; how far the run is, to its
-- teller.
tellBoard :: Run a b -> IO ()
tellBoard run = do
  s <- look run
  (before, said) <- readIORef (runTold run)
  let c = stCounts s
      now = Totals 1 (IntMap.size (stDuties s)) (countStarted c) (countLost c) (countItems c) (countInCaller c)
      count = length (countNotes c)
  addTotals before now
  unless (count == said) $ traverse_ sayOnBoard (drop said (reverse (countNotes c)))
  writeIORef (runTold run) (now, count)
  writeIORef (runHere run) (countItems c, IntMap.size (stDuties s))
