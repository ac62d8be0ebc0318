-- | The profile of a run's mutexes, read from its board and named.
module Maru.Cli.Room.Lock.Profile
  ( readReport,
  )
where

import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Ord (Down (..))
import Maru.Cli.Room.Lock.Symbols
import Maru.Control.LockProfile
import Maru.Control.LockProfile.Types
import Maru.Native.LockProfile
import Maru.View.Lock (unseen)

-- | Of the board at a path; 'Nothing': it has no profile. Names are looked up for as many mutexes
-- and sites as have waited most, and asked for lines if so told.
readReport :: Bool -> FilePath -> IO (Maybe LockReport)
readReport named path = readLockProfile path >>= traverse (report named)

report :: Bool -> LockProfile -> IO LockReport
report named profile = do
  let merged = mergeProfile profile
      file (m, o) = do
        path <- IntMap.lookup m (profileModules profile)
        Just (path, o)
      sites = mapMaybe file [site | (_, _, rows) <- merged, (Just site, _) <- rows]
      objects = mapMaybe (\(_, m, _) -> m >>= file . mutexPlace) merged
  (code, lined) <- if named then resolvePlaces True sites else pure (Map.empty, True)
  (things, _) <- if named then resolvePlaces False objects else pure (Map.empty, True)
  let look known at@(_, o) = case file at of
        Just f -> fromMaybe (Place (Just (fst f)) o Nothing Nothing) (Map.lookup f known)
        Nothing -> Place Nothing o Nothing Nothing
  pure
    LockReport
      { lockProcesses = IntMap.elems (profileProcesses profile),
        lockMutexes = sortOn order (map (mutexReport profile (look code) (look things)) merged),
        lockUnseen = unseen profile (map (\(_, m, _) -> m) merged) ++ ["addr2line is not installed: sites are named by symbols alone, without files and lines" | not lined]
      }
  where
    order m = (Down (waited (reportCounts m)), Down (countAcquisitions (reportCounts m)))
