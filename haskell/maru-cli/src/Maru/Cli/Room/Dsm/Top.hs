{-# LANGUAGE OverloadedStrings #-}

-- | The page of @maru top@ about a launch: what its nodes of this host count (section @dsm@,
-- layout: @native\/dsm\/stand.h@), and how its checkpoints stand (section @kept@, @native\/dsm\/kept.h@).
module Maru.Cli.Room.Dsm.Top
  ( launchesPage,

    -- * For tests
    Stand (..),
    decodeStands,
    Kept (..),
    decodeKept,
  )
where

import Control.Monad (replicateM)
import Data.Aeson (Value, object, (.=))
import Data.Aeson.Key (fromString)
import Data.Binary.Get (Get, getByteString, getWord64host, skip)
import Data.ByteString (ByteString)
import Data.Maybe (fromMaybe)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Section
import Maru.Control.Launch.Heat (faultReasons)

-- | One node's.
data Stand = Stand
  { standNode :: !Int,
    -- | Of the job, those of other hosts too.
    standNodes :: !Integer,
    -- | By kind: messages and bytes that it sent; none where it sent none.
    standSent :: ![(String, (Integer, Integer))],
    -- | For pages, for locks and the like, at barriers: how often, and seconds.
    standWaits :: ![(String, (Integer, Double))],
    standFaults :: ![(String, Integer)],
    -- | Locks: given straight to the next node, taken without a message.
    standGiven, standRetaken :: !Integer
  }
  deriving (Eq, Show)

-- | By number, as @native\/dsm\/message.c@ names them.
kinds :: [String]
kinds = ["", "fetch", "page", "diff", "kept", "again", "request", "grant", "refused", "news", "heard", "look", "seen", "next", "holds", "meet"]

-- | The nodes that have a line. 'Nothing' if the bytes are too short.
decodeStands :: ByteString -> Maybe [Stand]
decodeStands = decoded (filter ((> 0) . standNodes) <$> mapM line [0 .. 255])
  where
    line node = do
      nodes <- word
      messages <- mapM (const word) kinds
      bytes <- mapM (const word) kinds
      waits <- replicateM 3 word
      waited <- replicateM 3 nanoseconds
      faults <- mapM (const word) faultReasons
      Stand node nodes [(k, (m, b)) | (k, m, b) <- zip3 kinds messages bytes, m > 0] (zip ["pages", "locks", "barriers"] (zip waits waited)) (zip faultReasons faults)
        <$> word
        <*> word
        <* skip (8 * (64 - 45))
    word = toInteger <$> getWord64host :: Get Integer

-- | A job's checkpoints; seconds.
data Kept = Kept
  { keptNodes, keptEpoch :: !Integer,
    keptEvery :: !Double,
    -- | The last whole one; 0: none.
    keptNumber :: !Integer,
    -- | Of it; how long nodes took to stand still, and stood still.
    keptAge, keptGathered, keptWritten :: !Double,
    -- | What of it had changed since the one before, and was written.
    keptBytes, keptChanged :: !Integer,
    -- | The last one in the folder; 0: none.
    keptFolder :: !Integer,
    -- | The longest time without a place for one, and whose it was.
    keptStretch :: !Double,
    keptStretchNode :: !Integer,
    -- | So often a lost node alone did again what it did; whether one does.
    keptRepeated :: !Integer,
    keptRepeats :: !Bool,
    -- | Bytes: of each node's journal, 0: none; what all were given; the most that one had at once.
    keptJournal, keptJournaled, keptJournalMost :: !Integer,
    -- | Why a loss costs more; empty: it does not.
    keptUnprotected :: !String
  }
  deriving (Eq, Show)

-- | 'Nothing' if the bytes are too short, or nothing was written yet.
decodeKept :: ByteString -> Maybe Kept
decodeKept bytes = case decoded kept bytes of
  Just found | keptNodes found > 0 -> Just found
  _ -> Nothing
  where
    kept = Kept <$> word <*> word <*> ms <*> word <*> ms <*> ms <*> ms <*> word <*> word <*> word <*> ms <*> word <*> word <*> ((/= 0) <$> word) <*> word <*> word <*> word <*> (untilZero <$> getByteString 160)
    word = toInteger <$> getWord64host :: Get Integer
    ms = (/ 1000) . fromIntegral <$> getWord64host

-- | What a launch's board says.
data Seen = Seen {seenKept :: !(Maybe Kept), seenStands :: ![Stand]}

launchesPage :: TopPage
launchesPage = plainPage (\board -> pure (Seen (sectionOf "kept" decodeKept board) (fromMaybe [] (sectionOf "dsm" decodeStands board)))) blocks value
  where
    blocks before now = draw (fmap (fmap seenStands) before) (seenStands now) ++ maybe [] drawKept (seenKept now)
    value _ (Seen Nothing []) = Nothing
    value _ now = Just (json now)

drawKept :: Kept -> [Block]
drawKept k =
  Line ("checkpoints: epoch " ++ show (keptEpoch k) ++ ", " ++ show (keptEpoch k - 1 + keptRepeated k) ++ " recoveries (" ++ show (keptRepeated k) ++ " of one node alone), longest stretch without one possible " ++ seconds (keptStretch k) ++ " (node " ++ show (keptStretchNode k) ++ ")") :
  [Line ("journals: " ++ show (keptJournaled k) ++ " bytes since all began, at most " ++ show (keptJournalMost k) ++ " of " ++ show (keptJournal k) ++ " in one") | keptJournal k > 0]
    ++ [Line "a lost node does again what it did" | keptRepeats k]
    ++ [Line ("UNPROTECTED: " ++ keptUnprotected k) | not (null (keptUnprotected k))]
    ++ [Tabular (Table ((L, "checkpoint") : [(R, h) | h <- ["age", "every", "bytes", "changed", "until all stood still", "all stood still", "in the folder"]]) [[show (keptNumber k), seconds (keptAge k), seconds (keptEvery k), show (keptBytes k), show (keptChanged k), seconds (keptGathered k), seconds (keptWritten k), if keptFolder k > 0 then show (keptFolder k) else ""]]) | keptNumber k > 0]

draw :: Maybe (Double, [Stand]) -> [Stand] -> [Block]
draw _ [] = []
draw before now@(first : _) =
  [ Line (show (length now) ++ " of " ++ show (standNodes first) ++ " nodes, as of the last second"),
    Tabular (Table heads (map row now)),
    Tabular (Table [(L, "sent"), (R, "messages"), (R, "bytes")] [[k, show m, show b] | k <- kinds, let (m, b) = sumOf k, m > 0])
  ]
  where
    heads = (L, "node") : [(R, h) | h <- ["messages", "messages/s", "bytes", "pages waited", "locks waited", "barriers waited"] ++ ["faults: " ++ r | r <- faultReasons] ++ ["locks given", "kept"]]
    row s = [show (standNode s), show (messagesOf s), rate s, show (sum [b | (_, (_, b)) <- standSent s])] ++ [seconds w | (_, (_, w)) <- standWaits s] ++ map (show . snd) (standFaults s) ++ [show (standGiven s), show (standRetaken s)]
    messagesOf s = sum [m | (_, (m, _)) <- standSent s]
    rate s = case before of
      Just (elapsed, old) | elapsed > 0, [was] <- filter ((== standNode s) . standNode) old -> show (round (fromIntegral (messagesOf s - messagesOf was) / elapsed) :: Int)
      _ -> ""
    sumOf k = (sum (map fst of'), sum (map snd of')) where of' = [n | s <- now, (k', n) <- standSent s, k' == k]

