{-# LANGUAGE OverloadedStrings #-}

-- | The section @run@ of a board (layout: @maru/run.h@), decoded.
module Maru.Cli.RunSection
  ( RunState (..),
    RunSection (..),
    runSection,
    decodeRun,
    runJson,
    commandLine,
  )
where

import Control.Monad (join)
import Data.Aeson
import Data.Binary.Get
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import Data.Int (Int64)
import Maru.Cli.Section
import Maru.Native.BoardView
import Maru.View.Plain

data RunState = Starting | Running | Stopped | Ended
  deriving (Eq, Show, Enum, Bounded)

data RunSection = RunSection
  { runState :: !RunState,
    -- | The command's.
    runPid :: !Int,
    -- | Since the epoch, nanoseconds.
    runStarted :: !Int64,
    -- | Once it has ended.
    runStatus :: !Int,
    -- | Possibly cut.
    runCommand :: ![String]
  }
  deriving (Eq, Show)

-- | The run of a board, if it is one of @maru run@ or @maru launch@.
runSection :: Board -> Maybe RunSection
runSection = sectionOf "run" decodeRun

-- | 'Nothing' if the bytes are too short or hold an unknown state.
decodeRun :: ByteString -> Maybe RunSection
decodeRun = join . decoded fields
  where
    fields = do
      state <- fromIntegral <$> getWord32host
      pid <- getInt32host
      skip 8
      started <- getInt64host
      status <- getInt32host
      size <- getWord32host
      command <- getRemainingLazyByteString
      pure $
        if state > fromEnum (maxBound :: RunState)
          then Nothing
          else
            Just
              RunSection
                { runState = toEnum state,
                  runPid = fromIntegral pid,
                  runStarted = started,
                  runStatus = fromIntegral status,
                  runCommand = arguments (ByteString.take (fromIntegral size) (Lazy.toStrict command))
                }
    arguments text = map readable (dropEnd (ByteString.split 0 text))
    dropEnd parts = take (length parts - 1) parts

runJson :: RunSection -> Value
runJson run =
  object
    [ "state" .= stateName (runState run),
      "pid" .= runPid run,
      "started_ns" .= runStarted run,
      "status" .= if runState run == Ended then Just (runStatus run) else Nothing,
      "command" .= runCommand run
    ]
  where
    stateName :: RunState -> String
    stateName s = case s of
      Starting -> "starting"
      Running -> "running"
      Stopped -> "stopped"
      Ended -> "ended"

-- | The command on one line; it comes from another process.
commandLine :: RunSection -> String
commandLine = plain . unwords . runCommand
