-- | Why a job is slow, as far as time slices are concerned. It goes from what was seen of its
-- threads, their neighbours and their control groups during some seconds to findings, each with the
-- figures that it rests on, how sure it is, and what to type.
--
-- What cannot be told from outside is not guessed. A thread that only computes and one that looks
-- at a word of memory again and again look the same, unless the word is MPI's.
--
-- Pure; O(threads + neighbours).
module Maru.Control.Advise
  ( -- * What was seen
    module Maru.Control.Advise.Seen,

    -- * Findings
    Finding (..),
    Confidence (..),
    confidenceName,
    advise,
  )
where

import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (intercalate, nub, sortOn)
import Data.Maybe (catMaybes)
import Data.Ord (Down (..))
import Maru.Control.Advise.Seen
import Maru.Control.CpuList (showCpuList)
import Numeric (showFFloat)

-- ---- findings -----------------------------------------------------------

data Finding = Finding
  { -- | One word, for programs.
    findingName :: !String,
    findingConfidence :: !Confidence,
    findingText :: !String,
    findingFigures :: ![(String, Double)],
    -- | What to type, or to do.
    findingRemedies :: ![String]
  }
  deriving (Eq, Show)

data Confidence = Possible | Likely | Certain
  deriving (Eq, Ord, Show, Enum, Bounded)

confidenceName :: Confidence -> String
confidenceName c = case c of
  Possible -> "possible"
  Likely -> "likely"
  Certain -> "certain"

-- | The most telling first; none: nothing of this kind is wrong.
advise :: Seen -> [Finding]
advise seen
  | seenFor seen <= 0 = []
  | otherwise = catMaybes [throttled seen, pinned seen, spinning seen, crowded seen, hogged seen, narrow seen, behind seen]

-- | Threads that want a CPU at least a tenth of the time.
busy :: Seen -> [Task]
busy seen = [t | t <- seenTasks seen, wanted t >= 0.1 * seenFor seen]

wanted, ran :: Task -> Double
wanted t = ran t + taskDelayed t
ran t = taskUser t + taskSystem t

-- | How many CPUs' worth of the job was ready, on average.
ready :: Seen -> Double
ready seen = sum (map wanted (seenTasks seen)) / seenFor seen

delayShare :: Seen -> Double
delayShare seen
  | whole > 0 = sum (map taskDelayed (seenTasks seen)) / whole
  | otherwise = 0
  where
    whole = sum (map wanted (seenTasks seen))

-- | Where the job's busy threads may run.
allowed :: Seen -> IntSet
allowed seen = case map taskAllowed (busy seen) of
  [] -> seenOnline seen
  sets -> IntSet.unions sets

throttled :: Seen -> Maybe Finding
throttled seen = case sortOn (Down . groupThrottled) [g | g <- seenGroups seen, groupThrottled g > 0.01 * seenFor seen] of
  g : _ ->
    Just
      Finding
        { findingName = "throttled",
          findingConfidence = Certain,
          findingText = "its control group " ++ groupPath g ++ " may use " ++ maybe "a limited number of" two (groupQuota g) ++ " CPUs and was stopped for that: " ++ two (groupThrottled g) ++ " s of " ++ two (seenFor seen) ++ " s, summed over CPUs",
          findingFigures = ("throttled_s", groupThrottled g) : [("quota_cpus", q) | Just q <- [groupQuota g]],
          findingRemedies = ["give it more CPUs (cpu.max, docker --cpus, a pod's limits), or start fewer threads than the quota has CPUs"]
        }
  [] -> Nothing

-- | Several threads that want a CPU all share one, while there are more.
pinned :: Seen -> Maybe Finding
pinned seen = case sortOn (Down . snd) [(cpu, n) | (cpu, n) <- IntMap.toList crowds, n >= 2] of
  (cpu, n) : _
    | IntSet.size (seenOnline seen) > 1,
      length fixed >= 2,
      IntMap.size crowds < min (length fixed) (IntSet.size (seenOnline seen)) ->
      Just
        Finding
          { findingName = "pinned",
            findingConfidence = Certain,
            findingText = show n ++ " of its " ++ show (length (busy seen)) ++ " busy threads may run on CPU " ++ show cpu ++ " only, and " ++ show (IntSet.size (seenOnline seen)) ++ " CPUs are online",
            findingFigures = [("threads", fromIntegral n), ("cpu", fromIntegral cpu), ("online", fromIntegral (IntSet.size (seenOnline seen)))],
            findingRemedies =
              ["mpirun --bind-to none ... (or another binding of ranks to CPUs)" | OpenMpi `elem` map snd (seenRanks seen)]
                ++ ["for p in " ++ unwords (map show (take 8 (nub (map taskProcess fixed)))) ++ "; do taskset -acp " ++ showCpuList (seenOnline seen) ++ " $p; done"]
          }
  _ -> Nothing
  where
    fixed = [t | t <- busy seen, IntSet.size (taskAllowed t) == 1]
    crowds = IntMap.fromListWith (+) [(cpu, 1 :: Int) | t <- fixed, cpu <- IntSet.toList (taskAllowed t)]

