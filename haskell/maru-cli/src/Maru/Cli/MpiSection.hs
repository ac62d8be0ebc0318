{-# LANGUAGE OverloadedStrings #-}

-- | The ledger in the section @mpi@ of a board (layout:
-- @native\/preload\/mpi\/section.h@): what waiting has cost MPI's ranks.
module Maru.Cli.MpiSection
  ( MpiCost (..),
    mpiCost,
    decodeMpi,
    mpiLine,
    mpiJson,

    -- * Ranks
    MpiRank (..),
    mpiRanks,
    decodeRanks,
  )
where

import Control.Monad (replicateM)
import Data.Aeson
import Data.Binary.Get
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Lazy as Lazy
import Data.List (find)
import Maru.Cli.Output (plural)
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
      ended <- mpiCostGet
      used <- getWord32host
      skip 12
      present <- replicateM (fromIntegral (min 512 used)) (mpiCostGet <* skip 208)
      pure (mconcat (ended : present))

mpiCostGet :: Get MpiCost
mpiCostGet = MpiCost <$> count <*> time <*> time <*> time <*> count <*> count
  where
    count = fromIntegral <$> getWord64host
    time = (/ 1e9) . fromIntegral <$> getWord64host

-- | One that is here.
data MpiRank = MpiRank
  { rankPid :: !Int,
    -- | In its @MPI_COMM_WORLD@.
    rankNumber :: !Int,
    rankJob :: !Int,
    -- | What its threads wait for; empty: none does.
    rankNeeds :: ![String],
    rankCost :: !MpiCost
  }
  deriving (Eq, Show)

mpiRanks :: Board -> [MpiRank]
mpiRanks board = maybe [] (decodeRanks . sectionBytes) (find ((== ("mpi", 1)) . key) (boardSections board))
  where
    key s = (sectionName s, sectionVersion s)

decodeRanks :: ByteString -> [MpiRank]
decodeRanks bytes = case runGetOrFail whole (Lazy.fromStrict bytes) of
  Right (_, _, ranks) -> [r | r <- ranks, rankPid r > 0, rankJob r >= 0]
  Left _ -> []
  where
    whole = do
      skip 48
      used <- getWord32host
      skip 12
      replicateM (fromIntegral (min 512 used)) line
    line = do
      cost <- mpiCostGet
      holder <- getWord64host
      number <- getInt32host
      job <- getWord32host
      skip 4
      needs <- replicateM 3 getWord32host
      skip 176
      pure
        MpiRank
          { rankPid = fromIntegral (holder `shiftR` 32),
            rankNumber = fromIntegral number,
            rankJob = fromIntegral job - 1,
            rankNeeds = [need | (n, need) <- zip needs ["a message", "a receiver", "a collective operation"], n > 0],
            rankCost = cost
          }

-- | One line, of what was measured.
mpiLine :: MpiCost -> String
mpiLine c =
  "MPI: " ++ plural (costRanks c) "rank" ++ ", " ++ percent (costWaited c) (costLife c) ++ " of their time waiting, "
    ++ percent (costCpu c) (costWaited c)
    ++ " of that on a CPU"
  where
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
