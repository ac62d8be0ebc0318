{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Reading a collection of submissions.
--
-- A submission is a direct child of a path: a file, a folder with all source files below it, or an
-- archive with all source files in it. A path that is itself a file is one submission; one that is
-- an archive is a folder of submissions, as a learning platform exports them. Names are bytes, in
-- any locale. Whatever is not read is named with the reason: nothing is skipped silently
-- ("Maru.Similar.Corpus.Walk" says what is followed and opened). The given paths themselves may be
-- links.
module Maru.Similar.Corpus
  ( -- * Collections
    Collection (..),
    collectionOf,
    readCollection,
    readCorpus,
    BadPath (..),

    -- * What was read
    Corpus (..),
    corpusOf,
    Entry (..),
    newEntry,
    Source (..),
    javaSource,
    LeftOut (..),
    Language (..),
    controlBytes,
    module Maru.Similar.Corpus.Encoding,
    module Maru.Similar.Corpus.Students,
  )
where

import Control.Exception (try)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import Data.Function (on)
import Data.IORef
import Data.List (foldl', groupBy, nub, partition, sort, sortOn)
import Data.Maybe (fromMaybe, isJust, mapMaybe)
import qualified Data.Set as Set
import Data.Word (Word32)
import Maru.Similar.Archive (Archive, BadPath (..), openArchive)
import Maru.Similar.Corpus.Encoding
import Maru.Similar.Corpus.Glob (excludedAt)
import Maru.Similar.Corpus.Member (Limits, defaultLimits)
import Maru.Similar.Corpus.Source (javaSource)
import Maru.Similar.Corpus.Students
import Maru.Similar.Corpus.Walk
import Maru.Similar.Language (Language (..), controlBytes)
import System.Posix.ByteString

-- | What is to be read.
data Collection = Collection
  { -- | 'Nothing': by their names, all that are known.
    collectionLanguage :: !(Maybe Language),
    -- | Files, folders and archives that hold template code.
    collectionBases :: ![RawFilePath],
    -- | As the paths, of role @Archive@.
    collectionArchives :: ![RawFilePath],
    -- | The folder of an index whose submissions are old ones, too; with the recipe of its views.
    collectionIndex :: !(Maybe (Word32, RawFilePath)),
    -- | Whether the path stands before each name, also where that is not ambiguous.
    collectionLongNames :: !Bool,
    -- | Patterns of paths below the given ones ('excludedAt').
    collectionExcludes :: ![ByteString],
    collectionStudents :: !Students,
    collectionLimits :: !Limits,
    -- | Is told now and then which share has been read.
    collectionTell :: !(Double -> IO ()),
    collectionPaths :: ![RawFilePath]
  }

-- | All submissions of the paths, each somebody's own.
collectionOf :: [RawFilePath] -> Collection
collectionOf = Collection Nothing [] [] Nothing False [] noStudents defaultLimits (const (pure ()))

-- | A submission, not yet looked into.
data Entry = Entry
  { -- | Its path below the given path; prefixed with that where it would be
    -- ambiguous.
    entryName :: !ByteString,
    -- | At least one.
    entrySources :: ![Source],
    -- | Whose it is; empty where nothing says so.
    entryStudents :: ![ByteString],
    -- | @New@ or @Archive@.
    entryRole :: !Role
  }
  deriving (Eq, Show)

-- | Somebody's own, and new.
newEntry :: ByteString -> [Source] -> Entry
newEntry name sources = Entry name sources [] New

data Corpus = Corpus
  { -- | New ones first; by name.
    corpusEntries :: ![Entry],
    -- | More old ones, which come last.
    corpusArchive :: !(Maybe Archive),
    -- | The template code, all bases together.
    corpusBase :: ![Source],
    -- | By path.
    corpusLeftOut :: ![LeftOut],
    -- | Sources that are not UTF-8, by path: how they were read.
    corpusGuessed :: ![(RawFilePath, Encoding)],
    -- | Headers (@.h@) that were taken for C++, by what they hold; by path.
    corpusHeaders :: ![RawFilePath],
    -- | What the list of students names and the collection does not have.
    corpusMissing :: ![ByteString]
  }
  deriving (Eq, Show)

-- | Submissions and template code that are at hand, by name.
corpusOf :: [Entry] -> [Source] -> Corpus
corpusOf entries base = Corpus (newFirst entries) Nothing base [] [] [] []

newFirst :: [Entry] -> [Entry]
newFirst = uncurry (++) . partition ((== New) . entryRole)

-- | The submissions of the paths, and the base.
readCorpus :: Maybe Language -> [RawFilePath] -> [RawFilePath] -> IO (Either BadPath Corpus)
readCorpus language bases paths = readCollection (collectionOf paths) {collectionLanguage = language, collectionBases = bases}

readCollection :: Collection -> IO (Either BadPath Corpus)
readCollection c = do
  bad <- firstBad (collectionBases c ++ collectionPaths c ++ collectionArchives c)
  case bad of
    Just b -> pure (Left b)
    Nothing -> readUsable c {collectionPaths = map normalised (collectionPaths c), collectionArchives = map normalised (collectionArchives c)}

-- | The same path in its plain form, so that a submission has one name however its path was typed:
-- without @.@ and with single slashes. @..@ stays, for a link may stand before it.
normalised :: RawFilePath -> RawFilePath
normalised path = if B.null plain then (if absolute then "/" else ".") else (if absolute then "/" else "") <> plain
  where
    absolute = "/" `B.isPrefixOf` path
    plain = BC.intercalate "/" (filter (`notElem` ["", "."]) (BC.split '/' path))

readUsable :: Collection -> IO (Either BadPath Corpus)
readUsable c = do
  given <- mapM fileKey (collectionPaths c ++ collectionArchives c)
  env <- newEnv (collectionTell c) (collectionLimits c) (collectionLanguage c) (\path -> least (mapMaybe (`excludedAt` path) (collectionExcludes c))) (Set.fromList given)
  baseKeys <- mapM fileKey (collectionBases c)
  base <- concat <$> mapM (readTree env True "") (collectionBases c)
  -- A submission may hold template code.
  writeIORef (envFolders env) Set.empty
  mapM placeOf (collectionBases c) >>= writeIORef (envPlaces env) . Set.fromList
  seen <- newIORef (Set.fromList baseKeys)
  new <- concat <$> mapM (readPath env seen New) (collectionPaths c)
  old <- concat <$> mapM (readPath env seen Archive) (collectionArchives c)
  let read' = nameAll (collectionLongNames c) (new ++ old)
  try (mapM (uncurry openArchive) (collectionIndex c)) >>= either (pure . Left) (fmap Right . assembled c env base read')
  where
    least = foldl' (\a b -> Just (maybe b (min b) a)) Nothing

-- | What the list of students says is applied last: it goes by names.
assembled :: Collection -> Env -> [Source] -> [Entry] -> Maybe Archive -> IO Corpus
assembled c env base entries archive = do
  mapM_ (\e -> leaveOut env (entryName e) "ignored: the list of students says so") ignored
  missed <- readIORef (envLog env)
  guessed <- readIORef (envGuessed env)
  headers <- readIORef (envHeaders env)
  pure
    Corpus
      { corpusEntries = newFirst kept,
        corpusArchive = archive,
        corpusBase = base ++ concatMap entrySources templates,
        corpusLeftOut = sort missed,
        corpusGuessed = sort guessed,
        corpusHeaders = sort headers,
        corpusMissing = unmatched (collectionStudents c) (map entryName entries)
      }
  where
    owned = map own entries
    own e = e {entryStudents = nub (studentsOf list (entryName e)), entryRole = fromMaybe (entryRole e) (roleOf list (entryName e))}
    list = collectionStudents c
    (templates, others) = partition ((== Base) . entryRole) owned
    (ignored, kept) = partition ((== Ignored) . entryRole) others

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

-- | Path, name below it, sources, role.
type Found = (RawFilePath, ByteString, [Source], Role)

-- | The submissions of one path. No child is taken twice, also over several paths, of which one may
-- lie in the other. A submission that is compared with itself is no copy. Of folders those that were
-- seen are known.
readPath :: Env -> IORef (Set.Set FileKey) -> Role -> RawFilePath -> IO [Found]
readPath env seen role path = do
  status <- getFileStatus path
  case archiveKind path of
    _ | isDirectory status -> do
      let key = (deviceID status, fileID status)
      known <- Set.member key <$> readIORef (envFolders env)
      -- A link back to the path itself would make all submissions one more.
      modifyIORef' (envFolders env) (Set.insert key)
      children <- if known then [] <$ leaveOut env path alreadyRead else listFolder path
      concat <$> mapM (share (length children) (child key)) (zip [1 ..] children)
    Just kind -> do
      fresh <- unseen (placeOf path) path
      if fresh then readWhole env largestArchive path >>= maybe (pure []) (fmap members . archiveSources env 1 path "" kind) else pure []
    Nothing -> submission (placeOf path) path path
  where
    share :: Int -> (ByteString -> IO a) -> (Int, ByteString) -> IO a
    share n one (i, name) = one name <* envTell env (fromIntegral i / fromIntegral n)
    child folder name
      | hidden name = [] <$ leaveOut env (path </> name) "hidden"
      | isJust (envExcluded env name) = [] <$ leaveOut env (path </> name) "excluded"
      | otherwise =
        try (leadsOut (path </> name) (path </> name)) >>= \case
          Left e -> [] <$ leaveOut env (path </> name) (reasonListed e)
          Right True -> [] <$ leaveOut env (path </> name) outOf
          -- It is no link.
          Right False -> submission (pure (folder, name)) (path </> name) name
    submission place full name = do
      fresh <- unseen place full
      if not fresh
        then pure []
        else do
          sources <- readTree env (full == path) (if full == path then "" else name) full
          pure [(path, name, sources, role) | not (null sources)]
    unseen place full =
      try (met place full) >>= \case
        Left e -> False <$ leaveOut env full (reasonListed e)
        Right known -> if known then False <$ leaveOut env full alreadyRead else pure True
    met place full = do
      status <- getFileStatus full
      let key = (deviceID status, fileID status)
      if isDirectory status
        then (Set.member key <$> readIORef seen) <* modifyIORef' seen (Set.insert key)
        else place >>= takes env
    members found = [(path, name, sources, role) | (name, sources) <- grouped (unwrapped found)]

-- | Sources by the first part of their path.
grouped :: [(ByteString, a)] -> [(ByteString, [a])]
grouped found = [(name, map snd same) | same@((name, _) : _) <- groupBy ((==) `on` fst) (map (first (BC.takeWhile (/= '/'))) found)]

-- | Without the one folder that everything lies in, where that is the archive's own and not a
-- submission: it holds nothing but folders and archives, and two of them.
unwrapped :: [(ByteString, a)] -> [(ByteString, a)]
unwrapped found = case grouped found of
  [_] | length (grouped inner) > 1, all (BC.elem '/' . fst) inner -> inner
  _ -> found
  where
    inner = [(B.drop 1 (BC.dropWhile (/= '/') name), x) | (name, x) <- found]

-- | Names that occur more than once, or all, are prefixed by the path they came from.
nameAll :: Bool -> [Found] -> [Entry]
nameAll long found = sortOn entryName (concatMap named (groupBy ((==) `on` nameOf) (sortOn nameOf found)))
  where
    nameOf (_, name, _, _) = name
    named [(path, name, sources, role)] | not long || path == name = [Entry name sources [] role]
    named same = [Entry (path </> name) sources [] role | (path, name, sources, role) <- same]
