{-# LANGUAGE DeriveGeneric #-}

-- | Actors that are processes: their birth, their life and their end. /Internal/.
module Maru.Actor.Process
  ( Ending (..),
    Child,
    childPath,
    startProcess,
    stopProcess,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Binary (Binary)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.Word (Word16, Word32)
import Foreign (castPtr)
import Foreign.C (CInt)
import GHC.Generics (Generic)
import GHC.IO (unsafeUnmask)
import GHC.IO.Handle.Internals (flushWriteBuffer)
import GHC.IO.Handle.Types (Handle (..))
import Maru.Actor.Node
import Maru.Actor.Wire
import Maru.Backend.Process.Birth (bear)
import Maru.Backend.Process.Wire (packText, unpackText)
import Maru.Failure
import Maru.Internal.Attempt (textOf)
import Maru.Internal.Budget (enterWorker, shareMachine)
import Maru.Native.Log (Record (..))
import Maru.Native.Pen (newPen, penDown, penOnSocket, penUp)
import Maru.Native.Process
import Maru.Native.Rts
import Maru.Native.Stream
import Maru.Native.Totals (sayOnBoard)
import System.IO (hFlush, stderr, stdout)
import System.Posix.Types (ProcessID)

-- | How an actor ended.
data Ending
  = -- | Its behaviour returned.
    Returned
  | -- | Its behaviour threw that.
    Threw !String
  | -- | By 'Maru.Actor.stop'.
    Stopped
  | -- | Its process ended otherwise: it was killed, say.
    Lost !Death
  | -- | Its process waited for what can come in its parent alone; what that was.
    Stuck !String
  deriving (Eq, Show, Generic)

instance Binary Ending

-- | A process actor, as its parent sees it.
data Child = Child
  { -- | Of its process.
    childPath :: !Path,
    childProcess :: !Process,
    childStopped :: !(IORef Bool),
    -- | 'False': its number may be another process's.
    childThere :: !(MVar Bool)
  }

-- | Kills it.
stopProcess :: Child -> IO ()
stopProcess child = do
  writeIORef (childStopped child) True
  withMVar (childThere child) (`when` killNow (childProcess child))

-- Birth ------------------------------------------------------------------------

-- Kinds of the one record that says how a behaviour ended.
returned, threw, stuck :: Word16
returned = 1
threw = 2
stuck = 3

-- | @startProcess shared node ended prepare@, masked. The child prepares its mailbox, then messages
-- come, then it does what it has prepared. Throws 'Unavailable'.
startProcess :: Bool -> Node -> (Ending -> IO ()) -> (Node -> IO (IO ())) -> IO Child
startProcess shared node ended prepare = do
  hazard <- forkHazard
  for_ (hazard <|> plain) $ \why -> throwIO (Unavailable "an actor in a process of its own" why "use Stm")
  shareMachine
  number <- freshNumber node
  line <- newLine (if shared then Just logBytes else Nothing)
  (report, theirReport) <- newStreamPair `onException` abandonLine line
  let path = childOf node number
      undo = abandonLine line >> closeStream report >> closeStream theirReport
  self' <- openPidfd (nodeProcess node)
  (process, less) <-
    withOutputs (\back -> bear (theirReport : lineDescriptors line) (live back (nodeProcess node) self' path line theirReport prepare) `catch` refused)
      `onException` (undo >> closePidfd self')
  closePidfd self' >> closeStream theirReport >> keepOurs line
  traverse_ sayOnBoard less
  haveWorkers 1
  wire <- ourEnd line
  adopt node number wire
  child <- Child path process <$> newIORef False <*> newMVar True
  child <$ forkIO (tend node number child wire report ended)
  where
    plain = if rtsSupportsBoundThreads then Nothing else Just "the program is not linked with -threaded"
    refused e = throwIO (Unavailable "an actor in a process of its own" (exceptionText (toException (e :: IOException))) "look at `ulimit -u`, `ulimit -n`, memory limits and `maru doctor`; or use Stm")

-- Address space each way, not memory.
logBytes :: Num n => n
logBytes = 64 * 1024 * 1024 * 1024

-- In the child; never returns.
live :: IO () -> ProcessID -> CInt -> Path -> Line -> CInt -> (Node -> IO (IO ())) -> Snapshot -> IO ()
live outputs parent parentPidfd path line report prepare snapshot = do
  -- In this order: see Maru.Backend.Process.Worker.
  prepareChild
  watched <- dieWith parent parentPidfd
  unless watched (exitNow 71)
  sealed <- sealSnapshot snapshot
  unless sealed (exitNow 72)
  workerSignals >> hearSignals
  enterWorker 1
  outputs
  outcome <- try $ do
    wire <- theirEnd line
    node <- becomeChild path wire
    pen <- newPen 70 stuck stuck
    penOnSocket pen report
    behaviour <- prepare node
    _ <- forkIO (relay node wire `catch` deaf)
    penDown pen stuck 0
    result <- try (unsafeUnmask behaviour)
    penUp pen
    _ <- try (hFlush stdout >> hFlush stderr) :: IO (Either IOException ())
    either (textOf >=> say threw) (const (say returned "")) result
  exitNow (either (\SomeException {} -> 70) (const 0) outcome)
  where
    -- Nothing more would be heard here, and its receives would wait for ever.
    deaf e = textOf e >>= say threw >> exitNow 70
    say kind text = Unsafe.unsafeUseAsCStringLen (packText text) $ \(from, n) ->
      void (sendRecord report 0 kind from n)

-- | Standard output and error are empty, and no thread has them, while the action forks: a child
-- would write once more what is buffered, and wait for ever for a thread that it has not. With
-- what gives them back in the child.
withOutputs :: (IO () -> IO a) -> IO a
withOutputs act = held stdout $ \out -> held stderr $ \err -> act (out >> err)
  where
    held (FileHandle _ m) = holding m
    held (DuplexHandle _ _ m) = holding m
    holding m inner = bracket (takeMVar m) (putMVar m) $ \h -> do
      _ <- try (flushWriteBuffer h) :: IO (Either IOException ())
      inner (putMVar m h)

-- Life -------------------------------------------------------------------------

-- Passes its messages on until it has ended; then says how.
tend :: Node -> Int -> Child -> Wire -> CInt -> (Ending -> IO ()) -> IO ()
tend node number child wire report ended = do
  unwatched <- newEmptyMVar
  watcher <- forkIO (watch (childProcess child) `finally` putMVar unwatched ())
  heard <- try (unsafeUnmask (relay node wire))
  -- What it waits for must be open until it has left.
  killThread watcher >> takeMVar unwatched
  disown node number
  -- It is ending, or it has closed its side: nothing more could be heard of it.
  death <- modifyMVar (childThere child) (\_ -> (,) False <$> endNow (childProcess child))
  said <- lastWords report
  stopped <- readIORef (childStopped child)
  closeWire wire >> forget (childProcess child)
  haveWorkers (-1)
  unheard <- either (fmap Just . textOf) (const (pure Nothing)) heard
  ended $ case (said, unheard) of
    (Just words', _) -> meaning words'
    (_, Just why) -> Threw why
    _ -> if stopped then Stopped else Lost death
  where
    -- A third process may hold the other end of the wire.
    watch (Process _ pidfd _) = when (pidfd >= 0) (threadWaitRead (fromIntegral pidfd) >> hangUp wire)
    meaning (kind, text)
      | kind == fromIntegral returned = Returned
      | kind == fromIntegral stuck = Stuck text
      | otherwise = Threw text

-- What a process that has ended said of its end.
lastWords :: CInt -> IO (Maybe (Word32, String))
lastWords report = do
  reader <- newReader report
  got <- try (readRecord reader >>= either (const (pure Nothing)) (traverse spoken))
  freeReader reader >> closeStream report
  pure (either (\Unavailable {} -> Nothing) id got)
  where
    spoken r = do
      text <- Bytes.packCStringLen (castPtr (recordChunk r), recordLength r)
      pure (recordKind r, unpackText text)
