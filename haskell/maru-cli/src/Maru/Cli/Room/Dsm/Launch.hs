-- | @maru launch@: becomes the agent that starts the nodes of a job and watches
-- them.
module Maru.Cli.Room.Dsm.Launch
  ( launchCommand,
    reportLaunch,
  )
where

import Control.Monad (unless, when)
import qualified Data.ByteString as ByteString
import Data.Foldable (toList)
import Data.List (intercalate, stripPrefix)
import Data.Maybe (fromMaybe, isNothing)
import qualified GHC.Foreign as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Maru.Cli.Exit
import Maru.Cli.Host (pageFacts)
import Maru.Cli.Installed (commandItself, helperPath)
import Maru.Cli.Output (writeJson)
import Maru.Cli.Page (isPage, writePage)
import Maru.Cli.Readers (named, wholeFrom)
import Maru.Cli.Report
import qualified Maru.Control.Launch.Advice as Advice
import qualified Maru.Control.Launch.Heat as Heat
import Maru.Control.Launch.Locks (lockVerdict, locks)
import Maru.View.Launch (launchJson, launchPage)
import Options.Applicative hiding (internal)
import System.Environment (setEnv)
import System.Exit (ExitCode (..))
import System.Posix.Types (Fd)
import Text.Read (readMaybe)

-- | What the nodes find in their environment.
data Settings = Settings
  { memory :: !(Maybe Int),
    access :: !(Maybe String),
    globals :: !(Maybe String),
    races :: !Bool,
    advise :: !Bool,
    transport :: !(Maybe String),
    lostAfter :: !(Maybe Int),
    boosted :: !Bool,
    bare :: !Bool,
    keeping :: ![String],
    reportTo :: !(Maybe FilePath)
  }

launchCommand :: Mod CommandFields (IO ExitCode)
launchCommand =
  command "launch" $
    info
      (launch <$> nodes <*> hosts <*> settings <*> some (strArgument (metavar "[--] COMMAND...")) <|> moveNode <$> moved <*> strArgument (metavar "PID"))
      ( progDesc "Run a program on several nodes that share memory (maru/dsm.h)"
          <> noIntersperse
          <> footer
            "Examples: maru launch -n 4 -- ./ocean   |   maru launch --move 2=hostc 4711   |   Status: that of the first node that failed; 75 a node was lost, 125 maru failed, 126 cannot execute, 127 not found, 128+N ended by signal N."
      )
  where
    moved = strOption (long "move" <> metavar "NODE=HOST" <> help "Of a job that runs, whose maru launch has this PID, with --hosts and checkpoints: take a checkpoint, and start that node on this host of its file")
    nodes = option (between 1 256) (short 'n' <> metavar "N" <> help "So many nodes (1 to 256)")
    hosts = optional (strOption (long "hosts" <> metavar "FILE" <> action "file" <> help "On the hosts that it names, a line each: HOST [NODES]; over ssh (default: all on this host)"))

settings :: Parser Settings
settings =
  Settings
    <$> optional (option (between 1 1048576) (long "memory" <> metavar "MIB" <> help "So much shared memory at most (default 256; programs of maru-cc 4096)"))
    <*> optional (spelled <$> oneOf "access" ["userfaultfd", "uffd", "mprotect"] "How accesses to shared memory are seen (default: not at all where the nodes of one host have one memory; else what works, userfaultfd first)")
    <*> optional (oneOf "globals" ["private", "shared"] "Global variables of PARMACS programs (default private)")
    <*> switch (long "races" <> help "Say where two nodes write the same bytes and nothing orders that; slower")
    <*> switch (long "advise" <> help "Say in the end whether fewer or more nodes would help, and which node should be which page's home")
    <*> optional (option (eitherReader carrier) (long "transport" <> metavar (intercalate "|" carriers) <> help "What carries messages: shared memory between nodes of one host, TCP, or a provider of libfabric, as 'maru doctor' lists them (default shm+tcp)"))
    <*> optional (option (between 1 86400) (long "lost-after" <> metavar "SECONDS" <> help "A node that is silent for so long is lost, stopped ones too (default: only one whose host does not answer)"))
    <*> switch (long "boost" <> help "Beside the job, on each host, maru boost for its nodes: who has a message and does not get to run is raised")
    <*> switch (long "bare" <> help "Show the nodes' standard output as they write it, to the byte, without '[N] ' before each line")
    <*> keeps
    <*> optional (strOption (long "report" <> metavar "FILE" <> action "file" <> help "Write which pages and allocations cost what: a page if it ends in .html, else JSON (- is standard output)"))

