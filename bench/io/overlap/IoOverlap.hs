{-# LANGUAGE OverloadedStrings #-}

-- | What @libmaru-io.so@ costs a call, and what reading ahead gains: unmodified programs under
-- each mode, and @maru\/stream.h@. The method is at the top of @bench\/steer\/maru-bench-io.c@.
module IoOverlap
  ( overlapExperiments,
  )
where

import Control.Exception (bracket)
import Control.Monad (replicateM_)
import Data.Aeson (object, (.=))
import qualified Data.ByteString as ByteString
import Data.Text (Text)
import Maru.Bench.Experiment
import Maru.Bench.Rounds
import Maru.Bench.Side
import Maru.Cli.Exit
import Maru.Cli.Installed
import Maru.Cli.Output
import Maru.Cli.Reaper (Reaper)
import Maru.Control.Plot
import Maru.Control.Ratio
import Maru.Control.Statistics
import System.Directory (removeFile)
import System.IO (hClose, openBinaryTempFile)

overlapExperiments :: [Experiment]
overlapExperiments =
  [ Experiment
      { experimentName = "io/calls",
        experimentPurpose = "what passing through libmaru-io.so adds to a read and a write of one byte",
        experimentRun = runCalls
      },
    Experiment
      { experimentName = "io/overlap",
        experimentPurpose = "a stream of 64 KiB blocks, hashed for 0.25 to 4 times as long as it takes to read them: direct, each mode, maru/stream.h",
        experimentRun = runOverlap
      }
  ]

-- | The program and the library, or status 69.
tools :: IO (FilePath, FilePath)
tools = do
  program <- helperPath "maru-bench-io"
  library <- libraryPath "libmaru-io.so"
  pure (program, library)

-- ---- calls --------------------------------------------------------------

runCalls :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
runCalls reaper effort say = do
  (program, library) <- tools
  let seconds' = if effort == Quick then "0.1" else "0.6"
      sides = Side "direct" [["calls", seconds']] : [Side mode [["--under", mode, library, "calls", seconds']] | mode <- ["never", "hint"]]
  rounds <- runRounds effort say (runSide reaper program) sides callClaims
  let judged = map (judgeClaim rounds) (callClaims rounds)
  pure
    Figures
      { figuresLine = claimsLine judged,
        figuresTables =
          [ ("Claims", claimsTable judged),
            ("ns a call", Table [(L, "side"), (R, "read"), (R, "write")] [[sideName s, median' rounds s "read_ns", median' rounds s "write_ns"] | s <- sides])
          ],
        figuresPlots = [],
        figuresData = object ["rounds" .= roundsJson rounds, "claims" .= map claimJson judged]
      }
  where
    median' rounds s field = maybe "-" (fixed 1 . summaryMedian) (summaryOf (number [field]) rounds (sideName s))

callClaims :: Rounds -> [Claim]
callClaims _ =
  [ paired ("passing through adds to a " ++ what ++ ", ns") (AtMost 15) (\with direct -> Just (with - direct)) (number [field]) (number [field]) "never" "direct"
    | (what, field) <- [("read", "read_ns"), ("write", "write_ns")]
  ]

-- ---- overlap ------------------------------------------------------------

ratios :: [Double]
ratios = [0.25, 0.5, 1, 2, 4]

-- | Name, mode of the library, way of reading.
ways :: [(String, Maybe String, String)]
ways =
  [ ("direct", Nothing, "read"),
    ("hint", Just "hint", "read"),
    ("always", Just "always", "read"),
    ("stream", Nothing, "stream")
  ]

-- | Of a file that is not in memory; with the kernel's own reading ahead, and without.
coldWays :: [(String, Maybe String, String)]
coldWays = [(name ++ " " ++ way, mode, way) | way <- ["cold", "random"], (name, mode) <- [("direct", Nothing), ("hint", Just "hint")]]

