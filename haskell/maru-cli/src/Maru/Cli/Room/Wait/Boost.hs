-- | @maru boost@: the daemon that wakes, restores and raises those whose message
-- is there. Parses and becomes @libexec\/maru\/maru-boost@, which does it all. @maru boost
-- advise@ is "Maru.Cli.Room.Wait.Advise".
module Maru.Cli.Room.Wait.Boost
  ( boostCommand,

    -- * For tests
    BoostOptions (..),
    boostArguments,
    withConf,
    periodOf,
  )
where

import Data.Char (isDigit)
import Data.List (intercalate)
import Data.Maybe (fromMaybe)
import Maru.Cli.Exit
import Maru.Cli.Host (boardsOf)
import Maru.Cli.Installed (helperPath)
import Maru.Cli.Report (become)
import Maru.Cli.Room.Wait.Advise (adviseJob, adviseOptions)
import Maru.Cli.Room.Wait.BoostConf
import Maru.Native.Open (openExisting)
import Options.Applicative hiding (internal)
import qualified Options.Applicative
import System.Exit (ExitCode (..))
import System.Posix.IO
import System.Posix.Process (getParentProcessID)

data BoostOptions = BoostOptions
  { -- | Microseconds; 0: by itself.
    boostPeriod :: !Int,
    boostPolicy :: !String,
    boostBy :: !(Maybe String),
    boostCap :: !(Maybe Int),
    -- | Names or numbers; of root's daemon alone.
    boostUsers :: ![String],
    boostGroups :: ![String],
    boostFor :: !(Maybe Double),
    boostBoards :: ![FilePath],
    boostDryRun :: !Bool,
    boostJson :: !Bool,
    -- | For @maru run@: look after the run of the parent, until standard input ends.
    boostBeside :: !Bool
  }
  deriving (Eq, Show)

boostCommand :: Mod CommandFields (IO ExitCode)
boostCommand =
  command "boost" $
    info
      (hsubparser adviseCommand <|> boost <$> options)
      ( progDesc "Wake, restore and boost waiting processes whose message is there; say why a job is slow"
          <> footer "Examples: maru boost   |   maru boost advise 4711   |   maru boost --boost fifo --policy pb+lower --period 20ms   |   Status: 0, 64 usage, 69 not available, 70 the worker failed."
      )

adviseCommand :: Mod CommandFields (IO ExitCode)
adviseCommand =
  command "advise" (info (adviseJob <$> adviseOptions) (progDesc "Say why a job is slow (spinning, hogs, quotas, binding) and what to type" <> footer "Examples: maru boost advise 4711   |   maru boost advise --for 10 --json $(pgrep -o mpirun)   |   Status: 0 whatever is found, 64 usage, 69 no such process."))
    <> metavar "advise PID"

options :: Parser BoostOptions
options =
  BoostOptions
    <$> option (eitherReader periodOf) (long "period" <> metavar "TIME" <> value 0 <> help "Between two looks: 100us to 50ms, or auto (default): 250us to 5ms as needed")
    <*> option (eitherReader (oneOf policies)) (long "policy" <> metavar "POLICY" <> value "auto" <> help (intercalate ", " policies ++ " (default auto)") <> completeWith policies)
    <*> optional (option (eitherReader (oneOf means)) (long "boost" <> metavar "HOW" <> help "gently, fifo, nice or none (default: as root gently, else fifo or nice, as permitted)" <> completeWith means))
    <*> optional (option (eitherReader percent) (long "cap" <> metavar "PERCENT" <> help "How much of a CPU's time boosted threads of all runs may have together (default 90)"))
    <*> option (eitherReader namesOf) (long "users" <> metavar "NAME,..." <> value [] <> help "As root: look after the runs of these users only")
    <*> option (eitherReader namesOf) (long "groups" <> metavar "NAME,..." <> value [] <> help "As root: look after the runs of users of these groups only (and of --users)")
    <*> optional (option (eitherReader positive) (long "for" <> metavar "SECONDS" <> help "End by itself"))
    <*> many (strOption (long "board" <> metavar "PATH" <> help "Look after this run only (a value of MARU_BOARD); default: all of yours, as root everybody's"))
    <*> switch (long "dry-run" <> help "Say what would be done; do and write nothing")
    <*> switch (long "json" <> help "Print JSON, a line each")
    <*> switch (long "beside" <> Options.Applicative.internal)

