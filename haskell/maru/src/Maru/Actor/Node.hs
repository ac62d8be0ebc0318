-- | Where a message goes: the tree of processes that have actors. /Internal/.
--
-- A process is named by its path from the root: the root's process number, then a number for
-- each birth. A message goes up to the first process that its destination descends from, and
-- down from there. So all messages from one process to another take one way, on which none
-- overtakes another. Going down never waits for going up, so that no two wait for each other.
module Maru.Actor.Node
  ( Path,
    Node (..),
    self,
    becomeChild,
    childOf,
    adopt,
    disown,
    freshNumber,
    step,
    steps,
    openBox,
    closeBox,
    route,
    relay,
  )
where

import Control.Exception (throwIO)
import Control.Monad (unless, void)
import qualified Data.Binary as Binary
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import Data.Foldable (for_, traverse_)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (stripPrefix)
import Maru.Actor.Wire
import Maru.Failure (Unavailable (..))
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Process (getProcessID)
import System.Posix.Types (ProcessID)

-- | From the root.
type Path = [Int]

-- | A process that has actors, or is one.
data Node = Node
  { nodeProcess :: !ProcessID,
    nodePath :: !Path,
    nodeUp :: !(Maybe Wire),
    nodeChildren :: !(IORef (IntMap Wire)),
    nodeBoxes :: !(IORef (IntMap (Bytes.ByteString -> IO ()))),
    nodeNumbers :: !(IORef Int),
    nodeSteps :: !(IORef Int)
  }

-- | This process. One that was forked otherwise than by 'Maru.Actor.spawn' is a root of its own.
self :: IO Node
self = do
  pid <- getProcessID
  known <- readIORef here
  case known of
    Just node | nodeProcess node == pid -> pure node
    _ -> do
      root <- newNode pid [fromIntegral pid] Nothing
      atomicModifyIORef' here $ \now -> case now of
        Just node | nodeProcess node == pid -> (now, node)
        _ -> (Just root, root)

here :: IORef (Maybe Node)
here = unsafePerformIO (newIORef Nothing)
{-# NOINLINE here #-}

newNode :: ProcessID -> Path -> Maybe Wire -> IO Node
newNode pid path up = Node pid path up <$> newIORef IntMap.empty <*> newIORef IntMap.empty <*> newIORef 0 <*> newIORef 0

-- | First thing in a child: it has that path, and that wire to its parent.
becomeChild :: Path -> Wire -> IO Node
becomeChild path up = do
  pid <- getProcessID
  node <- newNode pid path (Just up)
  node <$ writeIORef here (Just node)

-- | The path of its child of that number.
childOf :: Node -> Int -> Path
childOf node number = nodePath node <> [number]

-- | Messages for that child and its descendants go there.
adopt :: Node -> Int -> Wire -> IO ()
adopt node number wire = atomicModifyIORef' (nodeChildren node) (\c -> (IntMap.insert number wire c, ()))

-- | They are dropped from now on.
disown :: Node -> Int -> IO ()
disown node number = atomicModifyIORef' (nodeChildren node) (\c -> (IntMap.delete number c, ()))

-- | For a mailbox or a child; none comes twice, and 0 first.
freshNumber :: Node -> IO Int
freshNumber node = atomicModifyIORef' (nodeNumbers node) (\n -> (n + 1, n))

-- | Here somebody who waited in vain was told so, or an actor ended: others may go on for it.
step :: Node -> IO ()
step node = atomicModifyIORef' (nodeSteps node) (\n -> (n + 1, ()))

-- | So many.
steps :: Node -> IO Int
steps = readIORef . nodeSteps

-- | That is done with what comes for the mailbox of that number.
openBox :: Node -> Int -> (Bytes.ByteString -> IO ()) -> IO ()
openBox node number deliver = atomicModifyIORef' (nodeBoxes node) (\b -> (IntMap.insert number deliver b, ()))

-- | What comes for it is dropped from now on.
closeBox :: Node -> Int -> IO ()
closeBox node number = atomicModifyIORef' (nodeBoxes node) (\b -> (IntMap.delete number b, ()))

-- | What is for a process or mailbox that is gone is dropped. Throws 'Unavailable' where no way
-- leads there, and none did.
route :: Node -> Path -> Int -> Bytes.ByteString -> IO ()
route node path box bytes = do
  went <- towards node path box bytes
  unless went . throwIO $
    Unavailable
      "a way to a mailbox"
      "this process was forked otherwise than by spawn, and the mailbox belongs to another one"
      "send from a process that spawn has made"

towards :: Node -> Path -> Int -> Bytes.ByteString -> IO Bool
towards node path box bytes = case (stripPrefix (nodePath node) path, nodeUp node) of
  (Just [], _) -> do
    boxes <- readIORef (nodeBoxes node)
    True <$ for_ (IntMap.lookup box boxes) ($ bytes)
  (Just (child : _), _) -> do
    children <- readIORef (nodeChildren node)
    True <$ for_ (IntMap.lookup child children) (`sendFrame` framed)
  (Nothing, Just up) -> True <$ sendFrame up framed
  (Nothing, Nothing) -> pure False
  where
    framed = Frame box (Lazy.toStrict (Binary.encode path) <> bytes)

-- | Until the process at that wire's other end is gone, and all that it sent has gone on.
relay :: Node -> Wire -> IO ()
relay node wire = nextFrame wire >>= traverse_ (\frame -> onward frame >> relay node wire)
  where
    onward (Frame box framed) = case Binary.decodeOrFail (Lazy.fromStrict framed) of
      Right (bytes, _, path) -> void (towards node path box (Lazy.toStrict bytes))
      Left (_, _, why) -> throwIO (Unavailable "a message" ("its address is damaged: " <> why) "")
