{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | Making an index, and adding submissions to it ("Maru.Similar.Archive").
--
-- What is new is indexed in batches and merged with what was there into a file of its own, which
-- takes the place of the old one when it is whole and on the disk. So whatever dies, the index is
-- as before or as asked. One writes at a time: the lock of the folder goes with its process.
--
-- The file does not depend on how submissions of different names came: one by one, or all at once.
-- Of one name, the first to come has it, and the others have numbers.
module Maru.Similar.Extend
  ( extend,
    Extended (..),
  )
where

import Control.Exception (bracket, evaluate, onException, throwIO, try)
import Control.Monad (forM, forM_, unless, when)
import Data.Bits ((.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (toLazyByteString, word64LE)
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import qualified Data.ByteString.Unsafe as B
import Data.Either (partitionEithers)
import Data.List (foldl', mapAccumL, partition, sortOn)
import qualified Data.Map.Strict as Map
import Data.Maybe (listToMaybe)
import qualified Data.Vector.Storable as VS
import Data.Word (Word32, Word64)
import Foreign.C.Error (eWOULDBLOCK, getErrno)
import Foreign.C.Types
import Foreign.Ptr (castPtr)
import Maru.Similar.Analyse
import Maru.Similar.Archive
import Maru.Similar.Config
import Maru.Similar.Corpus
import Maru.Similar.Corpus.Walk (listFolder, (</>))
import Maru.Similar.Fingerprint
import Maru.Similar.Language (familiesOf)
import Maru.Similar.Open
import Maru.Similar.Pairs (ParallelMap)
import Maru.Similar.Store
import Maru.Similar.Submission
import Maru.Similar.Views
import System.IO (hClose)
import System.IO.Error (catchIOError, isAlreadyExistsError, isDoesNotExistError)
import System.Posix.ByteString

-- | What became of it.
data Extended = Extended
  { -- | How many submissions the index has now.
    extendedAll :: !Int,
    extendedAdded :: !Int,
    -- | Those that it had before, the same under the same name.
    extendedKnown :: !Int,
    -- | Those that it has under another name now, for it had others under theirs.
    extendedRenamed :: ![(ByteString, ByteString)],
    -- | Those that it had before under another name, with that; added all the same.
    extendedTwins :: ![(ByteString, ByteString)],
    -- | Known ones that the list of students now says other owners of.
    extendedOwners :: !Int,
    extendedLeftOut :: ![LeftOut]
  }

-- | Add a corpus of new submissions to the index of a folder; made if it is not there. Is told which
-- share is done. Throws 'BadPath' and 'CannotWrite'.
extend :: ParallelMap -> Config -> (Double -> IO ()) -> RawFilePath -> Corpus -> IO Extended
extend parallel config tell folder corpus = locked folder $ do
  present <- fileExist (archiveFile folder)
  old <- if present then Just <$> openArchive (recipeOf config) folder else pure Nothing
  mapM_ (fitting (configMinMatch config) (corpusBase corpus)) old
  let before = maybe Map.empty namesOf old
      minMatch = if null (corpusBase corpus) then maybe 0 archiveMinMatch old else configMinMatch config
      (known, items) = newIn before (corpusEntries corpus)
      twin = twinIn before
      owners = Map.mapMaybe id (Map.fromList [(n, newOwners e =<< Map.lookup n before) | (n, e) <- known])
      batches = zip [1 :: Int ..] (chunksOf batchSize (sortOn itemName items))
      share i = tell (0.7 * fromIntegral i / fromIntegral (length batches))
  made <- forM batches (\(i, some) -> batch parallel config folder (baseOf config (corpusBase corpus)) some <* share i)
  let added = sum (map (length . batchItems) made)
  unless (added == 0 && Map.null owners) $ replaced config folder minMatch (newlyOwned owners) old made
  tell 1
  pure
    Extended
      { extendedAll = maybe 0 archiveCount old + added,
        extendedAdded = added,
        extendedKnown = length known,
        extendedRenamed = [(entryName (itemEntry i), itemName i) | b <- made, (i, _) <- batchItems b, itemName i /= entryName (itemEntry i)],
        extendedTwins = [(itemName i, name) | b <- made, (i, _) <- batchItems b, Just name <- [twin i]],
        extendedOwners = Map.size owners,
        extendedLeftOut = corpusLeftOut corpus ++ concatMap batchVoid made
      }

recipeOf :: Config -> Word32
recipeOf = recipe . configGrammars

-- | Submissions that are analysed and sorted at once: what that takes of memory.
batchSize :: Int
batchSize = 4096

chunksOf :: Int -> [a] -> [[a]]
chunksOf n xs = case splitAt n xs of
  ([], _) -> []
  (chunk, rest) -> chunk : chunksOf n rest

-- | A new submission with the name that it gets.
data Item = Item {itemName :: !ByteString, itemFingerprint :: !Word64, itemEntry :: !Entry}

-- | What is there under a name: its fingerprint, its owners and, read when they are asked for, what
-- its files hold.
data Known = Known !Word64 ![ByteString] [Source]

namesOf :: Archive -> Map.Map ByteString Known
namesOf a = Map.fromList [(submissionName s, Known (archiveFingerprint a i) (submissionStudents s) (archiveSources a i)) | i <- [0 .. archiveCount a - 1], let s = archiveSubmission a i]

-- | Whether both hold the same in the same languages: equal fingerprints alone could be by chance.
holds :: Known -> Word64 -> Entry -> Bool
holds (Known hash _ sources) hash' e = hash == hash' && map held sources == map held (entrySources e)
  where
    held source = (sourceLanguage source, sourceBytes source)

-- | And at the same paths.
is :: Known -> Word64 -> Entry -> Bool
is there@(Known _ _ sources) hash e = holds there hash e && map sourcePath sources == map sourcePath (entrySources e)

-- | Those that are known, by name, and the others. What has the name of one that holds something
-- else gets a number.
newIn :: Map.Map ByteString Known -> [Entry] -> ([(ByteString, Entry)], [Item])
newIn known entries = partitionEithers (concat (snd (mapAccumL next known entries)))
  where
    next names e = named (entryName e : [entryName e <> " (" <> BC.pack (show n) <> ")" | n <- [2 :: Int ..]])
      where
        hash = fingerprint (map sourceBytes (entrySources e))
        named (name : others) = case Map.lookup name names of
          Nothing -> (Map.insert name (Known hash (entryStudents e) (entrySources e)) names, [Right (Item name hash e)])
          Just there | is there hash e -> (names, [Left (name, e)])
          _ -> named others
        named [] = (names, [])

-- | Under which other name the same is there.
twinIn :: Map.Map ByteString Known -> Item -> Maybe ByteString
twinIn known = \i -> listToMaybe [name | (name, there) <- Map.findWithDefault [] (itemFingerprint i) byHash, holds there (itemFingerprint i) (itemEntry i)]
  where
    byHash = Map.fromListWith (flip (++)) [(hash, [(name, there)]) | (name, there@(Known hash _ _)) <- Map.toList known]

-- | Who owns it by the list of students, where that says so and it said something else before.
newOwners :: Entry -> Known -> Maybe [ByteString]
newOwners e (Known _ owners _)
  | null (entryStudents e) || entryStudents e == owners = Nothing
  | otherwise = Just (entryStudents e)

newlyOwned :: Map.Map ByteString [ByteString] -> Submission -> Submission
newlyOwned owners s = s {submissionStudents = Map.findWithDefault (submissionStudents s) (submissionName s) owners}

-- | Views of some submissions, on the disk, and what else is kept of them.
data Batch = Batch {batchStore :: !Store, batchItems :: ![(Item, Kept)], batchVoid :: ![LeftOut]}

batch :: ParallelMap -> Config -> RawFilePath -> Base -> [Item] -> IO Batch
batch parallel config folder base items = do
  let analysed = parallel (analyse config base) (map (entrySources . itemEntry) items)
      (void, full) = partition (isVoid . snd) (zip items analysed)
      views = [v | (_, a) <- full, ViewsOf v <- [analysedCode a]]
      kept = [(i, k) | (i, a) <- full, let k = keptOf i a, k `seq` True]
  -- Else it would keep the views.
  _ <- evaluate (length kept)
  store <- writingArchive folder (storeOf config folder (length views) views)
  pure (Batch store kept [LeftOut (sourcePath s) "no code: only comments and white space" | (i, _) <- void, s <- entrySources (itemEntry i)])

keptOf :: Item -> Analysed -> Kept
keptOf i a = Kept (describe (itemEntry i) a) {submissionName = itemName i} (itemFingerprint i) (sum [8 + B.length (sourceBytes s) | s <- entrySources (itemEntry i)])

-- | A file without a name: it goes with its process.
storeOf :: Config -> RawFilePath -> Int -> [Views] -> IO Store
storeOf config folder n views = do
  fd <- fresh folder
  removeLink (unfinished folder)
  withWriter (recipeOf config) fd n $ \w -> do
    forM_ (zip3 [0 ..] gramLengths [structureView, lexicalView, namesView]) $ \(v, k, view) -> putView w v k (map view views)
    finish w
  openStore (recipeOf config) fd

-- | What is being written.
unfinished :: RawFilePath -> RawFilePath
unfinished = (</> ".maru-index-new")

-- | What it begins with, until its header takes the place of that.
mark :: ByteString
mark = "maru: an unfinished index\n"

-- | A new one, in the place of one that a command left that was killed. Another's file stays.
fresh :: RawFilePath -> IO Fd
fresh folder = do
  left <- try (getSymbolicLinkStatus path)
  case left of
    Left e | isDoesNotExistError e -> pure ()
    Left e -> ioError e
    Right status -> do
      ours <- if isRegularFile status then isUnfinished path else pure False
      unless ours . throwIO $ BadPath path (if isRegularFile status && fileSize status == 0 then "is empty, so it may be another's, and in the way of a new index: remove it" else "is no file of maru's, and in the way of a new index: move it away")
      removeLink path
  fd <- openNew path
  (fd <$ B.unsafeUseAsCStringLen mark (\(bytes, n) -> fdWriteBuf fd (castPtr bytes) (fromIntegral n))) `onException` removeLink path
  where
    path = unfinished folder

-- | Whether it was left when it was begun or whole. Of an empty one nobody can tell.
isUnfinished :: RawFilePath -> IO Bool
isUnfinished path = do
  begins <- bracket (openToRead path >>= fdToHandle) hClose (`B.hGet` B.length mark)
  if begins == mark then pure True else isIndex path

-- | The old ones, changed so, and the new ones, by name, as the index of the folder.
replaced :: Config -> RawFilePath -> Int -> (Submission -> Submission) -> Maybe Archive -> [Batch] -> IO ()
replaced config folder minMatch changed old made = writingArchive folder $ do
  let new = unfinished folder
  bracket (fresh folder) closeFd $ \fd ->
    withWriter (recipeOf config) fd (length ordered) (\w -> write w *> finish w) `onException` removeLink new
  rename new (archiveFile folder)
  bracket (openToRead folder) closeFd fileSynchronise
  where
    olds = [(submissionName (archiveSubmission a i), (0, Left (a, i))) | Just a <- [old], i <- [0 .. archiveCount a - 1]]
    news = [(itemName i, (s, Right (i, k))) | (s, b) <- zip [1 ..] made, (i, k) <- batchItems b]
    ordered = map snd (sortOn fst (olds ++ news))
    placesOf s = VS.fromList [p | (p, (s', _)) <- zip [0 ..] ordered, s' == (s :: Int)]
    sources = [(archiveStore a, placesOf 0) | Just a <- [old]] ++ [(batchStore b, placesOf s) | (s, b) <- zip [1 ..] made]
    write w = do
      let heads = map (headIn . snd) ordered
      putSection w Heads (wordsOf [length (filter owned ordered), minMatch, families])
      mapM_ (putSection w Heads) heads
      putSection w HeadFirst (wordsOf (scanl (+) 24 (map B.length heads)))
      sizes <- forM ordered $ \(_, x) -> do
        text <- textIn x
        B.length text <$ putSection w Texts text
      putSection w TextFirst (wordsOf (scanl (+) 0 sizes))
      forM_ [0 .. length gramLengths - 1] $ \v -> mergeView w v sources
    headIn x = case x of
      Left (a, i) -> keptHead ((archiveKept a i) {keptSubmission = changed (archiveSubmission a i)})
      Right (_, k) -> keptHead k
    textIn x = case x of
      Left (a, i) -> archiveText a i
      Right (i, _) -> pure (keptText (map sourceBytes (entrySources (itemEntry i))))
    families = fromIntegral (foldl' (.|.) (maybe 0 archiveFamilies old) [familiesOf (submissionLanguages (keptSubmission k)) | b <- made, (_, k) <- batchItems b])
    owned (_, x) = not . null . submissionStudents $ case x of
      Left (a, i) -> changed (archiveSubmission a i)
      Right (_, k) -> keptSubmission k

wordsOf :: [Int] -> ByteString
wordsOf = BL.toStrict . toLazyByteString . foldMap (word64LE . fromIntegral)

-- | Only one process at a time; in a folder of its own. Nothing is made in another one.
locked :: RawFilePath -> IO a -> IO a
locked folder act = do
  writingArchive folder (createDirectory folder 0o700 `catchIOError` (\e -> unless (isAlreadyExistsError e) (ioError e)))
  ours <- readingArchive folder (isOurs folder)
  unless ours $ throwIO (BadPath folder "is a folder of other things, no index: name a new or an empty one")
  bracket (writingArchive folder (openOrMake (folder </> "lock"))) closeFd $ \lock -> do
    taken <- c_flock (fromIntegral lock) (2 .|. 4)
    when (taken /= 0) $ do
      errno <- getErrno
      throwIO . BadPath folder $
        if errno == eWOULDBLOCK then "another command is writing this index: run this one again when that has ended" else "its lock cannot be taken"
    act

-- | New, an index, or what a command left that was killed before there was one.
isOurs :: RawFilePath -> IO Bool
isOurs folder = do
  names <- listFolder folder
  if "archive" `elem` names
    then isIndex (archiveFile folder)
    else pure (null names || "lock" `elem` names && all (`elem` ["lock", ".maru-index-new"]) names)

foreign import ccall safe "flock" c_flock :: CInt -> CInt -> IO CInt
