{-# LANGUAGE OverloadedStrings #-}

-- | @maru-bench-map@: one measurement, printed as one line of JSON.
--
-- It says @ready@ once its input is there, waits for a line, measures. So two of them can begin at
-- the same instant, and nobody's start-up is timed.
module Maru.Bench.Main (main) where

import Control.Concurrent (forkIO)
import Control.Exception (evaluate)
import Control.Monad (void)
import Data.Aeson (Value (..), encode, object, (.=))
import qualified Data.ByteString.Lazy.Char8 as Lazy
import Data.IORef
import Data.Int (Int64)
import Data.List (find, intercalate)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Foreign.C (CInt (..))
import Maru (Chunking (..), Options (..), Report (..), Workers (..), backendFromName, defaultOptions)
import Maru.Bench.AutoFit (fitJson, readCells)
import Maru.Bench.Far (FarWork (..), farWorks)
import Maru.Bench.Java (writeCorpus)
import Maru.Bench.Mapper
import Maru.Bench.Meter
import Maru.Bench.Stm.Load
import Maru.Bench.Transport
import Maru.Bench.Work
import Maru.Cluster (withCluster)
import Options.Applicative hiding (Success)
import System.Exit (ExitCode (..), exitWith)
import System.IO
import System.Mem (performMajorGC)
import System.Posix.Process (exitImmediately, forkProcess, getProcessStatus)

main :: IO ()
main = withCluster $ do
  act <- execParser (info (hsubparser (mapCommand <> carryCommand <> farCommand <> forkCommand <> stmCommand <> corpusCommand <> fitCommand) <**> helper) (progDesc "One measurement for maru bench, as one line of JSON"))
  line <- act
  Lazy.putStrLn (encode line)

named :: String -> (a -> String) -> [a] -> ReadM a
named what name xs = eitherReader $ \text ->
  maybe (Left ("unknown " ++ what ++ " '" ++ text ++ "'; known: " ++ intercalate ", " (map name xs))) Right (find ((== text) . name) xs)

ready :: IO ()
ready = performMajorGC >> putStrLn "ready" >> hFlush stdout >> void getLine

-- A workload -----------------------------------------------------------------

data Order = Order
  { orderWork :: !Work,
    orderWay :: !Way,
    orderSize :: !Int,
    orderGrain :: !Int,
    orderWorkers :: !Workers,
    orderChunking :: !Chunking,
    orderHeap :: !Int,
    orderForks :: !Int,
    orderPart :: !(Maybe Int)
  }

mapCommand :: Mod CommandFields (IO Value)
mapCommand = command "map" (info (measure <$> order) (progDesc "A workload by one way to map"))
  where
    order =
      Order
        <$> argument (named "workload" workName allWorks) (metavar "WORKLOAD")
        <*> argument (named "way" wayName allWays) (metavar "WAY")
        <*> argument natural (metavar "SIZE")
        <*> option natural (long "grain" <> metavar "TURNS" <> value 0)
        <*> option (workersOf <$> natural) (long "workers" <> metavar "N" <> value (Workers 2) <> help "0: as many as maru takes by itself")
        <*> option (Fixed <$> natural) (long "chunk" <> metavar "N" <> value Guided <> help "Items a claim (default: guided)")
        <*> option natural (long "heap" <> metavar "MIB" <> value 0 <> help "Live data of the caller beside the work")
        <*> option natural (long "forks" <> metavar "N" <> value 0 <> help "Bare forks of this process before, for comparison (at most 256)")
        <*> optional (option natural (long "half" <> metavar "0|1" <> help "Only this half of the work, in the caller"))
    workersOf n = if n == 0 then WorkersAuto else Workers n
    natural = do
      n <- auto
      if n >= (0 :: Int) then pure n else readerError "a number from 0 on is needed"

measure :: Order -> IO Value
measure o = do
  begun <- (,) <$> nowNs <*> collectedNs
  prepared <- workPrepare (orderWork o) (orderSize o) (orderGrain o)
  heap <- liveHeap (orderHeap o)
  prepared' <- nowNs
  collected <- collectedNs
  reports <- newIORef []
  let (since, before) = fromMaybe begun (preparedSince prepared)
      options = defaultOptions {workers = orderWorkers o, chunking = orderChunking o}
      way = maybe (mapper reports (orderWay o) options) (halves (preparedCosts prepared)) (orderPart o)
  ready
  forks <- if orderForks o > 0 then Just <$> c_forks (fromIntegral (orderForks o)) else pure Nothing
  -- Looked at inside: a report is of the run while it is there.
  ((checksum, first), meter) <- metered (preparedRun prepared way)
  seen <- readIORef reports >>= sequence
  _ <- evaluate (Map.size heap)
  pure (object ["meter" .= meterJson meter, "first_ns" .= (first - meterStart meter), "total_ns" .= (prepared' - since + meterEnd meter - meterStart meter), "total_gc_ns" .= (collected - before + meterGc meter), "checksum" .= checksum, "reports" .= map reportJson seen, "forks_ns" .= forks])

foreign import ccall unsafe "maru_bench_forks" c_forks :: CInt -> IO Int64

reportJson :: Report -> Value
reportJson r =
  object
    [ "started" .= reportWorkersStarted r,
      "lost" .= reportWorkersLost r,
      "chunks" .= reportChunks r,
      "transports" .= reportTransports r,
      "notes" .= reportNotes r
    ]

-- A workload by a function that travels -----------------------------------------------

farCommand :: Mod CommandFields (IO Value)
farCommand = command "far" (info (run <$> work <*> way <*> size <*> grain <*> chunks) (progDesc "A workload by a function that travels: on all processes of the program"))
  where
    work = argument (named "workload" farName farWorks) (metavar "WORKLOAD")
    way = argument (maybeReader backendFromName) (metavar "BACKEND")
    size = argument auto (metavar "SIZE")
    grain = option auto (long "grain" <> metavar "N" <> value 0)
    chunks = option (Fixed <$> auto) (long "chunk" <> metavar "N" <> value Guided)
    run w b n g c = do
      mapped <- farPrepare w n g
      ready
      ((checksum, look), meter) <- metered (mapped defaultOptions {backend = b, chunking = c})
      seen <- look
      pure (object ["meter" .= meterJson meter, "checksum" .= checksum, "reports" .= [reportJson seen]])

-- A crossing -----------------------------------------------------------------

carryCommand :: Mod CommandFields (IO Value)
carryCommand = command "carry" (info (run <$> kind <*> transit <*> share <*> results) (progDesc "Large results by one way of crossing"))
  where
    kind = argument (named "kind of result" carriedName allCarried) (metavar "KIND")
    transit = argument (named "way of crossing" transitName allTransits) (metavar "TRANSIT")
    share = option auto (long "divide" <> metavar "N" <> value 1 <> help "Results smaller by that")
    results = option auto (long "results" <> metavar "N" <> value 4)
    run k t divide n = do
      ready
      crossingJson <$> carry t k (carriedSize k `div` max 1 divide) n

-- A fork alone --------------------------------------------------------------

forkCommand :: Mod CommandFields (IO Value)
forkCommand = command "fork" (info (pure run) (progDesc "A process that GHC's forkProcess makes, and that ends at once"))
  where
    run = do
      ready
      -- As a map's workers are, it is reaped beside.
      (_, meter) <- metered (forkProcess (exitImmediately ExitSuccess) >>= forkIO . void . getProcessStatus True False)
      pure (object ["meter" .= meterJson meter])

-- A set that is shared -------------------------------------------------------

stmCommand :: Mod CommandFields (IO Value)
stmCommand = command "stm" (info (run <$> structure <*> load) (progDesc "Operations on a set that threads share, or whose parts processes have"))
  where
    structure = argument (named "structure" structureName structures) (metavar "STRUCTURE")
    load = Load <$> count "threads" 1 <*> count "size" 1000 <*> option auto (long "updates" <> metavar "PERCENT" <> value 20) <*> count "operations" 100000
    count name n = option auto (long name <> metavar "N" <> value n)
    run s l = do
      outcome <- runLoad ready s l
      if outcomeSound l outcome
        then pure (outcomeJson l outcome)
        else hPutStrLn stderr (structureName s ++ " lost or invented an element") >> exitWith (ExitFailure 70)

-- Input ------------------------------------------------------------------------

corpusCommand :: Mod CommandFields (IO Value)
corpusCommand = command "corpus" (info (run <$> argument auto (metavar "SIZE") <*> strArgument (metavar "FOLDER")) (progDesc "Write the Java programs that 'map similar' compares, for MARU_BENCH_CORPUS"))
  where
    run n folder = object ["programs" .= (n :: Int)] <$ writeCorpus folder n

-- The default back end's model ------------------------------------------------

fitCommand :: Mod CommandFields (IO Value)
fitCommand = command "fit" (info (run <$> some (strArgument (metavar "FILE"))) (progDesc "Fit the default back end's model to tables of maru bench many and map/backends"))
  where
    run files = do
      cells <- mapM readCells files
      either (\why -> hPutStrLn stderr ("maru-bench-map: " ++ why) >> exitWith (ExitFailure 65)) (pure . fitJson . concat) (sequence cells)
