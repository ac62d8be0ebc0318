-- | Files that are whole or not there: what is written takes the file's name when it is complete.
module Maru.Cli.WholeFile
  ( replaceFile,
    checkReplaceable,
  )
where

import Control.Exception (IOException, bracketOnError, throwIO, try)
import Control.Monad (void, when)
import qualified Data.ByteString as ByteString
import Data.List (isPrefixOf)
import Data.Maybe (isNothing)
import Maru.Cli.Exit (orNothing)
import System.Directory (removeFile, renameFile)
import System.FilePath (takeDirectory, takeFileName, (</>))
import System.IO
import System.Posix.Files

-- | The file holds what the action has written when that is done; until then, or if it fails, what it
-- held before. Links are followed; its owner and permissions stay. What cannot change its place is
-- written to: a device, a pipe, what is below @\/dev@ and @\/proc@, a file in a folder where no other
-- can be made, and one that is mounted by itself.
replaceFile :: FilePath -> (Handle -> IO ()) -> IO ()
replaceFile file write = placeOf file >>= maybe (direct file) replace
  where
    direct path = withBinaryFile path WriteMode write
    replace (target, before) = do
      replaced <- bracketOnError (beside target) (mapM_ discard) (mapM (moved target before))
      case replaced of
        Right True -> pure ()
        Left e | isNothing before -> throwIO e
        _ -> direct target
    beside :: FilePath -> IO (Either IOException (FilePath, Handle))
    beside target = try (openBinaryTempFileWithDefaultPermissions (takeDirectory target) ('.' : takeFileName target))
    discard (path, handle) = void (orNothing (hClose handle) >> orNothing (removeFile path))
    moved target before (path, handle) = do
      write handle
      hClose handle
      mapM_ (likewise path) before
      done <- try (renameFile path target)
      case done of
        Right () -> pure True
        Left e -> do
          when (isNothing before) (throwIO (e :: IOException))
          False <$ removeFile path
    likewise path status = do
      void (orNothing (setOwnerAndGroup path (fileOwner status) (fileGroup status)))
      setFileMode path (fileMode status `intersectFileModes` accessModes)

-- | The file behind all links, and what it is now, if it is there. 'Nothing': it keeps its place.
placeOf :: FilePath -> IO (Maybe (FilePath, Maybe FileStatus))
placeOf = go (40 :: Int)
  where
    go links path
      | links == 0 || any (`isPrefixOf` path) ["/dev/", "/proc/"] = pure Nothing
      | otherwise = orNothing (readSymbolicLink path) >>= maybe (here path) (go (links - 1) . (takeDirectory path </>))
    here path = do
      status <- orNothing (getFileStatus path)
      pure (if maybe True isRegularFile status then Just (path, status) else Nothing)

-- | Fails where 'replaceFile' would, and leaves everything as it is.
checkReplaceable :: FilePath -> IO ()
checkReplaceable file = do
  place <- placeOf file
  ByteString.appendFile file ByteString.empty
  case place of
    Just (target, Nothing) -> removeFile target
    _ -> pure ()
