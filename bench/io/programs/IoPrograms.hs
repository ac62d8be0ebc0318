-- | The real programs that are measured, each with the load of its own; those of several parts have
-- modules of their own.
module IoPrograms
  ( programs,

    -- * For tests
    redisRates,
    fioRates,
    readseqRate,
  )
where

import Control.Monad (forM, forM_, void)
import Data.Aeson (Value (..), eitherDecode)
import Data.Aeson.Key (fromString)
import qualified Data.Aeson.KeyMap as KeyMap
import qualified Data.ByteString.Lazy.Char8 as Lazy
import Data.Foldable (toList)
import Data.List (isPrefixOf)
import Data.Maybe (mapMaybe)
import qualified Data.Text as Text
import IoHadoop
import IoWeb
import IoWorkload
import Maru.Cli.Exit
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Process (readProcessWithExitCode)
import Text.Read (readMaybe)

programs :: [Workload]
programs = [nginx, httpd, httpdJmeter, redis, pgbench, sqlite, fio, rocksdb, hadoop, hadoopHdfs]

-- ---- Redis --------------------------------------------------------------

redis :: Workload
redis =
  Workload
    { workloadName = "redis",
      workloadPurpose = "Redis: SET and GET of 512 bytes by 16 clients, by redis-benchmark",
      workloadNeeds = [Need "redis-server" "redis-server", Need "redis-benchmark" "redis-tools"],
      workloadPrepare = \_ _ -> pure (),
      workloadMeasure = \folder launch (Span warm measured) -> do
        port <- freePort
        let load requests = do
              text <- said folder (plainly (launchReaper launch) (folder </> "client.log")) 60 ["redis-benchmark", "-h", "127.0.0.1", "-p", show port, "-t", "set,get", "-c", "16", "-d", "512", "-r", "100000", "-n", show (requests :: Int), "--csv"]
              case redisRates text of
                [set, get] -> pure [("SET/s", set), ("GET/s", get)]
                _ -> problem unavailable ("redis-benchmark said something else: " ++ unwords (lines text))
        withServer folder launch ["redis-server", "--bind", "127.0.0.1", "--port", show port, "--save", "", "--appendonly", "no", "--dir", folder, "--daemonize", "no"] port (pure True) $
          -- The keys are all there when it counts.
          repeatFor warm (load 50000) *> load (round (measured * 50000)),
      workloadAnswers = True,
      workloadPasses = True
    }

-- | Of redis-benchmark's CSV: SET, GET.
redisRates :: String -> [Double]
redisRates text = mapMaybe (`lookup` rows) ["SET", "GET"]
  where
    rows = [(name, rate) | l <- lines text, (name : rate' : _) <- [map unquoted (fields l)], Just rate <- [readMaybe rate']]
    unquoted = filter (/= '"')
    fields l = case break (== ',') l of
      (word, _ : more) -> word : fields more
      (word, []) -> [word]

-- ---- PostgreSQL ---------------------------------------------------------

