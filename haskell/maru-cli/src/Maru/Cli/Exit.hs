-- | How the command ends: exit statuses, and one line for every failure.
module Maru.Cli.Exit
  ( Problem (..),
    usage,
    badInput,
    unavailable,
    internal,
    maruFailed,
    problem,
    warn,
    reason,
    orNothing,
    orProblem,
    endingWith,
    reporting,
  )
where

import Control.Exception
import Control.Monad (void)
import Foreign.C.Error (Errno (..), eFBIG)
import GHC.IO.Exception (IOException (..))
import Maru.Failure (exceptionText)
import System.Exit (ExitCode (..), exitWith)
import System.IO (hPutStrLn, stderr, stdout)
import System.IO.Error (isResourceVanishedError)

-- | What went wrong, to what, what to do; and the status for it.
data Problem = Problem
  { problemStatus :: !Int,
    problemLine :: !String
  }
  deriving (Eq, Show)

instance Exception Problem

-- | 64: the command line.
usage :: Int
usage = 64

-- | 65: the data.
badInput :: Int
badInput = 65

-- | 69: something needed is not there.
unavailable :: Int
unavailable = 69

-- | 70: a defect of maru's own.
internal :: Int
internal = 70

-- | 125: @maru run@ could not do its part.
maruFailed :: Int
maruFailed = 125

-- | Ends the command.
problem :: Int -> String -> IO a
problem status line = throwIO (Problem status line)

-- | A line on standard error. The command goes on, also where nobody can read it.
warn :: String -> IO ()
warn line = void (orNothing (hPutStrLn stderr ("maru: " ++ line)))

-- | The system's own words, without the place; of a limit of the caller's, what to do about it.
reason :: IOException -> String
reason e
  | fmap Errno (ioe_errno e) == Just eFBIG = ioe_description e ++ " (raise ulimit -f)"
  | null (ioe_description e) = show (ioe_type e)
  | otherwise = ioe_description e

-- | For what may fail alone: the line that says why.
orProblem :: IO a -> IO (Either String a)
orProblem act = either (Left . problemLine) Right <$> try act

-- | For what may be gone, or may not be read.
orNothing :: IO a -> IO (Maybe a)
orNothing action = either gone Just <$> try action
  where
    gone :: IOException -> Maybe a
    gone _ = Nothing

-- | What only a status of these says is said as it is; all else that goes wrong has the other one.
endingWith :: [Int] -> Int -> IO a -> IO a
endingWith known other action =
  action
    `catches` [ Handler (\e -> throwIO (e :: ExitCode)),
                Handler (\e -> throwIO (e :: SomeAsyncException)),
                Handler (\(Problem status line) -> problem (if status `elem` known then status else other) line),
                Handler (problem other . unexpectedLine)
              ]

unexpectedLine :: SomeException -> String
unexpectedLine = unwords . lines . exceptionText

-- | Runs a whole command: problems become their line and status, other
-- exceptions status 70 (they are maru's own fault). Standard output that cannot
-- be written is status 69; a pipe that nobody reads any more ends it as SIGPIPE
-- would, without a line. The status stands where the line cannot be said.
reporting :: IO () -> IO ()
reporting action =
  action
    `catches` [ Handler (\e -> throwIO (e :: ExitCode)),
                Handler (\(Problem status line) -> failed status line),
                Handler interrupted,
                Handler unwritten,
                Handler unexpected
              ]
  where
    exit = exitWith . ExitFailure
    failed status line = warn line >> exit status
    unwritten e
      | isResourceVanishedError e = exit 141
      | ioe_handle e == Just stdout = failed unavailable ("cannot write to standard output: " ++ reason e)
      | otherwise = unexpected (toException e)
    unexpected = failed internal . unexpectedLine
    interrupted e = case e of
      UserInterrupt -> exit 130
      _ -> throwIO e
