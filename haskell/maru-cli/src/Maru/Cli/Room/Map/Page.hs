{-# LANGUAGE OverloadedStrings #-}

-- | The map room's page of @maru top@: what the parallel maps of a run do
-- (section @map@, layout: @struct maru_map_totals@ in @maru/channel.h@).
module Maru.Cli.Room.Map.Page
  ( mapPage,
    MapTotals (..),
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Binary.Get (getWord64host)
import Data.ByteString (ByteString)
import Data.Word (Word64)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Section
import Maru.Native.BoardView (Board)

data MapTotals = MapTotals
  { mapsStarted :: !Word64,
    workersAlive :: !Word64,
    workersStarted :: !Word64,
    workersLost :: !Word64,
    itemsArrived :: !Word64,
    itemsInCaller :: !Word64
  }
  deriving (Eq, Show)

mapPage :: TopPage
mapPage = plainPage (pure . totalsOf) (maybe [] . draw . (>>= sequenceA)) (const (fmap json))

totalsOf :: Board -> Maybe MapTotals
totalsOf = sectionOf "map" decodeTotals

-- | 'Nothing' if the bytes are too short.
decodeTotals :: ByteString -> Maybe MapTotals
decodeTotals = decoded (MapTotals <$> getWord64host <*> getWord64host <*> getWord64host <*> getWord64host <*> getWord64host <*> getWord64host)

draw :: Maybe (Double, MapTotals) -> MapTotals -> [Block]
draw before now =
  [ Tabular
      ( Table
          [(R, "maps"), (R, "workers"), (R, "started"), (R, "lost"), (R, "items"), (R, "items/s"), (R, "in caller")]
          [ [ show (mapsStarted now),
              show (workersAlive now),
              show (workersStarted now),
              show (workersLost now),
              show (itemsArrived now),
              maybe "" perSecond before,
              show (itemsInCaller now)
            ]
          ]
      )
  ]
  where
    perSecond (elapsed, old)
      | elapsed > 0 = show (round (fromIntegral (itemsArrived now - itemsArrived old) / elapsed) :: Int)
      | otherwise = ""

json :: MapTotals -> Value
json totals =
  object
    [ "maps" .= mapsStarted totals,
      "workers_alive" .= workersAlive totals,
      "workers_started" .= workersStarted totals,
      "workers_lost" .= workersLost totals,
      "items" .= itemsArrived totals,
      "items_in_caller" .= itemsInCaller totals
    ]