pgbench :: Workload
pgbench =
  Workload
    { workloadName = "pgbench",
      workloadPurpose = "PostgreSQL with 16 MB of buffers: selects, and updates that wait for no disk, by pgbench",
      workloadNeeds = [Need (postgres "postgres") "postgresql-15", Need (postgres "pgbench") "postgresql-15", Need "setpriv" "util-linux"],
      workloadPrepare = \reaper folder -> do
        as <- unprivileged "postgres" folder
        void (said folder (quiet reaper folder) 60 (as ++ [postgres "initdb", "-D", folder </> "data", "-A", "trust", "-U", "postgres", "-N"]))
        port <- freePort
        -- Half of each page is left for new versions of its rows: else the table would grow from
        -- round to round.
        serve folder (quiet reaper folder) port (void (client reaper folder port 60 ["-i", "-q", "-s", "5", "-F", "50"])),
      workloadMeasure = \folder launch (Span warm measured) -> do
        port <- freePort
        let load time how = client (launchReaper launch) folder port time ["-c", "4", "-n", "-T", seconds time, how]
        serve folder launch port $ do
          forM_ [("-S", 2), ("-N", 3)] $ \(how, fifths) -> load (fifths / 5 * warm) how
          forM [("selects/s", "-S"), ("updates/s", "-N")] $ \(name, how) -> do
            text <- load measured how
            case [w | l <- lines text, ("tps" : "=" : w : _) <- [words l]] of
              [w] | Just rate <- readMaybe w -> pure (name, rate)
              _ -> problem unavailable ("pgbench said something else: " ++ unwords (lines text)),
      workloadAnswers = False,
      workloadPasses = True
    }
  where
    postgres name = "/usr/lib/postgresql/15/bin/" ++ name
    quiet reaper folder = plainly reaper (folder </> "client.log")
    serve folder launch port action = do
      as <- unprivileged "postgres" folder
      withServer
        folder
        launch {launchBefore = as ++ launchBefore launch}
        [postgres "postgres", "-D", folder </> "data", "-p", show port, "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB", "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "autovacuum=off"]
        port
        (isReady port)
        action
    isReady port = (\(status, _, _) -> status == ExitSuccess) <$> readProcessWithExitCode (postgres "pg_isready") ["-q", "-h", "127.0.0.1", "-p", show port] ""
    client reaper folder port time arguments =
      said folder (quiet reaper folder) time ([postgres "pgbench", "-h", "127.0.0.1", "-p", show port, "-U", "postgres"] ++ arguments ++ ["postgres"])

-- ---- SQLite -------------------------------------------------------------

sqlite :: Workload
sqlite =
  Workload
    { workloadName = "sqlite",
      workloadPurpose = "SQLite from Python, a write-ahead log and a cache of 1 MB: transactions of 100 rows, reads by key",
      workloadNeeds = [Need "python3" "python3"],
      workloadPrepare = \_ _ -> pure (),
      workloadMeasure = \folder launch (Span warm measured) -> do
        text <- said folder launch (warm + 2 * measured) ["python3", "-c", driver, folder </> "db", show warm, show measured]
        case traverse readMaybe (words text) of
          Just [writes, reads'] -> pure [("transactions/s", writes), ("reads/s", reads')]
          _ -> problem unavailable ("the driver of SQLite said something else: " ++ unwords (lines text)),
      workloadAnswers = False,
      workloadPasses = True
    }
  where
    driver =
      unlines
        [ "import os, random, sqlite3, sys, time",
          "path, warm, measured = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])",
          "for end in ('', '-wal', '-shm'):",
          "    if os.path.exists(path + end): os.remove(path + end)",
          "db = sqlite3.connect(path, isolation_level=None)",
          "for line in ('journal_mode=wal', 'synchronous=off', 'cache_size=-1000', 'wal_autocheckpoint=1000'): db.execute('pragma ' + line).fetchall()",
          "db.execute('create table t(k integer primary key, v blob)')",
          "rows = 0",
          "def write():",
          "    global rows",
          "    db.execute('begin')",
          "    db.executemany('insert into t values(?, ?)', [(rows + i, bytes(400)) for i in range(100)])",
          "    db.execute('commit')",
          "    rows += 100",
          "def read():",
          "    assert len(db.execute('select v from t where k = ?', (random.randrange(rows),)).fetchone()[0]) == 400",
          "def rate(what, seconds):",
          "    begin, number = time.monotonic(), 0",
          "    while time.monotonic() - begin < seconds:",
          "        for _ in range(10): what()",
          "        number += 10",
          "    return number / (time.monotonic() - begin)",
          "rate(write, warm / 2); rate(read, warm / 2)",
          "print(rate(write, measured), rate(read, measured))"
        ]

-- ---- fio ----------------------------------------------------------------

