{-# LANGUAGE StaticPointers #-}

-- | The checker's comparison as a function that travels.
module Maru.Bench.Far (far) where

import Control.Exception (evaluate)
import Data.List (foldl')
import Data.Primitive.PrimArray (primArrayFromList, primArrayToList)
import qualified Data.Vector as V
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32)
import Maru (Options, Report)
import Maru.Bench.Java (corpus)
import Maru.Cluster
import Maru.Similar (Config (..), Ready (..), prepare, seedConfig)
import qualified Maru.Similar as Similar
import Maru.Similar.Pairs (Row (..), compareAll)

-- | One row of the table of all pairs. The programs are its environment. What order they have is
-- found once a process.
row :: Remote [[Word32]] Int [Word32]
row = remoteWith $ \codes ->
  let rows = V.fromList (compareAll map (configMinMatch seedConfig) 0 Nothing (V.fromList (map primArrayFromList codes)))
   in -- The last one is a single pair, and needs the order of all.
      rowLeft (V.last rows) `seq` (VU.toList . rowCells . (rows V.!))

-- | Lexes so many programs; then all pairs, by a map: their checksum, and a look at what happened.
far :: Int -> IO (Options -> IO (Int, IO Report))
far n = do
  let codes = case Similar.preparedReady (prepare map seedConfig (corpus n)) of
        ReadyCodes c -> map primArrayToList (V.toList c)
        ReadyWeighed {} -> [] -- not in this mode
  _ <- evaluate (sum (map length codes))
  pure $ \options -> do
    (rows, look) <- parMapOnReporting options (static row) codes [0 .. n - 2]
    total <- evaluate (foldl' (\s cells -> s + sum (map fromIntegral cells)) 0 rows)
    pure (total, look)
