-- | The lock room: who gets a contended lock next.
module Maru.Cli.Room.Lock
  ( lockRoom,
    LockFacts (..),
    decideLock,
    afterLock,
  )
where

import Data.Aeson (Value (Null))
import Data.List (intercalate)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Maru.Cli.Bench.Lock (lockExperiments)
import Maru.Cli.Room
import Maru.Cli.Room.Lock.Overlay
import Maru.Cli.Room.Lock.Program
import Maru.Cli.Run (libexecFile)
import Maru.Cli.Sim.Lock (lockSimulator)
import Maru.Native.BoardView (Board)
import Maru.Native.Probe (overlayLocks, probeOverlay)
import Options.Applicative
import System.Directory (doesFileExist)

lockRoom :: Room
lockRoom =
  (room "lock" "hand-overs of a lock between sockets")
    { roomRun = Just (RunPlug lockFlag lockFacts decideLock),
      roomAfter = afterLock,
      roomTop = Just (pure overlayPage),
      roomExperiments = lockExperiments,
      roomSimulators = [lockSimulator]
    }

-- ---- run ----------------------------------------------------------------

lockFlag :: Parser (Maybe String)
lockFlag =
  optional . strOption $
    long "lock" <> metavar "NAME[:K=V,...]"
      <> help "Who gets a contended mutex of the command next: cna, fifo, shfl, malthusian, pass; keys deadline, handoff_range, ..."
      <> completer (listIOCompleter overlayLocks)

-- | What the decision needs; none of it is looked up unless the flag is given.
data LockFacts = LockFacts
  { factLocks :: ![String],
    -- | From where on the flag is wrong.
    factWrong :: !(Maybe Int),
    factLibrary :: !FilePath,
    factInstalled :: !Bool,
    factCommand :: !String,
    factProgram :: !Program
  }

lockFacts :: [String] -> Maybe String -> IO (Maybe LockFacts)
lockFacts _ Nothing = pure Nothing
lockFacts words' (Just text) = do
  library <- libexecFile "libmaru-lock.so"
  let program = concat (take 1 words')
  Just
    <$> ( LockFacts <$> overlayLocks <*> probeOverlay text <*> pure library <*> doesFileExist library <*> pure program
            <*> describeProgram program
        )

decideLock :: Maybe LockFacts -> Maybe String -> Either Refusal Part
decideLock (Just facts) (Just text)
  | name `notElem` factLocks facts =
    Left (Misused ("no lock '" ++ name ++ "' can be laid over a program's mutexes; there are " ++ intercalate ", " (factLocks facts)))
  | Just wrong <- factWrong facts = Left (Misused ("--lock " ++ text ++ ": not understood from '" ++ drop wrong text ++ "' on"))
  | not (factInstalled facts) = Left (Unavailable (factLibrary facts ++ " is not there; install maru wholly or set MARU_LIBEXEC"))
  | Just why <- unfit (factProgram facts) = Left (Unavailable ("--lock cannot serve " ++ factCommand facts ++ ": " ++ why))
  | otherwise =
    Right
      mempty
        { partEnvironment = [("MARU_LOCK", text)],
          partPreload = [factLibrary facts],
          partExplain =
            [ "threads that find a mutex taken queue for it by '" ++ name ++ "'",
              "robust mutexes, those with priorities and those shared between processes are left to glibc: they use the room that the queue needs, or need the kernel; how many there were is said at the end"
            ]
        }
  where
    name = takeWhile (/= ':') text
decideLock _ _ = Right mempty

-- | Also that nothing came of it.
afterLock :: Map String String -> Board -> Maybe Afterwards
afterLock planned board = case overlayOf board of
  Just overlay -> Just (Afterwards [overlayLine overlay, leftLine overlay] (overlayJson overlay))
  Nothing
    | "MARU_LOCK" `Map.member` planned -> Just (Afterwards ["no process of the run showed itself: where the library was not loaded, mutexes were glibc's"] Null)
    | otherwise -> Nothing
