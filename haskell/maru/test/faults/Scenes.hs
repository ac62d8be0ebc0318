{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | What a copy of this program plays for a test: programs that are killed,
-- starved or fed from outside.
module Scenes (play) where

import Control.Concurrent
import Control.Concurrent.STM (atomically, retry)
import Control.Exception
import Control.Monad
import qualified Data.ByteString.Char8 as Bytes
import Data.IORef
import Data.List (foldl', isInfixOf)
import Foreign (poke)
import Foreign.C (CInt (..), CUInt (..))
import GHC.IO.Handle (hDuplicateTo)
import Maru
import Maru.Native.Log
import Maru.Pool
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.Process (exitImmediately)
import Tools

{- HLINT ignore "Evaluate" -}
-- the signature chooses the exception

foreign import ccall safe "faults_refuse" c_refuse :: CInt -> IO CInt

foreign import ccall safe "faults_space" c_space :: CInt -> IO CInt

foreign import ccall safe "faults_descriptors" c_descriptors :: CInt -> IO CInt

foreign import ccall safe "usleep" c_usleep :: CUInt -> IO CInt

foreign import ccall safe "faults_files" c_files :: CInt -> IO CInt

foreign import ccall safe "faults_processes" c_processes :: IO CInt

foreign import ccall safe "faults_refuse_threads" c_refuseThreads :: IO CInt

foreign import ccall safe "faults_refuse_forks" c_refuseForks :: IO CInt

foreign import ccall safe "faults_refuse_second" c_refuseSecond :: IO CInt

foreign import ccall safe "faults_refuse_first" c_refuseFirst :: IO ()

foreign import ccall safe "faults_open_in_between" c_openInBetween :: IO ()

foreign import ccall safe "faults_hung_up" c_hungUp :: CInt -> IO CInt

foreign import ccall safe "faults_occupy" c_occupy :: IO CInt

foreign import ccall safe "faults_deaf_child" c_deafChild :: IO CInt

play :: [String] -> IO ()
play ["hang", name, how] = hang (options name) how
play ["leave", name] = do
  let ys = parMapWith (options name) (pausing 20) [1 :: Int ..]
  _ <- evaluate (sum (take 10 ys))
  children >>= putStrLn . unwords . map show
play ["memory", name, kind, mb] = do
  let one = (options name) {workers = Workers 1}
      bytes = 1000000 * read mb :: Int
      -- A cell and a number take five words.
      list n = [1 .. n `div` 40]
  case kind of
    "bytes" -> parMapM one (`Bytes.replicate` 'x') [bytes] >>= print . map (\y -> (Bytes.length y, Bytes.last y))
    _ -> parMapM one list [bytes] >>= print . map (foldl' (+) 0)
play ["spine", name] = do
  let told p = when (progressTotal p == Just (progressDone p)) (putStrLn "all told")
  n <- evaluate (length (parMapWith (options name) {onProgress = Just told} (working 1) [1 .. 50]))
  putStrLn ("spine of " <> show n)
play ["exit", name, micros] = do
  -- While the thread waits for a result, looks for one, or drops the map.
  _ <- forkIO . forever $ evaluate (sum (take 20 (parMapWith (options name) (working 20) [1 ..])))
  threadDelay (read micros)
play ["lines", name] = do
  hSetBuffering stdout LineBuffering
  ls <- lines <$> getContents
  mapM_ print (parMapWith (options name) ((* 2) . read) ls :: [Int])
play ["file", name, path] = do
  -- Standard input is a file: two processes that read it share one offset.
  openFile path ReadMode >>= (`hDuplicateTo` stdin)
  play ["lines", name]
play ["rest", name] = do
  ls <- replicateM 1000 getLine
  putStrLn ("sum of 1000: " <> show (sum (parMapWith (options name) read ls :: [Int])))
  getLine >>= putStrLn . ("next: " <>)
play ["stack", name] = results name (\i -> if i == 1 then deep 10000000 else i)
play ["heap", name] = results name (\i -> if i == 1 then length (show (reverse [i .. 100000000])) else i)
play ["deadlock", name, what] = do
  got <- try (evaluate (sum (parMapWith (options name) (deadlocked what) [1 .. 4])))
  print (got :: Either SomeException Int)
play ["young", name] = do
  -- Each worker is to be forked anew.
  oks <- forM [1 .. 20] $ \k -> (== [k + 1 .. k + 3]) <$> parMapM (options name) (working 1) [k .. k + 2]
  putStrLn (if and oks then "right" else "wrong")
play ["alone", what] = do
  warm
  refuse what
  (ys, report) <- parMapReporting defaultOptions {workers = Workers 3} (working 10) [1 .. 100]
  putStrLn (if ys == [2 .. 101] then "right" else "wrong")
  r <- report
  putStrLn (if reportInCaller r + sum (map snd (reportTransports r)) == 100 && any ("in the caller: " `isInfixOf`) (reportNotes r) then "in the caller" else show r)
  hFlush stdout
  exitImmediately ExitSuccess
play ["second", name] = do
  -- The second worker is refused; its numbers are soon the program's own sockets'.
  refuse "second"
  occupied <- newEmptyMVar
  _ <- forkIO (c_occupy >>= putMVar occupied)
  ys <- parMapM (options name) {chunking = Fixed 1} (pausing 20) [1 .. 40 :: Int]
  r <- takeMVar occupied
  putStrLn (if (ys, r) == ([1 .. 40], 0) then "right" else "wrong")
  hFlush stdout
  exitImmediately ExitSuccess
play ["first", name] = do
  -- The first worker is refused, slowly; the others are not.
  refuse "first"
  (ys, report) <- parMapReporting (options name) {chunking = Fixed 2} (working 100) [1 .. 3000]
  putStrLn (if ys == [2 .. 3001] then "right" else "wrong")
  r <- report
  putStrLn (if reportWorkersStarted r > 0 then "workers" else show r)
play ["between"] = do
  -- What another thread opens after the look at what is open, and before the fork.
  c_openInBetween
  (ys, r, there) <- withPool (options "shm") {workers = Workers 1} () $ \pool ->
    (,,) <$> poolMap pool (\() n -> n + 1) [1 .. 10 :: Int] <*> c_hungUp 5000 <*> (length <$> children)
  putStrLn (if (ys, r, there) == ([2 .. 11], 0, 1) then "right" else show (r, there))
play ["sixteen", more] = do
  -- Sixteen workers are asked for, and there are descriptors for a few.
  refuse ("descriptors " <> more)
  (ys, report) <- parMapReporting (options "shm") {workers = Workers 16} (working 10) [1 .. 100]
  putStrLn (if ys == [2 .. 101] then "right" else "wrong")
  r <- report
  putStrLn (if reportWorkersStarted r > 0 && all ("another worker process" `isInfixOf`) (reportNotes r) then "workers" else show r)
play ["spares"] = do
  -- Threads of the run-time system that were for calls, more than it keeps, where no file can be opened.
  refuse "descriptors 0"
  called <- forM [1 .. 32 :: Int] $ \_ -> do
    done <- newEmptyMVar
    done <$ forkIO (c_usleep 50000 >> putMVar done ())
  mapM_ takeMVar called
  _ <- c_usleep 100000
  putStrLn "right"
play ["bound"] = do
  warm
  refuse "threads"
  ys <- parMapM (options "bound-threads") (working 10) [1 .. 100]
  putStrLn (if ys == [2 .. 101] then "right" else "wrong")
  hFlush stdout
  exitImmediately ExitSuccess
play ["files", kibibytes, name] = do
  refuse ("files " <> kibibytes)
  (ys, report) <- parMapReporting (options name) (\n -> [n .. n + 1000 :: Int]) [1 .. 100]
  putStrLn (if ys == [[n .. n + 1000] | n <- [1 .. 100]] then "right" else "wrong")
  r <- report
  print (reportInCaller r)
  mapM_ putStrLn (filter ("by copy" `isInfixOf`) (reportNotes r))
  pool <- withPool (options name) () (\p -> try (poolMap p (\() n -> n + 1) [1 .. 100 :: Int]))
  putStrLn (either (\e -> displayException (e :: SomeException)) (\zs -> if zs == [2 .. 101] then "right" else "wrong") pool)
play ["channel"] = do
  warm
  -- Less than 16 MiB of address space.
  c_space 8 >>= \r -> when (r /= 0) (throwIO (userError "no limit"))
  (channel, bytes) <- newLog (64 * 1024 * 1024 * 1024)
  Reserved to <- reserve channel 8
  poke to 7 >> commit channel 8 1 2
  got <- nextRecord channel
  print (bytes >= 1024 * 1024, fmap recordIndex got)
play ["asleep", what, name] = do
  let ys = parMapWith (options name) {idleSeconds = 0.3, window = Just 20} (working 10 . pausing 5) [1 .. 200]
  _ <- evaluate (sum (take 5 ys))
  refuse what
  gone <- try (eventually "the workers are ended" 5 (null <$> children))
  putStrLn (either (\e -> show (e :: SomeException)) (const "ended") gone)
  got <- try (evaluate (sum ys))
  putStrLn (either (\e -> displayException (e :: Unavailable)) (\n -> if n == sum [2 .. 201] then "right" else "wrong") got)
  hFlush stdout
  exitImmediately ExitSuccess
play ["refuse", what, name] = do
  refuse what
  -- Where one worker is lost, the others would do without it.
  let few = (options name) {workers = Workers (if what == "one-start" then 1 else 3)}
  ys <- parMapM few (working 10) [1 .. 100]
  putStrLn (if ys == [2 .. 101] then "right" else "wrong")
  hFlush stdout
  -- At its end glibc would abort without shared futexes, the run-time system
  -- complain about the threads that it may not start.
  exitImmediately ExitSuccess
play other = throwIO (userError ("no such scene: " <> unwords other))

-- | The program's run-time system has the threads that it wants: one that it is refused
-- before a map has begun would end the program.
warm :: IO ()
warm = do
  done <- replicateM 8 newEmptyMVar
  forM_ done $ \mark -> forkIO (c_usleep 100000 >> putMVar mark ())
  mapM_ takeMVar done

-- | Nothing in the program will ever end the wait of item 2.
deadlocked :: String -> Int -> Int
deadlocked what i = case what of
  _ | i /= 2 -> i
  "loop" -> effect $ do
    later <- newIORef 0
    let x = effect (readIORef later) :: Int
    writeIORef later (x + i)
    evaluate x
  "mvar" -> effect (newEmptyMVar >>= takeMVar)
  "stm" -> effect (atomically retry)
  _ -> effect ((newEmptyMVar >>= takeMVar) `catch` \e -> const (pure 100) (e :: BlockedIndefinitelyOnMVar))

-- | As many, counted on the stack.
deep :: Int -> Int
deep 0 = 0
deep n = 1 + deep (n - 1)
{-# NOINLINE deep #-}

options :: String -> Options
options name = maybe (error name) onBackend (backendFromName name)

results :: String -> (Int -> Int) -> IO ()
results name f = forM_ (parMapTry (options name) {policy = Retry 0} f [1, 2, 3]) $ \y ->
  putStrLn (either (\e -> "Left " <> takeWhile (/= '\n') (displayException (failedCause e))) (("Right " <>) . show) y)

-- | Prints its workers when there are three, then goes on for ever.
hang :: Options -> String -> IO ()
hang opts how = do
  never <- newEmptyMVar :: IO (MVar ())
  _ <- forkIO $ do
    _ <- eventually "three workers" 20 ((== 3) . length <$> children)
    threadDelay 300000
    children >>= putStrLn . unwords . map show
    hFlush stdout
  let ys = case how of
        "loop" -> parMapWith opts {chunking = Fixed 1} (endless :: Int -> Int) [1 .. 9]
        "call" -> parMapWith opts {chunking = Fixed 1} (sleeping 100) [1 .. 9]
        _ -> parMapWith opts {chunking = Fixed 1} (pausing 50) ([1 .. 9] <> effect (threadDelay 100000000 >> pure []))
  print =<< evaluate (sum ys)
  readMVar never

refuse :: String -> IO ()
refuse what = do
  r <- case what of
    "nothing" -> pure 0
    "space" -> c_space 1
    "little-space" -> c_space 200
    "processes" -> c_processes
    "forks" -> c_refuseForks
    "second" -> c_refuseSecond
    "first" -> 0 <$ c_refuseFirst
    "memfd" -> c_refuse 0
    "pidfd" -> c_refuse 1
    "futex" -> c_refuse 2
    "sockets" -> c_refuse 3
    "pages" -> c_refuse 4
    "threads" -> c_refuseThreads
    "pair" -> c_refuse 5
    "look" -> c_refuse 6
    "one-start" -> c_deafChild
    _ | ["files", kibibytes] <- words what, [(n, "")] <- reads kibibytes -> c_files n
    _ | ["descriptors", more] <- words what, [(n, "")] <- reads more -> c_descriptors n
    _ -> throwIO (userError ("no such refusal: " <> what))
  when (r /= 0) (throwIO (userError ("could not refuse " <> what <> ": error " <> show r)))
