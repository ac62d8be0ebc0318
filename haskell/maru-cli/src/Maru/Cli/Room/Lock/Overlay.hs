{-# LANGUAGE OverloadedStrings #-}

-- | The section @lock@ of a board (layout: @maru/overlay.h@): what was laid over the
-- mutexes of a run's programs.
module Maru.Cli.Room.Lock.Overlay
  ( Overlay (..),
    overlayOf,
    decodeOverlay,
    overlayJson,
    overlayLine,
    pastLine,
    leftLine,
    overlayPage,
    withProfile,
    turned,
  )
where

import Control.Monad (replicateM, void)
import Data.Aeson (Value (..), object, (.=))
import qualified Data.Aeson.Key as Key
import qualified Data.Aeson.KeyMap as KeyMap
import Data.Binary.Get
import Data.ByteString (ByteString)
import Data.List (intercalate)
import Data.Word (Word32, Word64)
import Maru.Cli.Output
import Maru.Cli.Room
import Maru.Cli.Room.Lock.Profile
import Maru.Cli.Section
import Maru.Native.BoardView
import Maru.Native.Probe (setOverlayDeadline, setOverlayPatience, setOverlayRange)
import Maru.View.Lock (profileJson, profileTable)

data Overlay = Overlay
  { -- | Of the algorithm; empty as long as no process has said it.
    overlayName :: !String,
    overlayRange :: !Word32,
    overlayReduction :: !Word32,
    overlayDeadline :: !Word64,
    -- | Nanoseconds.
    overlayPatience :: !Word64,
    overlayProcesses :: !Word32,
    overlayPassing :: !Word32,
    overlayResets :: !Word32,
    overlayInitialised :: !Word64,
    -- | In the order of @leftNames@.
    overlayLeft :: ![Word64],
    overlayQueued :: !Word64,
    overlayHandedOn :: !Word64,
    overlayImpatient :: !Word64,
    overlayLeftSocket :: !Word64,
    overlaySetAside :: !Word64,
    -- | By condition variables, and tries with a deadline: past the queue.
    overlayReacquired :: !Word64,
    overlayTimed :: !Word64
  }
  deriving (Eq, Show)

-- | What a mutex that is left to glibc is.
leftNames :: [String]
leftNames = ["robust", "inheriting priorities", "with a priority", "shared between processes"]

overlayOf :: Board -> Maybe Overlay
overlayOf = sectionOf "lock" decodeOverlay

-- | 'Nothing' if the bytes are too short.
decodeOverlay :: ByteString -> Maybe Overlay
decodeOverlay = decoded fields
  where
    fields = do
      range <- getWord32host
      reduction <- getWord32host
      skip 8
      deadline <- getWord64host
      skip 8
      patience <- getWord64host
      skip 24
      name <- untilZero <$> getByteString 16
      processes <- getWord32host
      passing <- getWord32host
      skip 4
      resets <- getWord32host
      initialised <- getWord64host
      left <- replicateM (length leftNames) getWord64host
      skip 120
      counts <- replicateM 32 (replicateM 7 getWord64host <* skip 8)
      let total n = sum [value | line <- counts, (i, value) <- zip [0 :: Int ..] line, i == n]
      pure (Overlay name range reduction deadline patience processes passing resets initialised left (total 0) (total 1) (total 2) (total 3) (total 4) (total 5) (total 6))

overlayJson :: Overlay -> Value
overlayJson o =
  object
    [ "lock" .= overlayName o,
      "knobs"
        .= object
          [ "handoff_range" .= overlayRange o,
            "shuffle_reduction" .= overlayReduction o,
            "deadline_ns" .= overlayDeadline o,
            "patience_ns" .= overlayPatience o
          ],
      "processes" .= overlayProcesses o,
      "processes_passing_through" .= overlayPassing o,
      "queues_left_by_forks" .= overlayResets o,
      "mutexes_initialised" .= overlayInitialised o,
      "mutexes_left_to_glibc" .= object [Key.fromString name .= n | (name, n) <- zip leftNames (overlayLeft o)],
      "queued" .= overlayQueued o,
      "handed_on" .= overlayHandedOn o,
      "impatient" .= overlayImpatient o,
      "left_socket" .= overlayLeftSocket o,
      "set_aside" .= overlaySetAside o,
      "reacquired_after_condition" .= overlayReacquired o,
      "timed" .= overlayTimed o
    ]

-- | What it did.
overlayLine :: Overlay -> String
overlayLine o =
  overlayName o ++ " in " ++ plural (fromIntegral (overlayProcesses o - overlayPassing o)) "process"
    ++ concat [" (" ++ show (overlayPassing o) ++ " passed through)" | overlayPassing o > 0]
    ++ "; "
    ++ plural (fromIntegral (overlayQueued o)) "acquisition"
    ++ " queued, "
    ++ show (overlayHandedOn o)
    ++ " with somebody behind, "
    ++ show (overlayImpatient o)
    ++ " waited for more than "
    ++ seconds (fromIntegral (overlayPatience o) * 1e-9)

knobLine :: Overlay -> String
knobLine o =
  "deadline " ++ (if overlayDeadline o == 0 then "none" else time (overlayDeadline o)) ++ ", range " ++ show (overlayRange o) ++ ", patience "
    ++ time (overlayPatience o)
  where
    time ns = seconds (fromIntegral ns * 1e-9)

-- | What took a mutex without queueing.
pastLine :: Overlay -> String
pastLine o =
  "past the queues: " ++ plural (fromIntegral (overlayReacquired o)) "acquisition" ++ " on return from condition variables, "
    ++ plural (fromIntegral (overlayTimed o)) "timed lock"

-- | Which mutexes were left to glibc and why.
leftLine :: Overlay -> String
leftLine o = case [show n ++ " " ++ name | (name, n) <- zip leftNames (overlayLeft o), n > 0] of
  [] -> "no mutex was left to glibc for its kind"
  kinds -> "mutexes left to glibc: " ++ intercalate ", " kinds

-- | Half or twice a deadline in nanoseconds, within 1 us and 1 s; none (0) is longer than 1 s.
turned :: Char -> Word64 -> Word64
turned '<' 0 = second
turned '<' ns = max 1000 (ns `div` 2)
turned '>' ns
  | ns == 0 || ns >= second = 0
  | otherwise = min second (2 * ns)
turned _ ns = ns

second :: Word64
second = 1000000000

-- | What a key does to the knobs of a board.
turnKnob :: Char -> FilePath -> Overlay -> IO ()
turnKnob key path o
  | key == '<' || key == '>' = void (setOverlayDeadline path (turned key (overlayDeadline o)))
  | key == '[' || key == ']' = void (setOverlayRange path (min 65536 (max 256 (step '[' (fromIntegral (overlayRange o))))))
  | otherwise = void (setOverlayPatience path (min second (max 1000 (step '{' (overlayPatience o)))))
  where
    step down n = if key == down then n `div` 2 else 2 * n

-- | The lines of a run that has the section, and who waits most if it has the profile.
overlayPage :: TopPage
overlayPage =
  TopPage
    { pageKeys = [('<', "shorter deadline"), ('>', "longer deadline"), ('[', "smaller range"), (']', "larger range"), ('{', "less patience"), ('}', "more patience")],
      pageStart = (),
      pageKey = const id,
      -- Read anew: two keys may come between two looks.
      pageTurn = \key shown -> do
        now <- readBoard (boardPath shown)
        sequence_ [turnKnob key (boardPath board) o | Right board <- [now], Just o <- [overlayOf board]],
      pageSee = \board -> case overlayOf board of
        Nothing -> pure Nothing
        Just o -> Just . (,) o <$> readReport False (boardPath board),
      pageDraw = \() before -> maybe [] (\(o, profile) -> map (Line . ("lock  " ++)) [overlayLine o, pastLine o, knobLine o, leftLine o] ++ maybe [] (profileTable (fmap (>>= snd) <$> before)) profile),
      pageJson = const (fmap (\(o, profile) -> withProfile (profileJson False <$> profile) (overlayJson o)))
    }

-- | The profile beside what else there is to say.
withProfile :: Maybe Value -> Value -> Value
withProfile (Just profile) (Object fields) = Object (KeyMap.insert "profile" profile fields)
withProfile _ value = value
