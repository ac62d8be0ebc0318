{-# LANGUAGE OverloadedStrings #-}

-- | @maru run@: plans, then becomes the supervisor; the supervisor runs the
-- command and becomes @maru report-run@, which says what was measured. One
-- process all the time, none beside the command.
--
-- The plan travels from the first to the last as a line in a memory file that the command does not
-- inherit. The supervisor adds its line of figures.
module Maru.Cli.Run
  ( runCommand,
    reportRun,

    -- * The plan, for tests
    Request (..),
    Plan (..),
    planRun,
    supervisorArguments,
    splitProfiles,
    verdictLine,
    Measured (..),
    LastWords (..),
    lastWords,
  )
where

import Control.Monad (when)
import Data.Aeson
import Data.Aeson.Types (parseMaybe)
import qualified Data.ByteString.Char8 as Chars
import qualified Data.ByteString.Lazy as Lazy
import Data.Either (partitionEithers)
import Data.List (tails)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (catMaybes, fromMaybe, mapMaybe)
import qualified Data.Text as Text
import Maru.Cli.Exit
import Maru.Cli.Fitting
import Maru.Cli.Host (pageFacts)
import Maru.Cli.Installed (commandItself, helperAt, libraryAt, notInstalled)
import Maru.Cli.Output
import Maru.Cli.Page (isPage, writePage)
import Maru.Cli.Profile
import Maru.Cli.Program
import Maru.Cli.Report
import Maru.Cli.Room
import Maru.Native.BoardView
import Maru.View.Run
import Options.Applicative hiding (internal)
import System.Exit (ExitCode (..))
import System.IO.Unsafe (unsafeInterleaveIO)
import System.Posix.Types (Fd)
import Text.Read (readMaybe)

-- ---- before -------------------------------------------------------------

-- | What the command line asked for, before anything was looked up.
data Request = Request
  { requestBestEffort :: !Bool,
    requestExplain :: !Bool,
    requestQuiet :: !Bool,
    requestReport :: !(Maybe FilePath),
    -- | Room (or profile) and its answer.
    requestParts :: ![(String, Either Refusal Part)],
    -- | The command's file; looked at where a part has libraries.
    requestProgram :: Described,
    -- | What comes with every library, where it is installed.
    requestFirst :: !(Maybe FilePath),
    requestCommand :: ![String]
  }

-- | What will be done.
data Plan = Plan
  { planEnvironment :: ![(String, String)],
    planPreload :: ![FilePath],
    -- | Room and line.
    planExplain :: ![(String, String)],
    planReplaced :: ![(String, String)],
    planShowExplain :: !Bool,
    -- | Nothing is said of what was measured.
    planQuiet :: !Bool,
    planReport :: !(Maybe FilePath),
    planBeside :: ![String],
    planBoardRoom :: !Int,
    planMemory :: !(Maybe String),
    planCommand :: ![String]
  }
  deriving (Eq, Show)

-- | Pure. Later rooms win where two set the same variable. A part whose variables a later one of
-- the same room sets, too, comes to nothing: so flags take the place of a profile's.
planRun :: Request -> Either Problem Plan
planRun request = do
  parts <- lasting <$> traverse decide (requestParts request)
  when (null (requestCommand request)) $
    Left (Problem usage "run needs a command; see 'maru run --help'")
  let whole = foldMap snd parts
  pure
    Plan
      { planEnvironment = Map.toList (Map.fromList (partEnvironment whole)),
        planPreload = [library | not (null (partPreload whole)), Just library <- [requestFirst request]] ++ partPreload whole,
        planExplain = [(name, line) | (name, part) <- parts, line <- partExplain part],
        planReplaced = [(name, line) | (name, part) <- parts, line <- partReplaced part] ++ crowdedOut parts,
        planShowExplain = requestExplain request,
        planQuiet = requestQuiet request,
        planReport = requestReport request,
        planBeside = partBeside whole,
        planBoardRoom = partBoardRoom whole,
        planMemory = partMemory whole,
        planCommand = requestCommand request
      }
  where
    lasting all' = [(name, part) | (name, part) : later <- tails all', not (any (replaces part) [p | (n, p) <- later, n == name])]
    replaces part by = not (null (variables part)) && all (`elem` variables by) (variables part)
    variables = map fst . partEnvironment
    decide (name, answer) = case answer >>= fitting (concat (take 1 (requestCommand request))) (requestProgram request) of
      Right part -> Right (name, part)
      Left (Misused why) -> Left (Problem usage why)
      Left (Unavailable why)
        | requestBestEffort request -> Right (name, mempty {partReplaced = ["left out: " ++ why]})
        | otherwise -> Left (Problem maruFailed (why ++ "; --best-effort goes on without it"))

