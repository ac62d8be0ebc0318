-- | The section @lockwaits@ of a board (layout: @maru/overlay.h@): how long a run's threads
-- waited for mutexes, over all of them.
module Maru.Cli.Room.Lock.Waits
  ( Waits (..),
    waitsOf,
    since,
    atQuantile,
  )
where

import Control.Monad (replicateM)
import Data.Binary.Get
import Data.ByteString (ByteString)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Maru.Cli.Section
import Maru.Control.Histogram
import Maru.Native.BoardView (Board)

data Waits = Waits
  { -- | Acquisitions are counted: the run has the profile.
    waitsCounted :: !Bool,
    -- | All, also those of a free mutex.
    waitsAcquisitions :: !Word64,
    -- | Those that found their mutex taken, in nanoseconds.
    waitsTimes :: !Histogram
  }
  deriving (Eq, Show)

instance Semigroup Waits where
  Waits c a h <> Waits d b i = Waits (c || d) (a + b) (h <> i)

instance Monoid Waits where
  mempty = Waits False 0 mempty -- the longest is not known: a class is what a quantile is read from

waitsOf :: Board -> Maybe Waits
waitsOf = sectionOf "lockwaits" decodeWaits

-- | 'Nothing' if the bytes are too short.
decodeWaits :: ByteString -> Maybe Waits
decodeWaits = decoded fields
  where
    fields = do
      counted <- getWord32host
      skip 60
      mconcat . map (\w -> w {waitsCounted = counted /= 0}) <$> replicateM 8 line
    line = do
      acquisitions <- getWord64host
      skip 56
      counts <- replicateM classes getWord64host
      pure (Waits False acquisitions (fromClasses maxBound (zip [0 ..] counts)))

-- | @new \`since\` old@: what came in between. Counters only grow, but two looks are not one
-- moment: what seems to have shrunk has not changed.
since :: Waits -> Waits -> Waits
since new old = Waits (waitsCounted new) (less (waitsAcquisitions new) (waitsAcquisitions old)) (Histogram counts maxBound)
  where
    counts = IntMap.filter (> 0) (IntMap.mapWithKey lessThere (histogramCounts (waitsTimes new)))
    lessThere at n = less n (IntMap.findWithDefault 0 at (histogramCounts (waitsTimes old)))
    less n o = n - min n o

-- | Of all acquisitions, a free mutex counting as 0; 0 of none.
atQuantile :: Double -> Waits -> Double
atQuantile share w = fromMaybe 0 (quantile share (addZeros free (waitsTimes w)))
  where
    free = waitsAcquisitions w - min (waitsAcquisitions w) (total (waitsTimes w))
