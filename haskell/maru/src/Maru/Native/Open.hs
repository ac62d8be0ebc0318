-- | Descriptors by path, with every version of @unix@: the type of its @openFd@ has changed.
-- /Internal/.
module Maru.Native.Open (openExisting) where

import Data.Bits ((.|.))
import Foreign.C (CInt)
import System.Posix.Error (throwErrnoPathIfMinus1Retry)
import System.Posix.IO (OpenMode (..))
import System.Posix.Internals (c_open, o_NOCTTY, o_RDONLY, o_RDWR, o_WRONLY, withFilePath)
import System.Posix.Types (Fd (..))

-- | A descriptor, not closed on exec, of a file that exists. Throws @IOException@.
openExisting :: FilePath -> OpenMode -> IO Fd
openExisting path mode =
  Fd <$> throwErrnoPathIfMinus1Retry "open" path (withFilePath path $ \p -> c_open p (flags .|. o_NOCTTY) 0)
  where
    flags :: CInt
    flags = case mode of
      ReadOnly -> o_RDONLY
      WriteOnly -> o_WRONLY
      ReadWrite -> o_RDWR
