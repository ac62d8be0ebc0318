{-# LANGUAGE StaticPointers #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Any function on the map's peers, for a test: the peers are threads of this process, so a
-- function, which cannot travel, is left in a table here and its number sent instead. Workers are
-- forked after that. All else is as between hosts: frames on sockets, blocks, items and results as
-- bytes. An item is evaluated before it is sent, as any codec does; one that throws throws there.
module Door (throughDoor) where

import Control.Concurrent.MVar
import Control.Exception
import qualified Data.Binary as Binary
import qualified Data.ByteString as Bytes
import qualified Data.ByteString.Lazy as Lazy
import qualified Data.ByteString.Unsafe as Unsafe
import Data.IORef
import qualified Data.IntMap.Lazy as IntMap
import Foreign (castPtr)
import GHC.Exts (Any)
import Maru.Backend.Process.Wire (packBytes, packException, unpackException)
import qualified Maru.Backend.Shm as Shm
import Maru.Cluster.Call (startCall)
import Maru.Cluster.Peers
import Maru.Cluster.Remote
import Maru.Cluster.Serve (serveWith)
import Maru.Codec
import Maru.Failure
import Maru.Internal.Engine
import Maru.Native.Force (normalise)
import Maru.Native.Region (unpack)
import Maru.Options
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.Process (getProcessID)
import Unsafe.Coerce (unsafeCoerce)

-- | On two peers. In a worker of one, on workers of its own, as 'Maru.Cluster.parMapOn' does.
throughDoor :: Job a b -> IO (Running b)
throughDoor job = do
  cluster <- readMVar peers
  me <- getProcessID
  if clusterProcess cluster /= me
    then Shm.engine job {jobOptions = (jobOptions job) {backend = Shm}}
    else do
      number <- atomicModifyIORef' runs (\n -> (n + 1, n))
      -- What is left of a run goes with its list.
      key <- newIORef ()
      _ <- mkWeakIORef key (forget number)
      let left x = Left' number (unsafeCoerce x)
          task = Task (unsafeCoerce (jobCodec job)) (unsafeCoerce (jobFunction job))
          options = (jobOptions job) {workers = Workers (jobWorkers job)}
      _ <- leave number (unsafeCoerce task)
      running <- startCall cluster Mpi options (jobOrder job) (static door) (left ()) (map left (jobInputs job))
      pure running {outcomes = kept key (outcomes running)}
  where
    kept key os = case os of
      [] -> holding key []
      o : rest -> holding key o {outcomeResult = unsafeCoerce (outcomeResult o)} : kept key rest

holding :: IORef () -> a -> a
holding key x = unsafePerformIO (readIORef key) `seq` x
{-# NOINLINE holding #-}

peers :: MVar Cluster
peers = unsafePerformIO $ do
  cluster <- newCluster ByLauncher
  addOurselves cluster 0 False 2
  -- Its shelf is soon full: then other workers take later items.
  addServing cluster 1 False 2 (serveWith 262144 True 2)
  newMVar cluster
{-# NOINLINE peers #-}

data Task = Task !(Maybe (Codec Any)) (Any -> Any)

-- | Of a run, what cannot travel.
data Left' = Left' !Int Any

-- | A result, and its run.
data Made = Made !Int Any

door :: Remote Left' Left' Made
door = remoteVia byNumber asBytes results (\(Left' run _) (Left' _ x) -> Made run (let Task _ f = taskOf run in f x))

-- | Left here, and its number sent.
byNumber :: Codec Left'
byNumber =
  Codec
    { encode = \(Left' run x) -> unsafePerformIO (Binary.encode . (,) run <$> leave run x),
      decode = \bytes -> let (run, n) = Binary.decode (Lazy.fromStrict bytes) in Right (Left' run (found run n))
    }

-- | Its run, and its bytes; or what evaluating it throws. Left here where it has no bytes: a worker
-- that was forked before does not find it.
asBytes :: Codec Left'
asBytes =
  Codec
    { encode = \(Left' run x) -> unsafePerformIO $ do
        evaluated <- try (normalise x)
        packed <- either (fmap Left . packException) (const (Right <$> packBytes False x)) evaluated
        case packed of
          Left thrown -> pure (Binary.encode (run, 0 :: Int, thrown))
          Right (Right bytes) -> pure (Binary.encode (run, 1 :: Int, bytes))
          Right (Left _) -> (\n -> Binary.encode (run, 2 :: Int, n)) <$> leave run x,
      decode = \bytes ->
        let (header, rest) = Bytes.splitAt 16 bytes
            (run, way) = Binary.decode (Lazy.fromStrict header) :: (Int, Int)
            body :: Binary.Binary c => c
            body = Binary.decode (Lazy.fromStrict rest)
         in Left' run <$> case way of
              0 -> Right (unsafePerformIO (unpackException 0 0 body >>= throwIO))
              1 -> unplain body
              _ -> Right (found run body)
    }
{-# NOINLINE asBytes #-}

unplain :: Bytes.ByteString -> Either String Any
unplain bytes = unsafePerformIO . Unsafe.unsafeUseAsCStringLen (Bytes.copy bytes) $ \(p, n) ->
  maybe (Left "it cannot be relocated") Right <$> unpack (castPtr p) n

results :: Codec Made
results =
  Codec
    { encode = \(Made run y) -> Binary.encode run <> maybe (plain y) (`encode` y) (codecOf run),
      decode = \bytes ->
        let (header, rest) = Bytes.splitAt 8 bytes
            run = Binary.decode (Lazy.fromStrict header)
         in unsafeCoerce <$> maybe (unplain rest) (`decode` rest) (codecOf run)
    }
  where
    codecOf run = let Task codec _ = taskOf run in codec
    plain y = unsafePerformIO $ do
      packed <- packBytes False y
      either (throwIO . Untransferable 0) (pure . Lazy.fromStrict) packed
{-# NOINLINE results #-}

-- What is left -----------------------------------------------------------------------

-- | By run; the first of each is its task.
table :: IORef (IntMap.IntMap (IntMap.IntMap Any))
table = unsafePerformIO (newIORef IntMap.empty)
{-# NOINLINE table #-}

runs :: IORef Int
runs = unsafePerformIO (newIORef 0)
{-# NOINLINE runs #-}

leave :: Int -> Any -> IO Int
leave run x = atomicModifyIORef' table $ \t ->
  let mine = IntMap.findWithDefault IntMap.empty run t
      n = maybe 0 ((+ 1) . fst) (IntMap.lookupMax mine)
   in (IntMap.insert run (IntMap.insert n x mine) t, n)

forget :: Int -> IO ()
forget run = atomicModifyIORef' table (\t -> (IntMap.delete run t, ()))

found :: Int -> Int -> Any
found run n = unsafePerformIO $ do
  t <- readIORef table
  maybe (throwIO (ErrorCall "nothing was left under that number")) pure (IntMap.lookup run t >>= IntMap.lookup n)
{-# NOINLINE found #-}

taskOf :: Int -> Task
taskOf run = unsafeCoerce (found run 0)
