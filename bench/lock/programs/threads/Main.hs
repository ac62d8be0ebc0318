-- | @maru-bench-threads THREADS SECONDS@: a program of GHC's threaded runtime, whose
-- mutexes are the runtime's own: light threads move money between accounts, each in an
-- 'MVar'; in between they call C as calls that may block are called, so that the
-- runtime's workers hand their capabilities to each other. The money stays the same.
-- One line of JSON; status 1 and a line if it does not.
module Main (main) where

import Control.Concurrent
import Control.Monad (forM_, replicateM_, unless, when)
import Data.Bits (shiftL, shiftR, xor)
import Data.Foldable (toList)
import Data.List.NonEmpty (NonEmpty (..))
import qualified Data.List.NonEmpty as NonEmpty
import Data.Word (Word64)
import Foreign.C.Types (CInt (..), CUInt (..))
import GHC.Clock (getMonotonicTime)
import GHC.Conc (getNumProcessors)
import System.Environment (getArgs)
import System.Exit
import System.IO (hPutStrLn, stderr)
import Text.Read (readMaybe)

foreign import ccall safe "usleep" pauseMicroseconds :: CUInt -> IO CInt

type Account = MVar Int

main :: IO ()
main = do
  arguments <- getArgs
  case mapM readMaybe arguments of
    Just [threads, seconds] | threads >= 1, threads <= 1000, seconds > 0, seconds <= 3600 -> run (round threads) seconds
    _ -> hPutStrLn stderr "usage: maru-bench-threads THREADS SECONDS" >> exitWith (ExitFailure 64)

money :: Int
money = 1000

run :: Int -> Double -> IO ()
run threads seconds = do
  getNumProcessors >>= setNumCapabilities
  accounts <- traverse newMVar (money :| replicate 15 money)
  begun <- getMonotonicTime
  ends <- mapM (worker accounts (begun + seconds)) [1 .. threads]
  moves <- sum <$> mapM takeMVar ends
  ended <- getMonotonicTime
  left <- sum <$> mapM readMVar (toList accounts)
  unless (left == money * NonEmpty.length accounts) $ do
    hPutStrLn stderr ("maru: GHC's threads: " ++ show left ++ " is left of " ++ show (money * NonEmpty.length accounts))
    exitFailure
  putStrLn ("{\"operations\": " ++ show moves ++ ", \"seconds\": " ++ show (ended - begun) ++ "}")

-- | Says how often it moved something once its time is over.
worker :: NonEmpty Account -> Double -> Int -> IO (MVar Int)
worker accounts until' number = do
  end <- newEmptyMVar
  _ <- forkIO (loop (fromIntegral number * 0x9e3779b97f4a7c15) 0 >>= putMVar end)
  pure end
  where
    loop :: Word64 -> Int -> IO Int
    loop random done = do
      forM_ (take 16 (iterate step random)) $ \r -> move (pick r) (pick (r `shiftR` 8)) (fromIntegral (r `shiftR` 16) `mod` 10)
      when (done `mod` 64 == 0) $ replicateM_ 2 (pauseMicroseconds 1)
      now <- getMonotonicTime
      if now >= until' then pure (done + 16) else loop (iterate step random !! 16) (done + 16)
    pick r = accounts NonEmpty.!! (fromIntegral r `mod` NonEmpty.length accounts)
    step r0 = let r1 = r0 `xor` (r0 `shiftL` 13); r2 = r1 `xor` (r1 `shiftR` 7) in r2 `xor` (r2 `shiftL` 17)

move :: Account -> Account -> Int -> IO ()
move from to amount = do
  modifyMVar_ from (\m -> pure $! m - amount)
  yield
  modifyMVar_ to (\m -> pure $! m + amount)
