{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | An index that is kept: the submissions of years, ready to be compared with new ones. Made and
-- extended by "Maru.Similar.Extend".
--
-- It is the file @archive@ of a folder. All that is used of it is checked when it is read; what is
-- wrong is a 'BadPath', thrown by whatever meets it. The file stays open: another command that
-- extends it writes another file.
module Maru.Similar.Archive
  ( Archive (..),
    archiveFile,
    openArchive,
    archiveCount,
    archiveSubmission,
    archiveFingerprint,
    archiveSources,
    archiveKept,
    archiveText,
    archivePlaces,
    archiveShuffled,
    fitting,
    readingArchive,
    writingArchive,
    isIndex,
    BadPath (..),
    CannotWrite (..),

    -- * What is kept of a submission
    Kept (..),
    keptHead,
    keptText,
  )
where

import qualified Codec.Compression.Zlib.Raw as Zlib
import Control.Exception (Exception, Handler (..), catches, throw, throwIO, try)
import Control.Monad (replicateM, unless)
import Control.Monad.Trans.State.Strict (StateT (..), evalStateT)
import Data.Bits (shiftL, shiftR, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder, byteString, toLazyByteString, word64LE)
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Lazy as BL
import Data.List (sortOn)
import qualified Data.Vector.Storable as VS
import qualified Data.Vector.Unboxed as VU
import Data.Word (Word32, Word64)
import Foreign.C.Error (Errno (..))
import GHC.IO.Exception (IOException (..))
import Maru.Similar.Corpus.Member
import Maru.Similar.Corpus.Students (Role (Archive))
import Maru.Similar.Corpus.Walk (Source (..), (</>))
import Maru.Similar.Language
import Maru.Similar.Open
import Maru.Similar.Store
import Maru.Similar.Submission
import Maru.Similar.Views (Parse)
import System.IO.Error (isDoesNotExistError)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.ByteString (RawFilePath)

-- | A path that cannot be used, and why.
data BadPath = BadPath !RawFilePath !ByteString
  deriving (Eq, Show)

instance Exception BadPath

-- | An index that cannot be written, and why.
data CannotWrite = CannotWrite !RawFilePath !ByteString
  deriving (Eq, Show)

instance Exception CannotWrite

-- | An open one. Submissions are counted by position: 'archiveOrder' says which each is in the file.
data Archive = OpenArchive
  { -- | The folder.
    archivePath :: !RawFilePath,
    archiveStore :: !Store,
    archiveHeads :: !ByteString,
    -- | Where each begins, 8 bytes each.
    archiveHeadStarts, archiveTextStarts :: !ByteString,
    -- | Whether it is said of any whose it is.
    archiveOwned :: !Bool,
    -- | With which minimum match length templates were taken out; 0: there were none.
    archiveMinMatch :: !Int,
    -- | Of all its submissions ('familiesOf').
    archiveFamilies :: !Word64,
    archiveOrder :: !(Maybe (VU.Vector Int))
  }

instance Eq Archive where
  a == b = archivePath a == archivePath b

instance Show Archive where
  show = show . archivePath

archiveFile :: RawFilePath -> RawFilePath
archiveFile folder = folder </> "archive"

-- | The one of a folder, of views of that recipe. Throws 'BadPath'.
openArchive :: Word32 -> RawFilePath -> IO Archive
openArchive recipe folder = readingArchive folder $ do
  store <- storeIn recipe (archiveFile folder)
  n <- storeCount store
  heads <- readSection store Heads 0 =<< storeBytes store Heads
  headStarts <- readSection store HeadFirst 0 (8 * (n + 1))
  textStarts <- readSection store TextFirst 0 (8 * (n + 1))
  unless (B.length heads >= 24) $ throwIO Damaged
  pure (OpenArchive folder store heads headStarts textStarts (wordOf heads > 0) (wordsAt heads 1) (wordOf (B.drop 16 heads)) Nothing)

storeIn :: Word32 -> RawFilePath -> IO Store
storeIn recipe path = openToRead path >>= openStore recipe

-- | Whether a file says that it is one, of whatever version, torn ones included.
isIndex :: RawFilePath -> IO Bool
isIndex path = either (/= Foreign) (const True) <$> try (storeIn 0 path)

-- | What is wrong with the file, as a 'BadPath'.
readingArchive :: RawFilePath -> IO a -> IO a
readingArchive folder act = act `catches` [Handler (bad . unusable), Handler (bad . failed)]
  where
    bad = throwIO . BadPath folder
    failed e
      | isDoesNotExistError e = "holds no index (maru similar index makes one)"
      | otherwise = "the index cannot be read: " <> reasonOf e

-- | Why it cannot be written, as a 'CannotWrite'. What is wrong with a file that is read for that is
-- a 'BadPath'.
writingArchive :: RawFilePath -> IO a -> IO a
writingArchive folder act = act `catches` [Handler (throwIO . BadPath folder . unusable), Handler (throwIO . CannotWrite folder . failed)]
  where
    failed e
      | fmap Errno (ioe_errno e) == Just eOVERFLOW = "the index would be larger than one can be: make a second one for some of the submissions"
      | otherwise = "the index cannot be written: " <> reasonOf e

-- | In the words of the system.
reasonOf :: IOException -> ByteString
reasonOf = BC.pack . ioe_description

unusable :: Unusable -> ByteString
unusable why = case why of
  Foreign -> "is no index of maru similar (maru similar index makes one)"
  OtherVersion -> "is an index of another version of maru similar, or with other grammars (another --lang, or see maru doctor): make it anew (maru similar index)"
  Damaged -> damaged

damaged :: ByteString
damaged = "its index is torn or was changed: make it anew (maru similar index)"

-- | Templates are taken out of all submissions alike: throws 'BadPath' where there are some, and
-- the one of another minimum match length has had others taken out.
fitting :: Int -> [Source] -> Archive -> IO ()
fitting m base a =
  unless (null base || archiveMinMatch a `elem` [0, m]) . throwIO . BadPath (archivePath a) $
    "templates were taken out of its submissions with --min-match " <> n <> ": with --base, give --min-match " <> n
  where
    n = BC.pack (show (archiveMinMatch a))

archiveCount :: Archive -> Int
archiveCount a = B.length (archiveHeadStarts a) `quot` 8 - 1

-- | Which one of the file a position has.
inFile :: Archive -> Int -> Int
inFile a p = maybe p (VU.! p) (archiveOrder a)

keptAt :: Archive -> Int -> Kept
keptAt a i = case headOf (slice (archiveHeadStarts a) (archiveHeads a) i) of
  Just kept -> kept
  Nothing -> throw (BadPath (archivePath a) damaged)

slice :: ByteString -> ByteString -> Int -> ByteString
slice starts bytes i = B.take (wordsAt starts (i + 1) - from) (B.drop from bytes)
  where
    from = wordsAt starts i

archiveSubmission :: Archive -> Int -> Submission
archiveSubmission a = keptSubmission . archiveKept a

archiveFingerprint :: Archive -> Int -> Word64
archiveFingerprint a = keptFingerprint . archiveKept a

archiveKept :: Archive -> Int -> Kept
archiveKept a p = keptAt a (inFile a p)

-- | As it is kept in the file ('keptText').
archiveText :: Archive -> Int -> IO ByteString
archiveText a p = readingArchive (archivePath a) (readSection (archiveStore a) Texts from (wordsAt (archiveTextStarts a) (i + 1) - from))
  where
    i = inFile a p
    from = wordsAt (archiveTextStarts a) i

-- | Its programs, with their paths.
archiveSources :: Archive -> Int -> [Source]
archiveSources a p = zipWith3 Source (submissionLanguages (keptSubmission kept)) (submissionPaths (keptSubmission kept)) texts
  where
    kept = keptAt a (inFile a p)
    texts = case textOf (keptBytes kept) (unsafePerformIO (archiveText a p)) of
      Just found -> found
      Nothing -> throw (BadPath (archivePath a) damaged)

-- | Of each one of the file, its place, from the given one on.
archivePlaces :: Int -> Archive -> VS.Vector Word32
archivePlaces from a = case archiveOrder a of
  Nothing -> VS.generate n (fromIntegral . (from +))
  Just order -> VS.replicate n 0 VS.// [(i, fromIntegral (from + p)) | (p, i) <- zip [0 ..] (VU.toList order)]
  where
    n = archiveCount a

-- | In an order that does not follow the names.
archiveShuffled :: (ByteString -> Word64) -> Archive -> Archive
archiveShuffled hash a = a {archiveOrder = Just (VU.fromList (sortOn key [0 .. archiveCount a - 1]))}
  where
    key i = let kept = keptAt a i in (keptFingerprint kept, hash (submissionName (keptSubmission kept)))

-- What is kept of a submission ----------------------------------------------------

data Kept = Kept
  { keptSubmission :: !Submission,
    -- | Of what its files hold.
    keptFingerprint :: !Word64,
    -- | Of its programs, unpacked.
    keptBytes :: !Int
  }
  deriving (Eq, Show)

keptHead :: Kept -> ByteString
keptHead (Kept s fingerprint size) =
  built (word64LE fingerprint <> foldMap int [size, submissionTokens s, submissionExcluded s, submissionErrors s, submissionUnclosed s, submissionNotJava s, submissionControls s, fromEnum (submissionParse s)] <> text (submissionName s) <> texts (submissionStudents s) <> texts (submissionPaths s) <> texts (map (BC.pack . languageName) (submissionLanguages s)))
  where
    texts ts = int (length ts) <> foldMap text ts

built :: Builder -> ByteString
built = BL.toStrict . toLazyByteString

int :: Int -> Builder
int = word64LE . fromIntegral

text :: ByteString -> Builder
text t = int (B.length t) <> byteString t

-- | 'Nothing': these bytes are none.
headOf :: ByteString -> Maybe Kept
headOf = evalStateT $ do
  fingerprint <- word
  counts <- replicateM 8 count
  name <- piece
  students <- pieces
  paths <- pieces
  named <- pieces
  languages' <- StateT (\rest -> (,rest) <$> mapM (languageNamed . BC.unpack) named)
  StateT (\rest -> if B.null rest then Just ((), rest) else Nothing)
  case counts of
    [size, tokens, excluded, errors, unclosed, notJava, controls, parsed]
      | parsed <= fromEnum (maxBound :: Parse) && length languages' == length paths ->
        pure (Kept (Submission name students Archive paths languages' tokens excluded errors unclosed notJava controls (toEnum parsed)) fingerprint size)
    _ -> StateT (const Nothing)

type Reader = StateT ByteString Maybe

word :: Reader Word64
word = StateT (\bytes -> if B.length bytes < 8 then Nothing else Just (wordOf bytes, B.drop 8 bytes))

count :: Reader Int
count = do
  w <- word
  if w >= 1 `shiftL` 48 then StateT (const Nothing) else pure (fromIntegral w)

piece :: Reader ByteString
piece = do
  n <- count
  StateT (\bytes -> if B.length bytes < n then Nothing else Just (B.splitAt n bytes))

pieces :: Reader [ByteString]
pieces = do
  n <- count
  -- Each takes 8 bytes at least.
  StateT (\bytes -> if n > B.length bytes `quot` 8 then Nothing else Just ((), bytes))
  replicateM n piece

-- | The first 8 bytes, the least first; of fewer, as if zeros followed.
wordOf :: ByteString -> Word64
wordOf bytes = B.foldr' (\b w -> w `shiftL` 8 .|. fromIntegral b) 0 (B.take 8 bytes)

-- | As a list of such; 0 beyond its end.
wordsAt :: ByteString -> Int -> Int
wordsAt bytes i = fromIntegral (wordOf (B.drop (8 * i) bytes) `min` (maxBound `shiftR` 2))

-- | Packed.
keptText :: [ByteString] -> ByteString
keptText = BL.toStrict . Zlib.compressWith Zlib.defaultCompressParams {Zlib.compressLevel = Zlib.bestSpeed} . toLazyByteString . foldMap text

-- | From so many bytes, packed. 'Nothing': these are not they.
textOf :: Int -> ByteString -> Maybe [ByteString]
textOf size packed = go [] 0 (inflated Raw (BL.fromStrict packed)) >>= files
  where
    go parts n bytes = case bytes of
      More part rest | n + B.length part <= size -> go (part : parts) (n + B.length part) rest
      End -> Just (B.concat (reverse parts))
      _ -> Nothing

    files bytes
      | B.null bytes = Just []
      | otherwise = do
        (one, rest) <- runStateT piece bytes
        (one :) <$> files rest
