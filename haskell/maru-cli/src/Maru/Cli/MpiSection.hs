{-# LANGUAGE OverloadedStrings #-}

-- | The ledger in the section @mpi@ of a board (layout:
-- @native\/preload\/mpi\/section.h@): what waiting has cost MPI's ranks.
module Maru.Cli.MpiSection
  ( MpiCost (..),
    mpiCost,
    decodeMpi,
    mpiLine,
    mpiJson,
  )
where

import Control.Monad (replicateM)
import Data.Aeson
import Data.Binary.Get
import Data.ByteString (ByteString)
import qualified Data.ByteString.Lazy as Lazy
import Data.List (find)
import Maru.Native.BoardView

-- | Sums over ranks; seconds.
data MpiCost = MpiCost
  { costRanks :: !Int,
    -- | From the end of @MPI_Init@ to @MPI_Finalize@, or to the last wait.
    costLife :: !Double,
    -- | Of it in waits that were not over at once.
    costWaited :: !Double,
    -- | CPU time spent in these.
    costCpu :: !Double,
    costWaits :: !Int,
    costSleeps :: !Int
  }
  deriving (Eq, Show)

instance Semigroup MpiCost where
  MpiCost a b c d e f <> MpiCost a' b' c' d' e' f' = MpiCost (a + a') (b + b') (c + c') (d + d') (e + e') (f + f')

instance Monoid MpiCost where
  mempty = MpiCost 0 0 0 0 0 0

-- | 'Nothing' where no rank has come.
mpiCost :: Board -> Maybe MpiCost
mpiCost board = find ((== ("mpi", 1)) . key) (boardSections board) >>= decodeMpi . sectionBytes
  where
    key s = (sectionName s, sectionVersion s)

-- | Ranks that have left, then a line for each that has not, or could not.
decodeMpi :: ByteString -> Maybe MpiCost
decodeMpi bytes = case runGetOrFail whole (Lazy.fromStrict bytes) of
  Right (_, _, total) | costRanks total > 0 -> Just total
  _ -> Nothing
  where
    whole = do
      ended <- cost
      used <- getWord32host
      skip 12
      present <- replicateM (fromIntegral (min 512 used)) (cost <* skip 208)
      pure (mconcat (ended : present))
    cost = MpiCost <$> count <*> seconds <*> seconds <*> seconds <*> count <*> count
    count = fromIntegral <$> getWord64host
    seconds = (/ 1e9) . fromIntegral <$> getWord64host

-- | One line, of what was measured.
mpiLine :: MpiCost -> String
mpiLine c =
  "MPI: " ++ plural (costRanks c) ++ ", " ++ percent (costWaited c) (costLife c) ++ " of their time waiting, "
    ++ percent (costCpu c) (costWaited c)
    ++ " of that on a CPU"
  where
    plural n = show n ++ (if n == 1 then " rank" else " ranks")
    percent part total
      | total > 0 = show (round (100 * part / total) :: Int) ++ " %"
      | otherwise = "0 %"

mpiJson :: MpiCost -> Value
mpiJson c =
  object
    [ "ranks" .= costRanks c,
      "life_s" .= costLife c,
      "waited_s" .= costWaited c,
      "waited_cpu_s" .= costCpu c,
      "waits" .= costWaits c,
      "sleeps" .= costSleeps c
    ]
