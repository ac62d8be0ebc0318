-- | The caller's heap: what workers cost its collector. Counted, not timed: with an
-- allocation area of 64 MiB the caller alone would not collect at all. Its heap is bounded to
-- 1500 MiB: the regions of sixteen workers alone would break that.
module Main (main) where

import Control.Concurrent (setNumCapabilities, threadDelay)
import Control.Exception (displayException, evaluate)
import Control.Monad (forM, forM_, replicateM, replicateM_, void, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import Data.Char (isDigit)
import Data.Int (Int64)
import Data.List (foldl')
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import qualified Data.Text as Text
import qualified Data.Text.Lazy as LazyText
import Data.Word (Word32)
import GHC.Stats (GCDetails (gcdetails_threads), RTSStats (gc, gcs, major_gcs), getRTSStats)
import Maru
import System.Environment (getArgs, getExecutablePath)
import System.Exit (ExitCode (..), die)
import System.Mem (performMajorGC)
import System.Posix.Process (exitImmediately, forkProcess, getProcessStatus)
import qualified System.Posix.Process as Process
import System.Posix.Resource (Resource (..), ResourceLimit (..), ResourceLimits (..), getResourceLimit, setResourceLimit)
import System.Process (readProcessWithExitCode)
import Test.Tasty (defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

main :: IO ()
main = getArgs >>= \given -> fromMaybe suite (lookup given [(["scattered"], scattered), (["plain"], plain)])

suite :: IO ()
suite =
  defaultMain $
    testGroup
      "the caller's heap"
      [ testCase "eight births beside 256 MiB of live data: no collection" $ do
          heap <- live 256
          performMajorGC
          (started, counts) <- counting (mapOn 8)
          started @?= 8
          counts @?= (0, 0)
          void (evaluate (Map.size heap)),
        testCase "a caller that allocates while workers live: as many major collections as without" $ do
          heap <- live 64
          let beside which = do
                let ys = parMapWith options {backend = which, workers = Workers 8} spin [1 .. 32]
                void (evaluate (sum (take 1 ys)))
                replicateM_ 4 (garbage 32)
                evaluate (sum ys)
          without <- majorsOf (beside Sequential)
          with <- majorsOf (beside Shm)
          assertBool (show (without, with)) (with <= without)
          void (evaluate (Map.size heap)),
        testCase "regions whose results are kept count as what they hold" $ do
          heap <- live 16
          let kept which = do
                lists <- forM [1 .. 4] $ \k -> garbage 32 >> parMapM options {backend = which} numbers [8 * k .. 8 * k + 7]
                evaluate (sum (map (sum . map sum) lists))
          without <- majorsOf (kept Sequential)
          with <- majorsOf (kept Shm)
          assertBool (show (without, with)) (with <= without + 1)
          void (evaluate (Map.size heap)),
        testCase "a bounded worker has all its bound for its items: its siblings' regions are no part of it" $ do
          ys <- parMapM options {workers = Workers 4, memoryMiB = Just 1024} (sum . stored) [1 .. 4]
          ys @?= map (sum . stored) [1 .. 4],
        testCase "so has a caller with -M: its workers' regions are no part of it" $ do
          ys <- parMapM options {workers = Workers 16} (sum . stored) [1 .. 16]
          evaluate (sum ys) >>= (@?= sum (map (\k -> 500000 * k + 125000250000) [1 .. 16])),
        testCase "with -M, too, a map has the pages that an earlier one gave back" $ do
          -- More than the bound, all together. Nothing is collected between two maps.
          let crowd = options {workers = Workers 32, chunking = Fixed 1}
          seen <- replicateM 3 $ do
            (ys, look) <- parMapReporting crowd numbers [1 .. 64]
            total <- evaluate (sum (map sum ys))
            (,) total . reportTransports <$> look
          seen @?= replicate 3 (sum (map (sum . numbers) [1 .. 64]), [("zero-copy", 64)]),
        testCase "with -M, too, a map has the memory of earlier results that are garbage" $ do
          -- 100 MiB each: only a collection makes room for those that follow.
          let stacked = parMapM options {chunking = Fixed 1} numbers [1 .. 128] >>= evaluate . sum . map sum
          totals <- replicateM 20 stacked
          totals @?= replicate 20 (sum (map (sum . numbers) [1 .. 128])),
        testCase "where addresses are few (ulimit -v), regions take only what is free in a row" $ do
          -- The run-time system ended the process where it found nothing for a region.
          program <- getExecutablePath
          ends <- replicateM 6 $ readProcessWithExitCode "sh" ["-c", "ulimit -s 1024; ulimit -v 1200000; exec \"$0\" scattered +RTS -A1m", program] ""
          ends @?= replicate 6 (ExitSuccess, "", ""),
        testCase "where addresses are few (ulimit -v), threads do not take them for malloc" $ do
          -- 64 MiB each: there was none left for a stack, or for the copy of a small result.
          program <- getExecutablePath
          ends <- replicateM 6 $ readProcessWithExitCode "sh" ["-c", "ulimit -s 8192; ulimit -v 400000; exec \"$0\" plain +RTS -N2", program] ""
          ends @?= replicate 6 (ExitSuccess, "", ""),
        testCase "two capabilities: one thread collects while workers live, two before and after" $ do
          setNumCapabilities 2
          before <- collectors
          -- Many: on a loaded machine the workers of 32 had ended before the collection.
          let ys = parMapWith options spin [1 .. 128]
          void (evaluate (sum (take 1 ys)))
          during <- collectors
          total <- parMapM options spin [1 .. 128]
          evaluate (sum ys) >>= (@?= sum total)
          after <- eventually (== before) collectors
          setNumCapabilities 1
          (before, during, after) @?= (2, 1, 2),
        testCase "two capabilities: two threads collect in a process that the program forks while workers live" $ do
          setNumCapabilities 2
          let ys = parMapWith options spin [2 .. 65]
          void (evaluate (sum (take 1 ys)))
          during <- collectors
          pid <- forkProcess (collectors >>= \n -> exitImmediately (if n == 2 then ExitSuccess else ExitFailure (fromIntegral n)))
          ended <- getProcessStatus True False pid
          total <- parMapM options spin [2 .. 65]
          evaluate (sum ys) >>= (@?= sum total)
          setNumCapabilities 1
          (during, ended) @?= (1, Just (Process.Exited ExitSuccess)),
        testCase "the table of descriptors has room for workers before there is a second thread" $ do
          -- Grown later, it takes a grace period of the kernel in the middle of the births.
          status <- lines <$> readFile "/proc/self/status"
          let sizes = [read size | line <- status, ["FDSize:", size] <- [words line]] :: [Int]
          assertBool (show sizes) (sizes >= [256]),
        testCase "slices of a large text or a lazy ByteString hold their own bytes alone" $ do
          -- 1000 copies of any of the arrays would be more than the heap's bound.
          let text = Text.replicate 500000 (Text.pack "abcd")
              bytes = Lazy.fromStrict (ByteString.replicate 2000000 97)
              slices k =
                ( Text.take 5 (Text.drop k text),
                  LazyText.take 6 (LazyText.drop (fromIntegral k) (LazyText.fromStrict text)),
                  Lazy.take 7 (Lazy.drop (fromIntegral k) bytes)
                )
          forM_ [ZeroCopy, CompactCopy] $ \way -> do
            found <- parMapM options {transport = way} slices [1 .. 1000]
            found @?= map slices [1 .. 1000],
        testCase "where memory is short (ulimit -v), a result that cannot be copied says that" $ do
          let large n = ByteString.replicate (n * 1000000) 1
              scarce = options {workers = Workers 1, policy = Skip, transport = CompactCopy, initialise = fewAddresses}
              texts = [either (displayException . failedCause) (show . ByteString.length) r | r <- parMapTry scarce large [1, 64, 2]]
          texts
            @?= [ "1000000",
                  "maru: memory for the copy of a result is not available: Cannot allocate memory; raise the heap's bound (-M), `ulimit -v` or the container's limit, or keep fewer results at a time",
                  "2000000"
                ]
      ]

-- | Leaves this process 32 MiB of addresses, which is less than a large copy takes.
fewAddresses :: IO ()
fewAddresses = do
  pages <- takeWhile isDigit <$> readFile "/proc/self/statm"
  limits <- getResourceLimit ResourceTotalMemory
  setResourceLimit ResourceTotalMemory limits {softLimit = ResourceLimit (read pages * 4096 + 32 * 1024 * 1024)}

-- | Regions come and go, and results in them stay for a while.
scattered :: IO ()
scattered = forM_ [1 .. 30] $ \k -> do
  ys <- parMapM options {workers = Workers 16} (\x -> [x .. x + 2000]) [k .. k + 40 :: Int]
  when (map sum ys /= [sum [x .. x + 2000] | x <- [k .. k + 40]]) $ die "results differ"

-- | Small results of three workers.
plain :: IO ()
plain = do
  ys <- parMapM options {workers = Workers 3} spin [1 .. 60]
  when (ys /= map spin [1 .. 60]) $ die "results differ"

options :: Options
options = defaultOptions {backend = Shm, workers = Workers 4}

-- | How many workers were started for a map of more items than that.
mapOn :: Int -> IO Int
mapOn n = do
  (ys, look) <- parMapReporting options {workers = Workers n} spin [1 .. 8 * n]
  void (evaluate (sum ys))
  reportWorkersStarted <$> look

-- | Collections meanwhile, and major ones.
counting :: IO a -> IO (a, (Word32, Word32))
counting act = do
  before <- getRTSStats
  x <- act
  after <- getRTSStats
  pure (x, (gcs after - gcs before, major_gcs after - major_gcs before))

-- | Major collections meanwhile, but for one before.
majorsOf :: IO a -> IO Word32
majorsOf act = performMajorGC >> (snd . snd <$> counting act)

-- | How many threads took part in a collection.
collectors :: IO Word32
collectors = performMajorGC >> gcdetails_threads . gc <$> getRTSStats

-- | The workers of a list that was consumed end in the background.
eventually :: (a -> Bool) -> IO a -> IO a
eventually good look = go (500 :: Int)
  where
    go n = do
      x <- look
      if good x || n == 0 then pure x else threadDelay 20000 >> go (n - 1)

-- | Some milliseconds without allocation.
spin :: Int -> Int64
spin k = go (2000000 :: Int) (fromIntegral k)
  where
    go 0 x = x
    go n x = go (n - 1) (x * 6364136223846793005 + 1442695040888963407)

numbers :: Int -> [Int]
numbers k = [k * i | i <- [1 .. 20000]]

live :: Int -> IO (Map.Map Int Int)
live mebibytes = do
  let heap = Map.fromDistinctAscList [(i, i) | i <- [1 .. mebibytes * 13107]]
  heap <$ evaluate (foldl' (+) 0 heap)

-- | Some 40 MiB that are live together, and collected while they are.
stored :: Int -> Map.Map Int Int
stored k = foldl' (\m i -> Map.insert i (i + k) m) Map.empty [1 .. 500000]

-- | So many MiB that nobody keeps.
garbage :: Int -> IO ()
garbage mebibytes = void (evaluate (foldl' (+) 0 (Map.fromDistinctAscList [(i, i) | i <- [1 .. mebibytes * 13107]])))
