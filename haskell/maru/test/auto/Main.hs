{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | The default back end's decisions, with workers that only note that they were
-- asked.
module Main (main) where

import Control.Concurrent
import Control.Exception (BlockedIndefinitelyOnMVar (..), ErrorCall (..), Exception, IOException, evaluate, throw, throwIO, try)
import Control.Monad (forM_, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.Int (Int64)
import Data.List (foldl', nub)
import Data.Maybe (isNothing)
import qualified Data.Text as Text
import qualified Data.Vector.Unboxed as Vector
import GHC.Clock (getMonotonicTime)
import Maru (Backend (Auto, Shm), Options (..), Untransferable (..), Workers (..), defaultOptions, parMapWith)
import Maru.Backend.Auto
import Maru.Native.Force (flatBytes)
import System.Directory (doesFileExist, getTemporaryDirectory, removeFile)
import System.Environment (setEnv)
import System.IO (hClose, openTempFile)
import System.IO.Unsafe (unsafeInterleaveIO, unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix (ProcessID, getProcessID, nullSignal, signalProcess)
import System.Timeout (timeout)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

main :: IO ()
main = do
  -- One at a time: two maps at once would take the caller's core for each, and leave none for a worker.
  setEnv "TASTY_NUM_THREADS" "1"
  -- Two cores for two workers, whatever the machine has.
  setEnv "MARU_TOPOLOGY" "virtual:1x2"
  defaultMain (testGroup "auto" [decisions, lists "on the whole machine" (Whole two), lists "while other maps have it" (Shared one (pure one)), lists "when a core falls idle" (Shared one (pure two)), places, beside, inside])

decisions :: TestTree
decisions =
  testGroup
    "decide"
    [ testCase "much work that is known to be there goes to workers" $
        decide (Means 2 1 1e6) fork (Sample [1e6, 1e6] 1e3 0 0) 100 @?= OnWorkers,
      testCase "little work does not" $
        decide (Means 2 1 1e6) fork (Sample [1e6, 1e6] 1e3 0 0) 3 @?= InCaller,
      testCase "results that are dear to carry do not" $
        decide (Means 2 1 1e6) fork (Sample [1e6, 1e6] 2e5 0 0) 1000 @?= InCaller,
      testCase "nor do results of many bytes that take less to make than to carry" $ do
        decide (Means 2 1 1e6) fork (Sample [5e4, 5e4] 100 1e6 1e6) 100000 @?= InCaller
        decide (Means 16 1 1e6) fork (Sample [5e4, 5e4] 100 1e6 1e6) 100000 @?= InCaller
        decide (Means 2 1 1e6) fork (Sample [1e7, 1e7] 100 1e6 1e6) 1000 @?= OnWorkers,
      testCase "bytes that no walk looks at are counted, of a ByteString and a Text its own alone" $ do
        let bytes = ByteString.replicate 100000 1
            numbers = Vector.enumFromN (1 :: Int) 1000
        flatBytes bytes >>= (@?= 100000)
        flatBytes (ByteString.take 100 bytes) >>= (@?= 100)
        flatBytes (Lazy.take 100 (Lazy.fromStrict bytes) <> Lazy.fromStrict (ByteString.drop 99000 bytes)) >>= (@?= 1100)
        few <- flatBytes (Text.take 100 (Text.replicate 100000 (Text.pack "x")))
        assertBool (show few) (few `elem` [100, 200])
        flatBytes (numbers, [bytes, ByteString.empty], "text" :: String, 5 :: Int) >>= (@?= 108000)
        flatBytes (map Just [1 .. 1000 :: Int]) >>= (@?= 0),
      testCase "results that are dear to carry go to several capabilities" $ do
        decide (Means 2 2 1e6) fork (Sample [1e6, 1e6] 2e5 0 0) 1000 @?= OnCapabilities
        decide (Means 2 2 1e6) fork (Sample [1e6, 1e6] 2e5 0 0) 1 @?= InCaller
        decide (Means 2 2 1e6) fork (Sample [1e4, 1e4] 1e4 0 0) 100000 @?= InCaller,
      testCase "but for many workers, who share the carrying, until the caller that takes the results is the bound" $ do
        decide (Means 4 1 1e6) fork (Sample [1e6, 1e6] 2e5 2e6 0) 1000 @?= OnWorkers
        decide (Means 16 1 1e6) fork (Sample [1e6, 1e6] 2e5 2e6 0) 1000 @?= OnWorkers
        decide (Means 16 1 1e6) fork (Sample [1e6, 1e6] 9e5 1e7 0) 1000 @?= InCaller,
      testCase "nor are many capabilities faster than the caller that reads the results" $ do
        decide (Means 1 16 64e6) fork (Sample [1e6, 1e6] 3e5 0 0) 1000 @?= OnCapabilities
        decide (Means 1 16 64e6) fork (Sample [1e6, 1e6] 5e5 0 0) 1000 @?= InCaller,
      testCase "what allocates much does not go to capabilities, for all stop for each collection" $ do
        decide (Means 2 2 1e6) fork (Sample [1e6, 1e6] 2e5 2e6 0) 1000 @?= InCaller
        decide (Means 1 16 1e6) fork (Sample [1e6, 1e6] 1e5 2e6 0) 1000 @?= InCaller
        decide (Means 1 16 64e6) fork (Sample [1e6, 1e6] 1e5 2e6 0) 1000 @?= OnCapabilities
        decide (Means 16 16 1e6) fork (Sample [1e6, 1e6] 1e5 2e6 0) 1000 @?= OnWorkers,
      testCase "more of them are never slower, nor faster than their number allows" $
        forM_ [Sample [ns, ns] walk bytes 0 | ns <- [1e3, 1e6, 1e8], walk <- [0, 0.1 * ns, ns], bytes <- [0, 2 * ns, 30 * ns]] $ \sample ->
          forM_ [1, 2, 16] $ \n ->
            forM_ [OnWorkers, OnCapabilities] $ \way -> do
              let means = Means n n 1e6
              assertBool (show (sample, n, way)) (expected means sample way >= typical sample / fromIntegral n)
              assertBool (show (sample, n, way)) (n == 1 || expected means sample way <= expected means {meansWorkers = 1, meansCapabilities = 1} sample way),
      testCase "where workers are unsafe all that is long goes there" $
        decide (Means 1 2 1e6) fork (Sample [1e6, 1e6] 1e3 0 0) 1000 @?= OnCapabilities,
      testCase "what is cheap to carry waits for workers, however many capabilities there are" $ do
        decide (Means 2 2 1e6) fork (Sample [1e6, 1e6] 1e3 0 0) 100 @?= OnWorkers
        decide (Means 2 2 1e6) fork (Sample [1e6, 1e6] 1e3 0 0) 3 @?= InCaller,
      testCase "one worker is no worker" $
        decide (Means 1 1 1e6) fork (Sample [1e6, 1e6] 1e3 0 0) 1000 @?= InCaller,
      testCase "nothing is known from nothing, nor from one cheap item" $ do
        decide (Means 2 1 1e6) fork (Sample [] 0 0 0) 1000 @?= InCaller
        decide (Means 2 1 1e6) fork (Sample [1e6] 1e3 0 0) 1000 @?= InCaller,
      testCase "items that cost no more than handing a result over stay, however many" $
        decide (Means 2 1 1e6) fork (Sample [1e3, 1e3, 1e3] 10 0 0) 20000 @?= InCaller,
      testCase "one very dear item is believed" $
        decide (Means 2 1 1e6) fork (Sample [1e8] 1e3 0 0) 9 @?= OnWorkers,
      testCase "an item is long before it is believed, and never before workers could have started" $
        forM_ [(n, ns) | n <- [2, 4, 16, 64], ns <- [fork, 20 * fork, 400 * fork]] $ \(n, ns) -> do
          let long' = longNs (Means n 1 1e6) ns
          assertBool (show (n, ns, long')) (long' >= fromIntegral n * fromIntegral ns)
          assertBool (show (n, ns, long')) (not (believable (Sample [min long' 5e6] 0 0 0)))
          assertBool (show (n, ns, long')) (believable (Sample [2.1 * long'] 0 0 0)),
      testCase "of costs that grow smoothly the latest is believed" $
        decide (Means 2 1 1e6) fork (Sample [4e6, 2e6, 1e6] 1e3 0 0) 5 @?= OnWorkers,
      testCase "one outlier of three is not" $
        decide (Means 2 1 1e6) fork (Sample [100, 1e8, 100] 1 0 0) 1000 @?= InCaller,
      testCase "a large heap, which makes workers dear, needs more work" $ do
        decide (Means 2 1 1e6) fork (Sample [1e6, 1e6] 1e3 0 0) 20 @?= OnWorkers
        decide (Means 2 1 1e6) (20 * fork) (Sample [1e6, 1e6] 1e3 0 0) 20 @?= InCaller
    ]

-- | Thrown at a consumer.
data GiveUp = GiveUp deriving (Eq, Show)

instance Exception GiveUp

fork :: Int64
fork = 700000

-- | Where workers were asked for, and the list.
auto :: (a -> b) -> [a] -> IO (IORef (Maybe Int), [b])
auto = autoOn (Whole two)

two, one :: Means
two = Means 2 1 1e6
one = Means 1 1 1e6

autoOn :: Machine -> (a -> b) -> [a] -> IO (IORef (Maybe Int), [b])
autoOn machine f xs = do
  asked <- newIORef Nothing
  let parallel numbered rest = map f rest <$ writeIORef asked (Just (numbered 0))
  ys <- autoMap machine Ways {costOfFork = pure fork, onWorkers = parallel, onCapabilities = const parallel, ahead = Nothing} f xs
  pure (asked, ys)

-- | Other maps leave it so much, one look after the other; the last for ever.
leaving :: [Means] -> IO Machine
leaving means = (\left -> Shared one (atomicModifyIORef' left next)) <$> newIORef means
  where
    next (now : later@(_ : _)) = (later, now)
    next last' = (last', foldr const one last')

lists :: String -> Machine -> TestTree
lists where' machine =
  testGroup
    ("equals map, " <> where')
    [ testCase "for every length, elements first" $
        mapM_ (\n -> autoOn machine (* 2) [1 .. n] >>= \(_, ys) -> ys @?= map (* 2) [1 .. n :: Int]) [0, 1, 2, 3, 10, 100, 1000, 30000],
      testCase "for a consumer that walks the list first" $ do
        (_, ys) <- autoOn machine (* 2) [1 .. 5000 :: Int]
        length ys @?= 5000
        ys @?= map (* 2) [1 .. 5000],
      testCase "the first result needs no second input" $ do
        (_, ys) <- autoOn machine (+ 1) (1 : undefined)
        take 1 ys @?= [2 :: Int],
      testCase "where costs rise" $ do
        (_, ys) <- autoOn machine (turns . (3000 *) . (2 ^)) [1 .. 14 :: Int]
        ys @?= map (turns . (3000 *) . (2 ^)) [1 .. 14 :: Int],
      testCase "an input without end" $ do
        (_, ys) <- autoOn machine (+ 1) [0 :: Int ..]
        take 1000 ys @?= [1 .. 1000],
      testCase "what one item throws is that element" $ do
        (_, ys) <- autoOn machine (\x -> if even x then error "even" else x) [1 .. 9 :: Int]
        length ys @?= 9
        outcomes <- mapM (try . evaluate) ys :: IO [Either ErrorCall Int]
        map (either (const Nothing) Just) outcomes @?= [if even x then Nothing else Just x | x <- [1 .. 9]],
      testCase "an item that is given up is there when it is asked for again" $ do
        -- Many: the loop in one of them has no place to be interrupted.
        -- On a loaded machine the clock's thread may come when all is done.
        let givenUp :: Int -> IO ()
            givenUp 0 = assertFailure "too fast to be given up"
            givenUp left = do
              (_, ys) <- autoOn machine turns (replicate 50 2000000)
              first <- timeout 1000 (evaluate (sum ys))
              if isNothing first then sum ys @?= 50 * turns 2000000 else givenUp (left - 1)
        givenUp 20,
      testCase "an exception that comes while the spine is waited for does not stay in the list" $
        forM_ [0, 100, 250, 400, 600] $ \micros -> do
          here <- myThreadId
          walked <- newEmptyMVar
          gate <- newEmptyMVar
          rest <- unsafeInterleaveIO ([1 .. 3] <$ (tryPutMVar walked () >> readMVar gate))
          (_, ys) <- autoOn machine turns (replicate 8 200000 <> rest)
          _ <- forkIO (takeMVar walked >> threadDelay micros >> throwTo here GiveUp)
          given <- try (evaluate (sum ys))
          given @?= Left GiveUp
          _ <- forkIO (threadDelay 5000 >> putMVar gate ())
          sum ys @?= 8 * turns 200000 + sum (map turns [1 .. 3]),
      testCase "three million items in constant memory (run with -M64m)" $ do
        -- Read, so that no constant holds the whole input.
        n <- readIORef =<< newIORef (3000000 :: Int)
        (_, ys) <- autoOn machine (+ 1) [1 .. n]
        foldl' (+) 0 ys @?= n * (n + 3) `div` 2
    ]

places :: TestTree
places =
  testGroup
    "where the work is done"
    [ testCase "cheap items stay with the caller" $ do
        (asked, ys) <- auto (+ 1) [1 .. 50000 :: Int]
        foldl' (+) 0 ys @?= sum [2 .. 50001]
        readIORef asked >>= (@?= Nothing),
      testCase "dear items go to workers after a few" $ do
        (asked, ys) <- auto dear [1 .. 60]
        foldl' (+) 0 ys @?= sum (map dear [1 .. 60])
        readIORef asked >>= within 1 10,
      testCase "what was begun beside one long item is ended where the others are trivial, and nothing is begun again" $ do
        noted <- newIORef []
        let f 0 = effect (0 <$ (within' "the rest is begun" (evaluate (turns' 2000) >> not . null <$> readIORef noted) >> evaluate (turns' 500000)))
            f i = i
            note what = modifyIORef' noted (<> [what])
            parallel numbered rest = map f rest <$ note ("workers at " <> show (numbered 0))
            begin busy numbered rest = do
              note ("begun at " <> show (numbered 0))
              let looked = busy >>= \b -> Just 100 <$ note (if b then "the caller's core is its own" else "the caller's core is free")
              pure Begun {begunList = map f rest, begunStop = note "ended", begunItemNs = looked}
        ys <- autoMap (Whole two) Ways {costOfFork = pure fork, onWorkers = parallel, onCapabilities = const parallel, ahead = Just begin} f [0 .. 400 :: Int]
        ys @?= [0 .. 400]
        readIORef noted >>= (@?= ["begun at 1", "the caller's core is its own", "ended"]),
      testCase "items that become dear go then" $ do
        (asked, ys) <- auto (\i -> if i < 2000 then i else dear i) [0 .. 2060]
        _ <- evaluate (foldl' (+) 0 ys)
        -- The clock is looked at once in 32 items, and then a few are measured.
        readIORef asked >>= within 2000 2040,
      testCase "in a map inside another one they go when a core falls idle" $ do
        (asked, ys) <- leaving [one, one, one, two] >>= \machine -> autoOn machine dear [1 .. 60]
        foldl' (+) 0 ys @?= sum (map dear [1 .. 60])
        readIORef asked >>= within 4 20,
      testCase "and stay when it is taken before that" $ do
        (asked, ys) <- leaving (cycle [two, one]) >>= \machine -> autoOn machine dear [1 .. 20]
        foldl' (+) 0 ys @?= sum (map dear [1 .. 20])
        readIORef asked >>= (@?= Nothing),
      testCase "a slow spine keeps its items with the caller" $ do
        (asked, ys) <- slow [1 .. 5] >>= auto dear
        _ <- evaluate (foldl' (+) 0 ys)
        readIORef asked >>= (@?= Nothing),
      testCase "an exception names the item's own place" $ do
        -- The caller evaluates what it comes to before a worker does, and needs no copy of that: of many, not all.
        let f n = if n > 15 then (turns 3000000, Just (+ n)) else (turns (3000 * 2 ^ n), Nothing)
            ys = parMapWith defaultOptions {backend = Auto, workers = Workers 2} f [0 .. 47 :: Int]
        outcomes <- mapM (try . evaluate . fst) ys
        let failed = [(i, untransferableIndex e) | (i, Left e) <- zip [0 ..] outcomes]
        assertBool "no function was a worker's" (not (null failed))
        map fst failed @?= map snd failed
    ]
  where
    within low high asked = case asked of
      Just at | low <= at && at <= high -> pure ()
      other -> assertFailure ("workers were asked for at " ++ show other)
    slow [] = pure []
    slow (x : rest) = unsafeInterleaveIO (threadDelay 30000 >> (x :) <$> slow rest)

-- | Items begun in workers while the caller is at one of its own. That one ends only when another
-- item has begun in another process: a map that begins nothing ahead never gets there.
beside :: TestTree
beside =
  testGroup
    "while the caller evaluates a long item"
    $ [ testCase ("the rest is begun in workers, and none of it in the caller; the long one is number " <> show k) $ do
          (ys, here) <- whereAt k 6 consumed
          map fst ys @?= [0 .. 5]
          [i | (i, (_, p)) <- zip [0 ..] ys, p == here] @?= [0 .. k]
        | k <- [0 .. 3]
      ]
      <> [ testCase "for a consumer that walks the list first, too" $ do
             (ys, here) <- whereAt 0 6 (\ys -> evaluate (length ys) >> consumed ys)
             [i | (i, (_, p)) <- zip [0 :: Int ..] ys, p == here] @?= [0],
           testCase "the first exception is that of the lowest index" $
             withFile' $ \file -> do
               let f i
                     | i == 0 = waits file i
                     | i >= 3 = error ("item " <> show i)
                     | otherwise = marked file i
               outcomes <- mapM (try . evaluate) (long f [0 .. 5])
               [either (\(ErrorCall e) -> Left e) Right o | o <- outcomes] @?= map Right [0, 1, 2] <> [Left ("item " <> show i) | i <- [3 .. 5 :: Int]],
           testCase "an exception names the item's own place" $
             withFile' $ \file -> do
               let f i
                     | i == 0 = (waits file i, Nothing)
                     | otherwise = (marked file i, if i == 4 then Just (+ i) else Nothing)
               outcomes <- mapM (try . evaluate . fst) (long f [0 .. 5])
               [untransferableIndex e | Left e <- outcomes] @?= [4],
           testCase "an input that ends in an exception, and one that waits, cost no result before it" $
             withFile' $ \file -> do
               gate <- newEmptyMVar
               rest <- unsafeInterleaveIO (takeMVar gate)
               let ys = long (\i -> if i == 0 then waits file i else marked file i) ([0 .. 7] <> rest)
               consumed (take 8 ys)
               putMVar gate (8 : throw GiveUp)
               take 9 ys @?= [0 .. 8]
               try (evaluate (length ys)) >>= (@?= Left GiveUp),
           testCase "a consumer that is interrupted goes on where it was" $
             withFile' $ \file -> do
               -- No handler of an exception is around what the item waits for: what such a one throws again would
               -- stay in the item.
               late <- newIORef False
               let turning = evaluate (turns' 2000) >> readIORef late >>= \over -> if over then pure () else turning
                   ys = long (\i -> if i == 0 then effect (i <$ (turning >> evaluate (turns' 500000))) else marked file i) [0 .. 5 :: Int]
               here <- myThreadId
               _ <- forkIO (untilThere file >> throwTo here GiveUp)
               try (consumed ys) >>= (@?= Left GiveUp)
               writeIORef late True
               ys @?= [0 .. 5],
           testCase "a list that is dropped ends its workers" $
             withFile' $ \file -> do
               born <- first file
               within' "the worker is gone" (performMajorGC >> threadDelay 10000 >> not <$> alive born),
           testCase "a consumer that waits for what nobody has is told so" $
             withFile' $ \file -> do
               never <- newEmptyMVar
               let ys = long (\i -> if i == 0 then waits file i + effect (takeMVar never) else marked file i) [0 .. 5]
               told <- newIORef False
               -- Nobody has its number: that would keep it.
               _ <- forkIO (try (evaluate (sum ys)) >>= \outcome -> writeIORef told (either (\BlockedIndefinitelyOnMVar -> True) (const False) outcome))
               within' "the consumer is told" (threadDelay 10000 >> readIORef told),
           testCase "of one long item among many trivial ones the list is the same" $ do
             let f i = if i == 0 then turns' 3000000 else i
             long f [0 .. 5000] @?= map f [0 .. 5000]
         ]
  where
    first file = do
      let ys = long (\i -> if i == 0 then (waits file i, 0) else (marked file i, pid i)) [0 .. 40 :: Int]
      consumed (map fst (take 2 ys))
      pure (snd (ys !! 1))
    pid i = effect (i `seq` getProcessID)
    {-# NOINLINE pid #-}
    alive process = either (const False :: IOException -> Bool) (const True) <$> try (signalProcess nullSignal process)

-- | Maps inside the items of a map: the cores are the outer map's.
inside :: TestTree
inside =
  testGroup
    "maps inside maps"
    [ testCase "those inside workers take no core of their brothers, though the caller's first item had taken both" $ do
        -- Two cores: the first item is the caller's, whose inner map may have both. The last items may find one idle.
        -- Other tests' maps that nobody holds any more have cores until then.
        performMajorGC >> threadDelay 200000
        let inner k = effect (burn 2 k) `seq` effect (k `seq` getProcessID)
            outer i = length (nub (parMapWith defaultOptions {backend = Auto} inner [10 * i .. 10 * i + 9]))
        counts <- mapM evaluate (parMapWith defaultOptions {backend = Auto} outer [0 .. 9 :: Int])
        assertBool (show counts) (take 4 (drop 3 counts) == [1, 1, 1, 1]),
      testCase "one that began while its brothers had all cores takes one that falls idle" $
        withFile' $ \file -> do
          let inner k = effect ((if k == 1 then writeFile file "" else pure ()) >> evaluate (dear k) >> getProcessID)
              outer :: Int -> Int
              outer 0 = dear' 60 `seq` length (nub (parMapWith defaultOptions {backend = Auto} inner [1 .. 200]))
              outer _ = effect (1 <$ untilThere file)
          counts <- evaluate (parMapWith defaultOptions {backend = Shm} outer [0, 1])
          assertBool (show counts) (maximum counts > 1)
    ]
  where
    dear' k = sum (map dear [1 .. k])

-- | By 'Auto' on two workers.
long :: (a -> b) -> [a] -> [b]
long = parMapWith defaultOptions {backend = Auto, workers = Workers 2}

-- | Of so many items one waits for the others, those before it are trivial; all with their process.
whereAt :: Int -> Int -> ([(Int, ProcessID)] -> IO ()) -> IO ([(Int, ProcessID)], ProcessID)
whereAt k n consume = withFile' $ \file -> do
  let f i = effect $ do
        x <- evaluate (if i == k then waits file i else if i > k then marked file i else i)
        (,) x <$> getProcessID
      ys = long f [0 .. n - 1]
  consume ys
  (,) ys <$> getProcessID

consumed :: [a] -> IO ()
consumed = mapM_ evaluate

-- | The argument, when that file is there. It computes meanwhile, and then for long enough to be
-- believed.
waits :: FilePath -> Int -> Int
waits file x = effect (x <$ (untilThere file >> evaluate (turns' 500000)))
{-# NOINLINE waits #-}

untilThere :: FilePath -> IO ()
untilThere file = within' ("there is " <> file) (evaluate (turns' 2000) >> doesFileExist file)

-- | The argument, after a while, and the file is there.
marked :: FilePath -> Int -> Int
marked file x = effect (x <$ (writeFile file "" >> evaluate (turns' (100000 + x))))
{-# NOINLINE marked #-}

-- | Soon, in tests that do not measure.
within' :: String -> IO Bool -> IO ()
within' what look = getMonotonicTime >>= go
  where
    go begun = do
      there <- look
      now <- getMonotonicTime
      if there then pure () else if now - begun > 60 then throwIO (ErrorCall ("not within a minute: " <> what)) else go begun

withFile' :: (FilePath -> IO a) -> IO a
withFile' use = do
  (file, handle) <- getTemporaryDirectory >>= (`openTempFile` "maru-auto")
  hClose handle
  removeFile file
  use file <* (doesFileExist file >>= (`when` removeFile file))

-- | For so many milliseconds, of the wall clock; an item's.
burn :: Double -> Int -> IO ()
burn ms item = item `seq` getMonotonicTime >>= go . (+ ms / 1000)
  where
    go end = getMonotonicTime >>= \now -> if now < end then go end else pure ()
{-# NOINLINE burn #-}

effect :: IO a -> a
effect = unsafePerformIO

-- | As 'turns', of numbers that are allocated: whoever evaluates it can be interrupted.
turns' :: Int -> Int
turns' n = fromIntegral (go n (fromIntegral n) `mod` 1000003)
  where
    go :: Int -> Integer -> Integer
    go 0 x = x
    go k x = go (k - 1) ((x * x + fromIntegral k) `mod` 1000000000000000000000007)
{-# NOINLINE turns' #-}

-- | Some milliseconds.
dear :: Int -> Int
dear i = turns (3000000 + i)

-- Each turn needs the one before.
turns :: Int -> Int
turns n = go n n
  where
    go 0 x = x
    go k x = go (k - 1 :: Int) (x * 6364136223846793005 + 1442695040888963407)
{-# NOINLINE turns #-}
