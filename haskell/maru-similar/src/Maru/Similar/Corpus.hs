{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Reading a collection of submissions.
--
-- A submission is a direct child, file or folder, of a path; of a folder, all
-- source files below it, sorted by path. A path that is itself a file is one
-- submission. Whatever is not read is named with the reason: nothing is skipped
-- silently. Names are bytes, in any locale.
--
-- A symbolic link is followed where it stays inside its submission; one that
-- leads out of it (to a fellow's, to @/etc@) is left out. The given paths
-- themselves may be links. No folder and no file is read twice for one
-- submission, so loops end. Pipes, sockets and devices are never opened.
module Maru.Similar.Corpus
  ( Language (..),
    Entry (..),
    Source (..),
    LeftOut (..),
    Corpus (..),
    BadPath (..),
    readCorpus,
    controlBytes,
  )
where

import Control.Exception (IOException, bracket, try)
import Control.Monad (unless)
import Data.Bits ((.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Function (on)
import Data.IORef
import Data.List (groupBy, sort, sortOn)
import qualified Data.Set as Set
import qualified Data.Text.Encoding as T
import qualified Data.Text.Encoding.Error as T
import Data.Word (Word8)
import Foreign.C.Error (throwErrnoIfNull)
import Foreign.C.String (CString)
import Foreign.Marshal.Alloc (free)
import Foreign.Ptr (Ptr, nullPtr)
import Maru.Similar.Lexer.Java (lexJava)
import Maru.Similar.Shape (notJava)
import System.IO (hClose)
import System.IO.Error (ioeGetErrorString, isDoesNotExistError)
import System.Posix.ByteString
import System.Posix.Error (throwErrnoPathIfMinus1Retry)
import System.Posix.Internals (c_open, o_NOCTTY, o_NONBLOCK, o_RDONLY)

-- | Which files are source files.
data Language
  = -- | Those whose name says so (@.java@).
    LanguageAuto
  | -- | The same below a folder; a file given by itself is Java whatever its
    -- name.
    Java
  deriving (Eq, Show, Enum, Bounded)

data Source = Source
  { sourcePath :: !RawFilePath,
    sourceBytes :: !ByteString
  }
  deriving (Eq, Show)

-- | A submission, not yet looked into.
data Entry = Entry
  { -- | Its path below the given path; prefixed with that where it would be
    -- ambiguous.
    entryName :: !ByteString,
    -- | At least one.
    entrySources :: ![Source]
  }
  deriving (Eq, Show)

-- | A file or folder that was not read, and why.
data LeftOut = LeftOut
  { leftOutPath :: !RawFilePath,
    leftOutReason :: !ByteString
  }
  deriving (Eq, Ord, Show)

data Corpus = Corpus
  { -- | By name.
    corpusEntries :: ![Entry],
    -- | The template code, all bases together.
    corpusBase :: ![Source],
    -- | By path.
    corpusLeftOut :: ![LeftOut]
  }
  deriving (Eq, Show)

-- | A given path that cannot be used, and why.
data BadPath = BadPath !RawFilePath !ByteString
  deriving (Eq, Show)

-- | Identity of a file: device and inode.
type FileKey = (DeviceID, FileID)

-- | Read the submissions of the paths, and the base (paths of files or folders
-- that hold template code).
readCorpus :: Language -> [RawFilePath] -> [RawFilePath] -> IO (Either BadPath Corpus)
readCorpus language bases paths = do
  bad <- firstBad (bases ++ paths)
  case bad of
    Just b -> pure (Left b)
    Nothing -> do
      log_ <- newIORef []
      baseKeys <- mapM fileKey bases
      base <- concat <$> mapM (readTree log_ Set.empty language) bases
      seen <- newIORef (Set.fromList baseKeys)
      entries <- concat <$> mapM (readPath log_ seen language) paths
      missed <- readIORef log_
      pure (Right (Corpus (nameAll entries) base (sort missed)))

firstBad :: [RawFilePath] -> IO (Maybe BadPath)
firstBad = \case
  [] -> pure Nothing
  p : ps ->
    try (usable p) >>= \case
      Right (Just why) -> pure (Just (BadPath p why))
      Left e -> pure (Just (BadPath p (reasonOf e)))
      Right Nothing -> firstBad ps
  where
    usable p = do
      status <- getFileStatus p
      if isDirectory status
        then Nothing <$ listFolder p
        else pure (if isRegularFile status then Nothing else Just (kindOf status))

type Log = IORef [LeftOut]

leaveOut :: Log -> RawFilePath -> ByteString -> IO ()
leaveOut log_ path why = modifyIORef' log_ (LeftOut path why :)

-- | Path, name below it, sources.
type Found = (RawFilePath, ByteString, [Source])

-- | The submissions of one path. No child is taken twice, also over several
-- paths.
readPath :: Log -> IORef (Set.Set FileKey) -> Language -> RawFilePath -> IO [Found]
readPath log_ seen language path = do
  status <- getFileStatus path
  if isDirectory status
    then do
      children <- listFolder path
      concat <$> mapM (child (deviceID status, fileID status)) children
    else submission Set.empty path path
  where
    -- A link back to the path itself would make all submissions one more.
    child folder name
      | hidden name = [] <$ leaveOut log_ (path </> name) "hidden"
      | otherwise =
        try (leadsOut (path </> name) (path </> name)) >>= \case
          Left e -> [] <$ leaveOut log_ (path </> name) (reasonListed e)
          Right True -> [] <$ leaveOut log_ (path </> name) outOf
          Right False -> submission (Set.singleton folder) (path </> name) name
    submission closed full name =
      try (fileKey full) >>= \case
        Left e -> [] <$ leaveOut log_ full (reasonListed e)
        Right key -> do
          known <- Set.member key <$> readIORef seen
          if known
            then [] <$ leaveOut log_ full "already read, or part of the base"
            else do
              modifyIORef' seen (Set.insert key)
              sources <- readTree log_ closed (if full == path then language else LanguageAuto) full
              pure [(path, name, sources) | not (null sources)]

-- | All sources of a file or folder, but of none that is closed. A folder
-- without any is left out itself.
readTree :: Log -> Set.Set FileKey -> Language -> RawFilePath -> IO [Source]
readTree log_ closed language top = do
  visited <- newIORef closed
  found <- go visited top
  isFolder <- either noFolder isDirectory <$> try (getFileStatus top)
  -- Where the folder itself was just left out, its reason is there.
  named <- any ((== top) . leftOutPath) . take 1 <$> readIORef log_
  if null found && isFolder && not named
    then [] <$ leaveOut log_ top "holds no Java source that can be read"
    else pure found
  where
    noFolder :: IOException -> Bool
    noFolder _ = False
    go visited path =
      try (visit visited path) >>= \case
        Right sources -> pure sources
        Left e -> [] <$ leaveOut log_ path (reasonListed e)
    visit visited path = do
      status <- getFileStatus path
      outside <- if path == top then pure False else leadsOut top path
      let key = (deviceID status, fileID status)
      known <- Set.member key <$> readIORef visited
      unless outside $ modifyIORef' visited (Set.insert key)
      case () of
        _
          | outside -> [] <$ leaveOut log_ path outOf
          | known -> [] <$ leaveOut log_ path "reached before by another way (a link)"
          | isDirectory status -> do
            names <- listFolder path
            concat <$> mapM (below visited path) names
          | not (isRegularFile status) -> [] <$ leaveOut log_ path (kindOf status)
          | not (isSource (if path == top then language else LanguageAuto) path) -> [] <$ leaveOut log_ path "not a Java file"
          | otherwise -> readSource log_ path (fileSize status)
    below visited path name
      | hidden name = [] <$ leaveOut log_ (path </> name) "hidden"
      | otherwise = go visited (path </> name)

-- | Whether a path is a symbolic link whose target is not below that folder. The
-- target of a submission that is itself a link is not the submission.
leadsOut :: RawFilePath -> RawFilePath -> IO Bool
leadsOut top path = do
  link <- isSymbolicLink <$> getSymbolicLinkStatus path
  if not link
    then pure False
    else do
      target <- realPath path
      inside <- if path == top then pure Nothing else Just <$> realPath top
      pure (maybe True (\folder -> folder /= target && not ((folder </> "") `B.isPrefixOf` target)) inside)

outOf :: ByteString
outOf = "a symbolic link out of the submission; not followed"

-- | Absolute, without links.
realPath :: RawFilePath -> IO RawFilePath
realPath path = B.useAsCString path $ \name ->
  bracket (throwErrnoIfNull "realpath" (c_realpath name nullPtr)) free B.packCString

foreign import ccall safe "realpath" c_realpath :: CString -> Ptr () -> IO CString

isSource :: Language -> RawFilePath -> Bool
isSource language path = language == Java || ".java" `B.isSuffixOf` path

readSource :: Log -> RawFilePath -> FileOffset -> IO [Source]
readSource log_ path size
  | size == 0 = [] <$ leaveOut log_ path "empty"
  | size > largestSource = [] <$ leaveOut log_ path "larger than 1 GiB"
  | otherwise = do
    bytes <- decode <$> readBytes path
    if isBinary bytes
      then [] <$ leaveOut log_ path "binary"
      else pure [Source path bytes]

-- | A program with control bytes in a comment or a literal is none: it compiles.
isBinary :: ByteString -> Bool
isBinary bytes = controlBytes bytes > 0 && notJava (lexJava bytes)

-- | How many bytes no text has: controls other than white space, and than the
-- Ctrl-Z that may end a program. O(n).
controlBytes :: ByteString -> Int
controlBytes = B.foldl' (\n w -> if control w then n + 1 else n) 0
  where
    control :: Word8 -> Bool
    control w = w < 9 || (w > 13 && w < 32 && w /= 26) || w == 127

largestSource :: FileOffset
largestSource = 1024 * 1024 * 1024

-- | Without waiting, should the file have become a pipe by now.
readBytes :: RawFilePath -> IO ByteString
readBytes path = do
  fd <- B.useAsCString path $ \p ->
    throwErrnoPathIfMinus1Retry "open" (BC.unpack path) (c_open p (o_RDONLY .|. o_NONBLOCK .|. o_NOCTTY) 0)
  handle <- fdToHandle (fromIntegral fd)
  bytes <- B.hGetContents handle
  hClose handle
  pure bytes

-- | UTF-16 is seen by its byte order mark.
decode :: ByteString -> ByteString
decode bytes
  | "\xff\xfe" `B.isPrefixOf` bytes = T.encodeUtf8 (T.decodeUtf16LEWith T.lenientDecode (B.drop 2 bytes))
  | "\xfe\xff" `B.isPrefixOf` bytes = T.encodeUtf8 (T.decodeUtf16BEWith T.lenientDecode (B.drop 2 bytes))
  | otherwise = bytes

-- | Sorted by bytes, without @.@ and @..@.
listFolder :: RawFilePath -> IO [ByteString]
listFolder path = do
  stream <- openDirStream path
  names <- collect stream
  closeDirStream stream
  pure (sort (filter (`notElem` [".", ".."]) names))
  where
    collect stream = do
      name <- readDirStream stream
      if B.null name then pure [] else (name :) <$> collect stream

fileKey :: RawFilePath -> IO FileKey
fileKey path = (\s -> (deviceID s, fileID s)) <$> getFileStatus path

hidden :: ByteString -> Bool
hidden name = "." `B.isPrefixOf` name

kindOf :: FileStatus -> ByteString
kindOf status
  | isNamedPipe status = "a pipe, not a file"
  | isSocket status = "a socket, not a file"
  | otherwise = "a device, not a file"

reasonOf :: IOException -> ByteString
reasonOf e
  | isDoesNotExistError e = "does not exist"
  | otherwise = "cannot be read: " <> BC.pack (ioeGetErrorString e)

-- | The reason for what its folder lists.
reasonListed :: IOException -> ByteString
reasonListed e
  | isDoesNotExistError e = "a broken symbolic link, or removed meanwhile"
  | otherwise = reasonOf e

(</>) :: RawFilePath -> ByteString -> RawFilePath
folder </> name
  | "/" `B.isSuffixOf` folder = folder <> name
  | otherwise = folder <> "/" <> name

-- | Names that occur more than once are prefixed by the path they came from.
nameAll :: [Found] -> [Entry]
nameAll found = sortOn entryName (concatMap named (groupBy ((==) `on` nameOf) (sortOn nameOf found)))
  where
    nameOf (_, name, _) = name
    named [(_, name, sources)] = [Entry name sources]
    named same = [Entry (path </> name) sources | (path, name, sources) <- same]
