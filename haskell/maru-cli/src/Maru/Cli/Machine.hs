-- | Reads what "Maru.Control.Observe" takes, of this machine or of the one that a
-- folder describes. Nothing is written; what has gone or may not be read is left out.
module Maru.Cli.Machine
  ( Roots (..),
    ownRoots,
    describedRoot,
    readMachine,
    readMemoryNodes,
    readSnapshot,
    parents,
    treeOf,
    readAllowed,
    isAlive,
    CountedDevice (..),
    deviceName,
    textOf,
  )
where

import Control.Exception (evaluate)
import Control.Monad (forM, (<=<))
import qualified Data.ByteString.Char8 as Bytes
import Data.Char (isDigit, isSpace)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (dropWhileEnd, isPrefixOf, nub, sort, stripPrefix)
import qualified Data.Map.Strict as Map
import Data.Maybe (catMaybes, fromMaybe, listToMaybe, mapMaybe)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit (orNothing)
import Maru.Control.CpuList (parseCpuList)
import Maru.Control.Observe
import Maru.Control.Steer (Device (..))
import System.Directory (canonicalizePath, doesDirectoryExist, doesPathExist, listDirectory)
import System.Environment (lookupEnv)
import System.FilePath (takeDirectory, takeFileName, (</>))
import System.Posix.Files (readSymbolicLink)
import Text.Read (readMaybe)

-- | Where the machine's files are and where the processes' are.
data Roots = Roots
  { rootMachine :: !FilePath,
    rootProcesses :: !FilePath
  }
  deriving (Eq, Show)

-- | @MARU_TOPOLOGY@ may name a folder that stands for the machine; processes are
-- always this machine's.
ownRoots :: IO Roots
ownRoots = (\root -> Roots (fromMaybe "/" root) "/") <$> describedRoot

describedRoot :: IO (Maybe FilePath)
describedRoot = do
  described <- lookupEnv "MARU_TOPOLOGY"
  pure (described >>= \folder -> if take 1 folder `elem` ["/", "."] then Just folder else Nothing)

-- ---- files -------------------------------------------------------------

-- | "" if it cannot be read.
textOf :: FilePath -> IO String
textOf file = maybe "" Bytes.unpack <$> orNothing (Bytes.readFile file)

number :: FilePath -> IO (Maybe Int)
number file = readMaybe . dropWhileEnd isSpace <$> textOf file

-- | Sorted; none if there is no such folder.
entries :: FilePath -> IO [String]
entries folder = maybe [] sort <$> orNothing (listDirectory folder)

numbers :: FilePath -> IO [Int]
numbers = fmap (mapMaybe readMaybe . filter (all isDigit)) . entries

-- ---- the machine -------------------------------------------------------

readMachine :: FilePath -> IO Machine
readMachine root = do
  online <- fromMaybe IntSet.empty . parseCpuList <$> textOf (cpuFolder </> "online")
  known <- mapMaybe (stripPrefix "node") <$> entries nodeFolder
  let nodes' = sort (mapMaybe readMaybe known) :: [Int]
  members <- forM nodes' $ \n -> (,) n . fromMaybe IntSet.empty . parseCpuList <$> textOf (nodeFolder </> ("node" ++ show n) </> "cpulist")
  distances <- forM nodes' $ \n -> parseDistances nodes' n <$> textOf (nodeFolder </> ("node" ++ show n) </> "distance")
  disks <- entries (root </> "sys/block") >>= mapM (hardware File "sys/block")
  interfaces <- entries (root </> "sys/class/net") >>= mapM (hardware Net "sys/class/net")
  pure
    Machine
      { machineCpus = IntMap.fromSet (\cpu -> fromMaybe 0 (listToMaybe [n | (n, cpus) <- members, IntSet.member cpu cpus])) online,
        machineDistances = Map.unions distances,
        machineHardware = catMaybes (disks ++ interfaces)
      }
  where
    cpuFolder = root </> "sys/devices/system/cpu"
    nodeFolder = root </> "sys/devices/system/node"
    -- What is virtual (loop, lo) is at no node and interrupts nobody.
    hardware device folder name = do
      top <- canonicalizePath (root </> "sys")
      path <- canonicalizePath (root </> folder </> name)
      if "virtual" `elem` map takeFileName (above top path) || not ((top ++ "/") `isPrefixOf` path)
        then pure Nothing
        else do
          node <- firstOf (above top path) (\d -> number (d </> "numa_node"))
          irqs <- firstOf (above top path) $ \d -> do
            found <- numbers (d </> "msi_irqs")
            pure (if null found then Nothing else Just found)
          queues <- entries (path </> "queues")
          pure . Just $
            Hardware
              { hardwareName = name,
                hardwareDevice = device,
                hardwareNode = if maybe True (< 0) node then Nothing else node,
                hardwareInterrupts = IntSet.fromList (fromMaybe [] irqs),
                hardwareQueues = queues
              }

