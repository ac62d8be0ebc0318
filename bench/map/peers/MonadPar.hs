-- | One measurement of map\/peers by the package monad-par: monad-par KIND SIZE WORKERS.
module Main (main) where

import Control.Concurrent (setNumCapabilities)
import Control.Exception (evaluate)
import Control.Monad.Par (parMap, runPar)
import qualified Data.ByteString as B
import Data.List (foldl')
import Data.Maybe (fromMaybe)
import Foreign.C (CInt (..), CLLong (..), CLong (..), CString, withCString)
import GHC.Clock (getMonotonicTimeNSec)
import System.Environment (getArgs, lookupEnv)
import System.IO
import System.IO.Unsafe (unsafePerformIO)

foreign import ccall unsafe "peers_spin" c_spin :: CLong -> IO ()

foreign import ccall unsafe "peers_die_once" c_dieOnce :: CString -> IO ()

foreign import ccall unsafe "peers_place" c_place :: CLong -> CLong -> CLong -> CLong

foreign import ccall unsafe "peers_cpu_ns" c_cpuNs :: CInt -> IO CLLong

main :: IO ()
main = do
  [kind, size', workers'] <- getArgs
  mark <- fromMaybe "" <$> lookupEnv "MARU_BENCH_MARK"
  let size = read size' :: Int
      xs = [1 .. size]
      each f ys = runPar (parMap f ys)
      large = if kind == "input" then fst (B.unfoldrN (64 * 1048576) (\k -> Just (fromIntegral (k `mod` 251), k + 1)) (0 :: Int)) else B.empty
      item i = unsafePerformIO $ do
        if kind == "killed" && i == 20 then withCString mark c_dieOnce else pure ()
        c_spin (spun kind i)
        pure (i + 1)
      look i = sum [fromIntegral (B.index large (fromIntegral (c_place (fromIntegral i) k (64 * 1048576)))) | k <- [0 .. 15]] :: Int
      run = case kind of
        "results" -> sum [B.length r + fromIntegral (B.head r) | r <- each (B.replicate (4 * 1048576) . fromIntegral) xs]
        "input" -> sum (each look xs)
        "iterated" -> foldl' (\s k -> s + sum (each item [i + s `mod` 2 | i <- [k .. k + 7]])) 0 xs
        _ -> sum (each item xs)
  setNumCapabilities (read workers')
  _ <- evaluate (B.length large)
  putStrLn "ready" >> hFlush stdout
  _ <- getLine
  before <- c_cpuNs 0
  begun <- getMonotonicTimeNSec
  total <- evaluate run
  ended <- getMonotonicTimeNSec
  after <- c_cpuNs 0
  putStrLn ("{\"meter\":{\"wall_ns\":" ++ show (ended - begun) ++ ",\"cpu_self_ns\":" ++ show (after - before) ++ ",\"cpu_children_ns\":0},\"checksum\":" ++ show total ++ "}")

spun :: String -> Int -> CLong
spun kind i = case kind of
  "nothing" -> 0
  "us10" -> 10
  "iterated" -> 10
  "ms100" -> 100000
  "skewed" -> if i >= 60 then 20000 else 1000
  _ -> 1000
