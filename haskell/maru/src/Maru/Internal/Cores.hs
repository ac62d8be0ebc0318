{-# LANGUAGE ForeignFunctionInterface #-}

-- | The cores that all processes of one program's maps share (@native/base/cores.h@): a map
-- inside a worker takes those that are idle, and no more. /Internal/.
--
-- The coordinator of a run holds a core for each of its workers, from the birth to the
-- burial. What a coordinator that is killed held is free at once.
module Maru.Internal.Cores
  ( shareCores,
    enterShared,
    sharedDescriptor,
    takeCores,
    giveCores,
    idleCores,
    holdsCores,
  )
where

import Control.Concurrent.MVar
import Control.Monad (filterM, void, when)
import Data.Foldable (for_)
import Data.IORef
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.Maybe (isNothing)
import Data.Word (Word32)
import Foreign.C (CInt (..))
import Maru.Native.Own
import System.IO.Unsafe (unsafePerformIO)

-- | Its descriptor, how many there are, and those that this process holds.
data Shared = Shared !CInt !Int !(Own IntSet)

shared :: IORef (Maybe Shared)
shared = unsafePerformIO (newIORef Nothing)
{-# NOINLINE shared #-}

-- | In the program itself, before its first fork: so many. Where the system refuses it
-- nothing is shared.
shareCores :: Int -> IO ()
shareCores count = do
  before <- readIORef shared
  when (isNothing before) $ do
    fd <- c_open
    when (fd >= 0) $ newOwn IntSet.empty >>= writeIORef shared . Just . Shared fd count

-- | In a worker: it holds none, whatever its parent does.
enterShared :: IO ()
enterShared = do
  before <- readIORef shared
  for_ before $ \(Shared fd count _) -> newOwn IntSet.empty >>= writeIORef shared . Just . Shared fd count

-- | To be kept open in workers.
sharedDescriptor :: IO [CInt]
sharedDescriptor = maybe [] (\(Shared fd _ _) -> [fd]) <$> readIORef shared

-- | Up to so many of those that no process holds; the calling one holds them then.
takeCores :: Int -> IO [Int]
takeCores n = readIORef shared >>= maybe (pure []) taking
  where
    taking (Shared fd count held) =
      ownOf held IntSet.empty >>= \own -> modifyMVar own $ \mine -> do
        new <- go fd n [i | i <- [0 .. count - 1], IntSet.notMember i mine]
        pure (foldr IntSet.insert mine new, new)
    go _ _ [] = pure []
    go fd left (i : more)
      | left <= 0 = pure []
      | otherwise = do
        r <- c_take fd (fromIntegral i)
        if r == 0 then (i :) <$> go fd (left - 1) more else go fd left more

-- | No longer.
giveCores :: [Int] -> IO ()
giveCores [] = pure ()
giveCores cores = readIORef shared >>= mapM_ giving
  where
    giving (Shared fd _ held) =
      ownOf held IntSet.empty >>= \own -> modifyMVar_ own $ \mine -> do
        for_ cores (void . c_give fd . fromIntegral)
        pure (foldr IntSet.delete mine cores)

-- | How many no process holds; 'Nothing' where cores are not shared.
idleCores :: IO (Maybe Int)
idleCores = readIORef shared >>= traverse counting
  where
    counting (Shared fd count held) = do
      mine <- ownOf held IntSet.empty >>= readMVar
      length <$> filterM (fmap (== 0) . c_taken fd . fromIntegral) [i | i <- [0 .. count - 1], IntSet.notMember i mine]

-- | Whether this process holds any.
holdsCores :: IO Bool
holdsCores = readIORef shared >>= maybe (pure False) (\(Shared _ _ held) -> not . IntSet.null <$> (ownOf held IntSet.empty >>= readMVar))

foreign import ccall unsafe "maru_cores_open" c_open :: IO CInt

foreign import ccall unsafe "maru_cores_take" c_take :: CInt -> Word32 -> IO CInt

foreign import ccall unsafe "maru_cores_give" c_give :: CInt -> Word32 -> IO CInt

foreign import ccall unsafe "maru_cores_taken" c_taken :: CInt -> Word32 -> IO CInt
