{-# LANGUAGE OverloadedStrings #-}

-- | @maru tune lock@: the deadline with which a command's mutexes do most while their waits
-- hold an objective. "Maru.Control.Tune.Lock" says what to measure next, as it does on the
-- simulator; here that is measured.
--
-- The command runs under @maru run --lock cna --lock-profile@, and a window is a time of its life.
-- The knobs on its board are turned, and what the counters there grow by is the window. A command
-- that ends before is started again, and the window goes on. With a metric, a number that the
-- command prints when it has done its work, a window is a run of the command. FIFO is @cna@ with a
-- range of 1, which always leaves the socket: the same queue, in order.
module Maru.Cli.Room.Lock.Tune
  ( lockTuner,
  )
where

import Control.Concurrent (myThreadId, threadDelay)
import Control.Exception (Exception, finally, mask_, onException, throwIO, throwTo, try)
import Control.Monad (unless, void, when, (>=>))
import Data.Aeson (Value, object, (.=))
import Data.IORef
import Data.List (stripPrefix)
import Data.Maybe (fromMaybe, isJust, listToMaybe)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Group (endWithin)
import Maru.Cli.Host (boardsOf)
import Maru.Cli.Installed (commandItself)
import Maru.Cli.Output
import Maru.Cli.Program (describeProgram, unfit)
import Maru.Cli.Readers (duration)
import Maru.Cli.Reaper (endGroup, underReaper)
import Maru.Cli.Room
import Maru.Cli.Room.Lock.Metric
import Maru.Cli.Room.Lock.Waits
import Maru.Control.Tune.Lock
import Maru.Native.BoardView (readBoard)
import Maru.Native.Open (openExisting)
import Maru.Native.Probe (setOverlayDeadline, setOverlayRange)
import Numeric (showFFloat)
import Options.Applicative hiding (internal)
import System.Exit (ExitCode (..))
import System.IO (Handle, IOMode (ReadMode, WriteMode), openFile, withFile)
import System.Posix.IO (OpenMode (ReadWrite), closeFd)
import System.Posix.Signals (Handler (Catch), installHandler, sigHUP, sigTERM)
import System.Posix.Types (Fd)
import System.Process
import System.Timeout (timeout)
import Text.Read (readMaybe)

lockTuner :: Tuner
lockTuner =
  Tuner
    { tunerName = "lock",
      tunerPurpose = "Who gets a contended mutex next: the most acquisitions a second that keep an objective for waits",
      tunerExample = "--slo p99.9=200us --name server -- ./server",
      tunerParser = (,,) <$> objective <*> window <*> metric,
      tunerPicture = const Nothing,
      tunerRun = \(slo, length', text) context -> do
        way <- traverse parseMetric text >>= waysToLook length'
        tuneLock slo way context
    }
  where
    objective = option (eitherReader parseObjective) (long "slo" <> metavar "pN=TIME" <> help "What waits must hold: p99.9=200us")
    window = optional (option (eitherReader (positive >=> atMostHour)) (long "window" <> metavar "TIME" <> help "How long each setting is looked at in one go (default 1s)"))
    metric = optional (strOption (long "metric" <> metavar "REGEX" <> help "What counts instead of acquisitions a second: a number that the command prints before it ends, as in 'TPS: ([0-9.]+)'; the highest is best. Each setting is looked at for a run of the command"))
    waysToLook :: Maybe Double -> Maybe Metric -> IO Way
    waysToLook (Just _) (Just _) = problem usage "--window and --metric: one or the other; with a metric a window is a run of the command"
    waysToLook _ (Just m) = pure (Runs m)
    waysToLook length' Nothing = pure (Windows (fromMaybe 1 length'))
    positive text = maybe (Left ("a time such as 500ms or 2s is needed, not '" ++ text ++ "'")) Right (nanoseconds text)
    atMostHour ns
      | ns >= 1e7 && ns <= 3.6e12 = Right (ns / 1e9)
      | otherwise = Left "a window may last from 10ms to 3600s"

