-- | What several threads say at once can be read.
module Lines (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (bracket, evaluate, finally)
import Control.Monad
import Data.List (sort)
import Maru.Internal.Say (sayLine)
import System.IO
import System.Posix.IO
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = testCase "lines of several threads are whole" $ do
  heard <- said $ do
    done <- replicateM 4 newEmptyMVar
    forM_ (zip [1 :: Int ..] done) $ \(k, d) -> forkIO (replicateM_ 50 (sayLine (line k)) `finally` putMVar d ())
    mapM_ takeMVar done
  sort (lines heard) @?= concatMap (replicate 50 . line) [1 .. 4 :: Int]
  where
    line k = "maru: peer " <> show k <> " says \233 " <> replicate 60 'x'

-- | What goes to standard error meanwhile.
said :: IO () -> IO String
said act = do
  (from, to) <- createPipe
  heard <- newEmptyMVar
  input <- fdToHandle from
  hSetEncoding input utf8
  _ <- forkIO $ do
    text <- hGetContents input
    _ <- evaluate (length text)
    putMVar heard text
  bracket (dup stdError) (\old -> dupTo old stdError >> closeFd old) (const (dupTo to stdError >> closeFd to >> act))
  takeMVar heard
