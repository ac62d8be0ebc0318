{-# LANGUAGE OverloadedStrings #-}

-- | This machine: what doctor asks of every machine, and how figures say where
-- they come from.
module Maru.Cli.Host
  ( hostChecks,
    machineJson,
    pageFacts,
    readText,
    boardsOf,

    -- * For tests
    judgeParts,
  )
where

import Control.Exception (try)
import Control.Monad (filterM)
import Data.Aeson (Value, object, (.=))
import Data.ByteString.Char8 (unpack)
import Data.Char (isSpace)
import Data.Either (fromRight, isRight, lefts, rights)
import Data.List (dropWhileEnd, intercalate, isPrefixOf)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust, mapMaybe)
import Data.Time.Clock (getCurrentTime)
import Data.Time.Format (defaultTimeLocale, formatTime)
import Data.Version (showVersion)
import Maru.Cli.Exit (orNothing, reason)
import Maru.Cli.Installed (installedParts, libraryAt, unloadable)
import Maru.Cli.Output (plural)
import Maru.Cli.Page (quotedCommand)
import Maru.Cli.Room
import Maru.Native.BoardView (memfdAt)
import Maru.Native.Probe
import Maru.Similar.Grammar (grammarName, openGrammars)
import Maru.Similar.Language (Language (Java), languageName, languages)
import Paths_maru_cli (version)
import System.Directory (listDirectory)
import System.FilePath (takeDirectory, takeExtension, (</>))
import System.Info (arch, compilerName, fullCompilerVersion)
import System.Posix.Files (readSymbolicLink)
import System.Posix.Resource (Resource (ResourceFileSize, ResourceTotalMemory), ResourceLimit (..), ResourceLimits (softLimit), getResourceLimit)
import System.Posix.Unistd (SystemID (nodeName, release, systemName), getSystemID)

hostChecks :: [Check]
hostChecks =
  [ Check "kernel" kernel,
    Check "processors" processors,
    Check "memory limit" memoryLimit,
    Check "file limit" fileLimit,
    Check "processes" processes,
    Check "huge pages" hugePages,
    Check "installed" installed,
    Check "grammar" grammar,
    Check "compiler" (pure (Finding Good (ghc ++ " built this command") ""))
  ]

kernel :: IO Finding
kernel = do
  system <- getSystemID
  let named = systemName system ++ " " ++ release system ++ ", " ++ arch
  pure $
    if versionOf (release system) >= [5, 4]
      then Finding Good named ""
      else Finding Bad named "maru needs Linux 5.4 or later (pidfd_open)"

-- | Leading numbers of @6.1.0-17-amd64@.
versionOf :: String -> [Int]
versionOf text = case span (`elem` ['0' .. '9']) text of
  ("", _) -> []
  (digits, '.' : more) -> read digits : versionOf more
  (digits, _) -> [read digits]

processors :: IO Finding
processors = either refused judged <$> probeTopology
  where
    refused why = Finding Bad ("cannot be read: " ++ why) "set MARU_TOPOLOGY to virtual:SxC or unset it"
    judged t
      | topologyDegraded t = Finding Doubtful (described t) "mount /sys, or describe the machine with MARU_TOPOLOGY"
      | topologyWorkers t < 2 = Finding Doubtful (described t) "nothing runs in parallel here; allow more CPUs"
      | otherwise = Finding Good (described t) ""
    described t =
      show (topologyAllowed t) ++ " of " ++ show (topologyCpus t) ++ " CPUs, " ++ plural (topologyCores t) "core"
        ++ ", "
        ++ plural (topologySockets t) "socket"
        ++ ", "
        ++ plural (topologyNodes t) "NUMA node"
        ++ quota (topologyQuota t)
        ++ (if topologyDescribed t then " (as MARU_TOPOLOGY says)" else "")
        ++ "; "
        ++ plural (topologyWorkers t) "worker"
        ++ " by default"
    quota 0 = ""
    quota q = ", cgroup grants " ++ show (fromIntegral q / 1000 :: Double) ++ " CPUs"

memoryLimit, fileLimit :: IO Finding
memoryLimit = unlimited ResourceTotalMemory "address space is" "workers map regions sparsely and need address space: ulimit -v unlimited"
fileLimit = unlimited ResourceFileSize "the size of files is" "boards, shared memory and reports are files to the kernel: ulimit -f unlimited"

unlimited :: Resource -> String -> String -> IO Finding
unlimited resource what remedy = judged . softLimit <$> getResourceLimit resource
  where
    judged limit = case limit of
      ResourceLimit bytes -> Finding Doubtful (what ++ " limited to " ++ show (bytes `div` 1024) ++ " KiB") remedy
      _ -> Finding Good (what ++ " not limited") ""

processes :: IO Finding
processes = judge . limitIn . fromRight "" <$> readText "/proc/self/limits"
  where
    limitIn text = [w | l <- lines text, "Max processes" `isPrefixOf` l, w : _ <- [drop 2 (words l)]]
    judge limit = case limit of
      ["unlimited"] -> Finding Good "not limited" ""
      [n]
        | all (`elem` ['0' .. '9']) n && (read n :: Integer) < 256 ->
          Finding Doubtful (n ++ " at most for this user") "workers are processes: ulimit -u 4096"
        | otherwise -> Finding Good (n ++ " at most for this user") ""
      _ -> Finding Doubtful "/proc/self/limits does not say" "mount /proc"

hugePages :: IO Finding
hugePages = do
  mode <- readText "/sys/kernel/mm/transparent_hugepage/enabled"
  collapse <- probeCollapse
  let name = either (const "not in this kernel") chosen mode
  pure $ case collapse of
    Right () -> Finding Good ("mode " ++ name ++ ", collapse on demand works") ""
    Left why ->
      Finding Doubtful ("mode " ++ name ++ ", collapse on demand: " ++ why) "the option that collapses the heap before a fork does nothing here (Linux 6.1 has it)"
  where
    chosen text = takeWhile (/= ']') (drop 1 (dropWhile (/= '[') text))

