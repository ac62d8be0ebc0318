-- | Extended regular expressions of POSIX, as the C library has them (@regex.h@).
module Maru.Native.Regex
  ( Regex,
    compileRegex,
    firstGroup,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Foreign.C.String (CString, peekCString, withCString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes, mallocBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff)
import System.IO.Unsafe (unsafePerformIO)

#include <regex.h>

-- | For the rest of the process's life: at the end of it 'firstGroup' may still be at work.
newtype Regex = Regex (Ptr ())

foreign import ccall unsafe "regcomp"
  regcomp :: Ptr () -> CString -> CInt -> IO CInt

foreign import ccall unsafe "regerror"
  regerror :: CInt -> Ptr () -> CString -> CSize -> IO CSize

-- | It may take long.
foreign import ccall safe "regexec"
  regexec :: Ptr () -> CString -> CSize -> Ptr () -> CInt -> IO CInt

-- | What is wrong with it; without a group in parentheses it is wrong, too.
compileRegex :: String -> IO (Either String Regex)
compileRegex text = do
  regex <- mallocBytes #{size regex_t}
  status <- withCString text (\c -> regcomp regex c #{const REG_EXTENDED})
  if status /= 0
    then Left <$> explain status regex
    else do
      groups <- #{peek regex_t, re_nsub} regex :: IO CSize
      pure (if groups == 0 then Left "it has no group in parentheses" else Right (Regex regex))
  where
    explain status regex = allocaBytes 256 $ \said -> regerror status regex said 256 >> peekCString said

-- | What the first group has matched in a line.
firstGroup :: Regex -> ByteString -> Maybe ByteString
firstGroup (Regex regex) line = unsafePerformIO $
  ByteString.useAsCString line $ \text ->
    allocaBytes (2 * #{size regmatch_t}) $ \matches -> do
      status <- regexec regex text 2 matches 0
      let group = matches `plusPtr` #{size regmatch_t} :: Ptr ()
      from <- #{peek regmatch_t, rm_so} group :: IO CInt
      to <- #{peek regmatch_t, rm_eo} group :: IO CInt
      pure (if status /= 0 || from < 0 then Nothing else Just (slice (fromIntegral from) (fromIntegral to)))
  where
    slice from to = ByteString.take (to - from) (ByteString.drop from line)
