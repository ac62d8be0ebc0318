-- | Lines for people, on standard error. /Internal/.
module Maru.Internal.Say
  ( sayLine,
  )
where

import Control.Exception (IOException, handle)
import qualified GHC.Foreign as Foreign
import GHC.IO.Encoding.Failure (CodingFailureMode (..))
import GHC.IO.Encoding.UTF8 (mkUTF8)
import System.IO (hPutBuf, stderr)

-- | The line, whole, whatever other threads say: 'System.IO.hPutStrLn' writes an unbuffered handle
-- character by character, so that two lines may be mixed. In UTF-8. Does nothing where nobody can
-- hear: the end of a peer must not be left undone for that.
sayLine :: String -> IO ()
sayLine line = handle unheard (Foreign.withCStringLen (mkUTF8 RoundtripFailure) (line <> "\n") (uncurry (hPutBuf stderr)))
  where
    unheard :: IOException -> IO ()
    unheard _ = pure ()