runOverlap :: Reaper -> Effort -> (String -> IO ()) -> IO Figures
runOverlap reaper effort say = do
  (program, library) <- tools
  withFile' $ \file -> do
    say "how long reading and hashing take"
    calibration <- runSide reaper program (Side "calibrate" [["calibrate", file]])
    (copy, hash) <- case (,) <$> number ["copy_ns"] calibration <*> number ["hash_ns_per_byte"] calibration of
      Just (c, h) | c > 0, h > 0 -> pure (c, h)
      _ -> problem internal "the calibration said nothing"
    let seconds' = if effort == Quick then "0.1" else "0.2"
        work r = show (round (r * copy / hash) :: Int)
        side r threads (name, mode, way) =
          Side (nameOf r threads name) [maybe [] (\m -> ["--under", m, library]) mode ++ ["overlap", file, work r, seconds', show threads, way]]
        sides =
          [side r 1 w | r <- ratios, w <- ways]
            ++ [side 1 2 w | w <- ways]
            ++ [side 1 1 w | w <- coldWays]
    rounds <- runRounds effort say (runSide reaper program) sides (const [])
    let judged = map (judgeClaim rounds) overlapClaims
    pure
      Figures
        { figuresLine = claimsLine judged,
          figuresTables =
            [ ("Claims", claimsTable judged),
              ("As many times as fast as direct, one thread", speedups rounds [(fixed 2 r, r, 1) | r <- ratios]),
              ("The same, two threads", speedups rounds [("1.00", 1, 2)]),
              ("A file that is not in memory (random: the kernel reads nothing ahead), ratio 1", cold rounds)
            ],
          figuresPlots = [curve rounds],
          figuresData = object ["calibration" .= calibration, "rounds" .= roundsJson rounds, "claims" .= map claimJson judged]
        }

nameOf :: Double -> Int -> String -> String
nameOf r threads name = name ++ ", ratio " ++ fixed 2 r ++ (if threads == 1 then "" else ", " ++ show threads ++ " threads")

block :: Sample -> Maybe Double
block = number ["block_ns" :: Text]

faster :: String -> Bar -> Double -> Int -> String -> String -> Claim
faster text bar r threads name base = ratio text bar block (nameOf r threads base) (nameOf r threads name)

overlapClaims :: [Claim]
overlapClaims =
  [faster ("hint / direct, ratio " ++ fixed 2 r) (AtLeast 0.97) r 1 "hint" "direct" | r <- ratios]
    ++ [faster "stream / direct, ratio 1.00" (AtLeast 1.25) 1 1 "stream" "direct"]
    ++ [faster (mode ++ " / direct, two threads") (AtLeast 0.95) 1 2 mode "direct" | mode <- ["hint", "stream"]]
    ++ [faster ("hint / direct, not in memory" ++ note) (AtLeast 1.1) 1 1 ("hint " ++ way) ("direct " ++ way) | (way, note) <- [("cold", ""), ("random", ", kernel reads nothing ahead")]]

speedup :: Rounds -> Double -> Int -> String -> String -> Maybe Estimate
speedup rounds r threads name base = judgedEstimate (judgeClaim rounds (faster "" (AtLeast 0) r threads name base))

speedups :: Rounds -> [(String, Double, Int)] -> Table
speedups rounds rows =
  Table
    ((R, "ratio") : (R, "direct, us a block") : [(R, name) | (name, _, _) <- drop 1 ways])
    [ label :
      maybe "-" (fixed 1 . (/ 1000) . summaryMedian) (summaryOf block rounds (nameOf r threads "direct")) :
        [maybe "-" (fixed 3 . estimateMedian) (speedup rounds r threads name "direct") | (name, _, _) <- drop 1 ways]
      | (label, r, threads) <- rows
    ]

cold :: Rounds -> Table
cold rounds =
  Table
    [(L, "side"), (R, "us a block"), (R, "/ direct")]
    [ [name, maybe "-" (fixed 1 . (/ 1000) . summaryMedian) (summaryOf block rounds (nameOf 1 1 name)), maybe "-" (fixed 3 . estimateMedian) (speedup rounds 1 1 name ("direct " ++ way))]
      | (name, _, way) <- coldWays
    ]

curve :: Rounds -> Plot
curve rounds =
  Plot
    "Reading ahead"
    (Axis "computing / reading" Logarithmic)
    (Axis "as many times as fast as direct" Linear)
    [ Series name [Point r (estimateMedian e) (estimateLow e) (estimateHigh e) | r <- ratios, Just e <- [speedup rounds r 1 name "direct"]]
      | (name, _, _) <- drop 1 ways
    ]

-- | 128 MiB on a disk; removed at the end.
withFile' :: (FilePath -> IO a) -> IO a
withFile' = bracket make removeFile
  where
    make = do
      (path, handle) <- openBinaryTempFile "/var/tmp" "maru-bench-io.dat"
      replicateM_ 128 (ByteString.hPut handle megabyte)
      hClose handle
      pure path
    megabyte = ByteString.pack (map fromIntegral (take 1048576 (iterate (\x -> (x * 1103515245 + 12345) `mod` 2147483647) (7 :: Int))))
