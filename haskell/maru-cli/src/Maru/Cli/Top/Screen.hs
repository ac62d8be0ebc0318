-- | The terminal of @maru top@: taken over, drawn on, and given back as it was, however the program
-- ends. A signal that none can catch is left out.
module Maru.Cli.Top.Screen
  ( Event (..),
    withScreen,
    Screen,
    sizeOf,
    draw,
    paused,
    taken,
  )
where

import Control.Concurrent (forkIO, threadWaitRead)
import Control.Exception (SomeException, bracket, bracket_, try)
import Control.Monad (forM, forM_, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as Bytes
import Data.ByteString.Internal (createAndTrim)
import Data.IORef
import Maru.Cli.Exit (orNothing)
import Maru.Native.Probe (windowSize)
import Maru.View.Top.Draw
import Maru.View.Top.Keys
import System.Environment (lookupEnv)
import System.IO
import System.Posix.IO (fdReadBuf, stdInput, stdOutput)
import System.Posix.Signals
import System.Posix.Signals.Exts (windowChange)
import System.Posix.Terminal
import System.Timeout (timeout)
import Text.Read (readMaybe)

-- | What comes from the terminal.
data Event
  = Pressed !Key
  | -- | Its size may have changed.
    Resize
  | -- | Ctrl-Z.
    Pause
  | -- | It was stopped, by whatever signal, and goes on: the terminal is its shell's now.
    Continued
  | -- | To end as this signal would end it.
    Told !Signal
  | -- | Nobody can press a key any more.
    Gone

-- | Whether colours are wanted, the attributes that the terminal had, and the lines that are on it.
data Screen = Screen !Bool !TerminalAttributes !(IORef [String])

-- | The alternate screen, keys without return and without echo. Events are handed over from other
-- threads; the action may wait for them as it likes. Everything is restored behind it.
withScreen :: Bool -> (Event -> IO ()) -> (Screen -> IO a) -> IO a
withScreen colour tell action = do
  before <- getTerminalAttributes stdInput
  shown <- newIORef []
  let screen = Screen colour before shown
  hSetBuffering stdout (BlockBuffering Nothing)
  withSignals tell . bracket_ (enter screen) (leave screen) $ do
    _ <- forkIO (readKeys tell)
    action screen

-- | Lines wrap nowhere: a terminal may take a character for wider than we do.
enter :: Screen -> IO ()
enter (Screen _ before shown) = do
  setTerminalAttributes stdInput (withTime (withMinInput (foldl withoutMode before [ProcessInput, EnableEcho]) 1) 0) Immediately
  writeIORef shown []
  putStr "\ESC[?1049h\ESC[?25l\ESC[?7l\ESC[2J"
  hFlush stdout

-- | Where the terminal has gone there is nothing to restore.
leave :: Screen -> IO ()
leave (Screen _ before _) = void . orNothing $ do
  putStr "\ESC[0m\ESC[?7h\ESC[?25h\ESC[?1049l"
  hFlush stdout
  setTerminalAttributes stdInput before Immediately

-- | Signals that would end or stop this process are told, but those that it was started to ignore.
-- A second one ends it at once: the terminal may take nothing more.
withSignals :: (Event -> IO ()) -> IO a -> IO a
withSignals tell = bracket install restore . const
  where
    told = [(windowChange, Catch (tell Resize)), (keyboardStop, Catch (tell Pause)), (continueProcess, Catch (tell Continued))] ++ [(s, CatchOnce (tell (Told s))) | s <- [keyboardSignal, softwareTermination, lostConnection, keyboardTermination]]
    install = forM told $ \(signal, handler) -> do
      old <- installHandler signal handler Nothing
      case old of
        Ignore -> void (installHandler signal Ignore Nothing)
        _ -> pure ()
      pure (signal, old)
    restore old = forM_ old (\(signal, handler) -> installHandler signal handler Nothing)

-- | Gives the terminal back, stops as Ctrl-Z stops any program, and takes it again.
paused :: Screen -> IO ()
paused screen = do
  leave screen
  bracket (installHandler keyboardStop Default Nothing) (\old -> installHandler keyboardStop old Nothing) (const (raiseSignal keyboardStop))
  enter screen

-- | Takes the terminal again from who has had it.
taken :: Screen -> IO ()
taken = enter

-- | Bytes are read from the descriptor: what the runtime would remember of the terminal it would
-- also restore. An escape that nothing follows for 50 ms is the key.
readKeys :: (Event -> IO ()) -> IO ()
readKeys tell = go Bytes.empty
  where
    go begun = do
      ready <- (if Bytes.null begun then fmap Just else timeout 50000) (threadWaitRead stdInput)
      case ready of
        Nothing -> mapM_ (tell . Pressed) (settled begun) >> go Bytes.empty
        Just () -> do
          got <- try (readSome 256)
          case got :: Either SomeException ByteString of
            Right bytes | not (Bytes.null bytes) -> do
              let (keys, left) = keysIn (begun <> bytes)
              mapM_ (tell . Pressed) keys
              go left
            _ -> tell Gone

-- | Empty at the end.
readSome :: Int -> IO ByteString
readSome most = createAndTrim most (\room -> fromIntegral <$> fdReadBuf stdInput room (fromIntegral most))

-- | As the terminal says, else as the environment does, else 80 x 24.
sizeOf :: IO (Int, Int)
sizeOf = windowSize stdOutput >>= maybe described pure
  where
    described = (,) <$> number 80 "COLUMNS" <*> number 24 "LINES"
    number otherwise' name = maybe otherwise' (within otherwise') . (>>= readMaybe) <$> lookupEnv name
    within otherwise' n = if n > 0 && n <= 1000 then n else otherwise' :: Int

-- | Draws what differs from what is on the screen; 'True': everything.
draw :: Screen -> Bool -> [[Span]] -> IO ()
draw (Screen colour _ shown) everything view' = do
  before <- if everything then pure [] else readIORef shown
  let lines' = map (rendered colour) view'
      changed = [(n, line) | (n, line, old) <- zip3 [1 :: Int ..] lines' (map Just before ++ repeat Nothing), Just line /= old]
  unless (null changed && not everything) $ do
    putStr (concat ["\ESC[0m\ESC[2J" | everything] ++ concatMap (\(n, line) -> "\ESC[" ++ show n ++ ";1H" ++ line) changed)
    hFlush stdout
  writeIORef shown lines'

-- | A line for the terminal: cleared first, for behind the last column there is nothing to clear.
rendered :: Bool -> [Span] -> String
rendered colour spans = "\ESC[K" ++ concatMap one spans
  where
    one (Span look text) = case codes colour look of
      "" -> text
      code -> "\ESC[" ++ code ++ "m" ++ text ++ "\ESC[0m"

-- | Without colours only bold, faint, underlined and reverse.
codes :: Bool -> Look -> String
codes colour look = case look of
  Normal -> ""
  Strong -> if colour then "1;36" else "1"
  Head -> if colour then "30;46" else "4"
  SortedHead -> if colour then "1;37;44" else "1;4"
  Chosen -> "7"
  Faint -> "2"
  FaintHead -> if colour then "2;30;46" else "2;4"
  Lively -> if colour then "32" else ""
  Warning -> if colour then "35" else ""
