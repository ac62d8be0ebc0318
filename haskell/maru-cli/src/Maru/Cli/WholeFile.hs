-- | Files that are whole or not there: what is written takes the file's name when it is complete.
module Maru.Cli.WholeFile
  ( replaceFile,
    readAtMost,
    readWithin,
    checkReplaceable,
  )
where

import Control.Exception (IOException, bracket, bracketOnError, evaluate, throwIO, try)
import Control.Monad (filterM, unless, void, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Lazy as Lazy
import Data.List (isPrefixOf)
import Data.Maybe (isJust, isNothing, listToMaybe)
import Maru.Cli.Exit (orNothing, reason)
import System.Directory (removeFile, renameFile)
import System.FilePath (takeDirectory, takeFileName, (</>))
import System.IO
import System.Posix.Files
import System.Posix.IO (dup, fdToHandle, stdError, stdOutput)
import System.Posix.Types (Fd)

-- | What a file holds; 'Nothing' where that is more than so many bytes, as of a device without end.
readAtMost :: Int -> FilePath -> IO (Maybe ByteString.ByteString)
readAtMost most file = do
  bytes <- withBinaryFile file ReadMode $ \from -> do
    held <- Lazy.hGetContents from
    evaluate (Lazy.toStrict (Lazy.take (fromIntegral most + 1) held))
  pure (if ByteString.length bytes > most then Nothing else Just bytes)

-- | What a file of so many MiB at most holds; 'Left': why not, in a few words.
readWithin :: Int -> FilePath -> IO (Either String Lazy.ByteString)
readWithin most file = either (Left . reason) (maybe (Left tooLarge) (Right . Lazy.fromStrict)) <$> try (readAtMost (most * 1048576) file)
  where
    tooLarge = "it is larger than " ++ show most ++ " MiB"

-- | The file holds what the action has written when that is done; until then, or if it fails, what
-- it held before. Links are followed; its owner and permissions stay, and what may not be written
-- to is not replaced. What cannot change its place is written to: a device, a pipe, what is below
-- @\/dev@ and @\/proc@, a file in a folder where no other can be made, one that is mounted by
-- itself or has several names, and one of somebody else whose owner and group we cannot give to
-- another. What leads to this process's standard output or error goes behind what is there.
replaceFile :: FilePath -> (Handle -> IO ()) -> IO ()
replaceFile file write = placeOf file >>= maybe (direct file) replace
  where
    direct path = standardAt path >>= maybe (withBinaryFile path WriteMode write) (`through` write)
    replace (target, before) = do
      replaced <- bracketOnError (beside target) (mapM_ discard) (mapM (moved target before))
      case replaced of
        Right True -> pure ()
        Left e | isNothing before -> throwIO e
        _ -> direct target
    beside :: FilePath -> IO (Either IOException (FilePath, Handle))
    beside target = try (openBinaryTempFileWithDefaultPermissions (takeDirectory target) ('.' : takeFileName target))
    discard (path, handle) = void (orNothing (hClose handle) >> orNothing (removeFile path))
    -- A user that may not read the file may not read what becomes it, either: the permissions come
    -- first.
    moved target before (path, handle) = do
      alike <- maybe (pure True) (likewise path) before
      if alike then filled target before (path, handle) else False <$ (hClose handle >> removeFile path)
    filled target before (path, handle) = do
      write handle
      hClose handle
      done <- try (renameFile path target)
      case done of
        Right () -> pure True
        Left e -> do
          when (isNothing before) (throwIO (e :: IOException))
          False <$ removeFile path
    likewise path status = do
      setFileMode path (fileMode status `intersectFileModes` accessModes)
      ours <- whose <$> getFileStatus path
      if ours == whose status then pure True else isJust <$> orNothing (uncurry (setOwnerAndGroup path) (whose status))
    whose status = (fileOwner status, fileGroup status)

-- | Standard output or error, if that is a file and the path leads to it. Opened anew it would be emptied,
-- and what goes there in the usual way would overwrite this.
standardAt :: FilePath -> IO (Maybe Fd)
standardAt path = orNothing (getFileStatus path) >>= maybe (pure Nothing) among
  where
    among status = if isRegularFile status then listToMaybe <$> filterM (fmap (maybe False (same status)) . orNothing . getFdStatus) [stdOutput, stdError] else pure Nothing
    same one other = (deviceID one, fileID one) == (deviceID other, fileID other)

-- | Writes behind what has been written there.
through :: Fd -> (Handle -> IO ()) -> IO ()
through fd write = do
  mapM_ hFlush [stdout, stderr]
  bracket (dup fd >>= fdToHandle) hClose $ \handle -> hSetBinaryMode handle True >> write handle

-- | The file behind all links, and what it is now, if it is there. 'Nothing': it keeps its place.
placeOf :: FilePath -> IO (Maybe (FilePath, Maybe FileStatus))
placeOf = go (40 :: Int)
  where
    go links path
      | links == 0 || any (`isPrefixOf` path) ["/dev/", "/proc/"] = pure Nothing
      | otherwise = orNothing (readSymbolicLink path) >>= maybe (here path) (go (links - 1) . (takeDirectory path </>))
    here path = orNothing (getFileStatus path) >>= maybe (pure (Just (path, Nothing))) (there path)
    there path status = do
      writable <- orNothing (fileAccess path False True False)
      pure (if isRegularFile status && linkCount status == 1 && writable == Just True then Just (path, Just status) else Nothing)

-- | Fails where 'replaceFile' would, and leaves everything as it is. A pipe is not tried: its
-- reader would find its end.
checkReplaceable :: FilePath -> IO ()
checkReplaceable file = do
  pipe <- maybe False isNamedPipe <$> orNothing (getFileStatus file)
  unless pipe $ do
    place <- placeOf file
    ByteString.appendFile file ByteString.empty
    case place of
      Just (target, Nothing) -> removeFile target
      _ -> pure ()
