-- | A progress bar for 'Maru.Options.onProgress'.
module Maru.Progress
  ( progressBar,
    renderProgress,
  )
where

import Control.Monad (when)
import Maru.Options (Progress (..))
import System.IO (hFlush, hIsTerminalDevice, hPutStr, stderr)

-- | Draws on standard error where that is a terminal, else stays silent.
--
-- > parMapWith defaultOptions {onProgress = Just (progressBar "pairs")} f xs
--
-- >>> let watched = defaultOptions {workers = Workers 2, onProgress = Just (progressBar "squares")}
-- >>> parMapM watched (\n -> n * n) [1 .. 3 :: Int]
-- [1,4,9]
progressBar :: String -> Progress -> IO ()
progressBar label p = do
  terminal <- hIsTerminalDevice stderr
  when terminal $ do
    hPutStr stderr ("\r\ESC[K" <> renderProgress label p <> if finished then "\n" else "")
    hFlush stderr
  where
    finished = progressTotal p == Just (progressDone p)

-- | One line, without a line end: @pairs  [#####.....]  50 %  50 of 100, 4
-- workers, 3 s left@.
renderProgress :: String -> Progress -> String
renderProgress label p = case progressTotal p of
  Just total | total > 0 -> label <> "  [" <> bar total <> "]  " <> show (percent total) <> " %  " <> counts (" of " <> show total) <> left total
  _ -> label <> "  " <> counts ""
  where
    done = progressDone p
    percent total = 100 * done `div` total
    bar total = let n = 30 * done `div` total in replicate n '#' <> replicate (30 - n) '.'
    counts suffix = show done <> suffix <> ", " <> show (progressWorkers p) <> " workers"
    left total
      | done > 0 && done < total = ", " <> show (ceiling (progressSeconds p * fromIntegral (total - done) / fromIntegral done) :: Int) <> " s left"
      | otherwise = ""
