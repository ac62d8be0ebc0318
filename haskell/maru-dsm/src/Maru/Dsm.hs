-- | Vectors in memory that the processes of a job share.
--
-- Every node is a process that runs the same program; @maru launch -n 4 -- .\/program@ starts
-- them, on one machine or several. A range of a vector is brought in by a call before it is used,
-- in batches. What a node wrote goes to others where they synchronise with it.
--
-- > import Data.Int (Int64)
-- > import Maru.Dsm
-- >
-- > main :: IO ()
-- > main = withDsm $ \dsm -> do
-- >   total <- newShared dsm 1
-- >   lock <- newLock dsm
-- >   withLock lock $ readAt total 0 >>= writeAt total 0 . (+ fromIntegral (node dsm) + 1)
-- >   barrier dsm
-- >   readAt total 0 >>= \found -> print (found :: Int64)
--
-- Programs whose conflicting accesses are ordered by the operations below see
-- sequential consistency, as if there were one memory. Two nodes may write different elements
-- of one page at the same time, even different bytes of one word.
--
-- One Haskell thread of a process, the one that called 'withDsm', uses all this; other threads run
-- while it waits. Whatever is refused is a 'DsmFailure'; after what a job cannot survive the
-- process says one line on standard error and ends.
--
-- No page fault is ever taken in Haskell code: memory is mapped throughout, outside the collected
-- heap, and ranges say what is needed. So the collector, its timer and other threads are
-- undisturbed.
module Maru.Dsm
  ( -- * Jobs
    Dsm,
    withDsm,
    node,
    nodes,
    part,
    DsmFailure (..),

    -- * Vectors
    Shared,
    newShared,
    size,
    slice,

    -- ** Ranges
    -- $ranges
    readRange,
    withRange,
    writeRange,
    modifyRange,
    readAt,
    writeAt,

    -- ** Allocation by one node
    Heap,
    newHeap,
    newOnHeap,
    Place,
    place,
    atPlace,

    -- * Synchronisation
    -- $collective
    barrier,
    Reduction,
    newReduction,
    reduce,
    Lock,
    newLock,
    withLock,
    Condition,
    newCondition,
    waitCondition,
    signalCondition,
    broadcastCondition,
    Counter,
    newCounter,
    fetchAdd,
    Semaphore,
    newSemaphore,
    waitSemaphore,
    postSemaphore,
    Flag,
    newFlag,
    setFlag,
    awaitFlag,
    fence,
  )
where

import Maru.Dsm.Failure
import Maru.Dsm.Job
import Maru.Dsm.Shared
import Maru.Dsm.Sync

-- $ranges
-- Each names the first element and how many; 'OutOfRange' where the vector has not so many. What is
-- not here is fetched, up to 64 pages a message. To write costs a copy of each page (4 KiB) at the
-- first time after each release, and a comparison at the next.

-- $collective
-- What begins with @new@ is collective: every node calls the same, in the same order.
