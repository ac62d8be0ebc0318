{-# LANGUAGE ExistentialQuantification #-}

-- | What a room gives to the command line. The subcommands are shells; rooms
-- plug into them and neither parse arguments by themselves nor draw.
--
-- A room is a value: add it to "Maru.Cli.Rooms" and its flags are in
-- @maru run --help@, its page in @maru top@, its checks in @maru doctor@, its
-- simulators and tuners in @maru sim@ and @maru tune@.
-- @test\/Example.hs@ of this package uses every plug.
module Maru.Cli.Room
  ( Room (..),
    room,

    -- * Run
    RunPlug (..),
    Asked (..),
    Part (..),
    Refusal (..),
    Afterwards (..),

    -- * Top
    TopPage (..),
    plainPage,
    Block (..),

    -- * Doctor
    Check (..),
    Finding (..),
    Level (..),

    -- * Sim
    Simulator (..),
    Simulation (..),
    pictured,

    -- * Tune
    Tuner (..),
    TuneContext (..),
    Tuned (..),
  )
where

import Control.Applicative ((<|>))
import Data.Aeson (Value)
import Data.Map.Strict (Map)
import Maru.Cli.Output (Block (..), Figures, Table)
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot (Plot)
import Maru.Native.BoardView (Board)
import Maru.View.Run (Afterwards (..))
import Options.Applicative (Parser)
import System.Exit (ExitCode)

data Room = Room
  { -- | As its section on the board is named.
    roomName :: !String,
    -- | What contends, in a few words.
    roomPurpose :: !String,
    roomRun :: !(Maybe RunPlug),
    -- | What there is to say of a run that has ended, from the environment that it
    -- was given and its board.
    roomAfter :: !(Map String String -> Board -> IO (Maybe Afterwards)),
    -- | Made once, when @maru top@ starts.
    roomTop :: !(Maybe (IO TopPage)),
    roomChecks :: ![Check],
    roomSimulators :: ![Simulator],
    roomTuners :: ![Tuner]
  }

-- | A room that has a name and a purpose and gives nothing yet.
room :: String -> String -> Room
room name purpose = Room name purpose Nothing (\_ _ -> pure Nothing) Nothing [] [] []

-- | Flags of @maru run@; what must be known of this machine, given what else was asked for and
-- them, to decide about them. And the decision, which is pure.
data RunPlug = forall flags facts. RunPlug (Parser flags) (Asked -> flags -> IO facts) (facts -> flags -> Either Refusal Part)

-- | What a run's shell was asked for.
data Asked = Asked
  { -- | A page is to be written.
    askedPage :: !Bool,
    -- | Flags that its profiles add.
    askedFlags :: ![String]
  }
  deriving (Eq, Show)

-- | What a room asks of the supervisor. 'mempty': nothing.
data Part = Part
  { partEnvironment :: ![(String, String)],
    -- | Paths of libraries, for @LD_PRELOAD@.
    partPreload :: ![FilePath],
    -- | Options that are nothing without those libraries.
    partNeeding :: ![String],
    -- | What is done and why, a line each, for @--explain@.
    partExplain :: ![String],
    -- | What runs other than asked, and why, a line each: always said, and in the report.
    partReplaced :: ![String],
    -- | A program to run beside the command, and its arguments; empty: none. Of
    -- several rooms the first has it.
    partBeside :: ![String],
    -- | Bytes on the board beyond the usual 4 MiB.
    partBoardRoom :: !Int,
    -- | Where the command's memory is to come from, as the supervisor reads it; of several rooms
    -- the first has it.
    partMemory :: !(Maybe String)
  }
  deriving (Eq, Show)

instance Semigroup Part where
  Part e p n x r b s m <> Part e' p' n' x' r' b' s' m' = Part (e <> e') (p <> p') (n <> n') (x <> x') (r <> r') (if null b then b' else b) (s + s') (m <|> m')

instance Monoid Part where
  mempty = Part [] [] [] [] [] [] 0 Nothing

-- | Why a flag cannot be followed.
data Refusal
  = -- | Nobody could: status 64.
    Misused !String
  | -- | This machine or build cannot: status 125, or left out with
    -- @--best-effort@.
    Unavailable !String
  deriving (Eq, Show)

-- | A part of the screen, with a state that its keys change.
data TopPage = forall state seen.
  TopPage
  { -- | Key and what it does. @q@ is the shell's.
    pageKeys :: ![(Char, String)],
    pageStart :: !state,
    pageKey :: !(Char -> state -> state),
    -- | What a key does to each run that is shown.
    pageTurn :: !(Char -> Board -> IO ()),
    -- | Takes from a board, or from the processes of its run, what is shown; reads only.
    pageSee :: !(Board -> IO seen),
    -- | What to show of that, given what was seen so many seconds ago, if
    -- anything was. Nothing to show: an empty list.
    pageDraw :: !(state -> Maybe (Double, seen) -> seen -> [Block]),
    -- | The same as data.
    pageJson :: !(Maybe (Double, seen) -> seen -> Maybe Value)
  }

-- | A page without keys: what it sees, shows, and gives as data.
plainPage :: (Board -> IO seen) -> (Maybe (Double, seen) -> seen -> [Block]) -> (Maybe (Double, seen) -> seen -> Maybe Value) -> TopPage
plainPage see = TopPage [] () (const id) (\_ _ -> pure ()) see . const

-- | A question that @maru doctor@ asks. An exception counts as 'Bad'.
data Check = Check
  { checkName :: !String,
    checkRun :: !(IO Finding)
  }

data Finding = Finding
  { findingLevel :: !Level,
    -- | What was found.
    findingDetail :: !String,
    -- | What to do about it; empty if nothing.
    findingRemedy :: !String
  }
  deriving (Eq, Show)

data Level
  = Good
  | -- | maru works, with less.
    Doubtful
  | -- | Something needed is missing.
    Bad
  deriving (Eq, Ord, Show, Enum, Bounded)

-- | A pure model with options.
data Simulator = Simulator
  { simName :: !String,
    simPurpose :: !String,
    simParser :: !(Parser Simulation)
  }

-- | What is known of it before it is run.
data Simulation = Simulation
  { -- | Options that have it write files by itself, and those files.
    simulationFiles :: ![(String, Maybe FilePath)],
    -- | It has a picture.
    simulationPictured :: !Bool,
    -- | 'Left': what is wrong with the options (status 64). Files that the
    -- options name are read in 'IO'; the model itself is pure.
    simulationRun :: !(IO (Either String Figures))
  }

-- | One with a picture, that reads and writes no file.
pictured :: Either String Figures -> Simulation
pictured = Simulation [] True . pure

-- | A search for better settings.
data Tuner = forall flags.
  Tuner
  { tunerName :: !String,
    tunerPurpose :: !String,
    -- | What may stand behind @maru tune NAME@.
    tunerExample :: !String,
    tunerParser :: !(Parser flags),
    -- | Where its picture goes, if there is to be one.
    tunerPicture :: !(flags -> Maybe FilePath),
    tunerRun :: !(flags -> TuneContext -> IO Tuned)
  }

data TuneContext = TuneContext
  { -- | Seconds.
    tuneBudget :: !Double,
    -- | When they are over, by the monotonic clock.
    tuneEnd :: !Double,
    tuneCommand :: !FilePath,
    tuneArguments :: ![String],
    -- | Of every run of the command.
    tuneReaper :: !Reaper,
    -- | Says a line of progress.
    tuneSay :: !(String -> IO ())
  }

data Tuned = Tuned
  { -- | The environment of the profile; 'Nothing': no gain was found.
    tunedEnvironment :: !(Maybe [(String, String)]),
    -- | One line: the gain, or why there is none.
    tunedLine :: !String,
    -- | What it means, a line each.
    tunedAdvice :: ![String],
    -- | Drawn where 'tunerPicture' says, when all else is kept.
    tunedPicture :: !(Maybe Plot),
    -- | Other than success: there is no such setting.
    tunedStatus :: !ExitCode,
    -- | Without a column: there was nothing to try.
    tunedTable :: !Table,
    tunedData :: !Value
  }
