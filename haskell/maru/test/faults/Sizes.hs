{- HLINT ignore "Evaluate" -}

-- | Results of any size and kind, and numbers of workers.
module Sizes (tests) where

import Control.Concurrent (threadDelay)
import Control.Exception
import Control.Monad
import qualified Data.ByteString.Char8 as Bytes
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.List (isInfixOf)
import qualified Data.Map.Strict as Map
import GHC.Conc (getNumProcessors)
import Maru
import System.Environment (setEnv, unsetEnv)
import System.Exit (ExitCode (..))
import System.Mem (performMajorGC)
import System.Posix.Signals (sigCONT, sigSTOP)
import System.Process (getProcessExitCode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Tools

tests :: Backend -> TestTree
tests b =
  testGroup
    "sizes"
    [ testCase "results of 50 MB" . leavingNothing $ do
        ys <- within 60 (parMapM (onBackend b) {workers = Workers 2} (\i -> Bytes.replicate 50000000 (toEnum (64 + i))) [1 .. 3])
        map (\y -> (Bytes.length y, Bytes.head y, Bytes.last y)) ys @?= [(50000000, c, c) | c <- "ABC"],
      testCase "results larger than their pages, as heap objects" . leavingNothing $ do
        ys <- within 60 (parMapM (onBackend b) {regionMiB = 1} (\i -> [i .. i + 200000]) [1 .. 6 :: Int])
        map (\y -> (take 1 y, length y)) ys @?= [([i], 200001) | i <- [1 .. 6]],
      testCase "cyclic results, with and without sharing" . leavingNothing . forM_ [False, True] $ \shared -> do
        ys <- within 60 (parMapM (onBackend b) {sharing = shared} (\i -> let ring = i : (i + 1) : ring in ring) [1 .. 3 :: Int])
        map (take 5) ys @?= [[i, i + 1, i, i + 1, i] | i <- [1 .. 3]],
      testCase "strict, lazy and shared byte strings, inside other data" . leavingNothing $ do
        let f i = Map.fromList [(k, (Bytes.pack (show (i * k)), Lazy.fromStrict (Bytes.replicate k 'x'))) | k <- [1 .. 50]]
        ys <- within 30 (parMapM (onBackend b) f [1 .. 40 :: Int])
        ys @?= map f [1 .. 40],
      testGroup
        "a result larger than its pages needs at most twice the memory that it needs without workers"
        [testCase kind (twice b kind) | kind <- ["bytes", "boxed"]],
      testCase "2000 results of 1 MB through pages of 8 MiB: right, and memory stays bounded" $ rotations b,
      testCase "2000 results with one in ten an exception" . leavingNothing $ do
        let ys = parMapTry (onBackend b) (\i -> if i `mod` 10 == 0 then errorWithoutStackTrace (show i) else i) [0 .. 1999 :: Int]
        got <- within 30 (evaluate (length ys) >> pure ys)
        [i | Right i <- got] @?= filter ((/= 0) . (`mod` 10)) [0 .. 1999]
        [(failedIndex e, fmap show (fromException (failedCause e) :: Maybe ErrorCall)) | Left e <- got]
          @?= [(i, Just (show i)) | i <- [0, 10 .. 1999]],
      testCase "unordered delivery with holes: each index once" . leavingNothing $ do
        us <- parMapUnordered (onBackend b) (\i -> if i `mod` 7 == 0 then error "no" else i) [0 .. 300 :: Int]
        seen <- within 30 . forM us $ \(i, y) -> (,) i <$> try (evaluate y)
        Map.toList (Map.fromListWith (+) [(i, 1 :: Int) | (i, _) <- seen]) @?= [(i, 1) | i <- [0 .. 300]]
        forM_ seen $ \(i, y) -> either (\e -> const (i `mod` 7) (e :: ErrorCall)) (const 0) y @?= 0,
      testCase "200 workers" . leavingNothing $
        within 60 (parMapM (onBackend b) {workers = Workers 200, chunking = Fixed 1} (working 10) [1 .. 1000]) >>= (@?= [2 .. 1001]),
      testCase "more workers than items" . leavingNothing $
        within 20 (parMapM (onBackend b) {workers = Workers 64} (working 10) [1, 2]) >>= (@?= [2, 3]),
      testCase "a nested map that is left to choose does not multiply processes" $ nested b,
      testCase "a map on two workers inside a map" . leavingNothing $ do
        let inner i = sum (parMapWith (onBackend b) {workers = Workers 2} (working 1) [i, i + 1, i + 2])
        within 60 (parMapM (onBackend b) {workers = Workers 2} inner [1 .. 10]) >>= (@?= [3 * i + 6 | i <- [1 .. 10]]),
      testCase "a result about as large as is copied without sharing" . leavingNothing $ do
        let f n = [Bytes.replicate 20 (toEnum (i `mod` 128)) | i <- [1 .. n]]
        ys <- within 100 (parMapM (onBackend b) {workers = Workers 1} f [1150000 :: Int, 2300000])
        map (\y -> (length y, Bytes.length (last y))) ys @?= [(1150000, 20), (2300000, 20)],
      testCase "a number of workers outside 1 to 65535 is refused, with one line that names it" $
        forM_ [0, -1, 1000000] $ \n ->
          refused (show n) (parMapM (onBackend b) {workers = Workers n} (+ 1) [1 :: Int]),
      testCase "rubbish in MARU_WORKERS, MARU_TOPOLOGY and MARU_BACKEND is refused, with one line that names it" $
        forM_ [("MARU_WORKERS", "many"), ("MARU_WORKERS", "0"), ("MARU_WORKERS", "-3"), ("MARU_WORKERS", "99999999999999999999"), ("MARU_TOPOLOGY", "virtual:2by4"), ("MARU_TOPOLOGY", "/nowhere"), ("MARU_BACKEND", "rubbish"), ("MARU_BACKEND", "Shm")] $ \(name, value) ->
          flip finally (unsetEnv name) $ do
            setEnv name value
            refused name (parMapM defaultOptions {backend = if name == "MARU_BACKEND" then Auto else b} (+ 1) [1 :: Int])
    ]

refused :: String -> IO [Int] -> Assertion
refused what act = do
  got <- try act
  case got of
    Left (BadOptions why) -> assertBool why (what `isInfixOf` why && length (lines why) == 1)
    Right ys -> assertFailure (show ys)

-- | Of all processes together, pages that they share counted once (Pss), while all are
-- stopped: else bytes that move meanwhile would be counted twice. Beside the result a
-- second process has some memory of its own.
twice :: Backend -> String -> Assertion
twice b kind = do
  alone <- peak "sequential"
  together <- peak (backendName b)
  assertBool (show (together, alone) <> " MiB") (together <= 2 * alone + 24)
  where
    peak name = playing [] ["memory", name, kind, "300"] $ \s -> do
      most <- newIORef 0
      let sample = do
            let stop pid = pid <$ kill sigSTOP pid
            caller <- stop (scenePid s)
            -- Grandchildren there are none.
            pids <- (caller :) <$> (childrenOf caller >>= mapM stop)
            now <- sum <$> mapM shareMiB pids
            mapM_ (kill sigCONT) pids
            modifyIORef' most (max now)
            ended <- getProcessExitCode (sceneProcess s)
            maybe (threadDelay 5000 >> sample) pure ended
      within 100 sample >>= (@?= ExitSuccess)
      readIORef most

rotations :: Backend -> Assertion
rotations b = leavingMappings 64 $ do
  most <- newIORef 0
  before <- performMajorGC >> residentMiB
  let n = 2000 :: Int
      f i = let w = working 1 i in Bytes.replicate 1000000 (toEnum (w `mod` 128))
      -- Not more than 16 results wait.
      ys = parBuffer (onBackend b) {regionMiB = 8} 16 f [1 .. n]
  within 110 . forM_ (zip [1 ..] ys) $ \(i, y) -> do
    (Bytes.length y, Bytes.last y) @?= (1000000, toEnum ((i + 1) `mod` 128))
    when (i `mod` 20 == 0) $ performMajorGC >> residentMiB >>= \m -> modifyIORef' most (max m)
  peak <- readIORef most
  assertBool ("resident before and at most: " <> show (before, peak) <> " MiB") (peak < before + 150)

nested :: Backend -> Assertion
nested b = leavingNothing $ do
  let inner i = effect $ do
        before <- children
        s <- evaluate (sum (parMapWith defaultOptions {backend = b} (working 2) [i .. i + 200]))
        s `seq` ((\now -> (length before, length now)) <$> children)
      slow i = effect (threadDelay 1000) `seq` inner i
  counts <- within 60 (parMapM (onBackend b) {workers = Workers 4} slow [1 .. 8])
  -- Four workers on these cores: one each, at most.
  cores <- getNumProcessors
  assertBool (show counts) (all (\(_, n) -> n <= max 1 (cores `div` 4) + 1) counts)
