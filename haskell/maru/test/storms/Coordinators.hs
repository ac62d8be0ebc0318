{-# LANGUAGE CApiFFI #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

{- HLINT ignore "Evaluate" -}

-- | Coordinators are killed, stopped and made to crash: none of their workers
-- outlives them, those that are stopped included.
--
-- This process is the reaper of its descendants: a process that loses its parent becomes its
-- child. So a coordinator's workers are gone, all of them, when it has no child.
-- With them go their memory files: only processes hold such files.
module Coordinators (tests, play) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Char (digitToInt, isDigit)
import Data.IORef
import qualified Data.Map.Strict as Map
import Data.Word (Word64)
import Draw
import Foreign.C (CInt (..), CULong (..))
import Left
import Maru
import System.Directory (listDirectory)
import System.Exit
import System.IO
import System.Posix.Process (getAnyProcessStatus)
import System.Posix.Signals (sigABRT, sigBUS, sigINT, sigKILL, sigSEGV, sigSTOP, sigTERM)
import System.Posix.Types (ProcessID)
import System.Process (waitForProcess)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit
import Tools

foreign import capi unsafe "sys/prctl.h prctl" c_prctl :: CInt -> CULong -> IO CInt

foreign import ccall unsafe "raise" c_raise :: CInt -> IO CInt

tests :: Backend -> TestTree
tests b = testCase (show wanted <> " kills, stops and crashes of coordinators: no worker is left, nor any file") $ do
  reaper <- c_prctl 36 1 -- PR_SET_CHILD_SUBREAPER
  reaper @?= 0
  counts <- newIORef Map.empty
  forM_ (take wanted [firstSeed ..]) $ \seed ->
    oneDeath b counts seed `catch` \e -> assertFailure ("seed " <> show seed <> ": " <> displayException (e :: SomeException))
  readIORef counts >>= \m -> do
    -- In a few deaths on a slow machine all may come too early for it.
    when (scale > 1) $ assertBool "no worker was stopped" (Map.member "worker stopped" m)
    putStr ("\n        " <> unwords [show n <> " x " <> what <> ";" | (what, n) <- Map.toList m] <> " ")
  where
    wanted = 10 * scale

oneDeath :: Backend -> IORef (Map.Map String Int) -> Word64 -> Assertion
oneDeath b counts seed = do
  before <- belongings
  ds <- drawing seed
  playing [] ["maps", backendName b, show seed] $ \s -> do
    linesOf s 1 >>= (@?= ["maps"])
    between ds 0 150 >>= \ms -> threadDelay (1000 * ms)
    howMany <- oneOf ds 0 [0, 1, 3]
    -- However young they are: of one that was not tied yet the coordinator lives on until it is.
    stopping <- take howMany . reverse <$> childrenOf (scenePid s)
    forM_ stopping $ \pid -> do
      early <- not <$> tied pid
      kill sigSTOP pid
      count (if early then "worker stopped before it was tied" else "worker stopped")
    forM_ stopping $ \pid ->
      eventually "a stopped worker is tied to its coordinator" 20 ((||) <$> tied pid <*> (not <$> alive pid))
    first <- chance ds 20
    when first $ kill sigSTOP (scenePid s) >> count "coordinator stopped" >> below ds 20000 >>= threadDelay
    (what, signal) <- oneOf ds ("SIGKILL", sigKILL) [("SIGKILL", sigKILL), ("SIGSEGV", sigSEGV), ("SIGABRT", sigABRT), ("SIGBUS", sigBUS), ("SIGTERM", sigTERM), ("SIGINT", sigINT)]
    kill signal (scenePid s)
    -- One that is stopped hears only the first of them.
    when first $ kill sigKILL (scenePid s)
    count ("coordinator, " <> what)
    status <- within 20 (waitForProcess (sceneProcess s))
    allGone
    said <- hGetContents (sceneErrors s)
    -- Some do it themselves, just before.
    (said, status `elem` [ExitFailure (negate (fromIntegral x)) | x <- [signal, sigKILL, sigSEGV]]) @?= ("", True)
  sameAgain before
  where
    count what = modifyIORef' counts (Map.insertWith (+) what (1 :: Int))

-- | The kernel knows that it is to end with its coordinator: that is so as soon as the
-- fork has returned there. It has a file that signals.
tied :: ProcessID -> IO Bool
tied pid = handle gone $ do
  files <- listDirectory folder
  or <$> forM files (\file -> handle gone (readFile (folder <> file) >>= evaluate . any (signals . words) . lines))
  where
    folder = "/proc/" <> show pid <> "/fdinfo/"
    -- O_ASYNC, in octal.
    signals ["flags:", flags] = odd (digit (take 1 (drop 4 (reverse flags))) `div` 2)
    signals _ = False
    digit text = if all isDigit text then sum (map digitToInt text) else 0
    gone e = const (pure False) (e :: IOException)

-- | Within 20 s; a second is what is promised.
allGone :: Assertion
allGone = go (4000 :: Int)
  where
    go left = do
      reapAll
      those <- children
      unless (null those) $
        if left == 0
          then do
            states <- forM those (\pid -> readFile ("/proc/" <> show pid <> "/status") >>= \t -> take 200 t <$ evaluate (length t))
            forM_ those (kill sigKILL)
            assertFailure ("workers are left: " <> unlines states)
          else threadDelay 5000 >> go (left - 1)
    reapAll = do
      got <- try (getAnyProcessStatus False False)
      case got of
        Right (Just _) -> reapAll
        Right Nothing -> pure ()
        Left e -> const (pure ()) (e :: IOException)

-- The coordinator ------------------------------------------------------------

play :: [String] -> IO ()
play ["maps", name, seed] = maybe (throwIO (userError name)) (maps (read seed)) (backendFromName name)
play other = throwIO (userError ("no such scene: " <> unwords other))

-- | One map after the other, for ever; wrong ones end it.
maps :: Word64 -> Backend -> IO ()
maps seed b = do
  ds <- drawing (seed + 0xc0de)
  suicide <- chance ds 10
  putStrLn "maps" >> hFlush stdout
  when suicide . void . forkIO $ below ds 100000 >>= threadDelay >> void (c_raise sigSEGV)
  forever $ do
    n <- between ds 1 5
    items <- between ds 1 200
    how <- oneOf ds (working 100) [working 100, \i -> sum (parMapWith (onBackend b) {workers = Workers 2} (working 50) [i, i + 1]) - i - 2, pausing 5 . (+ 1), sleeping 100]
    ys <- parMapM (onBackend b) {workers = Workers n} how [1 .. items]
    unless (ys == [2 .. items + 1]) $ hPutStrLn stderr "wrong" >> exitWith (ExitFailure 1)
