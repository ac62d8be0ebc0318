-- | Agents on other hosts: the same program, started there by @ssh@. /Internal/.
--
-- An agent talks over the standard input and output that @ssh@ gives it: all is encrypted, and
-- nobody listens anywhere. The secret goes that way too; no command line shows it.
module Maru.Cluster.Hosts
  ( Host (..),
    readHosts,
    agentCommand,
    agentVariable,
  )
where

import Control.Exception (IOException, evaluate, throwIO, try)
import Data.Char (isSpace)
import GHC.IO.Encoding (getFileSystemEncoding)
import Maru.Failure
import System.IO (IOMode (ReadMode), hGetContents, hSetEncoding, withFile)
import Text.Read (readMaybe)

-- | Where an agent is started, and how many workers it has.
data Host = Host
  { hostName :: !String,
    -- | 'Nothing': as many as it has cores.
    hostWorkers :: !(Maybe Int)
  }
  deriving (Eq, Show)

-- | @HOST [WORKERS]@ a line; @#@ begins a comment. Lines in a row of one host are one. Throws
-- 'Unavailable' where it cannot be read, 'BadOptions' where it says something else.
readHosts :: FilePath -> IO [Host]
readHosts file = do
  text <- try (bytesOf file)
  case text of
    Left e -> throwIO (Unavailable "the list of hosts" (show (e :: IOException)) "MARU_HOSTS names a file: HOST [WORKERS] a line")
    Right t -> do
      hosts <- mapM host (filter (not . all isSpace) (map (takeWhile (/= '#')) (lines t)))
      if null hosts then throwIO (BadOptions (file <> " names no host")) else pure (together hosts)
  where
    host line = case words line of
      [name] | good name -> pure (Host name Nothing)
      [name, n] | good name, Just k <- readMaybe n, k >= 1, k <= 65535 -> pure (Host name (Just k))
      _ -> throwIO (BadOptions (file <> ": give HOST [WORKERS], not " <> show line))
    -- ssh would take it for an option.
    good name = take 1 name /= "-"

-- | Batch systems write a line a core, and each agent would have workers for all. A line without a number
-- stands for all cores, whatever others say.
together :: [Host] -> [Host]
together hosts = case hosts of
  a : b : rest | hostName a == hostName b -> together (Host (hostName a) (min 65535 <$> ((+) <$> hostWorkers a <*> hostWorkers b)) : rest)
  a : rest -> a : together rest
  [] -> []

-- | With the encoding of a command's words: bytes that the locale has no letter for stay what they are.
bytesOf :: FilePath -> IO String
bytesOf file = withFile file ReadMode $ \h -> do
  hSetEncoding h =<< getFileSystemEncoding
  text <- hGetContents h
  text <$ evaluate (length text)

-- | What starts an agent there. It ends with its connection. These variables go there, too: @ssh@
-- passes none.
agentCommand :: String -> [(String, String)] -> FilePath -> FilePath -> Host -> [String]
agentCommand ssh variables folder program h =
  [ssh, "-q", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", hostName h]
    <> ["cd " <> quoted folder <> " && exec env " <> agentVariable <> "=1" <> concat [' ' : name <> "=" <> quoted value | (name, value) <- all'] <> " " <> quoted program]
  where
    -- The later counts.
    all' = variables <> [("MARU_WORKERS", show n) | Just n <- [hostWorkers h]]

-- | Set: this process is an agent.
agentVariable :: String
agentVariable = "MARU_AGENT"

-- | As one word of a shell.
quoted :: String -> String
quoted s = "'" <> concatMap (\c -> if c == '\'' then "'\\''" else [c]) s <> "'"
