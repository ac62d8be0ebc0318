{-# LANGUAGE StaticPointers #-}

-- | What a peer can do that is not trusted: a VM that says what no process of ours would.
module Strangers (tests) where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Exception
import Control.Monad (forM_, unless, void, when)
import Data.Binary (encode)
import qualified Data.ByteString as Bytes
import Data.ByteString.Builder
import qualified Data.ByteString.Lazy as Lazy
import GHC.Conc (atomically, retry)
import Maru
import Maru.Backend.Process.Wire (packException, packExceptionText)
import Maru.Cluster.Call (startCall)
import Maru.Cluster.Frame
import Maru.Cluster.Peers hiding (Handler)
import Maru.Cluster.Remote
import Maru.Cluster.Serve (Block (..))
import Maru.Internal.Engine (Order (..), Running (..))
import Maru.Internal.Start (values)
import Maru.Native.Stream (newStreamPair)
import Subject (within)
import System.IO (hClose, hFlush)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.IO (dup, fdToHandle)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

double :: Remote () Int Int
double = remote (* 2)

-- | A call of one item, whose peer is given up after so many silent seconds, and answers its block by
-- these bytes one after another. What it comes to, and the report's notes.
called :: Maybe Int -> Trust -> (Int -> [IO Builder]) -> IO (Either SomeException Int, [String])
called patience trust answers = do
  (one, other) <- newStreamPair
  raw <- dup (fromIntegral other) >>= fdToHandle
  ours <- wireOn one
  theirs <- wireOn other
  cluster <- newCluster ByMachines
  addPeer cluster 1 "a VM of the tests" 1 ours patience trust (hangUp theirs)
  let speak = nextFrame theirs >>= mapM_ heard
      heard (Frame Items call _ _) = forM_ (answers call) (>>= \bytes -> hPutBuilder raw bytes >> hFlush raw) >> speak
      heard (Frame Leaves _ _ _) = hangUp theirs
      heard _ = speak
  void (forkIO speak)
  bracket (forkIO (watchPeers cluster)) killThread $ \_ -> do
    running <- startCall cluster Vm defaultOptions Ordered (static double) () [21]
    got <- within 20 (try (evaluate (sum (values running))))
    notes <- reportNotes <$> report running
    dismissPeers cluster
    (got, notes) <$ hClose raw

-- | What it throws, where the peer answers with these frames.
answered :: Trust -> [Int -> Frame] -> IO SomeException
answered trust answers = do
  (got, _) <- called Nothing trust (\call -> map (pure . bytesOf . ($ call)) answers)
  either pure (assertFailure . ("it has an answer: " <>) . show) got

-- | As 'sendFrame' sends it.
bytesOf :: Frame -> Builder
bytesOf (Frame kind call index body) =
  word8 (fromIntegral (fromEnum kind)) <> word32BE (fromIntegral call) <> word64BE (fromIntegral index) <> word64BE (fromIntegral (Bytes.length body)) <> byteString body

-- | Of a block with that note.
reported :: String -> Int -> Frame
reported note call = Frame Done call 0 (Lazy.toStrict (encode (Block 1 1 1 0 0 [note])))

-- | What a call throws that has one peer, which is lost before the call, or while the call evaluates its
-- environment.
lost :: Bool -> IO SomeException
lost before = do
  (one, other) <- newStreamPair
  ours <- wireOn one
  theirs <- wireOn other
  cluster <- newCluster ByMachines
  addPeer cluster 1 "a VM of the tests" 1 ours Nothing Elsewhere (pure ())
  let lose = hangUp theirs >> atomically (alive cluster >>= \left -> unless (null left) retry)
  when before lose
  got <- within 20 . try $ do
    running <- startCall cluster Vm defaultOptions Ordered (static plus) (unsafePerformIO (1 <$ lose)) [21]
    evaluate (sum (values running))
  either pure (assertFailure . ("it has an answer: " <>) . show) got

plus :: Remote Int Int Int
plus = remoteWith (+)

tests :: TestTree
tests =
  testGroup
    "strangers"
    [ testCase "a call fails where the last peer is lost already, or is lost while the call begins" $
        forM_ [True, False] $ \before -> do
          e <- lost before
          fmap unavailableWhy (fromException e) @?= Just "all of them were lost",
      testCase "an exception in the heap's bytes is read from a process like ours alone" $ do
        typed <- packException (toException DivideByZero)
        alike <- answered Alike [\call -> Frame Threw call 0 typed]
        fromException alike @?= Just DivideByZero
        forM_ [Elsewhere, Stranger 4096] $ \trust -> forM_ [Threw, Fails] $ \kind -> do
          e <- answered trust [\call -> Frame kind call 0 typed]
          fmap remoteText (fromException e) @?= Just "(its record is damaged)",
      testCase "an item that was lost in a process of another layout, or in a VM, is lost here, too; its exceptions are text" $ do
        gone <- packExceptionText (toException (WorkerLost 5 1 (Killed 9) 2))
        text <- packExceptionText (toException DivideByZero)
        forM_ [Elsewhere, Stranger 4096] $ \trust -> do
          e <- answered trust [\call -> Frame Threw call 0 gone]
          fromException e @?= Just (WorkerLost 5 1 (Killed 9) 2)
          told <- answered trust [\call -> Frame Threw call 0 text]
          fmap remoteText (fromException told) @?= Just "divide by zero",
      testCase "a frame that is larger than the peer's memory is the peer's end" $ do
        e <- answered (Stranger 4096) [\call -> Frame Result call 0 (Bytes.replicate 4097 0)]
        fmap unavailableWhy (fromException e) @?= Just "all of them were lost",
      testCase "a peer that sends a large frame slowly is not silent meanwhile" $ do
        -- A header of 21 bytes; the other eight take four seconds.
        let frame call = Lazy.splitAt 21 (toLazyByteString (bytesOf (Frame Result call 0 (Lazy.toStrict (encode (42 :: Int))))))
            slowly (header, body) = pure (lazyByteString header) : [word8 b <$ threadDelay 500000 | b <- Lazy.unpack body]
        (got, _) <- called (Just 2) (Stranger 4096) (slowly . frame)
        either (assertFailure . show) (@?= 42) got,
      testCase "a peer's notes are short, and a report is no larger than they are" $ do
        let notes text = snd <$> called Nothing (Stranger (64 * 1024 * 1024)) (\call -> [pure (bytesOf (reported text call) <> bytesOf (Frame Threw call 0 mempty))])
        notes (replicate 400000 'n') >>= (@?= ["a VM of the tests sent a report that cannot be true"])
        notes (replicate 200000 'n') >>= (@?= [replicate 1000 'n']),
      testCase "frames of no call, of no item and of no kind of answer change nothing" $ do
        e <- answered (Stranger 4096) ([\call -> Frame kind (call + n) i noise | kind <- [minBound ..], kind /= Fails, n <- [0, 7], i <- [-1, 5], noise <- [mempty, Bytes.replicate 99 255]] <> [\call -> Frame Threw call 0 mempty])
        fmap remoteText (fromException e) @?= Just "(its record is empty)"
    ]
