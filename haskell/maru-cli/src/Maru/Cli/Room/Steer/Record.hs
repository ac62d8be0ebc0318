{-# LANGUAGE OverloadedStrings #-}

-- | What @maru top --record@ wrote, as the simulator takes it.
module Maru.Cli.Room.Steer.Record
  ( readLooks,

    -- * For tests
    looksOf,
  )
where

import Data.Aeson (Value, eitherDecode)
import qualified Data.ByteString.Lazy.Char8 as Lazy
import Data.List (isInfixOf)
import Data.Maybe (fromMaybe, mapMaybe)
import Maru.Cli.JsonPath (at)
import Maru.Cli.Output (readInput)
import Maru.Control.Observe (sinceStartUncounted)
import Maru.Control.Sim.Io (Flow (..), Look (..))
import Maru.Control.Steer (Device (..))

-- | Ends with status 65 where there is none.
readLooks :: FilePath -> IO [Look]
readLooks = readInput looksOf

-- | One look a line, of all runs in it.
looksOf :: Lazy.ByteString -> Either String [Look]
looksOf bytes = do
  values <- mapM numbered [(n, l) | (n, l) <- zip [1 :: Int ..] (Lazy.lines bytes), not (Lazy.null l)]
  case mapMaybe look values of
    [] -> Left "no look at input and output is in it, but for first ones (means since the start): record with maru top --record for longer"
    looks -> Right looks
  where
    numbered (n, line) = either (const (Left ("line " ++ show n ++ " is no line of maru top --record"))) Right (eitherDecode line)

-- | 'Nothing': no run was seen doing anything, or it was a first look.
look :: Value -> Maybe Look
look line = case filter (not . isFirst) (mapMaybe (at ["rooms", "steer"]) (fromMaybe [] (at ["runs"] line :: Maybe [Value]))) of
  [] -> Nothing
  pages@(page : _) -> do
    time <- at ["seconds"] page
    pure (Look time (sum (map computing threads)) [(device, flow device) | device <- [File, Net], any (uses device) threads])
    where
      threads = concat (mapMaybe (at ["threads"]) pages) :: [Value]
      -- The whole machine's, by how much is called.
      interrupts = sum [part "irq" core + part "softirq" core | core <- fromMaybe [] (at ["cores"] page)]
      system = sum [part "system" t | t <- threads, any (`uses` t) [File, Net]]
      flow device = Flow calls bytes calling (if system > 0 then interrupts * calling / system else 0)
        where
          mine = filter (uses device) threads
          calling = sum (map (part "system") mine)
          traffic = if device == Net then part "network_bytes_per_s" page else 0
          bytes = max traffic (sum [part "read_bytes_per_s" t + part "written_bytes_per_s" t | t <- mine])
          -- The kernel counts no recv and no send: one for each 16 KiB, as of the simulated web
          -- server.
          calls = max (traffic / 16384) (sum (map (part "calls_per_s") mine))
  where
    isFirst page = sinceStartUncounted `isInfixOf` fromMaybe "" (at ["bpf"] page)
    part name value = fromMaybe 0 (at [name] value) :: Double
    uses device t = at ["kind"] t == Just (if device == File then "file" else "network" :: String)
    -- Of a thread whose calls go nowhere, all of it.
    computing t = part "user" t + (if any (`uses` t) [File, Net] then 0 else part "system" t)
