{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Workers inherit code and heap, not the world: what the coordinator reads,
-- no worker reads.
module World (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.List (nub)
import Maru
import System.Directory (listDirectory, removeFile)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Unsafe (unsafeInterleaveIO)
import System.Posix.IO (createPipe, fdToHandle)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigKILL)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Tools

tests :: Backend -> TestTree
tests b =
  testGroup
    "the world"
    [ testGroup
        "a coordinator that is killed takes its workers with it within 1 s"
        [testCase ("that " <> what) (orphaned b how) | (how, what) <- [("loop", "loop"), ("call", "are in a foreign call"), ("idle", "wait for work")]],
      testCase "a program that ends with a map half consumed leaves nothing" $
        playing [] ["leave", backendName b] $ \s -> do
          pids <- workersOf s
          void (eventually "the workers are gone" 1 (not . or <$> mapM alive pids)),
      testCase "a program that consumes the spine alone and ends was told of the last result" $
        forM_ (b : [Threads | b == Shm]) $ \which -> finishes ["spine", backendName which] "" ["all told", "spine of 50"],
      testCase "a program that ends while another of its threads consumes a map ends well" $
        forM_ [1 .. 20 * scale] $ \i -> finishes ["exit", backendName b, show (10000 + 3400 * (i `mod` 20))] "" [],
      testCase "lines of standard input, a pipe: no line is lost or doubled" $ input b "pipe",
      testCase "lines of standard input, a file: no line is lost or doubled" $ fromFile b,
      testCase "lines that come slowly: each result comes before the next line" $ conversation b,
      testCase "what is read after a map goes on where the map's input ended" $
        finishes ["rest", backendName b] (unlines (map show [1 .. 2000 :: Int])) ["sum of 1000: 500500", "next: 1001"],
      testCase "readFile, consumed lazily" $
        withLines 3000 $ \path -> leavingNothing $ do
          ls <- lines <$> readFile path
          ys <- within 60 (parMapM (onBackend b) length ls)
          ys @?= map (length . show) [1 .. 3000 :: Int],
      testCase "a Handle in a closure, read inside f: each line once" $
        withLines 100 $ \path -> leavingNothing $ do
          h <- openFile path ReadMode
          ys <- within 30 (parMapM (onBackend b) (\i -> i `seq` effect (hGetLine h)) [1 .. 50 :: Int])
          ys @?= map show [1 .. 50 :: Int]
          hGetLine h >>= (@?= "51")
          hClose h,
      testCase "a list fed by another thread of the caller" $ fed b,
      testCase "an element that waits for another thread of the caller" $
        leavingNothing $ do
          box <- newEmptyMVar
          _ <- forkIO (threadDelay 300000 >> putMVar box (41 :: Int))
          ys <- within 60 (parMapM (onBackend b) (\i -> if i == 3 then effect (readMVar box) + 1 else i) [1 .. 6])
          ys @?= [1, 2, 42, 4, 5, 6],
      testCase "an inherited pipe, read inside f" $ piped b,
      testCase "a worker's threads have no names of their own: the end of one that has costs its parent milliseconds" $
        leavingNothing $ do
          own <- threadNames
          them <- within 30 (parMapM (onBackend b) (\i -> i `seq` effect threadNames) [1 .. 4 :: Int])
          mapM_ (\names -> nub names @?= take 1 names) them
          assertBool (show own) (all (all (`elem` own)) them),
      testCase "a result that refers to earlier results" $
        leavingNothing $ do
          let ys = parMapWith (onBackend b) (\i -> if i == 0 then 1 else 2 * (ys !! (i - 1))) [0 .. 20 :: Int] :: [Integer]
          within 60 (evaluate (ys !! 20)) >>= (@?= 2 ^ (20 :: Int)),
      testCase "an input that refers to earlier results" $
        leavingNothing $ do
          let ys = parMapWith (onBackend b) (* 2) (1 : take 12 ys) :: [Int]
          within 60 (evaluate (sum ys)) >>= (@?= 2 ^ (14 :: Int) - 2)
    ]

-- | Of this process.
threadNames :: IO [String]
threadNames = do
  tids <- listDirectory folder
  -- One that has ended meanwhile has none.
  concat <$> forM tids (\tid -> either (const []) pure <$> (try (readFile (folder <> "/" <> tid <> "/comm") >>= \name -> name <$ evaluate (length name)) :: IO (Either IOException String)))
  where
    folder = "/proc/self/task"

orphaned :: Backend -> String -> Assertion
orphaned b how = playing [] ["hang", backendName b, how] $ \s -> do
  pids <- workersOf s
  length pids @?= 3
  kill sigKILL (scenePid s)
  void (eventually "the workers are gone" 1 (not . or <$> mapM alive pids))

input :: Backend -> String -> Assertion
input b _ = do
  let n = 5000 :: Int
  (status, out, err) <- scene ["lines", backendName b] (unlines (map show [1 .. n]))
  (status, err) @?= (ExitSuccess, "")
  assertBool "every line once, in order" (lines out == map (show . (* 2)) [1 .. n])

fromFile :: Backend -> Assertion
fromFile b = withLines 5000 $ \path -> do
  (status, out, err) <- scene ["file", backendName b, path] ""
  (status, err) @?= (ExitSuccess, "")
  assertBool "every line once, in order" (lines out == map (show . (* 2)) [1 .. 5000 :: Int])

conversation :: Backend -> Assertion
conversation b = playing [] ["lines", backendName b] $ \s ->
  forM_ [1 .. 30 :: Int] $ \i -> do
    hPrint (sceneInput s) i
    linesOf s 1 >>= (@?= [show (2 * i)])

withLines :: Int -> (FilePath -> IO a) -> IO a
withLines n use = do
  me <- getProcessID
  let path = "/tmp/maru-faults-lines-" <> show me
  writeFile path (unlines (map show [1 .. n]))
  use path `finally` removeFile path

fed :: Backend -> Assertion
fed b = leavingNothing $ do
  queue <- newChan
  _ <- forkIO (forM_ [1 .. 200 :: Int] (\i -> when (i `mod` 20 == 0) (threadDelay 5000) >> writeChan queue (Just i)) >> writeChan queue Nothing)
  xs <- drain queue
  ys <- within 60 (parMapM (onBackend b) (* 2) xs)
  ys @?= map (* 2) [1 .. 200]
  where
    drain queue = unsafeInterleaveIO $ readChan queue >>= maybe (pure []) (\x -> (x :) <$> drain queue)

piped :: Backend -> Assertion
piped b = leavingNothing $ do
  (reading, writing) <- createPipe
  out <- fdToHandle writing
  hPutStr out (unlines (map show [1 .. 40 :: Int])) >> hClose out
  h <- fdToHandle reading
  ys <- within 30 (parMapM (onBackend b) (\i -> if even i then effect (hGetLine h) else show i) [1 .. 40 :: Int])
  ys @?= [if even i then show (i `div` 2) else show i | i <- [1 .. 40 :: Int]]
  hClose h
