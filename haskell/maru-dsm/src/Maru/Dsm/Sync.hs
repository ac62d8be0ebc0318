-- | Synchronisation; "Maru.Dsm" exports all of it. What is made here is made by all nodes
-- alike: each calls the same, in the same order.
module Maru.Dsm.Sync
  ( barrier,
    fence,
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
  )
where

import Control.Exception (bracket_, throwIO)
import Control.Monad (unless, when)
import Data.Int (Int64)
import Data.Word (Word32)
import Maru.Dsm.Failure
import Maru.Dsm.Job
import Maru.Dsm.Native

-- | Waits until all nodes are here. What any of them did before, all see afterwards.
barrier :: Dsm -> IO ()
barrier dsm = synchronised dsm "barrier" (c_barrier 0)

-- | Orders all before it, of this node, before all after later fences, of any node.
fence :: Dsm -> IO ()
fence dsm = synchronised dsm "fence" c_fence

-- | One node at a time.
data Lock = Lock !Dsm !Word32

-- | Nobody holds it.
newLock :: Dsm -> IO Lock
newLock dsm = Lock dsm <$> freshId dsm Locks

-- | Holds the lock while the action runs, which sees what earlier holders did. Not
-- recursive: 'HeldAlready'. Where the action throws, the lock is given back, and others see what
-- was done until then.
withLock :: Lock -> IO a -> IO a
withLock (Lock dsm name) = bracket_ acquire release
  where
    acquire = synchronised dsm "withLock" $ do
      mine <- holds dsm name
      when mine $ throwIO HeldAlready
      c_lock name
      takes dsm name
    release = synchronised dsm "the end of withLock" (gives dsm name >> c_unlock name)

-- | Something that nodes wait for, holding a lock.
data Condition = Condition !Dsm !Word32

-- | Nobody waits.
newCondition :: Dsm -> IO Condition
newCondition dsm = Condition dsm <$> freshId dsm Conditions

-- | Gives the lock, which this node holds (else 'NotHeld'), back; waits until signalled; takes it
-- again. Then look at what you wait for: another node may have come between.
waitCondition :: Condition -> Lock -> IO ()
waitCondition (Condition dsm name) (Lock _ lock) = synchronised dsm "waitCondition" $ do
  mine <- holds dsm lock
  unless mine $ throwIO NotHeld
  c_condition_wait name lock

-- | Wakes the node that has waited longest; lost where nobody waits.
signalCondition :: Condition -> IO ()
signalCondition (Condition dsm name) = synchronised dsm "signalCondition" (c_condition_signal name)

-- | Wakes all that wait.
broadcastCondition :: Condition -> IO ()
broadcastCondition (Condition dsm name) = synchronised dsm "broadcastCondition" (c_condition_broadcast name)

-- | A number that nodes add to.
data Counter = Counter !Dsm !Word32

-- | It is 0.
newCounter :: Dsm -> IO Counter
newCounter dsm = Counter dsm <$> freshId dsm Counters

-- | Adds, and says what the number was before. Wraps. Orders as a lock does.
fetchAdd :: Counter -> Int64 -> IO Int64
fetchAdd (Counter dsm name) = synchronised dsm "fetchAdd" . c_fetch_add name

-- | So many may pass.
data Semaphore = Semaphore !Dsm !Word32

-- | It is 0.
newSemaphore :: Dsm -> IO Semaphore
newSemaphore dsm = Semaphore dsm <$> freshId dsm Semaphores

-- | Takes one, as soon as there is one; sees what was done before it was posted.
waitSemaphore :: Semaphore -> IO ()
waitSemaphore (Semaphore dsm name) = synchronised dsm "waitSemaphore" (c_semaphore_wait name)

-- | Gives so many, 1 to 2^31 - 1.
postSemaphore :: Semaphore -> Int -> IO ()
postSemaphore (Semaphore dsm name) count = synchronised dsm "postSemaphore" $ do
  when (count < 1 || count > 0x7fffffff) $ throwIO (BadCount "postSemaphore" count)
  c_semaphore_post name (fromIntegral count)

-- | A number that nodes wait for.
data Flag = Flag !Dsm !Word32

-- | It is 0.
newFlag :: Dsm -> IO Flag
newFlag dsm = Flag dsm <$> freshId dsm Flags

-- | Gives it a value.
setFlag :: Flag -> Int64 -> IO ()
setFlag (Flag dsm name) = synchronised dsm "setFlag" . c_flag_set name

-- | Waits until it has that value; sees what was done before it was set.
awaitFlag :: Flag -> Int64 -> IO ()
awaitFlag (Flag dsm name) = synchronised dsm "awaitFlag" . c_flag_await name
