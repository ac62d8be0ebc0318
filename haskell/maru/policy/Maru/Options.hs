-- | What a parallel map may be told. 'defaultOptions' is right for most
-- programs; change single fields of it:
--
-- > parMapWith defaultOptions {backend = Shm, workers = Workers 4} f xs
module Maru.Options
  ( -- * Options
    Options (..),
    defaultOptions,

    -- * Choices
    Backend (..),
    backendName,
    backendFromName,
    allBackends,
    Workers (..),
    Chunking (..),
    Policy (..),
    Transport (..),
    Progress (..),
  )
where

import Data.List (find)

-- | Where the items are evaluated.
data Backend
  = -- | Measure items in the caller, now and then, and go on with 'Shm' as soon as
    -- what is known to follow is worth it; with 'Threads' where results are dear to
    -- carry to another process, or forked workers are refused (@--nonmoving-gc@),
    -- and there are several capabilities.
    Auto
  | -- | In the caller, on demand. The model that every other back end equals.
    Sequential
  | -- | GHC's sparks (the Eval monad). Uses as many cores as there are
    -- capabilities (@+RTS -N@), as all back ends up to 'Stm' do.
    Sparks
  | -- | Lightweight threads (@forkIO@), one per worker.
    Threads
  | -- | Operating-system threads (@forkOS@), one per worker. Only in programs
    -- that are linked with @-threaded@.
    BoundThreads
  | -- | Threads that talk over STM channels (the seed's SAMSTM).
    Stm
  | -- | Forked processes that talk over sockets (the seed's SAMSoc).
    Sockets
  | -- | Forked processes that talk over shared memory (the seed's SAMShm).
    Shm
  | -- | Processes that @mpirun@ or @srun@ started, each with 'Shm' workers of its own. For
    -- functions that can travel alone: @parMapOn@ of "Maru.Cluster".
    Mpi
  | -- | Micro-VMs that @MARU_VMS@ asks for, each with 'Shm' workers of its own (the seed's HaLVM
    -- slaves). For functions that can travel alone, as 'Mpi'.
    Vm
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | The name on command lines and in @MARU_BACKEND@.
--
-- >>> backendName BoundThreads
-- "bound-threads"
backendName :: Backend -> String
backendName b = case b of
  Auto -> "auto"
  Sequential -> "sequential"
  Sparks -> "sparks"
  Threads -> "threads"
  BoundThreads -> "bound-threads"
  Stm -> "stm"
  Sockets -> "sockets"
  Shm -> "shm"
  Mpi -> "mpi"
  Vm -> "vm"

-- | Inverse of 'backendName'.
--
-- >>> map backendFromName ["shm", "best"]
-- [Just Shm,Nothing]
backendFromName :: String -> Maybe Backend
backendFromName name = find ((== name) . backendName) [minBound .. maxBound]

-- | All that take any function, in the order of the type: all but 'Mpi' and 'Vm'.
--
-- >>> allBackends
-- [Auto,Sequential,Sparks,Threads,BoundThreads,Stm,Sockets,Shm]
allBackends :: [Backend]
allBackends = [minBound .. Shm]

-- | How many workers.
data Workers
  = -- | @MARU_WORKERS@, else one per core that this process may use (affinity
    -- mask, cgroup quota); for 'Stm' as many as there are capabilities. In a
    -- forked worker, for a nested map: one, and more as cores of the machine fall
    -- idle, whatever @MARU_WORKERS@ says.
    WorkersAuto
  | -- | Exactly that many, 1 to 65 535, in nested maps too.
    Workers !Int
  deriving (Eq, Show)

-- | How many consecutive items a worker claims at once.
data Chunking
  = -- | From the measured cost of an item: thirty times the (fixed) cost of a
    -- dispatch, smaller towards the end.
    Guided
  | -- | Always so many (the remainder is spread evenly).
    Fixed !Int
  deriving (Eq, Show)

-- | What happens to an item whose worker died (was killed, crashed, left by
-- C's @exit@). What @f@ throws is no death.
data Policy
  = -- | Evaluate it again, up to so many times; then the element throws
    -- 'Maru.Failure.WorkerLost'.
    Retry !Int
  | -- | The element throws 'Maru.Failure.WorkerLost'; the others go on.
    Skip
  | -- | The whole map fails, and its workers end. Its list throws 'Maru.Failure.WorkerLost' at the first
    -- element whose result has not arrived, which may come before that item's.
    Fail
  deriving (Eq, Show)

-- | How a result crosses from a forked worker's heap to the caller's. For 'Shm';
-- 'Sockets' always carries compact copies, a codec (@parMapVia@) its own bytes.
data Transport
  = -- | By address where that is proven safe, else by copy.
    TransportAuto
  | -- | By address; 'Maru.Failure.Unavailable' where that is not to be had (GHCs
    -- that maru was not checked with, a shared run-time system as in GHCi).
    ZeroCopy
  | -- | As bytes that are copied and relocated.
    CompactCopy
  deriving (Eq, Show)

-- | What a progress callback is told, at most ten times a second.
data Progress = Progress
  { -- | Items whose results have arrived.
    progressDone :: !Int,
    -- | Items in all, once the end of the input has been seen.
    progressTotal :: !(Maybe Int),
    -- | Workers alive.
    progressWorkers :: !Int,
    -- | Seconds since the map began.
    progressSeconds :: !Double
  }
  deriving (Eq, Show)

-- | Everything that may be chosen.
data Options = Options
  { -- | Default 'Auto'; then @MARU_BACKEND@ decides where it is set.
    backend :: !Backend,
    -- | Default 'WorkersAuto'.
    workers :: !Workers,
    -- | Default 'Guided'.
    chunking :: !Chunking,
    -- | Default @'Retry' 3@.
    policy :: !Policy,
    -- | Default 'TransportAuto'.
    transport :: !Transport,
    -- | Keep sharing inside one result (a result that is a graph). Costs the
    -- worker several times as much. Default off: sharing is then kept only in
    -- results that do not fit the worker's pages and take more than 256 MiB,
    -- and more than the worker's heap has grown by, without (cyclic ones do); and where results cross through GHC's compact
    -- regions (another GHC, GHCi, dynamic programs), a cyclic one never arrives.
    sharing :: !Bool,
    -- | Most items between the consumer and the look-ahead, so the bound on
    -- buffered results. Default: follows the chunk size. Of forked workers' results then 256 MiB
    -- wait at most, but two chunks for each worker. Of how large they are the first ones tell.
    window :: !(Maybe Int),
    -- | MiB of shared pages for results per worker, 1 to 4096; a worker whose
    -- pages are full is replaced. When it has ended, those that hold results count as live heap
    -- of the caller until the last of these is garbage. Default 64.
    regionMiB :: !Int,
    -- | MiB that the heaps of all workers together may grow by, 16 or more,
    -- divided evenly. The item in which a worker needs more throws
    -- 'Control.Exception.HeapOverflow'; a worker that overflows between items ends
    -- and is replaced. A major collection counts with what it copies, inherited
    -- data too (@withInput@ keeps that out). Shared pages and memory from
    -- @malloc@ do not count. Default: no bound but the machine's.
    memoryMiB :: !(Maybe Int),
    -- | Seconds without demand for a result after which the workers end (new
    -- ones are started on the next demand). Default 10.
    idleSeconds :: !Double,
    -- | Run once in every worker before its first item ('Sparks': once in all).
    -- What it throws, the list throws. A worker in which it waits for a thread of the
    -- caller, or for ever, is replaced for five seconds, ever more rarely; then the map
    -- fails with @Unavailable@. Default: nothing.
    initialise :: !(IO ()),
    -- | Told about progress, in a thread of its own. A callback that throws is
    -- called no more, and the report says so. Default: nobody.
    onProgress :: !(Maybe (Progress -> IO ())),
    -- | Collapse the caller's heap into huge pages before forking: for large
    -- heaps that are mostly read. Needs Linux 6.1; without it the report says so.
    -- Default off.
    hugePages :: !Bool
  }

-- | See the fields.
--
-- >>> workers defaultOptions
-- WorkersAuto
-- >>> policy defaultOptions
-- Retry 3
defaultOptions :: Options
defaultOptions =
  Options
    { backend = Auto,
      workers = WorkersAuto,
      chunking = Guided,
      policy = Retry 3,
      transport = TransportAuto,
      sharing = False,
      window = Nothing,
      regionMiB = 64,
      memoryMiB = Nothing,
      idleSeconds = 10,
      initialise = pure (),
      onProgress = Nothing,
      hugePages = False
    }
