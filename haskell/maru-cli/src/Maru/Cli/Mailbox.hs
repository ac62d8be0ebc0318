-- | A queue between a command's threads, first come first served.
--
-- A wait with a limit loses nothing: what comes just as the limit is over is there for the next one. (A
-- 'System.Timeout.timeout' around 'Control.Concurrent.Chan.readChan' may take a message and drop it.)
module Maru.Cli.Mailbox
  ( Mailbox,
    newMailbox,
    post,
    receive,
    receiveWithin,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent.STM

newtype Mailbox a = Mailbox (TQueue a)

newMailbox :: IO (Mailbox a)
newMailbox = Mailbox <$> newTQueueIO

-- | Never waits: there is no limit on what is in it.
post :: Mailbox a -> a -> IO ()
post (Mailbox queue) = atomically . writeTQueue queue

-- | Waits until there is one.
receive :: Mailbox a -> IO a
receive (Mailbox queue) = atomically (readTQueue queue)

-- | 'Nothing': none came within so many seconds. It needs the threaded runtime.
receiveWithin :: Double -> Mailbox a -> IO (Maybe a)
receiveWithin seconds (Mailbox queue) = do
  over <- registerDelay (ceiling (seconds * 1e6))
  atomically (Just <$> readTQueue queue <|> Nothing <$ (readTVar over >>= check))