-- | A thread that hardly ever sleeps, is in the kernel for much of its time and moves next to
-- nothing there: it asks again and again.
asks :: Seen -> Task -> Bool
asks seen t = awake && enough && taskSystem t >= 0.3 * ran t && taskMoved t <= 1e6 * ran t
  where
    awake = wanted t >= 0.8 * seenFor seen
    -- The kernel's clock for this has ticks of 10 ms.
    enough = ran t >= 0.05

yields :: Task -> Bool
yields t = length [() | InYield <- taskSpots t] * 5 >= max 5 (length (taskSpots t))

spinning :: Seen -> Maybe Finding
spinning seen
  | null spinners = Nothing
  | otherwise =
    Just
      Finding
        { findingName = "spinning",
          findingConfidence = if any yields spinners then Certain else if all (asks seen) spinners then Likely else Possible,
          findingText = plural (length spinners) "thread" ++ how ++ perMpi ++ "; they take " ++ percent (safe (sum (map ran spinners)) (cpuTime seen)) ++ " of its CPUs",
          findingFigures =
            [ ("threads", fromIntegral (length spinners)),
              ("cpu_s", sum (map ran spinners)),
              ("kernel_share", safe (sum (map taskSystem spinners)) (sum (map ran spinners))),
              ("voluntary_switches_per_s", perSecond taskVoluntary),
              ("involuntary_switches_per_s", perSecond taskInvoluntary)
            ],
          findingRemedies = if seenUnderMaru seen then ["it runs under maru already: maru top shows what its waits cost"] else remedies
        }
  where
    isRank t = taskProcess t `elem` map fst (seenRanks seen)
    -- An MPI rank that never sleeps where ranks outnumber CPUs waits for those who do not run.
    spinners = [t | t <- seenTasks seen, asks seen t || yields t && wanted t >= 0.5 * seenFor seen || isRank t && wanted t >= 0.8 * seenFor seen && crowdedBy seen > 1.2]
    how
      | any yields spinners = never ++ " and " ++ verb "give" ++ " way instead (sched_yield)"
      | any (asks seen) spinners = never ++ " and " ++ verb "ask" ++ " the kernel again and again (polls without a time-out, reads that find nothing)"
      | otherwise = never
    never = " that never " ++ verb "sleep"
    verb word = if length spinners == 1 then word ++ "s" else word
    perMpi = case nub [m | (pid, m) <- seenRanks seen, pid `elem` map taskProcess spinners] of
      [] -> ""
      ms -> "; ranks of " ++ intercalate " and " (map mpiName ms) ++ ", which spins while it waits"
    perSecond f = fromIntegral (sum (map f spinners)) / seenFor seen
    remedies = case seenRanks seen of
      [] -> ["maru run --wait adaptive --wait-poll -- " ++ command]
      _ -> ["maru run --wait adaptive -- " ++ command, "maru tune wait -- " ++ command]
    command = if null (seenCommand seen) then "COMMAND" else unwords (map quoted (seenCommand seen))

-- | Of the CPUs that it may use, in the window.
cpuTime :: Seen -> Double
cpuTime seen = seenFor seen * fromIntegral (IntSet.size (allowed seen))

-- | Ready threads by CPU.
crowdedBy :: Seen -> Double
crowdedBy seen = ready seen / fromIntegral (max 1 (IntSet.size (allowed seen)))

crowded :: Seen -> Maybe Finding
crowded seen
  | crowdedBy seen > 1.2,
    length (busy seen) > cpus =
    Just
      Finding
        { findingName = "oversubscribed",
          findingConfidence = Certain,
          findingText =
            show (length (busy seen)) ++ " busy threads on " ++ plural cpus "CPU" ++ ": " ++ two (ready seen) ++ " of them were ready at a time, and spent " ++ percent (delayShare seen)
              ++ " of that without a CPU",
          findingFigures = [("ready", ready seen), ("cpus", fromIntegral cpus), ("delay_share", delayShare seen), ("involuntary_switches_per_s", fromIntegral (sum (map taskInvoluntary (seenTasks seen))) / seenFor seen)],
          findingRemedies = case seenRanks seen of
            [] -> ["start as many threads as there are CPUs (" ++ show cpus ++ ")"]
            _ -> ["as many ranks as CPUs (-n " ++ show cpus ++ "), or let them sleep while they wait: maru run --wait adaptive -- ..."]
        }
  | otherwise = Nothing
  where
    cpus = IntSet.size (allowed seen)

