-- | Streams give what the descriptor has, in order, and errors behind it.
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Exception (IOException, try)
import Control.Monad (forM_, void)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import Maru.Native.Open (openExisting)
import Maru.Stream
import System.Directory (removeFile)
import System.IO (SeekMode (AbsoluteSeek), hClose, openBinaryTempFile)
import System.Posix.IO
import Test.Tasty
import Test.Tasty.HUnit

main :: IO ()
main =
  defaultMain . testGroup "streams" $
    [ testCase "a file, in blocks of any size" . withData $ \fd content ->
        forM_ [(0, 0), (1000, 2), (4096, 7), (1000000, 3)] $ \(bytes, blocks) -> do
          void (fdSeek fd AbsoluteSeek 0)
          parts <- withStreamOf bytes blocks fd collect
          ByteString.concat parts @?= content,
      testCase "without a copy" . withData $ \fd content -> do
        let sizes stream total = withNext stream (pure . ByteString.length) >>= maybe (pure total) (sizes stream . (total +))
        size <- withStream fd (`sizes` 0)
        size @?= ByteString.length content,
      testCase "left in the middle" . withData $ \fd content -> do
        first <- withStreamOf 100 2 fd next
        first @?= ByteString.take 100 content,
      testCase "a pipe, and its end" $ do
        (readEnd, writeEnd) <- createPipe
        void . forkIO $ forM_ [1 .. 50 :: Int] (const (fdWrite writeEnd (replicate 1000 'x'))) >> closeFd writeEnd
        parts <- withStreamOf 300 4 readEnd collect
        ByteString.concat parts @?= Char8.replicate 50000 'x'
        closeFd readEnd,
      testCase "a pipe that nobody writes to can be left" $ do
        (readEnd, writeEnd) <- createPipe
        withStream readEnd (const (pure ()))
        mapM_ closeFd [readEnd, writeEnd],
      testCase "errors are the system's" $ do
        folder <- openExisting "/" ReadOnly
        said <- try (withStream folder next)
        said `says` "Is a directory"
        closeFd folder
        closed <- try (withStream folder next)
        closed `says` "Bad file descriptor"
        wrong <- try (withStreamOf (-1) 4 folder next)
        wrong `says` "Invalid argument"
    ]
  where
    says :: Either IOException ByteString.ByteString -> String -> Assertion
    says found words' = either (\e -> assertBool (show e) (words' `isInfixOf` show e)) (assertFailure . show) found
    collect stream = next stream >>= \part -> if ByteString.null part then pure [] else (part :) <$> collect stream
    withData action = do
      (path, handle) <- openBinaryTempFile "/tmp" "maru-stream"
      let content = ByteString.pack [fromIntegral (i * i `div` 7) | i <- [1 .. 300000 :: Int]]
      ByteString.hPut handle content
      hClose handle
      fd <- openExisting path ReadOnly
      removeFile path
      () <- action fd content
      closeFd fd
