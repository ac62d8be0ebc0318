-- | Functions that travel as they are: random ones come and compute the same; what cannot travel is
-- refused, and the way to it named. The same numbers each time.
module Closures (wrong, unrefused) where

import Control.Concurrent (forkIO, myThreadId)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.IORef
import Data.List (isInfixOf)
import Foreign (Ptr, free, freeStablePtr, mallocBytes, newForeignPtr_, newStablePtr, peek)
import Functions
import GHC.Conc (newTVarIO)
import GHC.IOArray (IOArray, newIOArray)
import Maru
import Maru.Cluster.Closure
import System.IO (IOMode (..), hGetContents, openFile)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Mem.StableName (makeStableName)
import System.Mem.Weak (mkWeakPtr)
import System.Timeout (timeout)

-- | Of so many calls, those whose functions compute something else there than here. A call carries as
-- many functions as a chunk; some were used before, some of their values collected.
wrong :: Int -> IO [String]
wrong n = concat <$> forM (zip [1 .. n] (chunksOf 400 (draws 20261128))) (\(k, ds) -> map (("call " <> show k <> ": ") <>) <$> one k ds)
  where
    one k ds = do
      let fs = functions 20 ds
          items = [0 .. 59]
          f i = (fs !! (i `mod` 20)) (i - 7)
      when (k `mod` 3 == 0) (forM_ (take 9 fs) (\g -> evaluate (g 5)))
      when (even k) performMajorGC
      -- In the process that it comes to, before its workers are forked: what the call before has evaluated there
      -- is collected; then all is used.
      swept <- evaluate (sum (parMapClosure defaultOptions (unsafePerformIO (sweep >> pure (+ 1))) [1 .. 3 :: Int]))
      unless (swept == 9) (throwIO (userError "it is not map"))
      let got = parMapClosure defaultOptions {chunking = Fixed 4} (unsafePerformIO (evaluate (sum (map f items)) >> pure f)) items
      pure ["function " <> show (i `mod` 20) <> " of " <> show (i - 7) <> ": " <> show y <> ", not " <> show (f i) | (i, y) <- zip items got, y /= f i]

-- | Collects, and writes over memory that is free then.
sweep :: IO ()
sweep = do
  performMajorGC
  let much = [1 .. 300000] :: [Int]
  _ <- evaluate (length much)
  performMajorGC
  void (evaluate (sum much))

-- | What should be refused with these words, and what came instead.
unrefused :: IO [String]
unrefused = do
  variable <- newEmptyMVar
  reference <- newIORef (1 :: Int)
  thread <- myThreadId
  memory <- mallocBytes 64 :: IO (Ptr Int)
  foreign' <- newForeignPtr_ memory
  stable <- newStablePtr reference >>= hold . Just
  file <- openFile "/dev/null" ReadMode
  waiting <- newEmptyMVar
  slow <- newEmptyMVar
  let busy = unsafePerformIO (putMVar waiting () >> takeMVar slow) :: Int
  cells <- newIOArray (0, 9) 'c' :: IO (IOArray Int Char)
  transactional <- newTVarIO 'v'
  name <- makeStableName reference
  weak <- mkWeakPtr reference Nothing
  -- An exception leaves it half done.
  from <- hold (1 :: Integer)
  interrupted <- hold (Just (length (filter even [from ..])))
  _ <- timeout 20000 (evaluate (sum interrupted))
  inside <- hold (Just (variable :: MVar Int))
  behind <- hold (replicate 50 Nothing <> [Just reference])
  computing <- hold (Just busy)
  _ <- evaluate (length behind)
  _ <- forkIO (void (evaluate busy))
  takeMVar waiting
  failed <-
    sequence
      [ refused ["an MVar", "Maybe.Just's field 1", "a function's variable"] (\x -> x + depth inside),
        refused ["an IORef", "GHC.Types.:'s field 1", "steps more"] (\x -> x + length behind),
        refused ["a thread"] (\x -> x + length (show thread)),
        refused ["foreign memory"] (\x -> x + unsafePerformIO (peek memory)),
        refused ["foreign memory"] (\x -> x + depth (Just foreign')),
        refused ["a stable pointer"] (\x -> x + depth stable),
        refused ["a TVar"] (\x -> x + depth (Just transactional)),
        refused ["a mutable array"] (\x -> x + depth (Just cells)),
        refused ["a stable name"] (\x -> x + depth (Just name)),
        refused ["a weak pointer"] (\x -> x + depth (Just weak)),
        refused ["an evaluation that was interrupted", "Maybe.Just's field 1"] (\x -> x + depth interrupted),
        refused ["an MVar", "a function's variable"] (\x -> x + unsafePerformIO (length <$> hGetContents file)),
        refused ["what a thread is evaluating", "Maybe.Just's field 1"] (\x -> x + depth computing)
      ]
  putMVar slow 1
  mapM_ freeStablePtr stable
  free memory
  pure (concat failed)
  where
    refused parts f = do
      got <- try (evaluate (sum (parMapClosure defaultOptions f [1 .. 3])))
      pure $ case got of
        Left e | all (`isInfixOf` show (e :: Unavailable)) parts -> []
        other -> [unwords parts <> ": " <> show (either (Left . show) Right other)]

depth :: Maybe a -> Int
depth = maybe 0 (const 1)
{-# NOINLINE depth #-}

-- | Evaluated, and what is in it not known to the compiler.
hold :: a -> IO a
hold = evaluate
{-# NOINLINE hold #-}
