{-# LANGUAGE OverloadedStrings #-}

-- | The page of @maru top@ about a launch: what its nodes of this host count (section @dsm@,
-- layout: @native\/dsm\/stand.h@).
module Maru.Cli.Room.Dsm.Top
  ( launchesPage,

    -- * For tests
    Stand (..),
    decodeStands,
  )
where

import Control.Monad (replicateM)
import Data.Aeson (Value, object, (.=))
import Data.Aeson.Key (fromString)
import Data.Binary.Get (Get, getWord64host, skip)
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
kinds = ["", "fetch", "page", "diff", "kept", "again", "request", "grant", "refused", "news", "heard", "look", "seen", "next", "holds", ""]

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

launchesPage :: TopPage
launchesPage = plainPage (pure . fromMaybe [] . sectionOf "dsm" decodeStands) draw (\_ now -> if null now then Nothing else Just (json now))

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

json :: [Stand] -> Value
json stands = object ["nodes" .= map one stands]
  where
    one s =
      object
        [ "node" .= standNode s,
          "of" .= standNodes s,
          "sent" .= object [fromString k .= object ["messages" .= m, "bytes" .= b] | (k, (m, b)) <- standSent s],
          "waits" .= object [fromString k .= object ["count" .= n, "seconds" .= w] | (k, (n, w)) <- standWaits s],
          "faults" .= object [fromString k .= n | (k, n) <- standFaults s],
          "locks" .= object ["given" .= standGiven s, "retaken" .= standRetaken s]
        ]