-- | One program can run beside a command.
crowdedOut :: [(String, Part)] -> [(String, String)]
crowdedOut parts = case [name | (name, part) <- parts, not (null (partBeside part))] of
  first' : others -> [(name, "its program does not run beside the command: that of '" ++ first' ++ "' does") | name <- others]
  [] -> []

-- | The supervisor's arguments, given its report descriptor and reporter.
supervisorArguments :: Plan -> Fd -> FilePath -> [String]
supervisorArguments plan descriptor reporter =
  concat [["--setenv", name ++ "=" ++ value'] | (name, value') <- planEnvironment plan]
    -- The supervisor puts each before the ones before it.
    ++ concat [["--preload", path] | path <- reverse (planPreload plan)]
    ++ concat [["--beside", word] | word <- planBeside plan]
    ++ concat [["--board-room", show (planBoardRoom plan)] | planBoardRoom plan > 0]
    ++ concat [["--memory", where'] | Just where' <- [planMemory plan]]
    ++ ["--report-fd", show descriptor, "--reporter", reporter, "--"]
    ++ planCommand plan

-- | Leading words that begin with @\@@ are profiles; a @--@ behind them ends them.
splitProfiles :: [String] -> ([String], [String])
splitProfiles text = case span isProfile text of
  ([], run) -> ([], run)
  (profiles, "--" : run) -> (map (drop 1) profiles, run)
  (profiles, run) -> (map (drop 1) profiles, run)
  where
    isProfile word = take 1 word == "@" && length word > 1

runCommand :: [Room] -> Mod CommandFields (IO ExitCode)
runCommand rooms =
  command "run" $
    info
      (start again <$> sequenceA plugs <*> flags <*> words')
      ( progDesc "Run a command under maru"
          <> noIntersperse
          <> footer
            "Examples: maru run --wait spin-block -- ./server   |   maru run @fast --report run.json -- ./batch in.txt   |   Status: the command's own; 125 maru failed, 126 cannot execute, 127 not found, 128+N ended by signal N."
      )
  where
    plugs = [(,) (roomName r) <$> answer plug | r <- rooms, Just plug <- [roomRun r]]
    -- Most rooms are asked for nothing, and decide so without a look at the machine, which costs
    -- files, threads and system calls.
    answer (RunPlug parser probe decide) = (\given asked -> (`decide` given) <$> unsafeInterleaveIO (probe asked given)) <$> parser
    again = getParseResult . execParserPure defaultPrefs (info (sequenceA plugs) mempty)
    flags =
      (,,,)
        <$> switch (long "best-effort" <> help "Go on without what is not available here")
        <*> switch (long "explain" <> help "Say what is done and why, before the command starts")
        <*> switch (long "quiet" <> help "Say nothing of what was measured, but in the report; failures are said")
        <*> optional (strOption (long "report" <> metavar "FILE" <> help "Write what was measured: a page if it ends in .html, else JSON (- is standard output)"))
    words' = many (strArgument (metavar "[@PROFILE...] [--] COMMAND..."))

-- | What the rooms decide, given what else was asked for.
type Decided = [(String, Asked -> IO (Either Refusal Part))]

-- | The first: what flags of rooms say, for those that a profile has.
start :: ([String] -> Maybe Decided) -> Decided -> (Bool, Bool, Bool, Maybe FilePath) -> [String] -> IO ExitCode
start again plugs (bestEffort, explain, quiet, file) text = endingWith [usage, badInput, maruFailed] maruFailed $ do
  let (names, words') = splitProfiles text
  applied <- mapM (\name -> (,) name <$> readProfile name) names
  let asked = Asked (maybe False isPage file) (concatMap (snd . profileFlags . snd) applied)
  profiles <- concat <$> mapM (uncurry (profileParts again asked)) applied
  rooms <- mapM (traverse ($ asked)) plugs
  program <- unsafeInterleaveIO (describeProgram words')
  library <- libraryAt "libmaru-first.so"
  plan <-
    either (\p -> problem (problemStatus p) (problemLine p)) pure $
      planRun (Request bestEffort explain quiet file (profiles ++ rooms) program (either (const Nothing) Just library) words')
  mapM_ (\(room', line) -> warn (room' ++ ": " ++ line)) (planReplaced plan)
  when (planShowExplain plan) (mapM_ warn (explanation plan))
  supervise plan

-- | A profile's environment, and what the rooms say to its flags ('profileFlags').
profileParts :: ([String] -> Maybe Decided) -> Asked -> String -> Profile -> IO [(String, Either Refusal Part)]
profileParts again asked name profile = do
  let (environment, flags) = profileFlags profile
  decided <- maybe (unknown flags) pure (again flags)
  parts <- mapM (traverse ($ asked)) decided
  pure (("@" ++ name, Right mempty {partEnvironment = environment, partExplain = [profileLine profile]}) : [p | p@(_, answer) <- parts, answer /= Right mempty])
  where
    unknown flags = problem badInput ("cannot use profile " ++ name ++ ": it has flags that maru run does not know: " ++ unwords flags)

explanation :: Plan -> [String]
explanation plan =
  case [room' ++ ": " ++ line | (room', line) <- planExplain plan] of
    [] -> ["nothing is changed; the run is measured and shown by 'maru top'"]
    told -> told ++ ["sets " ++ name ++ "=" ++ v | (name, v) <- planEnvironment plan]

-- | Does not return.
supervise :: Plan -> IO ExitCode
supervise plan = do
  executable <- commandItself
  supervisor <- helperAt "maru-supervise" >>= either (problem maruFailed . ("cannot supervise: " ++) . notInstalled) pure
  mapM_ (checkWritable maruFailed) (planReport plan)
  scratch <- newReport (Lazy.toStrict (jsonLine (planJson plan)))
  become maruFailed supervisor (supervisorArguments plan scratch executable)

planJson :: Plan -> Value
planJson plan =
  object
    [ "environment" .= Map.fromList (planEnvironment plan),
      "preload" .= planPreload plan,
      "explain" .= roomLines (planExplain plan),
      "replaced" .= roomLines (planReplaced plan),
      "beside" .= planBeside plan,
      "memory" .= planMemory plan,
      "quiet" .= planQuiet plan,
      -- As Haskell shows it: JSON's text has no place for a name's bytes that are not UTF-8.
      "report" .= fmap show (planReport plan),
      "command" .= planCommand plan
    ]
  where
    roomLines told = [object ["room" .= r, "line" .= l] | (r, l) <- told]

-- ---- after --------------------------------------------------------------

-- | From the memory file. A program beside the run may be late, or be killed in the middle of a line.
data LastWords = LastWords
  { wordsPlan :: !(Map String Value),
    wordsBeside :: ![Beside],
    -- | How many lines cannot be read.
    wordsTorn :: !Int,
    wordsFigures :: !Value,
    wordsMeasured :: !Measured
  }
  deriving (Eq, Show)

lastWords :: Chars.ByteString -> Either String LastWords
lastWords content = case Chars.lines content of
  plan : more
    | (before, figures : behind) <- break isFigures more,
      (torn, beside) <- partitionEithers (map eitherDecodeStrict (before ++ behind)) ->
      LastWords <$> eitherDecodeStrict plan <*> pure beside <*> pure (length torn) <*> eitherDecodeStrict figures <*> eitherDecodeStrict figures
  other -> Left ("no figures in " ++ show (length other) ++ " lines")
  where
    isFigures line = (decodeStrict line >>= parseMaybe (withObject "figures" (.: "schema"))) == Just ("maru-supervise/1" :: String)

-- | What a room's program beside the run says: a line for people, and all of it.
data Beside = Beside !String !String !Value
  deriving (Eq, Show)

instance FromJSON Beside where
  parseJSON value' = withObject "beside" (\o -> Beside <$> o .: "room" <*> o .: "line" <*> pure value') value'

-- | @maru report-run DESCRIPTOR STATUS [BOARD]@: what the supervisor becomes.
reportRun :: [Room] -> [String] -> IO ExitCode
reportRun rooms = lastWord "report-run is for the supervisor alone" (\fd _ -> report rooms fd)

report :: [Room] -> Fd -> [FilePath] -> IO ()
report known fd boards = do
  content <- readReport fd
  LastWords plan beside torn figures measured <- either (problem internal . ("the run's report is broken: " ++)) pure (lastWords content)
  (broken, seen) <- partitionEithers <$> mapM readBoard boards
  mapM_ (warn . ("cannot read the run's board: " ++)) broken
  let rooms = [name | b <- seen, s <- boardSections b, let name = sectionName s, name `notElem` ("run" : parts)]
      missing = ["run: what ran beside the command may have been killed: it left lines that cannot be read (" ++ show torn ++ "), and the report lacks them" | torn > 0]
      said = concatMap boardLines seen ++ missing
      parts = ["lockwaits", "lockprof", "without"]
  after <- catMaybes <$> sequence [fmap (named r) <$> roomAfter r (environmentOf plan) b | r <- known, b <- seen]
  let loud = Map.lookup "quiet" plan /= Just (Bool True)
  when loud (mapM_ (\(Beside room' line _) -> warn (room' ++ ": " ++ line)) beside)
  mapM_ warn missing
  when (measuredStarted measured) $ do
    when loud (mapM_ (\(name, a) -> mapM_ (warn . ((name ++ ": ") ++)) (afterLines a)) after)
    mapM_ (warn . ("run: " ++)) (mapMaybe ranWithout seen)
    when loud (warn (verdictLine measured rooms))
  case Map.lookup "report" plan of
    Just (String shown)
      | Just file <- readMaybe (Text.unpack shown),
        isPage file -> do
        facts <- pageFacts (fromMaybe [] (Map.lookup "command" plan >>= parseMaybe parseJSON))
        writePage file (runPage facts (ranOf known plan measured rooms beside after said))
      | Just file <- readMaybe (Text.unpack shown) -> writeJson file (reportJson plan figures rooms said beside after)
    _ -> pure ()
  where
    ranOf known' plan measured rooms beside after said =
      Ran
        { ranRooms = [(roomName r, roomPurpose r) | r <- known'],
          ranActive = rooms,
          ranAsked = told "explain" plan ++ told "replaced" plan,
          ranMeasured = measured,
          ranBeside = [(room', line) | Beside room' line _ <- beside],
          ranAfter = after,
          ranSaid = said
        }
    told key plan = fromMaybe [] (Map.lookup key plan >>= parseMaybe parseJSON >>= traverse (parseMaybe (\o -> (,) <$> o .: "room" <*> o .: "line")))
    named r a = (roomName r, a)

-- | As planned.
environmentOf :: Map String Value -> Map String String
environmentOf plan = fromMaybe Map.empty (Map.lookup "environment" plan >>= parseMaybe parseJSON)

reportJson :: Map String Value -> Value -> [String] -> [String] -> [Beside] -> [(String, Afterwards)] -> Value
reportJson plan figures rooms said beside after =
  object
    [ "schema" .= ("maru-run/1" :: String),
      "plan" .= Map.delete "report" plan,
      "measured" .= figures,
      "rooms" .= rooms,
      "beside" .= [value' | Beside _ _ value' <- beside],
      "after" .= Map.fromList [(name, afterData a) | (name, a) <- after],
      "log" .= said
    ]
