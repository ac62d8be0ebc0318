-- | What a map may leave behind: nothing.
module Left
  ( Belongings,
    belongings,
    sameAgain,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception
import Control.Monad
import Data.List (isInfixOf, isPrefixOf, sort, (\\))
import System.Directory (getTemporaryDirectory, listDirectory)
import System.Environment (lookupEnv)
import System.IO
import System.Mem (performMajorGC)
import System.Posix.Files (readSymbolicLink)
import System.Posix.Types (ProcessID)
import Test.Tasty.HUnit (assertFailure)
import Tools

-- | Of this process, and of ours in the places where something with a name could be.
data Belongings = Belongings
  { -- | Zombies included.
    itsChildren :: ![ProcessID],
    -- | What each descriptor is open on.
    itsDescriptors :: ![String],
    -- | Memory files of maru that are mapped shared: logs, crews, regions in use.
    itsShared :: ![String],
    -- | Regions that the heap has taken over, large ones: they keep their name
    -- until the heap uses their place again.
    itsAdopted :: !Int,
    -- | Files and sockets with a name.
    itsNames :: ![String]
  }
  deriving (Show)

belongings :: IO Belongings
belongings = do
  maps <- filter ("memfd:maru" `isInfixOf`) . lines <$> text "/proc/self/maps"
  let (shared, adopted) = (filter (" rw-s " `isInfixOf`) maps, filter (" rw-p " `isInfixOf`) maps)
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

names :: IO [String]
names = do
  temporary <- getTemporaryDirectory
  runtime <- lookupEnv "XDG_RUNTIME_DIR"
  files <- forM (["/dev/shm", temporary] <> maybe [] pure runtime) (\folder -> map ((folder <> "/") <>) <$> entries folder)
  sockets <- map (unwords . drop 7 . words) . lines <$> text "/proc/net/unix"
  pure (sort (filter ("maru" `isInfixOf`) (concat files <> sockets)))

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
