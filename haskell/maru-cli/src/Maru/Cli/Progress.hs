-- | How far something long is: one line on standard error, drawn over and over where that is a
-- terminal, and gone at the end. Elsewhere it is a line of its own every 30 s: a log shows then
-- that it goes on, and nothing of what is short.
module Maru.Cli.Progress
  ( withProgress,
    forced,

    -- * Parts
    telling,
    progressLine,
    leftOf,
  )
where

import Control.Exception (evaluate, finally)
import Control.Monad (forM_, void, when)
import Data.IORef
import GHC.Clock (getMonotonicTime)
import Maru.Cli.Exit (orNothing, warn)
import System.IO (hFlush, hIsTerminalDevice, hPutStr, stderr)

-- | @withProgress what action@: the action tells which share is done, from 0 to 1, as often as it
-- likes. At most ten lines a second are drawn. The terminal's line is empty again when it ends, by
-- an exception, too.
withProgress :: String -> ((Double -> IO ()) -> IO a) -> IO a
withProgress what action = do
  terminal <- hIsTerminalDevice stderr
  if terminal
    then do
      tell <- telling getMonotonicTime 0 0.1 draw what
      (tell 0 >> action tell) `finally` draw ""
    else telling getMonotonicTime plainly plainly warn what >>= action
  where
    draw line = void (orNothing (hPutStr stderr ("\r\ESC[K" ++ line) >> hFlush stderr))
    plainly = 30

-- | By that clock, in seconds: after how many the first line may be shown, then each next one; how;
-- of what.
telling :: IO Double -> Double -> Double -> (String -> IO ()) -> String -> IO (Double -> IO ())
telling clock first spacing shown what = do
  begun <- clock
  due <- newIORef (begun + first)
  pure $ \share -> do
    now <- clock
    next <- readIORef due
    when (now >= next) $ do
      writeIORef due (now + spacing)
      shown (progressLine what share (now - begun))

-- | The rows of some tables are computed, one after the other: what says how far they are.
forced :: String -> [[String]] -> IO ()
forced what rows = withProgress what $ \tell ->
  forM_ (zip [1 :: Int ..] rows) $ \(n, row) -> do
    _ <- evaluate (sum (map length row))
    tell (fromIntegral n / fromIntegral (length rows))

-- | What is done, its share, seconds until now: @comparing: 40 %, 12 s left@.
progressLine :: String -> Double -> Double -> String
progressLine what share took = what ++ ": " ++ show (floor (100 * share) :: Int) ++ " %" ++ leftOf share took

-- | @, 12 s left@ if the rest goes on like that. Nothing in the first second.
leftOf :: Double -> Double -> String
leftOf share took
  | share <= 0 || share >= 1 || took < 1 = ""
  | left >= 120 = ", " ++ show (ceiling (left / 60) :: Int) ++ " min left"
  | otherwise = ", " ++ show (ceiling left :: Int) ++ " s left"
  where
    left = took * (1 - share) / share