-- | One process, a thread for each job after the other; each job has its share of the time before
-- it counts.
fio :: Workload
fio =
  Workload
    { workloadName = "fio",
      workloadPurpose = "fio, psync: reads in order of 4 KiB, 64 KiB and 1 MiB, cached and O_DIRECT; writes of 64 KiB",
      workloadNeeds = [Need "fio" "fio"],
      workloadPrepare = \_ _ -> pure (),
      workloadMeasure = \folder launch (Span warm measured) -> do
        let each time = milliseconds (time / fromIntegral (length jobs))
        text <- said folder launch (warm + 3 * measured + 30) (["fio", "--output-format=json", "--ioengine=psync", "--thread=1", "--size=64M", "--filename=" ++ folder </> "fio.dat", "--time_based=1", "--ramp_time=" ++ each warm, "--runtime=" ++ each (3 * measured), "--invalidate=0", "--create_on_open=0"] ++ concatMap job jobs)
        either (\why -> problem unavailable ("fio: " ++ why)) pure (fioRates text),
      workloadAnswers = False,
      workloadPasses = False
    }
  where
    jobs = [(bs ++ (if direct then " direct" else ""), "read", bs, direct) | direct <- [False, True], bs <- ["4k", "64k", "1M"]] ++ [("write 64k", "write", "64k", False)]
    job (name, way, bs, direct) = ["--name=" ++ name, "--stonewall", "--rw=" ++ way, "--bs=" ++ bs, "--direct=" ++ (if direct then "1" else "0" :: String)]
    milliseconds time = show (round (1000 * time) :: Int) ++ "ms"

-- | Bytes a second by job, of fio's JSON; that may follow lines of words.
fioRates :: String -> Either String [(String, Double)]
fioRates text = case eitherDecode (Lazy.pack (unlines (dropWhile (not . isPrefixOf "{") (lines text)))) of
  Right (Object o) | Just (Array jobs) <- KeyMap.lookup (fromString "jobs") o -> traverse rate (toList jobs)
  Right _ -> Left "its JSON has no jobs"
  Left why -> Left why
  where
    rate (Object job)
      | Just (String name) <- key "jobname" job,
        Just (Object reads') <- key "read" job,
        Just (Object writes) <- key "write" job,
        Just (Number r) <- key "bw_bytes" reads',
        Just (Number w) <- key "bw_bytes" writes,
        r + w > 0 =
        Right (Text.unpack name, realToFrac (r + w))
    rate _ = Left "a job without bytes"
    key name = KeyMap.lookup (fromString name)

-- ---- RocksDB ------------------------------------------------------------

rocksdb :: Workload
rocksdb =
  Workload
    { workloadName = "rocksdb",
      workloadPurpose = "RocksDB: a million keys in order, by db_bench readseq",
      workloadNeeds = [Need "db_bench" "rocksdb-tools"],
      workloadPrepare = \reaper folder -> void (said folder (plainly reaper (folder </> "fill.log")) 60 (bench folder ["--benchmarks=fillseq,compact", "--compression_type=none"])),
      workloadMeasure = \folder launch (Span warm measured) -> do
        text <- said folder launch (4 * (warm + measured)) (bench folder ["--use_existing_db=1", "--benchmarks=readrandom," ++ init (concat (replicate (max 2 (round (3 * measured))) "readseq,")), "--duration=" ++ seconds warm, "--cache_size=1048576"])
        case readseqRate text of
          Just rate -> pure [("readseq keys/s", rate)]
          Nothing -> problem unavailable ("db_bench said something else: " ++ unwords (lines text)),
      workloadAnswers = False,
      workloadPasses = False
    }
  where
    bench folder more = ["db_bench", "--db=" ++ folder </> "rocks", "--num=1000000", "--value_size=100"] ++ more

-- | Keys a second over all passes, but for the first, of db_bench's words.
readseqRate :: String -> Maybe Double
readseqRate text = case drop 1 passes of
  [] -> Nothing
  rest -> Just (fromIntegral (length rest) / sum (map recip rest))
  where
    passes = [rate | l <- lines text, "readseq" `isPrefixOf` l, (number', "ops/sec") <- pairs (words l), Just rate <- [readMaybe number'], rate > (0 :: Double)]
    pairs ws = zip ws (map (takeWhile (/= ';')) (drop 1 ws))
