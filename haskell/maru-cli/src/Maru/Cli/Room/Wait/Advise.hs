{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | @maru boost advise PID@: watches a job for some seconds and says why it is slow, as far
-- as time slices are concerned. The judgement is "Maru.Control.Advise"; this looks and prints.
module Maru.Cli.Room.Wait.Advise
  ( AdviseOptions (..),
    adviseOptions,
    adviseJob,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (filterM, forM, mfilter, unless)
import Data.Aeson (Value, object, (.=))
import qualified Data.Aeson.Key as Key
import qualified Data.ByteString.Char8 as Bytes
import Data.Char (isDigit)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (isInfixOf, isPrefixOf, nub)
import Data.Maybe (catMaybes, fromMaybe, isJust, isNothing, listToMaybe, mapMaybe)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Machine (ownRoots, parents, textOf, treeOf)
import Maru.Cli.Output
import Maru.Cli.Readers (processNumber, splitOn)
import Maru.Control.Advise
import Maru.Control.CpuList (parseCpuList)
import Maru.Control.Observe (Counts (..), Stat (..), parseAllowed, parseCounts, parseStat, ticksASecond)
import Maru.View.Plain
import Options.Applicative (Parser, argument, eitherReader, help, metavar, option, value)
import qualified Options.Applicative as Options
import System.Directory (doesDirectoryExist, listDirectory)
import System.Exit (ExitCode (..))
import System.FilePath (takeDirectory, takeFileName, (</>))
import System.Posix.Process (getProcessID)
import Text.Read (readMaybe)

data AdviseOptions = AdviseOptions
  { advisePid :: !Int,
    adviseFor :: !Double,
    adviseJson :: !JsonTo
  }

adviseOptions :: Parser AdviseOptions
adviseOptions =
  AdviseOptions
    <$> argument (eitherReader (processNumber 1)) (metavar "PID" <> help "A process of the job (mpirun, a rank, a shell): it, those below it and those of the process group that it leads are watched")
    <*> option (eitherReader window) (Options.long "for" <> metavar "SECONDS" <> value 3 <> help "How long to watch, 0.2 to 600 (default 3)")
    <*> jsonTo
  where
    window word = case reads word of
      [(s, "")] | s >= 0.2 && s <= 600 -> Right s
      _ -> Left ("'" ++ word ++ "' is not 0.2 to 600 seconds")

adviseJob :: AdviseOptions -> IO ExitCode
adviseJob options = do
  job <- jobOf (advisePid options)
  unless (advisePid options `elem` job) $ problem unavailable ("there is no process " ++ show (advisePid options))
  (seen, unseen) <- watchJob (adviseFor options) (advisePid options) job
  unless (any ((`elem` job) . taskProcess) (seenTasks seen)) $ problem unavailable ("process " ++ show (advisePid options) ++ " ended while it was watched")
  let findings = advise seen
  unless (adviseJson options == Just "-") (mapM_ putStrLn (report seen unseen findings))
  mapM_ (`writeJson` document options seen unseen findings) (adviseJson options)
  pure ExitSuccess

-- ---- looking ------------------------------------------------------------

proc' :: Int -> FilePath
proc' pid = "/proc" </> show pid

-- | A process, those below it and those of the group that it leads, without us.
jobOf :: Int -> IO [Int]
jobOf pid = do
  parentOf <- ownRoots >>= parents
  groups <- IntMap.traverseWithKey (\p _ -> groupIn <$> textOf (proc' p </> "stat")) parentOf
  self <- fromIntegral <$> getProcessID
  let led = [p | (p, Just group) <- IntMap.toList groups, group == pid]
  pure (filter (/= self) (nub (concatMap (treeOf parentOf [self]) (pid : led))))
  where
    -- Behind the name, which may hold anything: state, parent, group.
    groupIn stat = listToMaybe (drop 2 (words (afterName stat))) >>= readMaybe

afterName :: String -> String
afterName = reverse . takeWhile (/= ')') . reverse

-- | Of a thread at one moment.
data Moment = Moment
  { momentStat :: !Stat,
    momentNice :: !Int,
    -- | 'Nothing': this kernel does not count it; a thread that lives has run.
    momentDelayed :: !(Maybe Double),
    momentSwitches :: !(Int, Int),
    momentMoved :: !Double,
    momentAllowed :: !IntSet
  }

momentOf :: FilePath -> IO (Maybe Moment)
momentOf folder = do
  line <- textOf (folder </> "stat")
  schedule <- mfilter ((> 0) . fst) . parseSchedstat <$> textOf (folder </> "schedstat")
  status <- textOf (folder </> "status")
  moved <- maybe 0 (\c -> countRead c + countWritten c) . parseCounts <$> textOf (folder </> "io")
  pure $ do
    stat <- parseStat line
    Just $! Moment stat (fromMaybe 0 (listToMaybe (drop 16 (words (afterName line))) >>= readMaybe)) (snd <$> schedule) (fromMaybe (0, 0) (parseSwitches status)) moved (fromMaybe IntSet.empty (parseAllowed status))

cpuOf :: Stat -> Double
cpuOf s = (statUser s + statSystem s) / ticksASecond

tasksOf :: Int -> IO [Int]
tasksOf pid = maybe [] (mapMaybe readMaybe) <$> orNothing (listDirectory (proc' pid </> "task"))

allMoments :: [Int] -> IO (IntMap (Int, Moment))
allMoments job = do
  found <- forM job $ \pid -> do
    tids <- tasksOf pid
    forM tids $ \tid -> fmap (\m -> (tid, (pid, m))) <$> momentOf (proc' pid </> "task" </> show tid)
  pure (IntMap.fromList (catMaybes (concat found)))

-- | How often threads' stacks and neighbours' CPUs are looked at, and of how many.
sampleSeconds :: Double
sampleSeconds = 0.05

mostSampled :: Int
mostSampled = 64

-- | What was seen of a job, and what could not be.
watchJob :: Double -> Int -> [Int] -> IO (Seen, [String])
watchJob window pid job = do
  online <- fromMaybe IntSet.empty . parseCpuList . takeWhile (/= '\n') <$> textOf "/sys/devices/system/cpu/online"
  begun <- getMonotonicTime
  before <- allMoments job
  othersBefore <- neighbourStats job
  groups <- groupsOf pid
  throttledBefore <- mapM (throttledIn . fst) groups
  (spots, places) <- sampled (begun + window) (IntMap.toList (IntMap.map fst before)) (IntMap.keys othersBefore)
  after <- allMoments job
  othersAfter <- neighbourStats job
  throttledAfter <- mapM (throttledIn . fst) groups
  ended <- getMonotonicTime
  let long = ended - begun
      tasks = [taskBetween long (IntMap.findWithDefault [] tid spots) tid process m (snd <$> IntMap.lookup tid before) | (tid, (process, m)) <- IntMap.toList after]
  others <- neighboursBetween long pid places othersBefore othersAfter
  quotas <- mapM (\((file, path), b, a) -> groupNow file path (a - b)) (zip3 groups throttledBefore throttledAfter)
  libraries <- forM job $ \p -> (,) p <$> librariesOf p
  command <- commandOf pid
  pure
    ( Seen
        { seenFor = long,
          seenOnline = online,
          seenTasks = tasks,
          seenNeighbours = others,
          seenGroups = quotas,
          seenRanks = [(p, m) | (p, Right names) <- libraries, Just m <- [mpiOf names]],
          seenCommand = command,
          seenUnderMaru = or [any ("libmaru-" `isPrefixOf`) names || any ("maru-board" `isInfixOf`) names | (_, Right names) <- libraries]
        },
      concat
        [ ["libraries of " ++ plural (length hidden) "process" ++ " (another user's): whether they are MPI ranks" | hidden@(_ : _) <- [[p | (p, Left ()) <- libraries]]],
          ["kernel stacks (root sees them): whether threads give way or ask while they spin" | all (null . taskSpots) tasks, any (\t -> taskUser t + taskSystem t + taskDelayed t > 0.5 * long) tasks],
          ["time spent ready without a CPU (this kernel has no /proc/PID/schedstat)" | all (isNothing . momentDelayed . snd) after, not (null tasks)],
          ["limits of its control group (no cpu controller is mounted where maru looks)" | null groups]
        ]
    )

-- | Of all processes but the job's and this one.
neighbourStats :: [Int] -> IO (IntMap Stat)
neighbourStats job = do
  self <- fromIntegral <$> getProcessID
  parentOf <- ownRoots >>= parents
  stats <- forM (filter (\p -> p /= self && p `notElem` job) (IntMap.keys parentOf)) $ \p -> fmap (p,) . parseStat <$> textOf (proc' p </> "stat")
  pure (IntMap.fromList (catMaybes stats))

-- | Those that used a CPU, with the CPUs where they were seen.
neighboursBetween :: Double -> Int -> IntMap IntSet -> IntMap Stat -> IntMap Stat -> IO [Neighbour]
neighboursBetween long pid places before after = do
  own <- take 1 <$> groupsOf pid
  forM grown $ \(p, s, used) -> do
    nice <- maybe 0 momentNice <$> momentOf (proc' p)
    theirs <- take 1 <$> groupsOf p
    pure (Neighbour p (plain (statName s)) used (IntMap.findWithDefault (IntSet.singleton (statCpu s)) p places) nice (theirs /= own))
  where
    grown = [(p, s, used) | (p, s) <- IntMap.toList after, Just old <- [IntMap.lookup p before], let used = cpuOf s - cpuOf old, used >= 0.05 * long]

-- | Until then: what stacks of threads, each with its process, show, and on which CPUs other
-- processes run.
sampled :: Double -> [(Int, Int)] -> [Int] -> IO (IntMap [Spot], IntMap IntSet)
sampled end threads others = do
  -- With those first that use a CPU now: a job may have thousands.
  busy <- filterM (\(tid, process) -> (/= "S") . stateIn <$> textOf (folderOf tid process </> "stat")) threads
  go (take mostSampled (nub (busy ++ threads))) IntMap.empty IntMap.empty
  where
    go chosen spots places = do
      now <- getMonotonicTime
      if now >= end
        then pure (spots, places)
        else do
          threadDelay (round (1e6 * min sampleSeconds (end - now)))
          found <- forM chosen $ \(tid, process) -> do
            state <- stateIn <$> textOf (folderOf tid process </> "stat")
            fmap (tid,) . spotOf (state `elem` ["S", "D"]) <$> textOf (folderOf tid process </> "stack")
          seenAt <- forM (take 256 others) $ \p -> fmap (\s -> (p, IntSet.singleton (statCpu s))) . runningNow <$> textOf (proc' p </> "stat")
          go chosen (IntMap.unionWith (++) (IntMap.fromList [(t, [s]) | Just (t, s) <- found]) spots) (IntMap.unionWith IntSet.union (IntMap.fromList (catMaybes seenAt)) places)
    folderOf tid process = proc' process </> "task" </> show tid
    stateIn = take 1 . dropWhile (== ' ') . afterName
    runningNow line
      | stateIn line == "R" = parseStat line
      | otherwise = Nothing

taskBetween :: Double -> [Spot] -> Int -> Int -> Moment -> Maybe Moment -> Task
taskBetween long spots tid process now before =
  Task
    { taskId = tid,
      taskProcess = process,
      taskName = plain (statName (momentStat now)),
      taskUser = since (\m -> statUser (momentStat m) / ticksASecond),
      taskSystem = since (\m -> statSystem (momentStat m) / ticksASecond),
      taskDelayed = min long (since (fromMaybe 0 . momentDelayed)),
      taskVoluntary = count fst,
      taskInvoluntary = count snd,
      taskAllowed = momentAllowed now,
      taskNice = momentNice now,
      taskMoved = since momentMoved,
      taskSpots = spots
    }
  where
    -- One that began meanwhile: all of its own.
    since f = max 0 (f now - maybe 0 f before)
    count f = max 0 (f (momentSwitches now) - maybe 0 (f . momentSwitches) before)

-- | Names of the files that a process has mapped; 'Left': they may not be read.
librariesOf :: Int -> IO (Either () [String])
librariesOf pid = do
  maps <- orNothing (Bytes.readFile (proc' pid </> "maps"))
  pure $ case maps of
    Nothing -> Left ()
    Just content -> Right (nub [takeFileName (Bytes.unpack path) | line <- Bytes.lines content, let path = Bytes.dropWhile (/= '/') line, not (Bytes.null path)])

commandOf :: Int -> IO [String]
commandOf pid = map plain . filter (not . null) . splitOn '\0' <$> textOf (proc' pid </> "cmdline")

-- ---- control groups -----------------------------------------------------

data Version = One | Two
  deriving (Eq)

-- | Folders of its groups with the cpu controller, the innermost first, and their paths.
groupsOf :: Int -> IO [((Version, FilePath), FilePath)]
groupsOf pid = do
  memberships <- lines <$> textOf (proc' pid </> "cgroup")
  concat <$> mapM located (mapMaybe membership memberships)
  where
    membership line = case break (== ':') line of
      ("0", ':' : ':' : path) -> Just (Two, path)
      (_, ':' : rest) | (controllers, ':' : path) <- break (== ':') rest, "cpu" `elem` splitOn ',' controllers -> Just (One, path)
      _ -> Nothing
    located (version, path) = do
      let roots = if version == Two then ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] else ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
          marker = if version == Two then "cgroup.procs" else "cpu.shares"
      there <- filterM (\root -> isJust <$> orNothing (Bytes.readFile (root </> marker))) roots
      let paths = takeWhile' (iterate takeDirectory path)
      filterM (doesDirectoryExist . snd . fst) [((version, root ++ p), p) | root <- take 1 there, p <- paths]
    takeWhile' (p : more) = if p == "/" || p == "." || null p then ["/"] else p : takeWhile' more
    takeWhile' [] = []

-- | Seconds.
throttledIn :: (Version, FilePath) -> IO Double
throttledIn (version, folder) = do
  stat <- textOf (folder </> "cpu.stat")
  pure (fromMaybe 0 (listToMaybe [n / unit | [key, v] <- map words (lines stat), key == name, Just n <- [readMaybe v]]))
  where
    (name, unit) = if version == Two then ("throttled_usec", 1e6) else ("throttled_time", 1e9)

groupNow :: (Version, FilePath) -> FilePath -> Double -> IO Group
groupNow (version, folder) path throttled = do
  quota <- if version == Two then parseQuota <$> textOf (folder </> "cpu.max") else (\q p -> parseQuota (q ++ " " ++ p)) <$> textOf (folder </> "cpu.cfs_quota_us") <*> textOf (folder </> "cpu.cfs_period_us")
  weight <- readMaybe . takeWhile isDigit <$> textOf (folder </> (if version == Two then "cpu.weight" else "cpu.shares"))
  pure (Group path quota (max 0 throttled) ((if version == Two then id else (/ 10.24)) <$> weight))

-- ---- printing -----------------------------------------------------------

report :: Seen -> [String] -> [Finding] -> [String]
report seen unseen findings = (plural (length (nub (map taskProcess (seenTasks seen)))) "process" ++ ", " ++ plural (length (seenTasks seen)) "thread" ++ ", watched for " ++ seconds (seenFor seen)) : concat body ++ ["not seen: " ++ line | line <- unseen]
  where
    body
      | null findings = [[verdict]]
      | otherwise = [(findingName f ++ " (" ++ confidenceName (findingConfidence f) ++ "): " ++ findingText f) : ["  -> " ++ r | r <- findingRemedies f] | f <- findings]
    used = sum [taskUser t + taskSystem t | t <- seenTasks seen] / max 1e-9 (seenFor seen)
    verdict = "nothing is wrong with its time slices: it used " ++ show (round (100 * used) :: Int) ++ " % of a CPU and got one when it wanted it" ++ mostly
    -- Where it sleeps, if it does.
    mostly = case [place | t <- seenTasks seen, Asleep place <- taskSpots t] of
      place : more | used < 0.5 -> "; it sleeps, mostly in " ++ commonest (place : more)
      _ -> ""
    commonest places = snd (maximum [(length (filter (== p) places), p) | p <- nub places])

document :: AdviseOptions -> Seen -> [String] -> [Finding] -> Value
document options seen unseen findings =
  object
    [ "schema" .= ("maru-advise/1" :: String),
      "pid" .= advisePid options,
      "watched_s" .= seenFor seen,
      "threads" .= length (seenTasks seen),
      "ranks" .= [p | (p, _) <- seenRanks seen],
      "findings"
        .= [ object
               [ "name" .= findingName f,
                 "confidence" .= confidenceName (findingConfidence f),
                 "text" .= findingText f,
                 "figures" .= object [Key.fromString k .= v | (k, v) <- findingFigures f],
                 "remedies" .= findingRemedies f
               ]
             | f <- findings
           ],
      "not_seen" .= unseen
    ]