-- | Each part by the finder of the subcommand that needs it.
installed :: IO Finding
installed = judgeParts <$> mapM (\(finder, name, without) -> either (\path -> Left (path, without)) Right <$> finder name) installedParts

-- | Parts that are there, and those that are not with what cannot be used then.
judgeParts :: [Either (FilePath, String) FilePath] -> Finding
judgeParts looked = case lefts looked of
  -- Only libraries are loaded into programs; where the others lie is no matter.
  [] | why : _ <- mapMaybe unloadable (filter ((== ".so") . takeExtension) (rights looked)) -> Finding Doubtful ("maru run loads nothing into programs: " ++ why) "install maru in another folder"
  [] -> Finding Good (show (length looked) ++ " parts below " ++ prefix) ""
  absent -> Finding Bad (intercalate "; " [path ++ " is not there: no " ++ without | (path, without) <- absent]) "install maru wholly or set MARU_PREFIX"
  where
    prefix = concat (take 1 (map (takeDirectory . takeDirectory . takeDirectory) (rights looked)))

-- | What @maru similar@ makes syntax trees with. That of Java belongs to each maru, others may be
-- absent; one that is there has to open.
grammar :: IO Finding
grammar = do
  (found, absent) <- openGrammars (fmap (either id id) . libraryAt) (map snd languages)
  there <- Map.fromList <$> mapM (\l -> (,) l . isRight <$> libraryAt ("grammars/" ++ languageName l ++ ".so")) (Map.keys absent)
  let refused = Map.filterWithKey (\l _ -> l == Java || Map.findWithDefault False l there) absent
      names = intercalate ", " . map languageName
      others = Map.keys (Map.withoutKeys absent (Map.keysSet refused))
      optional' = if null others then "" else "; none of " ++ names others ++ " (in maru's sources `scripts/grammars LANGUAGE` builds one)"
  pure $ case Map.toList refused of
    [] -> Finding Good (intercalate "; " [takeWhile (/= ',') (unpack (grammarName g)) | g <- Map.elems found] ++ optional') ""
    bad ->
      Finding
        Doubtful
        (concat ["maru similar goes by its lexer for " ++ languageName l ++ ": " ++ why ++ "; " | (l, why) <- bad] ++ (if Map.null found then "no other grammar" else "there are " ++ names (Map.keys found)) ++ optional')
        "install a maru with it: a release's has that of Java; in maru's sources `scripts/grammars LANGUAGE` builds one"

ghc :: String
ghc = compilerName ++ " " ++ showVersion fullCompilerVersion

-- | Where a figure was measured: model, cores, kernel, compiler, load.
machineJson :: IO Value
machineJson = do
  system <- getSystemID
  cpuinfo <- readText "/proc/cpuinfo"
  load <- readText "/proc/loadavg"
  topology <- probeTopology
  pure $
    object
      [ "cpu" .= (either (const "unknown") model cpuinfo :: String),
        "cpus" .= either (const 0) topologyCpus topology,
        "cpus_allowed" .= either (const 0) topologyAllowed topology,
        "cores" .= either (const 0) topologyCores topology,
        "sockets" .= either (const 0) topologySockets topology,
        "quota_millicpus" .= either (const 0) topologyQuota topology,
        "kernel" .= (systemName system ++ " " ++ release system),
        "arch" .= arch,
        "compiler" .= ghc,
        "load" .= (either (const []) (take 3 . words) load :: [String])
      ]
  where
    model text = case [drop 1 (dropWhile (/= ':') l) | l <- lines text, "model name" `isPrefixOf` l] of
      name : _ -> trim name
      [] -> "unknown"
    trim = dropWhileEnd isSpace . dropWhile isSpace

-- | What stands above a page: where, under which load, by which command and when.
pageFacts :: [String] -> IO [(String, String)]
pageFacts command = do
  system <- getSystemID
  load <- readText "/proc/loadavg"
  topology <- probeTopology
  now <- getCurrentTime
  pure
    [ ("host", nodeName system ++ ", " ++ systemName system ++ " " ++ release system ++ either (const "") cpus topology),
      ("load", either (const "unknown") averages load ++ " over 1, 5 and 15 minutes, when this was written"),
      ("command", quotedCommand command),
      ("written", formatTime defaultTimeLocale "%Y-%m-%d %H:%M:%S UTC" now ++ " by maru " ++ showVersion version)
    ]
  where
    cpus t = ", " ++ show (topologyAllowed t) ++ " of " ++ show (topologyCpus t) ++ " CPUs"
    averages = intercalate ", " . take 3 . words

-- | A small file of the kernel's; 'Left': why not.
readText :: FilePath -> IO (Either String String)
readText path = do
  content <- try (readFile path >>= \text -> length text `seq` pure text)
  pure (either (Left . why) Right content)
  where
    why e = path ++ ": " ++ reason e

-- | @\/proc\/PID\/fd\/N@ of every board that the process holds; none where it has gone or is
-- another user's. They are files in memory: one of another file system that has a board's name
-- might block for ever who opens it.
boardsOf :: String -> IO [FilePath]
boardsOf pid = do
  numbers <- concat <$> orNothing (listDirectory folder)
  filterM isBoard (map (folder </>) numbers)
  where
    folder = "/proc" </> pid </> "fd"
    isBoard path = do
      named <- maybe False ("/memfd:maru-board" `isPrefixOf`) <$> orNothing (readSymbolicLink path)
      if named then isJust <$> memfdAt path else pure False