json :: Seen -> Value
json now = object (("nodes" .= map one (seenStands now)) : ["checkpoints" .= kept k | Just k <- [seenKept now]])
  where
    kept k =
      object
        [ "epoch" .= keptEpoch k,
          "recoveries" .= (keptEpoch k - 1 + keptRepeated k),
          "repeated_alone" .= keptRepeated k,
          "repeating" .= keptRepeats k,
          "journal" .= (if keptJournal k == 0 then Nothing else Just (object ["size" .= keptJournal k, "bytes" .= keptJournaled k, "most" .= keptJournalMost k])),
          "every" .= keptEvery k,
          "number" .= keptNumber k,
          "age" .= keptAge k,
          "bytes" .= keptBytes k,
          "changed" .= keptChanged k,
          "gathered" .= keptGathered k,
          "written" .= keptWritten k,
          "folder" .= keptFolder k,
          "longest_stretch" .= object ["seconds" .= keptStretch k, "node" .= keptStretchNode k],
          "unprotected" .= (if null (keptUnprotected k) then Nothing else Just (keptUnprotected k))
        ]
    one s =
      object
        [ "node" .= standNode s,
          "of" .= standNodes s,
          "sent" .= object [fromString k .= object ["messages" .= m, "bytes" .= b] | (k, (m, b)) <- standSent s],
          "waits" .= object [fromString k .= object ["count" .= n, "seconds" .= w] | (k, (n, w)) <- standWaits s],
          "faults" .= object [fromString k .= n | (k, n) <- standFaults s],
          "locks" .= object ["given" .= standGiven s, "retaken" .= standRetaken s]
        ]
