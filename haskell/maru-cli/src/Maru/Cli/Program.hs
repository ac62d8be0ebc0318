-- | What a command's file must be for a library to be put before its own. That is a program of this
-- machine, linked dynamically to glibc, that gains no privileges and has no sanitizer in it.
module Maru.Cli.Program
  ( Described (..),
    Program (..),
    undescribed,
    describeProgram,
    describeFile,
    unfit,
    spoiled,

    -- * From bytes
    interpreterOf,
    isGo,
    sanitizerIn,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (replicateM, unless)
import Data.Binary.Get
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import Data.List (find, isPrefixOf)
import Data.Maybe (fromMaybe, listToMaybe)
import Data.Word (Word64)
import Maru.Cli.Section (decoded)
import System.Directory (findExecutable)
import System.FilePath (takeFileName)
import System.IO (IOMode (ReadMode), SeekMode (AbsoluteSeek), hSeek, withBinaryFile)
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
  | -- | A dynamic linker that is executed itself, by its own name: it loads the program that its
    -- arguments name, and what is to be preloaded.
    Loader !FilePath
  | -- | Changes its user or group at start.
    Privileged
  deriving (Eq, Show)

-- | With what else can be told.
data Described = Described
  { describedProgram :: !Program,
    -- | Written in Go.
    describedGo :: !Bool,
    -- | The sanitizer whose run-time system it asks for, or has in it.
    describedSanitizer :: !(Maybe String)
  }
  deriving (Eq, Show)

undescribed :: Described
undescribed = Described Unknown False Nothing

-- | Of a command, with its arguments, as a shell would find it. A script's is its interpreter's, a
-- dynamic linker's that of the program that it loads.
describeProgram :: [String] -> IO Described
describeProgram [] = pure undescribed
describeProgram (command : arguments) = do
  found <- if '/' `elem` command then pure (Just command) else findExecutable command
  described <- maybe (pure undescribed) describeFile found
  case describedProgram described of
    Script interpreter -> describeFile interpreter
    Loader linker -> maybe (pure undescribed) (fmap (loadedBy linker) . describeFile) (programLoaded arguments)
    _ -> pure described

-- | The linker that its file names does not run, nor does the system change a user for it.
loadedBy :: FilePath -> Described -> Described
loadedBy linker described = case describedProgram described of
  Dynamic _ -> through
  Privileged -> through
  _ -> described
  where
    through = described {describedProgram = Dynamic linker}

-- | What glibc's dynamic linker is to load: its first argument that is no option. Without a folder it
-- is looked for among the libraries.
programLoaded :: [String] -> Maybe FilePath
programLoaded (word : more)
  | word `elem` ["--library-path", "--preload", "--audit", "--argv0", "--inhibit-rpath", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"] = programLoaded (drop 1 more)
  | "--" `isPrefixOf` word = programLoaded more
  | '/' `elem` word = Just word
programLoaded _ = Nothing

describeFile :: FilePath -> IO Described
describeFile file = do
  program <- inspectFile file
  start <- attempt (headOf file)
  names <- case (program, start) of
    (Dynamic _, Right bytes) -> attempt (dynamicNames file bytes)
    (Static, Right bytes) -> attempt (dynamicNames file bytes)
    _ -> pure (Right (Names ByteString.empty Nothing))
  pure (Described (kindOf program names) (either (const False) isGo start) (either (const Nothing) (\(Names all' _) -> sanitizerIn all') names))
  where
    -- A static program has no name for others to load it by.
    kindOf Static (Right (Names _ (Just name))) = Loader name
    kindOf program _ = program

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

headOf :: FilePath -> IO ByteString
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
  | otherwise = case filter ((== 3) . segmentKind) <$> decoded programHeaders bytes of
    Just (segment : _) -> Dynamic (Chars.unpack (Chars.takeWhile (/= '\0') (contentOf segment bytes)))
    Just [] -> Static
    Nothing -> Unknown
  where
    firstWord = fmap Chars.unpack . safeHead . Chars.words . Chars.takeWhile (/= '\n')
    safeHead list = case list of
      word : _ -> Just word
      [] -> Nothing
    -- Class and byte order, and the machine.
    machine b = (ByteString.take 2 (ByteString.drop 4 b), ByteString.take 2 (ByteString.drop 18 b))

-- | Of a file's first bytes: Go's linker leaves a note, and older ones a text.
isGo :: ByteString -> Bool
isGo bytes = ByteString.take 4 bytes == Chars.pack "\DELELF" && (Chars.pack "Go build ID" `ByteString.isInfixOf` bytes || any hasNote notes)
  where
    notes = maybe [] (filter ((== 4) . segmentKind)) (decoded programHeaders bytes)
    -- Of type 4, by "Go".
    hasNote segment = Chars.pack "\4\0\0\0Go\0\0" `ByteString.isInfixOf` contentOf segment bytes

-- | The names that the loader needs for a program, each ended by a zero: those of libraries and of
-- symbols, at most 16 MiB of them. Then the one by which others load this file.
data Names = Names !ByteString !(Maybe String)

dynamicNames :: FilePath -> ByteString -> IO Names
dynamicNames file start = withBinaryFile file ReadMode $ \handle -> do
  let segments = fromMaybe [] (decoded programHeaders start)
      at from size = hSeek handle AbsoluteSeek (fromIntegral from) >> ByteString.hGet handle (fromIntegral (min 16777216 size))
      place address = listToMaybe [address - segmentAddress s + segmentFrom s | s <- segments, segmentKind s == 1, address >= segmentAddress s, address - segmentAddress s < segmentSize s]
  dynamic <- maybe (pure ByteString.empty) (\s -> at (segmentFrom s) (segmentSize s)) (find ((== 2) . segmentKind) segments)
  let entries = fromMaybe [] (decoded (replicateM (ByteString.length dynamic `div` 16) ((,) <$> getWord64host <*> getWord64host)) dynamic)
  names <- case (lookup 5 entries >>= place, lookup 10 entries) of
    (Just from, Just size) -> at from size
    _ -> pure ByteString.empty
  let nameAt offset = Chars.unpack (Chars.takeWhile (/= '\0') (ByteString.drop (fromIntegral offset) names))
  pure (Names names (nameAt <$> lookup 14 entries))

-- | The sanitizer that such names tell of.
sanitizerIn :: ByteString -> Maybe String
sanitizerIn names = listToMaybe [name | word <- ByteString.split 0 names, (name, marks) <- sanitizers, any (`ByteString.isPrefixOf` word) marks]
  where
    sanitizers =
      [ ("HWAddressSanitizer", marksOf "hwasan"),
        ("AddressSanitizer", marksOf "asan"),
        ("ThreadSanitizer", marksOf "tsan"),
        ("MemorySanitizer", marksOf "msan"),
        ("LeakSanitizer", marksOf "lsan")
      ]
    marksOf short = map Chars.pack ["lib" ++ short ++ ".so", "libclang_rt." ++ short, "__" ++ short ++ "_init"]

data Segment = Segment {segmentKind :: !Int, segmentFrom :: !Word64, segmentAddress :: !Word64, segmentSize :: !Word64}

-- | As far as the first bytes of the file have it.
contentOf :: Segment -> ByteString -> ByteString
contentOf segment = ByteString.take (fromIntegral (segmentSize segment)) . ByteString.drop (fromIntegral (segmentFrom segment))

-- | Of a file of 64 bits in this machine's byte order.
programHeaders :: Get [Segment]
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
      address <- getWord64host
      skip 8
      bytes <- getWord64host
      skip 16
      pure (Segment (fromIntegral kind) from address bytes)

-- | Why a library cannot be put before it, whatever the library is.
unfit :: Described -> Maybe String
unfit described = case describedProgram described of
  Unknown -> Nothing
  Script _ -> Nothing
  Loader _ -> Nothing
  Foreign -> Just "it is a program for another machine"
  Static
    | describedGo described -> Just "it is statically linked and written in Go, which makes system calls of its own: no library can stand before them"
    | otherwise -> Just "it is statically linked: no library can stand before its own code"
  Privileged -> Just "it changes its user or group at start, so the system ignores preloaded libraries"
  Dynamic linker
    | "ld-linux" `isPrefixOf` takeFileName linker -> Nothing
    | otherwise -> Just ("its C library is not glibc (" ++ linker ++ ")")

-- | Why a library before its own would keep it from starting, or have its loader complain. To the
-- others that are 'unfit' it does nothing, and what they start may have it.
spoiled :: Described -> Maybe String
spoiled described = case describedProgram described of
  Foreign -> unfit described
  Dynamic _ -> unfit described
  _ -> Nothing
