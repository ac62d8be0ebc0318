-- | Being a node of a job; "Maru.Dsm" exports what programs need.
module Maru.Dsm.Job
  ( Dsm (node, nodes),
    withDsm,
    part,

    -- * For the modules beside
    guarded,
    synchronised,
    using,
    holds,
    takes,
    gives,
    Kind (..),
    freshId,
  )
where

import Control.Concurrent (ThreadId, myThreadId)
import Control.Exception (bracket_, throwIO)
import Control.Monad (unless, when)
import Data.IORef (IORef, atomicModifyIORef', atomicWriteIORef, modifyIORef', newIORef, readIORef)
import Data.IntSet (IntSet)
import qualified Data.IntSet as IntSet
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Word (Word32)
import Maru.Dsm.Failure
import Maru.Dsm.Native

-- | This process as a node of its job.
data Dsm = Dsm
  { -- | Its number, from 0.
    node :: !Int,
    -- | How many nodes there are.
    nodes :: !Int,
    owner :: !ThreadId,
    alive :: !(IORef Bool),
    ranges :: !(IORef Int),
    locks :: !(IORef IntSet),
    given :: !(IORef (Map Kind Int))
  }

-- | What has ids, each kind by itself.
data Kind = Locks | Conditions | Counters | Semaphores | Flags
  deriving (Eq, Ord)

-- | Joins the job that @maru launch -n 4 -- .\/program@ started (alone: a job of one node), runs
-- the action, waits until all nodes have run theirs, and leaves. Once in a process. Only the
-- Haskell thread that calls it may use what the action is given; others get 'OtherThread'.
--
-- Where the action throws, the node does not wait for the others: let the exception end the
-- program, and the job ends with its status. Calls that wait for other nodes cannot be interrupted
-- by asynchronous exceptions; a signal to @maru launch@ ends all nodes.
--
-- Accesses are not watched (@maru_dsm_init_unwatched@ in @maru\/dsm.h@). @MARU_DSM_ACCESS@ has
-- them watched: that costs signals and changes no result.
withDsm :: (Dsm -> IO a) -> IO a
withDsm action = do
  c_init
  me <- fromIntegral <$> c_node
  all' <- fromIntegral <$> c_nodes
  dsm <- Dsm me all' <$> myThreadId <*> newIORef True <*> newIORef 0 <*> newIORef IntSet.empty <*> newIORef Map.empty
  result <- action dsm
  synchronised dsm "the end of withDsm" (atomicWriteIORef (alive dsm) False >> c_exit)
  pure result

-- | This node's share of so many things, as the first and how many. The shares of all nodes, in
-- their order, are all things, and differ by one at most.
part :: Dsm -> Int -> (Int, Int)
part dsm count = (first, next - first)
  where
    first = count * node dsm `div` nodes dsm
    next = count * (node dsm + 1) `div` nodes dsm

-- | Does it where that is allowed.
guarded :: Dsm -> String -> IO a -> IO a
guarded dsm what action = do
  me <- myThreadId
  when (me /= owner dsm) $ throwIO (OtherThread what)
  running <- readIORef (alive dsm)
  unless running $ throwIO (JobOver what)
  action

-- | The same for what makes ranges invalid.
synchronised :: Dsm -> String -> IO a -> IO a
synchronised dsm what action = guarded dsm what $ do
  inUse <- readIORef (ranges dsm)
  when (inUse > 0) $ throwIO (WithinRange what)
  action

-- | While it runs a range is in use.
using :: Dsm -> IO a -> IO a
using dsm = bracket_ (modifyIORef' (ranges dsm) (+ 1)) (modifyIORef' (ranges dsm) (subtract 1))

-- | Whether this node holds the lock of that id.
holds :: Dsm -> Word32 -> IO Bool
holds dsm name = IntSet.member (fromIntegral name) <$> readIORef (locks dsm)

-- | From now on it does.
takes :: Dsm -> Word32 -> IO ()
takes dsm = modifyIORef' (locks dsm) . IntSet.insert . fromIntegral

-- | From now on it does not.
gives :: Dsm -> Word32 -> IO ()
gives dsm = modifyIORef' (locks dsm) . IntSet.delete . fromIntegral

-- | The next id of a kind: the same on all nodes, as all ask for the same in the same order.
freshId :: Dsm -> Kind -> IO Word32
freshId dsm kind = guarded dsm "a new id" $ do
  next <- atomicModifyIORef' (given dsm) $ \table ->
    let next = Map.findWithDefault 0 kind table in (Map.insert kind (next + 1) table, next)
  when (next >= idsMost) $ throwIO (BadCount "ids of a kind" next)
  pure (fromIntegral next)

-- | MARU_DSM_IDS of @maru\/dsm.h@.
idsMost :: Int
idsMost = 262144
