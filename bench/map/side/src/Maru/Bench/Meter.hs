{-# LANGUAGE OverloadedStrings #-}

-- | Reads the clocks around an action.
module Maru.Bench.Meter
  ( Meter (..),
    metered,
    meterJson,
    processCpuNs,
    childrenCpuNs,
    nowNs,
    collectedNs,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (IOException, try)
import Control.Monad (when)
import Data.Aeson (Value, object, (.=))
import qualified Data.ByteString.Char8 as Bytes
import Data.Int (Int64)
import Foreign.C (CInt (..))
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Stats (RTSStats (gc_elapsed_ns, gcs), getRTSStats)
import System.Directory (listDirectory)

foreign import ccall unsafe "maru_bench_cpu_ns" c_cpuNs :: CInt -> IO Int64

foreign import ccall unsafe "maru_bench_peak_kib" c_peakKib :: CInt -> IO Int64

-- | Nanoseconds, unless it says otherwise.
data Meter = Meter
  { -- | On the machine's monotonic clock, which all processes share.
    meterStart :: !Int64,
    meterEnd :: !Int64,
    meterCpuSelf :: !Int64,
    -- | Of workers, once they have been reaped.
    meterCpuChildren :: !Int64,
    -- | Elapsed time in which this process collected garbage.
    meterGc :: !Int64,
    meterGcs :: !Int64,
    meterPeakKib :: !Int64,
    -- | Of the largest worker.
    meterPeakChildKib :: !Int64
  }
  deriving (Eq, Show)

-- | Needs the run-time option @-T@. It returns when what the action forked was reaped, but after two
-- seconds in any case.
metered :: IO a -> IO (a, Meter)
metered act = do
  before <- children
  gc0 <- getRTSStats
  self0 <- processCpuNs
  children0 <- childrenCpuNs
  start <- nowNs
  result <- act
  end <- nowNs
  self1 <- processCpuNs
  gc1 <- getRTSStats
  -- Workers that were told to end are reaped by somebody else meanwhile.
  untilGone before
  children1 <- childrenCpuNs
  meter <-
    Meter
      start
      end
      (self1 - self0)
      (children1 - children0)
      (gc_elapsed_ns gc1 - gc_elapsed_ns gc0)
      (fromIntegral (gcs gc1 - gcs gc0))
      <$> c_peakKib 0
      <*> c_peakKib 1
  pure (result, meter)

-- | Until no more children are left than that; those that are not reaped have no time yet.
untilGone :: Int -> IO ()
untilGone before = go (200 :: Int)
  where
    go looks = do
      left <- children
      when (looks > 0 && left > before) (threadDelay 10000 >> go (looks - 1))

-- | Of all threads of this process, those that are not reaped too. 0 where the kernel does not tell.
children :: IO Int
children = do
  threads <- try (listDirectory "/proc/self/task")
  sum <$> mapM ofThread (either none id threads)
  where
    -- A thread that has ended meanwhile has none.
    ofThread thread = length . Bytes.words . either none id <$> try (Bytes.readFile ("/proc/self/task/" <> thread <> "/children"))
    none :: Monoid a => IOException -> a
    none _ = mempty

meterJson :: Meter -> Value
meterJson m =
  object
    [ "start_ns" .= meterStart m,
      "end_ns" .= meterEnd m,
      "wall_ns" .= (meterEnd m - meterStart m),
      "cpu_self_ns" .= meterCpuSelf m,
      "cpu_children_ns" .= meterCpuChildren m,
      "gc_ns" .= meterGc m,
      "gcs" .= meterGcs m,
      "peak_kib" .= meterPeakKib m,
      "peak_child_kib" .= meterPeakChildKib m
    ]

processCpuNs, childrenCpuNs, nowNs :: IO Int64
processCpuNs = c_cpuNs 0
childrenCpuNs = c_cpuNs 1
nowNs = fromIntegral <$> getMonotonicTimeNSec

-- | Elapsed time of this process's collections so far. Needs @-T@.
collectedNs :: IO Int64
collectedNs = gc_elapsed_ns <$> getRTSStats
