{-# LANGUAGE OverloadedStrings #-}

-- | The ledger in the section @mpi@ of a board (layout:
-- @native\/preload\/mpi\/section.h@): what waiting has cost MPI's ranks.
module Maru.Cli.Room.Wait.MpiSection
  ( MpiCost (..),
    mpiCost,
    decodeMpi,
    mpiLine,
    mpiJson,

    -- * Ranks
    MpiRank (..),
    mpiRanks,
  )
where

import Control.Monad (mfilter, replicateM)
import Data.Aeson
import Data.Binary.Get
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import Data.Maybe (fromMaybe)
import Maru.Cli.Output (plural, shareOf)
import Maru.Cli.Section
import Maru.Native.BoardView
import Numeric (showFFloat)

-- | Sums over ranks; seconds.
data MpiCost = MpiCost
  { costRanks :: !Int,
    -- | From the end of @MPI_Init@ to @MPI_Finalize@, or to the last wait.
    costLife :: !Double,
    -- | In waits that were not over at once: of all threads, so it may be more.
    costWaited :: !Double,
    -- | CPU time spent in these.
    costCpu :: !Double,
    costWaits :: !Int,
    costSleeps :: !Int,
    -- | Blocking calls in which the MPI waited by itself, for no rank waited for a CPU.
    costOwn :: !Int
  }
  deriving (Eq, Show)

instance Semigroup MpiCost where
  MpiCost a b c d e f g <> MpiCost a' b' c' d' e' f' g' = MpiCost (a + a') (b + b') (c + c') (d + d') (e + e') (f + f') (g + g')

instance Monoid MpiCost where
  mempty = MpiCost 0 0 0 0 0 0 0

-- | 'Nothing' where no rank has come.
mpiCost :: Board -> Maybe MpiCost
mpiCost = sectionOf "mpi" decodeMpi

-- | Ranks that have left, then a line for each that has not, or could not.
decodeMpi :: ByteString -> Maybe MpiCost
decodeMpi = mfilter ((> 0) . costRanks) . decoded whole
  where
    whole = do
      ended <- mpiCostGet
      used <- getWord32host
      skip 4
      own <- countGet
      present <- replicateM (fromIntegral (min 512 used)) (rankCost <$> rankGet)
      pure (mconcat (ended own : present))

-- | The blocking calls that were the MPI's own lie elsewhere.
mpiCostGet :: Get (Int -> MpiCost)
mpiCostGet = MpiCost <$> countGet <*> nanoseconds <*> nanoseconds <*> nanoseconds <*> countGet <*> countGet

countGet :: Get Int
countGet = fromIntegral <$> getWord64host

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
mpiRanks = fromMaybe [] . sectionOf "mpi" (Just . decodeRanks)

decodeRanks :: ByteString -> [MpiRank]
decodeRanks = maybe [] (filter (\r -> rankPid r > 0 && rankJob r >= 0)) . decoded whole
  where
    whole = do
      skip 48
      used <- getWord32host
      skip 12
      replicateM (fromIntegral (min 512 used)) rankGet

-- | A line, whoever has it.
rankGet :: Get MpiRank
rankGet = do
  cost <- mpiCostGet
  holder <- getWord64host
  number <- getInt32host
  job <- getWord32host
  skip 4
  needs <- replicateM 3 getWord32host
  own <- countGet
  skip 168
  pure
    MpiRank
      { rankPid = fromIntegral (holder `shiftR` 32),
        rankNumber = fromIntegral number,
        rankJob = fromIntegral job - 1,
        rankNeeds = [need | (n, need) <- zip needs ["a message", "a receiver", "a collective operation"], n > 0],
        rankCost = cost own
      }

-- | One line, of what was measured.
mpiLine :: MpiCost -> String
mpiLine c =
  "MPI: " ++ plural (costRanks c) "rank" ++ ", " ++ waiting ++ ", " ++ shareOf (costCpu c) (costWaited c)
    ++ " of that on a CPU"
    ++ (if costOwn c > 0 then "; while none waited for a CPU, the MPI waited by itself" else "")
  where
    -- Threads of a rank that wait at the same time each count.
    waiting
      | costWaited c > costLife c = "on average " ++ showFFloat (Just 1) (costWaited c / costLife c) " threads of each waiting"
      | otherwise = shareOf (costWaited c) (costLife c) ++ " of their time waiting"

mpiJson :: MpiCost -> Value
mpiJson c =
  object
    [ "ranks" .= costRanks c,
      "life_s" .= costLife c,
      "waited_s" .= costWaited c,
      "waited_cpu_s" .= costCpu c,
      "waits" .= costWaits c,
      "sleeps" .= costSleeps c,
      "own" .= costOwn c
    ]
