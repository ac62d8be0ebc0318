-- | What a worker is told at its birth. /Internal/.
module Maru.Backend.Process.Assignment
  ( Assignment (..),
    Segment (..),
    Cursor (..),
    Letters (..),
  )
where

import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C (CInt)
import Maru.Backend.Process.Fabric (Chunk, Link)
import Maru.Codec (Codec)
import Maru.Native.Process (Snapshot)
import Maru.Native.Region (Region)
import System.Posix.Types (ProcessID)

-- | Consecutive items: the cells from the first on, at least that many.
data Segment a = Segment
  { segmentFirst :: !Int,
    segmentCount :: !Int,
    segmentCells :: [a]
  }

-- | Everything a worker is told at birth. It inherits the rest.
data Assignment a b = Assignment
  { assignedParent :: !ProcessID,
    assignedParentPidfd :: !CInt,
    assignedSnapshot :: !Snapshot,
    assignedLink :: !Link,
    -- | 'Nothing': results go as copies.
    assignedRegion :: !(Maybe Region),
    assignedSharing :: !Bool,
    assignedCodec :: !(Maybe (Codec b)),
    assignedFunction :: a -> b,
    -- | A resident worker's: it inherits neither function nor input, and stays.
    assignedLetters :: !(Maybe (Letters a b)),
    assignedInitialiser :: IO (),
    -- | Left over by workers that are gone: done before anything is claimed.
    assignedSegments :: ![Segment a],
    -- | The input from the earliest item that may still be claimed.
    assignedCursor :: !(Cursor a),
    -- | The input's cells below this index were evaluated before the fork.
    assignedKnown :: !Int,
    -- | Instead of both, where items arrive: the input from an index on.
    assignedFrom :: !(Maybe (Int -> [a])),
    -- | Bytes of allocation area that a long-lived worker may grow to.
    assignedNursery :: !Int,
    -- | Bytes that its heap may grow by.
    assignedMemory :: !(Maybe Int),
    -- | Workers of this map, this one included.
    assignedSiblings :: !Int
  }

data Cursor a = Cursor !Int [a]

-- | What a resident worker gets with a chunk: the function, and the chunk's items ('Nothing':
-- what was sent cannot be read). It leaves after so many nanoseconds without a call.
data Letters a b = Letters
  { openLetter :: Chunk -> IO (Maybe (a -> b, [a])),
    -- | Another number after each call, whichever workers did it.
    lettersCall :: IO Word64,
    lettersIdle :: !Int64
  }
