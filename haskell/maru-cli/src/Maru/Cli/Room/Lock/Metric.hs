-- | A number that a command prints, found by a regular expression.
module Maru.Cli.Room.Lock.Metric
  ( Metric (..),
    parseMetric,
    Listener,
    listen,
    heard,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (finally)
import Control.Monad (mfilter, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import Data.IORef
import Data.Maybe (isJust)
import Maru.Cli.Exit
import Maru.Native.Regex
import System.IO (Handle, hClose)
import System.Posix.IO (FdOption (CloseOnExec), createPipe, fdToHandle, setFdOption)
import System.Timeout (timeout)
import Text.Read (readMaybe)

data Metric = Metric
  { metricText :: !String,
    metricRegex :: !Regex
  }

-- | Its first group is the number.
parseMetric :: String -> IO Metric
parseMetric text = compileRegex text >>= either wrong (pure . Metric text)
  where
    wrong why = problem usage ("--metric '" ++ text ++ "': " ++ why ++ "; a regular expression such as 'TPS: ([0-9.]+)' is needed, whose first group is the number")

-- | Reads what a command prints, to its end: the last number, whether there is nothing to read just
-- now, and the end.
data Listener = Listener !(IORef (Maybe Double)) !(IORef Bool) !(MVar ())

-- | And where the command must print to.
listen :: Metric -> IO (Listener, Handle)
listen metric = do
  (readEnd, writeEnd) <- createPipe
  -- The command has it as its output alone: another copy would not be closed with that.
  mapM_ (\end -> setFdOption end CloseOnExec True) [readEnd, writeEnd]
  from <- fdToHandle readEnd
  to <- fdToHandle writeEnd
  found <- newIORef Nothing
  idle <- newIORef False
  ended <- newEmptyMVar
  void (forkIO (readLines (awaiting idle from) (lineSeen found) `finally` (hClose from >> putMVar ended ())))
  pure (Listener found idle ended, to)
  where
    awaiting idle from = writeIORef idle True >> ByteString.hGetSome from longestLine >>= \more -> more <$ writeIORef idle False
    -- What maru run says of itself is not the command's.
    lineSeen found line
      | Chars.pack "maru: " `ByteString.isPrefixOf` line = pure ()
      | otherwise = mapM_ (writeIORef found . Just) (firstGroup (metricRegex metric) line >>= number)

number :: ByteString -> Maybe Double
number text = mfilter (\v -> not (isNaN v || isInfinite v)) $ case Chars.unpack text of
  '.' : digits -> readMaybe ("0." ++ digits)
  digits | not (null digits), last digits == '.' -> readMaybe (init digits)
  digits -> readMaybe digits

-- | The last one, once the command has ended and all is read. It is read to the end, or for two
-- seconds, since what the command has left running may keep its output.
heard :: Listener -> IO (Maybe Double)
heard listener@(Listener found idle ended) = do
  over <- timeout 2000000 (readMVar ended)
  silent <- readIORef idle
  if isJust over || silent then readIORef found else heard listener

-- | Of a line that is longer than this, the rest counts as another.
longestLine :: Int
longestLine = 65536

-- | Lines end with a newline, or a carriage return as those that show progress do.
readLines :: IO ByteString -> (ByteString -> IO ()) -> IO ()
readLines next act = go ByteString.empty
  where
    go begun = do
      more <- next
      if ByteString.null more then act begun else split (begun <> more)
    split text = case Chars.findIndex (`elem` "\r\n") text of
      Just at -> act (ByteString.take at text) >> split (ByteString.drop (at + 1) text)
      Nothing | ByteString.length text >= longestLine -> act text >> go ByteString.empty
      Nothing -> go text