-- | Others on the job's CPUs, while the job is kept waiting for them.
hogged :: Seen -> Maybe Finding
hogged seen
  | null hogs || delayShare seen < 0.1 || taken < 0.1 = Nothing
  | otherwise =
    Just
      Finding
        { findingName = "hogs",
          findingConfidence = if delayShare seen >= 0.25 && taken >= 0.25 then Certain else Likely,
          findingText =
            "other programs use its CPUs (" ++ intercalate ", " (map told (take 4 hogs)) ++ (if length hogs > 4 then ", and " ++ show (length hogs - 4) ++ " more" else "")
              ++ ") while its threads wait for a CPU "
              ++ percent (delayShare seen)
              ++ " of the time that they want one",
          findingFigures = [("hogs", fromIntegral (length hogs)), ("hog_cpu_s", sum (map neighbourCpu hogs)), ("hog_share", taken), ("delay_share", delayShare seen)],
          findingRemedies =
            ["end or move them, or let them yield: renice -n 19 -p " ++ unwords (map (show . neighbourPid) (take 8 hogs)) | not (all neighbourApart hogs)]
              ++ ["they are in other control groups, where nice does not count: raise the job's cpu.weight, or lower theirs" | any neighbourApart hogs]
              ++ ["maru boost (as root): raises threads of maru's channels whose message is there" | seenUnderMaru seen]
        }
  where
    own = allowed seen
    -- Of the CPUs of the job; the rest of its delay is its own doing.
    taken = safe (sum (map neighbourCpu hogs)) (cpuTime seen)
    hogs = sortOn (Down . neighbourCpu) [n | n <- seenNeighbours seen, neighbourCpu n >= 0.1 * seenFor seen, not (IntSet.disjoint own (neighbourSeen n)), neighbourNice n < 15]
    told n = neighbourName n ++ " (" ++ show (neighbourPid n) ++ ", " ++ percent (neighbourCpu n / seenFor seen) ++ " of a CPU, CPU " ++ showCpuList (neighbourSeen n) ++ ")"

-- | Fewer CPUs than the machine has, and more work than these do.
narrow :: Seen -> Maybe Finding
narrow seen
  | IntSet.null (allowed seen) || cpus >= IntSet.size (seenOnline seen) || crowdedBy seen <= 1.2 || IntSet.size (allowed seen) == 0 = Nothing
  | otherwise =
    Just
      Finding
        { findingName = "few-cpus",
          findingConfidence = Certain,
          findingText = "it may use CPU " ++ showCpuList (allowed seen) ++ " only, " ++ show cpus ++ " of " ++ show (IntSet.size (seenOnline seen)) ++ " that are online, and had " ++ two (ready seen) ++ " threads ready",
          findingFigures = [("cpus", fromIntegral cpus), ("online", fromIntegral (IntSet.size (seenOnline seen))), ("ready", ready seen)],
          findingRemedies = ["ask for more CPUs (cpuset.cpus, taskset, the batch system's option), or start fewer ranks"]
        }
  where
    cpus = IntSet.size (allowed seen)

-- | Of low priority, and it shows.
behind :: Seen -> Maybe Finding
behind seen
  | null low || delayShare seen < 0.1 = Nothing
  | otherwise =
    Just
      Finding
        { findingName = "priority",
          findingConfidence = Likely,
          findingText = plural (length low) "busy thread" ++ " of low priority (nice " ++ show (maximum (map taskNice low)) ++ ") and kept waiting " ++ percent (delayShare seen) ++ " of the time that a CPU is wanted",
          findingFigures = [("threads", fromIntegral (length low)), ("delay_share", delayShare seen)],
          findingRemedies = ["start it without nice; as root: renice -n 0 -p " ++ unwords (map show (take 8 (nub (map taskProcess low))))]
        }
  where
    low = [t | t <- busy seen, taskNice t > 0]

-- ---- words --------------------------------------------------------------

mpiName :: Mpi -> String
mpiName OpenMpi = "Open MPI"
mpiName Mpich = "MPICH"

safe :: Double -> Double -> Double
safe part whole = if whole > 0 then part / whole else 0

two :: Double -> String
two x = showFFloat (Just 2) x ""

percent :: Double -> String
percent x = show (round (100 * x) :: Int) ++ " %"

plural :: Int -> String -> String
plural 1 noun = "1 " ++ noun
plural n noun = show n ++ " " ++ noun ++ "s"

-- | For a shell.
quoted :: String -> String
quoted word
  | not (null word), all plain word = word
  | otherwise = "'" ++ concatMap (\c -> if c == '\'' then "'\\''" else [c]) word ++ "'"
  where
    plain c = c `elem` ['a' .. 'z'] || c `elem` ['A' .. 'Z'] || c `elem` ['0' .. '9'] || c `elem` "_-./=:,+@%"
