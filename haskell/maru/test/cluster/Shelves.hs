{-# LANGUAGE OverloadedStrings #-}

-- | Items on their way to workers that are forked already: each is there as it was put, until it is
-- taken off; and memory is that of what is there.
module Shelves (tests) where

import Control.Monad
import Control.Monad.IO.Class (liftIO)
import qualified Data.ByteString as Bytes
import Data.IORef
import qualified Data.IntMap.Strict as IntMap
import Hedgehog
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru.Cluster.Shelf
import System.Exit (ExitCode (..))
import System.Posix.IO (closeFd, createPipe, fdRead, fdWrite)
import System.Posix.Process (exitImmediately, forkProcess, getProcessStatus)
import qualified System.Posix.Process as Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.Hedgehog (testPropertyNamed)

-- | An item of so many bytes; or the so-manieth of those that are there goes.
data Event = Put Int | Took Int
  deriving (Show)

event :: Gen Event
event = Gen.choice [Put <$> Gen.frequency [(8, Gen.int (Range.linear 0 300)), (1, Gen.int (Range.linear 0 200000))], Took <$> Gen.int (Range.linear 0 100)]

content :: Int -> Int -> Bytes.ByteString
content n size = Bytes.replicate size (fromIntegral (n `mod` 255 + 1))

tests :: TestTree
tests =
  testGroup
    "the shelf"
    [ testPropertyNamed "what is there is as it was put, whatever was taken off" "shelf" . withTests 100 . property $ do
        events <- forAll (Gen.list (Range.linear 0 300) event)
        shelf <- liftIO (newShelf (16 * 1024 * 1024))
        there <- liftIO (newIORef (0, IntMap.empty))
        forM_ events $ \e -> do
          (n, items) <- liftIO (readIORef there)
          case e of
            Put size -> do
              fits <- liftIO (shelve shelf (content n size))
              when fits (liftIO (writeIORef there (n + 1, IntMap.insert n size items)))
            Took k -> unless (IntMap.null items) $ do
              let (i, _) = IntMap.toList items !! (k `mod` IntMap.size items)
              liftIO (takeOff shelf i >> takeOff shelf i >> writeIORef there (n, IntMap.delete i items))
        (_, items) <- liftIO (readIORef there)
        [look shelf i | i <- IntMap.keys items] === [content i size | (i, size) <- IntMap.toList items]
        liftIO (freeShelf shelf),
      testCase "a process that was forked before sees what is put later" $ do
        shelf <- newShelf (1024 * 1024)
        (from, to) <- createPipe
        child <- forkProcess $ do
          _ <- fdRead from 1
          exitImmediately (if look shelf 0 == "later" then ExitSuccess else ExitFailure 1)
        _ <- shelve shelf "later"
        _ <- fdWrite to "!"
        status <- getProcessStatus True False child
        status @?= Just (Process.Exited ExitSuccess)
        mapM_ closeFd [from, to]
        freeShelf shelf,
      testCase "a full one refuses, and a freed one" $ do
        shelf <- newShelf 0
        fits <- replicateM 10 (shelve shelf (Bytes.replicate 60000 1))
        assertBool (show fits) (head fits && not (last fits))
        freeShelf shelf
        freeShelf shelf
        shelve shelf Bytes.empty >>= (@?= False)
        look shelf 0 @?= Bytes.empty,
      testCase "it takes the memory of what is there, beside one that stays" $ do
        shelf <- newShelf (1024 * 1024 * 1024)
        before <- sharedKib
        -- 400 MiB and 200000 places.
        forM_ [0 .. 199999] $ \n -> do
          _ <- shelve shelf (Bytes.replicate 2048 1)
          when (n > 100) (takeOff shelf (n - 50))
        after <- sharedKib
        look shelf 7 @?= Bytes.replicate 2048 1
        assertBool (show (before, after)) (after - before < 2048)
        freeShelf shelf
    ]

-- | Of shared pages, what this process has in memory.
sharedKib :: IO Int
sharedKib = do
  text <- readFile "/proc/self/status"
  pure (sum [read n | line <- lines text, ["RssShmem:", n, "kB"] <- [words line]])
