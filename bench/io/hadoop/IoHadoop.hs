-- | Hadoop's WordCount, whose jars @scripts\/hadoop@ fetches: on files of this machine, and
-- on HDFS with a name node and three data nodes.
module IoHadoop
  ( hadoop,
    hadoopHdfs,
  )
where

import Control.Monad (void)
import qualified Data.ByteString.Builder as Builder
import Data.Maybe (fromMaybe)
import GHC.Clock (getMonotonicTime)
import IoWorkload
import Maru.Cli.Reaper (Reaper)
import System.Directory
import System.Environment (lookupEnv)
import System.FilePath ((</>))
import System.IO

-- | A job is a program of its own: all of it counts, from its start on.
hadoop :: Workload
hadoop =
  Workload
    { workloadName = "hadoop",
      workloadPurpose = "Hadoop's WordCount on files, one process",
      workloadNeeds =
        [ Need "java" "default-jre-headless",
          Given jars "hadoop-client-api-3.3.6.jar" ("scripts/hadoop fetches its jars, " ++ jars ++ " says where they are")
        ],
      workloadPrepare = const writeWords,
      workloadMeasure = \folder launch _ -> count folder launch (local folder) (folder </> "words"),
      workloadAnswers = False,
      workloadPasses = False
    }

-- | The daemons and the job each run in the way that is measured.
hadoopHdfs :: Workload
hadoopHdfs =
  hadoop
    { workloadName = "hadoop-hdfs",
      workloadPurpose = "Hadoop's WordCount on HDFS, with a name node and three data nodes",
      workloadPrepare = \reaper folder -> do
        writeWords folder
        port <- freePort
        void (run folder (quiet reaper folder) (hdfs folder port) nameNode ["-format", "-force"])
        withHdfs folder (quiet reaper folder) $ \site -> void (run folder (quiet reaper folder) site "org.apache.hadoop.fs.FsShell" ["-put", folder </> "words", "/words"]),
      workloadMeasure = \folder launch _ ->
        withHdfs folder launch $ \site -> count folder launch {launchErrors = folder </> "job.log"} site "/words"
    }

quiet :: Reaper -> FilePath -> Launch
quiet reaper folder = plainly reaper (folder </> "client.log")

-- | Where they are: a folder.
jars :: String
jars = "MARU_HADOOP"

-- ---- the job ------------------------------------------------------------

megabytes :: Double
megabytes = 12

-- | Words of three letters, each line the same number of them, no two lines alike.
writeWords :: FilePath -> IO ()
writeWords folder = withBinaryFile (folder </> "words") WriteMode $ \file ->
  Builder.hPutBuilder file (foldMap line [1 .. round (megabytes * 1e6 / 64)])
  where
    line n = foldMap (word . (n *)) [1 .. 16] <> Builder.char7 '\n'
    word :: Int -> Builder.Builder
    word k = foldMap (\d -> Builder.char7 (toEnum (97 + k * 2654435761 `div` d `mod` 26))) [65536, 1048576, 16777216] <> Builder.char7 ' '

-- | Where files are, and all that belongs to one set of daemons.
type Site = [(String, String)]

local :: FilePath -> Site
local folder = [("fs.defaultFS", "file:///"), ("hadoop.tmp.dir", folder </> "tmp")]

count :: FilePath -> Launch -> Site -> FilePath -> IO [(String, Double)]
count folder launch site input = do
  begin <- getMonotonicTime
  -- On HDFS too: a few kilobytes, which stay there.
  let output = folder </> "counted-" ++ show begin
  _ <- run folder launch site "org.apache.hadoop.examples.WordCount" [input, output]
  end <- getMonotonicTime
  removePathForcibly output
  pure [("kB/s", 1000 * megabytes / (end - begin))]

-- ---- its programs -------------------------------------------------------

-- | What it prints, of one that ends.
run :: FilePath -> Launch -> Site -> String -> [String] -> IO String
run folder launch site program arguments = java folder site program arguments >>= said folder launch 120

-- | Some want a file of settings in their class path, whatever it says.
java :: FilePath -> Site -> String -> [String] -> IO [String]
java folder site program arguments = do
  there <- makeAbsolute . fromMaybe "" =<< lookupEnv jars
  writeFile (folder </> "core-site.xml") "<configuration/>"
  pure $
    ["java", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", folder ++ ":" ++ there </> "*", program]
      ++ concat [["-D", name ++ "=" ++ value] | (name, value) <- site ++ always]
      ++ arguments
  where
    always =
      [ ("mapreduce.local.map.tasks.maximum", "2"),
        ("mapreduce.input.fileinputformat.split.maxsize", "8388608")
      ]

nameNode :: String
nameNode = "org.apache.hadoop.hdfs.server.namenode.NameNode"

dataNodes :: Int
dataNodes = 3

-- | The settings of a file system of this folder's, by the name node's port. The words have three blocks.
hdfs :: FilePath -> Int -> Site
hdfs folder port =
  [ ("fs.defaultFS", "hdfs://127.0.0.1:" ++ show port),
    ("hadoop.tmp.dir", folder </> "tmp"),
    ("dfs.replication", "1"),
    ("dfs.blocksize", show (4 * 1048576 :: Int)),
    ("dfs.namenode.http-address", "127.0.0.1:0"),
    ("dfs.namenode.safemode.min.datanodes", show dataNodes),
    ("dfs.namenode.safemode.extension", "0"),
    ("dfs.namenode.datanode.registration.ip-hostname-check", "false")
  ]

-- | What one data node has of its own.
holding :: FilePath -> Int -> Int -> Site
holding folder number port =
  [ ("dfs.datanode.data.dir", "file://" ++ folder </> "blocks-" ++ show number),
    ("dfs.datanode.address", "127.0.0.1:0"),
    ("dfs.datanode.http.address", "127.0.0.1:0"),
    ("dfs.datanode.ipc.address", "127.0.0.1:" ++ show port)
  ]

-- | On ports that are free now, from when the name node knows all blocks.
withHdfs :: FilePath -> Launch -> (Site -> IO a) -> IO a
withHdfs folder launch action = do
  port <- freePort
  let site = hdfs folder port
      withDataNode number inner = do
        own <- freePort
        holder <- java folder (site ++ holding folder number own) "org.apache.hadoop.hdfs.server.datanode.DataNode" []
        withServer folder launch {launchErrors = folder </> "blocks-" ++ show number ++ ".log"} holder own (pure True) inner
  manager <- java folder site nameNode []
  withServer folder launch manager port (pure True) . flip (foldr withDataNode) [1 .. dataNodes] $ do
    void (run folder (quiet (launchReaper launch) folder) site "org.apache.hadoop.hdfs.tools.DFSAdmin" ["-safemode", "wait"])
    action site
