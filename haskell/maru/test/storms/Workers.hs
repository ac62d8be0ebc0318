{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Workers are killed, stopped and made to crash while maps run.
module Workers (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString.Char8 as Bytes
import Data.IORef
import Data.List (sort)
import qualified Data.Map.Strict as Map
import Data.Maybe (isNothing)
import Data.Word (Word64)
import Draw
import Foreign.C (CInt (..))
import Left
import Maru
import System.Posix.Signals (Signal, sigABRT, sigBUS, sigCONT, sigILL, sigKILL, sigSEGV, sigSTOP, sigTERM)
import System.Timeout (timeout)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit
import Tools

tests :: Backend -> TestTree
tests b = testCase (show wanted <> " kills, stops and crashes of workers: each result is that of map or the error that the policy promises, nothing is left") $ do
  counts <- newIORef Map.empty
  let go seed = do
        n <- sum . Map.elems <$> readIORef counts
        when (n < wanted) $ do
          s <- settingOf b seed
          oneMap counts s `catch` \e -> assertFailure (show s <> ": " <> displayException (e :: SomeException))
          go (seed + 1)
  go firstSeed
  readIORef counts >>= \m -> putStr ("\n        " <> unwords [show n <> " x " <> what <> ";" | (what, n) <- Map.toList m] <> " ")
  where
    wanted = 10 * scale

-- | What a map is like.
data Setting = Setting
  { settingSeed :: !Word64,
    settingOptions :: !Options,
    settingKind :: !Kind,
    settingItems :: !Int,
    -- | These end the worker that evaluates them.
    settingPoison :: ![Int],
    settingUse :: !Use,
    -- | Longest pause between two faults, in microseconds.
    settingPause :: !Int
  }

instance Show Setting where
  show s =
    unwords
      [ "seed " <> show (settingSeed s) <> ":",
        show (settingItems s) <> " items of kind " <> show (settingKind s) <> ", poison " <> show (settingPoison s) <> ",",
        show (settingUse s) <> ", a fault each " <> show (settingPause s) <> " us,",
        show (policy (settingOptions s), workers (settingOptions s), chunking (settingOptions s), regionMiB (settingOptions s))
      ]

-- | What results are: small, a structure, bytes, more than their pages hold.
data Kind = Number | List | Text | Large
  deriving (Show, Eq)

-- | How the caller uses the map.
data Use = Whole | AsTheyCome | Some !Int | UntilMicros !Int
  deriving (Show)

data Result = ANumber !Int | AList [Int] | AText !Bytes.ByteString
  deriving (Eq, Show)

settingOf :: Backend -> Word64 -> IO Setting
settingOf b seed = do
  ds <- drawing seed
  how <- oneOf ds (Retry 1000) [Retry 1000, Retry 2, Skip, Fail]
  n <- between ds 1 5
  size <- oneOf ds Guided [Fixed 1, Fixed 7]
  kind <- oneOf ds Number [Number, List, Text, Large]
  items <- if kind == Large then between ds 1 40 else between ds 1 300
  poisoned <- if how == Retry 1000 then pure False else chance ds 40
  poison <- if poisoned then replicateM 2 (below ds items) else pure []
  use <- between ds 1 60 >>= \k -> oneOf ds Whole [Whole, AsTheyCome, Some k, UntilMicros (1000 * k)]
  pause <- oneOf ds 3000 [10000, 30000]
  region <- if kind == Large then pure 1 else oneOf ds 1 [64]
  pure (Setting seed (onBackend b) {policy = how, workers = Workers n, chunking = size, regionMiB = region} kind items poison use pause)

foreign import ccall unsafe "raise" c_raise :: CInt -> IO CInt

-- | What an item is worth.
worth :: Setting -> Int -> Result
worth s i = case settingKind s of
  Number -> ANumber (i + 1)
  List -> AList [i .. i + 40]
  Text -> AText (Bytes.replicate (1000 * (1 + i `mod` 50)) 'x')
  Large -> AText (Bytes.replicate 400000 'y')

item :: Setting -> Int -> Result
item s i
  | i `elem` settingPoison s = effect (c_raise sigSEGV) `seq` worth s i
  | working 150 i == minBound = ANumber 0
  | otherwise = worth s i

-- Faults ---------------------------------------------------------------------

type Counts = IORef (Map.Map String Int)

count :: Counts -> String -> IO ()
count counts what = modifyIORef' counts (Map.insertWith (+) what 1)

-- | Goes on until it is killed. What it has stopped it continues or kills, but for
-- some where the map is not used to its end.
storm :: Setting -> Counts -> IO Int -> IO ()
storm s counts tick = drawing (settingSeed s + 0x5707) >>= forever . fault
  where
    leaves = case settingUse s of
      Some _ -> True
      UntilMicros _ -> True
      _ -> False
    fault ds = do
      -- What never gets through its start for seconds is given up: not so long.
      rest <- chance ds 15
      if rest then threadDelay 150000 else below ds (settingPause s) >>= threadDelay
      living <- children >>= filterM alive
      k <- below ds (length living)
      forM_ (take 1 (drop k living)) $ \pid -> mask_ $ do
        stops <- chance ds 35
        _ <- tick
        if stops then stopped ds pid else signalled ds pid
    signalled ds pid = do
      (what, signal) <- oneOf ds killed [killed, ("SIGSEGV", sigSEGV), ("SIGABRT", sigABRT), ("SIGBUS", sigBUS), ("SIGILL", sigILL), ("SIGTERM", sigTERM)]
      kill signal pid
      count counts what
    stopped ds pid = do
      kill sigSTOP pid
      count counts "SIGSTOP"
      forgotten <- (leaves &&) <$> chance ds 50
      unless forgotten $ do
        -- Not interrupted: the map may wait for that worker.
        below ds 20000 >>= uninterruptibleMask_ . threadDelay
        goesOn <- chance ds 60
        if goesOn then kill sigCONT pid else kill sigKILL pid >> count counts "SIGKILL after SIGSTOP"
    killed = ("SIGKILL", sigKILL)

-- | Signals by which a worker may have been lost.
deadly :: [Signal]
deadly = [sigKILL, sigSEGV, sigABRT, sigBUS, sigILL, sigTERM]

-- | The action in a storm, and how many faults there were.
amid :: Setting -> Counts -> IO a -> IO (a, Int)
amid s counts action = do
  faults <- newIORef (0 :: Int)
  storming <- forkIO (storm s counts (atomicModifyIORef' faults (\n -> (n + 1, n))))
  result <- action `finally` killThread storming
  (,) result <$> readIORef faults

-- One map --------------------------------------------------------------------

oneMap :: Counts -> Setting -> Assertion
oneMap counts s = do
  before <- belongings
  used (amid s counts)
  sameAgain before
  where
    xs = [0 .. settingItems s - 1]
    used :: (forall a. IO a -> IO (a, Int)) -> Assertion
    used during = case settingUse s of
      Whole | policy (settingOptions s) == Fail -> during (try (within 120 (parMapM (settingOptions s) (item s) xs))) >>= whole
      Whole ->
        during (within 120 (forced (parMapTry (settingOptions s) (item s) xs))) >>= \(ys, n) -> do
          when (policy (settingOptions s) /= Fail) (length ys @?= settingItems s)
          judged n (zip xs ys)
      AsTheyCome -> do
        (ys, n) <- during (within 120 (parMapUnordered (settingOptions s) (item s) xs >>= collected))
        unless (policy (settingOptions s) == Fail) $ sort (map fst ys) @?= xs
        judged n (map (fmap (either (Left . ItemFailed 0 0) Right)) ys)
      Some k -> do
        (ys, n) <- during (within 120 (forced (take k (parMapTry (settingOptions s) {window = Just k} (item s) (cycle xs)))))
        when (policy (settingOptions s) /= Fail) (length ys @?= k)
        judged n (zip (cycle xs) ys)
      UntilMicros t -> do
        (got, n) <- during (try (timeout t (parMapM (settingOptions s) (item s) xs)))
        maybe (pure ()) (\r -> whole (r, n)) (sequence' got)
    sequence' = either (Just . Left) (fmap Right)
    -- All or the first error.
    whole (got, n) = case got of
      Right ys -> ys @?= map (worth s) xs
      Left e -> lost (policy (settingOptions s)) n e >>= \i -> assertBool ("no item " <> show i) (i < settingItems s)
    -- Under Fail the list ends with an error: what came before it.
    forced list = do
      cell <- try (evaluate list)
      case cell of
        Right (y : rest) -> (y :) <$> forced rest
        Right [] -> pure []
        Left e -> [] <$ ended e
    collected ys = do
      seen <- newIORef []
      let walk list = do
            cell <- try (evaluate list)
            case cell of
              Right ((i, y) : rest) -> try (evaluate y) >>= \r -> modifyIORef' seen ((i, r) :) >> walk rest
              Right [] -> pure ()
              Left e -> ended e
      walk ys
      readIORef seen
    ended e = when (policy (settingOptions s) /= Fail || isNothing (fromException e :: Maybe WorkerLost)) $ throwIO (e :: SomeException)
    -- Each by itself, and not more holes than there were reasons.
    judged :: Int -> [(Int, Either ItemFailed Result)] -> Assertion
    judged n ys = do
      holes <- fmap concat . forM ys $ \(i, y) -> case y of
        Right r -> [] <$ (r @?= worth s i)
        Left failed -> [i] <$ lost (policy (settingOptions s)) n (failedCause failed)
      let sound = filter (`notElem` settingPoison s) holes
      assertBool (show (length sound) <> " holes, " <> show n <> " faults") (length sound <= n)
      when (policy (settingOptions s) == Retry 1000) (holes @?= [])
    -- The typed error that the policy promises; its index.
    lost how n e = case fromException e of
      Nothing -> assertFailure ("not a lost worker: " <> displayException e)
      Just l -> do
        assertBool (show l) (n > 0 || lostIndex l `elem` settingPoison s)
        assertBool (show l) (lostDeath l `elem` map (Killed . fromIntegral) deadly)
        lostTries l @?= (case how of Retry k -> 1 + k; _ -> 1)
        pure (lostIndex l)
