{-# LANGUAGE OverloadedStrings #-}

-- | The wait room's page of @maru top@: the waiters, for what and since when, and what of a CPU
-- that costs. From the channels on the board (section @wait@, layout: @struct maru_wait_table@ in
-- @maru/wait.h@), MPI's ranks (section @mpi@) and loops that poll (section @poll@).
module Maru.Cli.Room.Wait.Page
  ( waitPage,

    -- * For tests
    WaitTable (..),
    Channel (..),
    ChannelState (..),
    Purpose (..),
    decodeTable,
    Seen (..),
    drawWaits,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Binary.Get
import Data.Bits (shiftR, (.&.))
import Data.ByteString (ByteString)
import Data.Either (fromRight)
import Data.Int (Int64)
import Data.List (intercalate, sortOn)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (catMaybes, isJust)
import GHC.Clock (getMonotonicTimeNSec)
import Maru.Cli.Host (readText)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Room.Wait.MpiSection
import Maru.Cli.Room.Wait.PollSection
import Maru.Cli.Section
import Maru.Native.BoardView
import Maru.View.Plain
import Text.Read (readMaybe)

-- ---- the section --------------------------------------------------------

data WaitTable = WaitTable
  { -- | Nanoseconds of the monotonic clock; 0: no daemon ever.
    tableHeartbeat :: !Int64,
    -- | Those that are taken, with their numbers.
    tableChannels :: ![(Int, Channel)]
  }
  deriving (Eq, Show)

data ChannelState = Idle | Awake | Asleep | Lowered
  deriving (Eq, Show, Enum, Bounded)

-- | What a channel's waiter waits for, as far as it was said.
data Purpose = AnyMessage | MapWork | MapResults
  deriving (Eq, Show)

data Channel = Channel
  { channelState :: !ChannelState,
    -- | The sender wakes nobody.
    channelSilent :: !Bool,
    channelJob :: !Int,
    channelSince :: !Int64,
    -- | 0: nobody attached.
    channelThread :: !Int,
    channelBoosted :: !Bool,
    channelPurpose :: !Purpose
  }
  deriving (Eq, Show)

-- | 'Nothing' if the bytes are too short.
decodeTable :: ByteString -> Maybe WaitTable
decodeTable = decoded table
  where
    table = do
      used <- getWord32host
      skip 4
      heartbeat <- getInt64host
      skip (48 + 2 * 4 * 256)
      lines' <- mapM line [1 .. min 1024 used]
      pure (WaitTable heartbeat [(n, c) | (n, Just c) <- zip [0 ..] lines'])
    -- A line that is taken holds its number, from 1.
    line number = do
      skip 4
      state <- fromIntegral <$> getWord32host
      skip 12
      taken <- getWord32host
      flags <- getWord32host
      job <- getWord32host
      since <- getInt64host
      skip 8
      thread <- getInt32host
      skip 4
      boosted <- getWord32host
      skip 4
      pure $
        if taken == number && state <= fromEnum (maxBound :: ChannelState)
          then Just (Channel (toEnum state) (odd flags) (fromIntegral job) since (fromIntegral thread) (boosted /= 0) (purposeOf flags))
          else Nothing
    purposeOf flags = case (flags `shiftR` 8) .&. 255 of
      1 -> MapWork
      2 -> MapResults
      _ -> AnyMessage

-- ---- looking ------------------------------------------------------------

data Seen = Seen
  { -- | Nanoseconds of the monotonic clock.
    seenAt :: !Int64,
    seenTable :: !(Maybe WaitTable),
    -- | Name and CPU nanoseconds of the threads that wait.
    seenThreads :: !(Map Int (String, Int64)),
    seenRanks :: ![MpiRank],
    seenMpi :: !(Maybe MpiCost),
    seenPoll :: !(Maybe PollCost)
  }
  deriving (Eq, Show)

waitPage :: TopPage
waitPage =
  plainPage
    look
    (\before now -> if concerned now then drawWaits before now else [])
    (\before now -> if concerned now then Just (json before now) else Nothing)

concerned :: Seen -> Bool
concerned s = isJust (seenTable s) || isJust (seenMpi s) || isJust (seenPoll s)

-- | Waits are short: other pages may have looked at the threads of the run for a while since
-- this copy of the board was made.
look :: Board -> IO Seen
look old = do
  board <- fromRight old <$> readBoard (boardPath old)
  let table = sectionOf "wait" decodeTable board
  threads <- mapM thread [channelThread c | (_, c) <- maybe [] waiting table, channelThread c > 0]
  now <- getMonotonicTimeNSec
  pure (Seen (fromIntegral now) table (Map.fromList (catMaybes threads)) (mpiRanks board) (mpiCost board) (pollCost board))
  where
    -- What a board says of a thread is believed only as far as it can be seen.
    thread tid = do
      name <- readText ("/proc/" ++ show tid ++ "/comm")
      spent <- readText ("/proc/" ++ show tid ++ "/schedstat")
      pure $ case (name, spent) of
        (Right n, Right text) -> (\ns -> (tid, (plain (takeWhile (/= '\n') n), ns))) <$> cpuOf text
        _ -> Nothing
    cpuOf text = case words text of
      ns : _ -> readMaybe ns
      [] -> Nothing

waiting :: WaitTable -> [(Int, Channel)]
waiting table = [one | one@(_, c) <- tableChannels table, channelState c /= Idle]

-- ---- showing ------------------------------------------------------------

-- | Share of a CPU that a thread used between two looks, in both of which it was in the same wait.
-- All of that was lost.
lostBy :: Maybe (Double, Seen) -> Seen -> (Int, Channel) -> Maybe Double
lostBy before now (number, c) = do
  (elapsed, old) <- before
  table <- seenTable old
  was <- lookup number (tableChannels table)
  (_, spent) <- Map.lookup (channelThread c) (seenThreads now)
  (_, spentThen) <- Map.lookup (channelThread c) (seenThreads old)
  if channelState was /= Idle && channelSince was == channelSince c && channelThread was == channelThread c && elapsed > 0
    then Just (fromIntegral (spent - spentThen) / 1e9 / elapsed)
    else Nothing

mostRows :: Int
mostRows = 20

drawWaits :: Maybe (Double, Seen) -> Seen -> [Block]
drawWaits before now = maybe [] channels (seenTable now) ++ mpi ++ maybe [] polls (seenPoll now)
  where
    channels table =
      Line (plural (length (tableChannels table)) "channel" ++ ", " ++ show (length (waiting table)) ++ " waited for; " ++ daemon table) :
        [Tabular (Table heads (map row (take mostRows (sortOn (channelSince . snd) (waiting table))))) | not (null (waiting table))]
    heads = [(R, "thread"), (L, "name"), (R, "waits for"), (R, "job"), (R, "since"), (L, "how"), (R, "CPU lost")]
    row one@(number, c) =
      [ if channelThread c > 0 then show (channelThread c) else "-",
        maybe "" fst (Map.lookup (channelThread c) (seenThreads now)),
        awaited number c,
        show (channelJob c),
        seconds (since c),
        how c,
        maybe "" (percent 0) (lostBy before now one)
      ]
    since c = fromIntegral (max 0 (seenAt now - channelSince c)) / 1e9
    how c =
      intercalate ", " $
        [stateName (channelState c)] ++ ["boosted" | channelBoosted c] ++ ["nobody wakes it" | channelSilent c]
          ++ ["not found: ended, or in another pid namespace" | channelThread c > 0, Map.notMember (channelThread c) (seenThreads now)]
    -- As the library judges it.
    daemon table
      | tableHeartbeat table == 0 = "no maru boost"
      | seenAt now - tableHeartbeat table >= 90000000 = "maru boost does not answer"
      | otherwise = "maru boost looks after them"
    mpi = case (seenMpi now, [r | r <- seenRanks now, not (null (rankNeeds r))]) of
      (Nothing, _) -> []
      (Just cost, ranks) ->
        Line (mpiLine cost ++ maybe "" (lately cost) (rate seenMpi)) :
          [Tabular (Table [(R, "rank"), (R, "process"), (R, "job"), (L, "waits for"), (R, "CPU of its waits")] (map rankRow (take mostRows (sortOn rankNumber ranks)))) | not (null ranks)]
    rankRow r = [show (rankNumber r), show (rankPid r), show (rankJob r), intercalate ", " (rankNeeds r), if costWaited (rankCost r) > 0 then shareOf (costCpu (rankCost r)) (costWaited (rankCost r)) else ""]
    lately cost (elapsed, old) = "; now losing " ++ percent 0 ((costCpu cost - costCpu old) / elapsed) ++ " of a CPU"
    polls cost = [Line (pollLine cost ++ maybe "" (losing cost) (rate seenPoll))]
    losing cost (elapsed, old) = "; now losing " ++ percent 0 ((pollCpu cost - pollCpu old) / elapsed) ++ " of a CPU"
    rate part = case before of
      Just (elapsed, old) | elapsed > 0 -> (,) elapsed <$> part old
      _ -> Nothing

-- | What, and from whom: the job of a map is the process that started it.
awaited :: Int -> Channel -> String
awaited number c = case channelPurpose c of
  AnyMessage -> "channel " ++ show number
  MapWork -> "work from " ++ show (channelJob c)
  MapResults -> "results of its map"

purposeName :: Purpose -> String
purposeName p = case p of
  AnyMessage -> "message"
  MapWork -> "map-work"
  MapResults -> "map-results"

stateName :: ChannelState -> String
stateName s = case s of
  Idle -> "idle"
  Awake -> "awake"
  Asleep -> "asleep"
  Lowered -> "lowered"

json :: Maybe (Double, Seen) -> Seen -> Value
json before now =
  object
    [ "channels" .= maybe 0 (length . tableChannels) (seenTable now),
      "waits"
        .= [ object
               [ "channel" .= number,
                 "job" .= channelJob c,
                 "for" .= purposeName (channelPurpose c),
                 "thread" .= channelThread c,
                 "state" .= stateName (channelState c),
                 "boosted" .= channelBoosted c,
                 "silent" .= channelSilent c,
                 "since_s" .= (fromIntegral (max 0 (seenAt now - channelSince c)) / 1e9 :: Double),
                 "cpu_lost" .= lostBy before now one
               ]
             | one@(number, c) <- maybe [] waiting (seenTable now)
           ],
      "ranks" .= [object ["rank" .= rankNumber r, "pid" .= rankPid r, "job" .= rankJob r, "waits_for" .= rankNeeds r, "cost" .= mpiJson (rankCost r)] | r <- seenRanks now],
      "mpi" .= fmap mpiJson (seenMpi now),
      "poll" .= fmap pollJson (seenPoll now)
    ]
