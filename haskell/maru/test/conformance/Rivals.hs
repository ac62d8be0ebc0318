{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Defects that other process-parallel maps have or had, each a test: Parmap and
-- Parany (OCaml), multiprocessing.Pool, mpire, futures and Ray (Python).
module Rivals (tests) where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Exception
import Control.Monad (forM_, forever, replicateM_, unless, void)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Maru.Failure
import Maru.Internal.Engine
import Maru.Options
import Subject
import System.Directory (createDirectory, getTemporaryDirectory, listDirectory, removeDirectory, removeDirectoryRecursive)
import System.Environment (lookupEnv, setEnv, unsetEnv)
import System.Exit (ExitCode (..))
import System.IO.Error (isAlreadyExistsError)
import System.Posix.Process (exitImmediately, getProcessID)
import System.Posix.Signals (sigKILL, signalProcess)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: Backend -> TestTree
tests b = named ["defects of rivals"] (everywhere b <> if inProcess b then [] else processes b)

everywhere :: Backend -> [TestTree]
everywhere b =
  [ testCase "Parmap 1: the remainder is spread, never given to the last worker" $
      -- One capability evaluates all sparks; over sockets a chunk is sent ahead, to a rank a block.
      unless (b `elem` [Sequential, Sparks, Sockets, Mpi]) $
        inFolder $ \folder -> do
          -- The worker that has the first chunk is held up until all others are done: it gets no more.
          let f n
                | n >= 2 = effect (createDirectory (folder <> "/" <> show n)) `seq` n
                | n == 0 = effect (untilThere folder 21) `seq` n
                | otherwise = n
          os <- within 60 (outcomesOf b (jobOn 4 f [0 .. 22 :: Int]) {jobOptions = defaultOptions {chunking = Fixed 2}})
          let held = [outcomeWorker o | o <- os, outcomeIndex o == 0]
          -- The first chunk holds one item where the second had not been walked yet.
          let got = [outcomeIndex o | o <- os, outcomeWorker o `elem` held]
          assertBool (show got) (got `elem` [[0], [0, 1]]),
    testCase "Parmap 3: an exception of the very last item is read, with its type and value" $ do
      os <- outcomesOf b (job (\n -> if n == 99 then throw (ExitFailure n) else ()) [0 .. 99])
      [fromException e | o <- os, Left e <- [outcomeResult o]] @?= [Just (ExitFailure 99)],
    testCase "Parmap 5: a map streams, can be abandoned and can be timed out" $
      withRun b (job (slowly 1) [1 :: Int ..]) $ \running ->
        within 10 (evaluate (length (take 5 (outcomes running)))) >>= (@?= 5),
    testCase "Parmap 6, mpire 32: a result larger than any pipe" $ do
      sizes <- map ByteString.length <$> valuesOf b (job (\n -> ByteString.replicate (n * 3000000) 1) [1, 2, 3])
      sizes @?= [3000000, 6000000, 9000000],
    testCase "Parany: one outcome per item, in order, none dropped after a failed one" $ do
      os <- outcomesOf b (jobOn 3 (\n -> if n `mod` 7 == 3 then error "hole" else n) [0 .. 199])
      map outcomeIndex os @?= [0 .. 199]
      length [() | o <- os, Right n <- [outcomeResult o], n == outcomeIndex o] @?= length (filter ((/= 3) . (`mod` 7)) [0 .. 199 :: Int]),
    testCase "mpire 58: an exception type whose constructor needs arguments" $ do
      got <- try (valuesOf b (job (\n -> if n == 1 then throw (IndexOutOfBounds "7 of 5") else n) [0, 1, 2 :: Int]))
      got @?= Left (IndexOutOfBounds "7 of 5")
  ]

processes :: Backend -> [TestTree]
processes b =
  [ testCase "Parmap 4, Parany, Pool 22393: a worker killed by a signal loses nothing and nobody waits for ever" $
      oncePerMarker $ \first -> do
        let f n = if n == 20 && effect (first (show n)) then effect killMyself else n
        within 20 (valuesOf b (job f [0 .. 49 :: Int])) >>= (@?= [0 .. 49]),
    testCase "Parany: a worker that leaves with status 0 is no normal end" $
      oncePerMarker $ \first -> do
        let f n = if n == 20 && effect (first (show n)) then effect (exitImmediately ExitSuccess >> pure 0) else n
        within 20 (valuesOf b (job f [0 .. 49 :: Int])) >>= (@?= [0 .. 49]),
    testCase "Parany: with holes in the order, nothing after them is dropped" $ do
      let f n = if n == 20 then effect killMyself else n
      os <- within 20 (outcomesOf b (job f [0 .. 49 :: Int]) {jobOptions = defaultOptions {policy = Skip, chunking = Fixed 1}})
      map outcomeIndex os @?= [0 .. 49]
      [outcomeIndex o | o <- os, Left e <- [outcomeResult o], Just WorkerLost {} <- [fromException e]] @?= [20],
    testCase "futures: an item that always kills its worker fails alone, and later maps work" $ do
      let f n = if n == 5 then effect killMyself else n
      os <- within 30 (outcomesOf b (job f [0 .. 19 :: Int]) {jobOptions = defaultOptions {policy = Retry 1}})
      [lostIndex e | o <- os, Left x <- [outcomeResult o], Just e <- [fromException x]] @?= [5]
      length [() | o <- os, Right _ <- [outcomeResult o]] @?= 19
      valuesOf b (job (+ 1) [1 .. 20 :: Int]) >>= (@?= [2 .. 21]),
    testCase "CPython 100228: forking beside busy threads does not deadlock" $ do
      busy <- mapM (\n -> forkIO (forever (void (evaluate (length (show (2 ^ (n * 1000 :: Int) :: Integer)))) >> threadDelay 100))) [1 .. 4]
      replicateM_ 10 (within 20 (valuesOf b (job (+ 1) [1 .. 20 :: Int])) >>= (@?= [2 .. 21]))
      mapM_ killThread busy,
    testCase "mpire 34, shared_memory: no child, descriptor or name in /dev/shm is left" $ do
      void (valuesOf b (job (+ 1) [1 .. 20 :: Int]))
      -- A consumed run cleans up beside its consumer.
      threadDelay 300000
      before <- traces
      forM_ [1 .. 5 :: Int] $ \_ -> valuesOf b (job (+ 1) [1 .. 200 :: Int])
      eventually "as before" 5 ((== before) <$> traces),
    testCase "Parmap 6: no temporary file is written" $ do
      old <- lookupEnv "TMPDIR"
      setEnv "TMPDIR" "/nonexistent"
      got <- valuesOf b (job (ByteString.length . (`ByteString.replicate` 1)) [2000000]) `finally` maybe (unsetEnv "TMPDIR") (setEnv "TMPDIR") old
      got @?= [2000000],
    testCase "Ray 4878: results larger than the pages for results do not stall" $ do
      let options = defaultOptions {regionMiB = 1, window = Just 4}
      sizes <- within 30 (valuesOf b (job (\n -> [n .. n + 50000]) [1 .. 12 :: Int]) {jobOptions = options})
      map length sizes @?= replicate 12 50001
  ]

-- | A new folder, empty; it goes with all that is in it.
inFolder :: (FilePath -> IO a) -> IO a
inFolder = bracket new removeDirectoryRecursive
  where
    new = do
      folder <- getTemporaryDirectory
      me <- getProcessID
      let path = folder <> "/maru-remainder-" <> show me
      path <$ createDirectory path

untilThere :: FilePath -> Int -> IO ()
untilThere folder count = do
  names <- listDirectory folder
  unless (length names >= count) $ threadDelay 2000 >> untilThere folder count

-- | Children, zombies among them; descriptors; names in /dev/shm.
traces :: IO (Int, Int, [String])
traces = do
  tasks <- listDirectory "/proc/self/task"
  -- Read to the end before the descriptors are counted.
  children <- concat <$> mapM (\t -> words . Char8.unpack <$> ByteString.readFile ("/proc/self/task/" <> t <> "/children")) tasks
  descriptors <- listDirectory "/proc/self/fd"
  names <- filter (isInfixOf "maru") <$> listDirectory "/dev/shm"
  pure (length children, length descriptors, names)

killMyself :: IO a
killMyself = do
  me <- getProcessID
  signalProcess sigKILL me
  assertFailure "still alive"

-- | Hands over an action that is 'True' the first time a name is asked for, in
-- whatever process: creating a folder succeeds once.
oncePerMarker :: ((String -> IO Bool) -> IO a) -> IO a
oncePerMarker use = do
  folder <- getTemporaryDirectory
  me <- getProcessID
  let path name = folder <> "/maru-conformance-" <> show me <> "-" <> name
      first name = (True <$ createDirectory (path name)) `catch` \e -> if isAlreadyExistsError e then pure False else throwIO e
  use first `finally` (try (removeDirectory (path "20")) :: IO (Either IOException ()))
