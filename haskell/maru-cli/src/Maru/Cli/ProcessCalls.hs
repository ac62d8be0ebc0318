{-# LANGUAGE OverloadedStrings #-}

-- | What the kernel knows of a run's processes: how many read and write calls each made,
-- whether @libmaru-io.so@ is in it, and how it is linked.
module Maru.Cli.ProcessCalls
  ( ProcessCalls (..),
    Linkage (..),
    readProcessCalls,

    -- * Pure
    linkageOf,
    madeOf,
    descendants,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (filterM)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import Data.Either (fromRight)
import Data.Maybe (mapMaybe)
import Maru.Cli.Program (interpreterOf, isGo)
import qualified Maru.Cli.Program as Program
import System.Directory (listDirectory)
import System.FilePath ((</>))
import System.IO (IOMode (ReadMode), withBinaryFile)
import Text.Read (readMaybe)

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
  names <- fromRight [] <$> quietly (listDirectory "/proc")
  parents <- concat <$> mapM parent (mapMaybe readMaybe names)
  mapM look =<< filterM (fmap (either (const False) (const True)) . quietly . ByteString.readFile . (</> "io") . folder) (descendants root parents)
  where
    parent pid = either (const []) (\text -> [(pid, p) | p <- parentOf text]) <$> quietly (ByteString.readFile (folder pid </> "stat"))
    parentOf text = take 1 (mapMaybe (fmap fst . Chars.readInt) (take 1 (drop 1 (Chars.words (snd (Chars.breakEnd (== ')') text))))))

folder :: Int -> FilePath
folder pid = "/proc" </> show pid

look :: Int -> IO ProcessCalls
look pid = do
  made <- madeOf <$> content "io"
  name <- Chars.unpack . Chars.takeWhile (/= '\n') <$> content "comm"
  loaded <- ByteString.isInfixOf "libmaru-io.so" <$> content "maps"
  asked <- any ("MARU_IO=" `ByteString.isPrefixOf`) . ByteString.split 0 <$> content "environ"
  start <- quietly (withBinaryFile (folder pid </> "exe") ReadMode (`ByteString.hGet` 65536))
  pure (ProcessCalls pid (map plain name) made loaded asked (either (const Unknown) linkageOf start))
  where
    content file = fromRight "" <$> quietly (ByteString.readFile (folder pid </> file))
    plain c = if c < ' ' || c > '~' then '?' else c

quietly :: IO a -> IO (Either IOException a)
quietly = try

-- | @syscr + syscw@ of @\/proc\/PID\/io@.
madeOf :: ByteString -> Integer
madeOf text = sum [n | [key, value] <- map Chars.words (Chars.lines text), key `elem` ["syscr:", "syscw:"], Just (n, _) <- [Chars.readInteger value]]

-- | From (child, parent); the root first.
descendants :: Int -> [(Int, Int)] -> [Int]
descendants root parents = root : concatMap (`descendants` others) [child | (child, parent) <- parents, parent == root, child /= root]
  where
    others = filter ((/= root) . snd) parents

-- | From the first 64 KiB of an executable.
linkageOf :: ByteString -> Linkage
linkageOf start
  | isGo start = Go
  | otherwise = case interpreterOf start start of
    Program.Dynamic _ -> Dynamic
    Program.Static -> Static
    _ -> Unknown
