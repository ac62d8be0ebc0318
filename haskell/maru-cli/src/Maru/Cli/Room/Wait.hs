{-# LANGUAGE OverloadedStrings #-}

-- | The wait room: how every other room waits for a word of memory to change.
module Maru.Cli.Room.Wait
  ( waitRoom,
    boostCommand,
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
import Data.Either (fromRight, isRight)
import Data.List (intercalate, isPrefixOf, nub)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust)
import Maru.Cli.Installed (commandItself, libraryAt, notInstalled)
import Maru.Cli.Room
import Maru.Cli.Room.Wait.Boost (boostCommand, periodOf)
import Maru.Cli.Room.Wait.Handover
import Maru.Cli.Room.Wait.MpiSection
import Maru.Cli.Room.Wait.Page (waitPage)
import Maru.Cli.Room.Wait.PollSection
import Maru.Cli.Room.Wait.Sim (boostSimulator)
import Maru.Cli.Room.Wait.Tune (waitTuner)
import Maru.Cli.RunSection (RunSection (..), runSection)
import Maru.Control.Statistics
import Maru.Native.BoardView (Board (..))
import Maru.Native.Probe
import Options.Applicative
import System.FilePath (takeFileName)

waitRoom :: Room
waitRoom =
  (room "wait" "time slices of those who wait")
    { roomRun = Just (RunPlug waitFlags (\_ _ -> waitFacts) decideWait),
      roomAfter = \environment -> pure . waitAfterwards environment,
      roomTop = Just (pure waitPage),
      roomTuners = [waitTuner],
      roomChecks = [Check "futex" futex, Check "policies" policies, Check "hand-over" handOver],
      roomSimulators = [boostSimulator]
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
    -- | What programs are given that poll; 'Left': where it is not.
    factPoll :: !(Either FilePath FilePath),
    -- | This command.
    factMaru :: !FilePath
  }

waitFacts :: IO WaitFacts
waitFacts = do
  known <- waitPolicies
  answers <- mapM probeWordPolicy [0 .. length known - 1]
  WaitFacts (zip known (map (fromRight Nothing) answers)) <$> mpiLibraries <*> libraryAt "libmaru-poll.so" <*> commandItself

mpiLibraries :: IO (Maybe (FilePath, [String]))
mpiLibraries = do
  door <- libraryAt "libmaru-mpi.so"
  shims <- filterM (fmap isRight . libraryAt . snd) [("Open MPI", "libmaru-mpi-openmpi.so"), ("MPICH", "libmaru-mpi-mpich.so")]
  pure $ case door of
    Right path | not (null shims) -> Just (path, map fst shims)
    _ -> Nothing

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
decidePoll facts True = do
  library <- either (Left . Unavailable . notInstalled) Right (factPoll facts)
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

-- | Set in the run, so that its end can say that nobody loaded the library; which does not look at
-- it.
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
    absent = "no MPI rank took part: the programs did not start, are static, on other hosts, in Fortran (Open MPI; mpi_f08), look MPI up by dlsym, or do not use Open MPI or MPICH"

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
judgePolicies answers = Finding (if null broken then Good else Bad) (intercalate "; " (filter (not . null) (asAsked : replaced ++ broken))) ""
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
