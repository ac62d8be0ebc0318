-- | What a map may leave behind: nothing.
module Left
  ( Belongings,
    ownFolders,
    belongings,
    sameAgain,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception
import Control.Monad
import Data.List (isInfixOf, isPrefixOf, sort, (\\))
import System.Directory (getTemporaryDirectory, listDirectory, removeDirectoryRecursive)
import System.Environment (setEnv)
import System.IO
import System.Mem (performMajorGC)
import System.Posix.Files (readSymbolicLink)
import System.Posix.Temp (mkdtemp)
import System.Posix.Types (ProcessID)
import Test.Tasty.HUnit (assertFailure)
import Tools

-- | Of this process, and what is in its own folders for temporary and run-time files
-- ('ownFolders'). Nothing of other programs, which come and go.
data Belongings = Belongings
  { -- | Zombies included.
    itsChildren :: ![ProcessID],
    -- | What each descriptor is open on.
    itsDescriptors :: ![String],
    -- | Files of maru that are mapped shared: logs, crews, regions in use; and whatever
    -- of /dev/shm is mapped.
    itsShared :: ![String],
    -- | Regions that the heap has taken over, large ones: they keep their name
    -- until the heap uses their place again.
    itsAdopted :: !Int,
    -- | Files and sockets in those folders.
    itsNames :: ![String]
  }
  deriving (Show)

belongings :: IO Belongings
belongings = do
  whole <- lines <$> text "/proc/self/maps"
  let maps = filter ("memfd:maru" `isInfixOf`) whole
      shared = filter (" rw-s " `isInfixOf`) maps <> filter ("/dev/shm/" `isInfixOf`) whole
      adopted = filter (" rw-p " `isInfixOf`) maps
  Belongings <$> children <*> openFiles <*> pure (map memory shared) <*> pure (length adopted) <*> names
  where
    memory = unwords . drop 5 . words

-- | Threads come and go while one looks; what is looked for is there all the time.
text :: FilePath -> IO String
text path = handle none . withFile path ReadMode $ \h -> do
  whole <- hGetContents h
  whole <$ evaluate (length whole)

entries :: FilePath -> IO [FilePath]
entries path = handle none (listDirectory path)

none :: Monoid a => IOException -> IO a
none _ = pure mempty

openFiles :: IO [String]
openFiles = do
  fds <- entries "/proc/self/fd"
  sort . filter (not . looking) . concat <$> forM fds (\fd -> handle none (pure <$> readSymbolicLink ("/proc/self/fd/" <> fd)))
  where
    looking file = "/proc/" `isPrefixOf` file && "/fd" `isInfixOf` file

-- | Runs the action with folders of its own, which no other program uses.
ownFolders :: IO a -> IO a
ownFolders act = do
  temporary <- getTemporaryDirectory
  bracket (mkdtemp (temporary <> "/maru-storms-")) removeDirectoryRecursive $ \own -> do
    setEnv "TMPDIR" own
    setEnv "XDG_RUNTIME_DIR" own
    act

names :: IO [String]
names = sort <$> (getTemporaryDirectory >>= entries)

-- | Within 20 s, after major collections, it has no child, and nothing that it had not
-- before.
sameAgain :: Belongings -> IO ()
sameAgain before = go (2000 :: Int)
  where
    go left = do
      performMajorGC
      now <- belongings
      unless (same now) $
        if left == 0
          then assertFailure ("left behind: " <> show now <> "\nbefore: " <> show before)
          else threadDelay 10000 >> go (left - 1)
    same now =
      null (itsChildren now)
        && noMore itsDescriptors
        && noMore itsShared
        && itsAdopted now <= itsAdopted before + 64
        && noMore itsNames
      where
        noMore what = null (what now \\ what before)
