-- | The boards that channels lie on (@maru\/board.h@). /Internal/.
module Maru.Native.Hall
  ( Hall (..),
    CBoard,
    newHall,
    hallOfRun,
    orRefused,
  )
where

import Control.Exception (throwIO)
import Control.Monad (when)
import Foreign (ForeignPtr, Ptr, mallocForeignPtrBytes, withForeignPtr)
import Foreign.C (CInt (..), CSize (..), Errno (..), errnoToIOError)
import GHC.IO.Exception (IOException (..))
import Maru.Failure (Unavailable (..))

data CBoard

-- | Where channels lie: the board of this run, else one of our own. It stays
-- mapped until the process ends.
newtype Hall = Hall (ForeignPtr CBoard)

foreign import ccall unsafe "maru_board_open_env" c_openEnv :: Ptr CBoard -> IO CInt

foreign import ccall unsafe "maru_board_forget_fd" c_forgetFd :: Ptr CBoard -> IO ()

foreign import ccall unsafe "maru_board_create" c_create :: Ptr CBoard -> CSize -> IO CInt

-- | Throws 'Unavailable' without shared memory.
newHall :: IO Hall
newHall = hallOfRun >>= maybe ownHall pure

-- | The board of the run that this process belongs to. One that cannot be used is as
-- none: the program goes on.
hallOfRun :: IO (Maybe Hall)
hallOfRun = do
  board <- mallocForeignPtrBytes 24
  found <- withForeignPtr board $ \b -> do
    found <- c_openEnv b
    found <$ when (found >= 0) (c_forgetFd b)
  pure (if found < 0 then Nothing else Just (Hall board))

ownHall :: IO Hall
ownHall = do
  board <- mallocForeignPtrBytes 24
  withForeignPtr board $ \b -> c_create b (1024 * 1024) >>= orRefused "a board in shared memory"
  pure (Hall board)

orRefused :: String -> CInt -> IO ()
orRefused what status = when (status < 0) . throwIO $ Unavailable what why "look at `maru doctor`"
  where
    why = ioe_description (errnoToIOError "" (Errno (negate status)) Nothing Nothing)
