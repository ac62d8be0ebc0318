-- | The steer room: which cores serve input and output.
module Maru.Cli.Room.Steer
  ( steerRoom,

    -- * For tests
    Here (..),
    decideIo,
  )
where

import Control.Exception (bracket)
import Data.List (intercalate)
import Maru.Cli.Bench.Side (helperAt)
import Maru.Cli.Room
import Maru.Cli.Sim.Io (ioSimulator)
import Maru.Cli.Steer.Control
import Maru.Cli.Steer.Page (ioPage)
import Maru.Cli.Steer.Read (describedRoot)
import Maru.Cli.Steer.Watch (counts, newWatch, stopWatch)
import Options.Applicative
import System.Environment (getExecutablePath)
import System.Posix.Process (getProcessID)

steerRoom :: Room
steerRoom =
  (room "steer" "the path of input and output")
    { roomRun = Just (RunPlug policyFlag (\_ _ -> here) decideIo),
      roomSimulators = [ioSimulator],
      roomTop = Just ioPage,
      roomChecks = [Check "devices" (found <$> bracket newWatch stopWatch counts)]
    }
  where
    found answer = case answer of
      Right () -> Finding Good "counted by thread in the kernel (BPF)" ""
      Left why -> Finding Doubtful ("guessed from open files: " ++ why) "counting needs root or CAP_BPF and CAP_PERFMON, a kernel with BTF, and maru built with libbpf"

policyFlag :: Parser (Maybe String)
policyFlag = optional (strOption (long "io" <> metavar "POLICY" <> help ("Cores for input and output: " ++ intercalate ", " choiceNames) <> completeWith choiceNames))

-- | What must be known to steer the run that this process becomes.
data Here = Here
  { -- | 'Left': where it is not.
    hereGuard :: !(Either FilePath FilePath),
    hereCommand :: !FilePath,
    hereProcess :: !Int,
    hereRoot :: !(Maybe FilePath)
  }

here :: IO Here
here = Here <$> helperAt "maru-steer" <*> getExecutablePath <*> (fromIntegral <$> getProcessID) <*> describedRoot

decideIo :: Here -> Maybe String -> Either Refusal Part
decideIo _ Nothing = Right mempty
decideIo facts (Just text) = do
  choice <- either (Left . Misused) Right (choiceOf text)
  guard <- either (\path -> Left (Unavailable ("steering needs " ++ path ++ "; install maru wholly or set MARU_LIBEXEC"))) Right (hereGuard facts)
  pure
    mempty
      { partExplain = [if choice == Off then "looks at input and output, changes nothing" else "threads, interrupts and queues are placed by " ++ text ++ " and put back at the end"],
        partBeside = guardWords guard (hereCommand facts) (hereProcess facts) choice (hereRoot facts)
      }
