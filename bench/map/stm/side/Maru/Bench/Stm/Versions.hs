{-# LANGUAGE TupleSections #-}

-- | A sorted list whose links keep versions: the idea of MV-RLU (Kim and others, ASPLOS 2019) as far
-- as GHC allows. A reader takes the time, and at each link the newest version that is not younger:
-- it sees the list of one instant and never begins anew. An update locks the links that it changes,
-- tries again where it cannot have them, and gives its versions one time at once.
--
-- The collector frees versions that nobody can reach, so the log that MV-RLU reclaims itself is not
-- needed. Versions older than every reader are cut off by the next update of their link.
module Maru.Bench.Stm.Versions
  ( newVersions,
    Versions,
    emptyVersions,
    asSet,
    snapshot,
    move,
  )
where

import Control.Concurrent (yield)
import Control.Monad (forM_, when)
import Data.IORef
import qualified Data.Vector as V
import Maru.Bench.Stm.Set
import Maru.Bench.Stm.Tally

data Node = End | Node !Int !Link

data Link = Link
  { linkHistory :: !(IORef History),
    -- | An update has it.
    linkHeld :: !(IORef Bool),
    -- | Its node is not in the list any more; written by the update that has it.
    linkDead :: !(IORef Bool)
  }

-- | The newest first.
data History = History !(IORef Time) !Node !Older

data Older = Oldest | Older !History

-- | 0 is before all updates.
type Time = Int

-- | No reader sees it yet.
pending :: Time
pending = maxBound

-- | Its time is being taken: a reader waits the few instructions until it is there.
choosing :: Time
choosing = maxBound - 1

data Versions = Versions
  { versionsFirst :: !Link,
    versionsClock :: !(IORef Time),
    -- | What readers that are under way may still look at, by thread; 'pending': none.
    versionsReaders :: !(V.Vector (IORef Time))
  }

-- | For as many threads; each says which one it is.
emptyVersions :: Int -> IO Versions
emptyVersions threads = Versions <$> (newIORef 0 >>= \time -> newLink time End) <*> newIORef 0 <*> V.replicateM threads (newIORef pending)

newVersions :: Int -> IO (Int -> Set)
newVersions threads = asSet <$> emptyVersions threads

-- | As the thread of that number sees it.
asSet :: Versions -> Int -> Set
asSet list thread =
  Set
    { setInsert = \tally key -> update tally (\time -> inserted list time key),
      setDelete = \tally key -> update tally (\time -> deleted list time key),
      setMember = \tally key -> mapM_ (bump tally) [Attempts, Commits] >> member list thread tally key,
      setElements = snapshot list thread
    }
  where
    update tally try = do
      bump tally Attempts
      time <- newIORef pending
      planned <- try time
      case planned of
        Refused -> yield >> update tally try
        Idle -> False <$ bump tally Commits
        Plan held writes dead -> do
          commit list time writes dead
          forM_ held release
          mapM_ (const (bump tally Writes)) writes
          True <$ bump tally Commits

newLink :: IORef Time -> Node -> IO Link
newLink time node = Link <$> newIORef (History time node Oldest) <*> newIORef False <*> newIORef False

-- Reading -----------------------------------------------------------------------------

-- | Runs at one instant. While it runs, no version that it may look at is cut off.
reading :: Versions -> Int -> (Time -> IO a) -> IO a
reading list thread act = do
  let mine = versionsReaders list V.! thread
  -- Announced before the time is taken: an update that did not see us cut at an earlier time.
  atomicWriteIORef mine 0
  now <- readIORef (versionsClock list)
  atomicWriteIORef mine now
  act now <* atomicWriteIORef mine pending

-- | What the link led to at that time.
at :: Time -> Link -> IO Node
at now link = readIORef (linkHistory link) >>= go
  where
    go history@(History time node older) = do
      written <- readIORef time
      case older of
        _ | written == choosing -> yield >> go history
        Older before | written > now -> go before
        _ -> pure node

-- | What it leads to now; for an update.
newest :: Link -> IO Node
newest link = (\(History _ node _) -> node) <$> readIORef (linkHistory link)

member :: Versions -> Int -> Tally -> Int -> IO Bool
member list thread tally key = reading list thread (\now -> go now (versionsFirst list))
  where
    go now link = do
      bump tally Reads
      node <- at now link
      case node of
        Node x next | x < key -> go now next
        Node x _ -> pure (x == key)
        End -> pure False

-- | All elements of one instant, in order.
snapshot :: Versions -> Int -> IO [Int]
snapshot list thread = reading list thread (\now -> go now (versionsFirst list))
  where
    go now link = do
      node <- at now link
      case node of
        Node x next -> (x :) <$> go now next
        End -> pure []

-- Updating ----------------------------------------------------------------------------

data Plan
  = -- | Another update has what this one needs, or has changed it: again.
    Refused
  | -- | There is nothing to do.
    Idle
  | -- | Links that are held; what they shall lead to; links of nodes that go.
    Plan ![Link] ![(Link, Node)] ![Link]

-- | The link at the key's place, and what it leads to.
seek :: Versions -> Int -> IO (Link, Node)
seek list key = go (versionsFirst list)
  where
    go link = do
      node <- newest link
      case node of
        Node x next | x < key -> go next
        _ -> pure (link, node)

inserted, deleted :: Versions -> IORef Time -> Int -> IO Plan
inserted list time key = do
  (link, node) <- seek list key
  case node of
    Node x _ | x == key -> Idle <$ settled link
    _ -> holding [link] (leadsTo link node) $ do
      next <- newLink time node
      pure (Plan [link] [(link, Node key next)] [])
deleted list _ key = do
  (link, node) <- seek list key
  case node of
    Node x next | x == key -> holding [link, next] (leadsTo link node) $ do
      after <- newest next
      pure (Plan [link, next] [(link, after)] [next])
    _ -> Idle <$ settled link

-- | Returns when what the link leads to has its time. Else a reader could come before what its own
-- thread has been told.
settled :: Link -> IO ()
settled link = do
  History time _ _ <- readIORef (linkHistory link)
  written <- readIORef time
  when (written >= choosing) (yield >> settled link)

-- | @move list from to@: takes one element out and puts another in, at one instant. False: the first is not
-- there, or the second is, or they lie side by side.
move :: Versions -> Int -> Int -> IO Bool
move list from to = do
  time <- newIORef pending
  (out, gone) <- seek list from
  (into, before) <- seek list to
  case (gone, before) of
    (Node x next, _)
      | x == from,
        not (isKey to before),
        distinct [out, next, into] -> do
        planned <- holding [out, next, into] ((&&) <$> leadsTo out gone <*> leadsTo into before) $ do
          after <- newest next
          new <- newLink time before
          pure (Plan [out, next, into] [(out, after), (into, Node to new)] [next])
        case planned of
          Plan held writes dead -> True <$ (commit list time writes dead >> mapM_ release held)
          _ -> yield >> move list from to
    _ -> pure False
  where
    isKey key (Node x _) = x == key
    isKey _ End = False
    distinct links = and [linkHistory a /= linkHistory b | (i, a) <- numbered links, (j, b) <- numbered links, i < j]
    numbered = zip [0 :: Int ..]

-- | Still, and its node is in the list. Nodes are told apart by their links.
leadsTo :: Link -> Node -> IO Bool
leadsTo link node = do
  now <- newest link
  dead <- readIORef (linkDead link)
  pure (not dead && same now node)
  where
    same End End = True
    same (Node _ a) (Node _ b) = linkHistory a == linkHistory b
    same _ _ = False

-- | Holds the links, if it can have all of them and the condition is true then.
holding :: [Link] -> IO Bool -> IO Plan -> IO Plan
holding links condition plan = go [] links
  where
    go held [] = condition >>= \fine -> if fine then plan else Refused <$ mapM_ release held
    go held (link : rest) = do
      taken <- atomicModifyIORef' (linkHeld link) (True,)
      if taken then Refused <$ mapM_ release held else go (link : held) rest

release :: Link -> IO ()
release link = atomicWriteIORef (linkHeld link) False

-- | All at one time: readers see none of it before the time is there.
commit :: Versions -> IORef Time -> [(Link, Node)] -> [Link] -> IO ()
commit list time writes dead = do
  -- The clock first: a reader that the look below misses takes its time after this.
  now <- readIORef (versionsClock list)
  oldest <- minimum . (pending :) <$> mapM readIORef (V.toList (versionsReaders list))
  forM_ dead (\link -> writeIORef (linkDead link) True)
  forM_ writes $ \(link, node) -> do
    before <- readIORef (linkHistory link) >>= cut (min oldest now)
    atomicWriteIORef (linkHistory link) (History time node (Older before))
  atomicWriteIORef time choosing
  mine <- atomicModifyIORef' (versionsClock list) (\was -> (was + 1, was + 1))
  atomicWriteIORef time mine

-- | Without what no reader from that time on looks at.
cut :: Time -> History -> IO History
cut since history@(History time node older) = case older of
  Oldest -> pure history
  Older before -> do
    written <- readIORef time
    if written <= since then pure (History time node Oldest) else History time node . Older <$> cut since before
