-- | Kills workers with @kill -9@ all the time, and gets every result all the same.
module Main (main) where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Exception (SomeException, try)
import Control.Monad (forever)
import Data.IORef
import Maru
import System.Directory (listDirectory)
import System.Posix.Signals (sigKILL, signalProcess)
import System.Posix.Types (ProcessID)

main :: IO ()
main = do
  killed <- newIORef (0 :: Int)
  killer <- forkIO . forever $ do
    threadDelay 50000
    victims <- take 1 <$> children
    mapM_ (signalProcess sigKILL) victims
    modifyIORef' killed (+ length victims)
  results <- parMapM options collatz items
  killThread killer
  deaths <- readIORef killed
  putStrLn ("workers were killed: " <> show (deaths > 0))
  putStrLn ("every result is right: " <> show (results == map collatz items))
  where
    options = defaultOptions {backend = Shm, workers = Workers 2, policy = Retry 100}
    items = [1, 20001 .. 800001]

-- | The length of the longest Collatz sequence that starts in the next 20 000 numbers.
collatz :: Int -> Int
collatz from = maximum (map (size 1) [from .. from + 19999])
  where
    size :: Int -> Int -> Int
    size n 1 = n
    size n k = size (n + 1) (if even k then k `div` 2 else 3 * k + 1)

-- | The processes that this one has forked, as the kernel knows them.
children :: IO [ProcessID]
children = do
  threads <- listDirectory "/proc/self/task"
  concat <$> mapM of_ threads
  where
    -- A thread may have ended since it was listed.
    of_ thread = either none (map read . words) <$> try (readFile ("/proc/self/task/" <> thread <> "/children") >>= forced)
    forced text = length text `seq` pure text
    none :: SomeException -> [ProcessID]
    none _ = []
