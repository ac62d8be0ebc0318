-- | Never lose: workers are killed from outside, at random.
module Kills (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Bits (shiftL, shiftR, xor)
import Data.IORef
import Data.Maybe (isJust)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTime)
import Maru
import System.Directory (doesFileExist, removeFile)
import System.IO.Unsafe (unsafeInterleaveIO)
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Text.Read (readMaybe)
import Tools

tests :: Backend -> TestTree
tests b =
  testGroup
    "workers killed from outside"
    [ testCase "under Retry every result is right, however many workers are killed" $ retries b,
      testCase "under Retry results too large for their pages are right, however many workers are killed" $ large b,
      testCase "under Skip an element is right or a hole with its index, and there are no more holes than kills" $ skips b,
      testCase "under Fail the first loss is thrown at once and the workers are gone" $ fails b,
      testCase "two workers killed in the same instant" $ twins b,
      testCase "all workers killed in the same instant, again and again" $ massacres b,
      testCase "the death of a worker is seen within 100 ms (asserted: 2 s)" $ noticed b,
      testCase "an idle worker that is killed costs nothing" $ idlers b,
      testCase "nor do the items that it was handed and had not begun" $ handed b
    ]

-- | A seed for each run, printed where the run fails.
seeds :: Word64 -> Int -> [Word64]
seeds first n = [first + fromIntegral i | i <- [1 .. n]]

next :: Word64 -> Word64
next s0 = s3
  where
    s1 = s0 `xor` (s0 `shiftL` 13)
    s2 = s1 `xor` (s1 `shiftR` 7)
    s3 = s2 `xor` (s2 `shiftL` 17)

-- | Kills random children after random pauses while the map runs with these options; how many. No
-- more after a second without a result: a map gives up when workers are killed for three seconds
-- before they deliver, which on a loaded machine they may be all the time.
duringStorm :: Word64 -> Int -> Options -> (Options -> IO a) -> IO (a, Int)
duringStorm seed longestPause options action = do
  killed <- newIORef 0
  delivered <- getMonotonicTime >>= newIORef
  let progress _ = getMonotonicTime >>= writeIORef delivered
      fruitful = (\now at -> now - at < 1) <$> getMonotonicTime <*> readIORef delivered
      storm s = do
        threadDelay (fromIntegral (next s `mod` fromIntegral longestPause))
        go <- fruitful
        cs <- if go then children >>= filterM alive else pure []
        unless (null cs) $ do
          kill 9 (cs !! fromIntegral (next (s + 1) `mod` fromIntegral (length cs)))
          modifyIORef' killed (+ 1)
        storm (next (s + 2))
  storming <- forkIO (storm (next (seed * 2654435769 + 1)))
  result <- action options {onProgress = Just progress} `finally` killThread storming
  (,) result <$> readIORef killed

-- | Runs until so many workers were killed.
untilKilled :: Int -> Word64 -> (Word64 -> IO Int) -> Assertion
untilKilled wanted seed run = go 0 (seeds seed 1000000)
  where
    go _ [] = assertFailure "a million runs without enough kills"
    go n (s : rest) = when (n < wanted) $ do
      k <- run s `catch` \e -> assertFailure ("seed " <> show s <> ": " <> show (e :: SomeException))
      go (n + k) rest

retries :: Backend -> Assertion
retries b = untilKilled (100 * scale) 1 $ \seed -> leavingNothing $ do
  let options = (onBackend b) {policy = Retry 1000, workers = Workers 4}
  (ys, k) <- duringStorm seed 4000 options $ \o -> within 60 (parMapM o (working 300) [1 .. 300])
  k <$ (ys @?= [2 .. 301])

large :: Backend -> Assertion
large b = untilKilled (20 * scale) 1000 $ \seed -> leavingNothing $ do
  let options = (onBackend b) {policy = Retry 1000, regionMiB = 1}
      f i = [working 100 i .. i + 20000]
  (sizes, k) <- duringStorm seed 20000 options $ \o -> within 60 (map (\xs -> (take 1 xs, length xs)) <$> parMapM o f [1 .. 60])
  k <$ (sizes @?= [([i + 1], 20000) | i <- [1 .. 60]])

skips :: Backend -> Assertion
skips b = untilKilled (60 * scale) 2000 $ \seed -> leavingNothing $ do
  let options = (onBackend b) {policy = Skip, workers = Workers 4}
      run o = within 60 $ do
        let ys = parMapTry o (working 300) [1 .. 300]
        ys <$ evaluate (length [() | Right n <- ys, n > 0])
  (ys, k) <- duringStorm seed 5000 options run
  length ys @?= 300
  holes <- fmap concat . forM (zip [0 ..] ys) $ \(i, y) -> case y of
    Right n -> [] <$ (n @?= i + 2)
    Left failed -> do
      failedIndex failed @?= i
      case fromException (failedCause failed) of
        Just lost -> [i] <$ ((lostIndex lost, lostDeath lost) @?= (i, Killed 9))
        Nothing -> assertFailure ("not a lost worker: " <> show failed)
  assertBool (show (length holes) <> " holes, " <> show k <> " kills") (length holes <= k)
  pure k

