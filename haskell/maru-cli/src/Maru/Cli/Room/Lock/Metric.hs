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
import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import Data.IORef
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

-- | Reads what a command prints, to its end.
data Listener = Listener !(IORef (Maybe Double)) !(MVar ())

-- | And where the command must print to.
listen :: Metric -> IO (Listener, Handle)
listen metric = do
  (readEnd, writeEnd) <- createPipe
  setFdOption readEnd CloseOnExec True
  from <- fdToHandle readEnd
  to <- fdToHandle writeEnd
  found <- newIORef Nothing
  ended <- newEmptyMVar
  void (forkIO (readLines from (lineSeen found) >> hClose from >> putMVar ended ()))
  pure (Listener found ended, to)
  where
    -- What maru run says of itself is not the command's.
    lineSeen found line
      | Chars.pack "maru: " `ByteString.isPrefixOf` line = pure ()
      | otherwise = mapM_ (writeIORef found . Just) (firstGroup (metricRegex metric) line >>= number)

number :: ByteString -> Maybe Double
number text = case Chars.unpack text of
  '.' : digits -> readMaybe ("0." ++ digits)
  digits | not (null digits), last digits == '.' -> readMaybe (init digits)
  digits -> readMaybe digits

-- | The last one, once the command has ended. What it has left running may print on.
heard :: Listener -> IO (Maybe Double)
heard (Listener found ended) = timeout 2000000 (takeMVar ended) >> readIORef found

-- | Of a line that is longer than this, the rest counts as another.
longestLine :: Int
longestLine = 65536

readLines :: Handle -> (ByteString -> IO ()) -> IO ()
readLines handle act = go ByteString.empty
  where
    go begun = do
      more <- ByteString.hGetSome handle longestLine
      if ByteString.null more then act begun else split (begun <> more)
    split text = case Chars.elemIndex '\n' text of
      Just at -> act (ByteString.take at text) >> split (ByteString.drop (at + 1) text)
      Nothing | ByteString.length text >= longestLine -> act text >> go ByteString.empty
      Nothing -> go text