-- | What the agent is told of checkpoints.
keeps :: Parser [String]
keeps =
  concat
    <$> traverse
      told
      [ ("--ckpt-every", strOption (long "ckpt-every" <> metavar "SECONDS" <> help "Take a checkpoint so often (0.02 to 86400; 30 with --ckpt-dir): where a node is lost, all go on from the last (programs that maru-cc built)")),
        ("--ckpt-dir", strOption (long "ckpt-dir" <> metavar "DIR" <> action "directory" <> help "Copy each checkpoint to this folder, too")),
        ("--resume", strOption (long "resume" <> metavar "DIR" <> action "directory" <> help "Go on from the checkpoint in this folder, with the same -n and COMMAND")),
        ("--output", oneOf "output" ["held", "now"] "With checkpoints: whether the nodes' output is held until it cannot come again (default held)"),
        ("--recover", oneOf "recover" ["all", "lost"] "With checkpoints: which nodes go back where one is lost: all, or that one alone, which does again what it did (default all)"),
        ("--journal", show <$> option (between 1 1048576) (long "journal" <> metavar "MIB" <> help "With --recover lost: so much memory for what happens to each node between two checkpoints (default 256)"))
      ]
  where
    told (name, reader) = maybe [] (\given -> [name, given]) <$> optional reader

spelled :: String -> String
spelled way = if way == "uffd" then "userfaultfd" else way

carrier :: String -> Either String String
carrier name
  | name == "shm" || beyond == "tcp" = Right name
  | Just (_ : _) <- stripPrefix "ofi:" beyond = Right name
  | otherwise = Left ("unknown transport '" ++ name ++ "'; known: " ++ intercalate ", " carriers)
  where
    beyond = fromMaybe name (stripPrefix "shm+" name)

carriers :: [String]
carriers = ["shm+tcp", "shm", "tcp", "shm+ofi:PROVIDER", "ofi:PROVIDER"]

between :: Int -> Int -> ReadM Int
between least most = eitherReader (wholeFrom least most "a number")

oneOf :: String -> [String] -> String -> Parser String
oneOf name words' text =
  option (eitherReader (named name id words')) (long name <> metavar (intercalate "|" words') <> completeWith words' <> help text)

moveNode :: String -> String -> IO ExitCode
moveNode wish launcher = do
  agent <- helperPath "maru-launch"
  become maruFailed agent ["--move", wish, launcher]

launch :: Int -> Maybe FilePath -> Settings -> [String] -> IO ExitCode
launch nodes hosts asked words' = do
  agent <- helperPath "maru-launch"
  export "MARU_DSM_MIB" (show <$> memory asked)
  export "MARU_DSM_ACCESS" (access asked)
  export "MARU_PARMACS_GLOBALS" (globals asked)
  export "MARU_DSM_RACES" (if races asked then Just "1" else Nothing)
  export "MARU_DSM_TRANSPORT" (transport asked)
  export "MARU_DSM_LOST_AFTER" (show <$> lostAfter asked)
  when (boosted asked) (commandItself >>= setEnv "MARU_LAUNCH_BOOST")
  noting <- if isNothing (reportTo asked) && not (advise asked) then pure [] else prepareReport (reportTo asked) (advise asked) (["-n", show nodes] ++ words')
  become maruFailed agent (["-n", show nodes] ++ maybe [] (\file -> ["--hosts", file]) hosts ++ ["--bare" | bare asked] ++ keeping asked ++ noting ++ ["--"] ++ words')
  where
    export name = mapM_ (setEnv name)

-- ---- the report -----------------------------------------------------------

-- | The agent's arguments: a memory file, which begins with where the report goes (nothing:
-- nowhere), whether advice was asked for, and the command.
prepareReport :: Maybe FilePath -> Bool -> [String] -> IO [String]
prepareReport to advising words' = do
  let file = fromMaybe "" to
  mapM_ (checkWritable maruFailed) to
  encoding <- getFileSystemEncoding
  scratch <- Foreign.withCStringLen encoding (unlines [file, if advising then "advise" else "", show words']) ByteString.packCStringLen >>= newReport
  setEnv "MARU_DSM_REPORT" "1"
  executable <- commandItself
  pure ["--report-fd", show scratch, "--reporter", executable]

-- | @maru report-launch DESCRIPTOR STATUS@: what the agent becomes.
reportLaunch :: [String] -> IO ExitCode
reportLaunch = lastWord "report-launch is for maru launch alone" (\fd status _ -> writeReport fd status)

writeReport :: Fd -> Int -> IO ()
writeReport fd status = do
  encoding <- getFileSystemEncoding
  bytes <- readReport fd
  content <- ByteString.useAsCStringLen bytes (Foreign.peekCStringLen encoding)
  case lines content of
    file : advising : words' : rest -> do
      lines' <- either (problem internal . ("the job's report is broken: " ++)) pure (mapM Heat.told rest)
      unless (null file) $ do
        when (status == 0) (mapM_ warn (Heat.verdict (Heat.heats lines') : toList (lockVerdict (locks lines'))))
        if isPage file
          then pageFacts ("maru" : "launch" : fromMaybe [] (readMaybe words')) >>= \facts -> writePage file (launchPage facts status lines')
          else writeJson file (launchJson status lines')
      when (advising == "advise") (mapM_ (warn . ("advice: " ++)) (if status == 0 then Advice.advice lines' else ["none: the job failed"]))
    _ -> problem internal "the job's report is empty"
