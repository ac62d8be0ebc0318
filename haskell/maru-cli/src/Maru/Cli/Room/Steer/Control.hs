{-# LANGUAGE OverloadedStrings #-}

-- | The controller beside a program, @maru steer-run@: looks twice a second, asks
-- "Maru.Control.Steer" and "Maru.Control.Place" what to do. It tells it to the keeper that started
-- it, @maru-steer@ (its head has the protocol). The keeper changes things and puts them back; if it
-- is killed, this process starts the putting back.
module Maru.Cli.Room.Steer.Control
  ( steerRun,
    tooFew,
    keeperWords,
    Choice (..),
    Placing (..),
    choiceOf,
    choiceNames,

    -- * For tests
    Story (..),
    newStory,
    verdict,
  )
where

import Control.Applicative ((<|>))
import Data.Aeson (Value, object, (.=))
import qualified Data.ByteString.Lazy as Lazy
import Data.Char (toLower)
import Data.Foldable (foldl')
import qualified Data.IntMap.Strict as IntMap
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (intercalate, nub)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, isNothing)
import GHC.Clock (getMonotonicTime)
import GHC.Float (castDoubleToWord64)
import Maru.Cli.Exit
import Maru.Cli.Machine
import Maru.Cli.Output (jsonLine, plural)
import Maru.Cli.Readers (named)
import Maru.Cli.Room.Steer.Link
import Maru.Cli.Room.Steer.Page (observationJson)
import Maru.Cli.Room.Steer.Watch
import Maru.Control.CpuList
import Maru.Control.Observe
import Maru.Control.Place
import Maru.Control.Steer
import Numeric (showFFloat)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.Process (getParentProcessID)
import System.Posix.Types (ProcessID)
import Text.Read (readMaybe)

-- | What @--io@ takes: a policy, or only to look.
data Choice = Off | By !Policy
  deriving (Eq, Show)

-- | How threads are placed.
data Placing
  = -- | A program may bind itself anew.
    ByAffinity
  | -- | By cgroups of its own, where that can be: what nobody sees being started is in them, too. A
    -- program that binds itself elsewhere is refused.
    ByCpusets
  deriving (Eq, Show)

choiceName :: Choice -> String
choiceName choice = case choice of
  Off -> "off"
  By policy -> policyName policy

choiceNames :: [String]
choiceNames = map choiceName choices

choices :: [Choice]
choices = map By allPolicies ++ [Off]

choiceOf :: String -> Either String Choice
choiceOf = named "io policy" choiceName choices

-- | The command that steers the processes below one. Given are the keeper's program, this
-- command's, the process, the policy, how threads are placed, and the folder that stands for the
-- machine.
keeperWords :: FilePath -> FilePath -> Int -> Choice -> Placing -> Maybe FilePath -> [String]
keeperWords keeper command tree choice placing root =
  [keeper, "keeper", "--tree", show tree, "--place", if placing == ByCpusets then "cpusets" else "affinity"]
    ++ maybe [] (\r -> ["--root", r]) root
    ++ ["--", command, "steer-run", keeper, show tree, choiceName choice]
    ++ maybe [] pure root

-- | Between two looks. Shorter ones hold too few of the kernel's ticks.
period :: Double
period = 0.5

-- | Where nothing is going to be placed: the keeper says at once when it is over.
restingPeriod :: Double
restingPeriod = 5

-- ---- the story ----------------------------------------------------------

-- | What is told at the end.
data Story = Story
  { storyChoice :: !Choice,
    -- | Why nothing can be done, if so.
    storyOff :: !(Maybe String),
    storyMended :: !Bool,
    storyBusy :: !Bool,
    -- | What its threads read and write may not be seen, nor which files they hold open.
    storyBlind :: !Bool,
    -- | Seconds from the start, and what was done, newest first, but for the turns of trials.
    storyActions :: ![(Double, Action)],
    storySets :: !Sets,
    storyPolicy :: !(Maybe Policy),
    -- | What could not be set, and why.
    storyRefused :: !(Map Target String),
    storyThreads :: !Int,
    -- | Why threads were placed by their affinity although cpusets were asked for.
    storyAlone :: !(Maybe String),
    -- | Settings that are in force now.
    storyInForce :: !Int,
    storyTally :: !Tally,
    -- | What is in force is on trial.
    storyTrying :: !Bool,
    storyFailed :: !Int
  }

newStory :: Choice -> Story
newStory choice = Story choice Nothing False False False [] Map.empty Nothing Map.empty 0 Nothing 0 (stateTally start) False 0

-- | One line.
verdict :: Story -> String
verdict story = intercalate "; " (outcome : mended ++ alone ++ refused ++ failed)
  where
    tally = storyTally story
    outcome
      | Just why <- storyOff story = "off: " ++ why
      | storyChoice story == Off = "off, as asked"
      | not (Map.null (storySets story)) && storyInForce story == 0 = "off: nothing of what was wanted could be set"
      | not (Map.null (storySets story)) = (if storyTrying story then "on trial" else "placed") ++ maybe "" ((", " ++) . policyName) (storyPolicy story) ++ ": " ++ intercalate ", " [itemName item ++ " on " ++ showCpuList set | (item, set) <- Map.toList (storySets story)] ++ counted
      | storyTrying story = "off: on trial, not decided yet" ++ counted
      | tallyTrials tally > 0 = "off: tried and undone" ++ maybe "" ((", " ++) . verdictWords) (tallyLast tally) ++ counted
      | storyBusy story = "off: input and output need no cores of their own here"
      | storyBlind story = "off: the program's input and output may not be seen (another user's; CAP_SYS_PTRACE is missing)"
      | otherwise = "off: hardly any input and output was seen"
    counted = " (" ++ intercalate ", " ([show (storyThreads story) ++ " threads"] ++ gain ++ ["trials: " ++ show (tallyTrials tally), "undone: " ++ show (tallyUndone tally)]) ++ ")"
    gain = case tallyLast tally of
      Just (Faster, n, r) | not (Map.null (storySets story)) -> [ratioText r ++ " times the rate in " ++ show n ++ " pairs"]
      _ -> []
    mended = ["put back what a run that was killed had left" | storyMended story]
    refused = case Map.toList (storyRefused story) of
      [] -> []
      (target, why) : more -> ["could not set " ++ targetName target ++ " (" ++ why ++ ")" ++ (if null more then "" else " and " ++ show (length more) ++ " more")]
    alone = ["by affinity, not by cpusets: " ++ why | Just why <- [storyAlone story]]
    failed = [show (storyFailed story) ++ " settings could not be put back" | storyFailed story > 0]

-- | Why it was undone, or not.
verdictWords :: (Verdict, Int, Double) -> String
verdictWords (why, n, r) = case why of
  Faster -> "it was faster, then no more"
  NotFaster -> "it was not faster (" ++ ratioText r ++ " times the rate in " ++ show n ++ " pairs of slices)"
  Slower -> "the rate fell"
  Undecided -> "nothing could be decided (" ++ show n ++ " pairs of slices)"
  Idle -> "nothing got done meanwhile"

ratioText :: Double -> String
ratioText r = showFFloat (Just 2) r ""

targetName :: Target -> String
targetName target = case target of
  OfThread tid _ -> "thread " ++ show tid
  OfFile path -> '/' : path

storyJson :: Story -> Maybe Value -> Value
storyJson story seen =
  object
    [ "schema" .= ("maru-steer/1" :: String),
      "room" .= ("steer" :: String),
      "line" .= verdict story,
      "policy" .= choiceName (storyChoice story),
      "in_force" .= fmap policyName (storyPolicy story),
      "sets" .= [object ["item" .= itemName item, "cpus" .= showCpuList set] | (item, set) <- Map.toList (storySets story)],
      "changes" .= [object ["at_s" .= t, "item" .= itemName (actionItem a), "cpus" .= showCpuList (actionCpus a), "why" .= reasonName (actionReason a)] | (t, a) <- reverse (storyActions story)],
      "trials" .= tallyTrials tally,
      "kept" .= tallyKept tally,
      "undone" .= tallyUndone tally,
      "last_verdict" .= [object ["verdict" .= map toLower (show v), "pairs" .= n, "ratio" .= r] | Just (v, n, r) <- [tallyLast tally]],
      "refused" .= [object ["what" .= targetName target, "why" .= why] | (target, why) <- Map.toList (storyRefused story)],
      "threads" .= storyThreads story,
      "cpusets_refused" .= storyAlone story,
      "last_seen" .= seen
    ]
  where
    tally = storyTally story

-- ---- the loop ----------------------------------------------------------

data Steering = Steering
  { steerLink :: !Link,
    steerRoots :: !Roots,
    steerDescribed :: !Bool,
    steerTree :: !Int,
    -- | Where the program runs by itself.
    steerBase :: !IntSet,
    steerKeeper :: !ProcessID,
    steerBegan :: !Double,
    steerWatch :: !Watch
  }

data Now = Now
  { nowState :: !State,
    nowHave :: !Settings,
    nowMasks :: ![IntSet],
    nowBefore :: !(Maybe Snapshot),
    nowSeen :: !(Maybe (Machine, Observation)),
    nowStory :: !Story
  }

-- | @maru steer-run KEEPER TREE POLICY [ROOT]@, for the keeper alone.
steerRun :: [String] -> IO ExitCode
steerRun arguments = case arguments of
  keeper : tree : name : root
    | Just pid <- readMaybe tree,
      Right choice <- choiceOf name,
      length root <= 1 ->
      steer keeper pid choice (foldr const "" root)
  _ -> problem usage "steer-run is for the keeper alone"

steer :: FilePath -> Int -> Choice -> FilePath -> IO ExitCode
steer keeper tree choice root = do
  parent <- getParentProcessID
  link <- openLink
  began <- getMonotonicTime
  watch <- newWatch
  first <- hear link
  let story = newStory choice
      steering base = Steering link (Roots (if null root then "/" else root) "/") (not (null root)) tree base parent began watch
      -- Controllers beside each other must not turn in step.
      fresh = Now (startWith (fromIntegral tree + castDoubleToWord64 began)) Map.empty [] Nothing Nothing
      begin base s = loop (steering base) (fresh s)
  (end, now) <- case words <$> first of
    Just ["ready", cpus, mended] | Just base <- parseCpuList cpus -> begin base story {storyMended = mended /= "0"}
    Just ("off" : why) -> begin IntSet.empty story {storyOff = Just (unwords why)}
    _ -> pure (Orphaned, fresh story)
  case end of
    Told failed -> do
      let s = (nowStory now) {storyFailed = failed}
      -- Nobody may be left to read it.
      _ <- orNothing (Lazy.putStr (jsonLine (storyJson s (uncurry observationJson <$> nowSeen now))) >> hFlush stdout)
      stopWatch watch
      pure ExitSuccess
    Orphaned -> do
      -- Whether or not somebody reads that.
      warn "the keeper of --io was killed; its controller puts everything back"
      repairAfter keeper parent root

-- | Until the keeper says that it is over, or the program is gone.
loop :: Steering -> Now -> IO (End, Now)
loop steering now = do
  ended <- pauseOrEnd (steerLink steering) (if resting now then restingPeriod else period)
  there <- isAlive (steerRoots steering) (steerTree steering)
  case ended of
    Just end -> pure (end, now)
    Nothing | not there -> do
      end <- ending (steerLink steering)
      pure (end, now)
    Nothing -> do
      next <- look steering now
      case next of
        Left end -> pure (end, now)
        Right after -> loop steering after

-- | Why nothing is placed on so many CPUs.
tooFew :: Int -> String
tooFew cpus = plural cpus "CPU" ++ "; with fewer than four none is given to input and output alone"

-- | Nothing will be placed, and what can be told at the end was seen once.
resting :: Now -> Bool
resting now = isJust (storyOff story) || storyChoice story == Off && isJust (nowSeen now)
  where
    story = nowStory now

look :: Steering -> Now -> IO (Either End Now)
look steering now
  | Just _ <- storyOff (nowStory now) = pure (Right now)
  | otherwise = do
    machine <- readMachine (rootMachine roots)
    parentOf <- parents roots
    -- The keeper and we stand below the run as well.
    let tree = filter (/= steerTree steering) (treeOf parentOf [fromIntegral (steerKeeper steering)] (steerTree steering))
        described = IntMap.keysSet (machineCpus machine)
        allowed = if steerDescribed steering then described else IntSet.intersection (steerBase steering) described
        places = case storyChoice (nowStory now) of
          Off -> False
          By policy -> budget (defaultConfig policy) allowed > 0
        see = if places then snapshotOf (steerWatch steering) else unwatched "nothing is to be placed"
    snapshot <- see roots (if runs parentOf then tree else steerTree steering : tree)
    let seen = (`between'` snapshot) <$> nowBefore now
        between' = between machine
    time <- getMonotonicTime
    case (storyChoice (nowStory now), seen) of
      (By policy, Just observation)
        -- What is placed while CPUs go away is put back first.
        | places || not (Map.null (nowHave now)) -> act steering machine allowed (defaultConfig policy) (time - steerBegan steering) observation now {nowBefore = Just snapshot, nowSeen = Just (machine, observation)}
        | otherwise -> do
          stopWatch (steerWatch steering)
          pure (Right now {nowStory = (nowStory now) {storyOff = Just (tooFew (IntSet.size allowed))}, nowSeen = Just (machine, observation)})
      (_, observation) -> pure (Right now {nowBefore = Just snapshot, nowSeen = (,) machine <$> observation})
  where
    roots = steerRoots steering
    -- The keeper is a child of the supervisor of a run, and of somebody else when a
    -- program is attached to.
    runs parentOf = IntMap.lookup (fromIntegral (steerKeeper steering)) parentOf == Just (steerTree steering)

-- | One period of the controller.
act :: Steering -> Machine -> IntSet -> Config -> Double -> Observation -> Now -> IO (Either End Now)
act steering machine allowed config time observation now = do
  answered <- exchange (steerLink steering) batch
  pure $ case answered of
    Left end -> Left end
    Right got -> Right (counted (foldl' learn told (zip batch got)))
  where
    sample = sampleOf machine allowed observation
    (state, actions) = step config (topologyFor machine observation) (nowState now) sample
    sets = stateSets state
    wanted = settings machine allowed (steerBase steering) (nowMasks now) (statePolicy state) sets observation
    -- While the sets stay, so does each thread: what it does changes from period to period.
    kept = if null actions then Map.union (Map.intersection (nowHave now) wanted) wanted else wanted
    batch = filter (worthwhile . target) (orders (nowHave now) kept)
    worthwhile t = Map.notMember t (storyRefused story)
    target order = case order of
      Set t _ -> t
      Back t -> t
    story = nowStory now
    counted n = n {nowStory = (nowStory n) {storyInForce = Map.size (nowHave n)}}
    told =
      now
        { nowState = state,
          nowStory =
            story
              { storyActions = [(time, a) | a <- reverse actions, actionReason a /= Turned] ++ storyActions story,
                storyTally = stateTally state,
                storyTrying = stateTrying state,
                storySets = sets,
                storyPolicy = statePolicy state,
                storyBlind = all (isNothing . threadCounts . usedThread) (observedThreads observation) && not (null (observedThreads observation)),
                storyBusy = storyBusy story || not (all IntMap.null (sampleWork sample))
              }
        }
    learn n (order, answer) = case (order, answer) of
      (Set t value, Done alone) ->
        n
          { nowHave = Map.insert t value (nowHave n),
            nowMasks = nub (maskOf t value ++ nowMasks n),
            nowStory =
              (nowStory n)
                { storyThreads = storyThreads (nowStory n) + (if isThread t && Map.notMember t (nowHave n) then 1 else 0),
                  storyAlone = alone <|> storyAlone (nowStory n)
                }
          }
      (Set (OfThread _ _) _, Refused "gone") -> n
      -- Threads come and go for as long as a server runs.
      (Set t _, Refused why) | Map.size (storyRefused (nowStory n)) < 1000 -> n {nowStory = (nowStory n) {storyRefused = Map.insert t why (storyRefused (nowStory n))}}
      (Set _ _, Refused _) -> n
      (Back t, _) -> n {nowHave = Map.delete t (nowHave n)}
    isThread t = case t of
      OfThread _ _ -> True
      OfFile _ -> False
    maskOf t value = case t of
      OfThread _ _ -> [IntSet.intersection (steerBase steering) (fromMaybe IntSet.empty (parseCpuList value))]
      OfFile _ -> []
