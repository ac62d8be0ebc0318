-- | What is at an address of a program's file: by its symbol table, and by @addr2line@ where that
-- is installed.
module Maru.Cli.Room.Lock.Symbols
  ( resolvePlaces,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (foldM)
import Data.Binary.Get
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Chars
import Data.List (isPrefixOf)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust)
import qualified Data.Set as Set
import Data.Word (Word32, Word64)
import Maru.Cli.Section (decoded)
import Maru.Control.LockProfile.Types (Place (..))
import Numeric (showHex)
import System.Directory (findExecutable)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.Files (getFileStatus, isRegularFile)
import System.Process (readProcessWithExitCode)
import System.Timeout (timeout)

-- | Offsets in files, each to its place; and whether lines could be asked for. @code@: ask for
-- lines.
resolvePlaces :: Bool -> [(FilePath, Word64)] -> IO (Map (FilePath, Word64) Place, Bool)
resolvePlaces code wanted = do
  tool <- if code then findExecutable "addr2line" else pure Nothing
  places <- Map.traverseWithKey (\file -> resolveFile tool file . Set.toList) (Map.fromListWith Set.union [(file, Set.singleton offset) | (file, offset) <- wanted])
  pure (Map.fromList [((file, offset), p) | (file, ps) <- Map.toList places, (offset, p) <- ps], isJust tool)

resolveFile :: Maybe FilePath -> FilePath -> [Word64] -> IO [(Word64, Place)]
resolveFile tool file offsets = do
  found <- try (symbolsIn file offsets)
  let symbols = either none id found
  told <- case (found, tool) of
    (Right _, Just t) -> askLines t file offsets
    _ -> pure []
  let lines' = Map.fromList (zip offsets told)
  pure [(o, place o (Map.lookup o symbols) (Map.lookup o lines')) | o <- offsets]
  where
    none :: IOException -> Map Word64 String
    none _ = Map.empty
    place o symbol told =
      let (name, line) = fromMaybe (Nothing, Nothing) told
          -- Without debugging information the tool names the nearest symbol before, however far.
          known = if isJust line || isJust symbol then name else Nothing
       in Place (Just file) o (if isJust known then known else symbol) line

-- | Function and line of each; in the order asked, or nothing at all: it failed or took too long.
askLines :: FilePath -> FilePath -> [Word64] -> IO [(Maybe String, Maybe String)]
askLines tool file offsets = do
  ran <- try (timeout patience (readProcessWithExitCode tool ["-f", "-C", "-s", "-e", file] (unlines ["0x" ++ showHex o "" | o <- offsets])))
  pure $ case ran :: Either IOException (Maybe (ExitCode, String, String)) of
    Right (Just (ExitSuccess, out, _)) -> pairs (lines out)
    _ -> []
  where
    -- Microseconds: the debugging information of some programs is large.
    patience = 20000000
    pairs (name : line : rest) = (known name, known (takeWhile (/= ' ') line)) : pairs rest
    pairs _ = []
    known text' = if "??" `isPrefixOf` text' || ":?" `isPrefixOf` dropWhile (/= ':') text' then Nothing else Just text'

-- ---- symbol tables --------------------------------------------------------------

-- | The symbols of an ELF file of 64 bits that cover these addresses of it. Throws 'IOException'
-- if it cannot be read; what is no such file has none.
symbolsIn :: FilePath -> [Word64] -> IO (Map Word64 String)
symbolsIn file wanted = withRegularFile file $ \handle -> do
  size <- hFileSize handle
  header <- ByteString.hGet handle 64
  let slice :: Word64 -> Word64 -> IO ByteString
      slice offset bytes
        | toInteger offset + toInteger bytes > size || bytes > 0x40000000 = pure ByteString.empty
        | otherwise = hSeek handle AbsoluteSeek (toInteger offset) >> ByteString.hGet handle (fromIntegral bytes)
  case decoded sectionTable header of
    Just (offset, count) -> do
      table <- slice offset (64 * fromIntegral count)
      let sections = fromMaybe [] (decoded (mapM (const section) [1 .. count]) table)
          links = [(at, bytes, strings) | (kind, at, bytes, link) <- sections, kind == 2 || kind == 11, (_, sAt, sBytes, _) : _ <- [drop (fromIntegral link) sections], let strings = (sAt, sBytes)]
      foldM (covering slice) Map.empty links
    Nothing -> pure Map.empty
  where
    covering slice known (at, bytes, (stringsAt, stringsBytes)) = do
      symbols <- slice at bytes
      strings <- slice stringsAt stringsBytes
      pure (Map.union known (coverings strings symbols))
    coverings strings symbols = Map.map (name strings) (scan symbols (Map.fromList [(o, 0) | o <- wanted]) Map.empty)
    name strings at = Chars.unpack (Chars.takeWhile (/= '\0') (ByteString.drop (fromIntegral at) strings))

-- | Opening another kind of file may wait for ever.
withRegularFile :: FilePath -> (Handle -> IO a) -> IO a
withRegularFile file act = do
  status <- getFileStatus file
  if isRegularFile status then withBinaryFile file ReadMode act else ioError (userError (file ++ " is no file"))

-- | Which symbol's name covers each wanted address; 24 bytes a symbol.
scan :: ByteString -> Map Word64 Word32 -> Map Word64 Word32 -> Map Word64 Word32
scan symbols wanted = go 0
  where
    count = ByteString.length symbols `div` 24
    go i found
      | i >= count = found
      | kind == 1 || kind == 2 || kind == 10,
        size > 0,
        Just (o, _) <- Map.lookupGE value wanted,
        o - value < size =
        go (i + 1) (foldr (`Map.insert` string) found (takeWhile (\w -> w - value < size) (o : map fst (Map.toAscList (snd (Map.split o wanted))))))
      | otherwise = go (i + 1) found
      where
        at = i * 24
        kind = ByteString.index symbols (at + 4) .&. 15
        value = word64 (at + 8)
        size = word64 (at + 16)
        string = fromIntegral (word 4 at)
    word64 = word 8
    word :: Int -> Int -> Word64
    word bytes at = foldr (\k acc -> acc * 256 + fromIntegral (ByteString.index symbols (at + k))) 0 [0 .. bytes - 1]

-- | Offset and number of the sections, of a little-endian file of 64 bits.
sectionTable :: Get (Word64, Int)
sectionTable = do
  magic <- getByteString 6
  if magic /= ByteString.pack [0x7f, 0x45, 0x4c, 0x46, 2, 1] then fail "another kind of file" else skip 34
  offset <- getWord64le
  skip 10
  size <- getWord16le
  count <- getWord16le
  if size /= 64 then fail "another kind of file" else pure (offset, fromIntegral count)

-- | Type, offset, size and link.
section :: Get (Word32, Word64, Word64, Word32)
section = do
  skip 4
  kind <- getWord32le
  skip 16
  offset <- getWord64le
  size <- getWord64le
  link <- getWord32le
  skip 20
  pure (kind, offset, size, link)
