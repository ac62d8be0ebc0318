{-# LANGUAGE OverloadedStrings #-}

-- | The programs of @examples\/dsm@ as jobs, timed by themselves; and the
-- networks that they are run on.
module DsmJobs
  ( -- * Networks
    Link (..),
    linkName,
    described,

    -- * Programs
    programs,
    sizes,

    -- * Running them
    Job (..),
    printedAlone,
    timed,
  )
where

import Control.Monad (unless)
import Data.Aeson (Value, object, (.=))
import Data.List (isPrefixOf, stripPrefix)
import Data.Maybe (mapMaybe)
import Maru.Cli.Exit
import Maru.Cli.Group
import Maru.Cli.Reaper (Reaper)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.Process
import System.Timeout (timeout)
import Text.Read (readMaybe)

-- | Name, Gb/s, latency in ns, ps a byte, by how much processors are slower than today's.
data Link = Link !String !Double !Int !Int !Int

linkName :: Link -> String
linkName (Link name _ _ _ _) = name

-- | The paper's two constants are its own; the other latencies are assumed.
described :: [Link]
described =
  [ Link "paper" 0.17 21000 47000 20,
    Link "1 Gb/s" 1 15000 8500 1,
    Link "10 Gb/s" 10 6500 855 1,
    Link "100 Gb/s" 100 1500 83 1
  ]

-- | Those of examples\/dsm.
programs :: [String]
programs = ["tsp", "raytrace", "ocean", "water", "radix", "fft", "lu", "matmul"]

-- | Sizes that take tenths of a second on two processors.
sizes :: String -> [String]
sizes program = case program of
  "tsp" -> ["-n", "17", "-c", "0"]
  "raytrace" -> ["-n", "256"]
  "ocean" -> ["-k", "7", "-s", "1"]
  "water" -> ["-n", "216", "-s", "12"]
  "radix" -> ["-n", "262144"]
  "fft" -> ["-k", "8"]
  "lu" -> ["-n", "384"]
  _ -> ["-n", "320"]

-- | A program on some nodes.
data Job = Job
  { -- | What starts it, up to the program: @maru-launch -n 2 --@, and what may come before.
    jobStart :: ![String],
    jobEnvironment :: ![(String, String)],
    jobProgram :: !FilePath,
    jobArguments :: ![String]
  }

-- | What it prints without a launcher, as a job of one node.
printedAlone :: Reaper -> FilePath -> [String] -> IO String
printedAlone reaper program arguments = do
  (code, said, errors) <- outputOf reaper (proc program arguments) {std_in = CreatePipe}
  case code of
    ExitSuccess -> pure said
    ExitFailure n -> problem internal (program ++ " ended with status " ++ show n ++ ": " ++ unwords (lines errors))

-- | Its time is the program's own; its result must be the one given.
timed :: Reaper -> Maybe String -> Job -> IO Value
timed reaper expected job = do
  environment <- getEnvironment
  let own = jobEnvironment job
      command = jobStart job ++ [jobProgram job] ++ jobArguments job ++ ["-t", "1"]
  done <- timeout 120000000 (outputOf reaper (shellless command) {std_in = CreatePipe, env = Just (own ++ filter ((`notElem` map fst own) . fst) environment)})
  case done of
    Just (ExitSuccess, printed, said)
      | [time] <- mapMaybe (stripPrefix "[0] seconds: ") (lines said),
        Just s <- readMaybe time -> do
        unless (all (== printed) (unlines . map ("[0] " ++) . lines <$> expected)) $
          broken ("printed '" ++ unwords (lines printed) ++ "', which is not what it prints alone")
        pure (object ["seconds" .= (s :: Double)])
    Just (code, _, said) -> broken (show code ++ ": " ++ unwords (filter (not . ("[0] seconds: " `isPrefixOf`)) (lines said)))
    Nothing -> broken "took more than two minutes; it was ended"
  where
    broken why = problem internal (jobProgram job ++ " as a job: " ++ why)
    shellless (command : arguments) = proc command arguments
    shellless [] = proc "" []
