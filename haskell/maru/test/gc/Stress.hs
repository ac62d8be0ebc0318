{-# LANGUAGE MagicHash #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | Are results that cross by address (and by copy) sound under the garbage
-- collector? One case per argument; meant to run under the debug run-time
-- system with @+RTS -DS@. Prints nothing and ends with 0, or says what was wrong.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Array (Array, elems, listArray)
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy.Char8 as Lazy
import qualified Data.ByteString.Short as Short
import qualified Data.ByteString.Unsafe as Unsafe
import Data.IORef
import Data.List (isInfixOf)
import qualified Data.Map.Strict as Map
import Data.Maybe (catMaybes, isJust, isNothing)
import qualified Data.Text as Text
import qualified Data.Text.Lazy as LazyText
import Data.Word
import Foreign.ForeignPtr
import Foreign.Marshal (free, mallocBytes)
import Foreign.Ptr
import Foreign.Storable
import Functions
import GHC.Stats (RTSStats (max_mem_in_use_bytes), getRTSStats)
import Maru.Native.Force
import Maru.Native.Letter
import Maru.Native.Region
import Maru.Native.Rts
import System.Environment
import System.Exit
import System.IO
import System.IO.Unsafe (unsafePerformIO)
import System.Mem
import System.Mem.StableName
import System.Mem.Weak
import System.Posix.Process
import System.Timeout (timeout)
import Workers

main :: IO ()
main = do
  args <- getArgs
  case args of
    [name, rounds] | Just act <- lookup name cases -> do
      unless (name `elem` ["loose", "unseen"]) $ zeroCopy >>= either (wrong . ("zero copy: " <>)) pure
      when rtsSupportsBoundThreads . void $ forkIO (deepPause 20000)
      act (read rounds)
    _ -> wrong ("usage: Stress CASE ROUNDS, CASE one of " <> unwords (map fst cases))

cases :: [(String, Int -> IO ())]
cases =
  [ ("keep", keepCase),
    ("bytes", bytesCase),
    ("kill", killCase),
    ("overflow", overflowCase),
    ("reuse", reuseCase),
    ("threads", threadsCase),
    ("nested", nestedCase),
    ("copies", copiesCase unpack),
    ("loose", copiesCase unpackLoose),
    ("unseen", \rounds -> unseen >> copiesCase unpack rounds),
    ("letters", lettersCase),
    ("closures", closuresCase),
    ("refusals", refusalsCase),
    ("exceptions", exceptionsCase),
    ("cycles", cyclesCase),
    ("weaks", weaksCase),
    ("garbage", garbageCase),
    ("area", areaCase)
  ]

wrong :: String -> IO a
wrong why = hPutStrLn stderr why >> exitFailure

check :: String -> Bool -> IO ()
check what good = unless good (wrong ("wrong: " <> what))

foreign import ccall safe "pause" c_pause :: IO ()

-- | In a foreign call, on a stack of several chunks: forked workers must be rid of
-- it, and the program ends all the same.
deepPause :: Int -> IO ()
deepPause 0 = c_pause >> deepPause 0
deepPause n = deepPause (n - 1) >> hPrint stderr n
{-# NOINLINE deepPause #-}

-- * Values

type Tree = Map.Map Int [Integer]

tree :: Int -> Int -> Tree
tree salt k = Map.fromList [(i * salt + k, [fromIntegral i .. fromIntegral (i + i `mod` 5)]) | i <- [1 .. 60 + (k * 37) `mod` 90]]

summary :: Tree -> (Int, Integer)
summary t = (Map.size t, sum (map sum (Map.elems t)))

-- | As storable vectors are laid out.
data Vector = Vector {-# UNPACK #-} !Int {-# UNPACK #-} !(ForeignPtr Word64)

vector :: [Word64] -> Vector
vector xs = unsafePerformIO $ do
  p <- mallocForeignPtrArray (length xs)
  withForeignPtr p $ \q -> zipWithM_ (pokeElemOff q) [0 ..] xs
  pure (Vector (length xs) p)

fromVector :: Vector -> [Word64]
fromVector (Vector n p) = unsafePerformIO (withForeignPtr p (\q -> mapM (peekElemOff q) [0 .. n - 1]))

-- | All that refers to raw memory, lazily.
data Raw = Raw
  { strict :: Bytes.ByteString,
    lazy :: Lazy.ByteString,
    rows :: [Bytes.ByteString],
    texts :: [Text.Text],
    lazyText :: LazyText.Text,
    short :: Short.ShortByteString,
    empties :: [Bytes.ByteString],
    literal :: Bytes.ByteString,
    foreignBytes :: Bytes.ByteString,
    numbers :: Vector,
    boxed :: Array Int (Maybe Int),
    big :: Integer
  }

raw :: Int -> Raw
raw k =
  Raw
    { strict = Char8.replicate (300 * k) 'a',
      lazy = Lazy.fromChunks [Char8.pack (show i) | i <- [k .. k + 200]] <> Lazy.take 50 (Lazy.drop 100 (Lazy.fromChunks [joined, malloced k])) <> Lazy.fromStrict (malloced k),
      rows = Char8.lines joined,
      texts = Text.splitOn "," (Text.pack (concatMap ((<> ",") . show) [k .. k + 200])) <> [Text.take k (Text.drop k long) | long <- [Text.replicate (9 + 3 * k) "abc"]],
      lazyText = LazyText.take 40 (LazyText.drop 7 (LazyText.fromChunks (map (`Text.replicate` "wide \955 ") [2, 200, 3]))),
      short = Short.toShort (Char8.pack (show k)),
      empties = [Bytes.empty, Bytes.take 0 joined, "", mempty],
      literal = "a literal in the program",
      foreignBytes = malloced k,
      numbers = vector [fromIntegral k .. fromIntegral k + 99],
      boxed = listArray (0, 150) (cycle [Nothing, Just k]),
      big = 3 ^ (200 + k)
    }
  where
    joined = Char8.unlines (map (Char8.pack . show) [k .. k + 300])

malloced :: Int -> Bytes.ByteString
malloced k = unsafePerformIO $ do
  p <- mallocBytes 64
  forM_ [0 .. 63] $ \i -> pokeByteOff p i (fromIntegral (i + k) :: Word8)
  Unsafe.unsafePackMallocCStringLen (p, 64)

sameRaw :: Raw -> Raw -> Bool
sameRaw x y =
  and
    [ strict x == strict y,
      lazy x == lazy y,
      rows x == rows y,
      texts x == texts y,
      lazyText x == lazyText y,
      short x == short y,
      empties x == empties y,
      literal x == literal y,
      foreignBytes x == foreignBytes y,
      fromVector (numbers x) == fromVector (numbers y),
      elems (boxed x) == elems (boxed y),
      big x == big y
    ]

-- * Cases

-- | Results kept across collections, as inputs of later forks, several regions
-- alive at once.
keepCase :: Int -> IO ()
keepCase rounds = do
  kept <- newIORef []
  forM_ [1 .. rounds] $ \r -> do
    workers <- forM [0, 1] $ \w -> start 3 (odd r) (map (tree r) [w, w + 2 .. 29])
    xs <- concat <$> mapM results workers
    let keys = [0, 2 .. 29] <> [1, 3 .. 29]
    when (even r) (modifyIORef kept ((r, xs) :))
    performMajorGC
    ys <- start 2 False (map summary xs) >>= results
    check "a worker reads adopted values" (ys == map (summary . tree r) keys)
    zs <- start 3 False (map (Map.map reverse) xs) >>= results
    performMajorGC
    check "values that hold adopted values" (zs == map (Map.map reverse . tree r) keys)
    when (r `mod` 4 == 0) $ do
      old <- readIORef kept
      forM_ old $ \(q, vs) -> check "a kept value" (vs == map (tree q) keys)
      writeIORef kept (take 2 old)
      performMajorGC

-- | An allocation area that becomes larger and smaller, and a worker's that inherits it.
areaCase :: Int -> IO ()
areaCase rounds = forM_ [1 .. rounds] $ \r -> forM_ [1, 8, 2, 1] $ \mebibytes -> do
  setAllocArea (mebibytes * 1048576)
  let keys = [1 .. 100 * mebibytes]
      sums = map (summary . tree r) keys
  check "what was computed meanwhile" (sum (map fst sums) == sum [60 + (k * 37) `mod` 90 | k <- keys])
  area <- allocArea
  check "the size" (area == mebibytes * 1048576)
  ys <- start 2 False (take 30 sums) >>= results
  check "what its worker computed" (ys == take 30 sums)

-- | Raw memory: before the release, after it, after collections, and sent on.
bytesCase :: Int -> IO ()
bytesCase rounds = forM_ [1 .. rounds] $ \r -> do
  let wanted = map raw [r .. r + 5]
  w <- start 4 (odd r) wanted
  first <- next w
  performMajorGC
  check "before the release" (maybe False (sameRaw (raw r)) first)
  xs <- results w
  performMajorGC
  check "raw memory" (and (zipWith sameRaw xs (drop 1 wanted)))
  ys <- start 4 False xs >>= results
  performMajorGC
  check "adopted raw memory sent on" (and (zipWith sameRaw ys (drop 1 wanted)))

-- | Workers killed while they add: what arrived is right.
killCase :: Int -> IO ()
killCase rounds = forM_ [1 .. rounds] $ \r -> do
  w <- start 8 False (map (tree r) (cycle [0 .. 9]))
  xs <- replicateM (r `mod` 17) (next w)
  kill w
  rest <- results w
  performMajorGC
  let all' = catMaybes xs <> rest
  check "what a killed worker had sent" (and (zipWith (==) all' (map (tree r) (cycle [0 .. 9]))))
  check "something had been sent" (length all' >= r `mod` 17)

-- | Functions and thunks that are sent as they are, landed, and used after collections.
lettersCase :: Int -> IO ()
lettersCase rounds = forM_ [1 .. rounds] $ \r -> do
  letterReceiver
  let captured = tree r 5
      circle = r : map (+ 1) circle
      bytes = Char8.pack (show r <> replicate 300 'x')
      f k = (Map.size captured + k, Char8.take k bytes)
      thunk = sum (take 1000 (map (* r) [1 ..])) :: Int
  sentAll <- forM [0 .. 9 :: Int] $ \_ -> posted (f, (+ r) . (* 2), circle, (thunk, three r), raw r, map Just [r .. r + 300])
  sent <- mapM open sentAll
  performMinorGC
  forM_ (take 1 sent) use
  performMajorGC
  again <- open (head' sentAll)
  check "nothing lands after a major collection" (isNothing again)
  performMajorGC
  forM_ sent use
  letterReceiver
  late <- open (head' sentAll)
  check "a receiver that begins anew" (isJust late)
  memory <- mallocBytes 100
  beside <- evaluate (Beside memory (Char8.pack (show r <> replicate 300 'y')))
  refused <- packLetter beside
  free memory
  check "an address beside bytes is refused" (either (const True) (const False) refused)
  where
    posted x = packLetter x >>= either (wrong . ("a letter: " <>)) pure
    open (bytes, size) = withForeignPtr bytes $ \p -> landLetter (castPtr p) size
    head' xs = case xs of
      x : _ -> x
      [] -> error "no letter"
    use landed = case landed of
      Nothing -> wrong "a letter did not land"
      Just (g, h, c, (t, w), b, js) -> do
        check "a captured map and bytes" (fst (g 3) == Map.size (tree (r0 c) 5) + 3 && Char8.take 1 (snd (g 1)) == Char8.take 1 (Char8.pack (show (r0 c))))
        check "a composition" (h 4 == r0 c + 8)
        check "a value that holds itself" (c !! 500 == r0 c + 500)
        check "a thunk" (t == 500500 * r0 c)
        check "a partial application" (w 1 2 == 100 * r0 c + 12)
        check "raw memory" (sameRaw (raw (r0 c)) b)
        check "a list" (length (catMaybes js) == 301)
    r0 c = case c of
      x : _ -> x
      [] -> 0

-- | Functions as another process of the program would have them. All that they were made of is gone
-- here long before, and for a second look what they have evaluated, too. Nothing else here leads to their
-- constants, which only MARU_CLOSURES=1 keeps.
closuresCase :: Int -> IO ()
closuresCase rounds = do
  sent <- forM (take rounds (chunksOf 400 (draws 20261128))) $ \ds -> do
    let fs = functions 20 ds
        expected = [f x | x <- [-3, 8, 40], f <- fs]
    _ <- evaluate (sum expected)
    bytes <- packClosure fs >>= either (wrong . ("a closure: " <>)) pure
    pure (expected, bytes)
  forM_ [1 .. 3 :: Int] $ \_ -> forM_ sent $ \(expected, (bytes, size)) -> do
    performMajorGC
    landed <- withForeignPtr bytes $ \p -> landLetter (castPtr p) size
    case landed of
      Nothing -> wrong "a closure did not land"
      Just fs -> do
        performMinorGC
        check "functions compute the same" ([f x | x <- [-3, 8, 40], f <- fs] == expected)

-- | An address that means nothing elsewhere, in one constructor with one that goes along.
data Beside = Beside !(Ptr Word8) {-# UNPACK #-} !Char8.ByteString

-- | Two addresses, one of which lies in the program.
data Two = Two {-# UNPACK #-} !Char8.ByteString {-# UNPACK #-} !Char8.ByteString

three :: Int -> Int -> Int -> Int
three a b c = 100 * a + 10 * b + c
{-# NOINLINE three #-}

-- | Regions that are full, and values of all sizes around a megablock's.
overflowCase :: Int -> IO ()
overflowCase rounds = forM_ [1 .. rounds] $ \r -> do
  region <- newRegion 2
  before <- regionRoom region
  tooLarge <- regionAdd region False (Bytes.replicate 3000000 1)
  check "too large is Full" (tooLarge == Full)
  tooMany <- regionAdd region False [1 .. 300000 :: Int]
  check "too many is Full" (tooMany == Full)
  room <- regionRoom region
  check "what did not fit left no trace" (room == before)
  small <- regionAdd region False (tree r 7)
  performMajorGC
  case small of
    Added address -> do
      x <- regionGet address
      regionRelease region
      performMajorGC
      check "a value after an overflow" (x == tree r 7)
    other -> wrong ("a small value after an overflow: " <> show other)
  let sizes = [100000, 1000000, 1032100, 1032192, 1048500, 1048576, 1048600, 2100000, 3 + r]
      arrays = [listArray (0, n `div` 8) (cycle [Just n, Nothing]) :: Array Int (Maybe Int) | n <- take 5 sizes]
  w <- start 40 True (zip (map (`Bytes.replicate` fromIntegral r) sizes) (cycle arrays))
  xs <- results w
  performMajorGC
  check "large byte arrays" (map (Bytes.length . fst) xs == sizes && all (Bytes.all (== fromIntegral r) . fst) xs)
  check "large boxed arrays" (and (zipWith (\a b -> elems (snd a) == elems b) xs (cycle arrays)))
  ys <- start 40 False (map (Short.toShort . fst) xs) >>= results
  performMajorGC
  check "large unpinned arrays" (map Short.fromShort ys == map fst xs)

-- | Regions that die, their memory used again by the heap and by regions.
reuseCase :: Int -> IO ()
reuseCase rounds = do
  survivors <- newIORef []
  forM_ [1 .. rounds] $ \r -> do
    xs <- start 6 False (map (tree r) [0 .. 9]) >>= results
    when (r `mod` 5 == 0) (modifyIORef survivors ((r, take 2 xs) :))
    unused <- newRegion 6
    regionRelease unused
    performMajorGC
    let garbage = Map.fromList [(i, replicate 3 i) | i <- [1 .. 5000 :: Int]]
    _ <- evaluate (sum (map sum (Map.elems garbage)))
    performMajorGC
    old <- readIORef survivors
    forM_ old $ \(q, vs) -> check "a survivor" (vs == map (tree q) [0, 1])

-- | Other threads allocate, collect and read while regions come and go.
threadsCase :: Int -> IO ()
threadsCase rounds = do
  shared <- newMVar [tree 1 0]
  stop <- newIORef False
  failures <- newIORef (0 :: Int)
  dones <- replicateM 2 $ do
    done <- newEmptyMVar
    let loop = do
          xs <- readMVar shared
          unless (take 1 xs == [tree 1 0]) (modifyIORef failures (+ 1))
          _ <- evaluate (Map.foldl' (\a v -> a + sum v) 0 (tree 3 5))
          yield
          end <- readIORef stop
          unless end loop
    _ <- forkIO (loop `finally` putMVar done ())
    pure done
  forM_ [1 .. rounds] $ \r -> do
    w <- start 3 False (tree 1 0 : map (tree r) [1 .. 9])
    Just x <- next w
    _ <- swapMVar shared [x]
    xs <- results w
    check "with other threads running" (xs == map (tree r) [1 .. 9])
    performMajorGC
  writeIORef stop True
  mapM_ takeMVar dones
  n <- readIORef failures
  check "what other threads read meanwhile" (n == 0)

-- | Workers that have workers.
nestedCase :: Int -> IO ()
nestedCase rounds = forM_ [1 .. rounds] $ \r -> do
  let inner k = unsafePerformIO $ do
        xs <- start 2 False (map (tree k) [1 .. 4]) >>= results
        performMajorGC
        pure xs
      wanted = [map (tree k) [1 .. 4] | k <- [r .. r + 3]]
  xs <- start 3 False (map inner [r .. r + 3]) >>= results
  performMajorGC
  check "nested" (xs == wanted)

-- | On a GHC that maru was not checked with nothing crosses by address, and the
-- reason is one line.
unseen :: IO ()
unseen = do
  refusal <- zeroCopy
  check "a GHC that was never seen is said to be one" (either ("not checked with this GHC" `isInfixOf`) (const False) refusal)

-- | The copy path, with values of all kinds of landing.
copiesCase :: Landing -> Int -> IO ()
copiesCase land rounds = do
  kept <- newIORef []
  forM_ [1 .. rounds] $ \r -> do
    small <- copied land (odd r) [1 .. r]
    performMinorGC
    check "a copied list" (small == Right [1 .. r])
    t <- copied land (odd r) (tree r 3)
    rw <- copied land (odd r) (raw r)
    literal <- Unsafe.unsafePackAddressLen 7 "literal"#
    two <- copied land (odd r) (Two literal (Char8.pack (show r)))
    largeOne <- copied land False (Bytes.replicate 2500000 (fromIntegral r), map (tree r) [1 .. 20], Short.toShort (Bytes.replicate 1200000 7))
    performMajorGC
    check "a copied tree" (t == Right (tree r 3))
    check "copied raw memory" (either (const False) (sameRaw (raw r)) rw)
    check "bytes of the program and of the heap" (either (const False) (\(Two a b) -> (a, b) == ("literal", Char8.pack (show r))) two)
    case largeOne of
      Right (b, ts, s) ->
        check "a large copy" (b == Bytes.replicate 2500000 (fromIntegral r) && ts == map (tree r) [1 .. 20] && Short.length s == 1200000)
      Left why -> wrong why
    either wrong (\x -> modifyIORef kept (\l -> take 8 ((r, x) : l))) rw
    old <- readIORef kept
    forM_ old $ \(q, x) -> check "a kept copy" (sameRaw (raw q) x)
  junk <- Bytes.useAsCStringLen (Bytes.replicate 100 5) (\(p, n) -> unpack (castPtr p) n)
  check "junk is nothing" (isNothing (junk :: Maybe ()))

-- | What cannot cross is named, and leaves the region as it was.
refusalsCase :: Int -> IO ()
refusalsCase _ = do
  region <- newRegion 1
  room <- regionRoom region
  mvar <- newMVar ()
  ref <- newIORef ()
  name <- makeStableName region
  weak <- mkWeakPtr () Nothing
  thread <- myThreadId
  foreignMemory <- mallocBytes 16 >>= newForeignPtr_ :: IO (ForeignPtr Word64)
  let refused what value = do
        r <- regionAdd region False value
        check ("refusing " <> what <> ", not " <> show r) (r == Refused what)
        now <- regionRoom region
        check "no trace of what was refused" (now == room)
        p <- pack False value
        case p of
          Unpackable w -> check ("not packing " <> what) (w == what)
          Packed _ _ -> wrong ("packed " <> what)
  refused "a function" (Just ([1 .. 10 :: Int], (+) 1 :: Int -> Int))
  refused "a function" (map (+) [1 :: Int])
  refused "an MVar" [mvar]
  refused "an IORef or STRef" (1 :: Int, ref)
  refused "a stable name or another run-time object" name
  refused "a weak pointer" weak
  refused "a thread" thread
  refused "foreign memory" (Vector 2 foreignMemory)
  regionRelease region

-- | Exceptions in the middle of a value leave the region as it was; its
-- exceptions cross with their type.
exceptionsCase :: Int -> IO ()
exceptionsCase rounds = forM_ [1 .. rounds] $ \_ -> do
  region <- newRegion 2
  room <- regionRoom region
  r <- try (regionAdd region False (map (10 `div`) [3, 2, 1, 0 :: Int]))
  check "the exception of an element" (r == Left DivideByZero)
  endless <- timeout 20000 (regionAdd region True (map (length . show) [1 :: Integer ..]))
  check "interrupted" (maybe True (== Full) endless)
  now <- regionRoom region
  check "no trace of exceptions" (now == room)
  e <- either id (error "no exception") <$> try (evaluate (1 `div` (0 :: Int)))
  split <- splitException e
  case split of
    TextOnly -> wrong "an ordinary exception's dictionary is not static"
    Typed dictionary payload -> do
      added <- regionAdd region False payload
      case added of
        Added address -> do
          back <- regionGet address >>= joinException dictionary
          check "an exception that crossed" (fromException back == Just DivideByZero)
        other -> wrong (show other)
  regionRelease region

-- | Cycles end; sharing stays.
cyclesCase :: Int -> IO ()
cyclesCase rounds = do
  let ring = rounds : 2 : map (* 3) [1, rounds] <> ring :: [Int]
      doubling n = if n == 0 then Leaf else let t = doubling (n - 1 :: Int) in Fork t t
      endless = let e = Fork e (Fork Leaf e) in e
  normalise ring
  normalise endless
  region <- newRegion 2
  cyclic <- regionAdd region True ring
  shared <- regionAdd region True (doubling 60)
  knot <- regionAdd region True endless
  tooMuch <- regionAdd region False ring
  check "a cycle without sharing does not fit" (tooMuch == Full)
  regionValues <- mapM address [cyclic, shared, knot]
  case regionValues of
    [a, b, c] -> do
      x <- regionGet a
      y <- regionGet b
      z <- regionGet c
      regionRelease region
      performMajorGC
      check "a cycle" (take 9 x == take 9 ring)
      check "sharing" (depth y == 60)
      check "a knot" (leftmost 1000 z)
    _ -> wrong "addresses"
  back <- copied unpack True ring
  check "a copied cycle" (fmap (take 9) back == Right (take 9 ring))
  where
    address (Added a) = pure a
    address other = wrong ("cycles: " <> show other)
    depth Leaf = 0 :: Int
    depth (Fork l _) = 1 + depth l
    leftmost n t = case (n :: Int, t) of
      (0, _) -> True
      (_, Fork l _) -> leftmost (n - 1) l
      _ -> False

data Shape = Leaf | Fork Shape Shape

-- | A worker finds every inherited weak pointer, those too that were made since
-- the last collection, and runs no finalizer of them.
weaksCase :: Int -> IO ()
weaksCase rounds = replicateM_ rounds $ do
  performMajorGC
  before <- inChild neuterFinalizers
  keys <- forM [1 .. 40] $ \i -> do
    key <- newIORef i
    _ <- mkWeakIORef key (hPutStrLn stderr "wrong: a finalizer ran in a worker" >> exitImmediately (ExitFailure 9))
    -- Some of them in the oldest generation.
    when (i == 20) (replicateM_ 3 performMajorGC)
    pure key
  -- The child's first collection may come before this.
  fresh <- inChild (neuterFinalizers <* mapM_ readIORef keys)
  check ("weak pointers found: " <> show (before, fresh)) (before < 20 && fresh >= 40)
  (ended, _) <- forkWorker nullPtr (-1) $ do
    prologue
    performMajorGC
    threadDelay 50000
    exitImmediately ExitSuccess
  status <- getProcessStatus True False ended
  check "no finalizer runs in a worker" (status == Just (Exited ExitSuccess))
  n <- sum <$> mapM readIORef keys
  check "keys" (n == sum [1 .. 40 :: Int])
  _ <- neuterFinalizers
  pure ()
  where
    inChild act = do
      (pid, _) <- forkWorker nullPtr (-1) (act >>= \n -> exitImmediately (if n > 250 then ExitFailure 251 else if n == 0 then ExitSuccess else ExitFailure n))
      status <- getProcessStatus True False pid
      case status of
        Just (Exited ExitSuccess) -> pure 0
        Just (Exited (ExitFailure n)) -> pure n
        other -> wrong (show other)

-- | Beside a region the heap grows as it would without one: it lets garbage pile up
-- in proportion to what lives, and a region's 64 MiB are not to count. (Run with -T.)
garbageCase :: Int -> IO ()
garbageCase rounds = do
  region <- newRegion 64
  -- Into the oldest generation, where it counts.
  replicateM_ 3 performMajorGC
  before <- max_mem_in_use_bytes <$> getRTSStats
  kept <- newIORef []
  forM_ [1 .. 150 * rounds] $ \i -> do
    xs <- evaluate (Map.fromList [(k, k + i) | k <- [1 .. 4000]])
    modifyIORef kept (take 8 . (xs :)) >> readIORef kept >>= void . evaluate . length
  after <- max_mem_in_use_bytes <$> getRTSStats
  check ("the heap at most, before and after: " <> show (before, after)) (after < before + 32 * 1024 * 1024)
  regionRelease region
