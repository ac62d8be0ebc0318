-- | Descriptors by path, with every version of @unix@: the type of its @openFd@ has changed.
--
-- None waits for another side of a pipe, becomes a terminal of the process, or is inherited by a
-- program that it runs. What fails is an @IOException@ with the path.
module Maru.Similar.Open
  ( openToRead,
    openNew,
    openOrMake,
  )
where

import Data.Bits ((.|.))
import Foreign.C.Types (CInt)
import System.Posix.ByteString (Fd (..), FdOption (..), RawFilePath, setFdOption)
import System.Posix.ByteString.FilePath (throwErrnoPathIfMinus1Retry, withFilePath)
import System.Posix.Internals (c_open, o_CREAT, o_EXCL, o_NOCTTY, o_NONBLOCK, o_RDONLY, o_RDWR)

-- | Of what is there; a folder, too.
openToRead :: RawFilePath -> IO Fd
openToRead = open o_RDONLY

-- | To read and to write. It must not be there yet.
openNew :: RawFilePath -> IO Fd
openNew = open (o_RDWR .|. o_CREAT .|. o_EXCL)

-- | To read and to write what is there, or a new file.
openOrMake :: RawFilePath -> IO Fd
openOrMake = open (o_RDWR .|. o_CREAT)

open :: CInt -> RawFilePath -> IO Fd
open flags path = do
  fd <- throwErrnoPathIfMinus1Retry "open" path (withFilePath path $ \p -> c_open p (flags .|. o_NOCTTY .|. o_NONBLOCK) 0o600)
  Fd fd <$ setFdOption (Fd fd) CloseOnExec True
