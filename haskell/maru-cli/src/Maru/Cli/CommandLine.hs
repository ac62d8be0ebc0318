-- | What every program of ours does around its own work: encodings, parsing, one line for a
-- mistake.
module Maru.Cli.CommandLine
  ( program,
    parsed,
  )
where

import Data.List (dropWhileEnd, intercalate, isPrefixOf, nub)
import GHC.IO.Encoding (mkTextEncoding, setFileSystemEncoding, setLocaleEncoding)
import Maru.Cli.Exit
import Options.Applicative hiding (internal)
import Options.Applicative.Help.Levenshtein (editDistance)
import Options.Applicative.Help.Types (renderHelp)
import System.Environment (getArgs)
import System.Exit (ExitCode (..), exitWith)
import System.IO (BufferMode (..), hFlush, hSetBuffering, hSetEncoding, stderr, stdout, utf8)

-- | Runs it on the arguments and ends with its status.
program :: ([String] -> IO ExitCode) -> IO ()
program run = do
  -- Figures hold µ and arguments any byte, whatever the locale says.
  setLocaleEncoding utf8
  -- A name's bytes come out as they went in, also those that are not UTF-8.
  names <- mkTextEncoding "UTF-8//ROUNDTRIP"
  setFileSystemEncoding names
  mapM_ (`hSetEncoding` names) [stdout, stderr]
  -- Unbuffered, each character is a write: lines of several processes would mix.
  hSetBuffering stderr LineBuffering
  -- The run-time system's own flush, after this, keeps quiet about what it cannot write.
  reporting (getArgs >>= run >>= \status -> hFlush stdout >> exitWith status)

-- | Does what the arguments say. Help is printed; a mistake is one line and status 64. The first
-- argument is the command's name, for help.
parsed :: String -> ParserInfo (IO ExitCode) -> [String] -> IO ExitCode
parsed name commandLine arguments = case execParserPure (prefs (columns 100 <> noBacktrack)) commandLine arguments of
  Success run -> run
  CompletionInvoked result -> execCompletion result name >>= putStr >> pure ExitSuccess
  Failure failure -> answer (execFailure failure name)
  where
    answer (text, code, width) = case code of
      ExitSuccess -> ExitSuccess <$ putStrLn (renderHelp width text)
      ExitFailure _ -> problem usage (mistake text ++ "; see '" ++ commandOf text ++ " --help'")
    mistake text = case words (oneLine (helpError text)) of
      "Invalid" : "option" : quoted : _ -> ofOption text (takeWhile (`notElem` "='") (drop 1 quoted))
      _ -> dropWhileEnd (== '.') (oneLine (helpError text)) ++ meant (suggested text)
    -- The library calls one invalid, too, that it has taken already, or that excludes one before it.
    -- It suggests none where all that the command requires is there.
    ofOption text typed
      | typed `notElem` known = oneLine (helpError text) ++ meant (closest typed known)
      | length (filter ((== typed) . takeWhile (/= '=')) arguments) > 1 = typed ++ " is given twice"
      | otherwise = typed ++ " does not go with the options before it"
      where
        known = nub (filter (isPrefixOf "-") (words (map (\c -> if c `elem` "[]()|" then ' ' else c) (oneLine (helpUsage text)))))
    closest typed known = filter ((== nearest) . editDistance typed) known
      where
        nearest = minimum (min 2 (length typed - 2) : map (editDistance typed) known)
    meant names = if null names then "" else " (did you mean '" ++ intercalate "' or '" names ++ "'?)"
    oneLine chunk = unwords (words (renderHelp 10000 mempty {helpError = chunk}))
    -- The library says it in lines: "Did you mean this?", and a name each.
    suggested text = case words (oneLine (helpSuggestions text)) of
      "Did" : "you" : "mean" : more -> drop 1 (dropWhile (('?' /=) . last) more)
      _ -> []
    -- Of the subcommand that was being read: what its usage begins with.
    commandOf text = case drop 1 (words (oneLine (helpUsage text))) of
      [] -> name
      usageWords -> unwords (takeWhile (all (`elem` ['a' .. 'z'])) usageWords)
