-- | The steer room: which cores serve input and output.
module Maru.Cli.Room.Steer
  ( steerRoom,
    attachCommand,
    steerRun,

    -- * For tests
    Here (..),
    IoFlags (..),
    judgeCores,
  )
where

import Control.Exception (bracket)
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.List (intercalate)
import Data.Maybe (fromMaybe)
import Maru.Cli.Installed (commandItself, helperAt, notInstalled)
import Maru.Cli.Machine (describedRoot, readMachine, readMemoryNodes)
import Maru.Cli.Room
import Maru.Cli.Room.Steer.Attach (attachCommand)
import Maru.Cli.Room.Steer.Control
import Maru.Cli.Room.Steer.Page (ioPage)
import Maru.Cli.Room.Steer.Sim (ioSimulator)
import Maru.Cli.Room.Steer.Watch (counts, newWatch, stopWatch)
import Maru.Control.Memory
import Maru.Control.Observe (Machine)
import Maru.Control.Steer (Policy (..), budget, defaultConfig)
import Maru.Native.Probe (Topology (..), probeTopology)
import Options.Applicative
import System.Posix.Process (getProcessID)

steerRoom :: Room
steerRoom =
  (room "steer" "the path of input and output")
    { roomRun = Just (RunPlug ioFlags (const here) decideIo),
      roomSimulators = [ioSimulator],
      roomTop = Just ioPage,
      roomChecks = [Check "devices" (found <$> bracket newWatch stopWatch counts), Check "cores" (either unread (judgeCores . topologyAllowed) <$> probeTopology)]
    }
  where
    unread why = Finding Doubtful ("cannot be read: " ++ why) ""
    found answer = case answer of
      Right () -> Finding Good "counted by thread in the kernel (BPF)" ""
      Left why -> Finding Doubtful ("guessed from open files: " ++ why) "counting needs root or CAP_BPF and CAP_PERFMON, a kernel with BTF, and maru built with libbpf"

-- | Whether so many CPUs leave cores for input and output.
judgeCores :: Int -> Finding
judgeCores cpus
  | budget (defaultConfig Auto) (IntSet.fromList [1 .. cpus]) > 0 = Finding Good "--io has cores to give" ""
  | otherwise = Finding Doubtful ("--io places nothing: " ++ tooFew cpus) "allow more CPUs"

data IoFlags = IoFlags
  { flagPolicy :: !(Maybe String),
    flagCpusets :: !Bool,
    flagMemory :: !(Maybe String)
  }
  deriving (Eq, Show)

ioFlags :: Parser IoFlags
ioFlags =
  IoFlags
    <$> optional (strOption (long "io" <> metavar "POLICY" <> help ("Cores for input and output: " ++ intercalate ", " choiceNames) <> completeWith choiceNames))
    <*> switch (long "io-cpusets" <> help "Place threads by cgroups of the run's own, where they may be made")
    <*> optional (strOption (long "io-memory" <> metavar "WHERE" <> help ("Nodes for the command's memory, on a machine that has several: " ++ intercalate ", " wishNames)))

-- | What must be known to steer the run that this process becomes.
data Here = Here
  { -- | 'Left': where it is not.
    hereKeeper :: !(Either FilePath FilePath),
    hereCommand :: !FilePath,
    hereProcess :: !Int,
    hereRoot :: !(Maybe FilePath),
    -- | And the nodes that have memory; where that is asked for.
    hereMachine :: !(Maybe (Machine, IntSet))
  }

here :: IoFlags -> IO Here
here flags = do
  root <- describedRoot
  facts <- Here <$> helperAt "maru-steer" <*> commandItself <*> (fromIntegral <$> getProcessID) <*> pure root
  facts <$> traverse (const (machineAt (fromMaybe "/" root))) (flagMemory flags)
  where
    machineAt root = (,) <$> readMachine root <*> readMemoryNodes root

decideIo :: Here -> IoFlags -> Either Refusal Part
decideIo facts flags = (<>) <$> decidePolicy facts flags <*> decideMemory facts flags

-- | Never what keeps a command from running: where it cannot be, that is said.
decideMemory :: Here -> IoFlags -> Either Refusal Part
decideMemory facts flags = case (,) <$> flagMemory flags <*> hereMachine facts of
  Nothing -> Right mempty
  Just (text, (machine, nodes)) -> do
    wish <- either (Left . Misused) Right (wishOf text)
    case (wish, flagPolicy flags) of
      (ByPolicy, Nothing) -> Left (Misused "--io-memory policy needs --io POLICY")
      _ -> Right (either unset set (memoryFor machine nodes policy wish))
  where
    policy = case choiceOf <$> flagPolicy flags of
      Just (Right (By p)) -> Just p
      _ -> Nothing
    unset why = mempty {partReplaced = ["no memory policy: " ++ why]}
    set memory = mempty {partExplain = ["the command's memory: " ++ memoryWords memory], partMemory = Just (memoryWords memory)}

decidePolicy :: Here -> IoFlags -> Either Refusal Part
decidePolicy facts flags = case flagPolicy flags of
  Nothing | flagCpusets flags -> Left (Misused "--io-cpusets needs --io POLICY")
  Nothing -> Right mempty
  Just text -> decideChoice facts (if flagCpusets flags then ByCpusets else ByAffinity) text

decideChoice :: Here -> Placing -> String -> Either Refusal Part
decideChoice facts placing text = do
  choice <- either (Left . Misused) Right (choiceOf text)
  keeper <- either (\path -> Left (Unavailable ("cannot steer: " ++ notInstalled path))) Right (hereKeeper facts)
  pure
    mempty
      { partExplain = [if choice == Off then "looks at input and output, changes nothing" else "threads, interrupts and queues are placed by " ++ text ++ " and put back at the end"],
        partBeside = keeperWords keeper (hereCommand facts) (hereProcess facts) choice placing (hereRoot facts)
      }
