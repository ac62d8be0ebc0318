{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Actors behave alike as threads and as processes, whatever dies, and nothing is left.
--
-- @MARU_TEST_SCALE=n@ does n times as much.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Bifunctor (first)
import Data.Binary (Binary (..))
import qualified Data.ByteString.Char8 as Bytes
import qualified Data.ByteString.Internal as Bytes (fromForeignPtr)
import Data.List (isInfixOf, sortOn)
import Data.Maybe (catMaybes)
import Data.String (fromString)
import Foreign (free, mallocBytes)
import Foreign.Concurrent (newForeignPtr)
import Hedgehog (evalIO, forAll, property, (===))
import qualified Hedgehog.Gen as Gen
import qualified Hedgehog.Range as Range
import Maru
import Maru.Actor
import Maru.Actor.Wire
import System.Environment (getArgs, getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix.Process (executeFile, exitImmediately, forkProcess, getProcessID, getProcessStatus)
import qualified System.Posix.Process as Process (ProcessStatus (..))
import System.Posix.Signals (raiseSignal, sigKILL, sigSTOP, signalProcess)
import System.Posix.Types (CPid (..))
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.Hedgehog (HedgehogTestLimit (..), testPropertyNamed)
import Tools

main :: IO ()
main = getArgs >>= \arguments -> if arguments == ["alone"] then alone else suite

-- | Receives what nobody sends, and waits for actors that do.
alone :: IO ()
alone = do
  mine <- try (withMailbox (asInt . receive))
  its <- spawn Stm deserted >>= awaitEnding
  monitored <- withMailbox $ \box -> spawn Stm deserted >>= tellOf box >> receive box
  -- One that gets the message of another's end, and is deserted then.
  chained <- withMailbox $ \box -> do
    spawn Stm (\inbox -> spawn Stm deserted >>= tellOf inbox >> receive inbox >> void (receive inbox)) >>= tellOf box
    receive box
  -- Two that wait for each other's end: the second to give up may have heard of the first.
  other <- newEmptyMVar
  one <- spawn Stm (\inbox -> takeMVar other >>= tellOf inbox >> void (receive inbox))
  two <- spawn Stm (\inbox -> tellOf inbox one >> void (receive inbox))
  putMVar other two
  circular <- mapM awaitEnding [one, two]
  let told = [either (show :: Unavailable -> String) show mine, show its, monitored, chained, show circular]
  unless (all ("nobody is left" `isInfixOf`) told) (throwIO (userError (show told)))
  where
    deserted = void . asInt . receive
    tellOf :: Mailbox String -> Actor a -> IO ()
    tellOf box actor = monitor actor (address box) show

suite :: IO ()
suite = do
  -- What the first process leaves for those after it: descriptors of shared cores.
  withActor Shm (void . number) (void . awaitEnding)
  limit <- testLimit 60
  defaultMain . localOption limit $
    testGroup "actors" (wires : refusals : map onMedium [Stm, Shm, Sockets])
  where
    number :: Mailbox Int -> IO (Maybe Int)
    number = receiveWithin 0

onMedium :: Backend -> TestTree
onMedium medium =
  testGroup
    (show medium)
    ([order medium, tree medium, endings medium] <> [processes medium | medium /= Stm])

calm :: IO a -> IO a
calm = leavingNothing . within 50

-- Order and map ------------------------------------------------------------------

order :: Backend -> TestTree
order medium =
  testGroup
    "messages"
    [ localOption (HedgehogTestLimit (Just (fromIntegral (8 * scale)))) $
        testPropertyNamed "a map of actors is a map" (fromString "map") $
          property $ do
            xs <- forAll (Gen.list (Range.linear 0 60) (Gen.int (Range.linear 0 1000)))
            n <- forAll (Gen.int (Range.linear 1 4))
            got <- evalIO (mapOn medium n (\x -> replicate (x `mod` 7) x) xs)
            got === map (\x -> replicate (x `mod` 7) x) xs,
      testCase "of each sender arrive in its order, of all senders all" . calm . withMailbox $ \inbox -> do
        let talk who _ = forM_ [1 .. 400] (\n -> send (address inbox) (who, n))
        actors <- forM [1 .. 3 :: Int] (\who -> spawn medium (talk who :: Mailbox () -> IO ()))
        got <- replicateM 1200 (receive inbox)
        mapM_ awaitEnding actors
        [[n | (who, n) <- got, who == w] | w <- [1 .. 3]] @?= replicate 3 [1 .. 400 :: Int]
        more <- receiveWithin 0 inbox
        more @?= Nothing,
      testCase "are whole, from none to many bytes" . calm . withMailbox $ \inbox ->
        withActor medium (echo (address inbox)) $ \actor ->
          forM_ [0, 1, 100, 65536, 20000000] $ \n -> do
            send (actorAddress actor) (Bytes.replicate n 'm')
            back <- receive inbox
            assertBool (show n) (back == Bytes.replicate n 'm'),
      testCase "are evaluated by their sender" . calm . withMailbox $ \inbox ->
        withActor medium (echo (address inbox)) $ \actor -> do
          thrown <- try (send (actorAddress actor) [1, 2, throw Overflow :: Int])
          either Just (const Nothing) thrown @?= Just Overflow
          send (actorAddress actor) [3]
          receive inbox >>= (@?= [3]),
      testCase "come within a time, or not" . calm . withMailbox $ \inbox ->
        withActor medium (echo (address inbox)) $ \actor -> do
          none <- receiveWithin 0.05 inbox
          none @?= Nothing
          send (actorAddress actor) 'x'
          receiveWithin 20 inbox >>= (@?= Just 'x'),
      testCase "that are being decoded when a time limit interrupts come again, in their order" . calm . withMailbox $ \inbox -> do
        actor <- spawn medium (\m -> mapM_ (send (address inbox) . Slow) ["a", "b"] >> pure (unused m))
        awaitEnding actor >>= (@?= Returned)
        interrupted <- traverse (timeout 200000) [receive inbox, receiveWithin 20 inbox >>= maybe (assertFailure "none") pure]
        got <- replicateM (2 - length (catMaybes interrupted)) (receiveWithin 20 inbox)
        catMaybes (interrupted <> got) @?= map Slow ["a", "b"]
    ]
  where
    unused :: Mailbox () -> ()
    unused _ = ()

-- | Takes 0.6 s to decode.
newtype Slow = Slow String
  deriving (Eq, Show)

instance Binary Slow where
  put (Slow text) = put text
  get = get >>= \text -> let late = waiting text in length late `seq` pure (Slow late)

echo :: Binary a => Address a -> Mailbox a -> IO ()
echo to inbox = forever (receive inbox >>= send to)

-- | The seed's: slaves that are given one element at a time.
mapOn :: (Binary a, Binary b) => Backend -> Int -> (a -> b) -> [a] -> IO [b]
mapOn medium n f xs = withMailbox $ \answers -> do
  slaves <- replicateM n (spawn medium (slave (address answers)))
  zipWithM_ (\slave' (i, x) -> send (actorAddress slave') (i, x)) (cycle slaves) (zip [0 :: Int ..] xs)
  ys <- replicateM (length xs) (receive answers)
  mapM_ stop slaves
  pure (map snd (sortOn fst ys))
  where
    slave to inbox = forever (receive inbox >>= \(i, x) -> send to (i, f x))

-- Trees of processes ---------------------------------------------------------------

tree :: Backend -> TestTree
tree medium =
  testGroup
    "addresses"
    [ testCase "are messages: a ring of actors passes a token round" . calm . withMailbox $ \done -> do
        actors <- replicateM 4 (spawn medium link)
        let addresses = map actorAddress actors
        forM_ (zip addresses (drop 1 addresses <> take 1 addresses)) $ \(a, b) -> send a (Round (Left (b, address done)))
        mapM_ (\a -> send a (Round (Right 12))) (take 1 addresses)
        receive done >>= (@?= 0)
        mapM_ stop actors,
      testCase "lead to descendants and back" . calm . withMailbox $ \inbox ->
        withActor medium (parent medium (address inbox)) $ \_ -> do
          grandchild <- receive inbox >>= either pure (assertFailure . show)
          forM_ [1 .. 50 :: Int] (send grandchild)
          got <- replicateM 50 (receive inbox)
          [n | Right n <- got] @?= [1 .. 50 :: Int],
      testCase "of a mailbox that is gone take what is sent to nowhere" . calm $ do
        gone <- withMailbox (pure . address)
        send gone 'x'
        withMailbox $ \inbox -> withActor medium (\m -> send gone 'y' >> echo (address inbox) m) $ \actor -> do
          send (actorAddress actor) 'z'
          receive inbox >>= (@?= 'z'),
      testCase "of an actor that has ended keep no message" . calm $ do
        actor <- spawn medium (\m -> void (receiveWithin 0 m :: IO (Maybe Bytes.ByteString)))
        awaitEnding actor >>= (@?= Returned)
        freed <- newEmptyMVar
        memory <- mallocBytes 16
        bytes <- newForeignPtr memory (free memory >> putMVar freed ())
        send (actorAddress actor) (Bytes.fromForeignPtr bytes 0 16)
        let collected = performMajorGC >> threadDelay 10000 >> tryTakeMVar freed >>= maybe collected pure
        collected
        send (actorAddress actor) (Bytes.pack "its address is still held")
    ]

-- | What a link of the ring gets: where the token goes on, and where it goes in the end; the token.
newtype Round = Round (Either (Address Round, Address Int) Int)

instance Binary Round where
  put (Round r) = put r
  get = Round <$> get

link :: Mailbox Round -> IO ()
link inbox = receive inbox >>= \(Round r) -> either known (const (pure ())) r
  where
    known (next, done) = forever $ do
      Round token <- receive inbox
      either known (\n -> if n == 0 then send done 0 else send next (Round (Right (n - 1)))) token

parent :: Backend -> Address (Either (Address Int) Int) -> Mailbox () -> IO ()
parent medium to inbox = withActor medium child $ \actor -> do
  send to (Left (actorAddress actor))
  receive inbox
  where
    child m = forever (receive m >>= send to . Right)

-- Endings --------------------------------------------------------------------------

endings :: Backend -> TestTree
endings medium =
  testGroup
    "ends"
    [ testCase "by returning" . calm $ ends (\_ -> pure ()) >>= (@?= Returned),
      testCase "by an exception" . calm $ ends (\_ -> throwIO (ErrorCall "no more")) >>= (@?= Threw "no more"),
      testCase "by an exception whose text throws" . calm $
        ends (\_ -> throwIO (ErrorCall (error "text"))) >>= (@?= Threw "(its text throws, or has no end)"),
      testCase "by an exception whose text has no end" . calm $
        ends (\_ -> throwIO (ErrorCall (show (length [1 :: Integer ..])))) >>= (@?= Threw "(its text throws, or has no end)"),
      testCase "by an exception whose text waits for the processor, as any does on a loaded machine" . calm $
        ends (\_ -> throwIO (ErrorCall (waiting "late"))) >>= (@?= Threw "late"),
      testCase "by being stopped, once and again" . calm $ do
        actor <- spawn medium (void . asInt . receive)
        stop actor >> stop actor
        awaitEnding actor >>= (@?= Stopped),
      testCase "as a message, after all of its own" . calm . withMailbox $ \inbox -> do
        actor <- spawn medium (\m -> asInt (receive m) >>= \n -> forM_ [1 .. n] (send (address inbox) . Right))
        monitor actor (address inbox) (Left . show)
        send (actorAddress actor) 300
        got <- replicateM 301 (receive inbox)
        got @?= map Right [1 .. 300 :: Int] <> [Left "Returned"]
        monitor actor (address inbox) (Left . show)
        receive inbox >>= (@?= Left "Returned"),
      testCase "with the scope, whatever is thrown" . calm $ do
        thrown <- try (withActor medium (void . asInt . receive) (\_ -> throwIO Underflow))
        either Just (const Nothing) (thrown :: Either ArithException ()) @?= Just Underflow
    ]
  where
    ends act = spawn medium (act :: Mailbox () -> IO ()) >>= awaitEnding

waiting :: String -> String
waiting text = unsafePerformIO (threadDelay 600000 >> pure text)
{-# NOINLINE waiting #-}

asInt :: IO Int -> IO Int
asInt = id

processes :: Backend -> TestTree
processes medium =
  testGroup
    "processes"
    [ testCase "that are killed are lost, and what they sent is not" . calm $
        forM_ [1 .. 6 * scale] $ \i -> withMailbox $ \inbox -> do
          actor <- spawn medium (counting (address inbox))
          monitor actor (address inbox) Left
          pid <- receive inbox >>= either (assertFailure . show) pure
          threadDelay (137 * i `mod` 3000)
          signalProcess sigKILL (CPid (fromIntegral pid))
          got <- untilEnd inbox
          got @?= (take (length (fst got)) [1 ..], Lost (Killed 9)),
      testCase "that kill themselves are lost" . calm $ do
        actor <- spawn medium (\m -> asInt (receive m) >> raiseSignal sigKILL)
        send (actorAddress actor) 1
        awaitEnding actor >>= (@?= Lost (Killed 9)),
      testCase "that exit are lost" . calm $ do
        actor <- spawn medium (\m -> asInt (receive m) >> exitImmediately (ExitFailure 3))
        send (actorAddress actor) 1
        awaitEnding actor >>= (@?= Lost (Exited 3)),
      testCase "that are stopped by a signal are ended by stop" . calm $ do
        actor <- spawn medium (\m -> asInt (receive m) >> raiseSignal sigSTOP)
        send (actorAddress actor) 1
        stop actor
        awaitEnding actor >>= (@?= Stopped),
      testCase "end as stuck where only the parent could go on" . calm $ do
        let slow = unsafePerformIO (threadDelay 2000000 >> pure (show medium))
        _ <- forkIO (void (evaluate slow))
        threadDelay 100000
        actor <- spawn medium (\m -> void (evaluate slow) >> void (asInt (receive m)))
        ending <- awaitEnding actor
        case ending of
          Stuck why -> assertBool why ("a thread of the caller" `isInfixOf` why)
          other -> assertFailure (show other),
      testCase "whose child holds their end open are noticed all the same" . calm . withMailbox $ \inbox -> do
        actor <- spawn medium (\m -> leaveChild >>= send (address inbox) >> void (asInt (receive m)))
        orphan <- asInt (receive inbox)
        stop actor
        awaitEnding actor >>= (@?= Stopped)
        signalProcess sigKILL (CPid (fromIntegral orphan)),
      testCase "that are stopped while they are sent much, and a child holds their end, let go" . calm . withMailbox $ \inbox -> do
        actor <- spawn medium (\m -> leaveChild >>= send (address inbox) >> raiseSignal sigSTOP >> void (receive m :: IO Bytes.ByteString))
        orphan <- asInt (receive inbox)
        sent <- newEmptyMVar
        _ <- forkIO (send (actorAddress actor) (Bytes.replicate 20000000 'm') >> putMVar sent ())
        threadDelay 50000
        stop actor
        takeMVar sent
        signalProcess sigKILL (CPid (fromIntegral orphan)),
      testCase "have a map of their own" . calm . withMailbox $ \inbox ->
        withActor medium (\m -> receive m >>= parMapM (onBackend Shm) (* 2) >>= send (address inbox)) $ \actor -> do
          send (actorAddress actor) [1 .. 20 :: Int]
          receive inbox >>= (@?= map (* 2) [1 .. 20])
    ]
  where
    counting :: Address (Either Ending Int) -> Mailbox () -> IO ()
    counting to _ = do
      pid <- getProcessID
      send to (Right (fromIntegral pid))
      mapM_ (send to . Right) [1 ..]
    untilEnd inbox = do
      m <- receive inbox
      case m of
        Left ending -> pure ([], ending)
        Right n -> first (n :) <$> untilEnd inbox
    leaveChild = fromIntegral <$> forkProcess (threadDelay 30000000)

-- Refusals -------------------------------------------------------------------------

refusals :: TestTree
refusals =
  testGroup
    "refuses"
    [ testCase "to wait where nobody could send, and tells who waits for the end of one that does" . calm $ do
        -- In a program that does nothing else: another thread that could throw to this one may wake it.
        itself <- getExecutablePath
        child <- forkProcess (executeFile itself False ["alone"] Nothing)
        status <- getProcessStatus True False child
        status @?= Just (Process.Exited ExitSuccess),
      testCase "a mailbox that is gone" . calm $ do
        gone <- withMailbox pure
        late <- try (asInt (receive gone))
        assertBool (show late) ("has ended" `isInfixOf` either (show :: Unavailable -> String) show late),
      testCase "another back end" $ refused "cannot live on Threads" (spawn Threads (void . asInt . receive)),
      testCase "a mailbox of the parent, in its child" . calm . withMailbox $ \inbox -> do
        actor <- spawn Shm (\m -> asInt (receive inbox) >> receive m)
        ending <- awaitEnding actor
        case ending of
          Threw why -> assertBool why ("belongs to the process" `isInfixOf` why)
          other -> assertFailure (show other),
      testCase "a way from a process that it did not fork" . calm . withMailbox $ \inbox -> do
        child <- forkProcess $ do
          got <- try (send (address inbox) 'x')
          exitImmediately (either (\e -> if "forked otherwise" `isInfixOf` show (e :: Unavailable) then ExitSuccess else ExitFailure 1) (const (ExitFailure 2)) got)
        status <- getProcessStatus True False child
        status @?= Just (Process.Exited ExitSuccess)
    ]
  where
    refused why act = do
      got <- try (void act)
      case got of
        Left e -> assertBool (show (e :: BadOptions)) (why `isInfixOf` show e)
        Right () -> assertFailure "was not refused"

-- Wires ----------------------------------------------------------------------------

wires :: TestTree
wires =
  testGroup
    "a wire"
    [ localOption (HedgehogTestLimit (Just (fromIntegral (15 * scale)))) $
        testPropertyNamed "carries all frames in order, past the end of its log" (fromString "frames") $
          property $ do
            sizes <- forAll (Gen.list (Range.linear 0 200) (Gen.int (Range.exponential 0 3000)))
            logged <- forAll (Gen.element [Nothing, Just 4096, Just 65536, Just 1000000])
            lazy <- forAll Gen.bool
            got <- evalIO (carried logged lazy sizes)
            got === [(i, n) | (i, n) <- zip [0 ..] sizes]
    ]

-- | Sent by one thread, read by another; index and size.
carried :: Maybe Int -> Bool -> [Int] -> IO [(Int, Int)]
carried logged lazy sizes = within 50 $ do
  line <- newLine (fromIntegral <$> logged)
  out <- ourEnd line
  back <- theirEnd line
  let sending = forM_ (zip [0 ..] sizes) $ \(i, n) -> do
        sendFrame out (Frame i (Bytes.replicate n 'f'))
        when (lazy && i `mod` 7 == 0) (threadDelay 200)
  _ <- forkIO sending
  got <- forM sizes (\_ -> nextFrame back)
  hangUp back
  end <- nextFrame back
  closeWire out >> keepOurs line
  pure [(i, Bytes.length b) | Just (Frame i b) <- got <> [end]]
