-- | What "Maru.Dsm" refuses. What a job cannot go on after (a node was lost, a setting is
-- wrong) is no exception. The process says one line and ends, as @maru\/dsm.h@ has it.
module Maru.Dsm.Failure (DsmFailure (..)) where

import Control.Exception (Exception (..))

-- | A use that would give wrong results, or none. Nothing has been done.
data DsmFailure
  = -- | Another Haskell thread than the one that called 'Maru.Dsm.withDsm'; which operation.
    OtherThread String
  | -- | After 'Maru.Dsm.withDsm' has ended; which operation.
    JobOver String
  | -- | A range that is not within its vector: from, count, the vector's size.
    OutOfRange Int Int Int
  | -- | So many bytes are not left of @MARU_DSM_MIB@, or of the 'Maru.Dsm.Heap'.
    NoRoom Int
  | -- | Synchronisation, or the end of 'Maru.Dsm.withDsm', within 'Maru.Dsm.withRange' or the
    -- like: the range would not be valid afterwards, and what is written to it would be lost.
    WithinRange String
  | -- | A lock that this node holds already.
    HeldAlready
  | -- | A condition whose lock this node does not hold.
    NotHeld
  | -- | A number of things, below 0 or above the greatest.
    BadCount String Int
  deriving (Eq, Show)

instance Exception DsmFailure where
  displayException failure =
    "Maru.Dsm: " ++ case failure of
      OtherThread what -> what ++ ": only the thread that called withDsm may use the shared memory"
      JobOver what -> what ++ ": withDsm has ended"
      OutOfRange from count size ->
        show count ++ " elements from " ++ show from ++ " on, of a vector of " ++ show size
      NoRoom bytes -> "no room for " ++ show bytes ++ " bytes more (MARU_DSM_MIB)"
      WithinRange what -> what ++ " while a range is in use; end withRange or modifyRange first"
      HeldAlready -> "this node holds that lock already"
      NotHeld -> "this node does not hold the condition's lock"
      BadCount what count -> what ++ ": " ++ show count
