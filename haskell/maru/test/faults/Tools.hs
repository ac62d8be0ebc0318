{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

{- HLINT ignore "Evaluate" -}

-- | What the fault tests look at and do: children, descriptors and mappings of a
-- process; seeded random kills; scenes played in a copy of this program.
module Tools
  ( -- * Under test
    processBackends,
    chosenBackends,
    onBackend,
    scale,
    firstSeed,

    -- * Effects in pure code
    effect,
    working,
    sleeping,
    pausing,
    endless,

    -- * Looking at processes
    children,
    childrenOf,
    alive,
    residentMiB,
    shareMiB,
    descriptors,

    -- * Waiting
    within,
    eventually,
    testLimit,
    contents,
    leavingNothing,
    leavingMappings,
    noChildren,

    -- * Scenes
    Scene (..),
    playing,
    scene,
    sceneWith,
    finishes,
    linesOf,
    workersOf,
    kill,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Char (isDigit)
import Data.List (isInfixOf, isPrefixOf)
import Data.Maybe (isNothing)
import Data.Word (Word64)
import Foreign.C (CUInt (..))
import GHC.Clock (getMonotonicTime)
import GHC.Conc (getNumProcessors)
import GHC.Exts (lazy)
import Maru
import System.Directory (listDirectory)
import System.Environment (getEnvironment, getExecutablePath, lookupEnv)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix.Signals (Signal, signalProcess)
import System.Posix.Types (ProcessID)
import System.Process
import System.Timeout (timeout)
import Test.Tasty (Timeout, mkTimeout)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, (@?=))

-- Under test -----------------------------------------------------------------

processBackends :: [Backend]
processBackends = [Shm, Sockets]

-- | Those that @MARU_TEST_BACKENDS@ names, or all.
chosenBackends :: IO [Backend]
chosenBackends = maybe processBackends pick <$> lookupEnv "MARU_TEST_BACKENDS"
  where
    pick names = [b | b <- processBackends, backendName b `elem` words (map (\c -> if c == ',' then ' ' else c) names)]

-- | Three workers.
onBackend :: Backend -> Options
onBackend b = defaultOptions {backend = b, workers = Workers 3}

-- | @MARU_TEST_SCALE@: how many times as much to do.
scale :: Int
scale = variable "MARU_TEST_SCALE" 1
{-# NOINLINE scale #-}

-- | Each @MARU_TEST_SEED@ has seeds of its own, from this one on.
firstSeed :: Word64
firstSeed = 1 + 1000000 * fromIntegral (variable "MARU_TEST_SEED" 1 - 1)
{-# NOINLINE firstSeed #-}

-- | A positive number from the environment.
variable :: String -> Int -> Int
variable name instead = effect $ do
  text <- lookupEnv name
  case reads <$> text of
    Nothing -> pure instead
    Just [(n, "")] | n >= 1 -> pure n
    _ -> throwIO (userError (name <> " is not a positive number: " <> show text))

-- Effects in pure code -------------------------------------------------------

effect :: IO a -> a
effect = unsafePerformIO
{-# NOINLINE effect #-}

-- | The argument plus one, after some thousand rounds of arithmetic.
working :: Int -> Int -> Int
working thousands i = go (1000 * thousands) i
  where
    go :: Int -> Int -> Int
    go 0 x = if x == minBound then 0 else i + 1
    go n x = go (n - 1) (x * 6364136223846793005 + 1442695040888963407)
{-# NOINLINE working #-}

-- | The second argument, after so many milliseconds in 'threadDelay'. Not before: a function that is
-- seen to be strict gets its argument evaluated by GHC 9.10.
pausing :: Int -> a -> a
pausing ms x = effect (threadDelay (1000 * ms)) `seq` lazy x
{-# NOINLINE pausing #-}

-- | The second argument, after so many seconds in foreign calls. Without threads
-- the run-time system's clock interrupts them.
sleeping :: Int -> a -> a
sleeping s x = effect (rest (fromIntegral s)) `seq` lazy x
  where
    rest left = unless (left == 0) (c_sleep left >>= rest)
{-# NOINLINE sleeping #-}

-- | Loops without allocating.
endless :: Int -> a
endless n = if n == minBound then endless n else endless (if even n then n + 1 else n - 1)
{-# NOINLINE endless #-}

foreign import ccall safe "sleep" c_sleep :: CUInt -> IO CUInt

-- Looking at processes -------------------------------------------------------

-- | Children of this process, zombies included.
children :: IO [ProcessID]
children = childrenIn "self"

childrenOf :: ProcessID -> IO [ProcessID]
childrenOf = childrenIn . show

childrenIn :: String -> IO [ProcessID]
childrenIn who = do
  tasks <- listed ("/proc/" <> who <> "/task")
  concat <$> forM tasks (\t -> map read . words <$> contents ("/proc/" <> who <> "/task/" <> t <> "/children"))

-- | Threads and processes come and go while one looks.
listed :: FilePath -> IO [FilePath]
listed path = either (\e -> const [] (e :: IOException)) id <$> try (listDirectory path)

contents :: FilePath -> IO String
contents path = either (\e -> const "" (e :: IOException)) id <$> try (readStrictly path)

readStrictly :: FilePath -> IO String
readStrictly path = withFile path ReadMode $ \h -> do
  text <- hGetContents h
  text <$ evaluate (length text)

-- | Runs, sleeps or is stopped; a zombie does not, unless it has threads that have not ended yet.
alive :: ProcessID -> IO Bool
alive pid = do
  status <- contents ("/proc/" <> show pid <> "/status")
  let state = [drop 6 l | l <- lines status, "State:" `isPrefixOf` l]
      others = or [n > (1 :: Int) | ["Threads:", count] <- map words (lines status), (n, "") <- reads count]
  pure (others || any (\s -> not ("Z" `isInfixOf` s || "X" `isInfixOf` s)) state)

residentMiB :: IO Int
residentMiB = do
  status <- contents "/proc/self/status"
  pure (sum [read (filter isDigit l) `div` 1024 | l <- lines status, "VmRSS:" `isPrefixOf` l])

-- | Of a process; a page that n processes have counts as an n-th.
shareMiB :: ProcessID -> IO Int
shareMiB pid = do
  rollup <- contents ("/proc/" <> show pid <> "/smaps_rollup")
  pure (sum [read (filter isDigit l) `div` 1024 | l <- lines rollup, "Pss:" `isPrefixOf` l])

descriptors :: IO Int
descriptors = subtract 1 . length <$> listed "/proc/self/fd"

-- | Of this process: children, descriptors, mappings of maru's files, and of files in
-- /dev/shm.
data Census = Census [ProcessID] Int Int Int
  deriving (Eq, Show)

census :: IO Census
census = do
  maps <- lines <$> contents "/proc/self/maps"
  let having what = length (filter (what `isInfixOf`) maps)
  Census <$> children <*> descriptors <*> pure (having "memfd:maru") <*> pure (having "/dev/shm/")

-- Waiting --------------------------------------------------------------------

-- | How many times slower than alone this machine is now, as scripts/slowness.sh has it:
-- @MARU_TEST_SLOW@, else the processes that are ready for each CPU; from 1 to 10.
slowness :: IO Double
slowness = do
  given <- lookupEnv "MARU_TEST_SLOW"
  load <- maybe (contents "/proc/loadavg") pure given
  cpus <- if isNothing given then getNumProcessors else pure 1
  pure (max 1 (min 10 (sum (map fst (take 1 (reads load))) / fromIntegral cpus)))

-- | After so many seconds of an idle machine a test hangs: five times as many, more where it is slower
-- yet. It may become so while the suite runs.
testLimit :: Integer -> IO Timeout
testLimit seconds = mkTimeout . (seconds * 1000000 * fromIntegral scale *) . max 5 . ceiling <$> slowness

-- | Fails if the action takes longer than so many seconds of an idle machine.
within :: Double -> IO a -> IO a
within seconds action = do
  slow <- slowness
  timeout (round (seconds * slow * 1000000)) action
    >>= maybe (assertFailure ("not done after " <> show seconds <> " s of an idle machine")) pure

-- | Looks until it is so; how many seconds that took, at most so many of an idle machine.
eventually :: String -> Double -> IO Bool -> IO Double
eventually what seconds look = getMonotonicTime >>= go
  where
    go start = do
      holds <- look
      now <- getMonotonicTime
      if holds
        then pure (now - start)
        else do
          slow <- slowness
          assertBool (what <> ": not so after " <> show seconds <> " s of an idle machine") (now - start < seconds * slow)
          threadDelay 5000
          go start

-- | After the action: no child (no zombie either), no descriptor and no file more
-- than before, and a few mappings at most.
leavingNothing :: IO a -> IO a
leavingNothing = leavingMappings 16

-- | With so many mappings more: pages of results that the heap has taken over keep
-- their name until it uses them again, a mapping a megabyte.
leavingMappings :: Int -> IO a -> IO a
leavingMappings more action = do
  Census _ fds maps shm <- census
  result <- action
  let clean (Census c f m s) = null c && f <= fds && m <= maps + more && s <= shm
      look left = do
        performMajorGC
        now <- census
        if clean now
          then pure ()
          else
            if left == (0 :: Int)
              then assertFailure ("left behind: " <> show now <> ", before: " <> show (Census [] fds maps shm))
              else threadDelay 10000 >> look (left - 1)
  slow <- slowness
  look (ceiling (400 * slow))
  pure result

noChildren :: IO Bool
noChildren = null <$> children

-- Scenes ---------------------------------------------------------------------

-- | A running copy of this program.
data Scene = Scene
  { sceneInput :: !Handle,
    sceneOutput :: !Handle,
    sceneErrors :: !Handle,
    sceneProcess :: !ProcessHandle,
    scenePid :: !ProcessID
  }

-- | Plays a scene (see "Scenes") while the action runs; ends it afterwards.
playing :: [(String, String)] -> [String] -> (Scene -> IO a) -> IO a
playing variables arguments = bracket start end
  where
    start = do
      program <- getExecutablePath
      inherited <- getEnvironment
      let others = [v | v@(name, _) <- inherited, name `notElem` map fst variables]
      (Just i, Just o, Just e, p) <-
        createProcess
          (proc program ("--scene" : arguments))
            { std_in = CreatePipe,
              std_out = CreatePipe,
              std_err = CreatePipe,
              env = Just (variables <> others)
            }
      mapM_ (`hSetBuffering` LineBuffering) [i, o]
      Just pid <- getPid p
      pure (Scene i o e p pid)
    end s = do
      mapM_ (\h -> hClose h `catch` \e -> const (pure ()) (e :: IOException)) [sceneInput s, sceneOutput s, sceneErrors s]
      running <- getProcessExitCode (sceneProcess s)
      when (isNothing running) (kill 9 (scenePid s))
      void (waitForProcess (sceneProcess s))

-- | Plays a scene to its end, at most 60 s: status, output, errors.
scene :: [String] -> String -> IO (ExitCode, String, String)
scene = sceneWith []

sceneWith :: [(String, String)] -> [String] -> String -> IO (ExitCode, String, String)
sceneWith variables arguments input = within 60 . playing variables arguments $ \s -> do
  out <- newEmptyMVar
  err <- newEmptyMVar
  _ <- forkIO (hGetContents (sceneOutput s) >>= \t -> evaluate (length t) >> putMVar out t)
  _ <- forkIO (hGetContents (sceneErrors s) >>= \t -> evaluate (length t) >> putMVar err t)
  (hPutStr (sceneInput s) input >> hClose (sceneInput s)) `catch` \e -> const (pure ()) (e :: IOException)
  (,,) <$> waitForProcess (sceneProcess s) <*> takeMVar out <*> (said <$> takeMVar err)

-- | Without what GHC 9.10 says beside: where an uncaught exception was thrown, and
-- that its clock's thread was interrupted.
said :: String -> String
said text = if kept == lines text then text else unlines (filter (not . null) kept)
  where
    kept = go (filter (not . isInfixOf "Ticker: poll failed: Interrupted") (lines text))
    go ("HasCallStack backtrace:" : rest) = go (dropWhile ("  " `isPrefixOf`) rest)
    go (line : rest) = line : go rest
    go [] = []

-- | The scene ends well and prints exactly these lines.
finishes :: [String] -> String -> [String] -> Assertion
finishes arguments input expected = do
  (status, out, err) <- scene arguments input
  (status, lines out, err) @?= (ExitSuccess, expected, "")

linesOf :: Scene -> Int -> IO [String]
linesOf s n = within 30 (replicateM n (hGetLine (sceneOutput s)))

-- | The pids on a scene's first line.
workersOf :: Scene -> IO [ProcessID]
workersOf s = concatMap (map read . words) <$> linesOf s 1

kill :: Signal -> ProcessID -> IO ()
kill signal pid = signalProcess signal pid `catch` \e -> const (pure ()) (e :: IOException)
