{-# LANGUAGE OverloadedStrings #-}

-- | The page of a run, for people: what was found, what each room has to show. Where no room was
-- active, it says what was looked at and what to try. Pure.
module Maru.View.Run
  ( Afterwards (..),
    Measured (..),
    verdictLine,
    Ran (..),
    runPage,
  )
where

import Data.Aeson
import Data.List (intercalate, nub)
import Maru.View.Page
import Maru.View.Table

-- | Lines for standard error, and the room's part of the report: as data, and, where that is more
-- than the lines, as lines of HTML.
data Afterwards = Afterwards
  { afterLines :: ![String],
    afterData :: !Value,
    afterSection :: ![String]
  }
  deriving (Eq, Show)

-- | What the supervisor wrote.
data Measured = Measured
  { measuredStatus :: !Int,
    measuredStarted :: !Bool,
    measuredWall :: !Double,
    measuredUser :: !Double,
    measuredSystem :: !Double,
    -- | Of the largest process.
    measuredMaxRssKiB :: !Double,
    -- | Whether there was a board, on which rooms count what they do.
    measuredBoard :: !Bool,
    -- | The same in one line, as the supervisor puts it.
    measuredWords :: !String
  }
  deriving (Eq, Show)

instance FromJSON Measured where
  parseJSON = withObject "measured" $ \o ->
    Measured <$> o .: "status" <*> o .: "started" <*> o .: "wall_s" <*> o .: "user_s" <*> o .: "sys_s"
      <*> o .: "max_rss_kib"
      <*> o .:? "board" .!= True
      <*> o .: "words"

-- | Only what was measured.
verdictLine :: Measured -> [String] -> String
verdictLine m rooms = measuredWords m ++ "; " ++ active
  where
    active
      | not (measuredBoard m) = "what rooms did was not counted"
      | null rooms = "no room was active"
      | otherwise = "rooms: " ++ unwords rooms

-- | What there is to say of a run that has ended.
data Ran = Ran
  { -- | Every room that there is, and what contends there.
    ranRooms :: ![(String, String)],
    -- | Those that were active.
    ranActive :: ![String],
    -- | Room and what it planned, or why it did other than asked.
    ranAsked :: ![(String, String)],
    ranMeasured :: !Measured,
    -- | Room and what its program beside the run said.
    ranBeside :: ![(String, String)],
    ranAfter :: ![(String, Afterwards)],
    ranSaid :: ![String]
  }
  deriving (Eq, Show)

-- | The facts are those of 'Maru.Cli.Host.pageFacts'.
runPage :: [(String, String)] -> Ran -> String
runPage facts ran =
  htmlPage (Heading ("maru run: " ++ maybe "" (takeWhile (/= '\n')) (lookup "command" facts)) (foundLine ran) facts) $
    tiles
      [ (seconds (measuredWall m), "from start to end"),
        (seconds (measuredUser m), "computing in the program"),
        (seconds (measuredSystem m), "computing in the kernel"),
        (show (round (measuredMaxRssKiB m / 1024) :: Int) ++ " MiB", "in the largest process"),
        (show (measuredStatus m), "status")
      ]
      ++ concatMap (afterSection . snd) (ranAfter ran)
      ++ section "Rooms" ([name ++ ": " ++ line | (name, line) <- ranBeside ran] ++ [name ++ ": " ++ line | (name, a) <- ranAfter ran, null (afterSection a), line <- afterLines a])
      ++ (if null (ranActive ran) then nothingActive ran else [])
      ++ section "Said while it ran" (ranSaid ran)
  where
    m = ranMeasured ran

-- | A sentence.
foundLine :: Ran -> String
foundLine ran
  | not (measuredStarted (ranMeasured ran)) = "The command did not start."
  | not (measuredBoard (ranMeasured ran)) = "What rooms did was not counted, for there was no board; standard error says why."
  | null (ranActive ran) = case asked ran of
    [] -> "No room was active, for none was asked for: the run was only measured."
    names -> "No room was active, though " ++ intercalate " and " names ++ " was asked for."
  | otherwise = case [name ++ ": " ++ line | (name, a) <- ranAfter ran, line <- take 1 (afterLines a)] ++ map said (ranBeside ran) of
    [] -> "Active: " ++ unwords (ranActive ran) ++ "."
    line : _ -> line ++ "."
  where
    said (name, line) = name ++ ": " ++ line

asked :: Ran -> [String]
asked = nub . map fst . ranAsked

-- | What was looked at, why nothing was active, and what to try.
nothingActive :: Ran -> [String]
nothingActive ran =
  [element "h2" "What was looked at"]
    ++ htmlTable (Table [(L, "room"), (L, "what contends there"), (L, "in this run")] [[name, purpose, why name] | (name, purpose) <- ranRooms ran])
    ++ section "What to try" (toTry (ranMeasured ran))
  where
    why name = case [line | (n, line) <- ranAsked ran, n == name] of
      [] -> "not asked for"
      said -> "asked for; " ++ took ++ " (" ++ intercalate "; " said ++ ")"
    took = if measuredBoard (ranMeasured ran) then "no process of the run took part" else "not counted"

-- | By what the run did with its time.
toTry :: Measured -> [String]
toTry m
  | not (measuredStarted m) = []
  | otherwise =
    ["It computed for " ++ percent 0 busy ++ " of its time and waited for the rest. Threads that wait for mutexes: maru run --lock-profile --report locks.html -- COMMAND" | busy < 0.7]
      ++ [percent 0 kernel ++ " of its computing was in the kernel. Cores for input and output: maru run --io auto -- COMMAND" | kernel > 0.2]
      ++ [ "It kept " ++ fixed 1 busy ++ " CPUs busy. Where threads compete for mutexes, --lock-profile says so; MPI ranks and programs that poll: --wait adaptive, --wait-poll."
           | busy >= 0.7
         ]
      ++ ["Why a job is slow while it runs, and what to type: maru boost advise PID", "What can be used here: maru doctor"]
  where
    busy = share (measuredUser m + measuredSystem m) (measuredWall m)
    kernel = share (measuredSystem m) (measuredUser m + measuredSystem m)
    share part whole = if whole > 0 then part / whole else 0
