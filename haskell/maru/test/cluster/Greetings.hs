-- | How a peer is let in: one that knows the secret and runs the same program, and no other.
module Greetings (tests) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar
import Control.Monad (void)
import Data.Bifunctor (first)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Char8 as Char8
import Maru.Cluster.Frame
import Maru.Cluster.Greeting
import Maru.Native.Ranks (freshBytes, layout, program, proof)
import Maru.Native.Stream (newStreamPair)
import Subject (within)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

-- | Both ends of a new wire.
wires :: IO (Wire, Wire)
wires = do
  (one, other) <- newStreamPair
  (,) <$> wireOn one <*> wireOn other

-- | What both sides of a greeting come to: the peer's secret, the coordinator's.
meet :: Bytes.ByteString -> Bytes.ByteString -> Verdict -> IO (Either String Verdict, Maybe (Int, Verdict))
meet theirs ours verdict = do
  (one, other) <- wires
  came <- newEmptyMVar
  _ <- forkIO $ do
    greeted <- greetPeer greetingSeconds ours (const (pure verdict)) other
    -- As the callers do with a stranger.
    maybe (hangUp other) (const (pure ())) greeted
    putMVar came greeted
  said <- within 10 (greetCoordinator Nothing theirs (Card 3 2 mempty mempty) one)
  heard <- within 10 (takeMVar came)
  hangUp one
  pure (said, first cardRank <$> heard)

tests :: TestTree
tests =
  testGroup
    "greetings"
    [ testCase "who knows the secret is let in, and told what the coordinator decided" $ do
        secret <- freshBytes 32
        meet secret secret (Welcome True) >>= (@?= (Right (Welcome True), Just (3, Welcome True)))
        meet secret secret OtherProgram >>= (@?= (Right OtherProgram, Just (3, OtherProgram))),
      testCase "who knows another secret is told nothing" $ do
        secret <- freshBytes 32
        other <- freshBytes 32
        meet other secret (Welcome True) >>= (@?= (Left "it hung up: it has ended, or knows another secret", Nothing)),
      testCase "a coordinator that hangs up before it said anything is not taken for one with another secret" $ do
        (one, other) <- wires
        secret <- freshBytes 32
        hangUp other
        said <- within 10 (greetCoordinator Nothing secret (Card 1 1 mempty mempty) one)
        said @?= Left "it hung up before it said anything: it has ended, or has no room",
      testCase "a coordinator that knows another secret is found out" $ do
        (one, other) <- wires
        secret <- freshBytes 32
        -- It says that all is well, whatever it hears.
        _ <- forkIO $ do
          _ <- nextShort other
          freshBytes 32 >>= sendFrame other . Frame Greets 0 0
          _ <- nextShort other
          freshBytes 41 >>= sendFrame other . Frame Greets 0 0
        said <- within 10 (greetCoordinator Nothing secret (Card 1 1 mempty mempty) one)
        said @?= Left "it does not know the job's secret",
      testCase "what was said in one connection opens no other" $ do
        secret <- freshBytes 32
        (one, other) <- wires
        (replayed, listening) <- wires
        told <- newEmptyMVar
        _ <- forkIO (greetPeer greetingSeconds secret (const (pure (Welcome True))) listening >>= putMVar told)
        -- A third one between them that has heard a card elsewhere.
        _ <- forkIO (void (greetCoordinator Nothing secret (Card 1 1 mempty mempty) one))
        Just nonce <- nextShort other
        freshBytes 32 >>= sendFrame other . Frame Greets 0 0
        Just card <- nextShort other
        sendFrame replayed nonce
        _ <- nextShort replayed
        sendFrame replayed card
        heard <- within 10 (takeMVar told)
        fmap snd heard @?= Nothing,
      testCase "noise is a stranger's, and costs no memory" $ do
        (one, other) <- wires
        _ <- forkIO (sendFrame one (Frame Greets 0 0 (Bytes.replicate 100000 7)))
        secret <- freshBytes 32
        heard <- within 10 (greetPeer greetingSeconds secret (const (pure (Welcome True))) other)
        fmap snd heard @?= Nothing,
      testCase "one that takes its time is let in where there is time, and not where there is none" $ do
        secret <- freshBytes 32
        let slow seconds = do
              (one, other) <- wires
              came <- newEmptyMVar
              _ <- forkIO (greetPeer seconds secret (const (threadDelay 1500000 >> pure (Welcome True))) other >>= putMVar came)
              said <- within 20 (greetCoordinator (Just seconds) secret (Card 1 1 mempty mempty) one)
              heard <- within 20 (takeMVar came)
              pure (said, snd <$> heard)
        slow 1 >>= (@?= (Left "it does not answer in 1 s", Nothing))
        slow 19 >>= (@?= (Right (Welcome True), Just (Welcome True))),
      testCase "a proof is HMAC-SHA-256" $
        -- RFC 4231, test case 6's kind by our own program would prove nothing: a known sum.
        hex (proof (Bytes.replicate 20 0x0b) (Char8.pack "Hi There"))
          @?= "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
      testCase "a program is the same as itself, in any process" $ do
        one <- program
        again <- program
        place <- layout
        one @?= again
        assertBool "it says nothing" (Bytes.length one == 32 && one /= Bytes.replicate 32 0 && place /= one)
    ]
  where
    hex = concatMap (\w -> [digit (w `div` 16), digit (w `mod` 16)]) . Bytes.unpack
    digit n = "0123456789abcdef" !! fromIntegral n
