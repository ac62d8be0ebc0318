-- | How a map is begun. /Internal/.
module Maru.Internal.Start
  ( mapWith,
    startOn,
    startArriving,
    startedOn,
    values,
    scoped,
    checkOptions,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Exception (bracket, throw, throwIO, try)
import Control.Monad (when)
import Data.Maybe (isJust)
import Maru.Backend.Auto (Begun (..), Machine (..), Means (..), Ways (..), autoMap, forkCost)
import qualified Maru.Backend.Sequential as Sequential
import qualified Maru.Backend.Shm as Shm
import Maru.Codec (Codec)
import Maru.Failure
import Maru.Internal.Budget
import Maru.Internal.Dispatch (engineOf)
import Maru.Internal.Engine
import Maru.Internal.Normal (normalised)
import Maru.Native.Rts (allocArea, forkHazard)
import Maru.Native.Totals (sayOnBoard)
import Maru.Options
import System.IO.Unsafe (unsafePerformIO)

-- | @parMapWith@.
mapWith :: Options -> (a -> b) -> [a] -> [b]
mapWith options f xs = unsafePerformIO $ do
  which <- resolveBackend options
  case which of
    Auto -> automatic options f xs
    Sequential -> map (normalised f) xs <$ checkOptions options
    _ -> values <$> startOn which options Ordered Nothing f xs

-- | What failed throws where it is looked at.
values :: Running b -> [b]
values = map (either throw id . outcomeResult) . outcomes

-- | 'Auto' evaluates its first items in the caller; where failures, codecs or the
-- report matter, they all go to 'Shm'. What chose forked workers by itself does
-- without them where there are none to be had.
startOn :: Backend -> Options -> Order -> Maybe (Codec b) -> (a -> b) -> [a] -> IO (Running b)
startOn which options order codec f xs = startJob which options order codec f xs Nothing Nothing

-- | The same by 'Auto', of inputs that arrive while the run goes on.
startArriving :: Options -> Order -> Maybe (Codec b) -> (a -> b) -> Arriving a -> IO (Running b)
startArriving options order codec f there = startJob Auto options order codec f (zipWith const (arrivingFrom there 0) (arrivingSpine there)) (Just there) Nothing

startJob :: Backend -> Options -> Order -> Maybe (Codec b) -> (a -> b) -> [a] -> Maybe (Arriving a) -> Maybe (IO Bool) -> IO (Running b)
startJob which options order codec f xs there busy = do
  checkOptions options
  when (which `elem` [Mpi, Vm]) . throwIO $
    Unavailable (show which <> " for any function") "a function of this process means nothing on another host" "use parMapOn of Maru.Cluster, or another back end"
  n <- resolveWorkers options (if which == Auto then Shm else which)
  let job = Job options {backend = which} n order codec f xs there busy
  case engineOf which of
    Just engine -> engine job
    -- Not interruptible: nothing that is thrown at the consumer is caught.
    Nothing -> try (Shm.engine job) >>= either (inCaller job) pure

inCaller :: Job a b -> Unavailable -> IO (Running b)
inCaller job why = do
  sayOnBoard line
  running <- Sequential.engine job
  pure running {report = (\r -> r {reportNotes = line : reportNotes r}) <$> report running}
  where
    line = "all was evaluated in the caller: " <> show why

-- | Begun on the back end that the options name.
startedOn :: Options -> Order -> Maybe (Codec b) -> (a -> b) -> [a] -> IO (Running b)
startedOn options order codec f xs = do
  which <- resolveBackend options
  startOn which options order codec f xs

-- | The workers are gone when it returns or throws.
scoped :: Options -> Order -> Maybe (Codec b) -> (a -> b) -> [a] -> (Running b -> IO r) -> IO r
scoped options order codec f xs = bracket (startedOn options order codec f xs) stop

-- Where forked workers are unsafe there are none. Inside another map's item none are begun ahead:
-- another worker has the core. And what looks in a worker whether an item is stuck must find no
-- thread but the item's.
automatic :: Options -> (a -> b) -> [a] -> IO [b]
automatic options f xs = do
  checkOptions options
  inside <- if workers options == WorkersAuto then coresInside else pure Nothing
  n <- maybe resolved pure inside
  hazard <- forkHazard
  nested <- insideWorker
  capabilities <- getNumCapabilities
  area <- allocArea
  let means k = Means (if isJust hazard then 1 else k) (min k capabilities) (fromIntegral area)
      -- Where the map is not inside another one any more it may have all.
      machine = if isJust inside then Shared (means n) (means <$> (coresInside >>= maybe resolved pure)) else Whole (means n)
      ways =
        Ways
          { costOfFork = forkCost,
            onWorkers = rest Auto options,
            onCapabilities = \k -> rest Threads options {workers = Workers k},
            ahead = if nested || isJust inside then Nothing else Just begin
          }
  autoMap machine ways f xs
  where
    resolved = resolveWorkers options Auto
    rest which options' number ys = renumberedAll number <$> startOn which options' Ordered Nothing f ys
    renumberedAll number running = values running {outcomes = map (renumbered number) (outcomes running)}
    begin busy number ys = do
      running <- startJob Auto options Ordered Nothing f ys Nothing (Just busy)
      pure Begun {begunList = renumberedAll number running, begunStop = stop running, begunItemNs = reportItemNs <$> report running}

-- | Throws 'BadOptions'. The number of workers is @resolveWorkers'@ to check.
checkOptions :: Options -> IO ()
checkOptions options
  | Fixed n <- chunking options, n < 1 = bad "chunking" (show n) "1 or more"
  | Retry n <- policy options, n < 0 = bad "policy = Retry" (show n) "0 or more"
  | Just n <- window options, n < 1 = bad "window" (show n) "1 or more"
  | regionMiB options < 1 || regionMiB options > 4096 = bad "regionMiB" (show (regionMiB options)) "1 to 4096"
  | Just n <- memoryMiB options, n < 16 = bad "memoryMiB" (show n) "16 or more"
  | idleSeconds options <= 0 || isNaN (idleSeconds options) = bad "idleSeconds" (show (idleSeconds options)) "a positive number"
  | otherwise = pure ()
  where
    bad what is want = throwIO (BadOptions (what <> " is " <> is <> "; give " <> want))
