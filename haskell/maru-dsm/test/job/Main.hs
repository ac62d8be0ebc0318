-- | A node of a job that does everything once, and says so; scripts/test.d/48-dsm-haskell
-- starts it. With the argument @throw@, node 0's action throws while the others wait.
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar, threadDelay)
import Control.Exception (SomeException, throwIO, try)
import Control.Monad (forM_, forever, unless, when)
import Data.Int (Int64)
import qualified Data.Vector.Storable as Vector
import qualified Data.Vector.Storable.Mutable as Mutable
import Data.Word (Word8)
import Maru.Dsm
import System.Environment (getArgs)
import System.Mem (performGC)

main :: IO ()
main = do
  arguments <- getArgs
  kept <- withDsm $ \dsm -> do
    when (arguments == ["throw"] && node dsm == 0) $ throwIO (userError "thrown on purpose")
    when (arguments == ["throw"]) $ barrier dsm
    -- Garbage and collections all the time.
    _ <- forkIO (forever (performGC >> threadDelay 1000))
    bytes dsm
    sums dsm
    handing dsm
    waiting dsm
    placing dsm
    refusals dsm
    when (node dsm == 0) $ putStrLn "all done"
    newShared dsm 1
  refuses (JobOver "readRange") (readAt kept 0 :: IO Int64)

expect :: (Eq a, Show a) => String -> a -> a -> IO ()
expect what found expected =
  unless (found == expected) $ throwIO (userError (what ++ ": " ++ show found ++ ", not " ++ show expected))

refuses :: DsmFailure -> IO a -> IO ()
refuses expected action = do
  outcome <- try action
  expect "refusal" (either Just (const Nothing) outcome) (Just expected)

-- | All nodes write bytes of the same words; all see all.
bytes :: Dsm -> IO ()
bytes dsm = do
  shared <- newShared dsm 20000
  forM_ [1 .. 5] $ \turn -> do
    let at i = fromIntegral (i * turn) :: Word8
    modifyRange shared 0 20000 $ \all' ->
      forM_ [(node dsm + turn) `mod` nodes dsm, (node dsm + turn) `mod` nodes dsm + nodes dsm .. 19999] $ \i ->
        Mutable.write all' i (at i)
    barrier dsm
    found <- readRange shared 0 20000
    expect "bytes" found (Vector.generate 20000 at)
    right <- withRange shared 77 1000 (pure . (== Vector.slice 77 1000 found))
    expect "the same in place" right True
    barrier dsm

-- | Locks, counters and reductions count the same.
sums :: Dsm -> IO ()
sums dsm = do
  total <- newShared dsm 1
  lock <- newLock dsm
  counter <- newCounter dsm
  reduction <- newReduction dsm
  forM_ [1 .. 50 :: Int] $ \_ -> do
    withLock lock $ readAt total 0 >>= writeAt total 0 . (+ (1 :: Int64))
    fetchAdd counter 2
  barrier dsm
  let count = fromIntegral (nodes dsm)
  readAt total 0 >>= \found -> expect "total" found (50 * count)
  fetchAdd counter 0 >>= \found -> expect "counter" found (100 * count)
  forM_ [1 .. 20] $ \turn -> do
    most <- reduce reduction max (turn * 100 + fromIntegral (node dsm))
    expect "most" most (turn * 100 + count - 1 :: Int64)
    order <- reduce reduction (\a b -> a * 10 + b) (fromIntegral (node dsm) + 1)
    expect "in the nodes' order" order (foldl (\a b -> a * 10 + b) 0 [1 .. count])
  expect "parts" (part dsm 7) (7 * node dsm `div` nodes dsm, 7 * (node dsm + 1) `div` nodes dsm - 7 * node dsm `div` nodes dsm)

-- | From node to node by semaphores; from node 0 to all by a flag.
handing :: Dsm -> IO ()
handing dsm = do
  message <- newShared dsm 1000
  ready <- mapM (const (newSemaphore dsm)) [1 .. nodes dsm]
  end <- newFlag dsm
  when (node dsm > 0) $ waitSemaphore (ready !! node dsm)
  before <- readAt message (node dsm)
  expect "handed on" before (fromIntegral (node dsm) :: Int64)
  writeAt message (node dsm + 1) (before + 1)
  if node dsm + 1 < nodes dsm then postSemaphore (ready !! (node dsm + 1)) 1 else setFlag end 7
  awaitFlag end 7
  readAt message (nodes dsm) >>= \found -> expect "the end of the chain" found (fromIntegral (nodes dsm))
  fence dsm

-- | A queue of one place: node 0 puts, the others take.
waiting :: Dsm -> IO ()
waiting dsm = do
  slot <- newShared dsm 1
  lock <- newLock dsm
  changed <- newCondition dsm
  let untilM holds = do
        now <- readAt slot 0
        unless (holds now) $ waitCondition changed lock >> untilM holds
      step holds value = withLock lock $ untilM holds >> writeAt slot 0 value >> broadcastCondition changed
  forM_ [1 .. 10 :: Int64] $ \turn ->
    if node dsm == 0
      then forM_ [2 .. nodes dsm] $ \_ -> step (== 0) turn
      else step (/= 0) 0
  barrier dsm
  readAt slot 0 >>= \left -> expect "left in the queue" left 0

-- | One node allocates, all use it.
placing :: Dsm -> IO ()
placing dsm = do
  heap <- newHeap dsm 100000
  places <- newShared dsm (nodes dsm)
  mine <- newOnHeap heap 1000
  writeRange mine 0 (Vector.replicate 1000 (fromIntegral (node dsm) :: Int64))
  writeAt places (node dsm) (place mine)
  barrier dsm
  forM_ [0 .. nodes dsm - 1] $ \other -> do
    found <- atPlace dsm <$> readAt places other
    theirs <- maybe (throwIO (userError "no place")) (\v -> readRange v 0 (size v)) found
    expect "another's vector" theirs (Vector.replicate 1000 (fromIntegral other))
  refuses (NoRoom 800000) (newOnHeap heap 100000 :: IO (Shared Int64))
  barrier dsm

refusals :: Dsm -> IO ()
refusals dsm = do
  shared <- newShared dsm 10 :: IO (Shared Int64)
  lock <- newLock dsm
  condition <- newCondition dsm
  refuses (OutOfRange 5 6 10) (readRange shared 5 6)
  refuses (OutOfRange (-1) 1 10) (writeAt shared (-1) 0)
  refuses (OutOfRange 10 1 10) (slice 10 1 shared)
  slice 4 6 shared >>= \tail' -> expect "a slice" (size tail') 6
  refuses (BadCount "elements" (-1)) (newShared dsm (-1) :: IO (Shared Int64))
  refuses (NoRoom 8000000000000) (newShared dsm 1000000000000 :: IO (Shared Int64))
  refuses (WithinRange "barrier") (withRange shared 0 10 (const (barrier dsm)))
  refuses HeldAlready (withLock lock (withLock lock (pure ())))
  refuses NotHeld (waitCondition condition lock)
  refuses (BadCount "postSemaphore" 0) (newSemaphore dsm >>= (`postSemaphore` 0))
  other <- newEmptyMVar
  _ <- forkIO (try (readAt shared 0) >>= putMVar other)
  takeMVar other >>= \outcome -> expect "another thread" (either Just (const Nothing) outcome) (Just (OtherThread "readRange"))
  -- An action that throws gives its lock back.
  thrown <- try (withLock lock (throwIO (userError "within"))) :: IO (Either SomeException ())
  expect "thrown" (either (const True) (const False) thrown) True
  withLock lock (pure ())
  barrier dsm
