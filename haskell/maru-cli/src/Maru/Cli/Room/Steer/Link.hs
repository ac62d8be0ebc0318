-- | A controller's talk with the keeper that started it, @maru-steer@: its head has the protocol.
module Maru.Cli.Room.Steer.Link
  ( Link,
    openLink,
    hear,
    End (..),
    endOf,
    pauseOrEnd,
    ending,
    Answer (..),
    exchange,
    repairAfter,
  )
where

import Control.Concurrent (forkIO)
import Control.Monad (void)
import Data.List (stripPrefix)
import Maru.Cli.Exit
import Maru.Cli.Mailbox
import Maru.Control.Place
import System.IO
import System.Posix.IO (fdToHandle)
import System.Posix.Process (executeFile)
import System.Posix.Types (ProcessID)
import Text.Read (readMaybe)

data Link = Link
  { linkOrders :: !Handle,
    -- | Lines of the keeper; 'Nothing': it is gone.
    linkLines :: !(Mailbox (Maybe String))
  }

-- | What ends the controller.
data End
  = -- | All is put back, but for so many.
    Told !Int
  | -- | The keeper is gone without a word.
    Orphaned

openLink :: IO Link
openLink = do
  orders' <- fdToHandle 3
  hSetBuffering orders' (BlockBuffering Nothing)
  heard <- newMailbox
  void (forkIO (listen heard))
  pure (Link orders' heard)
  where
    listen heard = do
      line <- orNothing getLine
      post heard line
      mapM_ (const (listen heard)) line

-- | What became of an order.
data Answer
  = -- | Of a thread: why not by a cgroup.
    Done !(Maybe String)
  | Refused !String

-- | Does a batch; the answers, or the end if that came instead.
exchange :: Link -> [Order] -> IO (Either End [Answer])
exchange _ [] = pure (Right [])
exchange link batch = do
  sent <- orNothing (mapM_ (hPutStrLn (linkOrders link)) (map orderLine batch ++ ["go"]) >> hFlush (linkOrders link))
  maybe (pure (Left Orphaned)) (const (answers (length batch) [])) sent
  where
    answers :: Int -> [Answer] -> IO (Either End [Answer])
    answers 0 got = pure (Right (reverse got))
    answers n got = do
      line <- hear link
      case line of
        Just "ok" -> answers (n - 1) (Done Nothing : got)
        Just text
          | Just why <- stripPrefix "ok " text -> answers (n - 1) (Done (Just why) : got)
          | Just why <- stripPrefix "no " text -> answers (n - 1) (Refused why : got)
        other -> pure (Left (endOf other))

orderLine :: Order -> String
orderLine order = case order of
  Set target value -> "set " ++ name target ++ " " ++ value
  Back target -> "back " ++ name target
  where
    name target = case target of
      OfThread tid start' -> show tid ++ " " ++ show start'
      OfFile path -> path

endOf :: Maybe String -> End
endOf line = case words <$> line of
  Just ["end", failed] | Just n <- readMaybe failed -> Told n
  _ -> Orphaned

-- | What the keeper says next; 'Nothing': it is gone.
hear :: Link -> IO (Maybe String)
hear = receive . linkLines

-- | The end, if it comes within so many seconds.
pauseOrEnd :: Link -> Double -> IO (Maybe End)
pauseOrEnd link pause = fmap endOf <$> receiveWithin pause (linkLines link)

-- | Tells the keeper that there are no more orders. It puts all back and says how that went.
ending :: Link -> IO End
ending link = orNothing (hClose (linkOrders link)) >> endOf <$> hear link

-- | What a controller becomes whose keeper, the program and the process, is gone. It puts
-- everything back, on the machine or on the folder that stands for it ("": none).
repairAfter :: FilePath -> ProcessID -> FilePath -> IO a
repairAfter keeper parent root =
  executeFile keeper False (["repair", "--after", show parent] ++ (if null root then [] else ["--root", root])) Nothing
