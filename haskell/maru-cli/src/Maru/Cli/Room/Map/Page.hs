{-# LANGUAGE OverloadedStrings #-}

-- | The map room's page of @maru top@: what the parallel maps of a run do
-- (section @map@, layout: @struct maru_map_totals@ in @maru/channel.h@).
module Maru.Cli.Room.Map.Page
  ( mapPage,
    MapTotals (..),
    decodeTotals,
  )
where

import Data.Aeson (Value, object, (.=))
import Data.Binary.Get (getWord64host, runGetOrFail)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Lazy as Lazy
import Data.List (find)
import Data.Word (Word64)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Native.BoardView

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
mapPage =
  TopPage
    { pageKeys = [],
      pageStart = (),
      pageKey = const id,
      pageTurn = \_ _ -> pure (),
      pageSee = pure . totalsOf,
      pageDraw = \() before -> maybe [] (draw (before >>= sequenceA)),
      pageJson = const (fmap json)
    }

totalsOf :: Board -> Maybe MapTotals
totalsOf board =
  find ((== ("map", 1)) . key) (boardSections board) >>= decodeTotals . sectionBytes
  where
    key s = (sectionName s, sectionVersion s)

-- | 'Nothing' if the bytes are too short.
decodeTotals :: ByteString -> Maybe MapTotals
decodeTotals bytes = case runGetOrFail fields (Lazy.fromStrict bytes) of
  Right (_, _, totals) -> Just totals
  Left _ -> Nothing
  where
    fields =
      MapTotals <$> getWord64host <*> getWord64host <*> getWord64host <*> getWord64host <*> getWord64host <*> getWord64host

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
