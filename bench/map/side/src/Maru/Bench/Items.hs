-- | The items of @map\/peers@: what they do is C code that programs in other languages call, too.
module Maru.Bench.Items (items) where

import Control.Exception (evaluate)
import qualified Data.ByteString as B
import Data.List (foldl')
import Data.Maybe (fromMaybe)
import Foreign.C (CLong (..), CString, withCString)
import Maru.Bench.Mapper (Mapper (..), Shared (..))
import Maru.Bench.Meter (nowNs)
import Maru.Bench.Workload
import System.Environment (lookupEnv)
import System.IO.Unsafe (unsafePerformIO)

foreign import ccall unsafe "peers_spin" c_spin :: CLong -> IO ()

foreign import ccall safe "peers_spin" c_spinLong :: CLong -> IO ()

foreign import ccall unsafe "peers_die_once" c_dieOnce :: CString -> IO ()

foreign import ccall unsafe "peers_place" c_place :: CLong -> CLong -> CLong -> CLong

items :: [Work]
items =
  [ spun "nothing" "SIZE items that do nothing" (const 0),
    spun "us10" "SIZE items of 10 us of processor time" (const 10),
    spun "ms1" "SIZE items of 1 ms" (const 1000),
    spun "ms100" "SIZE items of 100 ms" (const 100000),
    spun "skewed" "SIZE items of 1 ms, from the 60th on of 20 ms" (\i -> if i >= 60 then 20000 else 1000),
    Work "peers-results" "SIZE results of 4 MiB" $ \n _ ->
      summed [1 .. n] (B.replicate (4 * mib) . fromIntegral) (\r -> B.length r + fromIntegral (B.head r)),
    Work "peers-input" "SIZE items, each of which looks at 16 places of 64 MiB" $ \n _ -> do
      large <- evaluate (fst (B.unfoldrN (64 * mib) (\k -> Just (fromIntegral (k `mod` 251), k + 1)) (0 :: Int)))
      summed [1 .. n] (look large) id,
    Work "peers-killed" "SIZE items of 1 ms, of which the 20th kills its process once, if MARU_BENCH_MARK names a file" $ \n _ -> do
      mark <- fromMaybe "" <$> lookupEnv "MARU_BENCH_MARK"
      summed [1 .. n] (\i -> if i == 20 then dieOnce mark `seq` spin 1000 i else spin 1000 i) id,
    Work "peers-iterated" "SIZE maps in a row, each of 8 items of 10 us" iterated
  ]
  where
    mib = 1048576
    spun name what cost = Work ("peers-" ++ name) what (\n _ -> summed [1 .. n] (\i -> spin (cost i) i) id)
    summed xs f weight = do
      mapM_ evaluate xs
      pure . Prepared (map (const 1) xs) Nothing $ \m -> do
        total <- evaluate (foldl' (\s y -> s + weight y) 0 (mapDeep m f xs))
        (,) total <$> nowNs

-- | What an item comes to, after so many microseconds. No two capabilities do the same: an item has no
-- point at which GHC would see that another one evaluates it. Long ones are safe calls, as GHC's guide
-- asks for: during an unsafe one no other thread of the capability can run.
spin :: CLong -> Int -> Int
spin us i = unsafePerformIO ((if us < 1000 then c_spin us else c_spinLong us) >> pure (i + 1))
{-# NOINLINE spin #-}

dieOnce :: FilePath -> ()
dieOnce mark = unsafePerformIO (withCString mark c_dieOnce)
{-# NOINLINE dieOnce #-}

look :: B.ByteString -> Int -> Int
look large i = sum [fromIntegral (B.index large (fromIntegral (c_place (fromIntegral i) k (fromIntegral (B.length large))))) | k <- [0 .. 15]]

iterated :: Int -> Int -> IO Prepared
iterated n _ = pure . Prepared [] Nothing $ \m -> do
  total <- evaluate (mapsOver m () (\shared -> foldl' (\s k -> s + sum (mapShared shared (\() -> spin 10) [i + s `mod` 2 | i <- [k .. k + 7]])) 0 [1 .. n]))
  (,) total <$> nowNs