fails :: Backend -> Assertion
fails b = untilKilled (20 * scale) 3000 $ \seed -> leavingNothing $ do
  let options = (onBackend b) {policy = Fail}
  (got, k) <- duringStorm seed 10000 options $ \o -> try (within 60 (parMapM o (working 300) [1 .. 300]))
  -- The scope has ended: at once means now.
  noChildren >>= assertBool "workers are left"
  case got of
    Right ys -> ys @?= [2 .. 301]
    Left lost -> do
      assertBool (show lost) (lostIndex lost >= 0 && lostIndex lost < 300 && lostDeath lost == Killed 9)
      assertBool "a loss without a kill" (k > 0)
  pure k

twins :: Backend -> Assertion
twins b = leavingNothing $ do
  let options = (onBackend b) {policy = Retry 1000}
  done <- newEmptyMVar
  _ <- forkIO (try (parMapM options (pausing 20) [1 .. 60 :: Int]) >>= putMVar done)
  replicateM_ 5 $ do
    threadDelay 60000
    cs <- children
    mapM_ (kill 9) (take 2 cs)
  got <- within 30 (takeMVar done)
  either (throwIO :: SomeException -> IO ()) (@?= [1 .. 60]) got

massacres :: Backend -> Assertion
massacres b = leavingNothing $ do
  let options = (onBackend b) {policy = Retry 1000, workers = Workers 8}
  done <- newEmptyMVar
  _ <- forkIO (try (parMapM options (pausing 10) [1 .. 200 :: Int]) >>= putMVar done)
  replicateM_ 10 (threadDelay 70000 >> children >>= mapM_ (kill 9))
  got <- within 30 (takeMVar done)
  either (throwIO :: SomeException -> IO ()) (@?= [1 .. 200]) got

-- | The first worker hangs for ever, its successor answers at once.
noticed :: Backend -> Assertion
noticed b = leavingNothing . withMarker $ \marker -> do
  let f i
        | i /= (1 :: Int) = i
        | effect (doesFileExist marker) = i
        | otherwise = effect (writeFile marker "") `seq` sleeping 100 i
      options = (onBackend b) {workers = Workers 1}
  done <- newEmptyMVar
  _ <- forkIO (try (parMapM options f [1]) >>= putMVar done)
  _ <- eventually "the worker hangs" 10 (doesFileExist marker)
  start <- getMonotonicTime
  children >>= mapM_ (kill 9)
  got <- within 10 (takeMVar done)
  end <- getMonotonicTime
  either (throwIO :: SomeException -> IO ()) (@?= [1]) got
  assertBool ("seen and replaced after " <> show (end - start) <> " s") (end - start < 2)

-- | One long item; all workers but the one that has it wait, and are killed.
idlers :: Backend -> Assertion
idlers = behindLong $ \idle more -> mapM_ (kill 9) idle >> more

-- | They are stopped, so that they begin nothing of what is handed out to them then, and killed.
handed :: Backend -> Assertion
handed = behindLong $ \idle more -> mapM_ (kill 19) idle >> more >> threadDelay 100000 >> mapM_ (kill 9) idle

-- | The act is given the workers that wait behind one with a long item, and how more items come.
behindLong :: ([ProcessID] -> IO () -> IO ()) -> Backend -> Assertion
behindLong act b = leavingNothing . withMarker $ \marker ->
  forM_ [Fail, Skip, Retry 0] $ \p -> do
    delivered <- newIORef 0
    let options = (onBackend b) {policy = p, chunking = Fixed 1, workers = Workers 4, onProgress = Just (writeIORef delivered . progressDone)}
        f i
          | i == 0 = effect (getProcessID >>= writeFile marker . show) `seq` pausing 1500 i
          | otherwise = i
    gate <- newEmptyMVar
    done <- newEmptyMVar
    later <- unsafeInterleaveIO ([5 .. 9] <$ readMVar gate)
    _ <- forkIO (try (parMapM options f ([0 .. 4] <> later)) >>= putMVar done)
    said <- newIORef Nothing
    _ <- eventually "the long item has begun" 10 $ do
      there <- doesFileExist marker
      text <- if there then readFile marker else pure ""
      length text `seq` writeIORef said (readMaybe text)
      isJust <$> readIORef said
    _ <- eventually "the others are done with theirs" 10 ((>= 4) <$> readIORef delivered)
    busy <- readIORef said >>= maybe (assertFailure "a process") pure
    idle <- filter (/= busy) <$> children
    act idle (putMVar gate ())
    got <- within 10 (takeMVar done)
    removeFile marker
    either (throwIO :: SomeException -> IO ()) (@?= [0 .. 9 :: Int]) got

withMarker :: (FilePath -> IO a) -> IO a
withMarker use = do
  me <- getProcessID
  let marker = "/tmp/maru-faults-" <> show me
  use marker `finally` (doesFileExist marker >>= flip when (removeFile marker))
