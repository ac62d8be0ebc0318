{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Items that cannot be finished where they were begun, and items that only look
-- like it. Most of them have a catch-all around them: what a map throws into one
-- becomes its value.
module Stuck (tests) where

import Control.Concurrent
import Control.Concurrent.STM
import Control.Exception
import Control.Monad
import Data.IORef
import Data.List (isInfixOf)
import Foreign (FunPtr, Ptr, StablePtr, Word8, alloca, deRefStablePtr, finalizerFree, newStablePtr, nullFunPtr, peek, poke)
import Foreign.C (CInt (..), CSize (..), CUInt (..))
import GHC.Conc (par, pseq)
import Maru
import System.Exit (ExitCode (..))
import System.IO
import System.Mem (performMajorGC, performMinorGC)
import System.Mem.StableName (StableName, makeStableName)
import System.Mem.Weak (Weak)
import System.Posix.IO (closeFd, createPipe, fdToHandle, fdWrite)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigCONT, sigINT, sigKILL, sigSTOP)
import System.Posix.Types (Fd (..))
import System.Process (CreateProcess (std_in, std_out), StdStream (CreatePipe), createProcess, shell, waitForProcess)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Tools

{- HLINT ignore "Evaluate" -}
-- the signature chooses the exception

foreign import ccall safe "usleep" c_sleep :: CUInt -> IO CInt

foreign import ccall unsafe "raise" c_raise :: CInt -> IO CInt

foreign import ccall unsafe "read" c_readUnsafe :: CInt -> Ptr Word8 -> CSize -> IO CInt

foreign import ccall safe "read" c_readSafe :: CInt -> Ptr Word8 -> CSize -> IO CInt

foreign import ccall unsafe "write" c_write :: CInt -> Ptr Word8 -> CSize -> IO CInt

foreign import ccall unsafe "faults_refuse_threads" c_refuseThreads :: IO CInt

foreign import ccall unsafe "faults_thread_local" c_threadLocal :: CInt -> CInt

foreign import ccall "wrapper" c_wrap :: (CInt -> CInt) -> IO (FunPtr (CInt -> CInt))