-- | @p99.9=200us@: a percentile from 50 to 99.999, and a time from 0.5 us to 16 s.
parseObjective :: String -> Either String Objective
parseObjective text = case break (== '=') <$> stripPrefix "p" text of
  Just (wanted, '=' : time)
    | Just share <- readMaybe wanted, Just ns <- nanoseconds time -> checked share ns
  _ -> Left ("an objective such as p99.9=200us is needed, not '" ++ text ++ "'")
  where
    checked :: Double -> Double -> Either String Objective
    checked share ns
      | share < 50 || share > 99.999 = Left ("the percentile must be from 50 to 99.999, not " ++ show share)
      | null (deadlines (Objective share ns)) = Left ("impossible: " ++ text ++ " is shorter than a hand-over; 500ns is the least")
      | ns > 1.6e10 = Left ("16s is the longest that can be asked for, not " ++ text)
      | otherwise = Right (Objective (share / 100) ns)

-- | @200us@, @1.5ms@; 'Nothing' without a unit.
nanoseconds :: String -> Maybe Double
nanoseconds = duration [("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]

-- ---- the search ------------------------------------------------------------------

-- | There is no time for a further window.
data OutOfTime = OutOfTime deriving (Show)

instance Exception OutOfTime

-- | How a setting is looked at.
data Way
  = -- | For so many seconds of the command's life.
    Windows !Double
  | -- | For a run of it.
    Runs !Metric

tuneLock :: Objective -> Way -> TuneContext -> IO Tuned
tuneLock objective way context = do
  describeProgram (tuneCommand context : tuneArguments context) >>= mapM_ (problem unavailable . (("cannot tune " ++ tuneCommand context ++ ": ") ++)) . unfit
  case way of
    Windows window | window > tuneBudget context -> problem usage ("a window of " ++ seconds window ++ " is longer than the budget of " ++ seconds (tuneBudget context))
    _ -> pure ()
  seen <- newIORef []
  running <- newIORef Nothing
  endsWell $ do
    decided <- try (follow (measure seen running) (search objective) `finally` stop context running)
    judged objective way decided . reverse <$> readIORef seen
  where
    end = tuneEnd context
    measure seen running setting = do
      w <- case way of
        Windows window -> do
          now <- getMonotonicTime
          when (now + window > end) (throwIO OutOfTime)
          (waits, time) <- collect context running setting window
          pure (Window (fromIntegral (waitsAcquisitions waits) / time) (tailOf waits))
        Runs metric -> do
          (waits, figure) <- wholeRun context metric running setting end
          pure (Window figure (tailOf waits))
      modifyIORef' seen ((setting, w) :)
      count <- length <$> readIORef seen
      tuneSay context ("window " ++ show count ++ ": " ++ windowLine objective way (setting, w))
      pure w
    tailOf = atQuantile (objectiveShare objective)

-- | What we started ends with us.
endsWell :: IO a -> IO a
endsWell act = do
  self <- myThreadId
  mapM_ (\(signal, status) -> installHandler signal (Catch (throwTo self (ExitFailure status))) Nothing) [(sigTERM, 143), (sigHUP, 129)]
  act

windowLine :: Objective -> Way -> (Setting, Window) -> String
windowLine objective way (setting, w) =
  settingName setting ++ ": " ++ figureOf way (windowThroughput w) ++ ", " ++ percentileName objective ++ " " ++ seconds (windowTail w * 1e-9)

figureOf :: Way -> Double -> String
figureOf (Windows _) v = perSecond v
figureOf (Runs metric) v = show v ++ " by '" ++ metricText metric ++ "'"

perSecond :: Double -> String
perSecond v = showFFloat (Just (if v < 1e6 then 0 else 3)) (if v < 1e6 then v else v / 1e6) (if v < 1e6 then " acquisitions/s" else " million acquisitions/s")

judged :: Objective -> Way -> Either OutOfTime (Verdict, b) -> [(Setting, Window)] -> Tuned
judged objective way decided seen =
  Tuned
    { tunedEnvironment = case decided of
        Right (Use setting _, _) -> Just [("MARU_RUN_FLAGS", "--lock " ++ settingName setting)]
        _ -> Nothing,
      tunedLine = case decided of
        Right (verdict@(Use _ w), _) -> verdictLine objective verdict ++ ", " ++ figureOf way (windowThroughput w)
        Right (verdict, _) -> verdictLine objective verdict
        Left OutOfTime -> "undecided: there was time for " ++ show (length seen) ++ (if length seen == 1 then " window" else " windows") ++ "; give a longer --budget" ++ instead,
      tunedAdvice = [],
      tunedPicture = Nothing,
      tunedStatus = case decided of
        Right (Infeasible _, _) -> ExitFailure 1
        _ -> ExitSuccess,
      tunedTable = Table [(R, "window"), (L, "lock"), (R, counted), (R, percentileName objective)] (zipWith row [1 :: Int ..] seen),
      tunedData = evidence
    }
  where
    (counted, instead, named) = case way of
      Windows _ -> ("acquisitions/s", " or a shorter --window", Nothing)
      Runs metric -> ("metric", " or a shorter command", Just (metricText metric))
    shown v = case way of
      Windows _ -> showFFloat (Just 0) v ""
      Runs _ -> show v
    row n (setting, w) = [show n, settingName setting, shown (windowThroughput w), seconds (windowTail w * 1e-9)]
    evidence :: Value
    evidence =
      object
        [ "metric" .= named,
          "objective" .= object ["share" .= objectiveShare objective, "limit_ns" .= objectiveLimit objective],
          "windows" .= [object ["lock" .= settingName s, maybe "per_second" (const "metric") named .= windowThroughput w, "tail_ns" .= windowTail w] | (s, w) <- seen]
        ]

-- ---- windows -----------------------------------------------------------------------

-- | The command under @maru run@; its board is held open, so that its last figures can be read
-- when it has ended.
data Live = Live !ProcessHandle !(Maybe Pid) !Fd

boardOf :: Live -> FilePath
boardOf (Live _ _ fd) = "/proc/self/fd/" ++ show fd

-- | So long after a knob was turned those who queued before are gone.
settle :: Double
settle = 0.1

-- | So many windows without an acquisition say that there are none to come. One alone may: where
-- a command soon ends, what its threads have not published goes with it ("maru/overlay.h").
emptyWindows :: Double
emptyWindows = 5

-- | What was counted in so many seconds of the command's life, in how many.
collect :: TuneContext -> IORef (Maybe Live) -> Setting -> Double -> IO (Waits, Double)
collect context running setting window = go mempty 0
  where
    go :: Waits -> Double -> IO (Waits, Double)
    go waits time
      | time >= window, waitsAcquisitions waits > 0 = pure (waits, time)
      | time >= emptyWindows * window = problem badInput ("in " ++ show (round emptyWindows :: Int) ++ " windows of " ++ seconds window ++ " '" ++ tuneCommand context ++ "' took no mutex that can be seen: there is nothing to tune")
      | otherwise = do
        let left = if time < window then window - time else window
        (more, spent) <- readIORef running >>= maybe (fresh left) (goOn left)
        go (waits <> more) (time + spent)
    goOn left live = do
      turn live setting
      threadDelay (round (settle * 1e6))
      before <- look live
      begun <- getMonotonicTime
      watch live before begun left
    fresh left = do
      begun <- getMonotonicTime
      live <- openFile "/dev/null" WriteMode >>= launch context running setting
      turn live setting
      watch live mempty begun left
    watch live before begun left = do
      ended <- awaitEnd live left
      after <- look live
      now <- getMonotonicTime
      mapM_ (closed context running live) ended
      pure (after `since` before, max 1e-6 (now - begun))

-- | What was counted in a run of the command, and the number that it printed.
wholeRun :: TuneContext -> Metric -> IORef (Maybe Live) -> Setting -> Double -> IO (Waits, Double)
wholeRun context metric running setting end = do
  (listener, out) <- listen metric
  live <- launch context running setting out
  turn live setting
  now <- getMonotonicTime
  ended <- awaitEnd live (end - now)
  waits <- look live
  maybe (throwIO OutOfTime) (closed context running live) ended
  figure <- timeout (round (1e6 * max 2 (end - now))) (heard listener) >>= maybe (throwIO OutOfTime) pure
  when (waitsAcquisitions waits == 0) $
    problem badInput ("'" ++ tuneCommand context ++ "' took no mutex that can be seen: there is nothing to tune")
  maybe (problem badInput ("'" ++ tuneCommand context ++ "' printed no number where --metric '" ++ metricText metric ++ "' looks for one")) (pure . (,) waits) figure

-- | It is started anew by whoever needs it. What it has left running would run beside that, under
-- knobs that nobody turns.
closed :: TuneContext -> IORef (Maybe Live) -> Live -> ExitCode -> IO ()
closed context running (Live _ group fd) code = do
  writeIORef running Nothing
  closeFd fd
  mapM_ (endGroup (tuneReaper context)) group
  unless (code == ExitSuccess) $ problem badInput ("'" ++ tuneCommand context ++ "' ended with " ++ described code)

described :: ExitCode -> String
described (ExitFailure n) = "status " ++ show n
described ExitSuccess = "status 0"

turn :: Live -> Setting -> IO ()
turn live setting = case setting of
  InOrder -> set 1 0
  Within ns -> set 0x10000 (round ns)
  where
    set range ns = do
      -- Where it has just ended there is nothing to turn.
      void (setOverlayDeadline (boardOf live) ns)
      void (setOverlayRange (boardOf live) range)

look :: Live -> IO Waits
look live = either (const mempty) (fromMaybe mempty . waitsOf) <$> readBoard (boardOf live)

-- | Its status if it ends within so many seconds.
awaitEnd :: Live -> Double -> IO (Maybe ExitCode)
awaitEnd (Live process _ _) left = endWithin left process

-- ---- starting and stopping -----------------------------------------------------------

-- | It prints there, and nobody else does. A signal that ends us meanwhile does so where we wait.
launch :: TuneContext -> IORef (Maybe Live) -> Setting -> Handle -> IO Live
launch context running setting out = mask_ $ do
  maru <- commandItself
  withFile "/dev/null" ReadMode $ \nothing -> do
    (_, _, _, process) <-
      createProcess . underReaper (tuneReaper context) $
        (proc maru (["run", "--lock-profile", "--lock", started, "--", tuneCommand context] ++ tuneArguments context))
          { std_in = UseHandle nothing,
            std_out = UseHandle out,
            std_err = UseHandle out,
            new_session = True
          }
    group <- getPid process
    found <- timeout 20000000 (awaitBoard process) `onException` endProcess context process group
    case found of
      Just (Right fd) -> do
        let live = Live process group fd
        live <$ writeIORef running (Just live)
      Just (Left code) -> mapM_ (endGroup (tuneReaper context)) group >> problem badInput ("'" ++ tuneCommand context ++ "' ended with " ++ described code ++ " before it showed itself: there is nothing to tune; see maru run --lock cna -- " ++ tuneCommand context)
      Nothing -> endProcess context process group >> problem badInput ("the run of '" ++ tuneCommand context ++ "' has no board within 20 s")
  where
    -- The rest is turned on its board.
    started = case setting of
      InOrder -> "cna:handoff_range=1"
      Within _ -> settingName setting

-- | Until the library has counted there, or the run is over.
awaitBoard :: ProcessHandle -> IO (Either ExitCode Fd)
awaitBoard process = do
  boards <- getPid process >>= maybe (pure []) (boardsOf . show)
  found <- maybe (pure Nothing) (\path -> orNothing (openExisting path ReadWrite)) (listToMaybe boards)
  case found of
    Just fd -> Right fd <$ awaitLibrary (Live process Nothing fd)
    Nothing -> getProcessExitCode process >>= maybe (threadDelay 2000 >> awaitBoard process) (pure . Left)

awaitLibrary :: Live -> IO ()
awaitLibrary live@(Live process _ _) = do
  counted <- waitsCounted <$> look live
  ended <- getProcessExitCode process
  unless (counted || isJust ended) (threadDelay 2000 >> awaitLibrary live)

stop :: TuneContext -> IORef (Maybe Live) -> IO ()
stop context running = readIORef running >>= mapM_ (\(Live process group fd) -> endProcess context process group >> closeFd fd)

-- | Asked to end, then made to, at once if we are told again to end; also what the command has left
-- running in its group.
endProcess :: TuneContext -> ProcessHandle -> Maybe Pid -> IO ()
endProcess context process group = do
  terminateProcess process
  void (endWithin 10 process) `finally` mapM_ (endGroup (tuneReaper context)) group
  void (waitForProcess process)
