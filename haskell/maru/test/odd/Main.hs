-- | Random items with odd effects inside (catch-alls, sparks, deadlines, exceptions
-- that a thread throws to itself, masked parts, loops, deadlocks, crashes, values
-- that a thread of the caller is computing): every back end, under every policy,
-- gives what @map@ gives.
--
-- @MARU_TEST_SCALE=n@ does n times as many: 50 (@make soak@) is 10 000 items, each on
-- every back end. @MARU_TEST_SEED@ takes another seed; @MARU_TEST_BACKENDS=shm@ picks
-- back ends. A test's name says what its items are.
--
-- What a back end is able to do: one of processes survives an item that ends its
-- process, and has 'WorkerLost' for it, where the others would end with it. In the
-- others an item that waits for ever takes the thread along that waits for the item:
-- the run-time system finds both to be stuck. So both kinds of items are given to those
-- of processes alone.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Maru
import Maru.Failure (exceptionText)
import System.Environment (lookupEnv)
import System.IO
import System.Timeout (timeout)
import Term
import Test.Tasty (TestTree, defaultMain, localOption, mkTimeout, testGroup)
import Test.Tasty.HUnit (Assertion, assertFailure, testCase)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  scale <- number "MARU_TEST_SCALE" 1
  -- The first whose few maps have stuck items under all conditions.
  seed <- number "MARU_TEST_SEED" 3
  chosen <- maybe allBackends named <$> lookupEnv "MARU_TEST_BACKENDS"
  defaultMain . localOption (mkTimeout (300000000 * fromIntegral scale)) $
    testGroup "odd effects" [onBackend (8 * scale) (fromIntegral seed) b | b <- allBackends, b `elem` chosen]
  where
    named text = [b | b <- allBackends, backendName b `elem` words (map (\c -> if c == ',' then ' ' else c) text)]
    number name instead = maybe instead (fromMaybe instead . readInt) <$> lookupEnv name
    readInt text = case reads text of [(n, "")] -> Just (n :: Int); _ -> Nothing

-- | A seed has so many items, which one map evaluates.
size :: Int
size = 25

onBackend :: Int -> Word64 -> Backend -> TestTree
onBackend rounds seed b =
  testCase (unwords ([backendName b <> ":", show rounds, "maps,", show (length ts), "items:"] <> map count kinds)) $
    mapM_ (agrees b) seeds
  where
    seeds = [seed * 1000000 + fromIntegral k | k <- [1 .. rounds]]
    ts = concatMap (given b . conditions) seeds
    kinds = [("stuck", stuck), ("dying", kills), ("sharing", shares)]
    count (what, is) = show (length (filter is ts)) <> " " <> what

-- | What a seed stands for.
data Conditions = Conditions !Policy !Workers !Chunking [Term]

-- | One choice does not lead to another: all of them meet.
conditions :: Word64 -> Conditions
conditions seed = case randoms seed of
  (a, b, c, d) ->
    Conditions
      ([Retry 1, Skip, Retry 0] !! (a `mod` 3))
      (Workers (1 + b `mod` 4))
      (if even c then Guided else Fixed 3)
      (take size (terms (Limits (if even d then 50 else 0) 20 3) seed))

-- | Those of the items that the back end is able to evaluate.
given :: Backend -> Conditions -> [Term]
given b (Conditions _ _ _ ts) = [t | t <- ts, ofProcesses b || not (stuck t || kills t)]

ofProcesses :: Backend -> Bool
ofProcesses b = b `elem` [Shm, Sockets]

-- | What an item comes to.
data Verdict = Is !Int | Throws' String | Lost Death Int
  deriving (Eq, Show)

-- | What 'map' says, but for items that would end this process.
expected :: Policy -> [Term] -> IO [Verdict]
expected p ts = do
  shared <- share
  forM ts $ \t -> if kills t then pure (death t) else plainly <$> try (evaluate (value shared t))
  where
    plainly = either (\e -> Throws' (exceptionText (e :: SomeException))) Is
    death t = Lost (Killed (head [s | s <- [6, 9, 11], show s `elem` words (filter (`notElem` "()") (show t))])) (tries p)
    tries (Retry n) = n + 1
    tries _ = 1

verdict :: Either ItemFailed Int -> IO Verdict
verdict y = do
  -- An item that the caller evaluates is evaluated where its value is looked at.
  got <- try (evaluate y >>= either (pure . Left) (fmap Right . evaluate))
  pure $ case got of
    Right (Right n) -> Is n
    Right (Left failed)
      | Just lost <- fromException (failedCause failed) -> Lost (lostDeath lost) (lostTries lost)
      | otherwise -> Throws' (exceptionText (failedCause failed))
    Left e -> Throws' (exceptionText (e :: SomeException))

agrees :: Backend -> Word64 -> Assertion
agrees b seed = do
  let made@(Conditions p n chunks _) = conditions seed
      ts = given b made
      options = defaultOptions {backend = b, policy = p, workers = n, chunking = chunks}
  wanted <- alone seed (expected p ts)
  got <- alone seed $ do
    shared <- share
    mapM verdict (parMapTry options (value shared) ts)
  let wrong = [(i, t, w, g) | (i, t, w, g) <- zip4' [0 :: Int ..] ts wanted got, w /= g]
  unless (null wrong && length got == length wanted) $
    assertFailure (unlines (("MARU_TEST_SEED, round " <> show seed <> ", " <> show (policy options, workers options, chunking options) <> ": item, term, expected, got") : map show (take 5 wrong)))
  where
    zip4' (a : as) (x : xs) (y : ys) (z : zs) = (a, x, y, z) : zip4' as xs ys zs
    zip4' _ _ _ _ = []

-- | In a thread that nobody holds, so that the run-time system may find it to be
-- stuck; this one waits for it.
alone :: Word64 -> IO a -> IO a
alone seed act = do
  done <- newEmptyMVar
  _ <- forkIO (try act >>= putMVar done)
  got <- timeout 120000000 (takeMVar done)
  case got of
    Nothing -> assertFailure ("round " <> show seed <> " hangs")
    Just (Left e) -> assertFailure ("round " <> show seed <> ": " <> exceptionText (e :: SomeException))
    Just (Right x) -> pure x
