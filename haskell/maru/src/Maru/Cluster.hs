{-# LANGUAGE TupleSections #-}

-- | The map beyond one machine: processes that @mpirun@ or @srun@ started, agents on hosts, or agents
-- in micro-VMs.
--
-- > {-# LANGUAGE StaticPointers #-}
-- > import Maru
-- > import Maru.Cluster
-- >
-- > cubes :: Remote () Int Integer
-- > cubes = remote (\n -> toInteger n ^ (3 :: Int))
-- >
-- > main :: IO ()
-- > main = withCluster $ print (sum (parMapOn (static cubes) [1 .. 100]))
--
-- > ./program                               workers of this machine, as parMap has them
-- > mpirun -n 4 ./program                   four ranks, each with workers of its own
-- > MARU_HOSTS=hosts ./program              an agent a host, started by ssh
-- > MARU_VMS=4 ./program                    four micro-VMs, booted by QEMU
--
-- 'withCluster' comes first in @main@. Rank 0, or the process that was started by hand, runs what
-- it is given. The others serve, and never return from it. They all run one program: a process
-- whose program is another one is refused.
--
-- A function travels as a static pointer: the compiler checks that it is closed, and there is no
-- table of functions. What it needs besides its argument is its environment, which crosses once.
--
-- __The law__: @parMapOn (static f) xs@ is @map f xs@, as for 'Maru.parMap': values, order, the
-- laziness of the spine, with bounded buffering, and the first exception by index. Four differences
-- remain. This process evaluates an item as far as its codec does, to send it. A result is what its
-- codec makes of it. An exception keeps its type between processes whose code lies at the same
-- addresses (programs that GHC links statically, its default). Else, and from a VM, all but
-- 'WorkerLost' come as 'RemoteException'. And 'initialise' does not travel.
--
-- __Failure__: a worker's death is treated in its own process, by the 'Policy', as for 'Shm'. A
-- process that is lost is said on standard error, and its items are evaluated again by others. An
-- item that was at four lost processes (more, where 'Retry' says more) throws 'WorkerLost'. A
-- process that is stopped is not lost: after 20 s standard error says that it is silent, and the map
-- waits. A VM that is silent for 120 s is ended, and lost. When this process ends, however it does,
-- those that serve end within five seconds, and so do their workers. An @ssh@ that reads nothing is
-- left where a signal kills this process. Programs of this module say what is not available in one
-- line, and end with status 69.
--
-- __Cost__: a connection and two threads of this process for each of the others, and
-- one for all. A block of items is planned to take some 300 ms of a process. What is sent grows with
-- items and results. Nothing grows with the square of the number of hosts.
--
-- __Trust__: peers prove that they know the job's secret. Ranks do not send it; the launcher carries
-- it to other hosts, often in plain text. What follows between ranks is not encrypted, as MPI's own
-- messages are not. Agents talk through @ssh@, which encrypts.
-- Nothing listens on an address that other hosts reach but rank 0, where ranks are on several hosts.
module Maru.Cluster
  ( -- * The program
    withCluster,

    -- * Functions that travel
    Remote,
    remote,
    remoteWith,
    remoteVia,

    -- * Mapping
    parMapOn,
    parMapOnWith,
    parMapOnReporting,
  )
where

import Control.Concurrent (forkIO, killThread, rtsSupportsBoundThreads, threadDelay, threadWaitRead)
import Control.Concurrent.MVar
import Control.Concurrent.STM (atomically)
import Control.Exception
import Control.Monad
import qualified Data.ByteString as Bytes
import Data.Foldable (for_)
import Data.IORef
import Data.Maybe (catMaybes, fromMaybe, isNothing)
import Foreign.C (CInt (..))
import GHC.Conc (closeFdWith, getNumProcessors)
import GHC.StaticPtr (StaticPtr, deRefStaticPtr)
import Maru.Cluster.Call (startCall)
import Maru.Cluster.Callers
import Maru.Cluster.Frame
import Maru.Cluster.Greeting
import Maru.Cluster.Hosts
import Maru.Cluster.Machines
import Maru.Cluster.Peers hiding (Handler)
import Maru.Cluster.Remote
import Maru.Cluster.Serve (serve)
import Maru.Failure
import Maru.Internal.Budget (resolveBackend, resolveWorkers)
import Maru.Internal.Engine
import Maru.Internal.Say (sayLine)
import Maru.Internal.Start (checkOptions, startOn, values)
import Maru.Native.Open (openExisting)
import Maru.Native.Ranks
import Maru.Native.Stream (closeStream, newStreamPair)
import Maru.Native.Vm (beGuest)
import Maru.Options
import System.Environment (getExecutablePath, lookupEnv, unsetEnv)
import System.Exit
import System.IO
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Directory (getWorkingDirectory)
import System.Posix.IO
import System.Timeout (timeout)

-- Mapping ----------------------------------------------------------------------

-- | @parMapOn (static f) xs@ is @map@ of that function, on all processes of the program; in one
-- that is alone by 'Shm'.
parMapOn :: StaticPtr (Remote () a b) -> [a] -> [b]
parMapOn pointer = parMapOnWith defaultOptions pointer ()

-- | The same with 'Options' and an environment. 'backend': 'Auto' takes the other processes where
-- there are any. 'Mpi' insists on ranks and 'Vm' on VMs, throwing 'Unavailable' without; 'Sockets'
-- takes hosts where there are any. Any other one stays on this machine. 'workers' are those of each
-- process. What has no meaning for a result in bytes is not looked at: 'transport', 'sharing',
-- 'regionMiB', 'hugePages'. 'initialise' does not travel, and is run on this machine's back ends
-- alone. In an item, and in a process that the program has forked, there are no other processes.
parMapOnWith :: Options -> StaticPtr (Remote e a b) -> e -> [a] -> [b]
parMapOnWith options pointer environment xs = unsafePerformIO (values <$> startedOn options Ordered pointer environment xs)

-- | The same, and a look at what has happened so far, which may be taken again and again: processes
-- and workers that were lost, and all that was less than it should be.
parMapOnReporting :: Options -> StaticPtr (Remote e a b) -> e -> [a] -> IO ([b], IO Report)
parMapOnReporting options pointer environment xs = do
  running <- startedOn options Ordered pointer environment xs
  pure (values running, report running)

startedOn :: Options -> Order -> StaticPtr (Remote e a b) -> e -> [a] -> IO (Running b)
startedOn options order pointer environment xs = do
  which <- resolveBackend options
  there <- knownCluster
  checkOptions options
  case (which, clusterMeans <$> there, there) of
    (Mpi, Just ByLauncher, Just c) -> onPeers Mpi c
    (Mpi, _, _) -> throwIO noRanks
    (Vm, Just ByMachines, Just c) -> onPeers Vm c
    (Vm, _, _) -> throwIO noMachines
    (Auto, Just ByMachines, Just c) -> onPeers Vm c
    (Auto, Just ByLauncher, Just c) -> onPeers Mpi c
    (Auto, Just ByHosts, Just c) -> onPeers Sockets c
    (Sockets, Just ByHosts, Just c) -> onPeers Sockets c
    _ -> startOn which options order (Just results) (function environment) xs
  where
    Remote _ _ results function = deRefStaticPtr pointer
    onPeers which c = do
      _ <- resolveWorkers options Shm
      startCall c which options {backend = which} order pointer environment xs

noRanks :: Unavailable
noRanks =
  Unavailable
    "Mpi"
    "no mpirun or srun started this program, or its main does not begin with withCluster"
    "start it as: mpirun -n 4 PROGRAM; or take another back end"

noMachines :: Unavailable
noMachines =
  Unavailable
    "Vm"
    "MARU_VMS is not set, or main does not begin with withCluster"
    "start it as: MARU_VMS=4 PROGRAM; or take another back end"

-- The program ------------------------------------------------------------------

-- | First in @main@: see the top of this module. In a process that no launcher started, and without
-- @MARU_HOSTS@ and @MARU_VMS@, it is the action alone. 'Unavailable' and 'BadOptions' that the action throws become
-- one line and status 69, or 64.
withCluster :: IO a -> IO a
withCluster action = orLine $ do
  agent <- lookupEnv agentVariable
  launcher <- findLauncher
  hosts <- mfilter (not . null) <$> lookupEnv "MARU_HOSTS"
  machines <- maybe askedMachines (const (pure Nothing)) agent
  case (agent, launcher, hosts, machines) of
    (Just "guest", _, _, _) -> beGuest
    (Just _, _, _, _) -> beAgent
    (_, Launched, _, _) -> asRank (for_ hosts (const (unused "MARU_HOSTS")) >> for_ machines (const (unused "MARU_VMS")) >> action)
    (_, Mute, _, _) -> do
      rank <- lookupEnv "SLURM_PROCID"
      -- One line, not one a rank.
      unless (rank == Just "0") (exitWith (ExitFailure 69))
      throwIO (Unavailable "Mpi" "srun offers no way for the ranks to meet" "use srun --mpi=pmi2, or --mpi=pmix")
    (_, _, Just _, Just _) -> throwIO (BadOptions "MARU_HOSTS and MARU_VMS are both set: unset one")
    (_, _, Just file, _) -> needThreads >> sayIfKept "hosts of MARU_HOSTS" ["sockets", "mpi"] >> readHosts file >>= (`onHosts` action)
    (_, _, _, Just wanted) -> needThreads >> sayIfKept "VMs of MARU_VMS" ["vm"] >> onMachines wanted action
    _ -> action
  where
    unused what = sayLine ("maru: " <> what <> " is not used: a launcher started this program")
    sayIfKept what those = do
      asked <- lookupEnv "MARU_BACKEND"
      for_ (mfilter (`notElem` ["", "auto"] <> those) asked) $ \which ->
        sayLine ("maru: MARU_BACKEND=" <> which <> ": maps stay on this machine; " <> what <> " get no items")

orLine :: IO a -> IO a
orLine action = action `catches` [Handler (\e -> line 69 (show (e :: Unavailable))), Handler (\e -> line 64 (show (e :: BadOptions)))]
  where
    line status text = hFlush stdout >> sayLine text >> exitWith (ExitFailure status)

needThreads :: IO ()
needThreads = unless rtsSupportsBoundThreads (throwIO (Unavailable "the map beyond this process" "the program is not linked with -threaded" ""))

-- | Workers of this process, one of several on this host.
ownWorkers :: IO Int
ownWorkers = do
  asked <- lookupEnv "MARU_WORKERS"
  n <- resolveWorkers defaultOptions Shm
  maybe (shareOf n) (const (pure n)) asked

ownCard :: Int -> IO Card
ownCard rank = Card rank <$> ownWorkers <*> program <*> layout

-- | Runs the action with those peers, and ends them.
withPeers :: Cluster -> IO a -> IO a
withPeers cluster action = bracket (forkIO (watchPeers cluster)) killThread (const served)
  where
    served = (writeIORef theCluster (Just cluster) >> action) `finally` (writeIORef theCluster Nothing >> dismissPeers cluster)

-- | What the coordinator says to a card: whether its program is ours.
judgeBy :: Card -> Card -> Verdict
judgeBy ours theirs
  | cardProgram ours /= cardProgram theirs = OtherProgram
  | otherwise = Welcome (cardLayout ours == cardLayout theirs)

-- | Of a process of this program that we trust: does its code lie at our addresses?
trustWhere :: Bool -> Trust
trustWhere alike = if alike then Alike else Elsewhere

-- Ranks --------------------------------------------------------------------------

-- Seconds for ranks to meet.
patience :: Int
patience = 60

asRank :: IO a -> IO a
asRank action = do
  needThreads
  met <- meetRanks patience
  ranks <- either (\why -> throwIO (Unavailable "Mpi" why "")) pure met
  case (ranksFirst ranks, ranksListener ranks) of
    (Just first, _) -> beRank ranks first
    (_, listener) -> do
      cluster <- newCluster ByLauncher
      card <- ownCard 0
      addOurselves cluster 0 False (cardWorkers card)
      -- A thread may be waiting for it.
      let meet l = meetOthers cluster card ranks l `finally` closeFdWith (closeStream . fromIntegral) (fromIntegral l)
      -- Where they do not all meet, those that came are told that the program is over.
      withPeers cluster (for_ listener meet >> action) `finally` leaveRanks

-- | Until all ranks came. Each that calls is greeted by a thread of its own: a stranger who says
-- nothing keeps nobody waiting.
meetOthers :: Cluster -> Card -> Ranks -> CInt -> IO ()
meetOthers cluster card ranks listener = do
  roomFor (2 * ranksCount ranks + ownDescriptors)
  came <- newMVar []
  verdicts <- newEmptyMVar
  callers <- newCallers listener (ranksCount ranks)
  listening <- forkIO (forever (greetNext callers (greetPeer greetingSeconds (ranksSecret ranks) (judge came)) (decided verdicts)) `catch` ended)
  met <- timeout (patience * 1000000) (gather verdicts (ranksCount ranks - 1)) `finally` (killThread listening >> sendAway callers)
  there <- map peerNumber <$> atomically (alive cluster)
  none <- whyNone callers
  let missing = [r | r <- [1 .. ranksCount ranks - 1], r `notElem` there]
  when (isNothing met) . throwIO $
    Unavailable
      "Mpi"
      (name (head' missing) <> " did not come within " <> show patience <> " s" <> maybe "" (": " <>) none)
      (maybe "does main begin with withCluster in every rank?" (const "look at `ulimit -n`") none)
  where
    gather verdicts n = when (n > 0) (takeMVar verdicts >>= either (refuse verdicts (n - 1)) (\() -> gather verdicts (n - 1)))
    -- The others are let in for a moment, to be told.
    refuse verdicts n why = timeout 2000000 (replicateM_ n (takeMVar verdicts)) >> throwIO (why :: Unavailable)
    -- By its end.
    ended :: SomeException -> IO ()
    ended _ = pure ()
    head' = foldr const 0
    name r = "rank " <> show r
    decided verdicts wire (theirs, verdict) = case verdict of
      Welcome alike -> do
        addPeer cluster (cardRank theirs) (name (cardRank theirs)) (cardWorkers theirs) wire Nothing (trustWhere alike) (pure ())
        putMVar verdicts (Right ())
      -- It waits until our line is said, and for that keeps the wire.
      OtherProgram -> putMVar verdicts (Left (otherProgram (name (cardRank theirs)))) >> void (nextShort wire)
      Superfluous -> closeWire wire
    judge came theirs
      | judgeBy card theirs == OtherProgram = pure OtherProgram
      | otherwise = modifyMVar came $ \there ->
        pure $
          if cardRank theirs `elem` there || cardRank theirs < 1 || cardRank theirs >= ranksCount ranks
            then (there, Superfluous)
            else (cardRank theirs : there, judgeBy card theirs)

-- | What rank 0 needs besides a connection to each, and one more while it is greeted: for those that are no ranks, and for
-- its work.
ownDescriptors :: Int
ownDescriptors = 512

otherProgram :: String -> Unavailable
otherProgram who = Unavailable "the map beyond this process" (who <> " runs another program than this one") "install the same program for every process"

-- | Never returns.
beRank :: Ranks -> CInt -> IO a
beRank ranks first = do
  card <- ownCard (ranksMe ranks)
  wire <- wireOn first
  serveAs ("rank " <> show (ranksMe ranks)) (Just greetingSeconds) (ranksSecret ranks) card wire ends
  where
    ends over
      | over = leaveRanks
      | otherwise = do
        -- One line, not one a rank: rank 1 says it and the launcher ends the others. Where rank 1 is gone,
        -- too, they do. Open MPI 4's mpirun --continuous ends with 0 all the same.
        when (ranksMe ranks > 1) (threadDelay 500000)
        when (ranksMe ranks <= 8) (sayLine "maru: rank 0 was lost; the program cannot go on")
        abortRanks 75

-- | Greets, within so many seconds if it is to, serves, ends; told whether the program is over, or else the coordinator is gone. The
-- coordinator says what it refuses.
serveAs :: String -> Maybe Int -> Bytes.ByteString -> Card -> Wire -> (Bool -> IO ()) -> IO a
serveAs name within secret card wire leave = do
  verdict <- greetCoordinator within secret card wire
  case verdict of
    Left why -> throwIO (Unavailable name ("the coordinator did not let it in: " <> why) "")
    Right (Welcome alike) -> do
      over <- serve alike (cardWorkers card) wire
      leave over
      exitWith (if over then ExitSuccess else ExitFailure 75)
    -- A launcher ends the job when one process fails: first the coordinator says why.
    Right _ -> timeout 10000000 (nextShort wire) >> exitWith (ExitFailure 69)

-- Hosts --------------------------------------------------------------------------

-- | With an agent on each of them.
onHosts :: [Host] -> IO a -> IO a
onHosts hosts action = do
  ssh <- fromMaybe "ssh" <$> lookupEnv "MARU_LAUNCH_SSH"
  folder <- getWorkingDirectory
  path <- getExecutablePath
  variables <- presentVariables ["MARU_WORKERS", "MARU_WAIT", "MARU_CLOSURES"]
  card <- ownCard 0
  cluster <- newCluster ByHosts
  addOurselves cluster 0 True (cardWorkers card)
  withAgents cluster card [agentOn host (agentCommand ssh variables folder path host) | host <- hosts] action

agentOn :: Host -> [String] -> Agent
agentOn host command = Agent name start Nothing Nothing Nothing
  where
    name = "host " <> hostName host
    start theirs = do
      started <- spawnOn theirs command
      case started of
        Left why -> throwIO (unreachable ("ssh cannot be started: " <> why))
        Right agent ->
          pure
            Started
              { startedEnd = endWithin 1000 agent,
                startedGreeted = pure (),
                startedAbsent = \status -> pure (unreachable ("no agent could be started there" <> maybe "" (\s -> " (ssh ended with status " <> show s <> ")") status))
              }
    unreachable why = Unavailable name why ("try: ssh " <> hostName host <> " true; the program must lie there, at the same path, and this folder")

presentVariables :: [String] -> IO [(String, String)]
presentVariables names = catMaybes <$> sequence [fmap (name,) <$> lookupEnv name | name <- names]

-- Micro-VMs ------------------------------------------------------------------------

-- | With an agent in each of them. This process evaluates no items of theirs, even where they are
-- all lost: what runs in a VM is not to run outside one.
onMachines :: Machines -> IO a -> IO a
onMachines wanted action = withImage wanted $ \image -> do
  variables <- presentVariables ["MARU_WAIT", "MARU_CLOSURES"]
  card <- ownCard 0
  cluster <- newCluster ByMachines
  boot <- bootSeconds (machineCount wanted) <$> getNumProcessors
  withAgents cluster card [agentIn wanted image variables boot k | k <- [1 .. machineCount wanted]] action

agentIn :: Machines -> Image -> [(String, String)] -> Int -> Int -> Agent
agentIn wanted image variables boot k = Agent name start (Just boot) (Just vmPatience) (Just (machineMemory wanted * 1048576))
  where
    name = "VM " <> show k
    start theirs = do
      machine <- startMachine wanted image variables theirs
      pure
        Started
          { startedEnd = endMachine 500 machine,
            startedGreeted = passOn machine,
            startedAbsent = \status -> do
              said <- firstSaid machine
              pure (Unavailable name ("it did not boot" <> maybe late (\s -> " (QEMU ended with status " <> show s <> ")") status <> (if null said then "" else "; it said: " <> said)) "look at `maru doctor`")
          }
    late = " in " <> show boot <> " s: an emulated one is slow where the machine is busy"

-- Agents ---------------------------------------------------------------------------

-- | How a process is had that serves: a name, and what starts it with that end of a connection.
data Agent = Agent
  { agentName :: !String,
    agentStart :: !(CInt -> IO Started),
    -- | Seconds in which it says something at first, and as many for its greeting. 'Nothing': only its
    -- greeting has a limit.
    agentBoot :: !(Maybe Int),
    -- | The same later.
    agentPatience :: !(Maybe Int),
    -- | It is not trusted: bytes of the largest frame that is read of it.
    agentLargest :: !(Maybe Int)
  }

data Started = Started
  { -- | Ends it: its status, if it ended by itself.
    startedEnd :: !(IO (Maybe Int)),
    startedGreeted :: !(IO ()),
    -- | It did not come, and ended with that status.
    startedAbsent :: !(Maybe Int -> IO Unavailable)
  }

-- | All at once: each takes its time.
withAgents :: Cluster -> Card -> [Agent] -> IO a -> IO a
withAgents cluster card agents action = do
  secret <- freshBytes 32
  results <- newEmptyMVar
  withPeers cluster $ do
    for_ (zip [1 ..] agents) $ \(k, agent) -> forkIO (try (begin cluster card secret k agent) >>= putMVar results)
    -- All of them: an agent that was started knows then that it is not wanted.
    greeted <- replicateM (length agents) (takeMVar results)
    for_ greeted (either (throwIO :: SomeException -> IO ()) pure)
    action

begin :: Cluster -> Card -> Bytes.ByteString -> Int -> Agent -> IO ()
begin cluster card secret k agent = do
  (ours, theirs) <- newStreamPair
  started <- agentStart agent theirs `onException` closeStream ours `finally` closeStream theirs
  status <- newIORef Nothing
  end <- endsWith cluster (startedEnd started >>= writeIORef status)
  wire <- wireOn ours
  sendFrame wire (Frame Greets 0 0 secret)
  for_ (agentBoot agent) $ \seconds -> timeout (seconds * 1000000) (threadWaitRead (fromIntegral ours))
  greeted <- greetPeer (fromMaybe greetingSeconds (agentBoot agent)) secret (pure . judge) wire
  case greeted of
    Just (theirs', Welcome alike) -> do
      startedGreeted started
      addPeer cluster k name (cardWorkers theirs') wire (agentPatience agent) (maybe (trustWhere alike) Stranger (agentLargest agent)) end
    Just _ -> hangUp wire >> throwIO (otherProgram name)
    Nothing -> hangUp wire >> end >> readIORef status >>= startedAbsent started >>= throwIO
  where
    name = agentName agent
    -- One that is not trusted sends its exceptions as text.
    judge theirs = case judgeBy card theirs of
      Welcome alike -> Welcome (alike && isNothing (agentLargest agent))
      refused -> refused

-- | Never returns. What the program prints goes to standard error, for its output is the
-- connection.
beAgent :: IO a
beAgent = do
  needThreads
  unsetEnv agentVariable
  from <- dup stdInput
  to <- dup stdOutput
  for_ [from, to] $ \fd -> setFdOption fd CloseOnExec True
  nothing <- openExisting "/dev/null" ReadOnly
  _ <- dupTo nothing stdInput
  _ <- dupTo stdError stdOutput
  closeFd nothing
  wire <- wireOver (fromIntegral from) (fromIntegral to)
  told <- nextShort wire
  case told of
    Just (Frame Greets _ _ secret) | Bytes.length secret == 32 -> do
      card <- ownCard 0
      -- It lives no longer than its coordinator, which may be slow: so may be this VM.
      serveAs "this agent" Nothing secret card wire (const (pure ()))
    _ -> throwIO (Unavailable "this agent" "it was started otherwise than by a coordinator" ("unset " <> agentVariable))