-- | Nodes that have memory, where this process may have any.
readMemoryNodes :: FilePath -> IO IntSet
readMemoryNodes root = do
  known <- parseCpuList <$> textOf (nodeFolder </> "has_memory")
  there <- mapMaybe (readMaybe <=< stripPrefix "node") <$> entries nodeFolder
  allowed <- (>>= parseCpuList . Bytes.unpack . Bytes.dropWhile isSpace) <$> ofStatus "Mems_allowed_list:" "/proc/self"
  let having = case known of
        Just set | not (IntSet.null set) -> set
        _ -> IntSet.fromList there
  -- A folder that stands for a machine says nothing about this one's limits.
  pure (if root == "/" then maybe having (IntSet.intersection having) allowed else having)
  where
    nodeFolder = root </> "sys/devices/system/node"

-- | A folder and those above it, below the top.
above :: FilePath -> FilePath -> [FilePath]
above top path
  | length path <= length top = []
  | otherwise = path : above top (takeDirectory path)

firstOf :: [a] -> (a -> IO (Maybe b)) -> IO (Maybe b)
firstOf candidates look = case candidates of
  [] -> pure Nothing
  c : more -> look c >>= maybe (firstOf more look) (pure . Just)

-- ---- processes ---------------------------------------------------------

-- | Every process's parent.
parents :: Roots -> IO (IntMap Int)
parents roots = do
  pids <- numbers (rootProcesses roots </> "proc")
  known <- forM pids $ \pid -> fmap ((,) pid . statParent) . parseStat <$> textOf (processFolder roots pid </> "stat")
  pure (IntMap.fromList (catMaybes known))

-- | Those below a process, itself first if it lives, without those at or below others. Each once:
-- parents that were read one after another can be a circle, where a number was given anew meanwhile.
treeOf :: IntMap Int -> [Int] -> Int -> [Int]
treeOf parentOf without root = grow (IntSet.fromList without) [root | IntMap.member root parentOf]
  where
    children = IntMap.fromListWith (++) [(parent, [pid]) | (pid, parent) <- IntMap.toDescList parentOf]
    grow _ [] = []
    grow seen (pid : more)
      | IntSet.member pid seen = grow seen more
      | otherwise = pid : grow (IntSet.insert pid seen) (IntMap.findWithDefault [] pid children ++ more)

processFolder :: Roots -> Int -> FilePath
processFolder roots pid = rootProcesses roots </> "proc" </> show pid

-- | Where a process's first thread may run.
readAllowed :: Roots -> Int -> IO (Maybe IntSet)
readAllowed roots pid = allowedIn (processFolder roots pid)

-- | Of a process's or a thread's folder. The line is found before the text becomes a
-- list of characters: there may be thousands of threads, twice a second.
allowedIn :: FilePath -> IO (Maybe IntSet)
allowedIn folder = (>>= parseAllowed . ("Cpus_allowed_list:" ++) . Bytes.unpack) <$> ofStatus "Cpus_allowed_list:" folder

-- | What follows a name in @status@ of that folder.
ofStatus :: String -> FilePath -> IO (Maybe Bytes.ByteString)
ofStatus name folder = fmap line <$> orNothing (Bytes.readFile (folder </> "status"))
  where
    line = Bytes.takeWhile (/= '\n') . Bytes.drop (length name) . snd . Bytes.breakSubstring (Bytes.pack name)

-- | It is there and has not ended.
isAlive :: Roots -> Int -> IO Bool
isAlive roots pid = do
  stat <- textOf (processFolder roots pid </> "stat")
  -- The name, in parentheses, may hold some itself.
  pure (take 1 (words (reverse (takeWhile (/= ')') (reverse stat)))) `notElem` [[], ["Z"], ["X"]])

-- | Files that are looked at of each process: a server with a hundred thousand
-- sockets is not to be slowed down.
filesAtMost :: Int
filesAtMost = 256