tests :: Backend -> TestTree
tests b =
  testGroup
    "items that are stuck, or seem to be"
    [ testGroup
        "what only the caller has is evaluated there, and nothing is thrown into f"
        [ testCase "a value that a thread of the caller computes in a foreign call" $ computed b,
          testGroup
            "under a deadline, a value of which a thread of the caller"
            [ testCase what (underDeadline b waiting)
              | (what, waiting) <-
                  [ ("sleeps", threadDelay 800000),
                    ("is in a foreign call", void (c_sleep 800000)),
                    ("waits for another thread", void (viaThread (threadDelay 800000) ())),
                    ("waits in a transaction", after 800000 >>= \v -> atomically (readTVar v >>= check)),
                    ("sleeps in a masked state", mask_ (threadDelay 800000)),
                    ("has a deep stack", void (evaluate (foldr (+) (effect (threadDelay 800000 >> pure 0)) [1 .. 300000 :: Int])))
                  ]
            ],
          testCase "variables that threads of the caller wait for, and values that these compute" $ awaited b,
          testCase "a variable that a thread of the caller fills" $ filled b,
          testCase "a Handle of the caller, its lines read ahead" $ readAhead b,
          testCase "a Handle of the caller, under timeout" $ patient b,
          testCase "an inherited pipe, by an unsafe foreign read" $ foreignRead b c_readUnsafe,
          testCase "an inherited pipe, by a safe foreign read" $ foreignRead b c_readSafe,
          testCase "an inherited pipe, written by a foreign call" $ foreignWrite b,
          testCase "an earlier result of the same map" $ earlier b
        ],
      testGroup
        "what a worker can finish by itself stays in it"
        [ own b "sparks" sparks (Just . sparked),
          own b "a timer" (\i -> timeout 250000 (newEmptyMVar >>= takeMVar) >>= \r -> pure (i <$ r)) (const Nothing),
          own b "many short sleeps" (\i -> Just i <$ replicateM_ 1000 (threadDelay 1000)) Just,
          own b "a thread that sleeps" (viaThread (threadDelay 300000)) Just,
          own b "a thread in a foreign call" (viaThread (void (c_sleep 300000))) Just,
          own b "a transaction with a timer" (\i -> after 300000 >>= \v -> atomically (readTVar v >>= check) >> pure (Just i)) Just,
          own b "a pipe of its own" ownPipe Just,
          own b "exceptions thrown to itself, masked" (\i -> Just i <$ mask (\restore -> (myThreadId >>= killThread >> restore (pure ())) `catch` \e -> const (pure ()) (e :: AsyncException))) Just
        ],
      testGroup
        "a loop and a deadlock end as with map"
        [testCase (unwords [what, threads]) (asWithMap b what threads) | what <- ["loop", "mvar", "stm", "caught"], threads <- if rtsSupportsBoundThreads then ["-N1", "-N2"] else [""]],
      testCase "an item that kills its process beside a spark never reaches the caller" $ fatal b,
      testCase "many sealed items among others, in every order" $ mixed b,
      testCase "a program with 300 000 bytes of thread-local data" . leavingNothing $
        within 20 (parMapM (onBackend b) (\i -> i + 0 * c_threadLocal i) [1 .. 20]) >>= (@?= [1 .. 20]),
      testCase "an item that the system refuses a thread is not to blame: the caller evaluates it" $ threadless b,
      testCase "what the caller's sparks wait for is no item's fault" $ foreignSparks b,
      testGroup
        "an initialiser"
        [ testCase "that needs what a thread of the caller computes: tried again until that is there" $ owing b,
          testCase "a thread of which needs what a thread of the caller computes, when it has returned" $ owingLater b,
          testCase "that waits for ever fails the map with one clear line" $ owingForEver b
        ],
      testCase "an initialiser may close a Handle of the caller" $ closing b,
      testCase "what an initialiser opened may take its time to answer" $ answering b,
      testCase "what has no meaning in another process is Untransferable" $ untransferable b,
      testCase "a coordinator that is killed takes its stopped workers with it" $ stopped b,
      testCase "SIGINT to workers just forked never reaches the coordinator" $ interruptedYoung b
    ]

closing :: Backend -> Assertion
closing b = leavingNothing . withNumbers 3 $ \h ->
  within 30 (parMapM (onBackend b) {initialise = hClose h} (+ 1) [1 .. 4 :: Int]) >>= (@?= [2 .. 5])

-- | A helper process for each worker, slower than a look at what the worker waits for.
answering :: Backend -> Assertion
answering b = leavingNothing $ do
  helper <- newIORef Nothing
  let start = do
        (asked, told, _, _) <- createProcess (shell "while read x; do sleep 0.7; echo $x; done") {std_in = CreatePipe, std_out = CreatePipe}
        writeIORef helper ((,) <$> asked <*> told)
      ask i = effect $ readIORef helper >>= maybe (fail "no helper") (\(asked, told) -> hPrint asked i >> hFlush asked >> read <$> hGetLine told)
  (ys, inCaller, _) <- reported (onBackend b) {initialise = start, workers = Workers 2} ask [1 .. 4 :: Int]
  (ys, inCaller) @?= ([1 .. 4 :: Int], 0)

