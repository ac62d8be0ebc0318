{-# LANGUAGE StaticPointers #-}

-- | A program of many processes, for scripts/test.d/39-cluster.
--
-- > maru-test-cluster                         on this host alone, as cabal test starts it: is it map?
-- > maru-test-cluster sum ITEMS MICROSECONDS   the sum, after so long an item
-- > maru-test-cluster calls ITEMS MICROSECONDS   such sums until standard input ends; those that are wrong
-- > maru-test-cluster failing                  which item threw what
-- > maru-test-cluster lazy                     of a list without end
-- > maru-test-cluster killing                  item 5 kills its worker, always; by Retry 1 and by Fail
-- > maru-test-cluster child                    itself again, as a child: lazy
-- > maru-test-cluster straggler ITEMS          four items take 2 s, the others 1 ms; two workers
-- > maru-test-cluster big ITEMS BYTES          the length of so many results of so many bytes
-- > maru-test-cluster law CASES                how many cases of the law hold; those that do not
-- > maru-test-cluster laws                     which other laws do not hold
-- > maru-test-cluster forks ITEMS MICROSECONDS how many workers a call of such items had
-- > maru-test-cluster load ITEMS                of one call: the sum; bytes read and written, and ms of processor time, since the start
-- > maru-test-cluster closures CALLS           how many functions of as many calls compute something else there; those
-- > maru-test-cluster refused                  what should be refused and is not
-- > maru-test-cluster broken                   an environment whose codec throws where it arrives
-- > maru-test-cluster warm CALLS               milliseconds a call of one item: first, median, least
--
-- Behind failing, lazy, killing, law, laws and broken another one may stand, which comes next.
module Main (main) where

import Closures (unrefused, wrong)
import Control.Concurrent (forkIO, isEmptyMVar, newEmptyMVar, putMVar, threadDelay)
import Control.Exception
import Control.Monad
import qualified Data.ByteString as Bytes
import Data.List (isInfixOf, sort)
import GHC.Clock (getMonotonicTimeNSec)
import Lawful (broken, unheld)
import Maru
import Maru.Cluster
import Maru.Codec (Codec (..))
import System.CPUTime (getCPUTime)
import System.Environment (getArgs, getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Process hiding (Exited)
import qualified System.Posix.Process as Process
import System.Posix.Signals (sigKILL, signalProcess)

-- | The square, after so many microseconds of waiting.
square :: Remote Int Int Int
square = remoteWith (\us n -> unsafePerformIO (threadDelay us) `seq` n * n)

odd' :: Remote () Int Int
odd' = remote (\n -> if n `mod` 10 == 7 then throw (userError ("seven: " <> show n)) else if n == 3 then 1 `div` (n - 3) else n)

straggling :: Remote () Int Int
straggling = remote (\n -> unsafePerformIO (threadDelay (if n `elem` [1, 100, 200, 300] then 2000000 else 1000)) `seq` n)

large :: Remote Int Int Bytes.ByteString
large = remoteWith (\size n -> Bytes.replicate size (fromIntegral n))

deadly :: Remote () Int Int
deadly = remote (\n -> if n == 5 then unsafePerformIO (getProcessID >>= signalProcess sigKILL >> n <$ threadDelay 10000000) else n)

unreadable :: Remote () Int Int
unreadable = remoteVia (Codec (const mempty) (const (errorWithoutStackTrace "unreadable"))) binary binary (const id)

-- | Is their sum right? Whatever an item's processes die of, others evaluate it.
squares :: Int -> [Int] -> IO Bool
squares us xs = (== sum (map (\n -> n * n) xs)) <$> evaluate (sum (parMapOnWith defaultOptions {policy = Retry 20} (static square) us xs))

main :: IO ()
main = withCluster $ hSetBuffering stdout LineBuffering >> getArgs >>= job

job :: [String] -> IO ()
job arguments =
  case arguments of
    [] -> unless (parMapOn (static (remote (+ 1))) [1 .. 9 :: Int] == [2 .. 10]) (throwIO (userError "it is not map"))
    ["sum", items, us] -> do
      (xs, look) <- parMapOnReporting defaultOptions (static square) (read us) [1 .. read items]
      putStrLn "begun"
      print (sum xs)
      notes <- reportNotes <$> look
      -- Whole, for mpirun passes on what it has of standard output and error at any time.
      hSetBuffering stderr LineBuffering
      forM_ notes $ \n -> when ("lost" `isInfixOf` n) (hPutStrLn stderr ("note: " <> n))
    ["calls", items, us] -> do
      over <- newEmptyMVar
      _ <- forkIO (getContents >>= evaluate . length >>= putMVar over)
      putStrLn "begun"
      let go k = do
            right <- squares (read us) [k .. k + read items]
            unless right (putStrLn ("call " <> show k <> " is wrong"))
            more <- isEmptyMVar over
            if more then go (k + 1) else putStrLn "ended"
      go 1
    "failing" : more -> do
      forM_ (zip [0 :: Int ..] (parMapOn (static odd') [0 .. 9])) $ \(i, x) -> do
        got <- try (evaluate x)
        putStrLn (show i <> " " <> either describe show got)
      next more
    "lazy" : more -> do
      print (sum (takeWhile (< 1000000) (parMapOnWith defaultOptions (static square) 0 [1 ..])))
      next more
    "killing" : more -> do
      let xs = parMapOnWith defaultOptions {policy = Retry 1} (static deadly) () [0 .. 9]
      got <- mapM (try . evaluate) xs
      print [either (negate . lostIndex) id g | g <- got]
      whole <- try (evaluate (sum (parMapOnWith defaultOptions {policy = Fail} (static deadly) () [0 .. 9])))
      print (either (negate . lostIndex) id whole)
      next more
    ["straggler", items] -> do
      putStrLn "begun"
      print (sum (parMapOnWith defaultOptions {workers = Workers 2, window = Just 50000} (static straggling) () [1 .. read items]))
    ["forks", items, us] -> do
      (xs, look) <- parMapOnReporting defaultOptions (static square) (read us) [1 .. read items]
      _ <- evaluate (sum xs)
      report <- look
      print (reportWorkersStarted report)
      -- Why there were more.
      mapM_ (hPutStrLn stderr . ("note: " <>)) (reportNotes report)
    ["load", items] -> do
      print (sum (parMapOnWith defaultOptions (static square) 1000 [1 .. read items]))
      io <- lines <$> readFile "/proc/self/io"
      cpu <- getCPUTime
      print (sum [read n | line <- take 2 io, n <- drop 1 (words line)] :: Int, cpu `div` 1000000000)
    ["warm", calls] -> do
      took <- forM [1 .. read calls] $ \n -> do
        start <- getMonotonicTimeNSec
        _ <- evaluate (sum (parMapOnWith defaultOptions (static square) 0 [n]))
        end <- getMonotonicTimeNSec
        pure (fromIntegral (end - start) / 1000000 :: Double)
      print (take 1 took, sort took !! (length took `div` 2), minimum took)
    ["closures", calls] -> do
      failures <- wrong (read calls)
      mapM_ putStrLn failures
      putStrLn (show (length failures) <> " differ")
    ["refused"] -> do
      failures <- unrefused
      mapM_ putStrLn failures
      putStrLn (show (length failures) <> " were not refused")
    "broken" : more -> do
      got <- try (evaluate (sum (parMapOnWith defaultOptions (static unreadable) () [1 .. 9])))
      putStrLn (either describe show got)
      next more
    "law" : cases : more -> do
      failures <- broken (read cases)
      mapM_ putStrLn failures
      putStrLn (show (read cases - length failures) <> " cases hold")
      next more
    "laws" : more -> do
      unheld >>= mapM_ putStrLn
      putStrLn "laws"
      next more
    ["child"] -> do
      itself <- getExecutablePath
      ended <- forkProcess (executeFile itself False ["lazy"] Nothing) >>= getProcessStatus True False
      unless (ended == Just (Process.Exited ExitSuccess)) (throwIO (userError ("the child: " <> show ended)))
    ["big", items, size] -> do
      let xs = parMapOnWith defaultOptions (static large) (read size) [1 .. read items]
      forM_ (zip [0 :: Int ..] xs) $ \(i, x) -> when (i == 10) (putStrLn "begun") >> void (evaluate (Bytes.length x))
      print (length xs)
    _ -> hPutStrLn stderr "maru-test-cluster: see its source" >> throwIO (userError "usage")
  where
    next more = unless (null more) (job more)
    describe e
      | Just call <- fromException e = "ErrorCall " <> displayException (call :: ErrorCall)
      | Just io <- fromException e = "IOException " <> show (io :: IOException)
      | Just a <- fromException e = "ArithException " <> show (a :: ArithException)
      | otherwise = show (e :: SomeException)