-- | The machine's counters and the threads of these processes.
readSnapshot :: Roots -> [Int] -> IO Snapshot
readSnapshot roots pids = do
  now <- getMonotonicTime
  uptime <- fromMaybe 0 . seconds <$> textOf (proc' </> "uptime")
  cores <- parseCores <$> textOf (proc' </> "stat")
  irqs <- parseInterrupts <$> textOf (proc' </> "interrupts")
  soft <- parseSoftirqs <$> textOf (proc' </> "softirqs")
  traffic <- parseTraffic <$> textOf (proc' </> "net/dev")
  -- Before the threads: what ends in between is counted at the next look.
  bytes <- IntMap.fromList . catMaybes <$> mapM bytesOf pids
  threads <- concat <$> mapM (readProcess roots) pids
  -- Read now, not when somebody looks.
  _ <- evaluate (sum bytes `seq` IntMap.size cores + length irqs + IntMap.size soft + Map.size traffic)
  pure (Snapshot now uptime cores irqs soft traffic threads bytes (Left "not asked"))
  where
    proc' = rootMachine roots </> "proc"
    seconds line = listToMaybe (words line) >>= readMaybe
    bytesOf pid = fmap (\c -> (pid, countRead c + countWritten c)) . parseCounts <$> textOf (processFolder roots pid </> "io")

readProcess :: Roots -> Int -> IO [Thread]
readProcess roots pid = do
  tids <- numbers (folder </> "task")
  (disks, sockets) <- openFiles roots pid
  fmap catMaybes . forM tids $ \tid -> do
    let own = folder </> "task" </> show tid
    stat <- parseStat <$> textOf (own </> "stat")
    counts <- parseCounts <$> textOf (own </> "io")
    allowed <- allowedIn own
    pure ((\s a -> Thread tid pid s counts a disks sockets) <$> stat <*> allowed)
  where
    folder = processFolder roots pid

-- | The disks that a process has files open on, and whether it has sockets. The files
-- themselves are not touched: those of a server that does not answer would stop us.
openFiles :: Roots -> Int -> IO ([String], Bool)
openFiles roots pid = do
  fds <- take filesAtMost <$> entries (folder </> "fd")
  links <- zip fds . map (fromMaybe "") <$> mapM (orNothing . readSymbolicLink . ((folder </> "fd") </>)) fds
  mounts <- parseMounts <$> textOf (folder </> "mountinfo")
  used <- mapM (fmap parseMountOf . textOf . ((folder </> "fdinfo") </>)) [fd | (fd, link) <- links, take 1 link == "/"]
  raw <- mapM (diskNamed roots) (nub (mapMaybe (stripPrefix "/dev/" . snd) links))
  disks <- mapM (diskOf roots) (nub (mapMaybe (>>= (`IntMap.lookup` mounts)) used))
  pure (nub (catMaybes (raw ++ disks)), any (("socket:" `isPrefixOf`) . snd) links)
  where
    folder = processFolder roots pid

-- | The disk of a device, @major:minor@.
diskOf :: Roots -> String -> IO (Maybe String)
diskOf roots device = diskBehind (rootMachine roots </> "sys/dev/block" </> device)

-- | The disk that is used by its node in @\/dev@, without a file system. The kernel is asked for
-- the name: what lies below @\/dev@ may be a file of a server that does not answer.
diskNamed :: Roots -> String -> IO (Maybe String)
diskNamed roots name = diskBehind (rootMachine roots </> "sys/class/block" </> map (\c -> if c == '/' then '!' else c) name)

-- A partition's folder lies in its disk's.
diskBehind :: FilePath -> IO (Maybe String)
diskBehind link = do
  path <- canonicalizePath link
  there <- doesDirectoryExist path
  partition <- doesPathExist (path </> "partition")
  pure (if there then Just (takeFileName (if partition then takeDirectory path else path)) else Nothing)

-- | As the kernel counts: a disk or a part of one, @major:minor@; an interface's index.
data CountedDevice = CountedDisk !String | CountedInterface !Int
  deriving (Eq, Ord, Show)

-- | The hardware's name, as 'machineHardware' has it.
deviceName :: Roots -> CountedDevice -> IO (Maybe String)
deviceName roots device = case device of
  CountedDisk numbers' -> diskOf roots numbers'
  CountedInterface index -> do
    let folder = rootMachine roots </> "sys/class/net"
    names <- entries folder
    indices <- mapM (\name -> number (folder </> name </> "ifindex")) names
    pure (listToMaybe [name | (name, Just i) <- zip names indices, i == index])
