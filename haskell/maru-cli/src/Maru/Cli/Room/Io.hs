{-# LANGUAGE OverloadedStrings #-}

-- | The part of the steer room that stands before libc in the program itself
-- (@libmaru-io.so@): the flag, and the page of what it saw (section @io@, layout:
-- @maru\/io.h@) against what was called.
module Maru.Cli.Room.Io
  ( ioRoom,

    -- * For tests
    decideDelegation,
    afterIo,
    IoCounts (..),
    decodeIo,
    Coverage (..),
    coverageOf,
    coverageWarning,
  )
where

import Control.Monad (join, replicateM)
import Data.Aeson (Value (Null), object, (.=))
import qualified Data.Aeson.Key as Key
import Data.Aeson.Types (Pair)
import Data.Binary.Get (Get, getWord32host, getWord64host, skip)
import Data.ByteString (ByteString)
import Data.List (intercalate, nub)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (isJust)
import Data.Word (Word64)
import Maru.Cli.Installed (libraryAt, notInstalled)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Room.Io.Calls
import Maru.Cli.Room.Io.Tune (ioTuner)
import Maru.Cli.Section
import Maru.Native.BoardView
import Options.Applicative

ioRoom :: Room
ioRoom =
  (room "io" "calls for input and output, in the program")
    { roomRun = Just (RunPlug delegateFlag (\_ _ -> libraryAt "libmaru-io.so") decideDelegation),
      roomAfter = \planned board -> pure (afterIo planned (countsOf board)),
      roomTop = Just (pure page),
      roomTuners = [ioTuner]
    }

-- ---- run ----------------------------------------------------------------

delegateFlag :: Parser (Maybe String)
delegateFlag =
  optional . strOption $
    long "io-delegate" <> metavar "MODE" <> help "Stand before the program's calls for input and output: never (count them only), hint (read streams ahead), always (have others make them: for study)"
      <> completeWith (map fst modes)

-- | With what each does.
modes :: [(String, String)]
modes =
  [ ("never", "calls for input and output are counted, none is changed"),
    ("hint", "files that are read in order are read ahead by a thread of maru's"),
    ("always", "reads and writes are made by threads of maru's (for study: slower on one socket)")
  ]

-- | Modes that were cut: what each was, and what to use.
gone :: [(String, String)]
gone =
  [ ("guarded", "it delegated calls while trials showed a gain, and loses where the program touches its data; use --io-delegate=hint"),
    ("guarded:uring", "it delegated calls by io_uring while trials showed a gain, and loses where the program touches its data; use --io-delegate=hint"),
    ("always:uring", "it delegated calls by io_uring; use --io-delegate=always to study delegation")
  ]

decideDelegation :: Either FilePath FilePath -> Maybe String -> Either Refusal Part
decideDelegation _ Nothing = Right mempty
decideDelegation library (Just mode) = case lookup mode modes of
  Nothing
    | Just what <- lookup mode gone -> Left (Misused ("--io-delegate=" ++ mode ++ " is gone: " ++ what))
    | otherwise -> Left (Misused ("unknown mode '" ++ mode ++ "' of --io-delegate; known: " ++ intercalate ", " (map fst modes)))
  Just what -> do
    path <- either (Left . Unavailable . notInstalled) Right library
    Right mempty {partEnvironment = [("MARU_IO", mode)], partPreload = [path], partNeeding = ["--io-delegate"], partExplain = [what]}

-- ---- the section --------------------------------------------------------

-- | Sums over all lines.
data IoCounts = IoCounts
  { ioMode :: !String,
    ioContexts :: !Integer,
    ioLoads :: !Integer,
    -- | Calls and bytes by class.
    ioClasses :: ![(String, (Integer, Integer))],
    -- | Calls that the kernel counts, too.
    ioKernel :: !Integer,
    ioDelegated :: !Integer,
    ioHandedBack :: !Integer,
    ioHints :: !Integer,
    -- | Delegated calls that were made by one call with others.
    ioMerged :: !Integer
  }
  deriving (Eq, Show)

classNames :: [String]
classNames = ["file read", "file write", "net read", "net write", "other read", "other write", "sync", "state"]

lineCount :: Int
lineCount = 1024

-- | 'Nothing' if the bytes are too short or say an unknown mode.
decodeIo :: ByteString -> Maybe IoCounts
decodeIo = join . decoded section
  where
    section = do
      mode <- fromIntegral <$> getWord32host
      contexts <- getWord32host
      loads <- getWord64host
      skip 240
      sums <- foldr (zipWith (+) . map toInteger) (replicate 21 0) <$> replicateM lineCount line
      pure $ do
        name <- lookup mode (zip [0 :: Int ..] (map fst modes))
        let (classes, rest) = splitAt 16 sums
        case rest of
          [kernel, delegated, back, hints, merged] ->
            Just (IoCounts name (toInteger contexts) (toInteger loads) (zip classNames (pairs classes)) kernel delegated back hints merged)
          _ -> Nothing
    line :: Get [Word64]
    line = skip 8 *> replicateM 21 getWord64host <* skip 80
    pairs (a : b : more) = (a, b) : pairs more
    pairs _ = []

countsOf :: Board -> Maybe IoCounts
countsOf = sectionOf "io" decodeIo

-- ---- coverage -----------------------------------------------------------

data Coverage = Coverage
  { -- | Calls that the library saw.
    coverageSeen :: !Integer,
    -- | Calls that the kernel counted, of the run's processes and of those they reaped.
    coverageMade :: !Integer,
    coverageReasons :: ![String]
  }
  deriving (Eq, Show)

-- | What may be missing, given the run's processes, its owner first. A program that starts
-- makes about so many reads before the library is there.
readsOfAStart :: Integer
readsOfAStart = 16

coverageOf :: Maybe IoCounts -> [ProcessCalls] -> Coverage
coverageOf counts processes = Coverage seen made reasons
  where
    seen = maybe 0 ioKernel counts
    made = sum (map callsMade processes)
    ours = drop 1 processes
    blind = [(reasonOf p, callsName p) | p <- ours, not (callsLoaded p)]
    starts = maybe 0 ioLoads counts * readsOfAStart
    reasons
      | not (null blind) = [why ++ ": " ++ unwords (nub [n | (w, n) <- blind, w == why]) | why <- nub (map fst blind)]
      | made - seen <= starts = ["the loader's own reads of programs that were started"]
      | otherwise = ["stdio, or system calls of its own: " ++ unwords (nub (map callsName ours))]
    reasonOf p = case callsLinkage p of
      Go -> "Go makes system calls itself"
      Static -> "linked statically"
      Dynamic -> "started without the library (set-user-id, or an emptied environment)"
      Unknown -> "not readable"

-- | Below 95 % of enough calls to say so.
coverageWarning :: Coverage -> Maybe String
coverageWarning c
  | coverageMade c < 200 || 100 * coverageSeen c >= 95 * coverageMade c = Nothing
  | otherwise =
    Just ("WARNING: " ++ covered c ++ " of the calls are seen; the others: " ++ intercalate "; " (coverageReasons c))

covered :: Coverage -> String
covered c
  | coverageMade c == 0 = "-"
  | otherwise = percent 1 (fromIntegral (coverageSeen c) / fromIntegral (coverageMade c))

-- ---- top ----------------------------------------------------------------

page :: TopPage
page =
  plainPage
    (\board -> Seen (countsOf board) <$> readProcessCalls (boardOwner board))
    (\before now -> if concerned now then draw before now else [])
    (\_ now -> if concerned now then Just (json now) else Nothing)

-- | Of a run: its counters, and its processes, the owner first.
data Seen = Seen !(Maybe IoCounts) ![ProcessCalls]

-- | Also a run none of whose programs could load the library.
concerned :: Seen -> Bool
concerned (Seen counts processes) = any callsAsked processes || isJust counts

draw :: Maybe (Double, Seen) -> Seen -> [Block]
draw before (Seen counts processes) = table ++ [Line seenLine] ++ maybe [] (pure . Line) (coverageWarning coverage)
  where
    coverage = coverageOf counts processes
    seenLine = "calls seen " ++ show (coverageSeen coverage) ++ " of " ++ show (coverageMade coverage) ++ " (" ++ covered coverage ++ ")"
    table = case counts of
      Nothing -> []
      Just now ->
        [ Line ("io-delegate=" ++ ioMode now ++ ", " ++ show (ioContexts now) ++ " contexts started, " ++ show (ioDelegated now) ++ " calls delegated, " ++ show (ioHandedBack now) ++ " handed back, " ++ show (ioMerged now) ++ " made with a neighbour, " ++ show (ioHints now) ++ " windows read ahead"),
          Tabular (Table [(L, "class"), (R, "calls"), (R, "calls/s"), (R, "bytes")] [[n, show c, rate n c, show b] | (n, (c, b)) <- ioClasses now, c > 0])
        ]
    rate name calls = case before of
      Just (elapsed, Seen (Just old) _)
        | elapsed > 0, Just (was, _) <- lookup name (ioClasses old) -> show (round (fromIntegral (calls - was) / elapsed) :: Int)
      _ -> ""

json :: Seen -> Value
json (Seen counts processes) =
  object
    ( [ "seen" .= coverageSeen coverage,
        "made" .= coverageMade coverage,
        "warning" .= coverageWarning coverage
      ]
        ++ maybe [] countsFields counts
    )
  where
    coverage = coverageOf counts processes

countsFields :: IoCounts -> [Pair]
countsFields c =
  [ "mode" .= ioMode c,
    "contexts" .= ioContexts c,
    "delegated" .= ioDelegated c,
    "handed_back" .= ioHandedBack c,
    "hints" .= ioHints c,
    "merged" .= ioMerged c,
    "classes" .= object [Key.fromString n .= object ["calls" .= calls, "bytes" .= b] | (n, (calls, b)) <- ioClasses c]
  ]

-- ---- afterwards ---------------------------------------------------------

-- | For the report; and a line where the library was there for nothing, given what was planned.
afterIo :: Map String String -> Maybe IoCounts -> Maybe Afterwards
afterIo planned counts = case counts of
  Just c -> Just (Afterwards ["none of " ++ plural (fromInteger (ioLoads c)) "program" ++ " with the library read or wrote through it: their calls are stdio's, or system calls of their own" | unused c] (object (countsFields c)) [])
  Nothing
    | "MARU_IO" `Map.member` planned -> Just (Afterwards ["no process of the run showed itself: where the library was not loaded, nobody saw its calls"] Null [])
    | otherwise -> Nothing
  where
    unused c = and [calls == 0 | (name, (calls, _)) <- ioClasses c, name `notElem` ["sync", "state"]]
