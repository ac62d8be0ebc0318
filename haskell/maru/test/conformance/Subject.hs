{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | What the conformance suite runs on, and its tools.
module Subject
  ( -- * Back ends under test
    subjects,
    inProcess,
    named,

    -- * Running
    runJob,
    withRun,
    job,
    jobOn,
    outcomesOf,
    valuesOf,
    slowly,
    endless,
    burn,

    -- * Effort
    times,

    -- * Effects in pure code
    effect,
    lazily,
    countedFrom,

    -- * Waiting
    within,
    eventually,
    collected,
  )
where

import Control.Concurrent (threadDelay, yield)
import Control.Exception (bracket, throwIO)
import Control.Monad (forever, unless)
import Data.IORef
import Data.List (intercalate)
import Data.Maybe (isJust)
import Door (throughDoor)
import GHC.Clock (getMonotonicTime)
import Maru.Internal.Dispatch (engineOf)
import Maru.Internal.Engine
import Maru.Options
import System.Environment (lookupEnv)
import System.IO.Unsafe (unsafeInterleaveIO, unsafePerformIO)
import System.Mem (performMajorGC)
import System.Timeout (timeout)
import Test.Tasty (TestName, TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure)

-- | All that have an engine; @MARU_TEST_BACKENDS@ (names, commas) picks some.
subjects :: IO [Backend]
subjects = maybe supported chosen <$> lookupEnv "MARU_TEST_BACKENDS"
  where
    supported = filter (\b -> isJust (engineOf b :: Maybe (Job () () -> IO (Running ())))) allBackends
    chosen names = [b | b <- supported, backendName b `elem` splitOn names]
    splitOn s = case break (== ',') s of
      (a, _ : rest) -> a : splitOn rest
      (a, []) -> [a]

-- | Evaluates in the caller's heap: effects of @f@ can be seen from outside.
inProcess :: Backend -> Bool
inProcess b = b `notElem` [Shm, Sockets, Mpi]

named :: [TestName] -> [TestTree] -> TestTree
named words' = testGroup (intercalate ", " words')

-- | Runs a job on a back end, whatever its options say.
runJob :: Backend -> Job a b -> IO (Running b)
runJob b j = case engineOf b of
  Just engine -> engine j {jobOptions = (jobOptions j) {backend = b}}
  Nothing | b == Mpi -> throughDoor j
  Nothing -> throwIO (userError ("no engine: " <> backendName b))

withRun :: Backend -> Job a b -> (Running b -> IO c) -> IO c
withRun b j = bracket (runJob b j) stop

-- | Two workers, in order, no codec.
job :: (a -> b) -> [a] -> Job a b
job = jobOn 2

jobOn :: Int -> (a -> b) -> [a] -> Job a b
jobOn n f xs =
  Job
    { jobOptions = defaultOptions,
      jobWorkers = n,
      jobOrder = Ordered,
      jobCodec = Nothing,
      jobFunction = f,
      jobInputs = xs,
      jobArriving = Nothing,
      jobBeside = Nothing
    }

-- | All outcomes; the run has ended when this returns.
outcomesOf :: Backend -> Job a b -> IO [Outcome b]
outcomesOf b j = withRun b j $ \running -> forced (outcomes running)
  where
    forced os = length os `seq` pure os

-- | All values; throws the first exception by index.
valuesOf :: Backend -> Job a b -> IO [b]
valuesOf b j = outcomesOf b j >>= traverse (either throwIO pure . outcomeResult)

-- | The argument, after so many milliseconds.
slowly :: Int -> a -> a
slowly ms x = effect (threadDelay (ms * 1000)) `seq` x
{-# NOINLINE slowly #-}

-- | Computes for ever; can be interrupted.
endless :: a -> b
endless x = effect (x `seq` forever yield)
{-# NOINLINE endless #-}

-- | So many seconds of computing.
burn :: Double -> IO ()
burn seconds = getMonotonicTime >>= go
  where
    go begun = do
      now <- getMonotonicTime
      -- It may be interrupted.
      yield
      unless (now - begun >= seconds) (go begun)

-- | So many times, times @MARU_TEST_SCALE@; a tenth of it where each time costs
-- processes.
times :: Backend -> Int -> Int
times b n = max 1 (scale * (if inProcess b then n else n `div` 5))

scale :: Int
scale = effect (maybe 1 read' <$> lookupEnv "MARU_TEST_SCALE")
  where
    read' s = case reads s of
      [(n, "")] | n >= 1 -> n
      _ -> errorWithoutStackTrace ("MARU_TEST_SCALE is not a positive number: " <> s)
{-# NOINLINE scale #-}

effect :: IO a -> a
effect = unsafePerformIO
{-# NOINLINE effect #-}

lazily :: IO a -> IO a
lazily = unsafeInterleaveIO

-- | @n, n + 1 ..@ without end; the reference counts the cells that were demanded.
countedFrom :: IORef Int -> Int -> IO [Int]
countedFrom walked n = lazily $ do
  atomicModifyIORef' walked (\k -> (k + 1, ()))
  (n :) <$> countedFrom walked (n + 1)

-- | Fails if the action takes longer than so many seconds.
within :: Double -> IO a -> IO a
within seconds action =
  timeout (round (seconds * 1000000)) action
    >>= maybe (assertFailure ("not done after " <> show seconds <> " s")) pure

-- | Looks until it is so, at most so many seconds.
eventually :: String -> Double -> IO Bool -> Assertion
eventually what seconds look = do
  start <- getMonotonicTime
  let go = do
        holds <- look
        now <- getMonotonicTime
        if holds
          then pure ()
          else do
            assertBool (what <> ": not so after " <> show seconds <> " s") (now - start < seconds)
            threadDelay 10000
            go
  go

-- | @collected use@ runs @use@ with a value and looks whether the value becomes
-- garbage afterwards: then nothing of the run that got it is left.
collected :: (IORef () -> IO ()) -> Assertion
collected use = do
  gone <- newIORef False
  mark <- newIORef ()
  _ <- mkWeakIORef mark (writeIORef gone True)
  use mark
  eventually "the run's closure is garbage" 5 $ performMajorGC >> readIORef gone
