-- | What is the user's own code, is done for a message only, and may have no end: the text of an
-- exception. /Internal/.
module Maru.Internal.Attempt
  ( attempt,
    textOf,
    longestText,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad (unless)
import Data.Maybe (fromMaybe)
import Data.Unique
import GHC.Conc (ThreadStatus (..), threadStatus)
import GHC.IO (unsafeUnmask)
import Maru.Failure (exceptionText)
import System.CPUTime (getCPUTime)

newtype GivenUp = GivenUp Unique
  deriving (Eq)

instance Show GivenUp where
  show _ = "maru: given up"

-- As of a timeout: handlers of ordinary exceptions let it pass.
instance Exception GivenUp where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | 'Nothing': it throws, or it was given up. That is after it ran for so many milliseconds, if this
-- process had as many of processor time meanwhile. One that waits, or that the machine has no processor
-- for, has two seconds at least. The time counted is that of looks at it: a process without a processor
-- does not look either.
attempt :: Int -> IO a -> IO (Maybe a)
attempt ms act = either none id <$> try bounded
  where
    none SomeException {} = Nothing
    bounded = do
      me <- myThreadId
      mark <- GivenUp <$> newUnique
      handleJust (\e -> if e == mark then Just () else Nothing) (\() -> pure Nothing) $
        bracket
          (forkIOWithUnmask (\unmask -> unmask (getCPUTime >>= untilLate me 0 (0, 0)) >> throwTo me mark))
          -- It is stopped in any case: else its exception would meet what comes afterwards.
          (uninterruptibleMask_ . killThread)
          (\_ -> Just <$> act)
    untilLate me looked (ran, used) before = do
      threadDelay (1000 * apart)
      now <- getCPUTime
      status <- threadStatus me
      let passed = looked + apart
          running = if status == ThreadRunning then (ran + apart, used + now - before) else (ran, used)
          late = fst running >= ms && snd running >= fromIntegral ms * 1000000000 || passed >= max ms 2000
      unless late (untilLate me passed running now)
    apart = 50

-- | What an exception says, as far as it says it. All of it is evaluated: to look at it runs
-- no code of the user's. The caller may be masked.
textOf :: SomeException -> IO String
textOf e = fromMaybe "(its text throws, or has no end)" <$> attempt 200 (unsafeUnmask (whole (take longestText (exceptionText e))))
  where
    whole text = text <$ evaluate (foldr seq () text)

-- | Characters of an exception's text: that many always have room.
longestText :: Int
longestText = 10000
