-- | What this process's parallel maps add to the board of the run that it
-- belongs to (@maru run@), for @maru top@. /Internal/.
module Maru.Native.Totals
  ( Totals (..),
    noTotals,
    addTotals,
    sayOnBoard,
  )
where

import Control.Monad (unless, zipWithM_)
import Data.Int (Int64)
import Foreign (Ptr, nullPtr)
import Foreign.C (CString, CUInt (..))
import qualified GHC.Foreign as Foreign
import GHC.IO.Encoding.Failure (CodingFailureMode (..))
import GHC.IO.Encoding.UTF8 (mkUTF8)
import System.IO.Unsafe (unsafePerformIO)

data CTotals

foreign import ccall unsafe "maru_map_totals_open" c_open :: IO (Ptr CTotals)

foreign import ccall unsafe "maru_map_totals_add" c_add :: Ptr CTotals -> CUInt -> Int64 -> IO ()

foreign import ccall unsafe "maru_map_say" c_say :: CString -> IO ()

-- | In the order of @struct maru_map_totals@.
data Totals = Totals
  { totalMaps :: !Int,
    totalWorkersAlive :: !Int,
    totalWorkersStarted :: !Int,
    totalWorkersLost :: !Int,
    totalItems :: !Int,
    totalInCaller :: !Int
  }

noTotals :: Totals
noTotals = Totals 0 0 0 0 0 0

-- Opened at the first use; null without a board.
shared :: Ptr CTotals
shared = unsafePerformIO c_open
{-# NOINLINE shared #-}

-- | @addTotals before now@ adds what has changed since it was last told.
addTotals :: Totals -> Totals -> IO ()
addTotals before now =
  unless (shared == nullPtr) $
    zipWithM_ (\which f -> c_add shared which (fromIntegral (f now - f before))) [0 ..] counters
  where
    counters =
      [totalMaps, totalWorkersAlive, totalWorkersStarted, totalWorkersLost, totalItems, totalInCaller]

-- | A line for the board's log, where there is a board. In UTF-8 whatever the locale is: that
-- may have no code for a letter.
sayOnBoard :: String -> IO ()
sayOnBoard line = unless (shared == nullPtr) (Foreign.withCString (mkUTF8 TransliterateCodingFailure) line c_say)
