-- | What real programs' measurements share. It is a folder of their own, a server that ends with
-- its measurement, a port that is free, a client whose words are read.
--
-- All is bounded: a server has 'startSeconds' to answer, and the time of "Maru.Cli.Group" to end
-- before it is killed. A client has what it was asked for and a minute.
module IoWorkload
  ( -- * What is measured
    Workload (..),
    Need (..),
    missing,
    Launch (..),
    plainly,
    Span (..),
    seconds,
    repeatFor,

    -- * Folders and ports
    withFolder,
    freePort,

    -- * Programs
    withServer,
    said,
    unprivileged,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket)
import Control.Monad (filterM, when)
import Data.List (intercalate, nub)
import Data.Maybe (isJust)
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Reaper (Reaper)
import Network.Socket
import System.Directory
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO
import System.Posix.Files (setFileMode, setOwnerAndGroup)
import System.Posix.Temp (mkdtemp)
import System.Posix.User
import System.Process
import System.Timeout (timeout)

-- | A real program under load.
data Workload = Workload
  { workloadName :: !String,
    workloadPurpose :: !String,
    workloadNeeds :: ![Need],
    -- | Once, in the measurement's folder.
    workloadPrepare :: !(Reaper -> FilePath -> IO ()),
    -- | Starts the program in that way, loads it unmeasured for the first time of the span and
    -- measured for the second one. What it did by what it was asked: more is better.
    workloadMeasure :: !(FilePath -> Launch -> Span -> IO [(String, Double)]),
    -- | A server that answers requests: maru has to leave it alone on two cores.
    workloadAnswers :: !Bool,
    -- | One of those by which passing calls through is judged.
    workloadPasses :: !Bool
  }

data Need
  = -- | A program, and Debian's package that has it.
    Need !FilePath !String
  | -- | A variable that names a folder with such a file, and how to come by it.
    Given !String !FilePath !String

-- | In words what must be installed; 'Nothing': it is.
missing :: [Need] -> IO (Maybe String)
missing needs = do
  absent <- filterM (fmap not . isThere) needs
  let packages = nub [package | Need _ package <- absent]
      steps = ["apt-get install " ++ unwords packages | not (null packages)] ++ nub [how | Given _ _ how <- absent]
  pure (if null steps then Nothing else Just ("not measured: " ++ intercalate "; " steps))
  where
    isThere (Need program _)
      | '/' `elem` program = doesFileExist program
      | otherwise = isJust <$> findExecutable program
    isThere (Given variable file _) = lookupEnv variable >>= maybe (pure False) (doesFileExist . (</> file))

-- | How the program is started: what ends it with us, words before its own, and where its standard
-- error goes.
data Launch = Launch
  { launchReaper :: !Reaper,
    launchBefore :: ![String],
    launchErrors :: !FilePath
  }

-- | By itself.
plainly :: Reaper -> FilePath -> Launch
plainly reaper = Launch reaper []

-- | Seconds unmeasured, seconds measured.
data Span = Span !Double !Double

-- | As programs read it: whole ones, at least one.
seconds :: Double -> String
seconds s = show (max 1 (round s :: Int))

-- | Again and again until so much time has passed, once at least.
repeatFor :: Double -> IO a -> IO ()
repeatFor time action = getMonotonicTime >>= go . (+ time)
  where
    go end = do
      _ <- action
      now <- getMonotonicTime
      when (now < end) (go end)

-- ---- folders and ports --------------------------------------------------

-- | On a disk, readable by all, removed at the end.
withFolder :: (FilePath -> IO a) -> IO a
withFolder = bracket make removePathForcibly
  where
    make = do
      path <- mkdtemp "/var/tmp/maru-bench-io-"
      setFileMode path 0o755
      pure path

-- | On the loopback, a moment ago.
freePort :: IO Int
freePort = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
  bind s (SockAddrInet 0 loopback)
  fromIntegral <$> socketPort s

loopback :: HostAddress
loopback = tupleToHostAddress (127, 0, 0, 1)

answers :: Int -> IO Bool
answers port = bracket (socket AF_INET Stream defaultProtocol) close $ \s ->
  isJust <$> orNothing (connect s (SockAddrInet (fromIntegral port) loopback))

-- ---- programs -----------------------------------------------------------

startSeconds :: Double
startSeconds = 20

-- | Runs the command in that way while the action runs, from when it answers on the port and says
-- that it is ready. Then ends it.
withServer :: FilePath -> Launch -> [String] -> Int -> IO Bool -> IO a -> IO a
withServer folder launch command port isReady action =
  withFile (launchErrors launch) WriteMode $ \errors ->
    withFile "/dev/null" ReadWriteMode $ \none ->
      case launchBefore launch ++ command of
        [] -> problem internal "a server without a command"
        program : arguments ->
          inGroup (launchReaper launch) (proc program arguments) {std_in = UseHandle none, std_out = UseHandle none, std_err = UseHandle errors, cwd = Just folder} $
            \(_, _, _, process) -> ready process >> action
  where
    ready process = do
      deadline <- (+ startSeconds) <$> getMonotonicTime
      let wait = do
            up <- (&&) <$> answers port <*> isReady
            ended <- getProcessExitCode process
            now <- getMonotonicTime
            case ended of
              Just status -> failed ("ended with " ++ show status ++ " before it answered")
              Nothing
                | up -> pure ()
                | now > deadline -> failed "did not answer in time"
                | otherwise -> threadDelay 20000 >> wait
      wait
    failed why = do
      words' <- readFile (launchErrors launch)
      problem unavailable (unwords (take 1 command) ++ " " ++ why ++ ": " ++ unwords (lines (lastOf 400 words')))
    lastOf n text = drop (length text - n) text

-- | What the command prints, within that many seconds and a minute; its standard error goes where
-- the launch says.
said :: FilePath -> Launch -> Double -> [String] -> IO String
said folder launch limit command = case launchBefore launch ++ command of
  [] -> problem internal "nothing to run"
  program : arguments -> withFile (launchErrors launch) WriteMode $ \errors -> do
    let job = (proc program arguments) {std_in = NoStream, std_out = CreatePipe, std_err = UseHandle errors, cwd = Just folder}
    result <- timeout (round ((limit + 60) * 1000000)) . inGroup (launchReaper launch) job $ \(_, output, _, process) -> do
      text <- maybe (pure "") hGetContents output
      status <- length text `seq` waitForProcess process
      pure (status, text)
    case result of
      Nothing -> failed "did not end in time"
      Just (ExitFailure n, _) -> failed ("ended with status " ++ show n)
      Just (ExitSuccess, text) -> pure text
  where
    failed why = do
      words' <- readFile (launchErrors launch)
      problem unavailable (unwords (take 2 command) ++ " " ++ why ++ ": " ++ unwords (lines words'))

-- | Words before a command that will not run as root; the user that it is then owns the folder. So
-- it owns one in it, for what programs keep while they run (steering's journal).
unprivileged :: String -> FilePath -> IO [String]
unprivileged user folder = do
  root <- (== 0) <$> getEffectiveUserID
  if not root
    then pure []
    else do
      entry <- getUserEntryForName user
      let own path = setOwnerAndGroup path (userID entry) (userGroupID entry)
          running = folder </> "run"
      createDirectoryIfMissing False running
      setFileMode running 0o700
      mapM_ own [folder, running]
      pure ["setpriv", "--reuid=" ++ user, "--regid=" ++ show (userGroupID entry), "--clear-groups", "env", "XDG_RUNTIME_DIR=" ++ running]
