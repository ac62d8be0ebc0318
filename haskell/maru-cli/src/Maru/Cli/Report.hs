-- | A command that plans, becomes another program, and is started by that for the last words. What
-- was planned travels in a memory file that nobody inherits but these.
module Maru.Cli.Report
  ( checkWritable,
    newReport,
    readReport,
    lastWord,
    become,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Unsafe as ByteString
import Foreign.Ptr (castPtr)
import Maru.Cli.Exit
import Maru.Cli.WholeFile (checkReplaceable)
import Maru.Native.Probe (ignoreAgain, scratchDescriptor)
import System.Exit (ExitCode (..))
import System.IO (SeekMode (AbsoluteSeek), hFlush, stderr)
import System.Posix.IO (FdOption (CloseOnExec), fdSeek, fdToHandle, fdWriteBuf, setFdOption)
import System.Posix.Process (executeFile)
import System.Posix.Types (Fd)
import Text.Read (readMaybe)

-- | Found out now, not after hours; ends with that status if it cannot be. @-@ is standard output.
checkWritable :: Int -> FilePath -> IO ()
checkWritable _ "-" = pure ()
checkWritable status file = try (checkReplaceable file) >>= either (\e -> problem status ("cannot write " ++ file ++ ": " ++ reason e)) pure

-- | Holds these bytes, for the program that this process becomes.
newReport :: ByteString -> IO Fd
newReport bytes = do
  scratch <- scratchDescriptor "maru-report" >>= either noMemory pure
  try (write scratch bytes) >>= either (noMemory . reason) pure
  scratch <$ setFdOption scratch CloseOnExec False
  where
    noMemory why = problem maruFailed ("no memory for the report: " ++ why)
    write fd left = unless (ByteString.null left) $ do
      written <- ByteString.unsafeUseAsCStringLen left (\(p, n) -> fdWriteBuf fd (castPtr p) (fromIntegral n))
      write fd (ByteString.drop (fromIntegral written) left)

-- | All of it; closes it.
readReport :: Fd -> IO ByteString
readReport fd = fdSeek fd AbsoluteSeek 0 >> fdToHandle fd >>= ByteString.hGetContents

-- | From @DESCRIPTOR STATUS ...@: what says what was measured. The status is the command's,
-- whatever happens here; negative, it is the signal to die of. The first argument: for whom alone
-- this is.
lastWord :: String -> (Fd -> Int -> [String] -> IO ()) -> [String] -> IO ExitCode
lastWord _ say (descriptor : code : more)
  | Just fd <- readMaybe descriptor,
    Just status <- readMaybe code = do
    told <- try (try (say (fromInteger fd) status more))
    mapM_ warn $ case told of
      Left e -> Just ("cannot say what was measured: " ++ reason e)
      Right (Left (Problem _ why)) -> Just why
      Right (Right ()) -> Nothing
    pure (if status == 0 then ExitSuccess else ExitFailure status)
lastWord whose _ _ = problem usage whose

-- | This process becomes the program; ends with the status if it cannot.
become :: Int -> FilePath -> [String] -> IO a
become status program arguments = do
  _ <- orNothing (hFlush stderr)
  ignoreAgain
  failed <- try (executeFile program False arguments Nothing)
  either (\e -> problem status ("cannot execute " ++ program ++ ": " ++ reason (e :: IOException))) pure failed
