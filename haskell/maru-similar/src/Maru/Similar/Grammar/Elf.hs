{-# LANGUAGE OverloadedStrings #-}

-- | Is a file a whole shared library? The linker maps what a library's head promises; a program
-- dies that touches a page behind the end of a file that was cut off.
module Maru.Similar.Grammar.Elf
  ( wholeLibrary,
  )
where

import Control.Exception (IOException, try)
import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import System.IO
import System.IO.Error (ioeGetErrorString)

-- | Or what is wrong with it. Reads its head only.
wholeLibrary :: FilePath -> IO (Either String ())
wholeLibrary path = either unread id <$> (try look :: IO (Either IOException (Either String ())))
  where
    unread e = Left (ioeGetErrorString e)
    look = withBinaryFile path ReadMode $ \h -> do
      size <- hFileSize h
      judge size <$> B.hGet h 64

-- | Of a file's size and first 64 bytes.
judge :: Integer -> ByteString -> Either String ()
judge size first
  | B.length first < 64 || B.take 4 first /= "\DELELF" = Left "no shared library"
  | B.take 3 (B.drop 4 first) /= "\2\1\1" = Left "no shared library of 64 bits"
  | end > size = Left "cut off"
  | otherwise = Right ()
  where
    -- The section headers are the last of a library.
    end = field 40 8 + field 58 2 * field 60 2
    field at n = B.foldr (\byte more -> more `shiftL` 8 .|. fromIntegral byte) 0 (B.take n (B.drop at first)) :: Integer
