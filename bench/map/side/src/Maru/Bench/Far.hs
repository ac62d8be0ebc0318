{-# LANGUAGE StaticPointers #-}

-- | Workloads by functions that travel: on all processes of the program.
module Maru.Bench.Far
  ( FarWork (..),
    farWorks,
  )
where

import Control.Exception (evaluate)
import Data.Binary (Binary)
import Data.List (foldl')
import Data.Primitive.PrimArray
import qualified Data.Vector as V
import qualified Data.Vector.Storable as VS
import Data.Word (Word32)
import GHC.StaticPtr (StaticPtr)
import Maru (Options, Report)
import Maru.Bench.Java (corpus)
import Maru.Bench.Work (fib, wholeList)
import Maru.Cluster
import Maru.Codec (binary, storable)
import Maru.Similar (Config (..), Ready (..), prepare, seedConfig)
import qualified Maru.Similar as Similar
import Maru.Similar.Normalise (Codes)
import Maru.Similar.Pairs (Row (..), compareAll)

-- | A name, and what prepares the input of that size and grain: then the map is to be timed. Its
-- checksum, and a look at what happened.
data FarWork = FarWork
  { farName :: !String,
    farPrepare :: Int -> Int -> IO (Options -> IO (Int, IO Report))
  }

-- | Those of "Maru.Bench.Work" that have that name.
farWorks :: [FarWork]
farWorks =
  [ FarWork "fib" (\n _ -> pure (numbers (static (remote fib)) () fromInteger [1 .. n])),
    FarWork "fibs" (\n g -> pure (numbers (static (remoteWith wholeList)) g id [1 .. n])),
    FarWork "similar" (\n _ -> similar n)
  ]

numbers :: Binary b => StaticPtr (Remote e Int b) -> e -> (b -> Int) -> [Int] -> Options -> IO (Int, IO Report)
numbers function environment summary xs options = do
  (ys, look) <- parMapOnReporting options function environment xs
  total <- evaluate (foldl' (\s y -> s + summary y) 0 ys)
  pure (total, look)

-- | One row of the table of all pairs. The programs are its environment. What order they have is
-- found once a process.
row :: Remote (VS.Vector Word32) Int (VS.Vector Word32)
row = remoteVia storable binary storable $ \flat ->
  let rows = V.fromList (compareAll map (configMinMatch seedConfig) 0 Nothing (programsOf flat))
   in -- The last one is a single pair, and needs the order of all.
      rowLeft (V.last rows) `seq` (VS.convert . rowCells . (rows V.!))

-- | Lexes so many programs; then all pairs.
similar :: Int -> IO (Options -> IO (Int, IO Report))
similar n = do
  let flat = case Similar.preparedReady (prepare map seedConfig (corpus n)) of
        ReadyCodes codes -> flatten codes
        ReadyWeighed {} -> VS.empty -- not in this mode
  _ <- evaluate flat
  pure $ \options -> do
    (rows, look) <- parMapOnReporting options (static row) flat [0 .. n - 2]
    total <- evaluate (foldl' (VS.foldl' (\s c -> s + fromIntegral c)) 0 rows)
    pure (total, look)

-- | As one piece of memory: each program with its length before it.
flatten :: V.Vector Codes -> VS.Vector Word32
flatten codes = VS.concat [VS.cons (fromIntegral n) (VS.generate n (indexPrimArray c)) | c <- V.toList codes, let n = sizeofPrimArray c]

programsOf :: VS.Vector Word32 -> V.Vector Codes
programsOf = V.fromList . go
  where
    go flat = case VS.uncons flat of
      Nothing -> []
      Just (n, rest) -> let (own, others) = VS.splitAt (fromIntegral n) rest in generatePrimArray (VS.length own) (own VS.!) : go others
