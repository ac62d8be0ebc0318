{-# LANGUAGE OverloadedStrings #-}

-- | What the kernel knows of a run's processes. That is how many read and write calls each made,
-- whether @libmaru-io.so@ is in it, and how it is linked.
module Maru.Cli.Room.Io.Calls
  ( ProcessCalls (..),
    Linkage (..),
    readProcessCalls,

    -- * Pure
    linkageOf,
    madeOf,
  )
where

import Control.Monad (filterM)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import Data.Maybe (fromMaybe, isJust)
import Maru.Cli.Exit (orNothing)
import Maru.Cli.Machine (ownRoots, parents, treeOf)
import Maru.Cli.Program (Described (..), describeFile)
import qualified Maru.Cli.Program as Program
import Maru.Cli.Section (readable)
import Maru.View.Plain (plain)
import System.FilePath ((</>))

-- | A process of a run, as the kernel knows it.
data ProcessCalls = ProcessCalls
  { callsPid :: !Int,
    callsName :: !String,
    -- | Read and write calls, with those of children that it reaped.
    callsMade :: !Integer,
    -- | @libmaru-io.so@ is in it.
    callsLoaded :: !Bool,
    -- | It was started with @MARU_IO@.
    callsAsked :: !Bool,
    callsLinkage :: !Linkage
  }
  deriving (Eq, Show)

data Linkage = Dynamic | Static | Go | Unknown
  deriving (Eq, Show)

-- | The process, then all that descend from it. What cannot be read is left out, or 'Unknown'.
readProcessCalls :: Int -> IO [ProcessCalls]
readProcessCalls root = do
  parentOf <- ownRoots >>= parents
  mapM look =<< filterM (fmap isJust . orNothing . ByteString.readFile . (</> "io") . folder) (treeOf parentOf [] root)

folder :: Int -> FilePath
folder pid = "/proc" </> show pid

look :: Int -> IO ProcessCalls
look pid = do
  made <- madeOf <$> content "io"
  name <- plain . readable . Chars.takeWhile (/= '\n') <$> content "comm"
  loaded <- ByteString.isInfixOf "libmaru-io.so" <$> content "maps"
  asked <- any ("MARU_IO=" `ByteString.isPrefixOf`) . ByteString.split 0 <$> content "environ"
  ProcessCalls pid name made loaded asked . linkageOf <$> describeFile (folder pid </> "exe")
  where
    content file = fromMaybe "" <$> orNothing (ByteString.readFile (folder pid </> file))

-- | @syscr + syscw@ of @\/proc\/PID\/io@.
madeOf :: ByteString -> Integer
madeOf text = sum [n | [key, value] <- map Chars.words (Chars.lines text), key `elem` ["syscr:", "syscw:"], Just (n, _) <- [Chars.readInteger value]]

linkageOf :: Described -> Linkage
linkageOf described
  | describedGo described = Go
  | otherwise = case describedProgram described of
    Program.Static -> Static
    Program.Dynamic _ -> Dynamic
    Program.Loader _ -> Dynamic
    Program.Privileged -> Dynamic
    _ -> Unknown
