-- | What maru does to GHC's run-time system, in one place.
module Maru.Native.Rts
  ( prepareChild,
    setAllocArea,
    allocArea,
    rtsProblems,
    collapseHeap,
    gcElapsedNs,
    ShippedException (..),
    splitException,
    joinException,
  )
where

import Control.Exception (SomeException)
import Data.Word (Word64)
import GHC.Exts (Any)

-- | An exception taken apart for the journey.
data ShippedException
  = -- | The address of its 'Exception' dictionary, which is the same in parent
    -- and child, and its payload, to be sent like a result.
    Typed !Word64 Any
  | -- | The dictionary was built at run time: only the text can cross.
    TextOnly

-- | First thing in a forked worker: no garbage collections by themselves, and
-- no finalizers of the parent's objects.
prepareChild :: IO ()
prepareChild = ioError (userError "not built yet")

-- | Bytes of the allocation area of each capability, from the next collection
-- on.
setAllocArea :: Int -> IO ()
setAllocArea _ = ioError (userError "not built yet")

-- | See 'setAllocArea'.
allocArea :: IO Int
allocArea = ioError (userError "not built yet")

-- | Why results cannot cross by address in this program, one line each; empty:
-- they can.
rtsProblems :: IO [String]
rtsProblems = pure ["not built yet"]

-- | Collapses the heap into huge pages; how many bytes were.
collapseHeap :: IO Int
collapseHeap = ioError (userError "not built yet")

-- | Nanoseconds of garbage collection since the first call (which returns 0
-- unless the program runs with @+RTS -T@).
gcElapsedNs :: IO Word64
gcElapsedNs = ioError (userError "not built yet")

-- | In the child.
splitException :: SomeException -> IO ShippedException
splitException _ = pure TextOnly

-- | In the parent: dictionary address and payload.
joinException :: Word64 -> Any -> IO SomeException
joinException _ _ = ioError (userError "not built yet")