policies :: [String]
policies = ["auto", "wake", "restore", "pb", "pb+lower", "gang"]

-- | @5ms@, @250us@, @auto@ as microseconds.
periodOf :: String -> Either String Int
periodOf "auto" = Right 0
periodOf text = case span isDigit text of
  (digits, "ms") | inRange digits -> bounded (1000 * read digits)
  (digits, "us") | inRange digits -> bounded (read digits)
  _ -> wrong
  where
    inRange digits = not (null digits) && length digits <= 6
    bounded us
      | us >= 100 && us <= 50000 = Right us
      | otherwise = wrong
    wrong = Left ("'" ++ text ++ "' is no period: 100us to 50ms, or auto")

positive :: String -> Either String Double
positive text = case reads text of
  [(s, "")] | s >= 0.001 && s <= 1e6 -> Right s
  _ -> Left ("'" ++ text ++ "' is not 0.001 to 1000000")

-- | What the command does not say is as the administrator has it.
withConf :: BoostConf -> BoostOptions -> BoostOptions
withConf conf o =
  o
    { boostBy = boostBy o <|> confBy conf,
      boostCap = boostCap o <|> confCap conf,
      boostUsers = if chosen then boostUsers o else confUsers conf,
      boostGroups = if chosen then boostGroups o else confGroups conf
    }
  where
    chosen = not (null (boostUsers o) && null (boostGroups o))

-- | For @maru-boost@, once users and groups are numbers.
boostArguments :: BoostOptions -> [String]
boostArguments o =
  ["--policy", boostPolicy o, "--period-us", show (boostPeriod o), "--cap", show (fromMaybe 90 (boostCap o))]
    ++ maybe [] (\how -> ["--boost", how]) (boostBy o)
    ++ maybe [] (\s -> ["--for-ms", show (ceiling (s * 1000) :: Int)]) (boostFor o)
    ++ concat [["--board", path] | path <- boostBoards o]
    ++ concat [[name, intercalate "," list] | (name, list) <- [("--users", boostUsers o), ("--groups", boostGroups o)], not (null list)]
    ++ ["--dry-run" | boostDryRun o]
    ++ ["--json" | boostJson o]
    ++ ["--until-input-ends" | boostBeside o]

boost :: BoostOptions -> IO ExitCode
boost o
  | boostBeside o = beside o
  | otherwise = daemon o

-- | The daemon takes the place of this process, so that none is left of it when either is
-- killed. Standard output is the report's.
beside :: BoostOptions -> IO ExitCode
beside o = do
  run <- getParentProcessID
  boards <- boardsOf (show run)
  if null boards
    then problem unavailable ("process " ++ show run ++ " holds no board: maru boost does not look after this run")
    else do
      none <- openExisting "/dev/null" WriteOnly
      _ <- dupTo none stdOutput
      closeFd none
      daemon o {boostBoards = boards}

daemon :: BoostOptions -> IO ExitCode
daemon asked = do
  conf <- readConf "/etc/maru" "boost.conf"
  o <- numbered (maybe id withConf conf asked)
  program <- helperPath "maru-boost"
  become unavailable program (boostArguments o)

-- | Users and groups by their numbers; status 64 for a name that there is none of.
numbered :: BoostOptions -> IO BoostOptions
numbered o = do
  users <- mapM (known userNumber) (boostUsers o)
  groups <- mapM (known groupNumber) (boostGroups o)
  pure o {boostUsers = users, boostGroups = groups}
  where
    known look name = look name >>= either (problem usage) (pure . show)
