{-# LANGUAGE OverloadedStrings #-}

-- | The wait room: how every other room waits for a word of memory to change.
module Maru.Cli.Room.Wait
  ( waitRoom,
    WaitFacts (..),
    WaitFlags (..),
    decideWait,
    judgePolicies,
    mpiAfterwards,
    waitAfterwards,
  )
where

import Control.Monad (filterM)
import Data.Aeson (Value (Object), object, (.=))
import qualified Data.Aeson.KeyMap as KeyMap
import Data.Either (fromRight)
import Data.List (intercalate, isPrefixOf, nub)
import Data.List.NonEmpty (NonEmpty, nonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust)
import Maru.Cli.Bench.Boost (boostExperiments)
import Maru.Cli.Bench.Containers (containerExperiment)
import Maru.Cli.Bench.Mpi (mpiExperiments)
import Maru.Cli.Bench.Sockets (socketExperiments)
import Maru.Cli.Boost (periodOf)
import Maru.Cli.Guard (Guard)
import Maru.Cli.Library (libraryFolder)
import Maru.Cli.MpiSection
import Maru.Cli.Output
import Maru.Cli.PollSection
import Maru.Cli.Room
import Maru.Cli.Room.Wait.Page (waitPage)
import Maru.Cli.Room.Wait.Tune (waitTuner)
import Maru.Cli.RunSection (RunSection (..), runSection)
import Maru.Cli.Sim.Boost (boostSimulator)
import Maru.Control.Plot
import Maru.Control.Statistics
import Maru.Native.BoardView (Board (..))
import Maru.Native.Probe
import Numeric (showFFloat)
import Options.Applicative
import System.Directory (doesFileExist)
import System.Environment (getExecutablePath)
import System.FilePath (takeFileName, (</>))

waitRoom :: Room
waitRoom =
  (room "wait" "time slices of those who wait")
    { roomRun = Just (RunPlug waitFlags (\_ _ -> waitFacts) decideWait),
      roomAfter = \environment -> pure . waitAfterwards environment,
      roomTop = Just (pure waitPage),
      roomTuners = [waitTuner],
      roomChecks = [Check "futex" futex, Check "policies" policies, Check "hand-over" handOver],
      roomSimulators = [boostSimulator],
      roomExperiments = handoverExperiment : boostExperiments ++ mpiExperiments ++ containerExperiment : socketExperiments
    }

-- ---- run ----------------------------------------------------------------

data WaitFlags = WaitFlags
  { flagPolicy :: !(Maybe String),
    flagPoll :: !Bool,
    -- | A daemon beside the command, with that period.
    flagBoost :: !(Maybe String)
  }

waitFlags :: Parser WaitFlags
waitFlags =
  WaitFlags
    <$> optional
      ( strOption $
          long "wait" <> metavar "POLICY" <> help "How maru's parts and MPI ranks wait: adaptive, spin, block, coop, ...; NAME:spin=40us: how long they spin first"
            <> completer (listIOCompleter waitPolicies)
      )
    <*> switch (long "wait-poll" <> help "So do programs that ask sockets and pipes again and again without waiting (poll, epoll, recv)")
    <*> optional (strOption (long "wait-boost" <> metavar "PERIOD" <> help "maru boost for this run alone: auto, or 100us to 50ms between two looks"))

-- | What must be known to decide.
data WaitFacts = WaitFacts
  { -- | Each policy with what runs instead of it at the words of maru's own parts, and why.
    factPolicies :: ![(String, Maybe (String, String))],
    -- | What MPI programs are given, if this build has it, and for which MPIs.
    factMpi :: !(Maybe (FilePath, [String])),
    -- | What programs are given that poll, and whether it is there.
    factPoll :: !(FilePath, Bool),
    -- | This command.
    factMaru :: !FilePath
  }

waitFacts :: IO WaitFacts
waitFacts = do
  known <- waitPolicies
  answers <- mapM probeWordPolicy [0 .. length known - 1]
  folder <- libraryFolder
  let poll = folder </> "libmaru-poll.so"
  WaitFacts (zip known (map (fromRight Nothing) answers)) <$> mpiLibraries folder <*> ((,) poll <$> doesFileExist poll) <*> getExecutablePath

mpiLibraries :: FilePath -> IO (Maybe (FilePath, [String]))
mpiLibraries folder = do
  let door = folder </> "libmaru-mpi.so"
  there <- doesFileExist door
  shims <- filterM (\(_, file) -> doesFileExist (folder </> file)) [("Open MPI", "libmaru-mpi-openmpi.so"), ("MPICH", "libmaru-mpi-mpich.so")]
  pure (if there && not (null shims) then Just (door, map fst shims) else Nothing)

decideWait :: WaitFacts -> WaitFlags -> Either Refusal Part
decideWait facts flags = mconcat <$> sequence [decidePolicy facts (flagPolicy flags), decidePoll facts (flagPoll flags), decideBoost facts (flagBoost flags)]

decideBoost :: WaitFacts -> Maybe String -> Either Refusal Part
decideBoost _ Nothing = Right mempty
decideBoost facts (Just period) = case periodOf period of
  Left why -> Left (Misused why)
  Right _ ->
    Right
      mempty
        { partExplain = ["maru boost looks after the channels of this run, period " ++ period],
          partBeside = [factMaru facts, "boost", "--beside", "--period", period]
        }

decidePoll :: WaitFacts -> Bool -> Either Refusal Part
decidePoll _ False = Right mempty
decidePoll facts True
  | there =
    Right
      mempty
        { partEnvironment = [(pollVariable, "1")],
          partPreload = [library],
          partNeeding = ["--wait-poll"],
          partExplain =
            [ "a program that finds nothing 32 times in a row, without working in between, sleeps until there is something; its calls come up to 1 ms late then",
              "adaptive does so only where others need the CPU; yield gives way instead, spin only counts"
            ]
        }
  | otherwise = Left (Unavailable (library ++ " is not there; install maru wholly or set MARU_LIB"))
  where
    (library, there) = factPoll facts

-- | Set in the run, so that its end can say that nobody loaded the library; which does not look at it.
pollVariable :: String
pollVariable = "MARU_WAIT_POLL"

-- | What cannot run is replaced by the library; this says so.
decidePolicy :: WaitFacts -> Maybe String -> Either Refusal Part
decidePolicy _ Nothing = Right mempty
decidePolicy facts (Just text) = case lookup name (factPolicies facts) of
  Nothing -> Left (Misused ("unknown wait policy '" ++ name ++ "'; known: " ++ intercalate ", " known))
  Just replaced
    | name `notElem` limited, name /= text -> Left (Misused ("'" ++ text ++ "' is no way to wait: " ++ name ++ " takes no spin limit; these do: " ++ intercalate ", " limited))
    | Nothing <- parseWait text -> Left (Misused ("'" ++ text ++ "' is no way to wait: a spin limit is written NAME:spin=40us (ns, us or ms, at most 100ms)"))
    | otherwise ->
      Right
        mempty
          { partEnvironment = [("MARU_WAIT", text)],
            partPreload = maybe [] (pure . fst) (factMpi facts),
            partExplain = ["maru's parts in the command wait by '" ++ text ++ "'", mpiExplained (factMpi facts)],
            partReplaced = [name ++ " runs as " ++ other ++ exceptMaps name ++ ": " ++ why | Just (other, why) <- [replaced]]
          }
  where
    name = takeWhile (/= ':') text
    known = map fst (factPolicies facts)
    limited = filter (isJust . parseWait . (++ ":spin=1us")) known

-- | Parallel maps wait on channels, which these two need.
exceptMaps :: String -> String
exceptMaps name = if name `elem` ["coop", "gang"] then " but in parallel maps" else ""

mpiExplained :: Maybe (FilePath, [String]) -> String
mpiExplained Nothing = "MPI programs are not changed: this build has no shim for any MPI"
mpiExplained (Just (_, mpis)) =
  "so do ranks of " ++ intercalate " and " mpis ++ ": which one it is shows in each rank; other MPIs and static programs are not changed"

-- | Of MPI's ranks and of those who polled.
waitAfterwards :: Map String String -> Board -> Maybe Afterwards
waitAfterwards environment board = case (mpiAfterwards environment board, pollCost board) of
  (mpi, Nothing)
    | Map.member pollVariable environment -> Just (Afterwards (concatMap afterLines mpi ++ [unloaded]) (maybe (object []) afterData mpi) [])
    | otherwise -> mpi
  (mpi, Just c) -> Just (Afterwards (concatMap afterLines mpi ++ [pollLine c]) (withPoll (afterData <$> mpi) c) [])
  where
    unloaded = "polls: no process loaded the library: static and set-user-id programs, and other C libraries, are not changed"
    withPoll (Just (Object fields)) c = Object (KeyMap.insert "poll" (pollJson c) fields)
    withPoll _ c = object ["poll" .= pollJson c]

-- | What MPI's ranks have measured; that there were none, where there should have been.
mpiAfterwards :: Map String String -> Board -> Maybe Afterwards
mpiAfterwards environment board = case mpiCost board of
  Just c -> Just (Afterwards (mpiLine c : told) (mpiJson c) [])
  Nothing
    | not (null told) -> Just (Afterwards told (object ["ranks" .= (0 :: Int)]) [])
    | launched -> Just (Afterwards [absent] (object ["ranks" .= (0 :: Int)]) [])
    | otherwise -> Nothing
  where
    told = nub [drop (length said) line | line <- boardLines board, said `isPrefixOf` line, "MPI" `isPrefixOf` drop (length said) line]
    said = "wait: "
    launched = Map.member "MARU_WAIT" environment && maybe False byLauncher (runSection board)
    byLauncher run = case runCommand run of
      program : _ -> takeWhile (/= '.') (takeFileName program) `elem` ["mpirun", "mpiexec", "orterun", "prun", "srun"]
      [] -> False
    absent = "no MPI rank took part: the programs are static, on other hosts, or do not use Open MPI 4 or MPICH 4"

-- ---- doctor -------------------------------------------------------------

futex :: IO Finding
futex = either bad (const (Finding Good "works" "")) <$> probeFutex
  where
    bad why = Finding Bad why "a sandbox forbids futex(2); nothing can sleep without it"

policies :: IO Finding
policies = do
  known <- waitPolicies
  answers <- mapM probePolicy [0 .. length known - 1]
  pure (judgePolicies (zip known answers))

-- | Which run as asked, which as another one, and why. Waiting works either way.
judgePolicies :: [(String, Either String (Maybe (String, String)))] -> Finding
judgePolicies answers = Finding (if null broken then Good else Bad) (intercalate "; " (asAsked : replaced ++ broken)) ""
  where
    asAsked = intercalate ", " [n | (n, Right Nothing) <- answers]
    replaced = [n ++ " runs as " ++ other ++ ": " ++ why | (n, Right (Just (other, why))) <- answers]
    broken = [n ++ " cannot be tried: " ++ why | (n, Left why) <- answers]

-- | Quick: a tenth of a second or so.
handOver :: IO Finding
handOver = do
  known <- waitPolicies
  measured <- handoversOf [(n, name) | (n, name) <- zip [0 ..] known, name `elem` ["spin", "block"]] 2000 200
  pure $ case measured of
    [] -> Finding Bad "no word ever changed" "report this as a defect"
    _ -> Finding Good (intercalate ", " [name ++ " " ++ nanoseconds (summaryMedian s) | (name, s) <- measured]) ""

-- ---- bench --------------------------------------------------------------

-- | Policies by number, waits of so many nanoseconds, that many rounds.
handoversOf :: [(Int, String)] -> Int -> Int -> IO [(String, Summary)]
handoversOf policies' pause rounds = concat <$> mapM one policies'
  where
    one (number, name) = either (const []) (named name) <$> handover number pause rounds
    named name latencies = [(name, summary sample) | Just sample <- [nonEmpty latencies]]

-- | Median with the range of the middle nine tenths: single interruptions by
-- the machine's other work are not the policy's.
summary :: NonEmpty Double -> Summary
summary sample = Summary (median sample) (quantile 0.05 sample) (quantile 0.95 sample) (NonEmpty.length sample)

handoverExperiment :: Experiment
handoverExperiment =
  Experiment
    { experimentName = "handover",
      experimentPurpose = "time from the change of a word to the return of the wait for it, for each waiting policy and length of the wait (median, 5th and 95th percentile)",
      experimentRun = runHandover
    }

runHandover :: Guard -> Effort -> (String -> IO ()) -> IO Figures
runHandover _ effort say = do
  known <- waitPolicies
  measured <- concat <$> mapM (at (zip [0 ..] known)) pauses
  pure (figures known measured)
  where
    rounds = if effort == Quick then 100 else 2000
    pauses = [1000, 5000, 20000, 100000, 500000] :: [Int]
    at numbered pause = do
      say ("waits of " ++ nanoseconds (fromIntegral pause))
      zip (repeat pause) <$> handoversOf numbered pause rounds

figures :: [String] -> [(Int, (String, Summary))] -> Figures
figures names measured =
  Figures
    { figuresLine = case measured of
        [] -> "nothing could be measured"
        _ -> "hand-over after a wait of 1 µs: " ++ intercalate ", " [n ++ " " ++ nanoseconds (summaryMedian s) | (1000, (n, s)) <- measured],
      figuresTables = [("Hand-over by policy and length of the wait", Table heads rows)],
      figuresPlots = [Plot "Hand-over of a word" (Axis "length of the wait, µs" Logarithmic) (Axis "from change to return, µs" Logarithmic) series],
      figuresData =
        object
          [ "unit" .= ("ns" :: String),
            "rows"
              .= [ object
                     [ "policy" .= n,
                       "wait" .= pause,
                       "median" .= summaryMedian s,
                       "p05" .= summaryLeast s,
                       "p95" .= summaryMost s,
                       "rounds" .= summaryCount s
                     ]
                   | (pause, (n, s)) <- measured
                 ]
          ]
    }
  where
    heads = [(L, "policy"), (R, "wait"), (R, "median"), (R, "5 %"), (R, "95 %"), (R, "rounds")]
    rows =
      [ [n, nanoseconds (fromIntegral pause), nanoseconds (summaryMedian s), nanoseconds (summaryLeast s), nanoseconds (summaryMost s), show (summaryCount s)]
        | name <- names,
          (pause, (n, s)) <- measured,
          n == name
      ]
    series =
      [ Series name [Point (fromIntegral pause / 1000) (micro summaryMedian s) (micro summaryLeast s) (micro summaryMost s) | (pause, (n, s)) <- measured, n == name]
        | name <- names
      ]
    micro f s = f s / 1000

nanoseconds :: Double -> String
nanoseconds ns
  | ns >= 1e6 = showFFloat (Just 1) (ns / 1e6) " ms"
  | ns >= 1e3 = showFFloat (Just 1) (ns / 1e3) " µs"
  | otherwise = showFFloat (Just 0) ns " ns"
