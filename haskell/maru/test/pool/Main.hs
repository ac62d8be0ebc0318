-- | Workers that stay between calls: each call is a map, whatever is sent and whatever
-- happens to them, and nothing is left.
--
-- @MARU_TEST_SCALE=n@ does n times as much.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Control.Monad.IO.Class (liftIO)
import qualified Data.ByteString.Char8 as Bytes
import Data.Char (isDigit)
import Data.Either (fromLeft)
import Data.IORef
import Data.List (isInfixOf, nub, sort)
import qualified Data.Map.Strict as Map
import Data.String (fromString)
import Effects
import Foreign.C (CInt (..))
import GHC.Clock (getMonotonicTime)
import Hedgehog (forAll, property, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru
import Maru.Internal.Cores (giveCores, idleCores, takeCores)
import Maru.Pool
import System.Environment (setEnv)
import System.Exit (ExitCode (..))
import System.IO
import System.Mem (performMajorGC)
import System.Posix.IO (closeFd, createPipe, fdToHandle)
import System.Posix.Process (exitImmediately, forkProcess, getProcessID, getProcessStatus)
import System.Posix.Signals (sigKILL, sigSTOP)
import System.Posix.Types (ProcessID)
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.Hedgehog (HedgehogTestLimit (..), testPropertyNamed)
import Tools

main :: IO ()
main = do
  setEnv "TASTY_NUM_THREADS" "1"
  -- For maps that are left to choose; before the first one.
  setEnv "MARU_TOPOLOGY" "virtual:1x4"
  _ <- parMapM (onBackend Shm) (pausing 1) [1 .. 3 :: Int]
  limit <- testLimit 60
  defaultMain . localOption limit $
    testGroup "pool" [law, sent, life, deaths, nested]

two :: Options
two = defaultOptions {workers = Workers 2}

-- | On a pool of two workers.
pooled :: e -> (Pool e -> IO r) -> IO r
pooled e act = leavingNothing (within 50 (withPool two e act))

-- | No call went another way.
allStayed :: Pool e -> Assertion
allStayed pool = do
  r <- poolReport pool
  (poolForked r, poolNotes r) @?= (0, [])

-- The law ---------------------------------------------------------------------

law :: TestTree
law =
  testGroup
    "a call is a map"
    [ localOption (HedgehogTestLimit (Just (fromIntegral (8 * scale)))) $
        testPropertyNamed "for all lists, functions and sizes of chunks, call after call" (fromString "law") lawful,
      testCase "of nothing" $ pooled () (\pool -> poolMap pool (\() x -> x + 1) [] >>= (@?= ([] :: [Int]))),
      testCase "a thousand calls" $
        pooled (7 :: Int) $ \pool -> do
          forM_ [1 .. 1000 * scale] $ \k -> poolMap pool (\e x -> e * k + x) [1 .. 5] >>= (@?= map (7 * k +) [1 .. 5])
          allStayed pool,
      testCase "many items" $
        pooled () $ \pool -> do
          poolMap pool (const (* 2)) [1 .. 100000 :: Int] >>= (@?= map (* 2) [1 .. 100000])
          poolMap pool (const (+ 1)) [1 .. 100000 :: Int] >>= (@?= map (+ 1) [1 .. 100000])
          allStayed pool,
      testCase "what the last call cost says nothing of another function: its items are spread" $
        pooled () $ \pool -> do
          _ <- poolMap pool (const (* 2)) [1 .. 100000 :: Int]
          _ <- poolMap pool (const (* 2)) [1 .. 8 :: Int]
          pids <- workersSeen pool
          length (nub pids) @?= 2
          again <- workersSeen pool
          length (nub again) @?= 2
          allStayed pool,
      testCase "nor does it of another function that lacks arguments" $
        pooled () $ \pool -> do
          quick <- evaluate (partly quickBy)
          slow <- evaluate (partly slowBy)
          replicateM_ 6 (poolMap pool quick [1, 2])
          pids <- poolMap pool slow [1, 2]
          length (nub pids) @?= 2
          allStayed pool,
      testCase "options that mean nothing are refused at once" $ do
        r <- try (withPool two {chunking = Fixed 0} () (const (pure ())))
        either (\BadOptions {} -> pure ()) (const (assertFailure "no exception")) r,
      testCase "k-means: each round sends what the last one found" kmeans,
      testCase "an exception keeps its type; the first by index is thrown; the pool goes on" $
        pooled () $ \pool -> do
          r <- try (poolMap pool (\() x -> if x > 2 then throw (IndexOutOfBounds (show x)) else x) [1 .. 6 :: Int])
          fromLeft (IndexOutOfBounds "nothing") r @?= IndexOutOfBounds "3"
          poolMap pool (\() x -> x) [1 .. 6 :: Int] >>= (@?= [1 .. 6])
          allStayed pool,
      testCase "a result that cannot cross says so" $
        pooled () $ \pool -> do
          r <- try (poolMap pool (\() x -> (+ x)) [1 :: Int]) :: IO (Either Untransferable [Int -> Int])
          either (const (pure ())) (const (assertFailure "a function crossed")) r
    ]
  where
    lawful = property $ do
      rounds <- forAll (Gen.list (Range.linear 1 4) ((,) <$> Gen.list (Range.linear 0 200) (Gen.int (Range.linear 0 999)) <*> Gen.int (Range.linear 0 50)))
      size <- forAll (Gen.element [Guided, Fixed 1, Fixed 7])
      let env = Map.fromList [(i, i * i) | i <- [0 .. 999 :: Int]]
      got <- liftIO . withPool two {chunking = size} env $ \pool ->
        forM rounds $ \(xs, k) -> poolMap pool (\e x -> (Map.lookup x e, replicate (x `mod` k') k)) xs
      got === [[(Map.lookup x env, replicate (x `mod` k') k) | x <- xs] | (xs, k) <- rounds]
    k' = 13

-- | The points never leave; the centroids do, captured by the function.
kmeans :: Assertion
kmeans = pooled (Map.fromList (zip [0 ..] chunks)) $ \pool -> do
  let go :: Int -> [Double] -> IO [Double]
      go 0 cs = pure cs
      go n cs = do
        parts <- poolMap pool (\e i -> assign cs (Map.findWithDefault [] i e)) [0 .. length chunks - 1]
        let next = update parts
        _ <- evaluate (sum next)
        go (n - 1) next
  found <- go 20 start
  found @?= iterate (\cs -> update (map (assign cs) chunks)) start !! 20
  allStayed pool
  where
    chunks = [[fromIntegral ((i * 7919) `mod` 1000) | i <- [k * 500 .. k * 500 + 499]] | k <- [0 .. 7 :: Int]] :: [[Double]]
    start = [1, 2, 3, 900]
    assign cs ps = Map.fromListWith (\(a, m) (b, n) -> (a + b, m + n)) [(nearest cs p, (p, 1 :: Int)) | p <- ps]
    nearest cs p = snd (minimum [(abs (c - p), i) | (c, i) <- zip cs [0 :: Int ..]])
    update parts = [s / fromIntegral n | (s, n) <- Map.elems (Map.unionsWith (\(a, m) (b, n) -> (a + b, m + n)) parts)]

-- What is sent -----------------------------------------------------------------

sent :: TestTree
sent =
  testGroup
    "what is sent"
    [ testCase "a partial application, a composition, an operator section" $
        pooled (5 :: Int) $ \pool -> forM_ [1, 2 :: Int] $ \n -> do
          poolMap pool (three n) [1, 2] >>= (@?= map (three n 5) [1, 2])
          poolMap pool (const ((+ n) . (* n))) [1, 2] >>= (@?= [2 * n, 3 * n])
          poolMap pool (\e g -> g e) [(+ n), (* n), subtract n] >>= (@?= [5 + n, 5 * n, 5 - n])
          allStayed pool,
      testCase "nothing is evaluated before it is sent" $
        pooled () $ \pool -> do
          let ends = [1, error "evaluated", 3] :: [Int]
              without = length (show (repeat (1 :: Int))) -- has no end
          ys <- poolMap pool (\() i -> if i == 9 then without + head ends else i) [1, 2, 3]
          ys @?= [1, 2, 3]
          zs <- poolMap pool (\() (i, _) -> i) [(1 :: Int, error "evaluated" :: Int), (2, without)]
          zs @?= [1, 2]
          allStayed pool,
      testCase "an infinite list, and one that holds itself" $
        pooled () $ \pool -> forM_ [3, 4 :: Int] $ \n -> do
          let circle = n : map (+ 1) circle
              odds = filter odd [n ..]
          poolMap pool (\() i -> circle !! i + odds !! i) [0, 5] >>= (@?= [circle !! i + odds !! i | i <- [0, 5]])
          allStayed pool,
      testCase "bytes, long integers, doubles, text, arrays of them" $
        pooled () $ \pool -> forM_ [1, 2 :: Int] $ \n -> do
          let bytes = Bytes.pack (replicate (1000 * n) 'x')
              long = 3 ^ (200 * n) :: Integer
          ys <- poolMap pool (\() (i, b) -> (Bytes.length bytes + i, Bytes.append b (Bytes.take 3 bytes), long * fromIntegral i, sqrt (fromIntegral i) :: Double)) [(i, Bytes.pack (show i)) | i <- [1 .. 50]]
          ys @?= [(1000 * n + i, Bytes.pack (show i <> "xxx"), long * fromIntegral i, sqrt (fromIntegral i)) | i <- [1 .. 50]]
          allStayed pool,
      testCase "what means nothing there is forked for, and the report says so" $
        pooled () $ \pool -> do
          cell <- newIORef (5 :: Int)
          ys <- poolMap pool (\() i -> effect (readIORef cell) + i) [1, 2, 3]
          ys @?= [6, 7, 8]
          r <- poolReport pool
          assertBool (show r) (poolForked r == 3 && any ("an IORef" `isInfixOf`) (poolNotes r))
          poolMap pool (\() i -> i) [1, 2, 3 :: Int] >>= (@?= [1, 2, 3])
          poolReport pool >>= (@?= 1) . poolCalls,
      testCase "so is what is too large" $
        pooled () $ \pool -> do
          _ <- workersSeen pool
          one <- subtract 1 . length <$> children
          let large = [one .. 2000000 :: Int]
          _ <- evaluate (sum large)
          poolMap pool (\() i -> large !! i) [0, 1] >>= (@?= [1, 2])
          r <- poolReport pool
          assertBool (show r) (poolForked r == 2 && any ("16 MiB" `isInfixOf`) (poolNotes r)),
      testCase "a constant of the program is there, whatever its worker has collected" $
        pooled () $ \pool -> do
          _ <- evaluate (Map.size constant)
          first <- workersSeen pool
          poolMap pool (\() i -> collecting i) [1 .. 8] >>= (@?= [1 .. 8])
          forM_ [1 .. 20 :: Int] $ \k -> poolMap pool (\() i -> Map.lookup (i + k) constant) [1 .. 8] >>= (@?= [Just (show (i + k)) | i <- [1 .. 8]])
          later <- workersSeen pool
          assertBool "workers that have collected everything stayed" (not (any (`elem` first) later))
          performMajorGC
    ]

-- | Who does the items of a call that both take part in.
-- | An application that lacks arguments, if the function takes more than one.
partly :: (Int -> r) -> r
partly f = f 1
{-# NOINLINE partly #-}

quickBy, slowBy :: Int -> () -> Int -> Int
quickBy k _ i = i + k
slowBy k _ i = pausing 200 (slowPid i) + 0 * k
{-# NOINLINE quickBy #-}
{-# NOINLINE slowBy #-}

workersSeen :: Pool e -> IO [Int]
workersSeen pool = poolMap pool (\_ i -> slowPid i) [1 .. 8]

-- Life and death ----------------------------------------------------------------

life :: TestTree
life =
  testGroup
    "life"
    [ testCase "workers stay between calls, and are gone at the end" $ do
        pooled () $ \pool -> do
          a <- workersSeen pool
          b <- workersSeen pool
          assertBool (show (a, b)) (all (`elem` a) b)
          allStayed pool
          cs <- children
          length cs @?= 2
        children >>= (@?= []),
      testCase "also when the scope ends by an exception" $ do
        r <- try (leavingNothing (withPool two () (\pool -> workersSeen pool >> throwIO (userError "out"))))
        either (const (pure ())) (\() -> assertFailure "no exception") (r :: Either IOException ())
        children >>= (@?= []),
      testCase "an exception thrown at the caller ends the workers; the next call has others" $
        pooled () $ \pool -> do
          r <- timeout 200000 (poolMap pool (\() i -> if i == 2 then endless i else i :: Int) [1, 2, 3])
          r @?= Nothing
          children >>= (@?= [])
          poolMap pool (\() i -> i + 1) [1, 2, 3 :: Int] >>= (@?= [2, 3, 4]),
      testCase "without calls they leave, and come back" $
        leavingNothing . withPool two {idleSeconds = 1} () $ \pool -> do
          poolMap pool (\() i -> i + 1) [1, 2, 3 :: Int] >>= (@?= [2, 3, 4])
          _ <- eventually "they have left, and no zombie stays" 20 (null <$> children)
          poolMap pool (\() i -> i + 1) [1, 2, 3 :: Int] >>= (@?= [2, 3, 4])
          allStayed pool,
      testCase "an idle time of more than any clock" $
        leavingNothing . withPool two {idleSeconds = 1e300} () $ \pool -> do
          first <- poolMap pool (\() i -> i + 1) [1, 2, 3 :: Int] >> children
          threadDelay 200000
          poolMap pool (\() i -> i + 1) [1, 2, 3 :: Int] >>= (@?= [2, 3, 4])
          children >>= (@?= first)
          allStayed pool,
      testCase "a worker stays while there are calls, whichever does them" $
        leavingNothing . withPool two {workers = Workers 6, idleSeconds = 1} () $ \pool -> do
          first <- workersSeen pool >> children
          began <- getMonotonicTime
          times <- forM [1 .. 10 :: Int] $ \k -> do
            threadDelay 250000
            poolMap pool (\() i -> i + 1) [k] >>= (@?= [k + 1])
            getMonotonicTime
          now <- children
          -- Where this process was kept from calling for long they have left rightly.
          when (maximum (zipWith (-) times (began : times)) < 0.9) $ now @?= first,
      testCase "the scope ends while another thread's call runs: it goes on with forks" $ do
        begun <- newEmptyMVar
        result <- newEmptyMVar
        ended <- timeout (20000000 * fromIntegral scale) . withPool two () $ \pool -> do
          caller <- forkIO (try (poolMap pool (\() i -> endless i :: Int) [1, 2]) >>= putMVar result)
          _ <- eventually "its workers are born" 20 ((== 2) . length <$> children)
          putMVar begun (caller, pool)
        maybe (assertFailure "it was waited for") pure ended
        (caller, pool) <- takeMVar begun
        _ <- eventually "it goes on" 20 (any ("scope" `isInfixOf`) . poolNotes <$> poolReport pool)
        leavingNothing $ do
          killThread caller
          got <- within 20 (takeMVar result)
          either (@?= ThreadKilled) (assertFailure . show) got,
      testCase "an initialiser that makes a major collection is named" $
        leavingNothing . withPool two {initialise = performMajorGC} () $ \pool -> do
          poolMap pool (\() i -> i + 1) [1, 2, 3 :: Int] >>= (@?= [2, 3, 4])
          r <- poolReport pool
          assertBool (show r) (poolForked r == 3 && any ("its initialiser made a major collection" `isInfixOf`) (poolNotes r)),
      testCase "idle, they use next to no processor time" $
        pooled () $ \pool -> do
          _ <- workersSeen pool
          cs <- children
          threadDelay 200000
          before <- ticks cs
          threadDelay 2000000
          spent <- subtract before <$> ticks cs
          assertBool (show spent) (spent <= 20),
      testCase "calls of several threads follow each other" $
        pooled () $ \pool -> do
          done <- forM [1 .. 6 :: Int] $ \k -> do
            v <- newEmptyMVar
            _ <- forkIO (replicateM 20 (poolMap pool (\() i -> i * k) [1 .. 4]) >>= putMVar v)
            pure (k, v)
          forM_ done $ \(k, v) -> takeMVar v >>= (@?= replicate 20 (map (* k) [1 .. 4])),
      testCase "what other threads evaluate meanwhile is sent before or after" $
        pooled () $ \pool -> forM_ [1 .. 100 * scale] $ \k -> do
          let parts = [sum [k .. k + j] | j <- [1 .. 300]]
          _ <- forkIO (void (evaluate (sum parts)))
          poolMap pool (\() (i, x) -> i + x) (zip [1 ..] parts) >>= (@?= zipWith (+) [1 ..] parts),
      testCase "a call in a worker, and after the end, is a map on forks" $ do
        pool <- pooled () $ \pool -> do
          ys <- poolMap pool (\() i -> sum (effect (poolMap pool (\() j -> i * j) [1 .. 3]))) [1, 2 :: Int]
          ys @?= [6, 12]
          pool <$ (poolMap pool (\() i -> i) [1 :: Int] >>= (@?= [1]))
        leavingNothing (poolMap pool (\() i -> i + 1) [1, 2 :: Int]) >>= (@?= [2, 3])
        r <- poolReport pool
        assertBool (show r) (any ("ended" `isInfixOf`) (poolNotes r)),
      testCase "the initialiser runs in each worker, once" $
        leavingNothing . withPool two {initialise = modifyIORef' started (+ 1)} () $ \pool -> do
          ys <- forM [1 .. 5 :: Int] $ \_ -> poolMap pool (\() i -> runsOf i) [1 .. 8]
          concat ys @?= replicate 40 1
          readIORef started >>= (@?= 0)
    ]

-- | Processor time of these, in hundredths of a second.
ticks :: [ProcessID] -> IO Int
ticks pids = sum <$> forM pids (\p -> sum . map read . take 2 . drop 11 . words . drop 2 . dropWhile (/= ')') <$> readFile ("/proc/" <> filter isDigit (show p) <> "/stat"))

deaths :: TestTree
deaths =
  testGroup
    "deaths"
    $ [ testCase "workers are killed during a call: the result is that of map" $
          pooled () $ \pool -> forM_ [1 .. 5 * scale] $ \_ -> do
            killer <- forkIO (threadDelay 30000 >> children >>= mapM_ (kill sigKILL) . take 1)
            ys <- poolMap pool (\() i -> pausing 10 i + 1) [1 .. 12 :: Int]
            killThread killer
            ys @?= [2 .. 13]
            recovered pool,
        testCase "all are killed between two calls" $
          pooled () $ \pool -> forM_ [1 .. 5 * scale] $ \_ -> do
            them <- children
            mapM_ (kill sigKILL) them
            -- Until then one may still claim a chunk.
            _ <- eventually "they are dead" 20 (null <$> filterM alive them)
            poolMap pool (\() i -> i + 1) [1 .. 6 :: Int] >>= (@?= [2 .. 7])
            allStayed pool,
        testCase "one is stopped, then killed" $
          pooled () $ \pool -> do
            _ <- workersSeen pool
            cs <- children
            mapM_ (kill sigSTOP) (take 1 cs)
            helper <- forkIO (threadDelay 300000 >> mapM_ (kill sigKILL) (take 1 cs))
            poolMap pool (\() i -> pausing 2 i) [1 .. 12 :: Int] >>= (@?= [1 .. 12])
            killThread helper
            mapM_ (kill sigKILL) (take 1 cs)
            recovered pool,
        testCase "an item that kills each worker fails alone, as the policy says" $
          pooled () $ \pool -> do
            r <- try (poolMap pool (\() i -> if i == 2 then dies i else i) [1, 2, 3 :: Int])
            case r of
              Left (WorkerLost {lostIndex = i}) -> i @?= 1
              Right ys -> assertFailure (show ys)
            recovered pool,
        testCase "an item that only the caller can finish is finished there" $
          pooled () $ \pool -> do
            filler <- forkIO (threadDelay 500000 >> putMVar gate 5)
            ys <- poolMap pool (const waiting) [1, 2, 3]
            ys @?= [1, 5, 3]
            killThread filler
            recovered pool,
        testCase "what an item throws on fresh forks keeps its index, maru's own types, too" . leavingNothing . within 50 $
          withPool two {workers = Workers 1} () $ \pool -> do
            filler <- forkIO (threadDelay 500000 >> putMVar gate 5)
            -- The second item ends the worker: the others are for forks.
            r <- try (poolMap pool (\() i -> if i == 4 then throw (Untransferable 0 "mine") else waiting i) [1, 2, 3, 4])
            r @?= Left (Untransferable 0 "mine")
            killThread filler,
        testCase "a worker is refused: it goes on with the other; with none there is one clear line" $
          refusing c_refuseSecond . withPool two () $ \pool -> do
            first <- forM [1 .. 3 :: Int] $ \k -> poolMap pool (\() i -> i + k) [1 .. 6] >>= (@?= map (+ k) [1 .. 6]) >> children
            map length first @?= [1, 1, 1]
            length (nub first) @?= 1
            r <- poolReport pool
            assertBool (show r) (poolCalls r == 3 && poolForked r == 0 && any ("fewer workers" `isInfixOf`) (poolNotes r))
            mapM_ (kill sigKILL) (concat (take 1 first))
            none <- try (poolMap pool (\() i -> i) [1, 2, 3 :: Int])
            either (\Unavailable {} -> pure ()) (assertFailure . show) none,
        testCase "the caller is killed: its workers end" $
          leavingNothing $ do
            (reading, writing) <- createPipe
            caller <- forkProcess $ do
              closeFd reading
              out <- fdToHandle writing
              withPool two () $ \pool -> do
                _ <- workersSeen pool
                cs <- children
                hPutStrLn out (unwords (map show cs)) >> hFlush out
                _ <- poolMap pool (\() i -> endless i :: Int) [1, 2]
                exitImmediately ExitSuccess
            closeFd writing
            input <- fdToHandle reading
            pids <- map read . words <$> hGetLine input
            length pids @?= 2
            kill sigKILL caller
            _ <- eventually "its workers have ended" 20 (not . or <$> mapM alive pids)
            _ <- getProcessStatus True False caller
            hClose input
      ]
      <> [ testCase "a worker that never gets through its start is given up" $
             refusing c_deafChild . withPool two {workers = Workers 1} () $ \pool -> do
               poolMap pool (\() i -> i + 1) [1, 2, 3 :: Int] >>= (@?= [2, 3, 4])
               r <- poolReport pool
               assertBool (show r) (any ("did not get through its start" `isInfixOf`) (poolNotes r))
               recovered pool
           | scale > 1 -- ten seconds
         ]
      <> [ testCase "beside another, the other one goes on" $
             refusing c_deafChild . withPool two () $ \pool -> do
               poolMap pool (\() i -> pausing 500 i) [1 .. 26 :: Int] >>= (@?= [1 .. 26])
               r <- poolReport pool
               assertBool (show r) (poolForked r == 0 && any ("did not get through its start" `isInfixOf`) (poolNotes r))
               recovered pool
           | scale > 1 -- ten seconds, too
         ]

-- | Its workers do the next call.
recovered :: Pool e -> Assertion
recovered pool = do
  before <- poolCalls <$> poolReport pool
  poolMap pool (\_ i -> i + 1) [1 .. 6 :: Int] >>= (@?= [2 .. 7])
  poolReport pool >>= (@?= before + 1) . poolCalls

-- | In a process of its own, which is then refused what the C function says.
refusing :: IO CInt -> IO () -> Assertion
refusing refuse act = leavingNothing $ do
  child <- forkProcess $ do
    r <- refuse >>= \code -> try ((code @?= 0) >> within 50 act)
    either (\e -> hPutStrLn stderr (displayException (e :: SomeException)) >> exitImmediately (ExitFailure 1)) pure r
    exitImmediately ExitSuccess
  getProcessStatus True False child >>= (@?= Just "Exited ExitSuccess") . fmap show

foreign import ccall safe "faults_refuse_second" c_refuseSecond :: IO CInt

foreign import ccall safe "faults_deaf_child" c_deafChild :: IO CInt

-- Maps inside maps ----------------------------------------------------------------

-- | Four cores, whatever the machine has.
nested :: TestTree
nested =
  testGroup
    "maps inside workers share the machine"
    [ testCase "an inner map takes the cores that fall idle" $
        leavingNothing $ do
          ys <- within 50 (parMapM free (\i -> if i == 1 then innerPids 60 else [0]) [1 .. 4 :: Int])
          let pids = nub (concat (take 1 ys))
          map length ys @?= [60, 1, 1, 1]
          assertBool (show (length pids)) (length pids > 1 && length pids <= 4)
          allFree,
      testCase "an inner pool that is left to choose takes no core that is taken" $
        leavingNothing $ do
          ys <- within 50 (parMapM free (\i -> if i == 1 then pausing 200 poolPids else pausing 1200 [0]) [1 .. 4 :: Int])
          map (length . nub) ys @?= [1, 1, 1, 1]
          allFree,
      testCase "there are never more workers than cores, beside those that wait for theirs" $
        leavingNothing $ do
          -- By their items: a worker that has found nothing left is a process still, for a moment.
          stretches <- within 50 (parMapM free (\i -> inner stretch [20 * i + 1 .. 20 * i + 20]) [1 .. 12 :: Int])
          map length stretches @?= replicate 12 20
          let n = mostAtOnce (concat stretches)
          assertBool (show n) (n > 1 && n <= 4)
          allFree,
      testCase "whoever of them is killed, the result is that of map and no core is lost" $
        leavingNothing . forM_ [1 .. 3 * scale] $ \k -> do
          self <- getProcessID
          killer <- forkIO . forM_ [1 .. 4 :: Int] $ \j -> do
            threadDelay (17000 * k + 13000 * j)
            them <- descendants self
            mapM_ (kill sigKILL) (take 1 (drop ((7 * k + 3 * j) `mod` max 1 (length them)) them))
          ys <- within 50 (parMapM free {policy = Retry 20} (\i -> sum (map (const i) (innerPids 20))) [1 .. 8 :: Int])
          killThread killer
          ys @?= map (* 20) [1 .. 8]
          allFree
    ]
  where
    free = defaultOptions {backend = Shm}

-- | The processes that do so many items of 10 ms in a map that is left to choose.
innerPids :: Int -> [Int]
innerPids n = inner pidLater [1 .. n]

-- | A map that is left to choose.
inner :: (Int -> a) -> [Int] -> [a]
inner = parMapWith defaultOptions {backend = Shm, policy = Retry 20}

-- | Of stretches from one time to another: how many there are at one time.
mostAtOnce :: [(Int, Int)] -> Int
mostAtOnce them = maximum (scanl (+) 0 (map snd (sort ([(end, -1) | (_, end) <- them] <> [(begin, 1) | (begin, _) <- them]))))

-- | The processes that do the items of a call on a pool that is left to choose.
poolPids :: [Int]
poolPids = effect (withPool defaultOptions () workersSeen)
{-# NOINLINE poolPids #-}

-- | No process holds any of the four.
allFree :: Assertion
allFree = do
  _ <- eventually "the killed ones' workers have ended" 20 ((== Just 4) <$> idleCores)
  cores <- takeCores 9
  giveCores cores
  length cores @?= 4

-- | Of that process, dead ones excepted.
descendants :: ProcessID -> IO [ProcessID]
descendants pid = do
  own <- childrenOf pid >>= filterM alive
  (own <>) . concat <$> mapM descendants own
