-- | What a program gets by the way in which it was built and started. The first argument names the
-- way; without one it is the ordinary one: statically linked, with a GHC that maru was checked with.
-- Needs nothing but what comes with GHC, so that it can be built in each of these ways.
module Main (main) where

import Control.Concurrent (setNumCapabilities, threadDelay)
import Control.Exception
import Control.Monad (unless)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy.Char8 as Lazy
import Data.Either (isRight)
import Data.IORef
import Data.List (isInfixOf)
import qualified Data.Map as Map
import Data.Maybe (fromMaybe)
import GHC.Clock (getMonotonicTime)
import Maru
import Maru.Native.Region (zeroCopy)
import Maru.Pool
import System.Environment (getArgs, lookupEnv)
import System.Exit (exitFailure)
import System.IO (hClose, openTempFile)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix (getProcessID, removeLink)

data Way = Way
  { -- | Why results do not cross by address; empty: they do.
    wayRefusal :: String,
    wayForks :: Bool
  }

ways :: [(String, Way)]
ways =
  [ ("ordinary", Way "" True),
    ("unseen", Way "was not checked with this GHC" True),
    ("profiling", Way "built for profiling" True),
    ("dynamic", Way "a shared library" True),
    ("strange", Way "does not know the base library" False),
    ("nonmoving", Way "--nonmoving-gc" False)
  ]

-- | An exception that is no one else's.
data Sorry = Sorry Int Char8.ByteString
  deriving (Eq, Show)

instance Exception Sorry

main :: IO ()
main = do
  arguments <- getArgs
  way <- case arguments of
    [] -> pure (Way "" True)
    [name] | Just way <- lookup name ways -> pure way
    _ -> fail ("usage: ways [" <> unwords (map fst ways) <> "]")
  failed <- newIORef []
  let cases = (if wayForks way then forking way else refusing way) ++ [("whether results cross by address", crossing way)]
      run (name, test) = do
        good <- try test
        case good of
          Right True -> putStrLn ("ok      " <> name)
          Right False -> lost name ""
          Left e -> lost name (": " <> show (e :: SomeException))
      lost name why = putStrLn ("FAILED  " <> name <> why) >> modifyIORef failed (name :)
  mapM_ run cases
  known <- readIORef failed
  unless (null known) exitFailure
  putStrLn ("All " <> show (length cases) <> " tests passed")

crossing :: Way -> IO Bool
crossing way = do
  possible <- zeroCopy
  either (putStrLn . ("  results cross by copy: " <>)) pure possible
  pure (if null (wayRefusal way) then isRight possible else either (wayRefusal way `isInfixOf`) (const False) possible)

processes :: Options
processes = defaultOptions {backend = Shm, workers = Workers 2}

forking :: Way -> [(String, IO Bool)]
forking way =
  [ ("numbers and lists", same (\i -> [1 .. i `mod` 50])),
    ("strict ByteStrings, and parts of them", same (\i -> Map.fromList (zip [1 :: Int ..] (Char8.words (Char8.replicate i 'x' <> Char8.pack " y z"))))),
    ("lazy ByteStrings", same (Lazy.pack . show)),
    ("a large result", same (\i -> (Char8.replicate (2000000 + i) 'a', [1 .. i]))),
    ("an exception of base keeps its type", (== Left DivideByZero) <$> try (evaluate (sum (parMapWith processes (100 `div`) [2, 1, 0 :: Int])))),
    ("an exception of the program keeps its type", (== Left sorry) <$> try (evaluate (length (show (parMapWith processes throwing [1 :: Int, 2]))))),
    ("the report says how results cross", told),
    ("a pool's calls are maps, and say where its workers do not stay", pooled),
    ("no finalizer of the caller's runs in a worker", and <$> mapM finalized [1, 2]),
    ("how long a map takes", True <$ timed)
  ]
  where
    same :: (Eq b) => (Int -> b) -> IO Bool
    same f = pure (parMapWith processes f [1 .. 60] == map f [1 .. 60])
    sorry = Sorry 7 (Char8.pack "bytes")
    throwing :: Int -> Int
    throwing _ = throw sorry
    told = do
      (xs, report) <- parMapReporting processes (+ 1) [1 .. 100 :: Int]
      _ <- evaluate (sum xs)
      r <- report
      pure (if null (wayRefusal way) then not (any ("by copy" `isInfixOf`) (reportNotes r)) else any (wayRefusal way `isInfixOf`) (reportNotes r))

    pooled = withPool processes 3 $ \pool -> do
      sums <- mapM (\n -> poolMap pool (\e x -> e * x + n) [1 .. 20 :: Int]) [1, 2, 3]
      r <- poolReport pool
      let stayed = (poolCalls r, poolForked r, poolNotes r) == (3, 0, [])
          forked = poolCalls r == 0 && poolForked r == 60 && any (wayRefusal way `isInfixOf`) (poolNotes r)
      pure (sums == [[3 * x + n | x <- [1 .. 20]] | n <- [1, 2, 3]] && (if null (wayRefusal way) then stayed else forked))

-- | With so many capabilities. The workers' collections find dead what only the caller's thread
-- holds; each weak pointer is new, so no generation has it yet.
finalized :: Int -> IO Bool
finalized capabilities = do
  setNumCapabilities capabilities
  caller <- getProcessID
  folder <- fromMaybe "/tmp" <$> lookupEnv "TMPDIR"
  (told, file) <- openTempFile folder "maru-ways"
  hClose file
  let tell = getProcessID >>= \self -> unless (self == caller) (appendFile told "x")
  held <- mapM newIORef [1 .. 100 :: Int]
  mapM_ (`mkWeakIORef` tell) held
  let f i = unsafePerformIO (i <$ (performMajorGC >> threadDelay 50000))
      {-# NOINLINE f #-}
      ys = parMapWith processes f [1 .. 4 :: Int]
  right <- evaluate (ys == [1 .. 4])
  there <- sum <$> mapM readIORef held
  ran <- readFile told
  setNumCapabilities 1
  (right && there == 5050 && null ran) <$ removeLink told

-- | For people: what a map takes here, beside map.
timed :: IO ()
timed = do
  alone <- clocked (evaluate (sum (map work items)))
  apart <- clocked (evaluate (sum (parMapWith processes work items)))
  putStrLn ("  map " <> ms alone <> ", parMap on 2 workers " <> ms apart)
  where
    items = [1 .. 400]
    work :: Int -> Int
    work n = Map.size (Map.fromList [(i * n `mod` 4001, i) | i <- [1 .. 4000]])
    clocked act = do
      from <- getMonotonicTime
      _ <- act
      to <- getMonotonicTime
      pure (to - from)
    ms :: Double -> String
    ms s = show (round (s * 1000) :: Int) <> " ms"

-- | Where forking is unsafe, a map that must fork says so in one line, and one that need not
-- does not.
refusing :: Way -> [(String, IO Bool)]
refusing way =
  [ ("a pool's call is refused in one line", either (\e -> wayRefusal way `isInfixOf` show (e :: Unavailable)) (const False) <$> try (withPool processes () (\pool -> poolMap pool (const (+ 1)) [1 :: Int]))),
    ("processes are refused in one line", either (\e -> wayRefusal way `isInfixOf` show (e :: Unavailable)) (const False) <$> try (evaluate (sum (parMapWith processes (+ 1) [1 .. 100 :: Int])))),
    ("Auto does without", pure (parMap (* 2) [1 .. 1000 :: Int] == map (* 2) [1 .. 1000]))
  ]
