{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | Sources of files, folders and archives.
--
-- A symbolic link is followed where it stays inside its submission; one that leads out of it (to a
-- fellow's, to @/etc@) is left out. No folder and no file is read twice for one submission, so
-- loops end. Pipes, sockets and devices are never opened. Archives are read in memory, within
-- 'Limits'; nothing of them is followed. Whatever is not read is named with the reason.
module Maru.Similar.Corpus.Walk
  ( -- * What is read
    Source (..),
    LeftOut (..),

    -- * Reading
    Env (..),
    newEnv,
    leaveOut,
    alreadyRead,
    readTree,
    readWhole,
    largestArchive,
    archiveSources,
    archiveKind,
    ArchiveKind,

    -- * Files
    FileKey,
    fileKey,
    Place,
    placeOf,
    takes,
    listFolder,
    leadsOut,
    outOf,
    hidden,
    kindOf,
    reasonOf,
    reasonListed,
    (</>),
  )
where

import Control.Applicative ((<|>))
import Control.Exception (IOException, bracket, try)
import Control.Monad (unless, when)
import Data.Bits ((.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Char (toLower)
import Data.IORef
import Data.List (sort, sortOn)
import Data.Maybe (isJust)
import qualified Data.Set as Set
import Foreign.C.Error (throwErrnoIfNull)
import Foreign.C.String (CString)
import Foreign.Marshal.Alloc (free)
import Foreign.Ptr (Ptr, nullPtr)
import GHC.IO.Exception (ioe_description)
import Maru.Similar.Corpus.Encoding
import Maru.Similar.Corpus.Member hiding (Kind (..))
import qualified Maru.Similar.Corpus.Member as Member
import Maru.Similar.Corpus.Source
import Maru.Similar.Corpus.Tar
import Maru.Similar.Corpus.Zip
import Maru.Similar.Language
import System.IO (hClose)
import System.IO.Error (isDoesNotExistError)
import System.Posix.ByteString
import System.Posix.Error (throwErrnoPathIfMinus1Retry)
import System.Posix.Internals (c_open, o_NOCTTY, o_NONBLOCK, o_RDONLY)

-- | A file or folder that was not read, and why.
data LeftOut = LeftOut
  { leftOutPath :: !RawFilePath,
    leftOutReason :: !ByteString
  }
  deriving (Eq, Ord, Show)

-- | What holds for one reading, and what it has met so far.
data Env = Env
  { -- | Is told which share of a given path has been read.
    envTell :: !(Double -> IO ()),
    -- | Whose files are source files; 'Nothing': those of all languages that a name tells.
    envLanguage :: !(Maybe Language),
    -- | How many bytes of a path below a given one name what is left out (@excludedAt@).
    envExcluded :: !(ByteString -> Maybe Int),
    envLimits :: !Limits,
    -- | Bytes that archives may still unpack.
    envLeft :: !(IORef Int),
    envLog :: !(IORef [LeftOut]),
    -- | Folders that were read for a submission, or as a given path.
    envFolders :: !(IORef (Set.Set FileKey)),
    -- | The given paths: one may be a file in a folder that is a submission, too.
    envGiven :: !(Set.Set FileKey),
    -- | Files that a submission has: those that are one, and given ones.
    envPlaces :: !(IORef (Set.Set Place)),
    -- | Sources that are not UTF-8.
    envGuessed :: !(IORef [(RawFilePath, Encoding)]),
    -- | Headers that are of C++, by what they hold.
    envHeaders :: !(IORef [RawFilePath])
  }

newEnv :: (Double -> IO ()) -> Limits -> Maybe Language -> (ByteString -> Maybe Int) -> Set.Set FileKey -> IO Env
newEnv tell limits language excluded given = do
  left <- newIORef (limitTotal limits)
  missed <- newIORef []
  folders <- newIORef Set.empty
  places <- newIORef Set.empty
  Env tell language excluded limits left missed folders given places <$> newIORef [] <*> newIORef []

leaveOut :: Env -> RawFilePath -> ByteString -> IO ()
leaveOut env path why = modifyIORef' (envLog env) (LeftOut path why :)

alreadyRead :: ByteString
alreadyRead = "already read, or part of the base"

-- | Identity of a file: device and inode.
type FileKey = (DeviceID, FileID)

-- | Where a file lies: its folder, and its name there. Two hard links of one file are two places: two
-- submissions that share it are copies.
type Place = (FileKey, ByteString)

-- | Of a file, whatever links lead to it.
placeOf :: RawFilePath -> IO Place
placeOf path = do
  (folder, name) <- BC.breakEnd (== '/') <$> realPath path
  (,name) <$> fileKey folder

-- | Whether a submission has that file. From now on one does.
takes :: Env -> Place -> IO Bool
takes env place = do
  known <- Set.member place <$> readIORef (envPlaces env)
  known <$ modifyIORef' (envPlaces env) (Set.insert place)

-- | All sources of a file, folder or archive, but of no folder, and no given file, that another
-- submission has. Where there is none, it is left out itself. The first path is how @--exclude@ calls
-- it. Whether the file itself is one of the language whatever its name.
readTree :: Env -> Bool -> ByteString -> RawFilePath -> IO [Source]
readTree env given name top = do
  others <- readIORef (envFolders env)
  visited <- newIORef others
  found <- go others visited name top
  holds <- either noFolder (\s -> isDirectory s || isJust (archiveKind top)) <$> try (getFileStatus top)
  -- Where it itself was just left out, its reason is there.
  named <- any ((== top) . leftOutPath) . take 1 <$> readIORef (envLog env)
  if null found && holds && not named
    then [] <$ leaveOut env top "holds no source file that can be read"
    else pure found
  where
    noFolder :: IOException -> Bool
    noFolder _ = False
    go others visited at path =
      try (visit others visited at path) >>= \case
        Right sources -> pure sources
        Left e -> [] <$ leaveOut env path (reasonListed e)
    visit others visited at path = do
      status <- getFileStatus path
      outside <- if path == top then pure False else leadsOut top path
      let key = (deviceID status, fileID status)
      known <- Set.member key <$> readIORef visited
      unless outside $ modifyIORef' visited (Set.insert key)
      taken <- if path /= top && not outside && isRegularFile status && Set.member key (envGiven env) then placeOf path >>= takes env else pure False
      case () of
        _
          | outside -> [] <$ leaveOut env path outOf
          | Set.member key others -> [] <$ leaveOut env path alreadyRead
          | known -> [] <$ leaveOut env path "reached before by another way (a link)"
          | taken -> [] <$ leaveOut env path alreadyRead
          | isDirectory status -> do
            modifyIORef' (envFolders env) (Set.insert key)
            names <- listFolder path
            concat <$> mapM (below others visited at path) names
          | not (isRegularFile status) -> [] <$ leaveOut env path (kindOf status)
          | Just kind <- archiveKind path -> readWhole env largestArchive path >>= maybe (pure []) (fmap (map snd) . archiveSources env 1 path at kind)
          | Just language <- if path == top && given then envLanguage env <|> byName env path else byName env path ->
            readWhole env largestSource path >>= maybe (pure []) (source env language path)
          | otherwise -> [] <$ leaveOut env path (notSource env path)
    below others visited at path child
      | hidden child = [] <$ leaveOut env (path </> child) "hidden"
      | isJust (envExcluded env called) = [] <$ leaveOut env (path </> child) excludedBy
      | otherwise = go others visited called (path </> child)
      where
        -- A base has no name of its own.
        called = if B.null at then child else at </> child

-- | Of a source file.
byName :: Env -> RawFilePath -> Maybe Language
byName env path = maybe (languageOf path) (`languageWhere` path) (envLanguage env)

excludedBy :: ByteString
excludedBy = "excluded"

-- | Why a file of such a name is none.
notSource :: Env -> RawFilePath -> ByteString
notSource env path
  | closedArchive path = "an archive of a kind that maru does not open"
  | otherwise = maybe "not a source file" (\l -> "not a " <> languageTitle l <> " file") (envLanguage env)

-- | The source, if it is one.
source :: Env -> Language -> RawFilePath -> ByteString -> IO [Source]
source env language path bytes
  | B.null bytes = [] <$ leaveOut env path "empty"
  | binary language text = [] <$ leaveOut env path "binary"
  | otherwise = do
    unless (encoding == Utf8) $ modifyIORef' (envGuessed env) ((path, encoding) :)
    unless (held == language) $ modifyIORef' (envHeaders env) (path :)
    pure [Source held path text]
  where
    held = maybe (byContent language path text) (const language) (envLanguage env)
    encoding = encodingOf bytes
    text = decoded encoding bytes

largestSource, largestArchive :: FileOffset
largestSource = 1024 * 1024 * 1024
largestArchive = 4 * largestSource

-- | A regular file, if it is not too large.
readWhole :: Env -> FileOffset -> RawFilePath -> IO (Maybe ByteString)
readWhole env most path = do
  size <- fileSize <$> getFileStatus path
  if size > most
    then Nothing <$ leaveOut env path ("larger than " <> BC.pack (show (most `quot` (1024 * 1024 * 1024))) <> " GiB")
    else Just <$> readBytes path

-- | Without waiting, should the file have become a pipe by now.
readBytes :: RawFilePath -> IO ByteString
readBytes path = do
  fd <- B.useAsCString path $ \p ->
    throwErrnoPathIfMinus1Retry "open" (BC.unpack path) (c_open p (o_RDONLY .|. o_NONBLOCK .|. o_NOCTTY) 0)
  handle <- fdToHandle (fromIntegral fd)
  bytes <- B.hGetContents handle
  hClose handle
  pure bytes

-- Archives ----------------------------------------------------------------------

data ArchiveKind = Zip | Tar !Wrapping

-- | By the name.
archiveKind :: ByteString -> Maybe ArchiveKind
archiveKind path
  | ends ".zip" = Just Zip
  | ends ".tar" = Just (Tar Raw)
  | ends ".tar.gz" || ends ".tgz" = Just (Tar Gzip)
  | otherwise = Nothing
  where
    ends = (`B.isSuffixOf` BC.map toLower path)

-- | Archives that stay closed; their contents are missed.
closedArchive :: ByteString -> Bool
closedArchive path = any (`B.isSuffixOf` BC.map toLower path) [".rar", ".7z", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".gz", ".bz2", ".xz"]

-- | The sources in an archive, so many archives deep, and in those within it, each with its path
-- below the outermost, sorted by that. The paths are the archive's own, as it is named and as
-- @--exclude@ calls it.
archiveSources :: Env -> Int -> RawFilePath -> ByteString -> ArchiveKind -> ByteString -> IO [(ByteString, Source)]
archiveSources env depth path at kind bytes
  | depth > limitDepth (envLimits env) = [] <$ leaveOut env path "an archive too deep within archives; not opened"
  | otherwise = do
    known <- newIORef (Opened Set.empty 0)
    left <- readIORef (envLeft env)
    let every = memberSources env depth path at known
    (found, broken) <- case kind of
      Zip -> do
        let (members, broken) = zipMembers (envLimits env) bytes
            total = fromIntegral (length members) :: Double
            tell i = when (depth == 1 && B.null at) (envTell env (i / total))
        (,broken) <$> mapM (\(i, member) -> tell i >> every member) (zip [1 ..] members)
      -- How many members there are is not asked for: all that is unpacked would be kept for that.
      Tar wrapping | Tarred members unpacked broken <- tarMembers (envLimits env) left wrapping bytes -> do
        found <- mapM every members
        let Unpacked took why = unpacked
        charged <- openedBytes <$> readIORef known
        (found, why <|> broken) <$ charge env (took - charged)
    mapM_ (leaveOut env path) broken
    pure (sortOn (BC.split '/' . fst) (concat found))

-- | What is known of an archive: the names that were met, and the bytes of members that were unpacked.
data Opened = Opened
  { openedNames :: !(Set.Set ByteString),
    openedBytes :: !Int
  }

-- | Take from what archives may still unpack.
charge :: Env -> Int -> IO ()
charge env took = modifyIORef' (envLeft env) (\left -> max 0 (left - max 0 took))

memberSources :: Env -> Int -> RawFilePath -> ByteString -> IORef Opened -> Member -> IO [(ByteString, Source)]
memberSources env depth path at known member = case (safeName (memberName member), memberKind member) of
  (_, Member.Folder) -> pure []
  (Left why, _) -> [] <$ leaveOut env (path </> B.take longestName (memberName member)) why
  (Right name, kind)
    | (before, first : _) <- break hiddenName (BC.split '/' name) -> once (BC.intercalate "/" (before ++ [first])) "hidden"
    | Just end <- envExcluded env (above <> name) -> once (B.take (max 1 (end - B.length above)) name) excludedBy
    | otherwise -> do
      seen <- met name
      if seen then [] <$ leaveOut env (path </> name) "in its archive twice; the first is read" else opened name kind
  where
    opened name kind = case kind of
      Member.Refused why -> [] <$ leaveOut env (path </> name) why
      _
        | Just inner <- archiveKind name ->
          unpacked name >>= maybe (pure []) (fmap (map (below name)) . archiveSources env (depth + 1) (path </> name) (above <> name) inner)
        | Just language <- byName env name -> unpacked name >>= maybe (pure []) (fmap (map (name,)) . source env language (path </> name))
        | otherwise -> [] <$ leaveOut env (path </> name) (notSource env name)
    below name (inner, s) = (name </> inner, s)
    above = if B.null at then "" else at </> ""
    hiddenName part = hidden part || "__MACOSX" `B.isSuffixOf` part
    once folder why = do
      seen <- met folder
      unless seen $ leaveOut env (path </> folder) why
      pure []
    met what = do
      names <- openedNames <$> readIORef known
      Set.member what names <$ modifyIORef' known (\o -> o {openedNames = Set.insert what names})
    unpacked name = do
      left <- readIORef (envLeft env)
      let Gathered outcome took = gather (envLimits env) left member
      charge env took
      modifyIORef' known (\o -> o {openedBytes = openedBytes o + took})
      case outcome of
        Right content -> pure (Just content)
        Left why -> Nothing <$ leaveOut env (path </> name) why

-- Files -------------------------------------------------------------------------

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
  | otherwise = "cannot be read: " <> BC.pack (ioe_description e)

-- | The reason for what its folder lists.
reasonListed :: IOException -> ByteString
reasonListed e
  | isDoesNotExistError e = "a broken symbolic link, or removed meanwhile"
  | otherwise = reasonOf e

(</>) :: RawFilePath -> ByteString -> RawFilePath
folder </> name
  | "/" `B.isSuffixOf` folder = folder <> name
  | otherwise = folder <> "/" <> name
