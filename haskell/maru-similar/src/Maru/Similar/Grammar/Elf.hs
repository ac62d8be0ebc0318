{-# LANGUAGE OverloadedStrings #-}

-- | Is a file a shared library as it was built? The linker maps what a library's head promises, and
-- runs what is in it: a program dies by one that was cut off or damaged. So @scripts\/grammars@ puts
-- a checksum behind the library, and nothing is opened that does not fit its own.
module Maru.Similar.Grammar.Elf
  ( wholeLibrary,
  )
where

import Control.Exception (IOException, try)
import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as BC
import qualified Data.ByteString.Unsafe as B
import Foreign.Ptr (castPtr)
import GHC.Fingerprint (fingerprintData)
import System.IO.Error (ioeGetErrorString)
import System.IO.Unsafe (unsafePerformIO)

-- | Or what is wrong with it. Reads it all.
wholeLibrary :: FilePath -> IO (Either String ())
wholeLibrary path = either (Left . ioeGetErrorString) judge <$> (try (B.readFile path) :: IO (Either IOException ByteString))

judge :: ByteString -> Either String ()
judge file
  | B.length first < 64 || B.take 4 first /= "\DELELF" = Left "no shared library"
  | B.take 3 (B.drop 4 first) /= "\2\1\1" = Left "no shared library of 64 bits"
  | end > fromIntegral (B.length file) = Left "cut off"
  | B.null sealed = Left "no checksum of scripts/grammars is behind it: another made it, or strip has changed it; make grammars makes it anew"
  | sealed /= sealOf library = Left "damaged: it does not fit its checksum"
  | otherwise = Right ()
  where
    first = B.take 64 file
    (library, sealed) = case B.splitAt (B.length file - B.length (sealOf "")) file of
      (body, end') | sealMark `B.isPrefixOf` end' -> (body, end')
      _ -> (file, "")
    -- The section headers are the last of a library.
    end = field 40 8 + field 58 2 * field 60 2
    field at n = B.foldr (\byte more -> more `shiftL` 8 .|. fromIntegral byte) 0 (B.take n (B.drop at first)) :: Integer

-- | What stands behind a library: the MD5 sum of all before it.
sealOf :: ByteString -> ByteString
sealOf library = sealMark <> BC.pack (show (unsafePerformIO sum'))
  where
    sum' = B.unsafeUseAsCStringLen library $ \(bytes, n) -> fingerprintData (castPtr bytes) n

sealMark :: ByteString
sealMark = "maru-md5:"
