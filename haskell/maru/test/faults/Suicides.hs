{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | What @f@ may do to the process it runs in, and to the one that asked.
module Suicides (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.IORef
import Data.List (isInfixOf)
import Data.Maybe (isNothing)
import Foreign (fillBytes, nullPtr, plusPtr)
import Foreign.C (CInt (..))
import GHC.Clock (getMonotonicTime)
import GHC.RTS.Flags (ParFlags (..), getParFlags)
import Maru
import Numeric (readHex)
import System.Exit
import System.IO (hGetContents)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigINT)
import System.Process (waitForProcess)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Tools

foreign import ccall unsafe "exit" c_exit :: CInt -> IO ()

foreign import ccall unsafe "abort" c_abort :: IO ()

foreign import ccall unsafe "raise" c_raise :: CInt -> IO CInt

tests :: Backend -> TestTree
tests b =
  testGroup
    "what f does to its process"
    [ dies b "SIGKILL" (Killed 9) (void (c_raise 9)),
      dies b "SIGSEGV" (Killed 11) (void (c_raise 11)),
      dies b "abort()" (Killed 6) c_abort,
      dies b "exit(3) of C" (Exited 3) (c_exit 3),
      dies b "exit(0) of C" (Exited 0) (c_exit 0),
      dies b "exit with the status of a worker whose log is full" (Exited 73) (c_exit 73),
      dies b "exit with the status of a worker that could not start" (Exited 71) (c_exit 71),
      dies b "exit with the status of a worker that could not go on" (Exited 70) (c_exit 70),
      testCase "what is thrown at a worker between two items is no item's" $ strays b,
      testCase "under Skip and Fail a suicide is tried once" $ tried b,
      testCase "under Fail the list throws at once, wherever it stands" $ failsAtOnce b,
      testCase "with two items to a worker, the one that kills gets the hole" $ blamed b,
      testCase "an initialiser that kills its worker fails the map with one clear line" $ stillborn b,
      testCase "an initialiser that throws fails the map with what it threw" $ initialiser b,
      testCase "the initialiser runs once in each worker" $ initialisedOnce b,
      throws b "error" (ErrorCall "no") (== ErrorCall "no"),
      throws b "exitWith" (ExitFailure 3) (== ExitFailure 3),
      throws b "exitSuccess" ExitSuccess (== ExitSuccess),
      throws b "an exception of asynchronous type" UserInterrupt (== UserInterrupt),
      throws b "an exception whose text throws" Mute (const True),
      throws b "an exception whose text never ends" Endless (const True),
      throws b "an exception that waits for the processor" (Late (effect (threadDelay 600000 >> pure "late"))) (== Late "late"),
      testCase "an exception of a parametrised type keeps its type or its text" $ boxed b,
      testCase "an exception that holds a function arrives as text" $ functions b,
      testCase "an exception that holds an endless list arrives as text" $ endlessPayload b,
      testCase "an exception that holds a loop arrives as text" $ loopingPayload b,
      testCase "stack overflow in f is thrown at its element" $
        finishes ["stack", backendName b, "+RTS", "-K1m", "-RTS"] "" ["Left stack overflow", "Right 2", "Right 3"],
      testCase "heap overflow in f has a typed end, and the others are right" $ heap b,
      testCase "an earlier result of the same chunk does not wait for an endless item" $ earlier b,
      testCase "an endless f under timeout: the workers are gone at once" $ timedOut b (endless :: Int -> Int),
      testCase "f in a foreign call under timeout: the workers are gone at once" $ timedOut b (sleeping 100),
      testCase "killThread on the caller: the workers are gone at once" $ killed b,
      testCase "a timeout around a pure map: demanded again, it is right" $ interrupted b,
      testCase "many timeouts around a pure map: demanded again, it is right" $ interruptedOften b,
      testCase "a log that f writes over fails the map with one clear line" $ when (b == Shm) scribbled,
      testCase "^C ends the program and leaves nothing" $ interruptedByUser b
    ]

dies :: Backend -> String -> Death -> IO () -> TestTree
dies b what how suicide =
  testCase ("by " <> what <> ": that element throws WorkerLost, the others are right") . leavingNothing $ do
    let options = (onBackend b) {policy = Retry 2}
        f i = if i == 7 then effect (suicide >> pure i) else working 10 i
        ys = parMapTry options f [0 .. 20 :: Int]
    within 30 . forM_ (zip [0 ..] ys) $ \(i, y) -> case y of
      Right n -> (i /= 7, n) @?= (True, i + 1)
      Left failed -> do
        (i, failedIndex failed) @?= (7, 7)
        fmap (\l -> l {lostWorker = 0}) (fromException (failedCause failed)) @?= Just (WorkerLost 7 0 how 3)

tried :: Backend -> Assertion
tried b = leavingNothing . forM_ [Skip, Fail] $ \p -> do
  let f i = if i == 7 then effect (c_raise 9 >> pure i) else i
  got <- try (within 30 (parMapM (onBackend b) {policy = p} f [0 .. 20 :: Int]))
  either (\l -> (lostIndex l, lostDeath l, lostTries l)) (\ys -> (length ys, Vanished, 0)) got @?= (7, Killed 9, 1)

-- | By a thread that item 1 has left behind. The next item comes when that worker has ended.
strays :: Backend -> Assertion
strays b = leavingNothing $ do
  let stray = myThreadId >>= \worker -> void (forkIO (threadDelay 100000 >> throwTo worker (ErrorCall "stray, gr\246\223er")))
      f i = effect (i <$ when (i == 1) stray)
      options = (onBackend b) {workers = Workers 1, policy = Fail}
  (ys, report) <- parMapReporting options f (1 : effect (threadDelay 2500000 >> pure [2, 3 :: Int]))
  within 20 (evaluate (sum ys)) >>= (@?= 6)
  r <- report
  reportWorkersLost r @?= 0
  assertBool (show r) (any ("stray, gr??er" `isInfixOf`) (reportNotes r))

-- | Item 0 takes longer than the test.
failsAtOnce :: Backend -> Assertion
failsAtOnce b = leavingNothing $ do
  let f i
        | i == 0 = pausing 600000 i
        | i == 5 = effect (c_raise 9 >> pure i)
        | otherwise = i
      ys = parMapWith (onBackend b) {policy = Fail, chunking = Fixed 1} f [0 .. 9 :: Int]
  got <- try (within 10 (evaluate (sum (take 1 ys))))
  either (\l -> (lostIndex l, lostDeath l)) (const (-1, Vanished)) got @?= (5, Killed 9)

-- | The records of the only log: its mapping is the largest that is shared.
scribbled :: Assertion
scribbled = leavingNothing $ do
  before <- parGcEnabled <$> getParFlags
  let f i = if i == 2 then effect (threadDelay 200000 >> scribble >> threadDelay 1000000 >> pure i) else i
  got <- try (within 20 (parMapM (onBackend Shm) {workers = Workers 1, chunking = Fixed 1} f [1 .. 5 :: Int]))
  case got of
    Left e -> assertBool (displayException e) (unavailableWhat e == "a record in shared memory" && length (lines (displayException e)) == 1)
    Right ys -> assertFailure (show ys)
  _ <- eventually "the collector has its threads again" 20 ((== before) . parGcEnabled <$> getParFlags)
  pure ()

scribble :: IO ()
scribble = do
  maps <- lines <$> readFile "/proc/self/maps"
  let areas = [(to - from, from) | l <- maps, "rw-s" `isInfixOf` l, [(from, '-' : rest)] <- [readHex l], [(to, _)] <- [readHex rest]]
      (_, log') = maximum areas
  -- Behind its first page.
  fillBytes (nullPtr `plusPtr` (log' + 4096)) 0xff 65536

-- | One piece left over by a dead worker and one that was never begun.
blamed :: Backend -> Assertion
blamed b = leavingNothing . forM_ [1, 2, 5] $ \size -> do
  let killers = [3, 17, 18, 40]
      f i = if i `elem` killers then effect (c_raise 9 >> pure i) else working 10 i - 1
      options = (onBackend b) {policy = Retry 1, chunking = Fixed size, workers = Workers 2}
      ys = parMapTry options f [0 .. 49 :: Int]
  got <- within 30 (evaluate (length ys) >> pure ys)
  [failedIndex e | Left e <- got] @?= killers
  [i | Right i <- got] @?= [i | i <- [0 .. 49], i `notElem` killers]

stillborn :: Backend -> Assertion
stillborn b = leavingNothing . forM_ [Retry 3, Skip, Fail] $ \p -> do
  let options = (onBackend b) {policy = p, initialise = void (c_raise 9)}
  (ys, report) <- parMapReporting options (+ 1) [1 .. 10 :: Int]
  got <- try (within 20 (evaluate (sum ys)))
  started <- reportWorkersStarted <$> report
  assertBool ("tried without a pause: " <> show started <> " workers") (started < 70)
  case got of
    Right _ -> assertFailure ("a result without a worker: " <> show ys)
    Left e -> do
      let text = displayException (e :: SomeException)
      assertBool text ("maru: " `isInfixOf` text && "signal 9" `isInfixOf` text && "before its first item" `isInfixOf` text && not ("initialise" `isInfixOf` text) && length (lines text) == 1)

initialiser :: Backend -> Assertion
initialiser b = leavingNothing $ do
  let options = (onBackend b) {initialise = throwIO (Odd 7)}
  got <- try (within 20 (parMapM options (+ 1) [1 .. 10 :: Int]))
  got @?= Left (Odd 7)

initialisedOnce :: Backend -> Assertion
initialisedOnce b = leavingNothing $ do
  count <- newIORef (0 :: Int)
  let f :: Int -> (String, Int)
      f i = effect ((\p n -> i `seq` (show p, n)) <$> getProcessID <*> readIORef count)
  seen <- within 20 (parMapM (onBackend b) {initialise = modifyIORef count (+ 1)} f [1 .. 200])
  assertBool (show seen) (all ((== 1) . snd) seen)

newtype Odd = Odd Int deriving (Eq, Show)

instance Exception Odd

data Mute = Mute deriving (Eq)

instance Show Mute where show _ = errorWithoutStackTrace "no text"

instance Exception Mute

data Endless = Endless deriving (Eq)

instance Show Endless where show _ = cycle "on and on "

instance Exception Endless

throws :: Exception e => Backend -> String -> e -> (e -> Bool) -> TestTree
throws b what e right =
  testCase (what <> " in f is thrown at its element, with its type") . leavingNothing $ do
    let ys = parMapWith (onBackend b) (\i -> if i == 5 then throw e else i) [0 .. 9 :: Int]
    within 20 . forM_ (zip [0 ..] ys) $ \(i, y) -> do
      got <- try (evaluate y)
      case got of
        Right n -> (i /= 5, n) @?= (True, i)
        Left x -> (i, fmap right (fromException x)) @?= (5, Just True)

-- | On a loaded machine any does.
newtype Late = Late String deriving (Eq, Show)

instance Exception Late

newtype Box a = Box a deriving (Show)

instance (Show a, Exception a) => Exception (Box a)

boxed :: Backend -> Assertion
boxed b = leavingNothing $ do
  got <- try (within 20 (parMapM (onBackend b) (\i -> if i == 3 then throw (Box (Odd i)) else i) [0 .. 5]))
  case got of
    Right ys -> assertFailure (show ys)
    Left e -> assertBool (show e) ("Box (Odd 3)" `isInfixOf` displayException (e :: SomeException))

data Holds = Holds String (Int -> Int)

instance Show Holds where showsPrec _ (Holds s _) = showString "Holds " . shows s

instance Exception Holds

functions :: Backend -> Assertion
functions b = leavingNothing $ do
  got <- try (within 20 (parMapM (onBackend b) (\i -> if i == 3 then throw (Holds "it" (+ i)) else i) [0 .. 5]))
  either (\r -> (remoteIndex r, remoteType r, remoteText r)) (const (0, "", "")) got @?= (3, "Holds", "Holds \"it\"")

endlessPayload, loopingPayload :: Backend -> Assertion
endlessPayload b = carried b (ErrorCall (concatMap show [1 :: Int ..]))
loopingPayload b = carried b (ErrorCall ("so far " <> effect (forever (threadDelay 10))))

-- | Nothing but that the worker goes on and the exception arrives somehow.
carried :: Exception e => Backend -> e -> Assertion
carried b e = leavingNothing $ do
  let ys = parMapTry (onBackend b) (\i -> if i == 3 then throw e else i) [0 .. 5 :: Int]
  got <- within 40 (ys <$ evaluate (length ys))
  ([failedIndex x | Left x <- got], [i | Right i <- got]) @?= ([3], [0, 1, 2, 4, 5])
  case [fromException (failedCause x) | Left x <- got] of
    [Just r] -> assertBool "its text has an end" (length (remoteText r) < 1000000)
    other -> assertFailure ("not as text: " <> show (length other))

heap :: Backend -> Assertion
heap b = do
  (status, out, err) <- scene ["heap", backendName b, "+RTS", "-M200m", "-RTS"] ""
  assertBool (show (status, out, err)) $
    status == ExitSuccess && case lines out of
      [one, "Right 2", "Right 3"] -> any (`isInfixOf` one) ["heap overflow", "lost"]
      _ -> False

earlier :: Backend -> Assertion
earlier b = leavingNothing $ do
  let options = (onBackend b) {chunking = Fixed 10, workers = Workers 1}
      ys = parMapWith options (\i -> if i > 3 then endless i else i) [1 .. 10 :: Int]
  within 5 (evaluate (sum (take 3 ys))) >>= (@?= 6)

timedOut :: Backend -> (Int -> Int) -> Assertion
timedOut b f = leavingNothing . forM_ [False, True] $ \masked -> do
  start <- getMonotonicTime
  got <- timeout 300000 ((if masked then mask_ else id) (parMapM (onBackend b) f [1 .. 10]))
  end <- getMonotonicTime
  noChildren >>= assertBool "workers are left"
  assertBool (show got) (isNothing got)
  assertBool ("after " <> show (end - start) <> " s") (end - start < 3)

killed :: Backend -> Assertion
killed b = leavingNothing $ do
  ended <- newEmptyMVar
  caller <- forkIO (parMapM (onBackend b) (endless :: Int -> Int) [1 .. 10] `seq` void (parMapM (onBackend b) (endless :: Int -> Int) [1 .. 10]) `finally` putMVar ended ())
  _ <- eventually "there are workers" 5 (not <$> noChildren)
  threadDelay 100000
  within 5 (killThread caller)
  within 5 (takeMVar ended)
  noChildren >>= assertBool "workers are left"

interrupted :: Backend -> Assertion
interrupted b = leavingNothing $ do
  let ys = parMapWith (onBackend b) (pausing 50) [1 .. 20 :: Int]
  first <- timeout 120000 (evaluate (sum ys))
  first @?= Nothing
  within 20 (evaluate (sum ys)) >>= (@?= 210)

interruptedOften :: Backend -> Assertion
interruptedOften b = leavingNothing $ do
  -- A reference: the optimiser must not start the map anew in each attempt.
  result <- newIORef (parMapWith (onBackend b) (working 100) [1 .. 300])
  let persist n = timeout 1500 (readIORef result >>= evaluate . sum) >>= maybe (persist (n + 1 :: Int)) pure
  within 30 (persist 0) >>= (@?= sum [2 .. 301])

interruptedByUser :: Backend -> Assertion
interruptedByUser b = playing [] ["hang", backendName b, "loop"] $ \s -> do
  pids <- workersOf s
  assertBool "there are workers" (not (null pids))
  kill sigINT (scenePid s)
  err <- hGetContents (sceneErrors s)
  status <- within 5 (waitForProcess (sceneProcess s))
  -- As any interrupted Haskell program: ended by the signal.
  (status, err) @?= (ExitFailure (-2), "")
  void (eventually "the workers are gone" 2 (not . or <$> mapM alive pids))
