-- | What a command's file must be for a library to be put before its own: a
-- program of this machine, linked dynamically to glibc, that gains no privileges.
module Maru.Cli.Room.Lock.Program
  ( Program (..),
    describeProgram,
    inspectFile,
    interpreterOf,
    unfit,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (replicateM, unless)
import Data.Binary.Get
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import qualified Data.ByteString.Lazy as Lazy
import Data.List (isPrefixOf)
import Data.Word (Word64)
import System.Directory (findExecutable)
import System.FilePath (takeFileName)
import System.IO (IOMode (ReadMode), withBinaryFile)
import System.Posix.Files
import System.Posix.User (getEffectiveGroupID, getEffectiveUserID)

-- | What can be told without running it.
data Program
  = -- | Not found or not readable: executing it will say why.
    Unknown
  | -- | Of another word size, byte order or machine.
    Foreign
  | Static
  | -- | With the path of its dynamic linker.
    Dynamic !FilePath
  | -- | A script, with its interpreter.
    Script !FilePath
  | -- | Changes its user or group at start.
    Privileged
  deriving (Eq, Show)

-- | Of a command as a shell would find it; a script's is its interpreter's.
describeProgram :: String -> IO Program
describeProgram command = do
  found <- if '/' `elem` command then pure (Just command) else findExecutable command
  program <- maybe (pure Unknown) inspectFile found
  case program of
    Script interpreter -> inspectFile interpreter
    other -> pure other

inspectFile :: FilePath -> IO Program
inspectFile file = do
  own <- attempt (headOf "/proc/self/exe")
  there <- attempt (headOf file)
  privileged <- attempt (gainsPrivileges file)
  pure $ case (own, there, privileged) of
    (Right ours, Right bytes, Right gains)
      | gains -> Privileged
      | otherwise -> interpreterOf ours bytes
    _ -> Unknown
  where
    headOf path = withBinaryFile path ReadMode (`ByteString.hGet` 65536)
    attempt :: IO a -> IO (Either IOException a)
    attempt = try

gainsPrivileges :: FilePath -> IO Bool
gainsPrivileges file = do
  status <- getFileStatus file
  user <- getEffectiveUserID
  group <- getEffectiveGroupID
  let has bit = fileMode status .&. bit /= 0
  pure ((has setUserIDMode && fileOwner status /= user) || (has setGroupIDMode && fileGroup status /= group))

-- | From the first bytes of a program of this machine and those of the file.
interpreterOf :: ByteString -> ByteString -> Program
interpreterOf ours bytes
  | Just line <- ByteString.stripPrefix (Chars.pack "#!") bytes = maybe Unknown Script (firstWord line)
  | ByteString.take 4 bytes /= Chars.pack "\DELELF" = Unknown
  | machine bytes /= machine ours = Foreign
  | otherwise = case runGetOrFail programHeaders (Lazy.fromStrict bytes) of
    Right (_, _, headers) -> case [(from, size) | (3, from, size) <- headers] of
      (from, size) : _ -> Dynamic (Chars.unpack (Chars.takeWhile (/= '\0') (slice from size)))
      [] -> Static
    Left _ -> Unknown
  where
    firstWord = fmap Chars.unpack . safeHead . Chars.words . Chars.takeWhile (/= '\n')
    safeHead list = case list of
      word : _ -> Just word
      [] -> Nothing
    -- Class and byte order, and the machine.
    machine b = (ByteString.take 2 (ByteString.drop 4 b), ByteString.take 2 (ByteString.drop 18 b))
    slice from size = ByteString.take (fromIntegral size) (ByteString.drop (fromIntegral from) bytes)

-- | Type, offset and size of each segment, of a file of 64 bits in this machine's byte order.
programHeaders :: Get [(Int, Word64, Word64)]
programHeaders = do
  skip 32
  offset <- getWord64host
  skip 14
  size <- getWord16host
  count <- getWord16host
  -- Nothing may be skipped backwards, or past what can be counted.
  unless (size == 56 && offset >= 58 && offset < 65536) (fail "the system would not execute it")
  skip (fromIntegral offset - 58)
  replicateM (fromIntegral count) segment
  where
    segment = do
      kind <- getWord32host
      skip 4
      from <- getWord64host
      skip 16
      bytes <- getWord64host
      skip 16
      pure (fromIntegral kind, from, bytes)

-- | Why a library cannot be put before it.
unfit :: Program -> Maybe String
unfit program = case program of
  Unknown -> Nothing
  Script _ -> Nothing
  Foreign -> Just "it is a program for another machine"
  Static -> Just "it is statically linked: its mutexes cannot be reached"
  Privileged -> Just "it changes its user or group at start, so the system ignores preloaded libraries"
  Dynamic linker
    | "ld-linux" `isPrefixOf` takeFileName linker -> Nothing
    | otherwise -> Just ("its C library is not glibc (" ++ linker ++ ")")