-- | With a catch-all around it.
caught :: IO a -> Maybe a
caught act = effect ((Just <$> act) `catch` \e -> const (pure Nothing) (e :: SomeException))
{-# NOINLINE caught #-}

-- | The results, how many items the caller evaluated, how many workers there were.
reported :: Options -> (a -> b) -> [a] -> IO ([b], Int, Int)
reported options f xs = do
  (ys, rep) <- parMapReporting options f xs
  _ <- within 60 (evaluate (length (map (`seq` ()) ys) `seq` foldr seq () ys))
  (\r -> (ys, reportInCaller r, reportWorkersStarted r)) <$> rep

computed :: Backend -> Assertion
computed b = leavingNothing $ do
  begun <- newEmptyMVar
  let slow = effect (tryPutMVar begun () >> c_sleep 800000 >> pure (7 :: Int))
  _ <- forkIO (void (evaluate slow))
  takeMVar begun
  within 20 (parMapM (onBackend b) (\x -> caught (evaluate (x + 1))) [1, slow, 3]) >>= (@?= [Just 2, Just 8, Just 4])

-- | The deadline is longer than the test: the item may not wait for it.
underDeadline :: Backend -> IO () -> Assertion
underDeadline b waiting = leavingNothing $ do
  caller <- fromIntegral <$> getProcessID
  begun <- newEmptyMVar
  let slow = effect (tryPutMVar begun () >> waiting >> (fromIntegral <$> getProcessID)) :: Int
      f x = caught (timeout 60000000 (evaluate (x + 1)))
  _ <- forkIO (void (evaluate slow))
  takeMVar begun
  threadDelay 100000
  ys <- within 20 (parMapM (onBackend b) {chunking = Fixed 1} f [1, slow, 3])
  -- By the caller, as begun there.
  ys @?= map (Just . Just) [2, caller + 1, 4]

-- | In a worker it needs threads that the system refuses.
threadless :: Backend -> Assertion
threadless b = leavingNothing . when rtsSupportsBoundThreads $ do
  caller <- getProcessID
  let crowd i = effect $ do
        here <- getProcessID
        when (i == 3 && here /= caller) $ c_refuseThreads >>= \r -> when (r /= 0) (fail "the test cannot refuse threads")
        marks <- replicateM 12 newEmptyMVar
        forM_ marks $ \mark -> forkIO (c_sleep 100000 >> putMVar mark (1 :: Int))
        (+ i) . sum <$> mapM takeMVar marks
  forM_ [Fail, Skip] $ \p -> do
    (ys, inCaller, _) <- reported (onBackend b) {policy = p, chunking = Fixed 1} crowd [1 .. 6]
    (ys, inCaller) @?= ([13 .. 18], 1)

-- | The caller's capabilities are busy: what it has sparked waits there at the fork. A
-- worker would be busy with that for seconds, and come to what it may not have.
foreignSparks :: Backend -> Assertion
foreignSparks b = leavingNothing . when rtsSupportsBoundThreads $ do
  let slow = effect (c_sleep 3000000 >> pure (7 :: Int))
      sparked' = [if working 1000 i == 0 then i else slow + i | i <- [1 .. 2000]]
  _ <- forkIO (void (evaluate slow))
  busy <- forM [0, 1, 0, 1] (`forkOn` forever (evaluate (sum [1 .. 100000 :: Int])))
  threadDelay 100000
  marks <- forM [0, 1] $ \capability -> do
    mark <- newEmptyMVar
    mark <$ forkOn capability (forM_ sparked' (\x -> evaluate (x `par` ())) >> putMVar mark ())
  mapM_ takeMVar marks
  (ys, inCaller, started) <- reported (onBackend b) {workers = Workers 2, chunking = Fixed 1, policy = Fail} (\i -> effect (i <$ c_sleep 300000)) [1 .. 4 :: Int]
  mapM_ killThread busy
  (ys, inCaller, started) @?= ([1 .. 4], 0, 2)
  last sparked' @?= 2007

owing :: Backend -> Assertion
owing b = leavingNothing $ do
  let slow = effect (c_sleep 1500000 >> pure (7 :: Int))
  _ <- forkIO (void (evaluate slow))
  threadDelay 100000
  (ys, inCaller, started) <- reported (onBackend b) {initialise = void (evaluate slow)} (working 1) [1 .. 4]
  (ys, inCaller) @?= ([2 .. 5], 0)
  assertBool ("workers: " <> show started) (started < 60)

-- | Each item waits for that thread, for longer than the test.
owingLater :: Backend -> Assertion
owingLater b = leavingNothing $ do
  box <- newEmptyMVar
  let slow = effect (threadDelay 1500000 >> pure (7 :: Int))
      start = void (forkIO (threadDelay 20000 >> evaluate slow >>= putMVar box))
      f i = effect (fmap (+ i) <$> timeout 60000000 (readMVar box))
  _ <- forkIO (void (evaluate slow))
  threadDelay 100000
  (ys, inCaller, _) <- reported (onBackend b) {initialise = start} f [1 .. 4]
  (ys, inCaller) @?= (map Just [8 .. 11], 0)

owingForEver :: Backend -> Assertion
owingForEver b = leavingNothing $ do
  box <- newEmptyMVar
  let never = effect (takeMVar box) :: Int
  waiting <- forkIO (void (evaluate never))
  threadDelay 100000
  -- Five seconds each.
  forM_ ([void (evaluate never) | scale > 1] <> [void (readMVar box)]) $ \action -> do
    got <- try (within 30 (parMapM (onBackend b) {initialise = action} (working 1) [1 .. 4]))
    case got of
      Right ys -> assertFailure ("without its initialiser: " <> show ys)
      Left e -> do
        let text = displayException (e :: Unavailable)
        assertBool text ("maru: " `isInfixOf` text && "`initialise`" `isInfixOf` text && "in a worker" `isInfixOf` text && length (lines text) == 1)
  killThread waiting

-- | A worker may use its copies of them: no thread of the caller takes what it puts.
awaited :: Backend -> Assertion
awaited b = leavingNothing $ do
  boxes <- replicateM 10 newEmptyMVar
  shared <- newTVarIO (0 :: Int)
  forM_ boxes $ \box -> mapM_ (forkIO . void) [takeMVar box, readMVar box, takeMVar box]
  let positive = effect (atomically (readTVar shared >>= \n -> n <$ check (n > 0)))
  _ <- forkIO (void (evaluate positive))
  threadDelay 100000
  performMajorGC
  let f i = effect $ do
        forM_ boxes (`putMVar` i)
        performMinorGC
        ns <- mapM takeMVar boxes
        atomically (writeTVar shared i)
        _ <- forkIO (mapM_ (`putMVar` i) (reverse boxes))
        ms <- mapM takeMVar boxes
        performMajorGC
        pure (sum ns + sum ms)
  (ys, inCaller, _) <- reported (onBackend b) {workers = Workers 2} f [1 .. 10]
  (ys, inCaller) @?= (map (20 *) [1 .. 10], 0)
  -- It is the caller's to compute.
  _ <- forkIO (threadDelay 500000 >> atomically (writeTVar shared 5))
  within 20 (parMapM (onBackend b) (+ positive) [1, 2]) >>= (@?= [6, 7])
  forM_ boxes (replicateM_ 2 . (`putMVar` 0))

filled :: Backend -> Assertion
filled b = leavingNothing $ do
  box <- newEmptyMVar
  _ <- forkIO (threadDelay 700000 >> putMVar box (41 :: Int))
  ys <- within 20 (parMapM (onBackend b) (\i -> caught (if i == 3 then (+ 1) <$> readMVar box else pure i)) [1 .. 6])
  ys @?= map Just [1, 2, 42, 4, 5, 6]

withNumbers :: Int -> (Handle -> IO a) -> IO a
withNumbers n use = do
  (reading, writing) <- createPipe
  out <- fdToHandle writing
  hPutStr out (unlines (map show [1 .. n])) >> hClose out
  h <- fdToHandle reading
  use h `finally` hClose h

readAhead :: Backend -> Assertion
readAhead b = leavingNothing . withNumbers 20 $ \h -> do
  hGetLine h >>= (@?= "1")
  ys <- within 60 (parMapM (onBackend b) (\i -> caught (if even i then hGetLine h else pure (show i))) [1 .. 8 :: Int])
  ys @?= map Just ["1", "2", "3", "3", "5", "4", "7", "5"]
  hGetLine h >>= (@?= "6")

patient :: Backend -> Assertion
patient b = leavingNothing . withNumbers 20 $ \h -> do
  ys <- within 60 (parMapM (onBackend b) (\i -> i `seq` caught (timeout 5000000 (hGetLine h))) [1 .. 2 :: Int])
  ys @?= map (Just . Just) ["1", "2"]

foreignRead :: Backend -> (CInt -> Ptr Word8 -> CSize -> IO CInt) -> Assertion
foreignRead b readFrom = leavingNothing $ do
  (reading, writing) <- createPipe
  _ <- fdWrite writing "abcd" <* closeFd writing
  let f i = effect . alloca $ \p -> do
        poke p 0
        r <- if even i then readFrom (fromIntegral reading) p 1 else pure 0
        (,) r <$> peek p
  ys <- within 60 (parMapM (onBackend b) {workers = Workers 2} f [1 .. 6 :: Int])
  ys @?= [(0, 0), (1, 97), (0, 0), (1, 98), (0, 0), (1, 99)]
  closeFd reading

foreignWrite :: Backend -> Assertion
foreignWrite b = leavingNothing $ do
  (reading, writing) <- createPipe
  let Fd fd = writing
      f i = effect . alloca $ \p -> poke p (96 + fromIntegral i) >> c_write fd p 1
  ys <- within 60 (parMapM (onBackend b) {workers = Workers 2} f [1 .. 3 :: Int])
  ys @?= [1, 1, 1]
  closeFd writing
  h <- fdToHandle reading
  hGetContents h >>= (@?= "abc")

earlier :: Backend -> Assertion
earlier b = leavingNothing $ do
  let ys = parMapWith (onBackend b) (\i -> if i == 0 then Just 1 else caught (evaluate (maybe 0 (* 2) (ys !! (i - 1))))) [0 .. 6 :: Int] :: [Maybe Integer]
  within 60 (evaluate (ys !! 6)) >>= (@?= Just 64)

own :: Backend -> String -> (Int -> IO (Maybe Int)) -> (Int -> Maybe Int) -> TestTree
own b what f right = testCase what . leavingNothing $ do
  let options = (onBackend b) {workers = Workers 2, chunking = Fixed 1, policy = Fail}
  (ys, here, started) <- reported options (caught . f) [1 .. 4]
  ys @?= map (Just . right) [1 .. 4]
  -- One may do all of them; a third would have replaced one of two.
  assertBool (show (here, started)) (here == 0 && started <= 2)

-- | A variable that a timer sets, or a thread where there are no timers.
after :: Int -> IO (TVar Bool)
after micros
  | rtsSupportsBoundThreads = registerDelay micros
  | otherwise = newTVarIO False >>= \v -> v <$ forkIO (threadDelay micros >> atomically (writeTVar v True))

sparked :: Int -> Int
sparked i = i + 2 + i + 1

-- | One of the two parts is evaluated by another capability while this thread
-- waits for it.
sparks :: Int -> IO (Maybe Int)
sparks i =
  let x = working 40000 (i + 1)
      y = working 400 i
   in Just <$> evaluate (x `par` (y `pseq` (x + y)))

viaThread :: IO () -> a -> IO (Maybe a)
viaThread takesLong i = do
  box <- newEmptyMVar
  _ <- forkIO (takesLong >> putMVar box i)
  Just <$> takeMVar box

ownPipe :: Int -> IO (Maybe Int)
ownPipe i = do
  (reading, writing) <- createPipe
  h <- fdToHandle reading
  _ <- forkIO (threadDelay 300000 >> void (fdWrite writing (show i <> "\n")) >> closeFd writing)
  line <- hGetLine h
  Just (read line) <$ hClose h

-- | In a program of its own, with nobody who could interrupt it.
asWithMap :: Backend -> String -> String -> Assertion
asWithMap b what threads = do
  (_, expected, _) <- scene (["deadlock", "sequential", what] <> options) ""
  (status, out, err) <- scene (["deadlock", backendName b, what] <> options) ""
  (status, out, err) @?= (ExitSuccess, expected, "")
  where
    options = if null threads then [] else ["+RTS", threads, "-RTS"]

fatal :: Backend -> Assertion
fatal b = leavingNothing $ do
  let f i = effect (sparks i >>= \s -> when (i == 3) (void (c_raise 6)) >> pure s)
      options = (onBackend b) {workers = Workers 1, policy = Skip}
  ys <- within 60 (parMapM' options f [1 .. 4])
  ys @?= [Right (Just 5), Right (Just 7), Left 2, Right (Just 11)]
  where
    parMapM' options f xs = do
      let ys = parMapTry options f xs
      _ <- evaluate (length ys)
      pure (map (either (Left . failedIndex) Right) ys)

mixed :: Backend -> Assertion
mixed b = leavingNothing . withNumbers 50 $ \h -> do
  let f i = caught $ case i `mod` 5 of
        0 -> read <$> hGetLine h
        1 -> pure i
        _ -> evaluate (working 100 i - 1)
  ys <- within 120 (parMapM (onBackend b) {chunking = Fixed 3} f [0 .. 39])
  ys @?= [Just (if i `mod` 5 == 0 then i `div` 5 + 1 else i) | i <- [0 .. 39]]

untransferable :: Backend -> Assertion
untransferable b = leavingNothing $ do
  refused "a stable pointer" (newStablePtr "worker" :: IO (StablePtr String))
  refused "a foreign function" (c_wrap (+ 1))
  refused "a stable name" (makeStableName b :: IO (StableName Backend))
  refused "a weak pointer" (newIORef b >>= (`mkWeakIORef` pure ()) :: IO (Weak (IORef Backend)))
  refused "a TVar" (newTVarIO b)
  refused "an MVar" (newMVar b)
  refused "an IORef" (newIORef b)
  refused "a thread" myThreadId
  refused "a function" (pure (\x -> x + length (backendName b)))
  -- Code that both processes have.
  kept <- within 20 (parMapM (onBackend b) (\i -> if i == 1 then nullFunPtr else finalizerFree :: FunPtr (Ptr Int -> IO ())) [1, 2 :: Int])
  kept @?= [nullFunPtr, finalizerFree]
  -- The caller's own stable pointers are what they were.
  mine <- newStablePtr "caller"
  deRefStablePtr mine >>= (@?= "caller")
  where
    refused what make = do
      let ys = parMapTry (onBackend b) (\i -> if i == 2 then Just (effect (i `seq` make)) else Nothing) [1 .. 3 :: Int]
      _ <- within 20 (evaluate (length ys))
      case [failedCause e | Left e <- ys] of
        [e] | Just (Untransferable 1 text) <- fromException e -> assertBool text (what `isInfixOf` text)
        other -> assertFailure (what <> ": " <> show (length other) <> " refusals: " <> concatMap displayException other)

stopped :: Backend -> Assertion
stopped b = playing [] ["hang", backendName b, "loop"] $ \s -> do
  pids <- workersOf s
  mapM_ (kill sigSTOP) pids
  threadDelay 50000
  kill sigKILL (scenePid s)
  gone <- try (eventually "the stopped workers are gone" 2 (not . or <$> mapM alive pids))
  mapM_ (kill sigKILL) pids
  mapM_ (kill sigCONT) pids
  either (throwIO :: SomeException -> IO ()) (const (pure ())) gone

interruptedYoung :: Backend -> Assertion
interruptedYoung b = playing [] ["young", backendName b] $ \s -> do
  let strike = do
        childrenOf (scenePid s) >>= mapM_ (kill sigINT)
        strike
  striker <- forkIO strike
  status <- within 50 (waitForProcess (sceneProcess s)) `finally` killThread striker
  out <- hGetContents (sceneOutput s)
  (status, out) @?= (ExitSuccess, "right\n")
