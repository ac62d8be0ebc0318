{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | How a run ends, and what an exception thrown to the consumer does: nothing.
module Life (tests) where

import Control.Concurrent
import Control.Concurrent.STM
import Control.Exception
import Control.Monad (forM_, forever, replicateM_, void)
import qualified Data.ByteString as ByteString
import Data.IORef
import Data.List (isInfixOf)
import Data.Maybe (isJust)
import GHC.Clock (getMonotonicTime)
import Maru.Internal.Engine
import Maru.Options
import Subject
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Timeout (timeout)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: Backend -> TestTree
tests b = named ["life and death"] (ends b <> interrupts b <> tells b)

-- | A run that ends, one way or another, leaves nothing that holds its function.
ends :: Backend -> [TestTree]
ends b =
  [ testCase "a run whose list was consumed leaves nothing" $
      collected $ \mark -> do
        Running os _ _ <- runJob b (job (holding mark) [1 .. 100 :: Int])
        length os @?= 100,
    testCase "stop in the middle leaves nothing" $
      collected $ \mark -> do
        Running os end _ <- runJob b (job (holding mark) [1 :: Int ..])
        length (take 10 os) @?= 10
        end,
    testCase "short runs in a row, each with a collection in its workers" $
      forM_ [1 .. min 400 (times b 500)] $ \_ ->
        within 20 (valuesOf b (job (\n -> ByteString.length (ByteString.replicate (n * 1000000) 1)) [1, 2, 3])) >>= (@?= [1000000, 2000000, 3000000]),
    testCase "stop may be called twice, and after the end" $
      withRun b (job (+ 1) [1 .. 10 :: Int]) $ \running -> do
        length (outcomes running) @?= 10
        stop running >> stop running,
    testCase "stop before anything was demanded" $
      collected $ \mark -> runJob b (job (holding mark) [1 :: Int ..]) >>= stop,
    testCase "stop ends workers that wait for ever" $
      collected $ \mark -> do
        Running os end _ <- runJob b (job (\n -> if n > 3 then holding mark (waiting n) else n) [1 :: Int ..])
        length (take 3 os) @?= 3
        demanded <- forkIO (void (evaluate (length (take 4 os))))
        threadDelay 20000
        within 5 end
        killThread demanded,
    testCase "stop ends workers in an endless loop" $
      collected $ \mark -> do
        Running os end _ <- runJob b (job (\n -> if n > 3 then holding mark (endless n) else n) [1 :: Int ..])
        length (take 3 os) @?= 3
        demanded <- forkIO (void (evaluate (length (take 4 os))))
        threadDelay 20000
        within 5 end
        killThread demanded,
    testCase "a list dropped in the middle leaves nothing after a collection" $
      collected $ \mark -> do
        Running os _ _ <- runJob b (job (holding mark) [1 :: Int ..])
        length (take 10 os) @?= 10,
    testCase "a list never demanded leaves nothing after a collection" $
      collected $ \mark -> void (runJob b (job (holding mark) [1 :: Int ..])),
    testCase "a list dropped while workers loop leaves nothing after a collection" $
      collected $ \mark -> do
        Running os _ _ <- runJob b (job (\n -> if n > 3 then holding mark (endless n) else n) [1 :: Int ..])
        length (take 3 os) @?= 3
        threadDelay 20000,
    testCase "a list dropped while the input blocks leaves nothing after a collection" $
      collected $ \mark -> do
        never <- newEmptyMVar
        rest <- lazily (takeMVar never)
        Running os _ _ <- runJob b (job (holding mark) (1 : 2 : rest :: [Int]))
        length (take 2 os) @?= 2
        threadDelay 20000
        -- What the input waits for is alive.
        void (tryReadMVar never),
    testCase "an input that waited when its list was dropped goes on" $ do
      channel <- newChan
      xs <- getChanContents channel
      writeList2Chan channel [1, 2, 3 :: Int]
      Running os _ _ <- runJob b (job (+ 1) xs)
      length (take 3 os) @?= 3
      -- The walk comes to the fourth cell; then the run is garbage, and ends.
      threadDelay 50000
      replicateM_ 3 (performMajorGC >> threadDelay 500000)
      writeChan channel 4
      within 10 (try (evaluate (xs !! 3))) >>= either (\e -> assertFailure (show (e :: SomeException))) (@?= 4),
    testCase "an input that was computed when the run ended is right" $ do
      lock <- newMVar ()
      begun <- newEmptyMVar
      let xs = [0 .. 9] <> effect (withMVar lock (\() -> [10 .. 19] <$ (tryPutMVar begun () >> burn 0.3)))
      withRun b (job id xs) $ \running -> do
        length (take 10 (outcomes running)) @?= 10
        -- Sequential walks no further.
        timeout 1000000 (readMVar begun) >>= (@?= (b /= Sequential)) . isJust
      within 10 (try (evaluate (sum xs))) >>= either (\e -> assertFailure (show (e :: SomeException))) (@?= sum [0 .. 19 :: Int]),
    testCase "an input that is computed for ever when the run ends is given up" $
      collected $ \mark ->
        withRun b (job (+ 1) ([0 .. 9 :: Int] <> effect (forever (readIORef mark >> yield)))) $ \running -> do
          length (take 10 (outcomes running)) @?= 10
          threadDelay 20000,
    testCase "a list dropped because its consumer threw leaves nothing after a collection" $
      collected $ \mark -> do
        Running os _ _ <- runJob b (job (holding mark) [1 :: Int ..])
        got <- try (forM_ os $ \o -> if outcomeIndex o == 20 then throwIO (userError "enough") else pure ())
        either (\e -> show (e :: IOException)) show got @?= "user error (enough)",
    testCase "many runs, one after the other" $
      replicateM_ (times b 200) $ do
        values <- within 10 (valuesOf b (job (+ 1) [1 .. 5 :: Int]))
        values @?= [2 .. 6]
  ]

-- | An asynchronous exception in the consumer interrupts it; demanded again, the
-- list goes on where it stood.
interrupts :: Backend -> [TestTree]
interrupts b =
  [ testCase "a timeout while waiting for an outcome; demanded again, it is right" $
      forM_ [Ordered, Unordered] $ \order' ->
        withRun b (job (slowly 200) [7, 8 :: Int]) {jobOrder = order'} $ \running -> do
          first <- timeout 20000 (evaluate (length (outcomes running)))
          first @?= Nothing
          again <- within 10 (evaluate (length (outcomes running)))
          again @?= 2
          values <- mapM (either throwIO pure . outcomeResult) (outcomes running)
          sum values @?= 15,
    testCase "a hundred timeouts lose nothing and repeat nothing" $
      withRun b (job (slowly 1) [0 .. 199 :: Int]) $ \running -> within 30 $ do
        let persist n =
              timeout 2000 (evaluate (length (outcomes running)))
                >>= maybe (persist (n + 1)) (\l -> pure (n :: Int, l))
        (_, l) <- persist 0
        l @?= 200
        mapM (either throwIO pure . outcomeResult) (outcomes running) >>= (@?= [0 .. 199]),
    testCase "a consumer that is killed leaves the list to another one" $
      withRun b (job (slowly 50) [0 .. 9 :: Int]) $ \running -> do
        started <- newEmptyMVar
        consumer <- forkIO (putMVar started () >> void (evaluate (length (outcomes running))))
        takeMVar started
        threadDelay 75000
        killThread consumer
        within 10 (mapM (either throwIO pure . outcomeResult) (outcomes running)) >>= (@?= [0 .. 9]),
    testCase "a consumer that is killed while the run begins leaves the list to another one" $
      forM_ [0 .. 59] $ \turns -> do
        os <- lazily (outcomes <$> runJob b (job (+ 1) [0 .. 9 :: Int]))
        started <- newEmptyMVar
        consumer <- forkIO (putMVar started () >> void (evaluate (length os)))
        takeMVar started
        replicateM_ (turns `mod` 20) yield
        killThread consumer
        within 10 (mapM (either throwIO pure . outcomeResult) os) >>= (@?= [1 .. 10]),
    testCase "an exception of any type thrown to the consumer is not an item's" $
      withRun b (job (slowly 200) [1 :: Int]) $ \running -> do
        me <- myThreadId
        void (forkIO (threadDelay 20000 >> throwTo me (ErrorCall "from outside")))
        got <- try (evaluate (length (outcomes running)))
        got @?= Left (ErrorCall "from outside")
        within 10 (mapM (either throwIO pure . outcomeResult) (outcomes running)) >>= (@?= [1]),
    testCase "a list is looked at inside a transaction, from its first element on and later" $
      forM_ ([(order', before) | order' <- [Ordered, Unordered], before <- [0, 5]]) $ \(order', before) -> do
        -- What runs share is there before.
        valuesOf b (job (+ 1) [1 :: Int]) >>= (@?= [2])
        seen <- newTVarIO (0 :: Int)
        -- Begun when it is looked at, as that of parMap.
        os <- lazily (outcomes <$> runJob b (job (slowly 1) [0 .. 299 :: Int]) {jobOrder = order'})
        length (take before os) @?= before
        within 30 . atomically $ readTVar seen >>= \n -> writeTVar seen $! n + length os
        readTVarIO seen >>= (@?= 300)
        values <- mapM (either throwIO pure . outcomeResult) os
        sum values @?= sum [0 .. 299],
    testCase "a map works when it is started and consumed with exceptions masked" $
      within 10 . mask_ $ valuesOf b (job (+ 1) [1 .. 100 :: Int]) >>= (@?= [2 .. 101])
  ]

-- | Progress and report.
tells :: Backend -> [TestTree]
tells b =
  [ testCase "progress is told at most ten times a second, never from the consumer's thread, and to the end" $ do
      told <- newMVar []
      me <- myThreadId
      let note p = do
            now <- getMonotonicTime
            thread <- myThreadId
            modifyMVar_ told (pure . ((now, thread == me, p) :))
      start <- getMonotonicTime
      withRun b (job (slowly 20) [1 .. 30 :: Int]) {jobOptions = defaultOptions {onProgress = Just note}} $ \running -> do
        length (outcomes running) @?= 30
        eventually "the last call has all items" 5 $ any (\(_, _, p) -> progressDone p == 30) <$> readMVar told
      end <- getMonotonicTime
      calls <- reverse <$> readMVar told
      let counts = [progressDone p | (_, _, p) <- calls]
      assertBool (show counts) (and (zipWith (<=) counts (drop 1 counts)) && all (<= 30) counts)
      assertBool (show calls) (fromIntegral (length calls) <= 10 * (end - start) + 2)
      assertBool "from the consumer's thread" (and [not mine | (_, mine, _) <- calls])
      map (\(_, _, p) -> progressTotal p) (take 1 (reverse calls)) @?= [Just 30],
    testCase "a progress callback that throws stops nothing and is reported" $
      withRun b (job (slowly 20) [1 .. 20 :: Int]) {jobOptions = defaultOptions {onProgress = Just (\_ -> throwIO (userError "screen gone"))}} $ \running -> do
        length (outcomes running) @?= 20
        eventually "a note" 5 $ any ("screen gone" `isInfixOf`) . reportNotes <$> report running,
    testCase "a progress callback that throws what has no text, or a text without end, stops nothing" $
      forM_ [ErrorCall (errorWithoutStackTrace "no text"), ErrorCall (cycle "on and on ")] $ \e ->
        -- What hangs in a lock is not to be interrupted.
        apart 30 $
          withRun b (job (slowly 20) [1 .. 40 :: Int]) {jobOptions = defaultOptions {onProgress = Just (\_ -> throwIO e)}} $ \running -> do
            length (outcomes running) @?= 40
            eventually "a note" 10 $ any ("the progress callback threw" `isInfixOf`) . reportNotes <$> report running
            -- More notes are compared with it, and more is told.
            stop running
            notes <- concat . reportNotes <$> report running
            assertBool (take 200 notes) (length notes < 100000),
    testCase "the report counts every result" $
      withRun b (job (+ 1) [1 .. 50 :: Int]) $ \running -> do
        length (outcomes running) @?= 50
        r <- report running
        reportBackend r @?= b
        sum (map snd (reportTransports r)) + reportInCaller r @?= 50
        assertBool (show r) (reportWorkersStarted r >= 1 && reportWorkersLost r == 0)
  ]

-- | In a thread of its own, so many seconds at most.
apart :: Double -> IO a -> IO a
apart seconds act = do
  done <- newEmptyMVar
  _ <- forkIO (try act >>= putMVar done)
  within seconds (takeMVar done) >>= either (throwIO :: SomeException -> IO a) pure

-- | The second argument; keeps the first alive.
holding :: IORef () -> a -> a
holding mark x = unsafePerformIO (readIORef mark) `seq` x
{-# NOINLINE holding #-}

waiting :: a -> a
waiting = slowly 1000000
